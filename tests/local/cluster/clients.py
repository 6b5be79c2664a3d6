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
    """Requests with nothing but a kubeconfig, as a person's tools have it."""

    def __init__(self, kubeconfig: Path, *, server: str = "") -> None:
        settings: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
        cluster = settings["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._trust = ssl.create_default_context(cadata=authority)
        self._server: str = server or cluster["server"]
        self._token: str = settings["users"][0]["user"]["token"]

    async def get(self, path: str) -> dict[str, Any]:
        return await self.request("GET", path)

    async def post(self, path: str, body: object, **headers: str) -> dict[str, Any]:
        """Create something; the answer may be a Status that refuses it."""
        return await self.request("POST", path, body, headers=headers, check=False)

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: dict[str, str] | None = None,
        check: bool = True,
    ) -> dict[str, Any]:
        connector = aiohttp.TCPConnector(ssl=self._trust)
        sent = {"Authorization": f"Bearer {self._token}", **(headers or {})}
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.request(method, self._server + path, headers=sent, json=body) as response,
        ):
            if check:
                response.raise_for_status()
            answer: dict[str, Any] = await response.json()
            return answer
