"""Metrics, health, readiness and status over HTTP."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.controller.pod_check_results import SOON
from tests.controller.world import FOLLOW, REREADS, World, env, files

from hotmap.controller.addresses import DEFAULT_NAMESPACE
from hotmap.controller.report.consumer_states import ConsumerStates
from hotmap.controller.report.pod_checks import PodChecker
from hotmap.controller.run import Controller
from hotmap.controller.settings import PodCheckSettings
from hotmap.controller.watch import missing_namespaces
from hotmap.core.model.consumer import REVISION, Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.status.consumer import ConsumerStatus, State
from hotmap.kube.loop_slices import SLICE


async def get_json(http: aiohttp.ClientSession, controller: Controller, path: str) -> Any:
    async with http.get(f"http://127.0.0.1:{controller.port}{path}") as response:
        return response.status, await response.json()


async def get_metrics(
    http: aiohttp.ClientSession, controller: Controller
) -> dict[tuple[str, str], float]:
    """Fetch all samples, by name and by the values of their labels in the order of those."""
    async with http.get(f"http://127.0.0.1:{controller.port}/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = await response.text()
    return {
        (sample.name, "/".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


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


async def test_status_lists_every_workload_without_a_request(
    world: World, http: aiohttp.ClientSession
) -> None:
    """Every consumer with its state, and counts of all, without a request."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        revision = await world.rollout()
        await world.quiet(controller)
        before = world.answers()
        status, body = await get_json(http, controller, "/v1/status")
        assert world.answers() == before
    assert status == 200
    assert (body["ready"], body["role"], body["sources"]) == (True, "leader", 1)
    assert body["server"] == world.client.server
    assert body["counts"] == {
        "current": 0,
        "delivered": 0,
        "unverified": 0,
        "waiting": 1,
        "paused": 0,
        "stuck": 0,
        "latent": 0,
        "held": 0,
        "refused": 0,
        "failed": 0,
        "unknown": 0,
    }
    assert body["behind"] == 1
    (consumer,) = body["workloads"]
    name = (consumer["kind"], consumer["namespace"], consumer["name"])
    assert name == ("Deployment", "default", "web")
    assert (consumer["state"], consumer["behind"]) == ("waiting", 1)
    assert consumer["reason"] == "waiting for 1 pod: rollout in progress"
    assert (consumer["strategy"], consumer["revision"]) == ("auto", revision)
    assert consumer["policy"] == "hotmap.dev/follow: auto"
    assert "decisions" not in consumer


async def test_status_of_one_workload_has_proof(world: World, http: aiohttp.ClientSession) -> None:
    """Asked for by name: its pods by one LIST, and the decisions in the words of the Events."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        revision = await world.rollout()
        message = await world.event("RolledOut")
        await world.pod("web-old")
        await world.pod("web-new", started=time.time() + 5, annotations=None)
        await world.quiet(controller)
        reads = world.answers()["GET"]
        _, body = await get_json(http, controller, "/v1/status?workload=default/web")
        assert world.answers()["GET"] == reads + 1
    (consumer,) = body["workloads"]
    newest, *_, oldest = consumer["decisions"]
    assert newest["reason"] == message
    assert newest["verdict"] == "frozen change"
    assert newest["actions"] == ["rollout"]
    assert newest["revision"] == revision
    assert newest["outcome"] == "done"
    assert oldest["verdict"] == "adopt"
    assert consumer["applied"] == consumer["desired"]
    assert [source["resourceVersion"] != "" for source in consumer["sources"]] == [True]
    assert consumer["sources"][0]["read"] == ["start"]
    pods = {pod["name"]: pod for pod in consumer["pods"]}
    assert pods["web-old"]["loaded"]["revision"] is None
    assert pods["web-old"]["loaded"]["confidence"] == "unknown"
    assert pods["web-new"]["loaded"]["revision"] == consumer["desired"]
    assert pods["web-new"]["loaded"]["confidence"] == "proven"
    assert pods["web-new"]["projected"] is None


@pytest.mark.parametrize("why", ["excluded", "ignored", "not named"])
async def test_sources_that_are_not_followed_are_named(
    world: World, http: aiohttp.ClientSession, why: str
) -> None:
    """A workload is current for the sources that are followed; the others are named with that."""
    await world.config_map(LEVEL="info")
    await world.config_map("extra", LEVEL="info")
    policy = {
        "excluded": {**FOLLOW, "hotmap.dev/exclude": "configmap/ex*"},
        "not named": {"hotmap.dev/follow": "configmap/app"},
    }
    spec = env("LEVEL")
    spec["containers"][0]["envFrom"] = [{"configMapRef": {"name": "extra"}}]
    await world.workload(spec=spec, annotations=policy.get(why, FOLLOW))
    if why == "ignored":
        await world.annotate("extra", kind="ConfigMap", ignore="true")
    await world.pod("web-1", started=time.time() + 5)
    async with world.controller() as controller:
        await world.quiet(controller)
        _, body = await get_json(http, controller, "/v1/status?workload=default/web")
        _, overview = await get_json(http, controller, "/v1/status")
    (consumer,) = body["workloads"]
    assert consumer["state"] == "current"
    assert [source["name"] for source in consumer["sources"]] == ["app"]
    assert consumer["unfollowed"] == [{"kind": "ConfigMap", "name": "extra"}]
    for document in (consumer, overview["workloads"][0]):
        assert document["reason"].endswith("; not followed: ConfigMap default/extra")


async def test_overview_names_sources_if_asked(world: World, http: aiohttp.ClientSession) -> None:
    """Those that each workload follows, also by name; whether they exist, without a request."""
    await world.config_map(LEVEL="info")
    await world.config_map("named", LEVEL="info")
    await world.workload("web")
    await world.workload("api", env("LEVEL", source="gone"))
    follow = {"hotmap.dev/follow": "configmap/na*"}
    await world.workload("cron", annotations=follow)
    async with world.controller() as controller:
        await world.quiet(controller)
        _, plain = await get_json(http, controller, "/v1/status")
        before = world.answers()
        _, body = await get_json(http, controller, "/v1/status?sources=true")
        assert world.answers() == before
        _, named = await get_json(http, controller, "/v1/status?workload=default/cron")
        status, refusal = await get_json(http, controller, "/v1/status?sources=yes")
    assert not any("sources" in each for each in plain["workloads"])
    sources = {each["name"]: each.pop("sources") for each in body["workloads"]}
    assert sources == {
        "web": [{"kind": "ConfigMap", "name": "app", "exists": True, "visible": True}],
        "api": [{"kind": "ConfigMap", "name": "gone", "exists": False, "visible": True}],
        "cron": [{"kind": "ConfigMap", "name": "named", "exists": True, "visible": True}],
    }
    assert [source["name"] for source in named["workloads"][0]["sources"]] == ["named"]
    assert body["workloads"] == plain["workloads"]
    assert (status, refusal["error"]) == (400, 'invalid sources "yes": expected true or false')


async def test_withdrawn_permission_is_not_called_current(
    world: World, http: aiohttp.ClientSession
) -> None:
    """What may be edited unseen is unknown, for those that use it alone, until it is granted."""
    await world.config_map(LEVEL="info")
    await world.secret("login", LEVEL="info")
    await world.workload()
    await world.workload("other", env("LEVEL", source="login", kind="secret"))
    for name in ("web", "other"):
        await world.pod(f"{name}-1", of=name, started=time.time() + 5)

    async def states() -> dict[str, str]:
        _, body = await get_json(http, controller, "/v1/status")
        return {item["name"]: item["state"] for item in body["workloads"]}

    async with world.controller(pod_checks=SOON) as controller:

        async def all_current() -> bool:
            return set((await states()).values()) == {"current"}

        await world.until(all_current, "both are current")
        world.registry.withheld.add("secrets")
        await world.plane.stop()  # ends the watches, as their time-out does
        await world.plane.start()

        async def unknown() -> bool:
            return await states() == {"web": "current", "other": "unknown"}

        await world.until(unknown, "the Secret's workload is unknown")
        samples = await get_metrics(http, controller)
        assert samples["hotmap_workloads", "current"] == 1
        assert samples["hotmap_workloads", "unknown"] == 1
        world.registry.withheld.clear()
        await world.until(all_current, "both are current again")


async def test_source_that_a_selector_hides_is_not_called_current(
    world: World, http: aiohttp.ClientSession
) -> None:
    """It may be edited unseen, so the state says nothing of it."""
    await world.config_map(LEVEL="info")
    await world.merge("ConfigMap", "app", {"metadata": {"labels": {"reload": "yes"}}})
    await world.workload()
    await world.pod("web-1", started=time.time() + 5)
    async with world.controller(source_selector="reload=yes") as controller:
        await world.quiet(controller)
        await world.merge("ConfigMap", "app", {"metadata": {"labels": {"reload": None}}})
        await world.edit(LEVEL="trace")

        async def named() -> bool:
            _, body = await get_json(http, controller, "/v1/status?workload=default/web")
            reason: str = body["workloads"][0]["reason"]
            return reason.endswith("; not followed: ConfigMap default/app")

        await world.until(named, "the source is named as not followed")
        assert await world.revision() == ""


@pytest.mark.parametrize("query", ["namespace=other", "workload=other/web"])
async def test_namespace_that_is_not_watched_is_named(
    world: World, http: aiohttp.ClientSession, query: str
) -> None:
    """Nothing is known of its workloads, which is not the same as that there are none."""
    async with world.controller(watch_namespaces=("default",)) as controller:
        await world.quiet(controller)
        _, unwatched = await get_json(http, controller, f"/v1/status?{query}")
        _, watched = await get_json(http, controller, "/v1/status?namespace=default")
    assert (unwatched["unwatched"], unwatched["workloads"]) == ("other", [])
    assert "unwatched" not in watched


async def test_pending_workload_is_not_current(world: World, http: aiohttp.ClientSession) -> None:
    """Asked during the settle time, the proof does not speak of the content before."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1", started=time.time() + 5)
    async with world.controller(settle=30, settle_max=30) as controller:
        await world.quiet(controller)
        _, before = await get_json(http, controller, "/v1/status?workload=default/web")
        await world.edit(LEVEL="debug")

        async def seen() -> bool:
            _, body = await get_json(http, controller, "/v1/status?workload=default/web")
            found: str = body["workloads"][0]["reason"]
            return found == "sources changed; reconcile pending"

        await world.until(seen, "the change is seen")
    assert before["workloads"][0]["state"] == "current"


async def test_forbidden_pod_list_is_reported(world: World, http: aiohttp.ClientSession) -> None:
    """The rest is shown, with what went wrong."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.plane.stop()
        _, body = await get_json(http, controller, "/v1/status?workload=default/web")
        await world.plane.start()
    (consumer,) = body["workloads"]
    assert consumer["pods"] == []
    assert "127.0.0.1" in consumer["podsError"]


async def test_standby_shows_no_workloads(world: World, http: aiohttp.ClientSession) -> None:
    """It reports standby, counts no workloads, and checks no pods."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1")
    soon = PodCheckSettings(initial_delay=0.0)
    async with (
        world.controller(identity="first", pod_checks=soon) as leader,
        world.controller(identity="second", pod_checks=soon) as standby,
    ):
        await world.event("Latent")
        _, body = await get_json(http, standby, "/v1/status?workload=default/web")
        samples = await get_metrics(http, standby)
        led = await get_metrics(http, leader)
    assert (body["ready"], body["role"]) == (False, "standby")
    assert (body["workloads"], body["counts"]) == ([], {})
    assert not [name for name, _ in samples if name == "hotmap_workloads"]
    assert samples["hotmap_pod_checks_total", ""] == 0
    assert led["hotmap_pod_checks_total", ""] >= 1


async def test_undecided_workload_is_shown(world: World, http: aiohttp.ClientSession) -> None:
    """Right after the start of a controller no workload is missing, and none is current."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        controller.decision_log.forget(ObjectKey("Deployment", "default", "web"))
        _, overview = await get_json(http, controller, "/v1/status")
        _, proof = await get_json(http, controller, "/v1/status?workload=default/web")
    assert [workload["state"] for workload in overview["workloads"]] == ["unverified"]
    assert overview["counts"]["unverified"] == 1
    assert [workload["name"] for workload in proof["workloads"]] == ["web"]


async def test_unfollowed_workload_has_a_reason(world: World, http: aiohttp.ClientSession) -> None:
    """By name; the overview does not show it."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations={})
    async with world.controller() as controller:
        await world.quiet(controller)
        _, overview = await get_json(http, controller, "/v1/status")
        _, named = await get_json(http, controller, "/v1/status?workload=default/web")
    assert overview["workloads"] == []
    (consumer,) = named["workloads"]
    assert consumer["state"] == "unfollowed"
    assert consumer["reason"] == "no annotation opts it in, such as hotmap.dev/follow: auto"


async def test_long_revision_is_cut(world: World, http: aiohttp.ClientSession) -> None:
    """Some tenant writes 200 KB into a template, and each of its pods has them too."""
    long = {REVISION: "x" * 200_000}
    await world.config_map(LEVEL="info")
    await world.workload(template_annotations=long)
    await world.pod("web-1", annotations=long)
    async with world.controller() as controller:
        await world.quiet(controller)
        _, body = await get_json(http, controller, "/v1/status?workload=default/web")
    (consumer,) = body["workloads"]
    expected = f"{'x' * 64}…"
    assert (consumer["revision"], consumer["pods"][0]["templateRevision"]) == (expected, expected)


async def test_overview_is_paged(world: World, http: aiohttp.ClientSession) -> None:
    """By namespace and state, so many at a time; `continue` gives the next."""
    await world.namespace("other")
    await world.config_map(LEVEL="info")
    for name in ("a", "b", "c"):
        await world.workload(name)
    await world.config_map(namespace="other", LEVEL="info")
    await world.workload("d", namespace="other")
    async with world.controller() as controller:
        await world.quiet(controller)

        async def names(query: str) -> tuple[list[str], dict[str, Any]]:
            _, body = await get_json(http, controller, f"/v1/status?{query}")
            return [workload["name"] for workload in body["workloads"]], body

        shown, body = await names("limit=2")
        assert shown == ["a", "b"]
        rest, last = await names(f"limit=2&continue={body['continue']}")
        assert (rest, "continue" in last) == (["c", "d"], False)
        found, body = await names("namespace=other")
        assert (found, body["counts"]["unverified"]) == (["d"], 1)
        assert (await names("state=held,latent"))[0] == []
        found, body = await names("state=unverified,held")
        assert (found, body["counts"]["unverified"]) == (["a", "b", "c", "d"], 4)


async def test_overview_leaves_turns_of_the_loop_to_others(
    world: World, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right after an edit the status of each of its thousands of users takes a snapshot."""
    await world.config_map(LEVEL="info")
    for name in "abc":
        await world.workload(name)
    turn, turns = 0, []

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def take_long(states: ConsumerStates, consumer: Consumer) -> ConsumerStatus:
        turns.append(turn)
        time.sleep(2 * SLICE)
        return ConsumerStatus(State.UNVERIFIED, "")

    async with world.controller() as controller:
        await world.quiet(controller)
        monkeypatch.setattr(ConsumerStates, "get", take_long)
        counting = asyncio.create_task(count_turns())
        _, body = await get_json(http, controller, "/v1/status")
        counting.cancel()
    assert len(body["workloads"]) == len(turns) == len(set(turns)) == 3


async def test_pages_are_in_the_order_of_their_tokens(
    world: World, http: aiohttp.ClientSession
) -> None:
    """A namespace whose name goes on where another one ends is on one of the pages too."""
    await world.namespace("default-eu")
    for namespace in ("default", "default-eu"):
        await world.config_map(namespace=namespace, LEVEL="info")
        for name in ("a", "b"):
            await world.workload(name, namespace=namespace)
    async with world.controller() as controller:
        await world.quiet(controller)
        found, token = [], ""
        while True:
            query = f"/v1/status?limit=1&continue={token}"
            _, body = await get_json(http, controller, query)
            found += [(item["namespace"], item["name"]) for item in body["workloads"]]
            if not (token := body.get("continue", "")):
                break
    namespaces = ("default", "default-eu")
    assert sorted(found) == [(namespace, name) for namespace in namespaces for name in ("a", "b")]


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("limit=0", "limit"),
        ("limit=many", "limit"),
        ("limit=99999999999999999999", "limit"),
        ("limit=-1", "limit"),
        ("limit=00000000110000", "limit"),
        pytest.param(f"limit=000000001{5000 * '0'}", "limit", id="limit of many digits"),
        ("state=fine", "state"),
        ("nosuch=1", "nosuch"),
        ("source=app", "source"),
        ("source=deployment/default/web", "source"),
        ("source=secret/default/", "source"),
    ],
)
async def test_invalid_query_is_rejected(
    world: World, http: aiohttp.ClientSession, query: str, word: str
) -> None:
    """400, and one sentence that names the parameter."""
    async with world.controller() as controller:
        status, body = await get_json(http, controller, f"/v1/status?{query}")
    assert status == 400
    assert body["error"].startswith((f"invalid {word} ", f'unknown parameter "{word}"'))


async def test_repeated_parameter_is_refused(world: World, http: aiohttp.ClientSession) -> None:
    """Which of two filters was meant is not known, and one alone shows something else."""
    async with world.controller() as controller:
        query = "/v1/status?namespace=shop&namespace=bank"
        code, body = await get_json(http, controller, query)
    assert (code, body) == (400, {"error": "parameter namespace is given more than once"})


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


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("default/web", ["web"]),
        ("Deployment/default/web", ["web"]),
        ("deployment/default/web", ["web"]),
        ("StatefulSet/default/web", []),
        ("default/no", []),
        ("web", []),
        ("", ["api", "web"]),
        ("%F0%9F%A6%8A/%00", []),
    ],
)
async def test_status_of_one_consumer(
    world: World, http: aiohttp.ClientSession, named: str, found: list[str]
) -> None:
    """`?workload=[KIND/]NAMESPACE/NAME` selects; an unknown one is an empty list."""
    await world.config_map(LEVEL="info")
    await world.workload("web")
    await world.workload("api")
    query = f"?workload={named}" if named else ""
    async with world.controller() as controller:
        await world.quiet(controller)
        status, body = await get_json(http, controller, f"/v1/status{query}")
    assert status == 200
    assert [consumer["name"] for consumer in body["workloads"]] == found


async def test_deleted_workload_is_not_shown(world: World, http: aiohttp.ClientSession) -> None:
    """Deleted or opted out: nothing is said of it any more."""
    await world.config_map(LEVEL="info")
    for name in ("web", "api", "stays"):
        await world.workload(name, env("LEVEL"))
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.delete("Deployment", "web")
        await world.annotate("api", follow="off")
        await world.quiet(controller)
        _, body = await get_json(http, controller, "/v1/status")
    assert [consumer["name"] for consumer in body["workloads"]] == ["stays"]


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
