"""Requests to `proxy` of pods, Services and nodes, with real servers as what runs in the pods."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import logging
import socket
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web
from tests.local.apiserver.api import MERGE, PODS, TOKEN, pod
from tests.local.apiserver.fake_kubelet import FakeKubelet
from tests.support.polling import wait_until
from yarl import URL

from hotmap.local.apiserver import proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.local.apiserver.api import Api

    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.apiserver.server import APIServer
    from hotmap.local.pki import ServerPKI

SERVICES = "/api/v1/namespaces/default/services"
ADDRESS, OTHER = "127.200.0.1", "127.200.0.2"
LARGE = 30 << 20


class Backend:
    """An HTTP server at the address of the pod `web`; `asked` is what arrived."""

    def __init__(self) -> None:
        self.asked: list[web.BaseRequest] = []
        self.bodies: list[bytes] = []
        self.gone = asyncio.Event()
        self.go_on = asyncio.Event()
        self.port = 0

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request)
        match request.path:
            case "/echo":
                self.bodies.append(await request.read())
                return web.Response(body=self.bodies[-1], headers={"X-Said": "yes"}, status=202)
            case "/large":
                return await self._large(request)
            case "/events":
                return await self._events(request)
            case "/cut":
                return await self._cut(request)
            case "/slow":
                try:
                    await self.go_on.wait()
                finally:
                    self.gone.set()
            case "/drop":
                assert request.transport is not None
                request.transport.abort()
            case "/redirect":
                return web.Response(status=302, headers={"Location": request.query["to"]})
            case "/count":
                size = 0
                async for chunk in request.content.iter_any():
                    size += len(chunk)
                return web.Response(text=str(size))
            case "/socket":
                return await self._socket(request)
        headers = [
            ("Set-Cookie", "a=1"),
            ("Set-Cookie", "b=2"),
            ("Access-Control-Allow-Origin", "*"),
            ("Cache-Control", "max-age=9"),
            ("Keep-Alive", "timeout=5"),
        ]
        text = f"{request.method} {request.raw_path}"
        return web.Response(text=text, headers=headers)

    async def _large(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(LARGE >> 20):
            await response.write(b"x" * (1 << 20))
        return response

    async def _events(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            await response.write(b"data: 1\n\n")
            await self.go_on.wait()
            await response.write(b"data: 2\n\n")
        finally:
            self.gone.set()
        return response

    async def _cut(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"x" * 10)
        assert request.transport is not None
        request.transport.close()
        return response

    async def _socket(self, request: web.BaseRequest) -> web.StreamResponse:
        if "refuse" in request.query:
            return web.Response(status=403, text="not you")
        if "ignore" in request.query:
            return web.Response(text="no socket here")
        socket = web.WebSocketResponse(protocols=("chat",))
        await socket.prepare(request)
        try:
            async for message in socket:
                if message.data == "end":
                    break
                await socket.send_str(f"{message.data}!")
        finally:
            self.gone.set()
        return socket


@pytest.fixture
async def backend(server: APIServer, registry: Registry) -> AsyncIterator[Backend]:
    backend = Backend()
    listening = await asyncio.get_running_loop().create_server(
        web.Server(backend.serve, handler_cancellation=True, access_log=None), ADDRESS, 0
    )
    backend.port = listening.sockets[0].getsockname()[1]
    kubelet = FakeKubelet()
    kubelet.addresses = {"web": ADDRESS, "silent": OTHER}
    server.kubelet = kubelet
    described = pod("web", nodeName="n")
    described["spec"]["containers"][0]["ports"] = [{"containerPort": backend.port}]
    await registry.create("pods", "default", described, manager="t")
    await registry.create("pods", "default", pod("silent", nodeName="n"), manager="t")
    await registry.create("pods", "default", pod("pending"), manager="t")
    await registry.create("nodes", None, {"metadata": {"name": "n"}}, manager="t")
    yield backend
    listening.close()


@pytest.fixture
async def service(backend: Backend, registry: Registry) -> str:
    """A Service with two ports, behind which are the pod `web` and an address of nobody."""
    ports = [
        {"name": "http", "port": 80, "targetPort": backend.port, "protocol": "TCP"},
        {"name": "none", "port": 81, "targetPort": 1, "protocol": "TCP"},
    ]
    described = {"metadata": {"name": "shop"}, "spec": {"ports": ports}}
    await registry.create("services", "default", described, manager="t")
    await endpoints(registry, "shop", backend.port, "http", target("web", ADDRESS))
    return f"{SERVICES}/shop"


def target(name: str, address: str, namespace: str = "default") -> dict[str, Any]:
    return {
        "ip": address,
        "targetRef": {"kind": "Pod", "name": name, "namespace": namespace},
    }


async def endpoints(
    registry: Registry, name: str, port: int, port_name: str, *addresses: dict[str, Any]
) -> None:
    ports = [{"name": port_name, "port": port, "protocol": "TCP"}]
    subsets = [{"addresses": list(addresses), "ports": ports}] if addresses else []
    described = {"metadata": {"name": name}, "subsets": subsets}
    await registry.create("endpoints", "default", described, manager="t")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_any_method_reaches_the_pod(api: Api, backend: Backend, method: str) -> None:
    """With path and query as they are; the pod as an object stays as it is."""
    before = (await api.get(f"{PODS}/web")).body
    reply = await api.request(method, f"{PODS}/web/proxy/a/b%20c", {}, x="1", pretty="true")
    assert (reply.status, reply.body) == (200, f"{method} /a/b%20c?x=1&pretty=true")
    assert (await api.get(f"{PODS}/web")).body == before


async def test_head_request_has_no_body(api: Api, backend: Backend) -> None:
    reply = await api.request("HEAD", f"{PODS}/web/proxy/a")
    assert (reply.status, reply.body) == (200, "")
    assert backend.asked[0].method == "HEAD"


async def test_other_methods_are_refused(api: Api, backend: Backend) -> None:
    assert (await api.request("TRACE", f"{PODS}/web/proxy/a")).status == 405
    assert backend.asked == []


@pytest.mark.parametrize("name", ["web", "web:PORT", "http:web:PORT", ":web:PORT", "web:"])
async def test_pod_is_named_with_scheme_and_port(api: Api, backend: Backend, name: str) -> None:
    """Without a port it is the first of the containers."""
    path = f"{PODS}/{name.replace('PORT', str(backend.port))}/proxy/a"
    assert (await api.get(path)).body == "GET /a"


@pytest.mark.parametrize(
    ("sent", "arrived"),
    [
        ("/", "/"),
        ("/a/", "/a/"),
        ("//a//b", "/a/b"),
        ("/a/../../b", "/b"),
        ("/a%2Fb", "/a/b"),
        ("/%C3%A4%3F;x=1", "/%C3%A4%3F;x=1"),
    ],
)
async def test_path_is_cleaned(api: Api, backend: Backend, sent: str, arrived: str) -> None:
    """As Go's path.Join does; a path cannot lead out of the proxy."""
    url = URL(f"{api.url}{PODS}/web/proxy{sent}", encoded=True)
    async with api.session.get(url, headers={"Authorization": f"Bearer {TOKEN}"}) as response:
        assert await response.text() == f"GET {arrived}"


@pytest.mark.parametrize("query", ["a=b%26c&d=%20%C3%A9", "a=1%0D%0AHost:%20other"])
async def test_query_is_passed_as_it_is(api: Api, backend: Backend, query: str) -> None:
    """Decoded, it would be another one, and could hold lines of a request of its own."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    url = URL(f"{api.url}{PODS}/web/proxy/a?{query}", encoded=True)
    async with api.session.get(url, headers=headers) as response:
        assert await response.text() == f"GET /a?{query}"
    url = URL(f"{api.url}{PODS}/web/proxy?{query}", encoded=True)
    async with api.session.get(url, headers=headers, allow_redirects=False) as response:
        assert response.headers["Location"] == f"{PODS}/web/proxy/?{query}"
    url = URL(f"{api.url}{PODS}/web/proxy/socket?{query}", encoded=True)
    async with api.session.ws_connect(url, headers=headers):
        assert backend.asked[-1].raw_path == f"/socket?{query}"
        assert backend.asked[-1].host != "other"


async def test_empty_path_is_redirected_to_one_with_a_slash(api: Api, backend: Backend) -> None:
    """Relative links of a page need it; only for methods without a body."""
    async with api.session.get(
        f"{api.url}{PODS}/web/proxy?a=1",
        headers={"Authorization": f"Bearer {TOKEN}"},
        allow_redirects=False,
    ) as response:
        assert response.status == 301
        assert response.headers["Location"] == f"{PODS}/web/proxy/?a=1"
    assert (await api.post(f"{PODS}/web/proxy", {})).body == "POST /"


async def test_headers_are_passed_without_credentials(api: Api, backend: Backend) -> None:
    """Nor those that are about one connection; where the client is and asked is added."""
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Impersonate-User": "jane",
        "Impersonate-Group": "system:masters",
        "Impersonate-Extra-Why": "test",
        "X-Remote-User": "root",
        "X-Forwarded-For": "10.0.0.1",
        "Connection": "keep-alive, X-Once",
        "X-Once": "1",
        "X-Own": "2",
        "Cookie": "c=3",
        "User-Agent": "tester",
    }
    async with api.session.get(f"{api.url}{PODS}/web/proxy/a", headers=headers) as response:
        assert response.status == 200
        assert response.headers.getall("Set-Cookie") == ["a=1", "b=2"]
        assert "max-age=9" in response.headers.getall("Cache-Control")
        assert "Audit-Id" in response.headers
        assert not {"Access-Control-Allow-Origin", "Keep-Alive"} & set(response.headers)
    arrived = backend.asked[0].headers
    assert (arrived["X-Own"], arrived["Cookie"], arrived["User-Agent"]) == ("2", "c=3", "tester")
    assert arrived["X-Forwarded-For"] == "10.0.0.1, 127.0.0.1"
    assert arrived["X-Forwarded-Uri"] == f"{PODS}/web/proxy/a"
    assert arrived["Host"] == api.url.removeprefix("https://")
    assert not {name for name in arrived if name.startswith(("Auth", "Impersonate", "X-Remote"))}
    assert "X-Once" not in arrived


async def test_answer_is_passed_as_it_is(api: Api, backend: Backend) -> None:
    reply = await api.request("POST", f"{PODS}/web/proxy/echo", b"\x00\n\x01", content_type="a/b")
    assert (reply.status, reply.headers["X-Said"]) == (202, "yes")
    assert backend.bodies == [b"\x00\n\x01"]
    assert backend.asked[0].headers["Content-Type"] == "a/b"
    assert backend.asked[0].headers["Content-Length"] == "3"


async def test_compressed_body_is_passed_as_it_is(api: Api, backend: Backend) -> None:
    """Its header would be wrong if it were inflated on the way; the backend here inflates."""
    body = gzip.compress(b"abc" * 100)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Encoding": "gzip"}
    url = f"{api.url}{PODS}/web/proxy/echo"
    async with api.session.post(url, data=body, headers=headers) as response:
        assert await response.read() == b"abc" * 100
    assert backend.asked[0].headers["Content-Length"] == str(len(body))


async def test_large_bodies_go_through_in_both_directions(api: Api, backend: Backend) -> None:
    """Neither the limit of objects counts, nor is one kept whole."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(LARGE >> 20):
            yield b"y" * (1 << 20)

    headers = {"Authorization": f"Bearer {TOKEN}"}
    url = f"{api.url}{PODS}/web/proxy/count"
    async with api.session.post(url, data=chunks(), headers=headers) as response:
        assert await response.text() == str(LARGE)
    assert len((await api.get(f"{PODS}/web/proxy/large")).body) == LARGE


async def test_client_may_wait_for_leave_to_send(api: Api, backend: Backend) -> None:
    """Expect: 100-continue, as curl sends it with large bodies."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    url = f"{api.url}{PODS}/web/proxy/echo"
    async with api.session.post(url, data=b"abc", headers=headers, expect100=True) as response:
        assert await response.read() == b"abc"


async def test_events_arrive_as_they_are_sent(api: Api, backend: Backend) -> None:
    """The second one is sent only after the first one is here."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    url = f"{api.url}{PODS}/web/proxy/events"
    async with api.session.get(url, headers=headers) as response:
        assert await response.content.readuntil(b"\n\n") == b"data: 1\n\n"
        backend.go_on.set()
        assert await response.content.read() == b"data: 2\n\n"


@pytest.mark.parametrize("path", ["slow", "events"])
async def test_client_that_goes_away_ends_the_request_behind(
    api: Api, backend: Backend, path: str
) -> None:
    """No matter whether the answer has begun; no task is left."""
    before = len(asyncio.all_tasks())
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        asking = asyncio.create_task(
            session.get(f"{api.url}{PODS}/web/proxy/{path}", headers=headers)
        )
        await wait_until(lambda: backend.asked)
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            (await asking).close()
    async with asyncio.timeout(60):
        await backend.gone.wait()
    await wait_until(lambda: len(asyncio.all_tasks()) <= before)


async def test_answer_that_is_cut_ends_without_its_end(
    api: Api, backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    """The client notices; the log stays silent, since it is not a failure of the server."""
    with caplog.at_level(logging.WARNING), pytest.raises(aiohttp.ClientPayloadError):
        await api.get(f"{PODS}/web/proxy/cut")
    assert caplog.records == []
    assert (await api.get(f"{PODS}/web/proxy/a")).status == 200


@pytest.mark.parametrize(
    ("to", "given"),
    [
        ("/next?a=1", "PREFIX/next?a=1"),
        ("next", "next"),
        ("http://BACKEND/next/", "PREFIX/next/"),
        ("https://REQUESTED/next", "https://REQUESTEDPREFIX/next"),
        ("http://elsewhere.example/next", "http://elsewhere.example/next"),
        ("PREFIX/next", "PREFIX/next"),
    ],
)
async def test_redirects_lead_through_the_proxy(
    api: Api, backend: Backend, to: str, given: str
) -> None:
    """None is followed; those to the backend itself are rewritten."""

    def filled(text: str) -> str:
        for name, value in (
            ("PREFIX", f"{PODS}/web/proxy"),
            ("BACKEND", f"{ADDRESS}:{backend.port}"),
            ("REQUESTED", api.url.removeprefix("https://")),
        ):
            text = text.replace(name, value)
        return text

    async with api.session.get(
        f"{api.url}{PODS}/web/proxy/redirect",
        params={"to": filled(to)},
        headers={"Authorization": f"Bearer {TOKEN}"},
        allow_redirects=False,
    ) as response:
        assert (response.status, response.headers["Location"]) == (302, filled(given))


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("pods/none/proxy/", 404, 'pods "none" not found'),
        ("pods/pending/proxy/", 400, "address not allowed"),
        ("pods/ftp:web:1/proxy/", 400, 'invalid pod request "ftp:web:1"'),
        ("pods/a:b:c:d/proxy/", 400, 'invalid pod request "a:b:c:d"'),
        ("services/:80/proxy/", 400, 'invalid service request ":80"'),
        ("services/none/proxy/", 404, 'services "none" not found'),
        ("services/none:80/proxy/", 404, 'services "none" not found'),
        (
            "pods/silent:8080/proxy/",
            503,
            f"error trying to reach service: dial tcp {OTHER}:8080: connect: connection refused",
        ),
        (
            "pods/web:99999/proxy/",
            503,
            "error trying to reach service: dial tcp: address 99999: invalid port",
        ),
        (
            "pods/web:foo/proxy/",
            503,
            "error trying to reach service: dial tcp: lookup tcp/foo: unknown port",
        ),
        ("pods/web/proxy/drop", 503, "error trying to reach service: EOF"),
        ("pods/web/proxy/?dryRun=All", 400, "dryRun is not supported"),
    ],
)
async def test_failures_have_upstreams_words(
    api: Api, backend: Backend, path: str, code: int, message: str
) -> None:
    reply = await api.get(f"/api/v1/namespaces/default/{path}")
    assert (reply.status, reply.message) == (code, message)


async def test_https_of_a_backend_without_tls_is_unreachable(api: Api, backend: Backend) -> None:
    reply = await api.get(f"{PODS}/https:web:{backend.port}/proxy/")
    assert reply.status == 503
    assert "tls: " in reply.message


async def test_https_backend_may_have_any_certificate(
    api: Api, backend: Backend, pki: ServerPKI
) -> None:
    """Nobody tells the server what to trust, as upstream; also for upgraded connections."""
    serving = web.Server(backend.serve, access_log=None)
    listening = await asyncio.get_running_loop().create_server(
        serving, ADDRESS, 0, ssl=pki.server_context()
    )
    port = listening.sockets[0].getsockname()[1]
    assert (await api.get(f"{PODS}/https:web:{port}/proxy/a")).body == "GET /a"
    url = f"{api.url}{PODS}/https:web:{port}/proxy/socket"
    async with api.session.ws_connect(url, headers={"Authorization": f"Bearer {TOKEN}"}) as socket:
        await socket.send_str("one")
        assert await socket.receive_str() == "one!"
        await socket.send_str("end")
    await serving.shutdown(0)
    listening.close()


async def test_nodes_have_no_server(api: Api, backend: Backend) -> None:
    assert (await api.get("/api/v1/nodes/none/proxy/")).message == 'nodes "none" not found'
    reply = await api.get("/api/v1/nodes/n/proxy/metrics")
    assert (reply.status, reply.body["reason"]) == (503, "ServiceUnavailable")
    assert "the kubelet of node n serves no HTTP" in reply.message


@pytest.mark.parametrize("name", ["shop:http", "shop:80", "http:shop:http", ":shop:80"])
async def test_service_is_named_with_a_port(
    api: Api, backend: Backend, service: str, name: str
) -> None:
    """By its name, or by the number that the Service has."""
    reply = await api.get(f"{SERVICES}/{name}/proxy/a", x="1")
    assert (reply.status, reply.body) == (200, "GET /a?x=1")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shop", 'no endpoints available for service "shop"'),
        ("shop:none", 'no endpoints available for service "shop:none"'),
        ("shop:81", 'no endpoints available for service "shop:81"'),
        ("shop:82", 'no service port 82 found for service "shop"'),
        ("https:shop:other", 'no endpoints available for service "https:shop:other"'),
    ],
)
async def test_service_without_endpoints_is_unavailable(
    api: Api, service: str, name: str, message: str
) -> None:
    """Without a port it is the one without a name, which this Service does not have."""
    reply = await api.get(f"{SERVICES}/{name}/proxy/")
    assert (reply.status, reply.message) == (503, message)


async def test_only_port_without_name_needs_not_be_named(
    api: Api, backend: Backend, registry: Registry
) -> None:
    await endpoints(registry, "plain", backend.port, "", target("web", ADDRESS))
    assert (await api.get(f"{SERVICES}/plain/proxy/a")).body == "GET /a"
    await endpoints(registry, "empty", backend.port, "")
    reply = await api.get(f"{SERVICES}/empty:x/proxy/a")
    assert reply.message == 'no endpoints available for service "empty"'


@pytest.mark.parametrize(
    "address",
    [
        {"ip": ADDRESS},
        target("silent", ADDRESS),
        target("pending", ADDRESS),
        target("none", ADDRESS),
        target("web", ADDRESS, "kube-system"),
        target("web", "127.0.0.1"),
        target("web", "10.0.0.1"),
    ],
)
async def test_endpoints_lead_only_to_what_their_pod_has(
    api: Api, backend: Backend, registry: Registry, address: dict[str, Any]
) -> None:
    """Whoever writes Endpoints cannot make the server connect elsewhere."""
    await endpoints(registry, "trap", backend.port, "http", address)
    reply = await api.get(f"{SERVICES}/trap:http/proxy/")
    assert reply.message == 'no endpoints available for service "trap:http"'
    assert backend.asked == []


async def test_written_address_of_a_pod_is_not_used(api: Api, backend: Backend) -> None:
    """Only the node knows where a pod is; its status can be written by others."""
    status = {"status": {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}}
    for name in ("web", "pending"):
        written = await api.patch(f"{PODS}/{name}/status", status, MERGE)
        assert written.body["status"]["podIP"] == "127.0.0.1"
    assert (await api.get(f"{PODS}/web/proxy/a")).body == "GET /a"
    assert backend.asked[0].url.path == "/a"
    assert (await api.get(f"{PODS}/pending:{backend.port}/proxy/a")).status == 400


async def test_discovery_has_the_proxies(api: Api) -> None:
    found = {
        resource["name"]: (resource["kind"], resource["verbs"])
        for resource in (await api.get("/api/v1")).body["resources"]
        if resource["name"].endswith("/proxy")
    }
    verbs = ["create", "delete", "get", "patch", "update"]
    assert found == {
        "nodes/proxy": ("NodeProxyOptions", verbs),
        "pods/proxy": ("PodProxyOptions", verbs),
        "services/proxy": ("ServiceProxyOptions", verbs),
    }


async def test_requests_are_counted_as_connections(api: Api, backend: Backend) -> None:
    await api.get(f"{PODS}/web/proxy/a")
    text = (await api.get("/metrics")).body
    counted = [line for line in text.splitlines() if 'subresource="proxy"' in line]
    assert any('verb="CONNECT"' in line and 'code="200"' in line for line in counted)


async def test_websocket_goes_through(api: Api, backend: Backend) -> None:
    """Both directions, with query and protocol; the token is not passed on."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with api.session.ws_connect(
        f"{api.url}{PODS}/web/proxy/socket?a=1",
        headers=headers,
        protocols=("base64url.bearer.authorization.k8s.io.eA", "chat"),
    ) as socket:
        assert socket.protocol == "chat"
        for text in ("one", "two" * 100_000):
            await socket.send_str(text)
            assert await socket.receive_str() == f"{text}!"
        await socket.send_str("end")
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
    arrived = backend.asked[0]
    assert (arrived.query_string, arrived.headers["Sec-WebSocket-Protocol"]) == ("a=1", "chat")
    assert "Authorization" not in arrived.headers
    assert arrived.headers["X-Forwarded-For"] == "127.0.0.1"


async def test_websocket_of_a_client_that_goes_away_ends(api: Api, backend: Backend) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    before = len(asyncio.all_tasks())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        url = f"{api.url}{PODS}/web/proxy/socket"
        socket = await session.ws_connect(url, headers=headers)
        await socket.send_str("one")
        assert await socket.receive_str() == "one!"
        socket._response.close()
    async with asyncio.timeout(60):
        await backend.gone.wait()
    await wait_until(lambda: len(asyncio.all_tasks()) <= before)


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("web/proxy/socket?refuse=1", 403, "not you"),
        ("web/proxy/socket?ignore=1", 500, "invalid upgrade response: status code 200"),
        (
            "silent:8080/proxy/socket",
            500,
            f"dial tcp {OTHER}:8080: connect: connection refused",
        ),
        ("web/proxy/drop", 500, "EOF"),
    ],
)
async def test_refused_upgrade_is_answered(
    api: Api, backend: Backend, path: str, status: int, body: str
) -> None:
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
    }
    async with api.session.get(f"{api.url}{PODS}/{path}", headers=headers) as response:
        text = await response.text()
    shown = json.loads(text)["message"] if text.startswith("{") else text
    assert (response.status, shown) == (status, body)


async def test_stop_ends_proxied_requests(api: Api, server: APIServer, backend: Backend) -> None:
    """Also one whose backend never answers."""
    asking = asyncio.create_task(api.get(f"{PODS}/web/proxy/slow"))
    await wait_until(lambda: backend.asked)
    await server.stop()
    with pytest.raises(aiohttp.ClientError):
        await asking
    async with asyncio.timeout(60):
        await backend.gone.wait()


async def raw_backend(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> tuple[asyncio.Server, int]:
    server = await asyncio.start_server(serve, ADDRESS, 0)
    return server, server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    "sent", [b"no HTTP at all\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 2"]
)
async def test_backend_that_serves_no_http(
    api: Api, backend: Backend, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    """It is 503 as well, without a word in the log."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        writer.close()

    server, port = await raw_backend(serve)
    async with server:
        with caplog.at_level(logging.WARNING):
            reply = await api.get(f"{PODS}/web:{port}/proxy/")
    assert (reply.status, reply.body["reason"]) == (503, "ServiceUnavailable")
    assert reply.message.startswith("error trying to reach service: ")
    assert caplog.records == []


async def test_backend_that_does_not_accept_times_out(
    api: Api, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue that is full takes no connection."""
    monkeypatch.setattr(proxy, "_CONNECT_TIMEOUT", 0.2)
    with socket.socket() as full:
        full.bind((ADDRESS, 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex((ADDRESS, port))
        reply = await api.get(f"{PODS}/web:{port}/proxy/")
        for filler in fillers:
            filler.close()
    message = f"error trying to reach service: dial tcp {ADDRESS}:{port}: i/o timeout"
    assert (reply.status, reply.message) == (503, message)
