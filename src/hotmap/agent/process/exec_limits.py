"""Whether the kernel would start a program with these words and variables (execve(2)).

Known before the running application is stopped, so that a variable which is too large does
not end it.
"""

from __future__ import annotations

import os

__all__ = ["find_exec_error"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Pages of one word or variable, with its name and a NUL byte (linux: MAX_ARG_STRLEN).
_MAX_PAGES = 32

#: Bytes of all of them: a quarter of the stack limit, within these bounds (linux: fs/exec.c,
#: bprm_stack_limits).
_MIN_TOTAL, _MAX_TOTAL = 128 << 10, 6 << 20

#: Bytes for the program's path, and an interpreter's.
_RESERVED = 8 << 10

_POINTER = 8


def find_exec_error(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return why a program cannot be started with these, in one sentence; "" when it can.

    Names variables, never their values.
    """
    most = _MAX_PAGES * os.sysconf("SC_PAGE_SIZE") - 1
    total = (len(words) + len(environment)) * _POINTER + _RESERVED
    for number, word in enumerate(words):
        size = len(os.fsencode(word))
        if size > most:
            return f"argument {number} has {size} bytes; a program can take {most}"
        total += size + 1
    for name, value in environment.items():
        size = len(os.fsencode(name)) + 1 + len(os.fsencode(value))
        if size > most:
            return (
                f"environment variable {name} has {size} bytes with its name; a program can take "
                f"{most}"
            )
        total += size + 1
    limit = _total_limit()
    if total > limit:
        return (
            f"environment and arguments have {total} bytes; a program can take {limit} (a quarter "
            "of the stack limit)"
        )
    return ""


def _total_limit() -> int:
    import resource

    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    quarter = _MAX_TOTAL if stack == resource.RLIM_INFINITY else stack // 4
    return max(_MIN_TOTAL, min(quarter, _MAX_TOTAL))
