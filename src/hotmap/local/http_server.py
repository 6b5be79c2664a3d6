"""Imports aiohttp's server as `http_library` imports its client."""

from __future__ import annotations

from hotmap.local.http_library import without_system_certificates

__all__ = ["web"]

with without_system_certificates():
    from aiohttp import web
