"""Calls: what is sent, what is repeated, and the one sentence when it cannot be done."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.certificates import Authority
from tests.support.fault_server import (
    Behaviour,
    Exchange,
    FaultServer,
    Truth,
    broken,
    silence,
    status,
    throttled,
)

from hotmap.core.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Invalid,
    NotFound,
    Throttled,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from hotmap.core.model.objects import ConfigMap, Workload
from hotmap.kube.client import Client, Limits, Page
from hotmap.kube.config import TLS, BearerToken, ClusterConfig
from hotmap.kube.metadata import list_versions
from hotmap.kube.partial_metadata import PartialObjectMetadata
from hotmap.kube.resources import CONFIGMAPS, DEPLOYMENTS, NAMESPACES

FAST = Limits(
    connect=1, attempt=0.5, attempts=3, pause_first=0.01, pause_last=0.05, max_retry_after=1
)

NO_TLS = TLS()

#: A call that writes.
Call = Callable[[Client], Awaitable[Any]]


def answers(code: int, body: Any, headers: dict[str, str] | None = None) -> Behaviour:
    """Behave by sending one answer."""

    async def behave(exchange: Exchange) -> None:
        await exchange.answer(code, body, headers)

    return behave


def client(server: FaultServer, *, tls: TLS = NO_TLS, token: str = "t") -> Client:
    origin = "kubeconfig /k, context 'here'"
    return Client(ClusterConfig(server.url, origin, BearerToken(token), tls), limits=FAST)


MADE = {"metadata": {"name": "a", "namespace": "shop"}, "data": {"k": "v"}}


async def test_typed_read_sends_what_kubernetes_expects(server: FaultServer) -> None:
    """Path, token, and the fields that are read; all else is skipped."""
    server.script("other", answers(200, {**MADE, "extra": {"deep": [1]}}))
    async with client(server) as api:
        configmap = await api.get(CONFIGMAPS, "shop", "a", type=ConfigMap)
    assert configmap.data == {"k": "v"}
    [request] = server.requests
    assert (request.method, request.path) == ("GET", "/api/v1/namespaces/shop/configmaps/a")
    assert request.headers["authorization"] == "Bearer t"
    assert request.headers["user-agent"] == "hotmap"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (CONFIGMAPS.path(None), "/api/v1/configmaps"),
        (CONFIGMAPS.path("shop"), "/api/v1/namespaces/shop/configmaps"),
        (NAMESPACES.path(None, "shop"), "/api/v1/namespaces/shop"),
        (NAMESPACES.path("ignored", "shop"), "/api/v1/namespaces/shop"),
        (
            DEPLOYMENTS.path("shop", "web", "status"),
            "/apis/apps/v1/namespaces/shop/deployments/web/status",
        ),
        (CONFIGMAPS.path("shop", "../x?y"), "/api/v1/namespaces/shop/configmaps/..%2Fx%3Fy"),
    ],
)
def test_paths_are_those_of_kubernetes(path: str, expected: str) -> None:
    """Cluster-scoped kinds have no namespace, and no name breaks out of its place."""
    assert path == expected


async def test_list_comes_page_by_page(server: FaultServer) -> None:
    """With its resourceVersion, and the token for the next page."""
    for name in "abc":
        server.truth.put(name)
    async with client(server) as api:
        first = await api.list_page(CONFIGMAPS, type=ConfigMap, limit=2)
        second = await api.list_page(
            CONFIGMAPS, type=ConfigMap, limit=2, continue_token=first.continue_token
        )
        empty = await api.list_page(CONFIGMAPS, type=msgspec.Raw, limit=0, label_selector="a=b")
    names = [[item.metadata.name for item in page.items] for page in (first, second)]
    assert names == [["a", "b"], ["c"]]
    assert second == Page(second.items, "103", "", second.size)
    assert first.size > second.size > 100
    assert len(empty.items) == 3
    assert server.requests[2].params == {"labelSelector": "a=b"}


async def test_metadata_alone_is_asked_for_where_no_more_is_read(server: FaultServer) -> None:
    """Answers to writes, and lists of versions, would be whole objects."""
    made = {"metadata": {"resourceVersion": "7"}}
    server.script("other", *[answers(200, made)] * 5, answers(200, {"metadata": {}, "items": []}))
    async with client(server) as api:
        await api.get(CONFIGMAPS, "shop", "a", type=ConfigMap)
        await api.get(CONFIGMAPS, "shop", "a", type=PartialObjectMetadata)
        await api.create(CONFIGMAPS, "shop", MADE, type=PartialObjectMetadata)
        await api.replace(CONFIGMAPS, "shop", "a", MADE, type=PartialObjectMetadata)
        patched = await api.patch(CONFIGMAPS, "shop", "a", {}, type=PartialObjectMetadata)
        await list_versions(api, CONFIGMAPS, "shop")
    assert patched.metadata.resource_version == "7"
    whole, *others, listed = (request.headers["accept"] for request in server.requests)
    assert whole == "application/json"
    assert {accept.partition(",")[0] for accept in others} == {
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    }
    assert listed.startswith("application/json;as=PartialObjectMetadataList;")


async def test_writes_carry_their_manager_and_type(server: FaultServer) -> None:
    """fieldManager on every write, the patch's type, the preconditions of a delete."""
    server.script("other", *[answers(200, MADE)] * 3, answers(200, status(200, "", "")))
    async with client(server) as api:
        await api.create(CONFIGMAPS, "shop", MADE, type=ConfigMap)
        await api.replace(CONFIGMAPS, "shop", "a", MADE, type=ConfigMap)
        await api.patch(DEPLOYMENTS, "shop", "a", {"x": 1}, type=Workload, subresource="scale")
        await api.delete(CONFIGMAPS, "shop", "a", uid="u", propagation="Foreground")
    create, replace, patch, delete = server.requests
    assert (create.method, create.path) == ("POST", "/api/v1/namespaces/shop/configmaps")
    assert create.params == replace.params == patch.params == {"fieldManager": "hotmap"}
    assert (replace.method, replace.path) == ("PUT", "/api/v1/namespaces/shop/configmaps/a")
    assert replace.headers["content-type"] == "application/json"
    assert patch.path == "/apis/apps/v1/namespaces/shop/deployments/a/scale"
    assert patch.headers["content-type"] == "application/merge-patch+json"
    assert json.loads(delete.body) == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "preconditions": {"uid": "u"},
        "propagationPolicy": "Foreground",
    }


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (422, "Invalid", Invalid),
        (405, "MethodNotAllowed", ApiError),
    ],
)
async def test_failure_status_becomes_its_exception(
    server: FaultServer, code: int, reason: str, expected: type[ApiError]
) -> None:
    """With Kubernetes' own words, and asked only once: repetition cannot help."""
    server.script("other", answers(code, status(code, reason, 'configmaps "a" …')))
    async with client(server) as api:
        with pytest.raises(ApiError) as caught:
            await api.get(CONFIGMAPS, "shop", "a", type=ConfigMap)
    assert type(caught.value) is expected
    assert (str(caught.value), caught.value.code, caught.value.reason) == (
        'configmaps "a" …',
        code,
        reason,
    )
    assert len(server.requests) == 1


async def test_reads_are_retried(server: FaultServer) -> None:
    """500 and 429 and silence, then an answer; each costs one request."""
    server.script("other", broken, silence, answers(200, MADE))
    async with client(server) as api:
        assert (await api.get(CONFIGMAPS, "shop", "a", type=ConfigMap)).data == {"k": "v"}
        statistics = api.statistics()
    assert len(server.requests) == 3
    assert statistics.retries == 2
    assert statistics.answers == {
        ("GET", "500"): 1,
        ("GET", "unreachable"): 1,
        ("GET", "200"): 1,
    }


async def test_retries_are_bounded(server: FaultServer) -> None:
    """After the last attempt the caller learns what the server said."""
    server.script("other", *[broken] * 10)
    async with client(server) as api:
        with pytest.raises(Unavailable, match="etcdserver: leader changed"):
            await api.get(CONFIGMAPS, "shop", "a", type=ConfigMap)
    assert len(server.requests) == 3


async def test_retry_after_is_waited_for_up_to_a_limit(server: FaultServer) -> None:
    """One second is; ten are the caller's to decide about, as the error tells them."""
    server.script("other", throttled(1), answers(200, MADE), throttled(10))
    async with client(server) as api:
        await api.get(CONFIGMAPS, "shop", "a", type=ConfigMap)
        with pytest.raises(Throttled) as caught:
            await api.get(CONFIGMAPS, "shop", "a", type=ConfigMap)
    assert caught.value.retry_after == 10
    assert server.requests[1].at - server.requests[0].at >= 1.0
    assert len(server.requests) == 3


VERSIONED = {"metadata": {"resourceVersion": "7"}}


@pytest.mark.parametrize(
    ("call", "requests"),
    [
        (lambda api: api.create(CONFIGMAPS, "s", MADE, type=ConfigMap), 1),
        (lambda api: api.create(CONFIGMAPS, "s", MADE, type=ConfigMap, idempotent=True), 3),
        (lambda api: api.replace(CONFIGMAPS, "s", "a", MADE, type=ConfigMap), 1),
        (lambda api: api.replace(CONFIGMAPS, "s", "a", VERSIONED, type=ConfigMap), 3),
        (lambda api: api.patch(CONFIGMAPS, "s", "a", MADE, type=ConfigMap), 1),
        (lambda api: api.patch(CONFIGMAPS, "s", "a", VERSIONED, type=ConfigMap), 3),
        (lambda api: api.patch(CONFIGMAPS, "s", "a", [], type=ConfigMap, idempotent=True), 3),
        (lambda api: api.delete(CONFIGMAPS, "s", "a"), 1),
        (lambda api: api.delete(CONFIGMAPS, "s", "a", uid="u"), 3),
    ],
    ids=[
        "create",
        "create declared idempotent",
        "replace",
        "replace with a resourceVersion",
        "patch",
        "patch with a resourceVersion",
        "patch declared idempotent",
        "delete",
        "delete with a uid",
    ],
)
async def test_only_idempotent_writes_are_retried(
    server: FaultServer, call: Call, requests: int
) -> None:
    """After a 500 it is unknown whether it was done; a precondition finds out."""
    server.script("other", *[broken] * 10)
    async with client(server) as api:
        with pytest.raises(Unavailable):
            await call(api)
    assert len(server.requests) == requests


async def test_throttled_write_is_retried(server: FaultServer) -> None:
    """So it is repeated whatever it is, after the pause that was asked for."""
    server.script("other", throttled(0), answers(201, MADE))
    async with client(server) as api:
        await api.create(CONFIGMAPS, "s", MADE, type=ConfigMap)
    assert len(server.requests) == 2


async def test_expired_token_error_is_one_sentence(server: FaultServer) -> None:
    """Which server, what it says, and where the credentials came from; never the token."""
    server.token = "other"
    async with client(server, token="geheim") as api:
        with pytest.raises(Unauthorized) as caught:
            await api.get(CONFIGMAPS, "shop", "a", type=ConfigMap)
    assert str(caught.value) == (
        f"{server.url} rejected the credentials (401 Unauthorized): they are wrong or have"
        " expired; renew those of kubeconfig /k, context 'here'"
    )
    assert len(server.requests) == 1


async def test_unreachable_server_error_is_one_sentence() -> None:
    """After three attempts, all refused."""
    async with FaultServer(Truth()) as server:
        url = server.url
        api = client(server)
    async with api:
        with pytest.raises(Unreachable) as caught:
            await api.get(CONFIGMAPS, "shop", "a", type=ConfigMap)
        assert api.statistics().answers == {("GET", "unreachable"): 3}
    assert str(caught.value) == (
        f"cannot reach {url}: connection refused; is the cluster up, and is the address in"
        " kubeconfig /k, context 'here' right?"
    )


async def test_unknown_host_error_is_one_sentence() -> None:
    """A typing error in the kubeconfig's server, for example."""
    config = ClusterConfig("https://api.invalid:6443", "kubeconfig /k", BearerToken())
    async with Client(config, limits=FAST) as api:
        with pytest.raises(
            Unreachable, match=r"^cannot reach https://api.invalid:6443: cannot resolve"
        ):
            await api.request("GET", "/version")


async def test_truncated_response_is_an_error(server: FaultServer) -> None:
    """The connection closes in the middle of an object."""

    async def cut_short(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        exchange.close()

    server.script("other", *[cut_short] * 3)
    async with client(server) as api:
        with pytest.raises(
            Unreachable,
            match=r"closed the connection during GET /api/.*: the response is incomplete",
        ):
            await api.get(CONFIGMAPS, "shop", "a", type=ConfigMap)
    assert len(server.requests) == 3


async def test_non_kubernetes_response_is_reported(server: FaultServer) -> None:
    """The login page of a proxy, with status 200 or with 502."""
    page = b"<html>please log in</html>"
    latin = '{"metadata": {"name": "\xe9"}}'.encode("latin-1")
    server.script("other", answers(200, page), answers(200, latin), *[answers(502, page)] * 3)
    async with client(server) as api:
        for problem in ("HTML, as of a proxy or a login page", "'utf-8' codec can't decode"):
            with pytest.raises(Unavailable, match=f"returned an invalid response to .*: {problem}"):
                await api.get(CONFIGMAPS, "shop", "a", type=ConfigMap)
        with pytest.raises(Unavailable, match=r"answered 502 Fault to GET /api/v1/.*/b$"):
            await api.get(CONFIGMAPS, "shop", "b", type=ConfigMap)


async def test_redirect_is_not_followed(server: FaultServer) -> None:
    """It would carry the token to another server."""
    server.script("other", answers(302, b"", {"Location": "http://127.0.0.1:1/"}))
    async with client(server) as api:
        with pytest.raises(ApiError, match="answered 302"):
            await api.get(CONFIGMAPS, "shop", "a", type=ConfigMap)
    assert len(server.requests) == 1


async def test_proxy_is_used_only_if_the_kubeconfig_names_one(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTTP_PROXY of a shell must not redirect the controller's credentials."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    server.script("other", answers(200, MADE), answers(200, MADE))
    config = ClusterConfig("http://api.invalid", "kubeconfig /k", BearerToken(), proxy=server.url)
    async with Client(config, limits=FAST) as api, client(server) as direct:
        await api.get(CONFIGMAPS, "shop", "a", type=ConfigMap)
        await direct.get(CONFIGMAPS, "shop", "a", type=ConfigMap)
    assert [request.headers["host"] for request in server.requests] == [
        "api.invalid",
        server.url.removeprefix("http://"),
    ]


async def test_impersonation_headers_are_sent(server: FaultServer) -> None:
    """Impersonation headers go with every request, repeated ones each."""
    server.script("other", answers(200, MADE))
    headers = (("Impersonate-User", "jane"), ("Impersonate-Group", "dev"))
    config = ClusterConfig(server.url, "kubeconfig /k", BearerToken(), impersonate=headers)
    async with Client(config, limits=FAST) as api:
        await api.get(CONFIGMAPS, "shop", "a", type=ConfigMap)
    [request] = server.requests
    assert (request.headers["impersonate-user"], request.headers["impersonate-group"]) == (
        "jane",
        "dev",
    )


# -- TLS ---------------------------------------------------------------------------------------


async def read(server: FaultServer, tls: TLS) -> None:
    server.script("other", answers(200, MADE))
    async with client(server, tls=tls) as api:
        await api.get(CONFIGMAPS, "shop", "a", type=ConfigMap)


async def test_server_of_the_own_authority_is_trusted(
    server_tls: ssl.SSLContext, authority: Authority
) -> None:
    """By its address, or by the name that the kubeconfig says to expect."""
    async with FaultServer(Truth(), tls=server_tls) as server:
        await read(server, TLS(ca=authority.pem))
        await read(server, TLS(ca=authority.pem, server_name="api.example"))
        await read(server, TLS(insecure=True))
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("server_name", "reason"),
    [("", "unable to get local issuer certificate"), ("other.example", "Hostname mismatch")],
    ids=["of another authority", "with another name"],
)
async def test_wrong_certificate_error_is_one_sentence(
    server_tls: ssl.SSLContext, authority: Authority, server_name: str, reason: str
) -> None:
    """Once: a certificate does not get better within seconds."""
    ca = authority.pem if server_name else type(authority)("another authority").pem
    async with FaultServer(Truth(), tls=server_tls) as server:
        api = client(server, tls=TLS(ca=ca, server_name=server_name))
        async with api:
            with pytest.raises(Unreachable) as caught:
                await api.get(CONFIGMAPS, "shop", "a", type=ConfigMap)
            assert api.statistics().answers == {("GET", "unreachable"): 1}
    text = str(caught.value)
    assert text.startswith(f"cannot trust {server.url}: {reason}")
    assert ".;" not in text
    assert text.endswith(
        "; check the certificate authority and the server's name in kubeconfig /k, context 'here'"
    )


async def test_client_certificate_is_sent(server_tls: ssl.SSLContext, authority: Authority) -> None:
    """A server that asks for one accepts ours."""
    server_tls.verify_mode = ssl.CERT_REQUIRED
    server_tls.load_verify_locations(cadata=authority.pem.decode())
    pair = authority.issue("client")
    async with FaultServer(Truth(), tls=server_tls) as server:
        await read(server, TLS(authority.pem, pair.certificate, pair.key))
        with pytest.raises(Unreachable):
            await read(server, TLS(authority.pem))


async def test_plain_http_server_is_reported() -> None:
    """The wrong scheme in the kubeconfig: the server answers the TLS greeting in plain words."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, Client(ClusterConfig(url, "kubeconfig /k", BearerToken())) as api:
        with pytest.raises(Unreachable, match=r"^cannot reach https://.*: TLS failed, "):
            await api.request("GET", "/version")


async def test_client_trusts_a_certificate_authority_that_was_renewed(
    authority: Authority,
    server_tls: ssl.SSLContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its file is read again after a certificate that cannot be trusted, and once a minute."""
    ca_file = tmp_path / "ca.crt"
    ca_file.write_bytes(Authority("former authority").pem)
    async with FaultServer(Truth(), tls=server_tls) as server:
        config = ClusterConfig(
            server.url, "the test", BearerToken(), TLS(ca=ca_file.read_bytes()), ca_file=ca_file
        )
        async with Client(config, limits=FAST) as client:
            with pytest.raises(Unreachable, match="cannot trust"):
                await client.request("GET", "/version")
            ca_file.write_bytes(authority.pem)
            with pytest.raises(Unreachable, match="cannot trust"):
                await client.request("GET", "/version")
            await client.request("GET", "/version")
            ca_file.write_bytes(b"no certificate")
            await client.request("GET", "/version")
            assert not caplog.records  # it is not time yet
            monkeypatch.setattr("hotmap.kube.transport.CERTIFICATE_PERIOD", 0.0)
            for _ in range(3):  # logged once, and not for each request
                await client.request("GET", "/version")
            (refused,) = caplog.messages
            assert refused.endswith("; using the last one")
            ca_file.write_bytes(authority.pem + Authority("next authority").pem)
            caplog.set_level(logging.INFO, "hotmap.kube.transport")
            await client.request("GET", "/version")
            assert caplog.messages[1:] == [
                f"reloaded the certificate authority for {client.server}"
            ]


async def test_authority_is_replaced_while_a_client_key_cannot_be_read(
    server_tls: ssl.SSLContext, authority: Authority, tmp_path: Path
) -> None:
    """Someone has removed the key, for example; what was read of it stays in use."""
    ca_file, certificate, key = (tmp_path / name for name in ("ca.crt", "jane.crt", "jane.key"))
    ca_file.write_bytes(Authority("former authority").pem)
    pair = authority.issue("jane")
    certificate.write_bytes(pair.certificate)
    async with FaultServer(Truth(), tls=server_tls) as server:
        config = ClusterConfig(
            server.url,
            "the test",
            BearerToken(),
            TLS(ca_file.read_bytes(), *pair),
            ca_file=ca_file,
            certificate_files=(certificate, key),
        )
        async with Client(config, limits=FAST) as client:
            ca_file.write_bytes(authority.pem)
            with pytest.raises(Unreachable, match="cannot trust"):
                await client.request("GET", "/version")
            await client.request("GET", "/version")
