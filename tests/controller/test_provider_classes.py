"""SecretProviderClasses: what the CSI driver reports of pods is followed as other sources are."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

import pytest
from tests.controller.pod_check_results import SOON, status, wait_for_state
from tests.controller.world import FOLLOW, REREADS, SETTLE, World, env
from tests.support.provider_classes import (
    CLASSES,
    STATUSES,
    Driver,
    class_volume,
    playing_driver,
)

from hotmap.controller.run import Controller
from hotmap.core.policy.policy import Defaults
from hotmap.core.reloader.annotations import DialectSettings, Writing

AUTO = {"reloader.stakater.com/auto": "true"}
CLASS_AUTO = {"secretproviderclass.reloader.stakater.com/auto": "true"}
NAMED = "secretproviderclass.reloader.stakater.com/reload"
EXCLUDED = "secretproviderclasses.exclude.reloader.stakater.com/reload"
VARIABLE = "STAKATER_VAULT_SECRETPROVIDERCLASS"


@pytest.fixture
async def driver(world: World) -> AsyncIterator[Driver]:
    async with playing_driver(world.registry) as driver:
        yield driver


def controller(
    world: World, writing: Writing = Writing.REVISION, *, enabled: bool = True, **settings: Any
) -> Controller:
    """A controller with the integration."""
    ignored = frozenset[str]() if enabled else DialectSettings().ignored_sources
    catch_up = settings.pop("catch_up", False)
    dialect = DialectSettings(ignored_sources=ignored, writing=writing)
    defaults = Defaults(settle=SETTLE, settle_max=1.0, catch_up=catch_up, dialect=dialect)
    return world.controller(defaults=defaults, **settings)


async def set_up(
    world: World,
    driver: Driver,
    *pods: str,
    annotations: Mapping[str, str] = FOLLOW,
    said: Mapping[str, str] | None = None,
    **options: Any,
) -> None:
    """Create a class, and a workload whose pods have mounted its first version."""
    await driver.provider_class(annotations=said)
    await world.workload(spec=class_volume(), annotations=annotations, **options)
    for pod in pods or ("web-1", "web-2"):
        await world.pod(pod)
        await driver.mount(pod, password="1")


async def known(running: Controller, world: World) -> None:
    """Wait until the controller has decided on everything that it can see."""
    await world.quiet(running)


async def settled(world: World, running: Controller) -> None:
    """Wait until what was reported last has been acted on, whatever that is."""
    await world.config_map("canary", LEVEL="1")
    await world.quiet(running)
    await world.delete("ConfigMap", "canary")
    await world.quiet(running)


async def replace_pods(world: World, driver: Driver, **pods: str) -> None:
    """Replace all pods, as a rollout does; each value is the version that is mounted."""
    for pod in ("web-1", "web-2"):
        await driver.end_pod(pod)
    for pod, version in pods.items():
        await world.pod(pod.replace("_", "-"))
        await driver.mount(pod.replace("_", "-"), password=version)
    await world.rolled_out()


# -- one rotation is one rollout --------------------------------------------------------------


async def test_rotation_is_one_rollout(world: World, driver: Driver) -> None:
    """The first updated pod shows it; pods that follow, and new pods, change nothing."""
    await set_up(world, driver)
    async with controller(world) as running:
        await known(running, world)
        assert await world.revision() == ""
        await driver.update("web-1", password="2")
        first = await world.rollout()
        await settled(world, running)
        await driver.update("web-2", password="2")
        await settled(world, running)
        await replace_pods(world, driver, web_3="2", web_4="2")
        await settled(world, running)
        assert await world.revision() == first
        assert "SecretProviderClass default/vault password changed" in await world.event(
            "RolledOut"
        )
        await driver.update("web-3", password="3")
        await world.rollout(after=first)


async def test_metadata_and_order_are_no_change(world: World, driver: Driver) -> None:
    """Labels, the time, other fields, and the order of the objects."""
    await set_up(world, driver)

    def annotate(obj: dict[str, Any]) -> dict[str, Any]:
        metadata = {**obj["metadata"], "annotations": {"a": "b"}}
        return {**obj, "metadata": metadata, "status": {**obj["status"], "targetPath": "/x"}}

    for pod in ("web-1", "web-2"):
        await driver.update(pod, password="1", tls="1")
    async with controller(world) as running:
        await known(running, world)
        await driver.modify("web-1", annotate)
        await driver.modify("web-1", _reversed)
        await settled(world, running)
        assert await world.revision() == ""


def _reversed(obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "status": {**obj["status"], "objects": obj["status"]["objects"][::-1]}}


async def test_new_pods_are_no_change(world: World, driver: Driver) -> None:
    """Neither the first pods of all, nor more of them, nor pods with versions of their own."""
    await driver.provider_class()
    await world.workload(spec=class_volume())
    async with controller(world) as running:
        await known(running, world)
        for number in (1, 2, 3):
            await world.pod(f"web-{number}")
            await driver.mount(f"web-{number}", password="1")
            await settled(world, running)
        await world.pod("web-4")
        await driver.mount("web-4", password="lease-4")
        await settled(world, running)
        for number in (1, 2, 3):
            await driver.end_pod(f"web-{number}")
            await settled(world, running)
        assert await world.revision() == ""
        await driver.update("web-4", password="lease-5")
        await world.rollout()


async def test_scaling_to_zero_and_back_is_no_change(world: World, driver: Driver) -> None:
    """Its new pods start with what is current then."""
    await set_up(world, driver, "web-1")
    async with controller(world) as running:
        await known(running, world)
        await driver.end_pod("web-1")
        await settled(world, running)
        await world.pod("web-5")
        await driver.mount("web-5", password="2")
        await settled(world, running)
        assert await world.revision() == ""


async def test_pods_of_other_workloads_show_a_rotation_too(world: World, driver: Driver) -> None:
    """A workload whose own nodes lag is behind the store all the same."""
    await set_up(world, driver, "web-1")
    await world.workload("other", class_volume())
    await world.pod("other-1", of="other")
    await driver.mount("other-1", password="1")
    async with controller(world) as running:
        await known(running, world)
        await driver.update("other-1", password="2")
        await world.rollout("other")
        await world.rollout("web")


# -- downtime ---------------------------------------------------------------------------------


async def test_first_start_rolls_nothing(world: World, driver: Driver) -> None:
    """Whatever pods have mounted, and whether they were updated."""
    await set_up(world, driver)
    world.registry.ahead = 60.0
    await driver.update("web-1", password="2")
    world.registry.ahead = 0.0
    async with controller(world) as running:
        await known(running, world)
        assert await world.revision() == ""


async def test_rotation_while_the_controller_is_down(world: World, driver: Driver) -> None:
    """It is applied at the next start, once."""
    await set_up(world, driver)
    async with controller(world) as running:
        await known(running, world)
    world.registry.ahead = 60.0
    await driver.update("web-1", password="2")
    world.registry.ahead = 0.0
    async with controller(world) as running:
        first = await world.rollout()
        await replace_pods(world, driver, web_3="2", web_4="2")
        await settled(world, running)
    async with controller(world) as running:
        await known(running, world)
        assert await world.revision() == first


async def test_restarts_without_a_change_roll_nothing(world: World, driver: Driver) -> None:
    """Also while pods differ, and after all pods were replaced in between."""
    await set_up(world, driver)
    async with controller(world) as running:
        await known(running, world)
    await world.pod("web-3")
    await driver.mount("web-3", password="2")  # rotation is off
    for _ in range(2):
        async with controller(world) as running:
            await known(running, world)
    await replace_pods(world, driver, web_4="2")
    await driver.end_pod("web-3")
    async with controller(world) as running:
        await known(running, world)
        assert await world.revision() == ""
        await driver.update("web-4", password="3")
        await world.rollout()


async def test_restart_does_not_take_an_earlier_update_for_the_last(
    world: World, driver: Driver
) -> None:
    """The pod that showed the last of two updates was replaced; others are still behind."""
    await set_up(world, driver)
    async with controller(world) as running:
        await known(running, world)
        for at, pod, version in ((60, "web-1", "2"), (120, "web-2", "2"), (180, "web-1", "3")):
            world.registry.ahead = at
            await driver.update(pod, password=version)
            world.registry.ahead = 0.0
            await settled(world, running)
        last = await world.revision()
        await driver.end_pod("web-1")
        await world.pod("web-3", started=time.time() + 240)
        world.registry.ahead = 240
        await driver.mount("web-3", password="3")
        world.registry.ahead = 0.0
        await settled(world, running)
    async with controller(world) as running:
        await known(running, world)
        assert await world.revision() == last
        world.registry.ahead = 300
        await driver.update("web-2", password="3")
        world.registry.ahead = 0.0
        await settled(world, running)
        assert await world.revision() == last


# -- references and annotations ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotations", "said", "rolls"),
    [
        pytest.param(AUTO, {}, True, id="auto"),
        pytest.param(CLASS_AUTO, {}, True, id="auto of classes"),
        pytest.param({NAMED: "va.*"}, {}, True, id="an expression"),
        pytest.param({NAMED: "va"}, {}, False, id="anchored"),
        pytest.param(AUTO | {EXCLUDED: "vault"}, {}, False, id="excluded"),
        pytest.param(AUTO, {"reloader.stakater.com/ignore": "true"}, False, id="ignored"),
        pytest.param(FOLLOW, {"hotmap.dev/ignore": "true"}, False, id="ignored by hotmap"),
        pytest.param(
            {"reloader.stakater.com/search": "true"},
            {"reloader.stakater.com/match": "true"},
            True,
            id="search and match",
        ),
        pytest.param({"reloader.stakater.com/search": "true"}, {}, False, id="no match"),
        pytest.param({"hotmap.dev/follow": "spc/v*"}, {}, True, id="a glob"),
        pytest.param(
            FOLLOW | {"hotmap.dev/exclude": "secretproviderclass/vault"},
            {},
            False,
            id="excluded by hotmap",
        ),
        pytest.param({"configmap.reloader.stakater.com/auto": "true"}, {}, False, id="others"),
    ],
)
async def test_which_classes_are_followed(
    world: World, driver: Driver, annotations: dict[str, str], said: dict[str, str], rolls: bool
) -> None:
    """All annotations, on the workload and on the class."""
    await set_up(world, driver, annotations=annotations, said=said)
    async with controller(world) as running:
        await known(running, world)
        await driver.update("web-1", password="2")
        if rolls:
            await world.rollout()
        await settled(world, running)
        assert bool(await world.revision()) is rolls
        assert await world.messages("InvalidAnnotation") == []


async def test_class_that_is_named_but_not_mounted(world: World, driver: Driver) -> None:
    """Nothing shows what its pods read, so their starts decide."""
    await set_up(world, driver)
    await world.workload("api", env("A", optional=True), annotations={NAMED: "vault"})
    await world.pod("api-1", of="api")
    async with controller(world) as running:
        await known(running, world)
        await driver.update("web-1", password="2")
        await world.rollout("api")


async def test_application_that_rereads_is_left_alone(world: World, driver: Driver) -> None:
    """Its files are updated by the driver; pods need nothing."""
    await set_up(world, driver, annotations=REREADS)
    async with controller(world) as running:
        await known(running, world)
        await driver.update("web-1", password="2")
        await settled(world, running)
        (entries,) = running.decision_log.history().values()
    assert await world.revision() == ""
    assert await world.target("web-1") == ""
    assert any("the CSI driver updates mounted files" in entry.reason for entry in entries)


async def test_init_container_that_rereads_nothing(world: World, driver: Driver) -> None:
    """What it has read is fixed."""
    spec = class_volume()
    spec["initContainers"] = [{**spec["containers"][0], "name": "init"}]
    del spec["containers"][0]["volumeMounts"]
    await driver.provider_class()
    await world.workload(spec=spec, annotations=REREADS)
    await world.pod("web-1")
    await driver.mount("web-1", password="1")
    async with controller(world) as running:
        await known(running, world)
        await driver.update("web-1", password="2")
        await world.rollout()


async def test_deleted_class_holds_a_rollout(world: World, driver: Driver) -> None:
    """Its pods run on, new ones could not start; it may return with other content."""
    await set_up(world, driver)
    await world.config_map(LEVEL="info")
    spec = class_volume() | {"containers": [env("LEVEL")["containers"][0]]}
    spec["containers"][0]["volumeMounts"] = class_volume()["containers"][0]["volumeMounts"]
    await world.merge("Deployment", "web", {"spec": {"template": {"spec": spec}}})
    await world.rolled_out()
    async with controller(world) as running:
        await known(running, world)
        await driver.delete_class()
        await settled(world, running)
        await world.edit(LEVEL="debug")

        async def held() -> list[str]:
            events = await world.messages()
            return [
                message
                for message in events
                if "vault does not exist and is not optional" in message
            ]

        await world.until(held, "the rollout is held")
        assert await world.revision() == ""
        await driver.provider_class()
        await world.rollout()


# -- the status -------------------------------------------------------------------------------


async def test_status_of_pods_is_what_the_driver_reports(world: World, driver: Driver) -> None:
    """A workload is current when each pod started with the versions, and not before."""
    await set_up(world, driver)
    async with controller(world, pod_checks=SOON) as running:
        document = await wait_for_state(world, running, "current")
        assert document["reason"].startswith("content is up to date")
        await driver.update("web-1", password="2")
        await world.rollout()
        await world.rolled_out()
        document = await wait_for_state(world, running, "latent")
        assert "files of SecretProviderClass default/vault were updated" in document["reason"]
        await replace_pods(world, driver, web_3="2")
        await world.pod("web-4")
        document = await wait_for_state(world, running, "latent")
        await driver.mount("web-4", password="2")
        await wait_for_state(world, running, "current")
        document = await status(running, "?workload=default/web")
    assert "SecretProviderClass default/vault" in str(document)


async def test_status_of_reread_files_follows_each_pod(world: World, driver: Driver) -> None:
    """Files that the driver has not updated in a pod are not current there."""
    await set_up(world, driver, annotations=REREADS)
    async with controller(world, pod_checks=SOON) as running:
        await wait_for_state(world, running, "current")
        await driver.update("web-1", password="2")
        document = await wait_for_state(world, running, "latent")
        assert "(web-2: it has mounted other versions" in document["reason"]
        await driver.update("web-2", password="2")
        await wait_for_state(world, running, "delivered")
    assert await world.revision() == ""


async def test_status_of_pods_that_differ_is_not_current(world: World, driver: Driver) -> None:
    """Nothing shows which versions are newer."""
    await set_up(world, driver, "web-1")
    await world.pod("web-2")
    await driver.mount("web-2", password="2")
    async with controller(world, pod_checks=SOON) as running:
        document = await wait_for_state(world, running, "latent")
    assert "different versions" in document["reason"]
    assert await world.revision() == ""


# -- Reloader's strategies --------------------------------------------------------------------


def digest(version: str) -> str:
    text = f"SecretProviderClassName=vault;password={version}".encode()
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
async def test_strategy_env_vars_marks_the_container_that_mounts_the_class(
    world: World, driver: Driver, kind: str
) -> None:
    """Reloader's variable with its digest, in the container that mounts the class."""
    await set_up(world, driver, annotations=AUTO, kind=kind)

    async def variables() -> list[Any]:
        obj = await world.get(kind, "web")
        found: list[Any] = obj["spec"]["template"]["spec"]["containers"][0].get("env") or []
        return found

    async with controller(world, Writing.ENV_VARS) as running:
        await known(running, world)
        assert await variables() == []
        await driver.update("web-1", password="2")
        await world.until(variables, "the variable is written")
        assert await variables() == [{"name": VARIABLE, "value": digest("2")}]


ROLLOUTS = {
    "metadata": {"name": "rollouts.argoproj.io"},
    "spec": {
        "group": "argoproj.io",
        "scope": "Namespaced",
        "names": {"kind": "Rollout", "plural": "rollouts"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                        },
                    }
                },
            }
        ],
    },
}


async def test_argo_rollout_gets_the_variable(world: World, driver: Driver) -> None:
    """Beside its other variables, which stay, and the value changes in its place."""
    await world.registry.create("customresourcedefinitions", None, ROLLOUTS, manager="t")
    await set_up(world, driver)
    kept = {"name": "A", "value": "1"}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": class_volume()}
    template["spec"]["containers"][0]["env"] = [kept]
    body = {
        "metadata": {"name": "canary", "annotations": AUTO},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template, "replicas": 0},
    }
    await driver.until("rollouts.argoproj.io", served=True)
    await world.registry.create("rollouts.argoproj.io", "default", body, manager="kubectl")

    async def variables(version: str) -> bool:
        obj = await world.registry.get("rollouts.argoproj.io", "default", "canary")
        env = obj["spec"]["template"]["spec"]["containers"][0]["env"]
        return bool(env == [kept, {"name": VARIABLE, "value": digest(version)}])

    async with controller(world, Writing.ENV_VARS) as running:
        await known(running, world)

        async def is_tracked() -> bool:
            return any(key.name == "canary" for key in running.index.consumers["Rollout"])

        await world.until(is_tracked, "the Rollout is known")
        await settled(world, running)
        for version in ("2", "3"):
            await driver.update("web-1", password=version)
            await world.until(partial(variables, version), "the variable is written")


async def test_workload_without_pods_is_marked(world: World, driver: Driver) -> None:
    """By a rotation that pods of other workloads show; a new pod of those is none."""
    await set_up(world, driver, annotations=AUTO)
    await world.workload("idle", class_volume(), annotations=AUTO, replicas=0)

    async def variables() -> list[Any]:
        obj = await world.get("Deployment", "idle")
        found: list[Any] = obj["spec"]["template"]["spec"]["containers"][0].get("env") or []
        return found

    async with controller(world, Writing.ENV_VARS) as running:
        await known(running, world)
        await driver.update("web-1", password="2")
        await world.until(variables, "the variable is written")
        assert await variables() == [{"name": VARIABLE, "value": digest("2")}]


async def test_job_and_cron_job(world: World, driver: Driver) -> None:
    """With Reloader's defaults a Job is recreated, and a CronJob runs now, once."""
    await driver.provider_class()
    spec = class_volume()
    recreated = AUTO | {"hotmap.dev/on-change": "recreate"}
    job = await world.job(spec=spec, annotations=recreated)
    await world.cron_job(spec=spec, annotations=AUTO | {"hotmap.dev/on-change": "run-now"})
    await world.pod("load-1", of="load")
    labels = job["spec"]["selector"]["matchLabels"]
    await world.merge("Pod", "load-1", {"metadata": {"labels": labels}})
    await driver.mount("load-1", password="1")
    async with controller(world) as running:
        await known(running, world)
        before = await world.get("Job", "load")
        await driver.update("load-1", password="2")
        await world.event("JobStarted")

        async def deleted() -> bool:
            job = await world.get("Job", "load")
            return bool(job["metadata"].get("deletionTimestamp")) or (
                job["metadata"]["uid"] != before["metadata"]["uid"]
            )

        await world.until(deleted, "the Job is deleted to be recreated")


# -- while it is not enabled ------------------------------------------------------------------


async def test_missing_flag_is_reported_once(world: World, driver: Driver) -> None:
    """For what uses a class, or asks for one; other workloads hear nothing."""
    await set_up(world, driver)
    await world.workload("asks", env("A", optional=True), annotations={NAMED: "vault"})
    await world.workload("plain", env("A", optional=True))
    async with controller(world, enabled=False) as running:
        await known(running, world)
        await driver.update("web-1", password="2")
        await settled(world, running)
    found = {
        event["involvedObject"]["name"]: event for event in await world.events("InvalidAnnotation")
    }
    assert set(found) == {"web", "asks"}
    assert all("--enable-csi-integration" in event["message"] for event in found.values())
    assert await world.revision() == ""


async def test_enabling_it_later_rolls_nothing(world: World, driver: Driver) -> None:
    """Pods whose files were updated long ago are no change, also of a workload with a record."""
    spec = class_volume()
    spec["containers"][0]["env"] = env("LEVEL")["containers"][0]["env"]
    await world.config_map(LEVEL="info")
    await driver.provider_class()
    await world.workload(spec=spec)
    await world.pod("web-1")
    await driver.mount("web-1", password="1")
    async with controller(world, enabled=False) as running:
        await known(running, world)
    await driver.update("web-1", password="2")
    await world.merge("Deployment", "web", {"spec": {"minReadySeconds": 1}})
    await world.rolled_out()
    async with controller(world) as running:
        await known(running, world)
        assert await world.revision() == ""
        await driver.update("web-1", password="3")
        await world.rollout()


async def test_kinds_that_appear_or_disappear_roll_nothing(world: World) -> None:
    """The driver may be installed later, and removed; neither rolls anything."""
    await world.workload(spec=class_volume())
    for pod in ("web-1", "web-2"):
        await world.pod(pod)
    async with (
        playing_driver(world.registry, installed=False) as driver,
        controller(world) as running,
    ):
        await known(running, world)
        await driver.install()
        await driver.provider_class()
        for pod in ("web-1", "web-2"):
            await driver.mount(pod, password="1")
        store = running.index.provider_classes.statuses

        async def watched() -> bool:
            return len(store) == 2

        await world.until(watched, "the statuses are known", within=120)
        await settled(world, running)
        assert await world.revision() == ""
        await driver.update("web-1", password="2")
        first = await world.rollout()
        await driver.remove()

        async def gone() -> bool:
            return not len(store)

        await world.until(gone, "the statuses are gone", within=300)
        await settled(world, running)
        assert await world.revision() == first


async def test_forbidden_statuses_leave_content_unknown(world: World, driver: Driver) -> None:
    """Nothing is known then, and nothing else is harmed."""
    world.registry.withheld.add(STATUSES)
    await set_up(world, driver)
    await world.config_map(LEVEL="info")
    await world.workload("api")
    async with controller(world) as running:
        await known(running, world)
        assert not len(running.index.provider_classes.statuses)
        await driver.update("web-1", password="2")
        await world.edit(LEVEL="debug")
        await world.rollout("api")
        await settled(world, running)
        assert await world.revision() == ""
        assert await world.messages("InvalidAnnotation") == []


async def test_classes_that_may_not_be_read(world: World, driver: Driver) -> None:
    """The statuses are sufficient, but for annotations of the class."""
    world.registry.withheld.add(CLASSES)
    await set_up(world, driver)
    async with controller(world) as running:
        await known(running, world)
        assert not len(running.index.provider_classes.classes)
        await driver.update("web-1", password="2")
        first = await world.rollout()
        await driver.update("web-2", password="2")
        await settled(world, running)
        assert await world.revision() == first


async def test_each_served_namespace_has_watches_of_its_own(world: World, driver: Driver) -> None:
    """Each served namespace has watches of its own."""
    world.registry.withheld |= {CLASSES, STATUSES}
    await set_up(world, driver)
    async with controller(world, watch_namespaces=("default", "hotmap")) as running:
        await known(running, world)
        await driver.update("web-1", password="2")
        await world.rollout()


async def test_unreadable_status_costs_only_itself(world: World, driver: Driver) -> None:
    """Missing fields, a giant, and other classes' pods."""
    await set_up(world, driver)
    for name, body in (
        ("none", {}),
        ("classless", {"podName": "x"}),
        ("podless", {"secretProviderClassName": "vault"}),
        (
            "giant",
            {
                "secretProviderClassName": "vault",
                "objects": [{"id": f"{i}", "version": "1" * 100} for i in range(900)],
            },
        ),
    ):
        await driver.write_status({"metadata": {"name": name}, "status": body})
    async with controller(world) as running:
        await known(running, world)
        await driver.update("web-1", password="2")
        await world.rollout()
        assert len(running.index.provider_classes.statuses.unreadable) == 1
        assert "characters" in await world.event("ObjectUnreadable")
