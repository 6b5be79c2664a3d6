"""Files of environment variables in volumes: `fileKeyRef` (KEP-3721).

kubernetes: pkg/kubelet/util/env. The format is a part of a shell's: `NAME='value'` on lines of
their own, the value always in single quotes and as it is, also over several lines.
"""

from __future__ import annotations

import os
import stat
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["EnvFileError", "find_variable", "read_env_file"]

#: Bytes of a file that are read; the kubelet's limit is one for each line.
_MAX_SIZE = 1 << 20
_BLANK = " \t"


class EnvFileError(ValueError):
    """Raised when a file cannot be read as one of environment variables."""


def read_env_file(volume: Path, path: str) -> str:
    """Read a file below a volume, following no links, which the pod may have made.

    Raises:
        EnvFileError: there is no such file, or it is too large.
    """
    steps = [step for step in PurePosixPath(path).parts if step != "/"]
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        current = os.open(volume, flags | os.O_DIRECTORY)
        for step in steps:
            above = current
            try:
                current = os.open(step, flags, dir_fd=above)
            finally:
                os.close(above)
        with os.fdopen(current, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise EnvFileError("not a file")
            data = file.read(_MAX_SIZE + 1)
    except OSError as error:
        raise EnvFileError(error.strerror) from None
    if len(data) > _MAX_SIZE:
        raise EnvFileError("too large")
    return os.fsdecode(data)


def find_variable(text: str, name: str) -> str:
    """Return the first value of a variable, "" where the file has none.

    Raises:
        EnvFileError: what comes before it is not in the format.
    """
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    for line in lines:
        stripped = line.lstrip(_BLANK)
        if not stripped or stripped.startswith("#"):
            continue
        found, separator, rest = stripped.partition("=")
        if not separator or not found or found != found.rstrip(_BLANK):
            raise EnvFileError("expected NAME='value'")
        # As for a shell, what follows a blank is not part of the assignment.
        value = "" if rest.startswith(tuple(_BLANK)) else _quoted_value(rest, lines)
        if found == name:
            return value
    return ""


def _quoted_value(rest: str, lines: Iterator[str]) -> str:
    """Read a value up to its closing quote, which may be on a later line."""
    if not rest.startswith("'"):
        raise EnvFileError("a value must be in single quotes")
    parts, rest = [], rest[1:]
    while "'" not in rest:
        parts.append(rest)
        following = next(lines, None)
        if following is None:
            raise EnvFileError("a single quote is not closed")
        rest = following
    last, _, after = rest.partition("'")
    after = after.lstrip(_BLANK)
    if after and not after.startswith("#"):
        raise EnvFileError("unexpected text after a value")
    return "\n".join([*parts, last])
