"""Imports aiohttp without the certificates of the system, for all other modules.

When it is imported, aiohttp makes the TLS settings of connections that bring none, with all
certificates of the system: 30 to 50 ms and 2 MB, of which nearly no process of hotmap uses
anything. Connections that trust the system bring `system_trust` (docs/decisions/0030).
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

__all__ = ["aiohttp", "system_trust", "without_system_certificates"]

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


@lru_cache(maxsize=1)
def system_trust() -> ssl.SSLContext:
    """Return TLS settings that trust the certificate authorities of the system."""
    return ssl.create_default_context()


with without_system_certificates():
    import aiohttp
