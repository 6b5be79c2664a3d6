"""Errors of the system as Events and messages show them."""

from __future__ import annotations


def error_text(error: BaseException) -> str:
    """Format an error; of an OSError the text and the path, without its number."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror + (f": {error.filename}" if error.filename else "")
    return str(error) or type(error).__name__
