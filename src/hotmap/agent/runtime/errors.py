"""Describes unexpected exceptions without quoting their messages."""

from __future__ import annotations

import os

__all__ = ["describe_unexpected"]

#: The directory of hotmap's modules, or of them in an archive.
_PACKAGE = __file__.removesuffix("agent/runtime/errors.py")


def describe_unexpected(error: Exception) -> str:
    """Describe an unexpected exception, in one sentence.

    Only the reason of a failed system call is shown. Other messages may quote content, so only
    their type is, and the innermost place in hotmap that they passed.
    """
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    place = ""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not place or file.startswith(_PACKAGE):
            place = f" in {os.path.basename(file)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"internal error: {type(error).__name__}{place}"
