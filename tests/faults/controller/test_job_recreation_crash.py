"""A controller is killed in the middle of creating a Job again, or of running a CronJob."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Awaitable, Callable

import pytest
from tests.support.control_plane import ControlPlane
from tests.support.controller_process import ControllerProcess
from tests.support.scenario import Object, Scenario

from hotmap.core.errors import NotFound, api_error

#: Minutes of waiting or of processor time, too much after each edit.
pytestmark = pytest.mark.slow

FOLLOW = {"hotmap.dev/follow": "auto"}

#: Whether the request at which the controller dies is carried out, and which one it is: a verb on
#: Jobs, and how many of them came before (the first creation is the dry run).
SEAMS = [
    pytest.param("delete", 0, False, id="before the deletion", marks=pytest.mark.slow),
    pytest.param("delete", 0, True, id="in the deletion", marks=pytest.mark.slow),
    pytest.param("create", 1, False, id="before the creation"),
    pytest.param("create", 1, True, id="in the creation"),
]


@pytest.mark.parametrize(("verb", "after", "is_done"), SEAMS)
async def test_job_is_created_again_after_crash(
    shop: Scenario, plane: ControlPlane, verb: str, after: int, is_done: bool
) -> None:
    """Whenever the first controller dies, the second one ends with one new Job."""
    await shop.set_up()
    old = await _job(plane, shop.namespace)
    async with shop.started_controller() as controller:
        await _is_adopted(shop, controller, "Job", "load")
        _kill_at(plane, controller, verb, after, is_done=is_done)
        await shop.edit(LEVEL="debug")
        await shop.until(lambda: _is_dead(controller), "the controller is killed")
    async with shop.controller() as controller:
        await controller.ready()
        await shop.until(lambda: _is_new(shop, plane, old), "there is a new Job")
        await shop.until(lambda: _nothing_pending(shop, plane), "nothing is pending")
        await shop.wait_for_rollouts()
        await shop.wait_until_handled()
        new = await plane.registry.get("jobs", shop.namespace, "load")
        assert new["metadata"]["annotations"] == old["metadata"]["annotations"]
        await shop.check_invariants({"web": 1})
    assert await _is_new(shop, plane, old)


@pytest.mark.parametrize("is_done", [pytest.param(False, marks=pytest.mark.slow), True])
async def test_cron_job_runs_once_after_crash(
    shop: Scenario, plane: ControlPlane, is_done: bool
) -> None:
    """The second controller finds the first one's Job, or makes it."""
    await shop.set_up()
    said = {**FOLLOW, "hotmap.dev/on-change": "run-now"}
    body = {
        "metadata": {"name": "report", "annotations": said},
        "spec": {"schedule": "@yearly", "jobTemplate": {"spec": {"template": _template()}}},
    }
    await plane.registry.create("cronjobs", shop.namespace, body, manager="kubectl")
    async with shop.started_controller() as controller:
        await _is_adopted(shop, controller, "CronJob", "report")
        _kill_at(plane, controller, "create", 0, is_done=is_done)
        await shop.edit(LEVEL="debug")
        await shop.until(lambda: _is_dead(controller), "the controller is killed")
    async with shop.controller() as controller:
        await controller.ready()
        await shop.wait_for_rollouts()
        await shop.until(lambda: _jobs(shop, plane), "there is a Job")
        await shop.wait_until_handled()
        await shop.check_invariants({"web": 1})
    assert len(await _jobs(shop, plane)) == 1


def _kill_at(
    plane: ControlPlane, controller: ControllerProcess, verb: str, after: int, *, is_done: bool
) -> None:
    """Kill a controller when it asks for a verb on Jobs, after so many of them."""
    asked = 0

    async def kill(plural: str, namespace: str | None, name: str, obj: object) -> None:
        nonlocal asked
        if plural != "jobs":
            return
        asked += 1
        if asked <= after or not controller.is_running:
            return
        await controller.kill()
        if not is_done:
            raise api_error(500, "the response is lost")

    (plane.registry.delete_guards if verb == "delete" else plane.registry.create_guards).append(
        kill
    )


async def _job(plane: ControlPlane, namespace: str) -> Object:
    said = {**FOLLOW, "hotmap.dev/on-change": "recreate"}
    body = {"metadata": {"name": "load", "annotations": said}, "spec": {"template": _template()}}
    return await plane.registry.create("jobs", namespace, body, manager="kubectl")


def _template() -> Object:
    level = {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "app", "key": "LEVEL"}}}
    containers = [{"name": "main", "image": "app:1", "env": [level]}]
    return {"spec": {"containers": containers, "restartPolicy": "Never"}}


async def _jobs(shop: Scenario, plane: ControlPlane) -> list[Object]:
    return (await plane.registry.list("jobs", shop.namespace)).items


async def _is_new(shop: Scenario, plane: ControlPlane, old: Object) -> bool:
    found = [job["metadata"] for job in await _jobs(shop, plane)]
    names = [item["name"] for item in found if "deletionTimestamp" not in item]
    return names == ["load"] and found[0]["uid"] != old["metadata"]["uid"]


async def _nothing_pending(shop: Scenario, plane: ControlPlane) -> bool:
    try:
        secret = await plane.registry.get("secrets", shop.own, "hotmap-pending")
    except NotFound:
        return True
    return bool(json.loads(b64decode(secret["data"]["jobs"])) == [])


async def _is_dead(controller: ControllerProcess) -> bool:
    return not controller.is_running


async def _is_adopted(shop: Scenario, controller: ControllerProcess, kind: str, name: str) -> None:
    """Wait until a controller has looked at a consumer and has written what it saw."""

    async def is_known() -> bool:
        status = json.loads(
            await controller.get(f"/v1/status?workload={kind}/{shop.namespace}/{name}")
        )
        dirty = "hotmap_record_shards_dirty 0.0" in await controller.get("/metrics")
        return bool(status["workloads"]) and dirty

    check: Callable[[], Awaitable[bool]] = is_known
    await shop.until(check, f"{name} is adopted")
