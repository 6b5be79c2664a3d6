"""Where a source has a limit, its workloads are rolled out a few at a time, gated by health."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.controller.world import World, env
from tests.support.objects import deployment

from hotmap.controller.reconcile.rollout_turns import RolloutTurns
from hotmap.controller.run import Controller
from hotmap.core.decide.plan import Action, ActionType
from hotmap.core.errors import ApiError, Unreachable, api_error
from hotmap.core.model.consumer import Argo, Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.kube.store import Store

LIMIT = "hotmap.dev/max-concurrent-rollouts"
NAMES = ("a", "b", "c", "d")


async def _create_fleet(world: World, limit: str = "", *, names: tuple[str, ...] = NAMES) -> None:
    await world.config_map(LEVEL="info")
    if limit:
        await world.merge("ConfigMap", "app", {"metadata": {"annotations": {LIMIT: limit}}})
    for name in names:
        await world.workload(name)


async def _wait(world: World, controller: Controller) -> None:
    """Wait until each workload is rolled out, or waits for its turn, and nothing is done."""

    async def idle() -> bool:
        queues = controller.queue_statistics().values()
        if any(queue.ready or queue.processing for queue in queues):
            return False
        keys = [ObjectKey("Deployment", "default", name) for name in NAMES]
        latest = [entry for key in keys if (entry := controller.decision_log.latest(key))]
        return all(entry.actions or not entry.waits for entry in latest)

    await world.passes_a_second()
    await world.until(idle, "the controller has nothing to do")


async def _rolled(world: World) -> set[str]:
    items = (await world.registry.list("deployments", "default")).items
    names = [item["metadata"]["name"] for item in items]
    return {name for name in names if await world.revision(name)}


async def _limit_namespace(world: World, limit: str | None) -> None:
    def annotate(obj: Any) -> Any:
        metadata = {**obj["metadata"], "annotations": {LIMIT: limit} if limit else {}}
        return {**obj, "metadata": metadata}

    await world.registry.modify("namespaces", None, "default", annotate, manager="kubectl")


async def _until_rolled(world: World, count: int) -> set[str]:
    async def rolled() -> bool:
        return len(await _rolled(world)) >= count

    await world.until(rolled, f"{count} workloads are rolled out")
    return await _rolled(world)


async def _first_fails(world: World) -> tuple[str, str]:
    """Wait until one workload is rolled out, and none of its pods is available.

    Returns its name and the revision that it has then.
    """
    (name,) = await _until_rolled(world, 1)
    await world.rolled_out(name, available=False)
    return name, await world.revision(name)


async def test_next_workload_follows_when_one_is_available(world: World) -> None:
    await _create_fleet(world, "2")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        first = await _until_rolled(world, 2)
        await _wait(world, controller)
        assert await _rolled(world) == first, "the others wait"
        done = sorted(first)[0]
        await world.rolled_out(done)
        assert len(await _until_rolled(world, 3)) == 3
        for name in NAMES:
            await world.rolled_out(name)
        assert await _until_rolled(world, 4) == set(NAMES)
        await _wait(world, controller)
    assert world.answers()["PATCH"] == 4


async def test_workload_that_does_not_become_available_stops_the_others(world: World) -> None:
    """Its pods are all replaced, but none is available: a bad value goes no further."""
    await _create_fleet(world, "1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="wrong")
        bad, wrong = await _first_fails(world)
        await _wait(world, controller)
        assert await _rolled(world) == {bad}
        await world.edit(LEVEL="info")  # as it was, so the others need nothing
        await world.rollout(bad, after=wrong)
        await world.rolled_out(bad)
        await _wait(world, controller)
        assert await _rolled(world) == {bad}


async def test_correction_reaches_the_failed_workload_first(world: World) -> None:
    await _create_fleet(world, "1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="wrong")
        bad, wrong = await _first_fails(world)
        await world.edit(LEVEL="debug")
        await world.rollout(bad, after=wrong)
        assert await _rolled(world) == {bad}
        for count in range(2, len(NAMES) + 1):
            for name in await _rolled(world):
                await world.rolled_out(name)
            await _until_rolled(world, count)


async def _delete_slowly(world: World, name: str) -> None:
    """Delete a workload that a finalizer keeps."""

    def keep(obj: Any) -> Any:
        return {**obj, "metadata": {**obj["metadata"], "finalizers": ["example.com/never"]}}

    await world.registry.modify("deployments", "default", name, keep, manager="kubectl")
    await world.delete("Deployment", name)


@pytest.mark.parametrize("is_rolling", [False, True])
async def test_workload_that_is_being_deleted_has_no_turn(world: World, is_rolling: bool) -> None:
    """Its controller replaces no pods of it any more, and a finalizer may keep it for good."""
    await _create_fleet(world, "1")
    async with world.controller() as controller:
        await world.quiet(controller)
        kept = "a"
        if is_rolling:
            await world.edit(LEVEL="debug")
            kept, _ = await _first_fails(world)
        await _delete_slowly(world, kept)
        await world.edit(LEVEL="trace")
        for count in range(1, len(NAMES)):

            async def rolled(count: int = count) -> bool:
                return len(await _rolled(world) - {kept}) == count

            await world.until(rolled, f"{count} others are rolled out")
            for name in await _rolled(world) - {kept}:
                await world.rolled_out(name)
        await _wait(world, controller)
        assert (kept in await _rolled(world)) == is_rolling


async def test_failed_workload_keeps_its_turn_where_its_correction_meets_a_conflict(
    world: World,
) -> None:
    """Its own controller writes its status all the time; the bad value goes no further for that."""
    await _create_fleet(world, "1")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="wrong")
        bad, wrong = await _first_fails(world)
        await _wait(world, controller)
        conflict = world.plane.fail("patch", "deployments.apps", code=409, times=1)
        await world.edit(LEVEL="wrong too")
        await world.rollout(bad, after=wrong)
        await _wait(world, controller)
        assert conflict.met
        assert await _rolled(world) == {bad}


async def test_correction_reaches_all_failed_workloads_under_a_lowered_limit(world: World) -> None:
    """More have a turn than there are now, and none must wait for another one of them."""
    await _create_fleet(world, "2")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="wrong")
        wrong = {name: await world.revision(name) for name in await _until_rolled(world, 2)}
        for name in wrong:
            await world.rolled_out(name, available=False)
        await world.merge("ConfigMap", "app", {"metadata": {"annotations": {LIMIT: "1"}}})
        await world.edit(LEVEL="debug")
        for name, revision in wrong.items():
            await world.rollout(name, after=revision)
        await _wait(world, controller)
        assert await _rolled(world) == set(wrong)


async def test_status_says_what_a_workload_waits_for(
    world: World, http: aiohttp.ClientSession
) -> None:
    await _create_fleet(world, "1", names=("a", "b"))
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        (first,) = await _until_rolled(world, 1)
        (other,) = {"a", "b"} - {first}

        await _wait(world, controller)
        url = f"http://127.0.0.1:{controller.port}/v1/status?workload=default/{other}"
        async with http.get(url) as response:
            (status,) = (await response.json())["workloads"]
        url = f"http://127.0.0.1:{controller.port}/metrics"
        async with http.get(url) as response:
            (shown,) = re.findall(
                r"^hotmap_rollout_turn_age_seconds (.*)$", await response.text(), re.M
            )
    assert float(shown) > 0
    assert status["state"] == "waiting"
    assert "ConfigMap default/app allows 1 workload at a time" in status["reason"]


@pytest.mark.parametrize(
    "gone", ["deleted", "scaled to zero", "paused", "not followed any more", "limit is raised"]
)
async def test_turn_is_free_when_nothing_is_replaced_any_more(world: World, gone: str) -> None:
    await _create_fleet(world, "1", names=("a", "b"))
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        (first,) = await _until_rolled(world, 1)
        match gone:
            case "deleted":
                await world.delete("Deployment", first)
            case "scaled to zero":
                await world.merge("Deployment", first, {"spec": {"replicas": 0}})
            case "paused":
                await world.merge("Deployment", first, {"spec": {"paused": True}})
            case "not followed any more":
                await world.annotate(first, follow=None)
            case "limit is raised":
                await world.merge("ConfigMap", "app", {"metadata": {"annotations": {LIMIT: "2"}}})
        (other,) = {"a", "b"} - {first}

        await world.rollout(other)


async def test_rejected_rollout_gives_its_turn_to_the_next(world: World) -> None:
    """A workload that no rollout can be written to must not stop the others."""

    async def refuse(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        if (plural, name) == ("deployments", "a"):
            raise api_error(403, "denied by policy")

    world.registry.guards.append(refuse)
    await _create_fleet(world, "1", names=("a", "b"))
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout("b")
        assert not await world.revision("a")


async def test_new_leader_counts_rollouts_of_the_one_before(world: World) -> None:
    await _create_fleet(world, "2")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        first = await _until_rolled(world, 2)
        await _wait(world, controller)
    async with world.controller() as controller:
        await _wait(world, controller)
        assert await _rolled(world) == first
        for name in first:
            await world.rolled_out(name)
        await _until_rolled(world, 4)


async def test_limit_of_the_source_precedes_that_of_namespace_and_flag(world: World) -> None:
    """The source's own limit is used before that of its Namespace, and that before the flag."""
    await _limit_namespace(world, "1")
    await _create_fleet(world)
    async with world.controller(rollout_limit=3) as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await _until_rolled(world, 1)
        await _wait(world, controller)
        assert len(await _rolled(world)) == 1
        await _limit_namespace(world, None)
        await _until_rolled(world, 3)
        await _wait(world, controller)
        assert len(await _rolled(world)) == 3
        await world.merge("ConfigMap", "app", {"metadata": {"annotations": {LIMIT: "0"}}})
        await _until_rolled(world, 4)


async def test_invalid_limit_is_reported_and_counts_as_one(world: World) -> None:
    await _create_fleet(world, "many")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await _until_rolled(world, 1)
        await _wait(world, controller)
        assert len(await _rolled(world)) == 1
        (message,) = await world.messages("InvalidAnnotation")
    assert message == (
        f'annotation {LIMIT}: invalid number "many": expected 0 (no limit) to 10000; treating as 1'
    )


async def test_workload_of_two_sources_waits_for_both(world: World) -> None:
    """And it keeps nobody else waiting meanwhile."""
    await _create_fleet(world, "1", names=("a", "b"))
    await world.config_map("other", LEVEL="info")
    await world.merge("ConfigMap", "other", {"metadata": {"annotations": {LIMIT: "1"}}})
    spec = env("LEVEL")
    spec["containers"][0]["env"] += [
        {"name": "OTHER", "valueFrom": {"configMapKeyRef": {"name": "other", "key": "LEVEL"}}}
    ]
    await world.workload("c", spec)
    await world.workload("d", env("LEVEL", source="other"))
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await _until_rolled(world, 1)
        await world.edit("other", LEVEL="debug")

        async def rolled() -> bool:
            return bool(await world.revision("d")) or bool(await world.revision("c"))

        await world.until(rolled, "one of the users of the other source is rolled out")
        for _ in range(3):
            for name in await _rolled(world):
                await world.rolled_out(name)
            await _wait(world, controller)
        await _until_rolled(world, 4)


# -- turns alone, without a cluster ------------------------------------------------------------

APP, OTHER = ObjectKey("ConfigMap", "shop", "app"), ObjectKey("ConfigMap", "shop", "other")


class Fleet:
    """Consumers of generation 1 and their turns, one at a time for each source."""

    def __init__(self) -> None:
        self.consumers: dict[ObjectKey, Consumer] = {}
        #: Who may go, in this order.
        self.woken: list[str] = []
        index: Any = SimpleNamespace(
            sources={"ConfigMap": Store()},
            policies=SimpleNamespace(annotations_of=lambda namespace: None),
            followers_of=lambda source: [],
            consumer=self.consumers.get,
        )
        self.turns = RolloutTurns(
            index,
            default_limit=1,
            reconcile=lambda key: self.woken.append(key.name),
            monotonic=lambda: 0.0,
        )

    def consumer(self, name: str, generation: int = 1) -> Consumer:
        """Put a consumer into the store, all of whose pods are replaced and available."""
        found = deployment(name=name, generation=generation)
        self.consumers[found.key] = found
        return found

    def take(self, consumer: Consumer, *sources: ObjectKey) -> bool:
        """Return whether a consumer may be rolled out for sources that have changed."""
        decision: Any = SimpleNamespace(
            snapshot=SimpleNamespace(consumer=consumer),
            plan=SimpleNamespace(actions=[Action(ActionType.ROLLOUT)]),
            changed_sources=lambda: sources,
        )
        return not self.turns.take(decision)


@pytest.mark.parametrize("by_argo", [False, True], ids=["Deployment", "run by an Argo Rollout"])
def test_turn_is_kept_while_the_store_lacks_the_rollout(by_argo: bool) -> None:
    """A decision on the state before it, such as one on a nudge, does not end the turn.

    What an Argo Rollout with a `workloadRef` has replaced shows in the Rollout alone.
    """
    fleet = Fleet()
    web, waiting = fleet.consumer("web"), fleet.consumer("waiting")
    assert fleet.take(web, APP)
    fleet.turns.written(web.key, 2)
    assert not fleet.take(waiting, APP)
    fleet.turns.written(web.key, 1)
    assert not fleet.take(waiting, APP)
    assert fleet.woken == []
    web = fleet.consumer("web", generation=2)
    changed = _argo_rollout_of(web) if by_argo else web
    fleet.turns.consumer_changed(changed.key, None, changed)
    assert fleet.woken == ["waiting"]
    assert fleet.take(waiting, APP)


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "not written"])
def test_turn_is_kept_where_the_response_to_a_rollout_is_lost(is_written: bool) -> None:
    """The next attempt shows whether it was written; until then no other workload may go.

    A store that lacks the rollout brings a conflict first.
    """
    fleet = Fleet()
    web, waiting = fleet.consumer("web"), fleet.consumer("waiting")
    assert fleet.take(web, APP)
    for error in (Unreachable("no response"), api_error(409, "it was modified")):
        with pytest.raises(type(error)), fleet.turns.writing(web.key):
            raise error
        assert not fleet.take(waiting, APP)
    assert fleet.woken == []
    web = fleet.consumer("web", generation=2 if is_written else 1)
    fleet.turns.written(web.key, web.generation)
    assert fleet.woken == ["waiting"]


@pytest.mark.parametrize("code", [403, 409, 500])
def test_turn_is_free_where_a_rollout_is_refused(code: int) -> None:
    """Also after a response was lost, unless the conflict may be with the rollout itself."""
    fleet = Fleet()
    web, waiting = fleet.consumer("web"), fleet.consumer("waiting")
    assert fleet.take(web, APP)
    if code != 409:
        with pytest.raises(Unreachable), fleet.turns.writing(web.key):
            raise Unreachable("no response")
    with pytest.raises(ApiError), fleet.turns.writing(web.key):
        raise api_error(code, "refused")
    assert fleet.take(waiting, APP)


def test_workload_that_waits_for_one_source_takes_no_turn_of_another() -> None:
    fleet = Fleet()
    web, both, last = (fleet.consumer(name) for name in ("web", "both", "last"))
    assert fleet.take(web, APP)
    fleet.turns.written(web.key, 2)
    assert not fleet.take(both, APP, OTHER)
    assert fleet.take(last, OTHER)
    fleet.turns.written(last.key, 2)
    web = fleet.consumer("web", generation=2)
    fleet.turns.consumer_changed(web.key, None, web)
    assert fleet.woken == ["both"]
    assert not fleet.take(both, APP, OTHER), "the other source has no turn"
    last = fleet.consumer("last", generation=2)
    fleet.turns.consumer_changed(last.key, None, last)
    assert fleet.woken == ["both", "both"]
    assert fleet.take(both, APP, OTHER)


def _argo_rollout_of(consumer: Consumer) -> Consumer:
    key = ObjectKey("Rollout", consumer.key.namespace, "canary")
    argo = Argo(key, "u", "1", template_in=consumer.key, template_seen="2", restart_at=None)
    return msgspec.structs.replace(consumer, key=key, argo=argo)
