"""How much the TLS connections of this process read at once."""

from __future__ import annotations

from asyncio.sslproto import SSLProtocol

__all__ = ["limit_tls_reads"]

#: Bytes. asyncio allocates as many for each connection, and again for each read: its own 256 KiB
#: take 3 MB for the watches of a controller, and more than twice the processor time where the C
#: library returns such blocks to the system (`controller/memory`; measured).
_TLS_READ = 1 << 16


def limit_tls_reads() -> None:
    """Make all connections that are opened or accepted from now on read 64 KiB at once."""
    SSLProtocol.max_size = _TLS_READ
