"""What a stream over any connection can do."""

from __future__ import annotations

from typing import Protocol


class ByteStream(Protocol):
    """A stream of bytes in both directions."""

    async def read(self) -> bytes:
        """Wait for data; b"" at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send data; wait while the other end is slow.

        Raises:
            ConnectionError: the connection is lost.
        """
        ...

    async def close(self) -> None:
        """End the stream of this side."""
        ...
