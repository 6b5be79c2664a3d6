"""Imports aiohttp without the certificates of the system, for all modules of the local plane.

When it is imported, aiohttp makes the TLS settings of connections that bring none, with all
certificates of the system: 30 to 50 ms and 2 MB. The local plane connects to nothing that they are
for (docs/decisions/0030).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["aiohttp", "without_system_certificates"]

#: Where OpenSSL looks for certificates (OpenSSL: SSL_CTX_set_default_verify_paths).
_PLACES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


@contextmanager
def without_system_certificates() -> Iterator[None]:
    """Hide the certificates of the system while aiohttp, or a part of it, is imported."""
    kept = {name: os.environ.get(name) for name in _PLACES}
    os.environ.update(dict.fromkeys(_PLACES, os.devnull))
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


with without_system_certificates():
    import aiohttp
