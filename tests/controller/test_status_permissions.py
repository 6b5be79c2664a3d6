"""What the status shows where sources or workloads may not be read, or are not followed."""

from __future__ import annotations

import time

import aiohttp
import pytest
from tests.controller.pages import get_json, get_metrics
from tests.controller.pod_check_results import SOON
from tests.controller.world import FOLLOW, World, env

from hotmap.controller.settings import PodCheckSettings


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


async def test_reason_names_an_invalid_annotation(
    world: World, http: aiohttp.ClientSession
) -> None:
    """Otherwise nothing but an Event, which expires, says why an edit changes nothing."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations={**FOLLOW, "hotmap.dev/strategy": "restart"})
    await world.pod("web-1", started=time.time() + 5)
    async with world.controller() as controller:
        await world.quiet(controller)
        _, named = await get_json(http, controller, "/v1/status?workload=default/web")
        _, overview = await get_json(http, controller, "/v1/status")
    for body in (named, overview):
        assert body["workloads"][0]["reason"].endswith(
            '; annotation hotmap.dev/strategy: invalid value "restart": expected auto, rollout, '
            "nudge or notify; treating as notify"
        )


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


async def test_workloads_that_may_not_be_read_any_more_are_not_called_current(
    world: World, http: aiohttp.ClientSession
) -> None:
    """Their pod templates may be changed unseen, so the overview cannot say what pods run with."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1", of="web", started=time.time() + 5)

    async def state() -> str:
        _, body = await get_json(http, controller, "/v1/status")
        return str(body["workloads"][0]["state"])

    async with world.controller(pod_checks=SOON) as controller:

        async def current() -> bool:
            return await state() == "current"

        await world.until(current, "its pod is checked")
        world.registry.withheld.add("deployments")
        await world.plane.stop()  # ends the watches, as their time-out does
        await world.plane.start()

        async def unknown() -> bool:
            return await state() == "unknown"

        await world.until(unknown, "Deployments may not be read")
        samples = await get_metrics(http, controller)
        assert samples["hotmap_workloads", "current"] == 0
        assert samples["hotmap_workloads", "unknown"] == 1
        world.registry.withheld.clear()
        await world.until(current, "they may be read again")


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
