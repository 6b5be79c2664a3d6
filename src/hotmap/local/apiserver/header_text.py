"""Values of headers as text.

aiohttp keeps bytes that are not UTF-8 as halves of surrogate pairs, which cannot be encoded.
"""

from __future__ import annotations

__all__ = ["header_text"]


def header_text(value: str) -> str:
    """Return a header's value with U+FFFD for bytes that are not UTF-8, as Go writes them."""
    return value.encode(errors="surrogateescape").decode(errors="replace")
