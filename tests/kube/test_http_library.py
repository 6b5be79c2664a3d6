"""aiohttp is imported without the certificates of the system, which are trusted where wanted."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.certificates import Authority
from tests.support.fault_server import FaultServer, Truth

from hotmap.controller.report.http_post import open_session, post
from hotmap.kube.client import Client
from hotmap.kube.config import BearerToken, ClusterConfig
from hotmap.kube.http_library import aiohttp, system_trust

#: Prints what the TLS settings of aiohttp trust, and what is left of the environment.
_PROBE = """
import json, os, sys
__import__(sys.argv[1])
from aiohttp.connector import _SSL_CONTEXT_VERIFIED as trust
print(json.dumps([trust.cert_store_stats()["x509_ca"], os.environ.get("SSL_CERT_FILE")]))
"""


@pytest.mark.parametrize(
    "module",
    [
        "hotmap.cli.status_client",
        "hotmap.controller.run",
        "hotmap.kube.client",
        "hotmap.local.apiserver.server",
    ],
)
def test_import_reads_no_certificates(module: str, authority: Authority, tmp_path: Path) -> None:
    """The environment is as it was after it."""
    file = tmp_path / "ca.crt"
    file.write_bytes(authority.pem)
    found = subprocess.run(
        [sys.executable, "-c", _PROBE, module],
        env={**os.environ, "SSL_CERT_FILE": str(file)},
        check=True,
        capture_output=True,
    )
    assert json.loads(found.stdout) == [0, str(file)]


@pytest.fixture
def trusted(authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The authority of the test is one of the system."""
    file = tmp_path / "system.crt"
    file.write_bytes(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    system_trust.cache_clear()


@pytest.mark.usefixtures("trusted")
async def test_servers_of_the_systems_authorities_are_trusted(server_tls: ssl.SSLContext) -> None:
    """API servers without an authority in the kubeconfig, and receivers of webhooks."""
    async with FaultServer(Truth(), tls=server_tls) as server:
        config = ClusterConfig(server.url, "the test", BearerToken())
        async with Client(config) as client:
            await client.request("GET", "/version")
        async with open_session() as session:
            await post(session, f"{server.url}/hook", b"{}", "application/json")
    assert [request.path for request in server.requests] == ["/version", "/hook"]
    system_trust.cache_clear()


async def test_connections_without_settings_trust_nobody(
    server_tls: ssl.SSLContext, trusted: None
) -> None:
    """A connection that forgets them fails, instead of trusting anybody."""
    async with FaultServer(Truth(), tls=server_tls) as server, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get(server.url)
    system_trust.cache_clear()
