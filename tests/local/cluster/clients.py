"""What tests of a whole cluster need: a client that trusts it, and a machine that allows it."""

from __future__ import annotations

import base64
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp
import yaml

if TYPE_CHECKING:
    from pathlib import Path


class KubeconfigClient:
    """GETs with nothing but a kubeconfig, as a person's tools have it."""

    def __init__(self, kubeconfig: Path) -> None:
        settings: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
        cluster = settings["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._trust = ssl.create_default_context(cadata=authority)
        self._server: str = cluster["server"]
        self._token: str = settings["users"][0]["user"]["token"]

    async def get(self, path: str) -> dict[str, Any]:
        connector = aiohttp.TCPConnector(ssl=self._trust)
        headers = {"Authorization": f"Bearer {self._token}"}
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(self._server + path, headers=headers) as response,
        ):
            response.raise_for_status()
            body: dict[str, Any] = await response.json()
            return body
