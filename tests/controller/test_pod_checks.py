"""After an action and a change of their state, pods are checked; what they show is reported."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.controller.pod_check_results import (
    SOON,
    check_count,
    pods_checked,
    status,
    wait_for_state,
)
from tests.controller.world import FOLLOW, REREADS, Object, World, env, files, rfc3339


async def test_nudged_pod_whose_node_is_lost_is_not_current(world: World) -> None:
    """A kubelet that is down updates no files, and Kubernetes notices that after most of a minute.

    Nothing else happens then that would cause a check.
    """
    await world.config_map(MODE="a")
    await world.workload(spec=files(), annotations={**REREADS, "hotmap.dev/rereads": "1s"})
    await world.pod("web-1", spec=files())
    async with world.controller(pod_checks=SOON) as controller:
        await world.quiet(controller)
        await asyncio.sleep(3)
        await world.edit(MODE="b")
        await world.until(lambda: world.target("web-1"), "the pod is nudged")
        await wait_for_state(world, controller, "current")
        status_before = (await world.get("Pod", "web-1"))["status"]
        lost = {"conditions": [{"type": "Ready", "status": "False"}]}
        await world.merge_status("Pod", "web-1", {**status_before, **lost})
        document = await wait_for_state(world, controller, "waiting")
        assert document["reason"].startswith("waiting for 1 pod: web-1 is not ready")
        await world.merge_status("Pod", "web-1", {**status_before, "conditions": []})
        await wait_for_state(world, controller, "current")
        checks = await check_count(controller)
        await asyncio.sleep(300)
        assert await check_count(controller) <= checks + 1


async def test_workload_is_current_once_its_application_has_reread_its_files(
    world: World,
) -> None:
    """The next check comes when that time is over, not at the next pause."""
    await world.config_map(MODE="a")
    await world.workload(spec=files(), annotations={**REREADS, "hotmap.dev/rereads": "45s"})
    await world.pod("web-1", spec=files())
    async with world.controller() as controller:
        await world.quiet(controller)
        await asyncio.sleep(30)
        await world.edit(MODE="b")
        await world.until(lambda: world.target("web-1"), "the pod is nudged")
        await asyncio.sleep(30)
        assert (await status(controller))["workloads"][0]["state"] == "waiting"
        await asyncio.sleep(25)
        assert (await status(controller))["workloads"][0]["state"] == "current"


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
async def test_workload_that_loses_a_pod_later_is_not_current(world: World, kind: str) -> None:
    """Its own controller counts fewer available pods; which one it is, a list shows."""
    await world.config_map(LEVEL="info")
    await world.workload(kind=kind)
    await world.pod("web-1", started=time.time() + 5)
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "current")
        status_before = (await world.get("Pod", "web-1"))["status"]
        lost = {"conditions": [{"type": "Ready", "status": "False"}]}
        await world.merge_status("Pod", "web-1", {**status_before, **lost})
        counts = (await world.get(kind, "web"))["status"]
        await world.merge_status(kind, "web", {**counts, "availableReplicas": 0})
        document = await wait_for_state(world, controller, "waiting")
        assert document["reason"].startswith("waiting for 1 pod: web-1 is not ready")
        await world.merge_status("Pod", "web-1", {**status_before, "conditions": []})
        await world.merge_status(kind, "web", counts)
        await wait_for_state(world, controller, "current")


# -- after an action -----------------------------------------------------------------------------


async def test_rollout_is_confirmed_by_its_pods(world: World) -> None:
    """It waits for its own controller; then one LIST says that all pods are new."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1", started=time.time() + 5)
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "current")
        before = await check_count(controller)
        await world.edit(LEVEL="debug")
        await world.rollout()
        in_progress = "waiting for 1 pod: rollout in progress"
        document = await wait_for_state(world, controller, "waiting", reason=in_progress)
        assert document["reason"] == in_progress
        await world.registry.delete("pods", "default", "web-1", grace_period=0)
        await world.pod("web-2", started=time.time() + 5)
        await world.rolled_out()
        await wait_for_state(world, controller, "current")
        assert await check_count(controller) >= before + 1


async def partly(world: World, kind: str, updated: int, **spec: Any) -> None:
    """Play a workload controller that has got so far with its rollout."""

    def report(obj: Object) -> Object:
        observed = {"observedGeneration": obj["metadata"]["generation"]}
        counts = {"replicas": 3, "updatedReplicas": updated, "readyReplicas": 3}
        return {**obj, "status": {**observed, **counts, **spec}}

    plural = {"Deployment": "deployments", "StatefulSet": "statefulsets"}[kind]
    await world.registry.modify(
        plural, "default", "web", report, subresource="status", manager="kube"
    )


@pytest.mark.parametrize(
    ("kind", "fields", "updated", "state", "reason"),
    [
        pytest.param(
            "StatefulSet",
            {"updateStrategy": {"type": "OnDelete"}},
            0,
            "waiting",
            "waiting for 3 pods: OnDelete: pods are replaced only when deleted",
            id="OnDelete",
        ),
        pytest.param(
            "StatefulSet",
            {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}},
            1,
            "waiting",
            "waiting for 2 pods: partition 2: pods with a lower ordinal are not updated",
            id="partition",
        ),
        pytest.param(
            "Deployment",
            {"paused": True},
            0,
            "paused",
            "waiting for 3 pods: rollout is paused",
            id="paused",
        ),
    ],
)
async def test_rollout_progress_is_reported(
    world: World, kind: str, fields: Object, updated: int, state: str, reason: str
) -> None:
    """A user has to act; the status says which, and how many pods are left."""
    await world.config_map(LEVEL="info")
    await world.workload(kind=kind, replicas=3, **fields)
    async with world.controller(pod_checks=SOON._replace(initial_delay=30)) as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout(kind=kind)
        await partly(world, kind, updated)
        document = await wait_for_state(world, controller, state)

        async def is_reported() -> bool:
            return bool((await wait_for_state(world, controller, state))["reason"] == reason)

        await world.until(is_reported, f"it says: {reason}")
    assert document["kind"] == kind


async def test_reason_why_no_pods_can_be_created_is_reported_when_it_comes(world: World) -> None:
    """Its own controller reports that a moment after the rollout, and nothing else changes."""
    await world.config_map(LEVEL="info")
    await world.workload(replicas=3)
    async with world.controller(pod_checks=SOON._replace(initial_delay=30)) as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.rollout()
        await partly(world, "Deployment", 0)
        await wait_for_state(world, controller, "waiting")
        await world.quiet(controller)
        message = 'pods "web-2" is forbidden: exceeded quota'
        failure = {"type": "ReplicaFailure", "status": "True", "message": message}
        await partly(world, "Deployment", 0, conditions=[failure])
        await asyncio.sleep(2)
        document = await wait_for_state(world, controller, "waiting")
    assert message in document["reason"]


async def set_pod(world: World, name: str, *, template: str, crashes: bool) -> None:
    """A pod of a StatefulSet, made from a template, that is not ready."""
    await world.pod(name)
    await world.registry.modify(
        "pods",
        "default",
        name,
        lambda obj: {
            **obj,
            "metadata": {
                **obj["metadata"],
                "labels": {**obj["metadata"]["labels"], "controller-revision-hash": template},
            },
        },
        manager="kube",
    )
    down = {"waiting": {"reason": "CrashLoopBackOff"}}
    runs = {"running": {"startedAt": rfc3339(time.time())}}
    await world.is_not_ready(name, down if crashes else runs)


@pytest.mark.parametrize(
    ("crashes", "meanwhile"),
    [
        pytest.param(False, "web-2 is not ready", id="it runs and is not ready"),
        pytest.param(True, "web-2 is not running (CrashLoopBackOff)", id="it crashes, for long"),
    ],
)
async def test_stateful_set_stuck_on_bad_value_is_reported(
    world: World, crashes: bool, meanwhile: str
) -> None:
    """The value is taken back, and the pod that never got ready stays: one Event names it."""
    await world.config_map(LEVEL="info")
    await world.workload(kind="StatefulSet", replicas=3)
    async with world.controller(pod_checks=SOON) as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="bad")
        bad = await world.rollout(kind="StatefulSet")
        await set_pod(world, "web-2", template="web-bad", crashes=crashes)
        await partly(world, "StatefulSet", 0, updateRevision="web-bad")
        await wait_for_state(world, controller, "waiting", reason=meanwhile)
        await world.edit(LEVEL="info")
        await world.rollout(kind="StatefulSet", after=bad)
        await partly(world, "StatefulSet", 2, updateRevision="web-good")
        document = await wait_for_state(world, controller, "stuck")
        message = await world.event("Stuck")
        await pods_checked(world, controller, await check_count(controller) + 2)
        assert [event["count"] for event in await world.events("Stuck")] == [1]
    assert message == document["reason"]
    assert message.endswith("; delete pod web-2")


#: The first check of a rollout that stalls is soon, and the next one in an hour.
ONCE = SOON._replace(pause=3600, max_pause=3600, max_pause_rolling=3600)


@pytest.mark.parametrize("query", ["", "?workload=default/web"], ids=["by progress", "by a query"])
async def test_stuck_state_ends_when_its_pod_is_deleted(world: World, query: str) -> None:
    """The rollout goes on, which is not finished: that it was stuck is not a reason to give up."""
    await world.config_map(LEVEL="info")
    await world.workload(kind="StatefulSet", replicas=3)
    async with world.controller(pod_checks=ONCE) as controller:
        await world.quiet(controller)
        # There before the only check of the rollout, however late that starts to be reported.
        await set_pod(world, "web-2", template="web-bad", crashes=False)
        await world.edit(LEVEL="debug")
        await world.rollout(kind="StatefulSet")
        await partly(world, "StatefulSet", 0, updateRevision="web-good")
        await wait_for_state(world, controller, "stuck")
        await world.registry.delete("pods", "default", "web-2")
        if query:
            document = (await status(controller, query))["workloads"][0]
            assert (document["state"], document["actionRequired"]) == ("waiting", False)
        else:
            await partly(world, "StatefulSet", 1, updateRevision="web-good")
        found = await wait_for_state(world, controller, "waiting")
    assert "rollout in progress" in found["reason"]


async def test_notify_only_workload_is_latent(world: World) -> None:
    """Strategy notify: no rollout, so it takes effect at the next restart; no second Event."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations={**FOLLOW, "hotmap.dev/strategy": "notify"})
    await world.pod("web-1", started=time.time() + 2)
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "current")
        await asyncio.sleep(3)  # times are whole seconds: the pod has started before this one
        await world.edit(LEVEL="debug")
        reason = await world.event("Notified")
        await wait_for_state(world, controller, "latent")
    assert "reported only" in reason
    assert await world.messages("Latent") == []


async def test_latent_workload_that_changes_again_is_not_shown_by_the_check_before(
    world: World,
) -> None:
    """Until its pods are checked again, all of them have content from before the change."""
    await world.config_map(LEVEL="info")
    await world.workload(annotations={**FOLLOW, "hotmap.dev/strategy": "notify"}, replicas=2)
    await world.pod("web-1", started=time.time() - 60)
    await world.pod("web-2", started=time.time() + 120)
    later = SOON._replace(initial_delay=10.0, pause=60.0, max_pause=60.0)
    async with world.controller(pod_checks=later) as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        found = await wait_for_state(world, controller, "latent", reason="1 of 2 pods")
        assert found["behind"] == 1
        await world.edit(LEVEL="trace")
        found = await wait_for_state(world, controller, "latent", reason="reported only")
        assert found["behind"] == 2
        await wait_for_state(world, controller, "latent", reason="1 of 2 pods")
        assert await check_count(controller) <= 3


async def test_stuck_state_ends_with_its_cause(world: World) -> None:
    """A hold that ended without a change is not shown any more."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1", started=time.time() + 5)
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "current")
        await world.edit(LEVEL=None)
        await wait_for_state(world, controller, "held")
        await world.edit(LEVEL="info")
        await wait_for_state(world, controller, "current")
    assert await world.revision() == ""


async def test_missing_right_to_list_pods_is_the_reason(world: World) -> None:
    """In all views, until it is granted: "not verified yet" says nothing that a user can act on."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1", started=time.time() + 2)
    refusal = world.plane.fail("list", "pods", code=403)
    async with world.controller(pod_checks=SOON) as controller:

        async def is_reported() -> dict[str, Any] | None:
            (found,) = (await status(controller))["workloads"]
            return found if "cannot be listed" in found["reason"] else None

        document: dict[str, Any] = await world.until(is_reported, "it says what is missing")
        assert document["state"] == "unverified"
        assert document["reason"] == "its pods cannot be listed: not now"
        (named,) = (await status(controller, "?workload=default/web"))["workloads"]
        assert (named["state"], named["reason"]) == (document["state"], document["reason"])
        assert named["podsError"] in document["reason"]
        world.plane.failures.remove(refusal)
        await wait_for_state(world, controller, "current")


async def run_of_cron_job(world: World, *, started: float, job: str = "report-1") -> None:
    """A run in progress, as the schedule starts it."""
    await world.pod(f"{job}-x", started=started)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": "u", "controller": True}
    await world.registry.modify(
        "pods",
        "default",
        f"{job}-x",
        lambda obj: {
            **obj,
            "metadata": {
                **obj["metadata"],
                "labels": {"batch.kubernetes.io/job-name": job},
                "ownerReferences": [owner],
            },
        },
        manager="kube",
    )
    active = [{"apiVersion": "batch/v1", "kind": "Job", "name": job, "namespace": "default"}]
    await world.merge_status("CronJob", "report", {"active": active})


# -- CronJobs ------------------------------------------------------------------------------------


async def test_run_that_was_started_by_hand_counts(world: World) -> None:
    """`kubectl create job --from` makes it, and the CronJob's own controller does not list it."""
    await world.config_map(LEVEL="info")
    uid = (await world.cron_job())["metadata"]["uid"]
    job = await world.job("by-hand", annotations={})
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "report", "uid": uid}
    owners = [{**owner, "controller": True}]
    await world.merge("Job", "by-hand", {"metadata": {"ownerReferences": owners}})
    await run_of_cron_job(world, started=time.time(), job="by-hand")
    await world.merge_status("CronJob", "report", {})
    async with world.controller(pod_checks=SOON) as controller:
        await world.quiet(controller)
        await world.passes_a_second()
        await world.edit(LEVEL="debug")

        async def is_older() -> bool:
            (found,) = (await status(controller, "?workload=CronJob/default/report"))["workloads"]
            return "older content (by-hand-x: " in found["reason"]

        await world.until(is_older, "the run counts")
        done = {"conditions": [{"type": "Complete", "status": "True"}]}
        await world.merge_status("Job", "by-hand", {**job["status"], **done})
        await wait_for_state(world, controller, "current", name="report")


async def test_cron_job_is_current_when_older_runs_have_ended(world: World) -> None:
    """A run that started before an edit goes on with older content; it is not called current."""
    await world.config_map(LEVEL="info")
    await world.cron_job()
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "current", name="report")
        await run_of_cron_job(world, started=time.time() - 60)
        await world.edit(LEVEL="debug")

        async def is_reported() -> dict[str, Any] | None:
            (found,) = (await status(controller))["workloads"]
            return found if "the run in progress may have" in found["reason"] else None

        document: dict[str, Any] = await world.until(is_reported, "it waits for the run")
        assert document["state"] == "waiting"
        assert "older content (report-1-x: " in document["reason"]
        assert "the next one reads the current content" in document["reason"]
        assert document["actionRequired"] is False
        await world.merge_status("CronJob", "report", {})
        await wait_for_state(world, controller, "current", name="report")


# -- the API server's clock ----------------------------------------------------------------------


async def test_files_are_not_inferred_by_a_clock_that_is_ahead(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller's machine is ten minutes ahead: no kubelet has synced in that time."""
    await world.config_map(LEVEL="info")
    await world.workload("api", files(), annotations=REREADS)
    await world.pod("api-1", of="api")
    real = time.time
    monkeypatch.setattr(world.client, "server_time", real)
    async with world.controller(pod_checks=SOON) as controller:
        await pods_checked(world, controller)
        with monkeypatch.context() as patched:
            patched.setattr("time.time", lambda: real() + 600)
            document = (await status(controller, "?workload=default/api"))["workloads"][0]
    (shown,) = document["pods"]
    assert (shown["projected"]["confidence"], document["state"]) == ("unknown", "waiting")


# -- readiness -----------------------------------------------------------------------------------


async def test_pod_that_is_not_ready_is_not_current(world: World) -> None:
    """It started after the change and would prove it, if it served."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1", started=time.time() + 5)
    await set_ready(world, "web-1", ready=False)
    async with world.controller(pod_checks=SOON) as controller:
        await pods_checked(world, controller)
        document = await wait_for_state(world, controller, "waiting")
        assert document["reason"].startswith("waiting for 1 pod: web-1 is not ready")
        shown = (await status(controller, "?workload=default/web"))["workloads"][0]["pods"][0]
        assert (shown["ready"], shown["loaded"]["confidence"]) == (False, "unknown")
        await set_ready(world, "web-1", ready=True)
        await wait_for_state(world, controller, "current")
    assert await world.messages("Latent") == []


async def set_ready(world: World, name: str, *, ready: bool) -> None:
    def report(obj: Object) -> Object:
        (status,) = obj["status"]["containerStatuses"]
        return {
            **obj,
            "status": {**obj["status"], "containerStatuses": [{**status, "ready": ready}]},
        }

    await world.registry.modify(
        "pods", "default", name, report, subresource="status", manager="kubelet"
    )


# -- missing sources -----------------------------------------------------------------------------


async def test_deleted_source_is_reported_until_it_is_back(world: World) -> None:
    """Running pods keep what they have; with the same content again it is current by itself."""
    await world.config_map(LEVEL="info")
    await world.workload()
    await world.pod("web-1", started=time.time() + 5)
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "current")
        await world.delete("ConfigMap", "app")
        message = await world.event("SourceMissing")
        document = await wait_for_state(world, controller, "waiting")
        await world.config_map(LEVEL="info")
        await wait_for_state(world, controller, "current")
        await world.quiet(controller)
        assert [event["type"] for event in await world.events("SourceMissing")] == ["Warning"]
    assert document["reason"] == (
        "ConfigMap default/app does not exist; running pods keep their content, "
        "new pods cannot start"
    )
    assert message == (
        "ConfigMap default/app does not exist; running pods keep their content, but containers "
        "that use it cannot start again until it exists"
    )
    assert await world.revision() == ""


@pytest.mark.parametrize("before", [{"rereads": "1s"}, {"strategy": "nudge"}])
async def test_pod_that_turns_out_not_to_reread_its_files_is_replaced(
    world: World, before: dict[str, str]
) -> None:
    """It was only nudged for an edit, as an annotation said; without that it is not current."""
    said = {f"hotmap.dev/{name}": value for name, value in before.items()}
    await world.config_map(LEVEL="info")
    await world.workload(spec=files(), annotations={**FOLLOW, **said})
    await world.pod("web-1", started=time.time() + 5)
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "current")
        await asyncio.sleep(10)
        await world.edit(LEVEL="debug")
        await wait_for_state(world, controller, "current" if "rereads" in before else "delivered")
        await asyncio.sleep(100)
        assert not await world.revision()
        annotations = dict.fromkeys(said)
        await world.merge("Deployment", "web", {"metadata": {"annotations": annotations}})
        await world.rolled_out()
        await world.rollout()
    (message,) = await world.messages("RolledOut")
    assert message.startswith("web-1 may run with older content: rolling out")


async def test_deleted_optional_source_is_not_missing(world: World) -> None:
    """Nothing that insists on it: the next pod starts without it."""
    await world.config_map(LEVEL="info")
    await world.workload(spec=env("LEVEL", optional=True))
    await world.pod("web-1", started=time.time() + 5)
    async with world.controller(pod_checks=SOON) as controller:
        await wait_for_state(world, controller, "current")
        await world.delete("ConfigMap", "app")
        await world.quiet(controller)
    assert await world.messages("SourceMissing") == []


async def revert_within_the_settle_time(world: World) -> None:
    await world.edit(LEVEL="debug")
    await asyncio.sleep(1)
    await world.edit(LEVEL="info")


async def remove_and_restore_a_required_data_key(world: World) -> None:
    await world.edit(LEVEL=None)
    await asyncio.sleep(10)
    await world.edit(LEVEL="info")


async def delete_and_recreate_the_source(world: World) -> None:
    await world.delete("ConfigMap", "app")
    await asyncio.sleep(10)
    await world.config_map(LEVEL="info")


# -- a query after an edit that was reverted -----------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "act"),
    [
        pytest.param(env("LEVEL"), revert_within_the_settle_time, id="reverted"),
        pytest.param(files(), revert_within_the_settle_time, id="files reverted"),
        pytest.param(env("LEVEL"), remove_and_restore_a_required_data_key, id="data key restored"),
        pytest.param(env("LEVEL"), delete_and_recreate_the_source, id="recreated"),
        pytest.param(files(), delete_and_recreate_the_source, id="files recreated"),
    ],
)
async def test_query_after_content_came_back_causes_no_rollout(
    world: World, spec: Object, act: Callable[[World], Awaitable[None]]
) -> None:
    """The pods have had it all the time, although the last change is younger than they are."""
    await world.config_map(LEVEL="info")
    await world.workload(spec=spec)
    await world.pod("web-1", started=time.time() + 5)
    async with world.controller(pod_checks=SOON, settle=5, settle_max=30) as controller:
        await wait_for_state(world, controller, "current")
        await asyncio.sleep(20)
        await act(world)
        await asyncio.sleep(20)
        for _ in range(3):
            body = await status(controller, "?workload=Deployment/default/web")
            assert [workload["state"] for workload in body["workloads"]] == ["current"]
            await asyncio.sleep(5)
        assert await world.revision() == ""
