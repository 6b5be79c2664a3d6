"""File patterns: `*` and `?`, without a regular expression."""

from __future__ import annotations

__all__ = ["matches", "select_files"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def select_files(
    files: Mapping[str, str], patterns: Iterable[str], roots: Iterable[str]
) -> set[str]:
    """Select files by patterns.

    A pattern with a leading slash is matched against the absolute path, one without against the
    path relative to its directory. `*` matches any characters, slashes too.
    """
    wanted = list(patterns)
    if wanted == ["*"]:
        return set(files)
    chosen = set()
    for path in files:
        texts = [path, *(path[len(root) + 1 :] for root in roots if path.startswith(f"{root}/"))]
        if any(matches(pattern, text) for pattern in wanted for text in texts):
            chosen.add(path)
    return chosen


def matches(pattern: str, text: str) -> bool:
    """Match a text against `*` (anything) and `?` (one character), in constant space."""
    at = mark = 0
    star = -1
    place = 0
    while place < len(text):
        if at < len(pattern) and pattern[at] == "*":
            star, mark = at, place
            at += 1
        elif at < len(pattern) and pattern[at] in ("?", text[place]):
            at += 1
            place += 1
        elif star >= 0:
            mark += 1
            at, place = star + 1, mark
        else:
            return False
    return pattern[at:].strip("*") == ""
