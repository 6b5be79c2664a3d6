"""The server itself: who may ask, what it tells of itself, and paths that lead nowhere."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import socket
import ssl
import time
from asyncio.sslproto import SSLProtocol
from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.local.apiserver.api import CONFIGMAPS, TOKEN, Api, configmap, store_of

from hotmap.core.errors import SettingsError
from hotmap.local.apiserver.server import APIServer
from hotmap.local.apiserver.watches import RegistryWatch
from hotmap.local.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.apiserver.watches import Frame
    from hotmap.local.pki import ServerPKI


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", TOKEN[:-1]])
async def test_wrong_token_is_unauthorized(api: Api, token: str) -> None:
    """401 with a Status, for every path that tells anything."""
    stranger = Api(api.session, api.url, token)
    for path in (CONFIGMAPS, "/api", "/nope"):
        reply = await stranger.get(path)
        assert (reply.status, reply.body["reason"]) == (401, "Unauthorized")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
async def test_health_and_version_are_public(api: Api, path: str) -> None:
    """They need no token."""
    assert (await Api(api.session, api.url, "").get(path)).status == 200


async def test_unknown_authority_is_not_trusted(api: Api) -> None:
    """The certificate is good for those who know its authority only."""
    async with aiohttp.ClientSession() as stranger:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await stranger.get(f"{api.url}/healthz")


async def test_certificate_is_valid_for_localhost(api: Api) -> None:
    """By name as well as by address, also for strict clients."""
    url = api.url.replace("127.0.0.1", "localhost")
    assert (await Api(api.session, url).get("/healthz")).body == "ok"


def test_authority_passes_strict_verification(pki: ServerPKI) -> None:
    """Python 3.13 verifies by RFC 5280 by default."""
    trust = ssl.create_default_context(cafile=str(pki.ca_certificate))
    trust.verify_flags |= ssl.VERIFY_X509_STRICT
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trust.wrap_bio(incoming, outgoing, server_hostname="kubernetes.default.svc")
    server = pki.server_context().wrap_bio(outgoing, incoming, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert client.version() == "TLSv1.3"


NOWHERE = [
    ("GET", "/nope", 404),
    ("GET", "/apis/nope/v1/x", 404),
    ("GET", "/api/v1/nope", 404),
    ("GET", "/apis/apps/v2/deployments", 404),
    ("GET", "/api/v1/namespaces/default/nodes", 404),
    ("GET", "/api/v1/configmaps/x", 404),
    ("GET", f"{CONFIGMAPS}/x/status", 404),
    ("GET", f"{CONFIGMAPS}/x/y/z", 404),
    ("POST", f"{CONFIGMAPS}/x", 405),
    ("PUT", CONFIGMAPS, 405),
    ("PATCH", CONFIGMAPS, 405),
    ("POST", "/api/v1/configmaps", 405),
    ("DELETE", "/api/v1/configmaps", 405),
    ("DELETE", "/api/v1/namespaces", 405),
    ("POST", "/version", 405),
]


@pytest.mark.parametrize(("method", "path", "status"), NOWHERE)
async def test_unknown_paths_are_not_found(api: Api, method: str, path: str, status: int) -> None:
    """404 for what is not there, 405 for what cannot be done there."""
    reply = await api.request(method, path, {} if method != "GET" else None)
    assert reply.status == status


async def test_large_body_is_refused(api: Api) -> None:
    """413 beyond three mebibytes."""
    reply = await api.post(CONFIGMAPS, configmap("a", k="x" * (3 << 20)))
    assert (reply.status, reply.message) == (
        413,
        "Request entity too large: limit is 3145728",
    )


async def test_connection_of_a_large_body_is_closed(api: Api) -> None:
    """The server does not go on to read what it has refused."""

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1 << 16)

    headers = {"Authorization": f"Bearer {api.token}", "Content-Type": "application/json"}
    async with asyncio.timeout(5):
        async with api.session.post(
            api.url + CONFIGMAPS, data=endless(), headers=headers
        ) as response:
            assert response.status == 413
            assert response.headers["Connection"] == "close"


async def test_compressed_body_is_not_inflated(api: Api) -> None:
    """Upstream takes no compressed bodies: what is sent is what is read."""
    body = gzip.compress(json.dumps(configmap("a")).encode())
    headers = {
        "Authorization": f"Bearer {api.token}",
        "Content-Type": "application/json",
        "Content-Encoding": "gzip",
    }
    async with api.session.post(api.url + CONFIGMAPS, data=body, headers=headers) as response:
        assert response.status == 400
        assert "invalid character '\\x1f'" in (await response.json())["message"]


async def test_client_that_waits_to_send_its_body_is_asked_for_it(api: Api) -> None:
    """Otherwise curl waits a second before it sends more than 1 MiB."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    body = json.dumps(configmap("a", k="v")).encode()
    async with (
        asyncio.timeout(60),
        api.session.post(
            f"{api.url}{CONFIGMAPS}", data=body, headers=headers, expect100=True
        ) as response,
    ):
        assert (response.status, (await response.json())["data"]) == (201, {"k": "v"})


async def test_unsupported_media_types_are_refused(api: Api) -> None:
    """Forms that the server cannot give or take."""
    assert (await api.request("GET", CONFIGMAPS, accept="text/html")).status == 406
    assert (await api.request("GET", CONFIGMAPS, accept="*/*")).status == 200
    protobuf = "application/vnd.kubernetes.protobuf"
    assert (await api.request("GET", CONFIGMAPS, accept=f"{protobuf},application/json")).status
    sent = await api.request("POST", CONFIGMAPS, b"k8s\0", content_type=protobuf)
    assert sent.status == 400
    sent = await api.request("POST", CONFIGMAPS, b"{}", content_type="application/cbor")
    assert sent.status == 415


AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


async def test_aggregated_discovery_has_two_documents(api: Api) -> None:
    """Two documents tell everything, in the type that was asked for."""
    core = await api.request("GET", "/api", accept=AGGREGATED)
    assert core.headers["Content-Type"] == (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    )
    resources = core.body["items"][0]["versions"][0]["resources"]
    configmaps = next(r for r in resources if r["resource"] == "configmaps")
    assert configmaps["shortNames"] == ["cm"]
    assert configmaps["responseKind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    groups = await api.request("GET", "/apis", accept=AGGREGATED)
    names = [item["metadata"]["name"] for item in groups.body["items"]]
    assert names[:3] == ["apiregistration.k8s.io", "apps", "events.k8s.io"]
    assert "rbac.authorization.k8s.io" in names


async def test_groups_are_listed_by_priority(api: Api) -> None:
    """Clients take kinds in this order, as in `kubectl get all`."""
    groups = [group["name"] for group in (await api.get("/apis")).body["groups"]]
    assert groups[:3] == ["apiregistration.k8s.io", "apps", "events.k8s.io"]
    assert groups.index("autoscaling") < groups.index("batch") < groups.index("policy")
    aggregated = "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList"
    items = (await api.request("GET", "/apis", accept=aggregated)).body["items"]
    assert [item["metadata"]["name"] for item in items] == groups


@pytest.mark.parametrize(
    ("query", "agent", "is_indented"),
    [
        ({"pretty": "1"}, "kubectl/v1", True),
        ({"pretty": "false"}, "curl/8", False),
        ({}, "curl/8", True),
        ({}, "kubectl/v1", False),
    ],
)
async def test_json_is_indented_for_people(
    api: Api, query: dict[str, str], agent: str, is_indented: bool
) -> None:
    """On request, and for programs that people use; failures as well."""
    headers = {"Authorization": f"Bearer {TOKEN}", "User-Agent": agent}
    for path in ("/api/v1/namespaces/default", "/api/v1/namespaces/none", "/apis"):
        url = f"{api.url}{path}"
        async with api.session.get(url, headers=headers, params=query) as response:
            assert (await response.text()).startswith('{\n  "kind"') is is_indented


async def test_plain_discovery_has_a_document_for_each_group_version(api: Api) -> None:
    """One document for each group version, subresources included."""
    assert (await api.get("/api")).body["versions"] == ["v1"]
    groups = (await api.get("/apis")).body["groups"]
    preferred = [group["preferredVersion"]["groupVersion"] for group in groups]
    assert preferred[:3] == ["apiregistration.k8s.io/v1", "apps/v1", "events.k8s.io/v1"]
    assert "autoscaling/v2" in preferred
    resources = {r["name"]: r for r in (await api.get("/api/v1")).body["resources"]}
    assert {"pods", "pods/log", "pods/exec", "pods/status", "namespaces/finalize"} <= set(resources)
    scale = {r["name"]: r for r in (await api.get("/apis/apps/v1")).body["resources"]}
    assert scale["deployments/scale"]["group"] == "autoscaling"


async def test_taken_port_is_reported(registry: Registry) -> None:
    """The person learns which port, and what to do."""
    server = APIServer(registry, tls=None, tokens=Tokens())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"port {port} on 127.0.0.1 is in use"):
            await server.start(port=port)
    assert await server.start(port=port) == port
    await server.stop()
    await server.stop()


@pytest.mark.internal_errors
async def test_unexpected_exception_is_internal_error_and_logged(
    api: Api, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    """The client gets a Status without details; the log has the cause, but no token."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    registry.store.read = broken  # type: ignore[method-assign, assignment]
    with caplog.at_level(logging.ERROR):
        reply = await api.get(CONFIGMAPS)
    assert (reply.status, reply.body["reason"]) == (500, "InternalError")
    assert "ZeroDivisionError" in caplog.text
    assert TOKEN not in caplog.text


@pytest.mark.internal_errors
async def test_answer_that_fails_half_way_is_cut(
    api: Api, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection ends without the end of the answer; no second one follows in it."""
    assert (await api.post(CONFIGMAPS, configmap("first"))).status == 201
    taken = RegistryWatch.take

    def take_once(watch: RegistryWatch) -> list[Frame]:
        monkeypatch.setattr(RegistryWatch, "take", broken)
        return taken(watch)

    def broken(_: RegistryWatch) -> list[Frame]:
        raise ZeroDivisionError

    monkeypatch.setattr(RegistryWatch, "take", take_once)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    url = f"{api.url}{CONFIGMAPS}?watch=1"
    received = b""
    async with api.session.get(url, headers=headers) as response:
        with pytest.raises(aiohttp.ClientPayloadError):
            async for chunk in response.content.iter_any():
                received += chunk
                await registry.create("configmaps", "default", configmap("next"), manager="t")
    assert b"HTTP/1.1" not in received
    assert received.count(b"\n") == 1
    assert (await api.get(CONFIGMAPS)).status == 200


async def test_watch_by_http_1_0_ends_with_its_connection(api: Api) -> None:
    """Without chunks, which that version does not have; older proxies speak it."""
    assert (await api.post(CONFIGMAPS, configmap("first"))).status == 201
    old = aiohttp.ClientSession(
        connector=api.session.connector, connector_owner=False, version=aiohttp.HttpVersion10
    )
    async with old, Api(old, api.url).watch(CONFIGMAPS, timeoutSeconds="1") as watch:
        assert watch.response.status == 200
        assert "Transfer-Encoding" not in watch.response.headers
        assert [line["object"]["metadata"]["name"] for line in await watch.rest()] == ["first"]


async def test_watch_of_stalled_client_is_ended(api: Api, registry: Registry) -> None:
    """Its watch ends; the server's memory does not grow with it."""
    async with api.watch(CONFIGMAPS) as watch:
        (stalled,) = next(iter(store_of(registry)._watches.values()))
        made = await registry.create("configmaps", "default", configmap("a"), manager="t")
        large = "x" * 300_000
        deadline = time.monotonic() + 120
        for number in range(2_000):
            change = {"data": {"k": f"{large}{number}"}}
            await registry.patch("configmaps", "default", "a", change, kind="merge", manager="t")
            await asyncio.sleep(0)
            if stalled.ended or time.monotonic() > deadline:
                break
        assert stalled.ended
        assert await watch.seen(1) == [("ADDED", "a")]
        assert made


async def test_pod_token_expires_and_is_for_its_account() -> None:
    """A pod's token is good for its lifetime, and for its own service account."""
    now = 0.0
    tokens = Tokens(clock=lambda: now)
    pod = {"metadata": {"namespace": "team"}, "spec": {"serviceAccountName": "web"}}
    token = tokens.issue_for_pod(pod, audience="", expiration_seconds=600)
    assert tokens.user(token) == "system:serviceaccount:team:web"
    assert tokens.user(tokens.issue_for_pod(pod, audience="vault", expiration_seconds=600)) is None
    now = 600.0
    assert tokens.user(token) is None


async def test_deeply_nested_body_is_bad_request(api: Api) -> None:
    body = b'{"metadata":{"name":"a"},"data":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001
    reply = await api.request("POST", CONFIGMAPS, body)
    assert (reply.status, reply.body["reason"]) == (400, "BadRequest")


_BOMB = b"a0: &a0 [x, x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 9)) for i in range(1, 12)
)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"[" * 2_000 + b"]" * 2_000, "exceeded max depth"),
        (b'{"a":' * 2_000 + b"1" + b"}" * 2_000, "exceeded max depth"),
        (_BOMB, "excessive aliasing"),
        (b"a: &a [*a]", "contains itself"),
        (b"a: !!int x", "yaml: "),
    ],
)
async def test_yaml_that_grows_is_bad_request(api: Api, body: bytes, text: str) -> None:
    """Nesting and aliases, in objects and in applied configurations."""
    created = await api.request("POST", CONFIGMAPS, body, content_type="application/yaml")
    kind = "application/apply-patch+yaml"
    applied = await api.request(
        "PATCH", f"{CONFIGMAPS}/a", b"b: 1\n" + body if body[:1] == b"a" else b" " + body[1:],
        content_type=kind, fieldManager="test",
    )  # fmt: skip
    for reply in (created, applied):
        assert reply.status == 400
    assert text in created.message


async def test_request_beyond_limits_is_refused_without_traceback(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    """A URL of more than a mebibyte, as Go's server refuses it; the next request is answered."""
    reply = await api.get(CONFIGMAPS, labelSelector="a" * 1_100_000)
    assert reply.status == 400
    assert (await api.get(CONFIGMAPS)).status == 200
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"User-Agent: na\xefve/1.0\r\n", 201),
        (b"User-Agent: a\x09b\xc2\x85/1.0\r\n", 201),
        (b"Impersonate-User: na\xefve\r\nImpersonate-Group: \xef\r\n", 201),
        (b"Impersonate-User: a\r\nImpersonate-Extra-b: \xef\r\n", 201),
        (b"Authorization: Bearer \xef\r\n", 401),
        (b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
         b"Sec-WebSocket-Key: \xef\r\n", 400),
    ],
)  # fmt: skip
async def test_headers_that_are_not_utf_8_are_read(
    api: Api, caplog: pytest.LogCaptureFixture, header: bytes, status: int
) -> None:
    """Go reads any bytes; a header that is needed then has no valid value."""
    review = b'{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}'
    method, path, body = "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review
    if b"User-Agent" in header:
        path, body = CONFIGMAPS, json.dumps(configmap("a", a="1")).encode()
    if b"WebSocket" in header:
        method, path, body = "GET", f"{CONFIGMAPS}?watch=1", b""
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n".encode()
    head += b"Content-Type: application/json\r\n" if body else b""
    if b"Authorization" not in header:
        head += f"Authorization: Bearer {TOKEN}\r\n".encode()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", int(api.url.rpartition(":")[2]), ssl=context
    )
    writer.write(head + header + b"\r\n" + body)
    async with asyncio.timeout(60):
        answer = await reader.readuntil(b"\r\n")
    writer.close()
    assert int(answer.split()[1]) == status
    assert not [record for record in caplog.records if record.exc_info]


async def test_manager_is_what_is_printable_of_the_user_agent(api: Api) -> None:
    """At most 128 bytes of it (apiserver: prefixFromUserAgent)."""
    data = json.dumps(configmap("a", a="1")).encode()
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    headers["User-Agent"] = "x\u00a0" + "\u00e9" * 100 + "/1.0"
    async with api.session.post(api.url + CONFIGMAPS, data=data, headers=headers) as reply:
        created = await reply.json()
    assert reply.status == 201
    assert created["metadata"]["managedFields"][0]["manager"] == "x" + "\u00e9" * 63


async def test_long_query_is_accepted(api: Api) -> None:
    selector = ",".join(f"label-{index}" for index in range(2_000))
    assert (await api.get(CONFIGMAPS, labelSelector=selector)).status == 200


async def test_node_without_flag_is_schedulable(api: Api) -> None:
    await api.post("/api/v1/nodes", {"metadata": {"name": "a"}})
    await api.post("/api/v1/nodes", {"metadata": {"name": "b"}, "spec": {"unschedulable": True}})
    found = await api.get("/api/v1/nodes", fieldSelector="spec.unschedulable=false")
    assert [node["metadata"]["name"] for node in found.body["items"]] == ["a"]


async def test_job_selects_its_pods_by_its_uid(api: Api) -> None:
    template = {"spec": {"containers": [{"name": "m", "image": "i"}], "restartPolicy": "Never"}}
    body = {"metadata": {"name": "once"}, "spec": {"template": template}}
    job = (await api.post("/apis/batch/v1/namespaces/default/jobs", body)).body
    uid = job["metadata"]["uid"]
    label = "batch.kubernetes.io/controller-uid"
    assert job["spec"]["selector"] == {"matchLabels": {label: uid}}
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert (labels[label], labels["job-name"]) == (uid, "once")


async def test_access_reviews_allow_and_are_not_stored(api: Api) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    attributes = {"verb": "get", "resource": "pods"}
    reply = await api.post(path, {"spec": {"resourceAttributes": attributes}})
    assert (reply.status, reply.body["kind"]) == (201, "SelfSubjectAccessReview")
    assert reply.body["status"] == {"allowed": True}
    assert (await api.get(path)).status == 405


async def test_self_subject_review_names_user_of_token(api: Api) -> None:
    reply = await api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert reply.body["status"]["userInfo"]["username"] == "system:masters"


async def test_stored_kinds_are_discovered_with_short_names(api: Api) -> None:
    resources = (await api.get("/api/v1")).body["resources"]
    by_name = {resource["name"]: resource for resource in resources}
    assert by_name["persistentvolumeclaims"]["shortNames"] == ["pvc"]
    assert by_name["replicationcontrollers"]["categories"] == ["all"]
    assert by_name["persistentvolumes"]["namespaced"] is False


async def test_stored_kind_gets_status_and_generation(api: Api) -> None:
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    body = {"metadata": {"name": "a"}, "spec": {"minAvailable": 1}, "status": {"expectedPods": 9}}
    made = (await api.post(path, body)).body
    assert made["status"]["expectedPods"] == 0
    assert made["metadata"]["generation"] == 1
    changed = await api.patch(f"{path}/a", {"spec": {"minAvailable": "50%"}})
    assert changed.body["metadata"]["generation"] == 2
    wrong = await api.patch(f"{path}/a", {"spec": {"selector": "x"}})
    assert (wrong.status, wrong.body["reason"]) == (422, "Invalid")


async def test_role_names_are_path_segments(api: Api) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
    assert (await api.post(path, {"metadata": {"name": "system:x"}})).status == 201
    refused = await api.post(path, {"metadata": {"name": "a%b"}})
    assert refused.message.endswith("metadata.name: Invalid value: \"a%b\": may not contain '%'")


@pytest.mark.parametrize("timeout", ["invalid", "5", "1 s"])
@pytest.mark.parametrize("path", ["/api/v1/namespaces", "/version"])
async def test_invalid_timeout_is_refused(api: Api, timeout: str, path: str) -> None:
    reply = await api.get(path, timeout=timeout)
    assert (reply.status, reply.message) == (400, "invalid timeout specified in the request URL")


@pytest.mark.parametrize("timeout", ["34s", "1m30s", "0"])
async def test_valid_timeout_is_accepted(api: Api, timeout: str) -> None:
    assert (await api.get("/api/v1/namespaces", timeout=timeout)).status == 200


async def test_connection_has_a_small_buffer(
    server: APIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """asyncio's own of 256 KiB is most of what a watch without events takes."""
    monkeypatch.setattr(SSLProtocol, "max_size", 1 << 18)
    await server.start()
    assert SSLProtocol.max_size == 1 << 16
