"""Expands $(NAME) in commands, arguments and values, as the kubelet does.

Standard library only: the agent uses this module.
"""

from __future__ import annotations

__all__ = ["expand"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def expand(text: str, lookup: Callable[[str], str | None]) -> str:
    """Replace $(NAME) by what `lookup` returns for the name, in one pass.

    `$$` is a `$`, so `$$(NAME)` is left as `$(NAME)`; an unknown name (None), an unterminated
    `$(` and a `$` before anything else are unchanged; inserted values are not expanded again
    (kubernetes: third_party/forked/golang/expansion/expand.go).
    """
    parts: list[str] = []
    position = 0
    while True:
        dollar = text.find("$", position)
        if dollar < 0 or dollar + 1 == len(text):
            return "".join([*parts, text[position:]])
        parts.append(text[position:dollar])
        follower = text[dollar + 1]
        end = text.find(")", dollar + 2) if follower == "(" else -1
        if end >= 0:
            value = lookup(text[dollar + 2 : end])
            parts.append(text[dollar : end + 1] if value is None else value)
            position = end + 1
        else:
            parts.append("$" if follower == "$" else f"${follower}")
            position = dollar + 2
