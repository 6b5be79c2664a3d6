"""aiohttp is imported without the certificates of the system."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.certificates import Authority
from tests.support.fault_server import FaultServer, Truth

from hotmap.local.http_library import aiohttp

#: Prints what the TLS settings of aiohttp trust, and the rest of the environment.
_PROBE = """
import json, os
import hotmap.local.apiserver.server
from aiohttp.connector import _SSL_CONTEXT_VERIFIED as trust
print(json.dumps([trust.cert_store_stats()["x509_ca"], os.environ.get("SSL_CERT_FILE")]))
"""


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("test authority")


def test_import_reads_no_certificates(authority: Authority, tmp_path: Path) -> None:
    """The environment is as it was after it."""
    file = tmp_path / "ca.crt"
    file.write_bytes(authority.pem)
    found = subprocess.run(
        [sys.executable, "-c", _PROBE],
        env={**os.environ, "SSL_CERT_FILE": str(file)},
        check=True,
        capture_output=True,
    )
    assert json.loads(found.stdout) == [0, str(file)]


async def test_connections_without_settings_trust_no_certificate(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that forgets them fails, instead of trusting anybody."""
    file = tmp_path / "system.crt"
    file.write_bytes(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    tls = authority.server_context(tmp_path, "localhost", "127.0.0.1")
    async with FaultServer(Truth(), tls=tls) as server, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get(server.url)
