"""TLS adds ways to fail, and must not hide the others."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from tests.support.certificates import Authority
from tests.support.fault_server import (
    Behaviour,
    FaultServer,
    Truth,
    half_line_then_close,
    reset_mid_line,
    silent_after_bookmark,
)
from tests.support.reflection import Reflect

from hotmap.kube.config import TLS


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority("test authority")


@pytest.fixture
def server_tls(authority: Authority, tmp_path: Path) -> ssl.SSLContext:
    return authority.server_context(tmp_path, "api.example", "127.0.0.1")


@pytest.mark.parametrize(
    "behaviour",
    [reset_mid_line, half_line_then_close, silent_after_bookmark],
    ids=lambda behaviour: behaviour.__name__,
)
async def test_watch_is_resumed_over_tls(
    truth: Truth,
    authority: Authority,
    server_tls: ssl.SSLContext,
    reflect: Reflect,
    behaviour: Behaviour,
) -> None:
    """One more watch, from where the last one stopped; a silent one asks for one object before."""
    async with FaultServer(truth, tls=server_tls, can_stream=False) as server:
        server.script("watch", behaviour)
        async with reflect(on=server, tls=TLS(ca=authority.pem)) as reflection:
            await server.wait_for_requests("watch", 1)
            truth.delete("a")
            truth.put("c", "1")
            await reflection.converged()
        assert reflection.deleted == ["a"]
        wait_for_requests = [
            request.script for request in server.requests if request.script != "check"
        ]
        assert wait_for_requests == [
            "stream",
            "list",
            "watch",
            "watch",
        ]


async def test_untrusted_server_gets_no_token(
    truth: Truth, server_tls: ssl.SSLContext, reflect: Reflect
) -> None:
    """No request ever reaches it, the reason is shown in words, and the attempts are paced."""
    foreign = Authority("another authority")
    async with FaultServer(truth, tls=server_tls) as server:
        async with reflect(on=server, tls=TLS(ca=foreign.pem)) as reflection:
            await reflection.wait_for_statistics(lambda statistics: statistics.errors >= 3)
            statistics = reflection.statistics()
        assert server.requests == []
    assert statistics.last_error.startswith(f"cannot trust {server.url}: ")
    assert statistics.watches == statistics.errors <= 10
    assert not reflection.store.synced.is_set()
