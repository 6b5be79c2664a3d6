"""Replaces a file as a whole."""

from __future__ import annotations

import os

__all__ = ["replace_file"]


def replace_file(path: str, data: bytes, *, draft: str, mode: int) -> None:
    """Write a file so that readers see the old content or the new one.

    `draft` is a path beside it. What is there is removed and never opened: another container that
    shares the directory may have put a link or a pipe in its place.

    Raises:
        OSError: it cannot be written; a draft may be left.
    """
    if os.path.lexists(draft):
        os.unlink(draft)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(os.open(draft, flags, mode), "wb") as file:
        file.write(data)
    os.rename(draft, path)
