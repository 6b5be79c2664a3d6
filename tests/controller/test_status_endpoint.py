"""What `/v1/status` answers: the overview, one workload, pages, and invalid queries."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
import pytest
from tests.controller.pages import get_json
from tests.controller.world import World, env

from hotmap.controller.report.consumer_states import ConsumerStates
from hotmap.core.model.consumer import REVISION, Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.status.consumer import ConsumerStatus, State
from hotmap.kube.loop_slices import SLICE


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
        before = world.answers()["GET"]  # its own Events and records may still be written
        status, body = await get_json(http, controller, "/v1/status")
        assert world.answers()["GET"] == before
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
        before = world.answers()["GET"]
        _, body = await get_json(http, controller, "/v1/status?sources=true")
        assert world.answers()["GET"] == before
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
            return found.startswith("sources changed; to be reconciled at ")

        await world.until(seen, "the change is seen")
    assert before["workloads"][0]["state"] == "current"


@pytest.mark.parametrize(
    ("paused", "state", "reason"),
    [
        (False, "waiting", "waiting for 1 pod: web-2 is not running (CrashLoopBackOff)"),
        (True, "paused", "waiting for 1 pod: rollout is paused"),
    ],
    ids=["in progress", "paused"],
)
async def test_failing_pod_of_a_rollout_is_named_at_once(
    world: World, http: aiohttp.ClientSession, paused: bool, state: str, reason: str
) -> None:
    """Pods are listed for the answer about one workload, so it does not wait for a check."""
    await world.config_map(LEVEL="info")
    await world.workload()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="bad")
        await world.rollout()
        await world.merge("Deployment", "web", {"spec": {"paused": paused}})
        await world.quiet(controller)
        await world.pod("web-2", started=time.time())
        await world.is_not_ready("web-2", {"waiting": {"reason": "CrashLoopBackOff"}})
        _, body = await get_json(http, controller, "/v1/status?workload=default/web")
    (consumer,) = body["workloads"]
    assert (consumer["state"], consumer["reason"]) == (state, reason)


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
