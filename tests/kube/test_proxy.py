"""Proxies in front of an API server: which one is used, and requests and watches through it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from tests.support.control_plane import ControlPlane, control_plane
from tests.support.forward_proxy import running_proxy

from hotmap.core.errors import SettingsError, Unreachable
from hotmap.core.model.objects import ConfigMap
from hotmap.kube.client import Client
from hotmap.kube.config import ClusterConfig
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.proxy import describe_proxy, proxy_from_environment
from hotmap.kube.resources import CONFIGMAPS
from hotmap.local.pki import ServerPKI, create_pki

#: The proxies are processes.
pytestmark = pytest.mark.real_time

API = "https://api.corp.example:6443"
PROXY = {"HTTPS_PROXY": "http://proxy:3128"}


@pytest.mark.parametrize(
    ("server", "environment", "proxy"),
    [
        (API, {}, ""),
        (API, PROXY, "http://proxy:3128"),
        (API, {"https_proxy": "proxy:3128"}, "http://proxy:3128"),
        (API, {"HTTPS_PROXY": "socks5://proxy"}, "socks5://proxy"),
        (API, {"HTTPS_PROXY": "http://a", "https_proxy": "http://b"}, "http://a"),
        (API, {"HTTP_PROXY": "http://proxy"}, ""),
        ("http://api.corp.example", {"HTTP_PROXY": "http://proxy"}, "http://proxy"),
        ("https://127.0.0.1:6443", PROXY, ""),
        ("https://[::1]:6443", PROXY, ""),
        ("https://localhost:6443", PROXY, ""),
        (API, {**PROXY, "NO_PROXY": "*"}, ""),
        (API, {**PROXY, "NO_PROXY": "corp.example"}, ""),
        (API, {**PROXY, "no_proxy": "other, .corp.example"}, ""),
        (API, {**PROXY, "NO_PROXY": "*.corp.example"}, ""),
        (API, {**PROXY, "NO_PROXY": "API.corp.example"}, ""),
        (API, {**PROXY, "NO_PROXY": "api.corp.example:6443"}, ""),
        (API, {**PROXY, "NO_PROXY": "api.corp.example:443"}, "http://proxy:3128"),
        (API, {**PROXY, "NO_PROXY": ".api.corp.example"}, "http://proxy:3128"),
        (API, {**PROXY, "NO_PROXY": "rp.example"}, "http://proxy:3128"),
        (API, {**PROXY, "NO_PROXY": "10.0.0.0/8"}, "http://proxy:3128"),
        ("https://10.1.2.3", {**PROXY, "NO_PROXY": "10.0.0.0/8"}, ""),
        ("https://10.1.2.3", {**PROXY, "NO_PROXY": "10.1.2.3"}, ""),
        ("https://10.1.2.3", {**PROXY, "NO_PROXY": "10.1.2.3:443"}, ""),
        ("https://11.1.2.3", {**PROXY, "NO_PROXY": "10.0.0.0/8"}, "http://proxy:3128"),
        ("https://[fd00::1]:6443", {**PROXY, "NO_PROXY": "fd00::/8"}, ""),
        ("https://[fd00::1]:6443", {**PROXY, "NO_PROXY": "[fd00::1]:6443"}, ""),
    ],
)
def test_proxy_of_the_environment_is_used(
    server: str, environment: dict[str, str], proxy: str
) -> None:
    assert proxy_from_environment(server, environment) == proxy


@pytest.mark.parametrize("value", ["ftp://proxy", "http://", "http://p:99999", "http://a b"])
def test_unusable_proxy_of_the_environment_is_named(value: str) -> None:
    with pytest.raises(SettingsError, match=r"^HTTPS_PROXY is not the URL of a proxy: expected"):
        proxy_from_environment(API, {"HTTPS_PROXY": value})


def test_messages_show_no_password() -> None:
    assert describe_proxy("https://user:secret@proxy:3128") == "https://proxy:3128"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> ServerPKI:
    return create_pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
async def plane(pki: ServerPKI) -> AsyncIterator[ControlPlane]:
    async with control_plane(pki) as plane:
        yield plane


def config(plane: ControlPlane, proxy: str, host: str = "localhost") -> ClusterConfig:
    """Reach a plane by a name that only a proxy resolves, and its certificate has another."""
    own = plane.config()
    tls = own.tls._replace(server_name="" if host == "localhost" else "localhost")
    return own._replace(server=f"https://{host}:{plane.port}", proxy=proxy, tls=tls)


def flags(kind: str, pki: ServerPKI) -> list[str]:
    tls = ["--tls", str(pki.server_certificate), str(pki.server_key)]
    return {"http": [], "https": tls, "socks5": ["--socks"], "socks5h": ["--socks"]}[kind]


async def use(config: ClusterConfig) -> None:
    """Write and read an object, and get an event of a watch."""
    async with Client(config) as client:
        body = {"metadata": {"name": "app"}, "data": {"a": "b"}}
        await client.create(CONFIGMAPS, "default", body, type=ConfigMap)
        found = await client.get(CONFIGMAPS, "default", "app", type=ConfigMap)
        assert found.data == {"a": "b"}
        async with client.open_watch(CONFIGMAPS, "default", params={"timeoutSeconds": "5"}) as live:
            async for chunk in live.chunks():
                assert b'"name":"app"' in chunk
                break


@pytest.mark.parametrize("host", ["localhost", "api.corp.test"])
@pytest.mark.parametrize("kind", ["http", "https", "socks5", "socks5h"])
async def test_requests_and_watches_use_the_proxy(
    plane: ControlPlane, pki: ServerPKI, tmp_path: Path, kind: str, host: str
) -> None:
    """TLS ends at the server, whose name may be known to the proxy alone."""
    with running_proxy(tmp_path, *flags(kind, pki)) as proxy:
        await use(config(plane, f"{kind}://localhost:{proxy.port}", host))
        assert set(proxy.tunnels()) == {f"{host}:{plane.port}"}


@pytest.mark.parametrize("kind", ["http", "https", "socks5"])
async def test_password_of_proxy_is_sent_and_not_shown(
    plane: ControlPlane, pki: ServerPKI, tmp_path: Path, kind: str
) -> None:
    """In the URL, escaped; without it, or with another, the message has none."""
    with running_proxy(tmp_path, "--user", "jane:p@ss", *flags(kind, pki)) as proxy:
        await use(config(plane, f"{kind}://jane:p%40ss@localhost:{proxy.port}"))
        for user in ("jane:geheim@", ""):
            url = f"{kind}://{user}localhost:{proxy.port}"
            async with Client(config(plane, url)) as client:
                with pytest.raises(Unreachable) as caught:
                    await client.request("GET", "/version")
            assert f"through the proxy {kind}://localhost:{proxy.port}: " in str(caught.value)
            assert "geheim" not in str(caught.value)


async def test_proxy_that_cannot_be_reached_is_named(plane: ControlPlane) -> None:
    for kind in ("http", "https", "socks5"):
        async with Client(config(plane, f"{kind}://127.0.0.1:1")) as client:
            with pytest.raises(Unreachable) as caught:
                await client.request("GET", "/version")
        message = f"through the proxy {kind}://127.0.0.1:1: connection refused"
        assert message in str(caught.value)


async def test_refusal_of_a_socks_proxy_is_reported(plane: ControlPlane, tmp_path: Path) -> None:
    with running_proxy(tmp_path, "--socks") as proxy:
        url = f"socks5://127.0.0.1:{proxy.port}"
        async with Client(config(plane, url, "refused.test")) as client:
            with pytest.raises(Unreachable, match="the proxy refuses: host unreachable"):
                await client.request("GET", "/version")


@pytest.mark.parametrize(
    ("named", "environment", "proxy"),
    [
        ({}, {"HTTPS_PROXY": "http://proxy:3128"}, "http://proxy:3128"),
        ({}, {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": ".corp.test"}, ""),
        ({"proxy-url": "socks5://p"}, {"HTTPS_PROXY": "http://proxy:3128"}, "socks5://p"),
        ({"proxy-url": "https://p"}, {"NO_PROXY": "*"}, "https://p"),
    ],
)
def test_kubeconfig_goes_before_the_environment(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: dict[str, str],
    environment: dict[str, str],
    proxy: str,
) -> None:
    """As for kubectl, which asks NO_PROXY nothing where the kubeconfig names a proxy."""
    for variable in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"server": "https://api.corp.test:6443", **named}
    content = {
        "current-context": "it",
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "me", "user": {"token": "t"}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "me"}}],
    }
    kubeconfig.write_text(yaml.safe_dump(content))
    assert load_kubeconfig(str(kubeconfig)).proxy == proxy
