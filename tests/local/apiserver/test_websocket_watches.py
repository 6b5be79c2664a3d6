"""Watches by WebSockets, as pages in browsers open them: a message for each event."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from tests.local.apiserver.api import CONFIGMAPS, TOKEN, Api, configmap, store_of

if TYPE_CHECKING:
    from hotmap.local.apiserver.registry import Registry

TOKEN_PROTOCOL = "base64url.bearer.authorization.k8s.io."


def encoded(token: str) -> str:
    return TOKEN_PROTOCOL + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


def connect(api: Api, path: str = CONFIGMAPS, **options: Any) -> Any:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return api.session.ws_connect(f"{api.url}{path}", **{"headers": headers, **options})


async def next_event(socket: aiohttp.ClientWebSocketResponse) -> tuple[str, Any]:
    message = await socket.receive_str()
    assert message.endswith("}\n")
    event = json.loads(message)
    return event["type"], event["object"]["metadata"].get("name")


async def test_each_event_is_a_message(api: Api) -> None:
    await api.post(CONFIGMAPS, configmap("a", k="x" * 300_000))
    await api.post(CONFIGMAPS, configmap("b"))
    async with connect(api, f"{CONFIGMAPS}?watch=1") as socket:
        assert await next_event(socket) == ("ADDED", "a")
        assert await next_event(socket) == ("ADDED", "b")
        await api.request("DELETE", f"{CONFIGMAPS}/b")
        assert await next_event(socket) == ("DELETED", "b")


async def test_end_of_the_watch_closes_the_socket(api: Api) -> None:
    async with connect(api, f"{CONFIGMAPS}?watch=1&timeoutSeconds=1") as socket:
        message = await socket.receive()
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1000)


async def test_client_that_closes_the_socket_ends_the_watch(api: Api, registry: Registry) -> None:
    async with connect(api, f"{CONFIGMAPS}?watch=1") as socket:
        await socket.send_str("ignored")
    async with asyncio.timeout(30):
        while store_of(registry)._watches:  # noqa: ASYNC110 - the store does not report it
            await asyncio.sleep(0.01)


async def test_expired_revision_is_a_message(api: Api, registry: Registry) -> None:
    await api.post(CONFIGMAPS, configmap("a"))
    store_of(registry).compact(registry.store.revision)
    async with connect(api, f"{CONFIGMAPS}?watch=1&resourceVersion=1") as socket:
        assert (await next_event(socket))[0] == "ERROR"


async def test_protocol_of_the_client_is_spoken(api: Api) -> None:
    async with connect(api, f"{CONFIGMAPS}?watch=1", protocols=["base64.binary.k8s.io"]) as socket:
        assert socket.protocol == "base64.binary.k8s.io"


async def test_page_sends_its_token_as_a_protocol(api: Api) -> None:
    protocols = [encoded(TOKEN), "base64.binary.k8s.io"]
    path = f"{CONFIGMAPS}?watch=1"
    async with connect(api, path, headers={}, protocols=protocols) as socket:
        assert socket.protocol == "base64.binary.k8s.io"


@pytest.mark.parametrize(
    "protocols",
    [
        [encoded("wrong"), "x"],
        [encoded(TOKEN)],
        [encoded(TOKEN), encoded(TOKEN), "x"],
        [f"{TOKEN_PROTOCOL}%", "x"],
    ],
)
async def test_wrong_token_among_protocols_is_unauthorized(api: Api, protocols: list[str]) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await connect(api, f"{CONFIGMAPS}?watch=1", headers={}, protocols=protocols)
    assert refused.value.status == 401


async def test_token_among_protocols_is_for_websockets_only(api: Api) -> None:
    headers = {"Sec-WebSocket-Protocol": f"{encoded(TOKEN)}, x"}
    async with api.session.get(f"{api.url}{CONFIGMAPS}", headers=headers) as response:
        assert response.status == 401
