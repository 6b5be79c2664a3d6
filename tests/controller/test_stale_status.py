"""The status of workloads whose sources changed unnoticed, or whose controller knows too little.

A query right after an edit must not return that the content before is current: the watch may
not have delivered the edit, the decision may not be made, and the controller that answers may not
be the leader any more.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from tests.controller.argo_rollouts import ROLLOUTS
from tests.controller.pages import count_workloads
from tests.controller.world import World, env, files, pause_fan_outs, stop_watches
from tests.support.provider_classes import Driver

from hotmap.controller.run import Controller
from hotmap.controller.settings import PodCheckSettings
from hotmap.controller.storage import recent_changes
from hotmap.controller.watch import consistent_reads

SOON = PodCheckSettings(rate=100.0, initial_delay=0.0)


async def get_states(
    http: aiohttp.ClientSession, controller: Controller, query: str = ""
) -> dict[str, tuple[str, str]]:
    """Fetch (state, reason) of the workloads of a query, by name."""
    url = f"http://127.0.0.1:{controller.port}/v1/status?{query}"
    async with http.get(url) as response:
        document: dict[str, Any] = await response.json()
        assert response.status == 200, document
    assert document["ready"], document
    return {
        workload["name"]: (workload["state"], workload["reason"])
        for workload in document["workloads"]
    }


async def one_current_workload(world: World, controller: Controller) -> None:
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1", started=time.time() + 5)
    await controller.__aenter__()
    await world.quiet(controller)


async def until_current(
    world: World, http: aiohttp.ClientSession, controller: Controller, query: str = ""
) -> None:
    async def is_current() -> bool:
        states = await get_states(http, controller, query)
        return {state for state, _ in states.values()} == {"current"}

    await world.until(is_current, "the workload is current")


def assert_settling(found: tuple[str, str]) -> None:
    state, reason = found
    assert state == "waiting"
    assert re.fullmatch(
        r"sources changed; to be reconciled at \d\d:\d\d:\d\d UTC, after the settle time", reason
    )


@pytest.fixture
async def settling(world: World) -> AsyncIterator[Controller]:
    """A controller that decides on no change before the test has ended."""
    controller = world.controller(settle=60, settle_max=60, pod_checks=SOON)
    await one_current_workload(world, controller)
    yield controller
    await controller.__aexit__()


@pytest.mark.parametrize("query", ["workload=default/web", "namespace=default", ""])
async def test_edit_that_no_watch_has_delivered_is_seen_by_a_consistent_query(
    world: World, http: aiohttp.ClientSession, settling: Controller, query: str
) -> None:
    """The watches are open and silent; the API server is asked."""
    await until_current(world, http, settling, query)
    await stop_watches(settling)
    await world.edit(LEVEL="debug")
    found = await get_states(http, settling, f"{query}&consistent=true")
    assert_settling(found["web"])
    # What was read is kept.
    assert await get_states(http, settling, query) == found


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_change_of_an_unverified_workload_shows_as_settling(
    world: World, http: aiohttp.ClientSession, is_deleted: bool
) -> None:
    """Its pods are not checked before the change is decided on, which may take an hour."""
    checks = PodCheckSettings(rate=100.0, initial_delay=300.0)
    async with world.controller(settle=60, settle_max=60, pod_checks=checks) as controller:
        await world.config_map(LEVEL="info")
        await world.workload()
        await world.pod("web-1", started=time.time() + 5)

        async def is_adopted() -> bool:
            return (await get_states(http, controller)).get("web", "") == (
                "unverified",
                "not verified yet",
            )

        await world.until(is_adopted, "the workload is adopted")
        if is_deleted:
            await world.delete("ConfigMap", "app")
        else:
            await world.edit(LEVEL="debug")
        found = await get_states(http, controller, "workload=default/web&consistent=true")
        assert_settling(found["web"])
        counts = await count_workloads(http, controller)
        assert (counts["unverified"], counts["waiting"]) == (0, 1)


@pytest.mark.parametrize("query", ["workload=default/web", "namespace=default"])
async def test_source_that_is_gone_leaves_no_workload_current(
    world: World, http: aiohttp.ClientSession, settling: Controller, query: str
) -> None:
    """Before it is decided on too: its pods have content that the cluster does not have."""
    await until_current(world, http, settling, query)
    await world.delete("ConfigMap", "app")
    found = await get_states(http, settling, f"{query}&consistent=true")
    assert_settling(found["web"])
    counts = await count_workloads(http, settling)
    assert (counts["current"], counts["waiting"]) == (0, 1)


async def test_workload_that_no_watch_has_delivered_is_seen_by_a_consistent_query(
    world: World, http: aiohttp.ClientSession, settling: Controller
) -> None:
    await until_current(world, http, settling)
    await stop_watches(settling)
    await world.workload("api")
    found = await get_states(http, settling, "namespace=default&consistent=true")
    assert found["api"][0] in ("unverified", "waiting")
    await world.delete("Deployment", "api")
    assert set(await get_states(http, settling, "namespace=default&consistent=true")) == {"web"}


async def test_workload_is_not_current_where_the_api_server_cannot_confirm_it(
    world: World, http: aiohttp.ClientSession, settling: Controller
) -> None:
    await until_current(world, http, settling)
    await world.plane.stop()
    for query in ("namespace=default", "workload=default/web", ""):
        found = await get_states(http, settling, f"{query}&consistent=true")
        state, reason = found["web"]
        assert state == "unknown"
        assert reason.startswith("cannot be confirmed: ")
    await world.plane.start()


async def test_kind_that_was_removed_leaves_other_workloads_current(
    world: World, http: aiohttp.ClientSession, driver: Driver
) -> None:
    """Argo Rollouts were uninstalled: nothing more is asked of them."""
    await world.registry.create("customresourcedefinitions", None, ROLLOUTS, manager="t")
    await driver.until("rollouts.argoproj.io", served=True)
    controller = world.controller(pod_checks=SOON)
    await one_current_workload(world, controller)
    assert controller._reflectors is not None
    (rollouts,) = controller._reflectors._optional
    assert rollouts.reflectors
    await until_current(world, http, controller, "namespace=default&consistent=true")
    await world.registry.delete("customresourcedefinitions", None, "rollouts.argoproj.io")
    await driver.until("rollouts.argoproj.io", served=False)
    for noticed in (False, True):
        while noticed and rollouts.reflectors:
            await rollouts._check()  # as every 30 seconds
        for query in ("namespace=default", ""):
            found = await get_states(http, controller, f"{query}&consistent=true")
            assert found["web"][0] == "current"
    await controller.__aexit__()


@pytest.mark.parametrize("query", ["namespace=default", ""])
async def test_objects_that_are_not_consumers_leave_workloads_current(
    world: World, http: aiohttp.ClientSession, settling: Controller, query: str
) -> None:
    """Such as the Jobs of CronJobs, however many there are."""
    for number in range(consistent_reads._MAX_DIFFERENT + 1):
        await world.job(f"report-{number}", owner=("CronJob", "report"), ended="Complete")
    await until_current(world, http, settling, f"{query}&consistent=true")


@pytest.mark.parametrize("query", ["namespace=default", ""])
async def test_objects_that_the_stores_leave_out_by_content_leave_workloads_current(
    world: World, http: aiohttp.ClientSession, settling: Controller, query: str
) -> None:
    """Finished Jobs without an owner, and Secrets of hotmap's types, which a tenant may create."""
    for number in range(consistent_reads._MAX_DIFFERENT + 1):
        await world.job(f"load-{number}", annotations={}, ended="Complete")
        body = {"metadata": {"name": f"state-{number}"}, "type": "hotmap.dev/state"}
        await world.registry.create("secrets", "default", body, manager="kubectl")
    await until_current(world, http, settling, f"{query}&consistent=true")
    before = world.answers()["GET"]
    await get_states(http, settling, f"{query}&consistent=true")
    assert world.answers()["GET"] <= before + len(settling.index.sources) + len(
        settling.index.consumers
    )


async def test_job_that_no_watch_has_delivered_is_seen_beside_finished_ones(
    world: World, http: aiohttp.ClientSession, settling: Controller
) -> None:
    await world.job("done", annotations={}, ended="Complete")
    await until_current(world, http, settling, "consistent=true")
    await stop_watches(settling)
    await world.job("load")
    found = await get_states(http, settling, "namespace=default&consistent=true")
    assert set(found) == {"web", "load"}


async def test_consistent_query_costs_one_small_list_for_each_object(
    world: World, http: aiohttp.ClientSession, settling: Controller
) -> None:
    """Its metadata alone, and no second read where nothing differs."""
    await until_current(world, http, settling, "workload=default/web")
    before = world.answers()["GET"]
    await get_states(http, settling, "workload=default/web&consistent=true")
    pods, workload, source = 1, 1, 1
    assert world.answers()["GET"] == before + pods + workload + source


@pytest.fixture
async def many_sources(world: World) -> AsyncIterator[Controller]:
    """A controller that decides on no change, of a workload that imports 30 ConfigMaps."""
    names = [f"part-{number}" for number in range(30)]
    for number, name in enumerate(names):
        await world.config_map(name, **{f"LEVEL_{number}": "info"})  # none hides another's
    imported = [{"configMapRef": {"name": name, "optional": True}} for name in names]
    main = {"name": "main", "image": "app:1", "envFrom": imported}
    await world.workload(spec={"containers": [main]})
    await world.pod("web-1", started=time.time() + 5)
    controller = world.controller(settle=60, settle_max=60, pod_checks=SOON)
    async with controller:
        await world.quiet(controller)
        yield controller


async def test_consistent_query_reads_many_sources_by_one_list(
    world: World, http: aiohttp.ClientSession, many_sources: Controller
) -> None:
    await until_current(world, http, many_sources, "workload=default/web")
    before = world.answers()["GET"]
    await get_states(http, many_sources, "workload=default/web&consistent=true")
    pods, workload, sources = 1, 1, 1
    assert world.answers()["GET"] == before + pods + workload + sources


@pytest.mark.parametrize("change", ["edit", "delete"])
async def test_one_of_many_sources_that_no_watch_has_delivered_is_seen(
    world: World, http: aiohttp.ClientSession, many_sources: Controller, change: str
) -> None:
    await until_current(world, http, many_sources, "workload=default/web")
    await stop_watches(many_sources)
    await world.config_map("unrelated", LEVEL="info")
    if change == "edit":
        await world.edit("part-7", LEVEL_7="debug")
    else:
        await world.delete("ConfigMap", "part-7")
    url = f"http://127.0.0.1:{many_sources.port}/v1/status?workload=default/web&consistent=true"
    async with http.get(url) as response:
        (workload,) = (await response.json())["workloads"]
    (source,) = (each for each in workload["sources"] if each["name"] == "part-7")
    assert source["exists"] is (change == "edit")
    if change == "edit":
        assert workload["state"] == "waiting"


async def test_overview_of_a_settling_change_is_not_current(
    world: World, http: aiohttp.ClientSession, settling: Controller
) -> None:
    """Seen and not decided on: in the overview, in the details and in the metrics."""
    await until_current(world, http, settling)
    await world.edit(LEVEL="debug")

    async def is_seen() -> bool:
        return (await get_states(http, settling))["web"][0] == "waiting"

    await world.until(is_seen, "the change is seen")
    counts = await count_workloads(http, settling)
    assert (counts["current"], counts["waiting"]) == (0, 1)
    named = await get_states(http, settling, "workload=default/web")
    assert named == await get_states(http, settling)


async def test_edit_whose_followers_wait_to_be_queued_is_not_current(
    world: World, http: aiohttp.ClientSession, settling: Controller
) -> None:
    """As after an edit of a source in the same namespace that thousands of workloads use."""
    await until_current(world, http, settling)
    fan_outs = pause_fan_outs(settling, seconds=10)
    await world.edit(LEVEL="debug")

    async def is_seen() -> bool:
        return bool(fan_outs.waiting_namespaces)

    await world.until(is_seen, "the change is seen")
    for query in ("", "workload=default/web", "consistent=true"):
        found = await get_states(http, settling, query)
        assert found["web"] == ("waiting", "sources changed; reconcile pending")
    counts = await count_workloads(http, settling)
    assert (counts["current"], counts["waiting"]) == (0, 1)
    await asyncio.sleep(10)
    assert_settling((await get_states(http, settling))["web"])


async def until_state(
    world: World, http: aiohttp.ClientSession, controller: Controller, state: str
) -> None:
    async def is_reached() -> bool:
        return (await get_states(http, controller))["web"][0] == state

    await world.until(is_reached, f"the workload is {state}")


@pytest.mark.parametrize("final", ["latent", "held"])
async def test_edit_of_a_workload_that_needs_a_user_is_waited_for(
    world: World, http: aiohttp.ClientSession, final: str
) -> None:
    """`hotmap status --wait` gives up on such a state, and the edit may be what it needs."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1", started=time.time() + (5 if final == "held" else -60))
    async with world.controller(settle=30, settle_max=30, pod_checks=SOON) as controller:
        if final == "held":
            await until_state(world, http, controller, "current")
            await world.edit(LEVEL=None)
        await until_state(world, http, controller, final)
        await world.edit(LEVEL="debug")
        found = await get_states(http, controller, "consistent=true")
        assert_settling(found["web"])
        counts = await count_workloads(http, controller)
        assert (counts[final], counts["waiting"]) == (0, 1)


async def test_change_that_waits_for_the_next_rollout_is_not_latent(
    world: World, http: aiohttp.ClientSession
) -> None:
    """Rollouts in quick succession are spaced; what comes by itself needs no user."""
    await world.config_map(LEVEL="v0")
    await world.workload()
    checks = SOON._replace(rollout_delay=0.02, pause=0.1, max_pause=0.1)
    async with world.controller(flap_limit=5, pod_checks=checks) as controller:
        await world.quiet(controller)
        revision = ""
        for n in range(1, 5):
            await world.edit(LEVEL=f"v{n}")
            revision = await world.rollout(after=revision)
            await world.rolled_out()
        await world.pod("web-1", started=time.time() - 1)
        await world.edit(LEVEL="v5")
        await until_state(world, http, controller, "waiting")
        for _ in range(6):  # eight seconds pass between the fourth rollout and the fifth
            await asyncio.sleep(1.0)
            state, reason = (await get_states(http, controller))["web"]
            assert state == "waiting"
            assert re.fullmatch(
                r"ConfigMap default/app LEVEL changed \(containers\[main\]\.env\[LEVEL\]\): "
                r"rolling out at \d\d:\d\d:\d\d UTC; 4 rollouts in the last minute",
                reason,
            )
        assert await world.messages("Latent") == []
        await world.rollout(after=revision)


async def test_nudge_while_pods_are_still_to_be_checked_is_over_after_that(
    world: World, http: aiohttp.ClientSession
) -> None:
    """The final decision reads as the one that had to wait, and nothing else follows."""
    world.registry.ahead = -120
    await world.config_map(LEVEL="info")
    await world.config_map("files", size="1")
    world.registry.ahead = 0.0
    spec = files("files")
    spec["containers"][0]["env"] = env("LEVEL")["containers"][0]["env"]
    annotations = {"hotmap.dev/follow": "auto", "hotmap.dev/rereads": "1s"}
    await world.workload(spec=spec, annotations=annotations)
    await world.pod("web-1", started=time.time() - 60, spec=spec)
    async with world.controller(settle=0.5, settle_max=5, pod_checks=SOON) as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await asyncio.sleep(0.1)
        await world.edit(LEVEL="info")  # a pod may have started in between
        await world.edit("files", size="2")
        await until_state(world, http, controller, "waiting")
        await until_state(world, http, controller, "current")


async def test_long_settle_time_delays_no_check_of_pods(
    world: World, http: aiohttp.ClientSession
) -> None:
    """It is for edits; what its own controller reports of a rollout is none."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations={"hotmap.dev/follow": "auto", "hotmap.dev/settle": "10m"})
    await world.pod("web-1", started=time.time() + 5)
    async with world.controller(pod_checks=SOON) as controller:
        await until_state(world, http, controller, "current")
        await world.edit(LEVEL="debug")
        await world.delete("Pod", "web-1")
        edited = asyncio.get_running_loop().time()
        await world.until(world.revision, "it is rolled out", within=700)
        assert asyncio.get_running_loop().time() - edited >= 600
        await world.pod("web-2", started=time.time() + 5)
        await world.rolled_out()
        await until_state(world, http, controller, "current")


async def test_change_of_an_unused_data_key_leaves_it_current(
    world: World, http: aiohttp.ClientSession, settling: Controller
) -> None:
    await until_current(world, http, settling)
    await world.edit(OTHER="1")
    found = await get_states(http, settling, "consistent=true")
    assert found["web"][0] == "current"
    assert (await count_workloads(http, settling))["current"] == 1


async def test_next_term_knows_nothing_before_its_first_decision(
    world: World, http: aiohttp.ClientSession
) -> None:
    """The decisions of an earlier term of the same process do not count."""
    async with world.controller(pod_checks=SOON) as controller:
        await world.config_map(LEVEL="info")
        await world.workload()
        await world.pod("web-1", started=time.time() + 5)
        await world.quiet(controller)
        await until_current(world, http, controller)
        term = controller._leadership.term
        assert term is not None
        # As a new term begins, with nothing reconciled.
        controller.decision_log.begin_term()
        consumer_states = term.leader_view.consumer_states
        for consumer in controller.index.all_consumers():
            consumer_states.update(consumer.key)
        assert (await get_states(http, controller))["web"][0] == "unverified"
        assert (await count_workloads(http, controller))["current"] == 0
        term.queues.reconciles.add(next(iter(controller.index.all_consumers())).key)
        await until_current(world, http, controller)


async def test_leader_that_may_not_write_any_more_shows_no_workloads(
    world: World, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world.controller() as controller:
        await world.quiet(controller)
        monkeypatch.setattr(controller._leadership, "may_write", lambda: False)
        async with http.get(f"http://127.0.0.1:{controller.port}/v1/status") as response:
            document = await response.json()
    assert (document["ready"], document["role"]) == (False, "standby")


async def test_leader_that_is_ending_shows_no_workloads(
    world: World, http: aiohttp.ClientSession
) -> None:
    """It waits for its last writes, and follows no edits any more."""
    controller = world.controller(pod_checks=SOON)
    await one_current_workload(world, controller)
    await world.config_map("extra", LEVEL="info")
    await world.workload("other", env("LEVEL", source="extra"))
    await world.quiet(controller)
    is_writing, may_write = asyncio.Event(), asyncio.Event()

    async def hold(plural: str, namespace: str | None, name: str, patch: Any) -> None:
        if plural == "deployments":
            is_writing.set()
            await may_write.wait()

    world.registry.guards.append(hold)
    await world.edit("extra", LEVEL="debug")
    await is_writing.wait()
    ending = asyncio.create_task(controller.__aexit__())
    await asyncio.sleep(0.1)
    await world.edit(LEVEL="debug")
    await asyncio.sleep(0.1)
    async with http.get(f"http://127.0.0.1:{controller.port}/v1/status") as response:
        document = await response.json()
    may_write.set()
    await ending
    assert (document["ready"], document["workloads"]) == (False, [])


# -- sources that were deleted, or cannot be seen ----------------------------------------------

OPTIONAL = {
    "a variable": env("LEVEL", optional=True),
    "a file by subPath": {
        "containers": [
            {
                "name": "main",
                "image": "app:1",
                "volumeMounts": [
                    {"name": "config", "mountPath": "/etc/app/LEVEL", "subPath": "LEVEL"}
                ],
            }
        ],
        "volumes": [{"name": "config", "configMap": {"name": "app", "optional": True}}],
    },
    "files": files(optional=True),
}


async def an_hour_ago(world: World, spec: Any) -> None:
    """Create a source, and half an hour later a workload that uses it, with a pod."""
    world.registry.ahead = -3600
    await world.config_map(LEVEL="info")
    world.registry.ahead = -1800
    await world.workload(spec=spec)
    world.registry.ahead = 0
    await world.pod("web-1", started=time.time() - 1700, spec={**spec, "nodeName": "local"})


@pytest.mark.parametrize("spec", OPTIONAL.values(), ids=OPTIONAL)
@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "after a restart"])
async def test_pods_that_read_a_deleted_optional_source_are_not_current(
    world: World, http: aiohttp.ClientSession, spec: Any, *, restarted: bool
) -> None:
    """Their processes have what they read, though nothing requires the source any more."""
    await an_hour_ago(world, spec)
    async with world.controller(pod_checks=SOON) as controller:
        await world.quiet(controller)
        await until_current(world, http, controller)
        await world.delete("ConfigMap", "app")
        await world.quiet(controller)
        if not restarted:
            states = await get_states(http, controller, "workload=default/web&consistent=true")
            assert states["web"][0] == "latent"
            assert await get_states(http, controller) == states
    if restarted:
        async with world.controller(pod_checks=SOON) as other:
            await world.quiet(other)
            states = await get_states(http, other, "workload=default/web&consistent=true")
            assert states["web"][0] == "latent"
            assert await get_states(http, other) == states


async def test_edit_before_an_unobserved_deletion_says_nothing_of_later_pods(
    world: World, http: aiohttp.ClientSession
) -> None:
    """A pod that started between both has the edited content."""
    await an_hour_ago(world, env("LEVEL", optional=True))
    async with world.controller(pod_checks=SOON) as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout()
        await world.rolled_out("web")
        await world.registry.delete("pods", "default", "web-1")
        await asyncio.sleep(1.1)  # starts have whole seconds
        await world.pod("web-2", started=time.time())
        await until_current(world, http, controller, "workload=default/web&consistent=true")
    await asyncio.sleep(1.1)
    await world.delete("ConfigMap", "app")
    async with world.controller(pod_checks=SOON) as other:
        await world.quiet(other)
        states = await get_states(http, other, "workload=default/web&consistent=true")
        assert states["web"][0] == "latent", states
        assert await get_states(http, other) == states
        await world.registry.delete("pods", "default", "web-2")
        await world.pod("web-3", started=time.time() + 10)
        await until_current(world, http, other, "workload=default/web&consistent=true")


async def test_pod_without_a_source_that_was_deleted_hours_before_it_came_back_is_replaced(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came back while no controller ran, with the content that was applied."""
    monkeypatch.setattr(recent_changes, "_KEPT_FOR", 5.0)
    await world.config_map("other", LEVEL="info")
    await an_hour_ago(world, env("LEVEL", optional=True))
    await world.workload("noise", spec=env("LEVEL", source="other"))
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.delete("ConfigMap", "app")
        await world.quiet(controller)
        await asyncio.sleep(10)
        await world.registry.delete("pods", "default", "web-1")
        await world.pod("web-2", started=time.time())
        await asyncio.sleep(10)
        await world.edit("other", LEVEL="debug")
        await world.rollout("noise")
        await world.quiet(controller)
    await world.config_map(LEVEL="info")
    async with world.controller() as other:
        await world.rollout()
        await world.quiet(other)


async def test_source_that_was_deleted_before_its_first_decision_is_not_forgotten(
    world: World, http: aiohttp.ClientSession
) -> None:
    """A new template uses it: no record has it, and a pod has read it."""
    await world.config_map(LEVEL="info")
    await world.config_map("other", LEVEL="info")
    await world.workload(spec=env("LEVEL", source="other"))
    async with world.controller(settle=30, settle_max=30, pod_checks=SOON) as controller:
        await world.quiet(controller)
        used = {"spec": {"template": {"spec": env("LEVEL", optional=True)}}}
        await world.merge("Deployment", "web", used)
        await world.rolled_out()
        await world.pod("web-1", started=time.time())
        await asyncio.sleep(2)
        await world.delete("ConfigMap", "app")
        await world.quiet(controller)
        states = await get_states(http, controller, "workload=default/web&consistent=true")
        assert states["web"][0] == "latent", states
        await world.registry.delete("pods", "default", "web-1")
        await world.pod("web-2", started=time.time() + 10)
        await until_current(world, http, controller, "workload=default/web&consistent=true")


async def test_pods_that_start_after_the_deletion_are_current(
    world: World, http: aiohttp.ClientSession
) -> None:
    await an_hour_ago(world, env("LEVEL", optional=True))
    async with world.controller(pod_checks=SOON) as controller:
        await world.quiet(controller)
        await until_current(world, http, controller)
        await world.delete("ConfigMap", "app")
        await world.quiet(controller)
        await world.registry.delete("pods", "default", "web-1")
        await world.pod("web-2", started=time.time() + 10)
        await until_current(world, http, controller, "workload=default/web&consistent=true")


async def test_optional_source_that_never_existed_makes_no_doubt(
    world: World, http: aiohttp.ClientSession
) -> None:
    await world.workload(spec=env("LEVEL", optional=True))
    await world.pod("web-1")
    async with world.controller(pod_checks=SOON) as controller:
        await world.quiet(controller)
        await until_current(world, http, controller)
