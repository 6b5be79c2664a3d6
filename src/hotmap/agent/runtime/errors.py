"""Describes unexpected exceptions without quoting their messages."""

from __future__ import annotations

import os

__all__ = ["describe_unexpected"]


def describe_unexpected(error: Exception) -> str:
    """Describe an unexpected exception, in one sentence.

    Only the reason of a failed system call is shown. Other messages may quote content, so only
    their type and place are.
    """
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = ""
    if trace is not None:
        file = os.path.basename(trace.tb_frame.f_code.co_filename)
        place = f" in {file}:{trace.tb_lineno}"
    return f"internal error: {type(error).__name__}{place}"
