"""Metrics, health and readiness over HTTP."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import aiohttp
import pytest
from tests.controller.pages import get_json, get_metrics
from tests.controller.world import REREADS, World, env, files

from hotmap.controller.addresses import DEFAULT_NAMESPACE
from hotmap.controller.report.pod_checks import PodChecker
from hotmap.controller.watch import missing_namespaces
from hotmap.core.errors import api_error


async def test_metrics_count_decisions_actions_watches_and_requests(
    world: World, http: aiohttp.ClientSession
) -> None:
    """Decisions, actions, records, watches, queues and requests are counted."""
    await world.config_map(LEVEL="info")
    await world.workload("web")
    await world.workload("api", files(), annotations=REREADS)
    await world.pod("api-1", of="api")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout()
        await world.event("Refreshed")
        samples = await get_metrics(http, controller)
    assert samples["hotmap_actions_total", "rollout/Deployment/done"] == 1
    assert samples["hotmap_actions_total", "nudge/Deployment/done"] >= 1
    assert samples["hotmap_decisions_total", "adopt"] >= 2
    assert samples["hotmap_decisions_total", "frozen change"] == 1
    assert samples["hotmap_records", ""] == 2
    assert samples["hotmap_watch_synced", "configmaps"] == 1
    assert samples["hotmap_watch_events_total", "configmaps"] >= 2
    assert samples["hotmap_watch_errors_total", "configmaps"] == 0
    assert 0 <= samples["hotmap_watch_last_byte_age_seconds", "secrets"] < 60
    assert samples["hotmap_queue_depth", "reconcile/processing"] == 0
    assert samples["hotmap_queue_retries_total", "reconcile"] == 0
    assert samples["hotmap_api_requests_total", "PATCH/200"] >= 2
    assert samples["hotmap_change_to_rollout_seconds_count", ""] == 1


async def test_each_failed_attempt_is_counted(world: World, http: aiohttp.ClientSession) -> None:
    """An alert fires while the count of failures grows, and each attempt may fail alike."""

    async def refuse(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        raise api_error(403, "exceeded quota")

    world.registry.guards.append(refuse)
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")

        async def has_failed_again() -> bool:
            samples = await get_metrics(http, controller)
            return samples.get(("hotmap_actions_total", "rollout/Deployment/failed"), 0) > 3

        await world.until(has_failed_again, "further failures are counted")
        assert len(await world.events("Failed")) == 1


async def test_terminating_namespace_gets_no_events_and_no_warnings(
    world: World, http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    """The API server would refuse them; its objects are deleted one after the other."""
    gone = "gone"
    await world.namespace(gone)
    await world.config_map(namespace=gone, LEVEL="info")
    await world.workload(namespace=gone)
    async with world.controller() as controller:
        await world.quiet(controller, namespace=gone)
        await world.registry.delete("namespaces", "", gone)

        async def is_known() -> bool:
            return controller.index.policies.is_terminating(gone)

        await world.until(is_known, "the deletion is known")
        await world.registry.delete("configmaps", gone, "app")
        await world.quiet(controller, namespace=gone)
        samples = await get_metrics(http, controller)
    assert ("hotmap_api_requests_total", "POST/403") not in samples
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


async def test_series_count_is_independent_of_cluster_size(
    world: World, http: aiohttp.ClientSession
) -> None:
    """No label holds the name of an object."""
    await world.config_map(LEVEL="info")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.workload("web-0")
        await world.quiet(controller)
        before = await get_metrics(http, controller)
        for number in range(1, 20):
            await world.workload(f"web-{number}")
        await world.quiet(controller)
        after = await get_metrics(http, controller)
    assert {key for key in after if key not in before and "requests" not in key[0]} == set()


async def test_health_lists_every_watch(world: World, http: aiohttp.ClientSession) -> None:
    """Every watch says how long it has been silent."""
    async with world.controller() as controller:
        status, body = await get_json(http, controller, "/healthz")
    assert status == 200
    assert body["healthy"] is True
    assert set(body["watches"]) == {
        "configmaps",
        "secrets",
        "deployments",
        "statefulsets",
        "daemonsets",
        "cronjobs",
        "jobs",
        "replicasets",
        "pods",
        "namespaces",
    }


async def test_readiness_names_stores_that_are_not_complete(
    world: World, http: aiohttp.ClientSession
) -> None:
    """Not ready before every store is complete; the answer names what is missing."""
    await world.plane.stop()
    controller = world.controller(patient=True)
    starting = asyncio.create_task(controller.__aenter__())
    try:

        async def waits() -> list[str]:
            if not controller.port:
                return []
            status, body = await get_json(http, controller, "/readyz")
            assert (status, body["ready"], body["role"]) == (503, False, "standby")
            problems: list[str] = body["problems"]
            return problems

        (problem,) = await world.until(waits, "readiness names what it waits for")
        assert problem.startswith(f"not started yet: cannot reach {world.client.server}: ")
        await world.plane.start()
        await starting
        status, body = await get_json(http, controller, "/readyz")
        assert (status, body["ready"], body["role"], body["notSynced"]) == (200, True, "leader", [])
        assert body["problems"] == []
    finally:
        await controller.__aexit__()


async def test_readiness_names_a_lease_that_cannot_be_read(
    world: World, http: aiohttp.ClientSession
) -> None:
    """Such a standby would never lead, as with expired credentials; nothing else shows it."""
    refusal = world.plane.fail("*", "leases.coordination.k8s.io", code=401)
    async with world.controller(identity="one") as controller:

        async def problems() -> list[str]:
            _, body = await get_json(http, controller, "/readyz")
            return list(body["problems"])

        (problem,) = await world.until(problems, "the Lease cannot be read")
        assert problem.startswith("Lease hotmap/hotmap-controller: ")
        assert "401 Unauthorized" in problem
        world.plane.failures.remove(refusal)

        async def leads() -> bool:
            return not await problems()

        await world.until(leads, "it is read again")


async def test_forbidden_kind_is_reported(world: World, http: aiohttp.ClientSession) -> None:
    """Readiness names it, everything else is served, and what lies behind it is not acted on."""
    await world.config_map(LEVEL="info")
    await world.secret("login", TOKEN="planted")
    spec = env("LEVEL")
    spec["containers"] += env("TOKEN", source="login", kind="secret")["containers"]
    spec["containers"][1]["name"] = "sidecar"
    await world.workload(spec=spec)
    world.registry.withheld.add("secrets")
    async with world.controller() as controller:

        async def is_decided() -> bool:
            return bool(controller.decision_log.history())

        await world.until(is_decided, "the consumer was looked at")
        status, body = await get_json(http, controller, "/readyz")
        assert (status, body["ready"], list(body["refused"])) == (200, True, ["secrets"])
        assert "forbidden" in body["refused"]["secrets"]
        await world.edit(LEVEL="debug")
        await world.rollout()


async def test_missing_namespace_is_reported(
    world: World,
    http: aiohttp.ClientSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Log and readiness name it; when it is made, it is served, and nothing is said any more."""
    monkeypatch.setattr(missing_namespaces, "_AGAIN", 0.1)
    caplog.set_level(logging.INFO)
    await world.namespace("shop")
    async with world.controller(watch_namespaces=("shop", "bank")) as controller:

        async def problems() -> Any:
            status, body = await get_json(http, controller, "/readyz")
            assert (status, body["ready"]) == (200, True)
            return body["problems"]

        assert await world.until(problems, "it is missed") == ["namespace bank does not exist"]
        await world.namespace("bank")
        await world.config_map(LEVEL="info", namespace="bank")
        await world.workload(namespace="bank")

        async def forgotten() -> bool:
            return not await problems()

        await world.until(forgotten, "it is not missed any more")
        await world.quiet(controller, namespace="bank")
        await world.edit(LEVEL="debug", namespace="bank")
        await world.rollout(namespace="bank")
    said = [
        record.message for record in caplog.records if record.message.startswith("namespace bank")
    ]
    assert said == [
        "namespace bank does not exist; it is served once it does",
        "namespace bank exists now",
    ]


async def test_forbidden_namespaces_are_tolerated(
    world: World, http: aiohttp.ClientSession
) -> None:
    """What holds anything is not asked for; what may not be asked for is not asked again."""
    for name in ("shop", "empty"):
        await world.namespace(name)
    await world.config_map("kube-root-ca.crt", namespace="shop", **{"ca.crt": "-"})
    asked = {
        name: world.plane.fail("get", "namespaces", code=403, name=name)
        for name in ("shop", "empty")
    }
    async with world.controller(watch_namespaces=("shop", "empty")) as controller:

        async def refused() -> bool:
            return asked["empty"].met > 0

        await world.until(refused, "the empty one was asked for")
        _, body = await get_json(http, controller, "/readyz")
    assert body["problems"] == []
    assert {name: namespace.met for name, namespace in asked.items()} == {"shop": 0, "empty": 1}


async def test_own_namespace_is_not_listed(world: World) -> None:
    """The manifests for one namespace grant no right to do so, and it is there."""
    refusal = world.plane.fail("get", "namespaces", code=403)
    async with world.controller(watch_namespaces=(DEFAULT_NAMESPACE,)) as controller:
        await world.quiet(controller, namespace=DEFAULT_NAMESPACE)
    assert refusal.met == 0


async def test_workload_states_are_counted(world: World, http: aiohttp.ClientSession) -> None:
    """A metric has every state, and another the pods that are waited for."""
    await world.config_map(LEVEL="info")
    await world.workload("web")
    await world.workload("api")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout()
        await world.rollout("api")
        await world.quiet(controller)
        samples = await get_metrics(http, controller)
        assert samples["hotmap_workloads", "waiting"] == 2
        assert samples["hotmap_workloads", "current"] == 0
        assert samples["hotmap_pods_behind", ""] == 2
        await world.delete("Deployment", "api")
        await world.quiet(controller)
        samples = await get_metrics(http, controller)
        assert samples["hotmap_workloads", "waiting"] == 1
        assert samples["hotmap_pods_behind", ""] == 1


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_endpoints_are_read_only(
    world: World, http: aiohttp.ClientSession, method: str
) -> None:
    """Reading is all that is served; there is no debug surface either."""
    async with world.controller() as controller:
        for path, status in (("/metrics", 405), ("/v1/status", 405), ("/debug", 404)):
            url = f"http://127.0.0.1:{controller.port}{path}"
            async with http.request(method, url) as response:
                assert response.status == status


async def test_root_lists_the_endpoints(world: World, http: aiohttp.ClientSession) -> None:
    """Each path that `/` names is served."""
    async with world.controller() as controller:
        base = f"http://127.0.0.1:{controller.port}"
        async with http.get(f"{base}/") as response:
            text = await response.text()
        paths = [line.split()[0] for line in text.splitlines() if line.startswith("/")]
        assert paths == ["/metrics", "/healthz", "/live", "/readyz", "/v1/status"]
        for path in paths:
            async with http.get(f"{base}{path}") as response:
                assert response.status == 200


async def test_healthz_fails_while_a_task_has_ended(
    world: World, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, with its name; it is counted and started again, and its work goes on."""
    work, failed = PodChecker.run, asyncio.Event()

    async def fail_once(checker: PodChecker) -> None:
        if not failed.is_set():
            failed.set()
            raise RecursionError
        await work(checker)

    monkeypatch.setattr(PodChecker, "run", fail_once)
    async with world.controller() as controller:
        await failed.wait()
        status, body = await get_json(http, controller, "/healthz")
        assert (status, body["healthy"]) == (503, False)
        assert body["failingTasks"] == {"check pods": "RecursionError"}
        samples = await get_metrics(http, controller)
    assert samples["hotmap_task_restarts_total", "check pods"] == 1
