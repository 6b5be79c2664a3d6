"""A large body is written in pieces, between which other requests are answered."""

from __future__ import annotations

import pytest
from tests.local.apiserver.api import CONFIGMAPS, Api, configmap

from hotmap.local.apiserver.registry import Registry

COUNT = 5
#: Bytes of each; a list of all is more than a connection takes at once.
SIZE = 500_000


@pytest.fixture
async def large(registry: Registry) -> None:
    """ConfigMaps of 2.5 megabytes in all."""
    for number in range(COUNT):
        body = configmap(f"c{number:02}", text=chr(97 + number) * SIZE)
        await registry.create("configmaps", "default", body, manager="test")


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("accept", ["application/json", "application/yaml"])
async def test_large_list_arrives_whole(api: Api, accept: str) -> None:
    """Nothing is lost or repeated between two pieces, indented or not."""
    for query in ({}, {"pretty": "true"}) if accept.endswith("json") else ({},):
        reply = await api.request("GET", CONFIGMAPS, accept=accept, **query)
        assert reply.status == 200
        assert "Content-Length" in reply.headers
        if accept.endswith("yaml"):
            assert all(chr(97 + number) * SIZE in reply.body for number in range(COUNT))
            continue
        texts = [item["data"]["text"] for item in reply.body["items"]]
        assert texts == [chr(97 + number) * SIZE for number in range(COUNT)]


@pytest.mark.usefixtures("large")
async def test_client_that_leaves_in_the_middle_has_no_effect(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest is not written, the next request is answered, and nothing is logged."""
    headers = {"Authorization": f"Bearer {api.token}"}
    for _ in range(3):
        async with api.session.get(api.url + CONFIGMAPS, headers=headers) as response:
            await response.content.readexactly(1000)
            response.close()
    assert (await api.get(f"{CONFIGMAPS}/c00")).status == 200
    assert [record.getMessage() for record in caplog.records if record.levelno >= 30] == []
