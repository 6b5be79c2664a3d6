"""A client for the tests of the API server: raw requests, raw answers, lines of a watch."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from hotmap.local.store import MVCCStore

if TYPE_CHECKING:
    import aiohttp

    from hotmap.local.apiserver.registry import Registry

TOKEN = "a-token-for-tests"

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


class Reply(NamedTuple):
    """An answer: status, headers and the body, decoded where it is JSON."""

    status: int
    headers: dict[str, str]
    body: Any

    @property
    def message(self) -> str:
        return str(self.body["message"])


class Api:
    """Requests to one server with one token."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str = TOKEN) -> None:
        self.session = session
        self.url = url
        self.token = token

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        **query: str,
    ) -> Reply:
        headers = {"Accept": accept, "Authorization": f"Bearer {self.token}"}
        if body is not None:
            headers["Content-Type"] = content_type
        encoded = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        # aiohttp warns of large bodies that are plain bytes.
        data = None if encoded is None else io.BytesIO(encoded)
        async with self.session.request(
            method, self.url + path, data=data, headers=headers, params=query
        ) as response:
            text = await response.read()
            is_json = "json" in response.headers.get("Content-Type", "")
            return Reply(
                response.status,
                dict(response.headers),
                json.loads(text) if is_json else text.decode(),
            )

    async def get(self, path: str, **query: str) -> Reply:
        return await self.request("GET", path, **query)

    async def post(self, path: str, body: object, **query: str) -> Reply:
        return await self.request("POST", path, body, **query)

    async def patch(self, path: str, body: object, kind: str = MERGE, **query: str) -> Reply:
        return await self.request("PATCH", path, body, content_type=kind, **query)

    def watch(self, path: str, **query: str) -> Lines:
        return Lines(self, path, {"watch": "true", **query})


class Lines:
    """A watch over HTTP as an async context manager; `next` gives one decoded line."""

    def __init__(self, api: Api, path: str, query: dict[str, str]) -> None:
        self._request = api.session.get(
            api.url + path, params=query, headers={"Authorization": f"Bearer {api.token}"}
        )

    async def __aenter__(self) -> Lines:
        self.response = await self._request.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._request.__aexit__(None, None, None)

    async def next(self) -> dict[str, Any] | None:
        """Return the next line, None at the end of the stream."""
        line = await self.response.content.readline()
        return json.loads(line) if line else None

    async def seen(self, count: int) -> list[tuple[str, str]]:
        """Read lines as (type, name)."""
        found = []
        for _ in range(count):
            line = await self.next()
            assert line is not None
            found.append((line["type"], line["object"]["metadata"].get("name", "")))
        return found

    async def rest(self) -> list[dict[str, Any]]:
        """Read until the end of the stream."""
        found = []
        while (line := await self.next()) is not None:
            found.append(line)
        return found


def configmap(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = labels
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "host"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def deployment(name: str, pod_spec: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": pod_spec or {"containers": [{"name": "main", "image": "host"}]},
    }
    selector = {"matchLabels": {"app": name}}
    return {
        "metadata": {"name": name},
        "spec": {"selector": selector, "template": template, **spec},
    }


def store_of(registry: Registry) -> MVCCStore:
    """Return the store of a registry as what it is in tests."""
    assert isinstance(registry.store, MVCCStore)
    return registry.store
