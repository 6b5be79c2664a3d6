"""The output of checkers and other programs within error messages.

A checker may quote the line that it refuses, which may be part of a Secret. So a message contains
the output together with a sentence that replaces it. The unix socket shows the output, the TCP port
never does, and the log only with `--log-checker-output`.
"""

from __future__ import annotations

from hotmap.core.text import printable

__all__ = ["describe_exit_status", "mark_output", "omit_output", "reveal_output"]

#: Around the words and their replacement: control characters, which no message has otherwise.
_WORDS, _INSTEAD, _END = "\x0e", "\x0f", "\x10"

#: Where the words are shown.
_HINT = "its output is shown by 'hotmap agent status' and with --log-checker-output"

#: What a shell means by an exit status, and we where a program cannot be started.
_MEANINGS = {126: " (a program may not be executed)", 127: " (a program was not found)"}


def describe_exit_status(status: int) -> str:
    """Describe an exit status where the output is not shown, which would say more."""
    return f"exit status {status}{_MEANINGS.get(status, '')}"


def mark_output(output: str, instead: str) -> str:
    """Put a program's output into a message, with a sentence without it; "" output gives that.

    Control characters and escape sequences become visible; line ends stay.
    """
    lines = [printable(line.replace("\t", " ").rstrip()) for line in output.splitlines()]
    shown = "\n".join(lines).strip()
    return f"{_WORDS}{shown}{_INSTEAD}{instead}; {_HINT}{_END}" if shown else instead


def reveal_output(text: str) -> str:
    """Return a message with the words of programs."""
    return _resolve(text, reveal=True)


def omit_output(text: str) -> str:
    """Return a message without them."""
    return _resolve(text, reveal=False)


def _resolve(text: str, *, reveal: bool) -> str:
    first, *parts = text.split(_WORDS)
    resolved = first
    for part in parts:
        words, _, rest = part.partition(_INSTEAD)
        instead, _, after = rest.partition(_END)
        resolved += (words if reveal else instead) + after
    return resolved
