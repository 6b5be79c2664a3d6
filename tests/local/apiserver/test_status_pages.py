"""What the API server says about itself: metrics, settings, status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from hotmap.local.apiserver.authentication import Access, Authenticator
from hotmap.local.apiserver.rbac import RBACAuthorizer
from hotmap.local.apiserver.registry import Registry
from hotmap.local.apiserver.server import APIServer
from hotmap.local.store import MVCCStore
from hotmap.local.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """Requests as an administrator to a server with RBAC."""
    registry, tokens = Registry(MVCCStore()), Tokens()
    tokens.add("secret", "system:masters")
    tokens.add("other", "jane")
    await registry.create("namespaces", None, {"metadata": {"name": "default"}}, manager="t")
    access = Access(
        Authenticator(tokens, registry.reader), RBACAuthorizer(registry.store, registry.scheme)
    )
    flags = {"authorization-mode": "[RBAC]"}
    server = APIServer(registry, tls=None, tokens=tokens, access=access, flags=flags)
    port = await server.start()
    headers = {"Authorization": "Bearer secret"}
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", headers=headers) as client:
        yield client
    await server.stop()


async def scrape(session: aiohttp.ClientSession, path: str = "/metrics") -> Samples:
    text = await (await session.get(path)).text()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, metric: str, /, **labels: str) -> float:
    """Add up the samples that have some labels."""
    wanted = labels.items()
    return sum(
        v for (n, found), v in samples.items() if n == metric and wanted <= dict(found).items()
    )


async def test_metrics_count_requests_objects_and_the_process(
    session: aiohttp.ClientSession,
) -> None:
    """Under upstream's names; a refused request counts with its code."""
    maps = "/api/v1/namespaces/default/configmaps"
    await session.post(maps, json={"metadata": {"name": "a"}})
    await session.post(f"{maps}?dryRun=All", json={"metadata": {"name": "b"}})
    await session.get(f"{maps}/none")
    await session.get("/api/v1/configmaps")
    watch = await session.get(f"{maps}?watch=1")
    samples = await scrape(session)
    total = "apiserver_request_total"
    assert value(samples, total, verb="POST", scope="resource", code="201", dry_run="") == 1
    assert value(samples, total, verb="POST", dry_run="All") == 1
    assert value(samples, total, verb="GET", resource="configmaps", code="404") == 1
    assert value(samples, total, verb="LIST", scope="cluster", version="v1") == 1
    assert value(samples, "apiserver_longrunning_requests", verb="WATCH", scope="namespace") == 1
    inflight = "apiserver_current_inflight_requests"
    assert value(samples, inflight, request_kind="readOnly") == 1
    assert value(samples, inflight, request_kind="mutating") == 0
    assert value(samples, "apiserver_storage_objects", resource="configmaps") == 1
    assert value(samples, "apiserver_resource_objects", group="apps", resource="deployments") == 0
    assert value(samples, "process_start_time_seconds") > 0
    assert value(samples, "kubernetes_build_info", minor="36") == 1
    watch.close()
    await session.delete("/metrics")
    assert value(await scrape(session), total, resource="configmaps", verb="POST") == 0


async def test_invented_methods_and_keys_add_no_metrics(session: aiohttp.ClientSession) -> None:
    """They share one each, or clients could fill the memory."""
    maps = "/api/v1/namespaces/default/configmaps"
    for method in ("PROPFIND", "MKCOL", "REPORT"):
        await session.request(method, maps)
    for number in range(3):
        await session.post(maps, json={"metadata": {"name": f"m{number}"}})
        await session.get(f"/debug/store/registry/configmaps/default/m{number}")
    samples = await scrape(session)
    total = "apiserver_request_total"
    assert value(samples, total, verb="other", resource="configmaps") == 3
    assert value(samples, total, subresource="/debug/store", code="200") == 3


async def test_health_is_a_metric(session: aiohttp.ClientSession) -> None:
    """By endpoint and check."""
    samples = await scrape(session, "/metrics/slis")
    assert value(samples, "kubernetes_healthcheck", name="etcd", type="readyz") == 1


@pytest.mark.parametrize("path", ["/metrics", "/metrics/slis", "/flagz", "/statusz"])
async def test_pages_are_for_those_who_may_read_them(
    session: aiohttp.ClientSession, path: str
) -> None:
    """Their paths are non-resource URLs of roles."""
    assert (await session.get(path)).status == 200
    refused = await session.get(path, headers={"Authorization": "Bearer other"})
    assert refused.status == 403
    assert (await refused.json())["message"] == f'forbidden: User "jane" cannot get path "{path}"'


async def test_pages_are_text_or_objects(session: aiohttp.ClientSession) -> None:
    """By the Accept header; objects only in a version that the client names."""
    text = await (await session.get("/flagz")).text()
    assert text.startswith("\napiserver flagz\nWarning: ")
    assert text.endswith("authorization-mode=[RBAC]\n")
    assert "\nBinary version= 1.36.3\n" in await (await session.get("/statusz")).text()
    accept = {"Accept": "application/json;as=Flagz;g=config.k8s.io;v=v1beta1"}
    answer = await session.get("/flagz", headers=accept)
    assert await answer.json() == {
        "kind": "Flagz",
        "apiVersion": "config.k8s.io/v1beta1",
        "metadata": {"name": "apiserver"},
        "flags": {"authorization-mode": "[RBAC]"},
    }
    accept = {"Accept": "application/yaml;as=Statusz;g=config.k8s.io;v=v1alpha1"}
    answer = await session.get("/statusz", headers=accept)
    assert "deprecated" in answer.headers["Warning"]
    assert "kind: Statusz\n" in await answer.text()
    refused = await session.get("/statusz", headers={"Accept": "application/json"})
    assert refused.status == 406


@pytest.mark.parametrize("path", ["/version", "/api", "/apis", "/apis/apps", "/api/v1"])
async def test_discovery_is_only_read(session: aiohttp.ClientSession, path: str) -> None:
    """Another method is refused as such, not as an unknown path."""
    refused = await session.post(path, json={})
    assert (refused.status, (await refused.json())["reason"]) == (405, "MethodNotAllowed")
