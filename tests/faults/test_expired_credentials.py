"""A token renewed in its file is found without delay; one that is not is told in words."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from tests.support.fault_server import FaultServer, Truth
from tests.support.reflection import Reflect

from hotmap.core.model.objects import ConfigMap
from hotmap.kube.client import Client
from hotmap.kube.config import BearerToken, ClusterConfig, TokenFile
from hotmap.kube.resources import CONFIGMAPS


async def test_renewed_token_is_read_at_once_after_a_401(
    truth: Truth, server: FaultServer, reflect: Reflect, tmp_path: Path
) -> None:
    """One refused request, one with the new token, no pause and no list."""
    token = tmp_path / "token"
    token.write_text("old\n")
    server.token = "old"
    async with reflect(credentials=TokenFile(token)) as reflection:
        await reflection.converged()
        truth.put("c", "1")
        await reflection.converged()
        server.token = "new"
        token.write_text("new\n")
        server.cut()
        truth.delete("a")
        await reflection.converged()
    assert [request.headers["authorization"] for request in server.requests] == [
        "Bearer old",
        "Bearer old",
        "Bearer new",
    ]


async def test_expired_token_is_retried_with_backoff(
    server: FaultServer, reflect: Reflect, tmp_path: Path
) -> None:
    """Each attempt is one request, since the file has no other token to try."""
    token = tmp_path / "token"
    token.write_text("old")
    server.token = "new"
    async with reflect(credentials=TokenFile(token)) as reflection:
        await server.wait_for_requests("stream", 3)
        statistics = reflection.statistics()
        token.write_text("new")
        await reflection.converged()
    assert "rejected the credentials (401 Unauthorized)" in statistics.last_error
    assert server.url in statistics.last_error
    assert [request.script for request in server.requests] == ["stream"] * len(server.requests)
    assert len(server.requests) <= 6


async def test_token_without_a_file_is_tried_once_per_attempt(
    server: FaultServer, reflect: Reflect
) -> None:
    """A static token cannot get better, so a 401 is not answered with a second request."""
    server.token = "other"
    async with reflect(credentials=BearerToken("mine")) as reflection:
        await server.wait_for_requests("stream", 3)
        assert not reflection.store.synced.is_set()
        assert reflection.statistics().errors >= 2
    spacing = server.requests[1].at - server.requests[0].at
    assert spacing >= 0.02 * 0.9


async def test_concurrent_calls_share_the_renewed_token(
    server: FaultServer, tmp_path: Path
) -> None:
    """Each is repeated with the new token, which one of them read."""
    token = tmp_path / "token"
    token.write_text("old")
    server.token = "new"
    credentials = TokenFile(token)
    assert credentials.authorization() == "Bearer old"
    token.write_text("new")
    async with Client(ClusterConfig(server.url, "the test", credentials)) as client:
        await asyncio.gather(*(client.list_page(CONFIGMAPS, type=ConfigMap) for _ in range(5)))
    assert Counter(request.headers["authorization"] for request in server.requests) == {
        "Bearer old": 5,
        "Bearer new": 5,
    }
