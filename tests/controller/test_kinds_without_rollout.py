"""CronJobs, Jobs, and ReplicaSets and Pods of their own: a report, and what they opted in to.

The plane stores these kinds and runs none of them: the tests play their controllers.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from tests.controller.world import FOLLOW, NAMESPACE, REREADS, Object, World, env, files

from hotmap.core.errors import NotFound, api_error
from hotmap.core.policy.policy import Defaults, OnChange
from hotmap.core.reloader.annotations import DialectSettings

RUN_NOW = {**FOLLOW, "hotmap.dev/on-change": "run-now"}
RECREATE = {**FOLLOW, "hotmap.dev/on-change": "recreate"}
EVICT = {**FOLLOW, "hotmap.dev/on-change": "evict"}


async def jobs(world: World) -> list[Object]:
    return (await world.registry.list("jobs", NAMESPACE)).items


async def uid(world: World, kind: str, name: str) -> str:
    """The uid of an object, "" where there is none."""
    try:
        return str((await world.get(kind, name))["metadata"]["uid"])
    except NotFound:
        return ""


# -- CronJob -----------------------------------------------------------------------------------


async def test_cron_job_waits_for_its_next_run(world: World) -> None:
    """It reads the new content; nothing else is written."""
    await world.config_map(LEVEL="info")
    await world.cron_job()
    async with world.controller() as controller:
        await world.quiet(controller)
        before = world.answers()
        await world.edit(LEVEL="debug")
        await world.quiet(controller)
        assert await jobs(world) == []
        assert (world.answers() - before)["PATCH"] == 0
        latest = controller.decision_log.history()
    ((decisions),) = latest.values()
    assert decisions[-1].reason.endswith(": the next run reads the new content")
    assert await world.messages() == []


async def test_cron_job_runs_now(world: World) -> None:
    """One Job for one change, as kubectl makes it, with one Event that says why."""
    await world.config_map(LEVEL="info")
    cron_job = await world.cron_job(annotations=RUN_NOW)
    async with world.controller() as controller:
        await world.quiet(controller)
        assert await jobs(world) == []
        await world.edit(LEVEL="debug")
        message = await world.event("JobStarted")
        await world.quiet(controller)
    (job,) = await jobs(world)
    metadata = job["metadata"]
    assert metadata["annotations"] == {"cronjob.kubernetes.io/instantiate": "manual"}
    assert metadata["ownerReferences"][0]["uid"] == cron_job["metadata"]["uid"]
    assert message == (
        "ConfigMap default/app LEVEL changed (containers[main].env[LEVEL]): starting a Job"
    )
    assert len(await world.events()) == 1


async def test_each_change_makes_one_run(world: World) -> None:
    """Also where files alone changed, and where earlier content came back."""
    await world.config_map(LEVEL="info")
    await world.cron_job(spec=files(), annotations=RUN_NOW)
    async with world.controller() as controller:
        await world.quiet(controller)
        for times, level in enumerate(("debug", "info", "debug"), start=1):
            await world.passes_a_second()  # the time of a change has whole seconds
            await world.edit(LEVEL=level)
            await world.quiet(controller)
            assert len(await jobs(world)) == times


@pytest.mark.parametrize("wanted", [True, False])
async def test_created_optional_source_makes_a_run(world: World, wanted: bool) -> None:
    """The last run was without it; unless creations are no change."""
    await world.cron_job(spec=env("LEVEL", optional=True), annotations=RUN_NOW)
    dialect = DialectSettings(reload_on_create=wanted)
    async with world.controller(defaults=Defaults(dialect=dialect)) as controller:
        await world.quiet(controller)
        await world.config_map(LEVEL="info")
        await world.quiet(controller)
        assert len(await jobs(world)) == wanted


async def test_suspended_cron_job_is_not_run(world: World) -> None:
    """And none later: after it is resumed, the next scheduled run starts."""
    await world.config_map(LEVEL="info")
    await world.cron_job(annotations=RUN_NOW, suspend=True)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.quiet(controller)
        await world.merge("CronJob", "report", {"spec": {"suspend": False}})
        await world.quiet(controller)
    assert await jobs(world) == []


async def test_suspended_between_decision_and_write(world: World) -> None:
    """The CronJob is read again before its run, and it is another version by then."""
    await world.config_map(LEVEL="info")
    await world.cron_job(annotations=RUN_NOW)
    async with world.controller() as controller:
        await world.quiet(controller)
        read = world.registry.get
        suspended = False

        async def suspend_first(resource: str, namespace: str | None, name: str) -> dict[str, Any]:
            nonlocal suspended
            if resource == "cronjobs" and not suspended:
                suspended = True
                await world.merge("CronJob", "report", {"spec": {"suspend": True}})
            return await read(resource, namespace, name)

        world.registry.get = suspend_first  # type: ignore[method-assign]
        await world.edit(LEVEL="debug")
        await world.quiet(controller)
    assert suspended
    assert await jobs(world) == []


async def test_run_waits_for_scheduled_run(world: World) -> None:
    """Where runs exclude each other, the one that is under way ends first."""
    await world.config_map(LEVEL="info")
    await world.cron_job(annotations=RUN_NOW, concurrencyPolicy="Forbid")
    await world.merge_status("CronJob", "report", {"active": [{"name": "report-1"}]})
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: _waits(controller), "the run is waited for")
        assert await jobs(world) == []
        await world.merge_status("CronJob", "report", {})
        await world.event("JobStarted")
    assert len(await jobs(world)) == 1


@pytest.mark.parametrize("policy", ["Forbid", "Replace"])
async def test_run_waits_for_earlier_run_of_its_own(world: World, policy: str) -> None:
    """The CronJob's own controller does not list these as active."""
    await world.config_map(LEVEL="info")
    await world.cron_job(annotations=RUN_NOW, concurrencyPolicy=policy)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.event("JobStarted")
        (first,) = await jobs(world)
        name = first["metadata"]["name"]
        await world.edit(LEVEL="trace")
        await world.until(lambda: _waits(controller), "the run is waited for")
        (entries,) = controller.decision_log.history().values()
        assert entries[-1].reason.endswith(f"a Job when {name} ends (concurrencyPolicy)")
        assert len(await jobs(world)) == 1
        ended = [{"type": "Complete", "status": "True"}]
        await world.merge_status("Job", name, {"conditions": ended})
        await world.until(partial(_are_jobs, world, 2), "it runs again")


async def test_job_of_a_crashed_controller_is_not_waited_for(world: World) -> None:
    """It is the run that is wanted; when it ends it may be removed, and would be started again."""
    await world.config_map(LEVEL="info")
    await world.cron_job(annotations=RUN_NOW, concurrencyPolicy="Forbid")
    async with world.controller() as controller:
        await world.quiet(controller)
    records = await world.records()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.event("JobStarted")
        await world.quiet(controller)
    await world.put_records_back(records)
    async with world.controller() as controller:
        await world.quiet(controller)
        ((*_, last),) = controller.decision_log.history().values()
        assert last.reason.endswith(": starting a Job")
    assert len(await jobs(world)) == 1


async def test_crash_between_run_and_record_runs_once(world: World) -> None:
    """The next controller decides the same, meets the Job, and makes no second one."""
    await world.config_map(LEVEL="info")
    await world.cron_job(annotations=RUN_NOW)
    async with world.controller() as controller:
        await world.quiet(controller)
    records, recorded = await world.records(), await world.recorded()
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.event("JobStarted")
        await world.quiet(controller)
    assert await world.recorded() != recorded
    await world.put_records_back(records)
    async with world.controller() as controller:
        await world.quiet(controller)
    assert len(await jobs(world)) == 1
    assert await world.records() != records


async def test_two_active_controllers_create_one_job(world: World) -> None:
    """Both make the same Job, so there is one."""
    await world.config_map(LEVEL="info")
    await world.cron_job(annotations=RUN_NOW)
    async with world.controller() as first, world.controller() as other:
        await world.quiet(first)
        await world.quiet(other)
        await world.edit(LEVEL="debug")
        await world.quiet(first)
        await world.quiet(other)
    assert len(await jobs(world)) == 1


async def test_rejected_run_is_retried(world: World) -> None:
    """One Event has the cause; nothing is recorded as applied until it succeeds."""
    await world.config_map(LEVEL="info")
    await world.cron_job(annotations=RUN_NOW)
    tries = 0

    async def refuse_twice(plural: str, namespace: str | None, name: str, obj: object) -> None:
        nonlocal tries
        if plural == "jobs":
            tries += 1
            if tries <= 2:
                raise api_error(403, "exceeded quota: batch", reason="Forbidden")

    world.registry.create_guards.append(refuse_twice)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.event("JobStarted")
    assert tries == 3
    (message,) = await world.messages("Failed")
    assert "failed; retrying: exceeded quota: batch" in message


async def test_jobs_of_a_cron_job_are_not_consumers(world: World) -> None:
    """Also where their template says that they follow; the next run has the new content."""
    await world.config_map(LEVEL="info")
    await world.job("report-1", annotations=RECREATE, owner=("CronJob", "report"))
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.quiet(controller)
        assert len(controller.index.consumers["Job"]) == 0
    assert await world.messages() == []


# -- Job ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Job", "ReplicaSet", "Pod"])
async def test_change_without_rollout_is_reported(world: World, kind: str) -> None:
    """One Event says what changed and why nothing is done."""
    await world.config_map(LEVEL="info")
    await (world.job("alone") if kind == "Job" else world.bare(kind))
    async with world.controller() as controller:
        await world.quiet(controller)
        before = await uid(world, kind, "alone")
        await world.edit(LEVEL="debug")
        message = await world.event("Notified")
        await world.quiet(controller)
    assert message.endswith(f": reported only, since a {kind} has no rollout")
    assert await uid(world, kind, "alone") == before
    assert len(await world.events()) == 1


async def test_job_is_created_again(world: World) -> None:
    """Deleted with its pods first, then created as its owner wrote it, with one Event on it."""
    await world.config_map(LEVEL="info")
    old = await world.job(annotations=RECREATE, parallelism=2)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        going = await world.until(lambda: _is_going(world, "load"), "the Job is being deleted")
        assert going["metadata"]["finalizers"] == ["foregroundDeletion"]
        await world.quiet(controller)
        assert len(await world.pending_jobs()) == 1
        await world.end_deletion("jobs", "load")
        message = await world.event("JobRecreated")
        await world.until(lambda: _none_pending(world), "nothing is pending")
        await world.quiet(controller)
    (new,) = await jobs(world)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert new["metadata"]["annotations"] == RECREATE
    assert new["spec"]["parallelism"] == 2
    uid = "batch.kubernetes.io/controller-uid"
    assert new["spec"]["selector"]["matchLabels"] == {uid: new["metadata"]["uid"]}
    labels = new["spec"]["template"]["metadata"]["labels"]
    assert (labels["app"], labels[uid]) == ("load", new["metadata"]["uid"])
    (event,) = await world.events()
    assert event["involvedObject"]["uid"] == new["metadata"]["uid"]
    assert message.endswith(": recreating the Job")


async def test_job_survives_crash_during_recreation(world: World) -> None:
    """Its manifest is kept before it is deleted, and the next controller creates it."""
    await world.config_map(LEVEL="info")
    old = await world.job(annotations=RECREATE)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: _is_going(world, "load"), "the Job is being deleted")
        await world.quiet(controller)
    await world.end_deletion("jobs", "load")
    assert await jobs(world) == []
    async with world.controller() as controller:
        await world.event("JobRecreated")
        await world.until(lambda: _none_pending(world), "nothing is pending")
        await world.quiet(controller)
    (new,) = await jobs(world)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]


async def test_job_whose_deletion_was_not_confirmed_is_recreated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second deletion would be refused, as if the Job were another one."""
    await world.config_map(LEVEL="info")
    old = await world.job(annotations=RECREATE)
    delete = world.registry.delete

    async def delete_and_fail(resource: str, *where: Any, **options: Any) -> Any:
        await delete(resource, *where, **options)
        if resource == "jobs":
            raise api_error(503, "the response was lost", reason="ServiceUnavailable")

    monkeypatch.setattr(world.registry, "delete", delete_and_fail)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: _is_going(world, "load"), "the Job is being deleted")
        await asyncio.sleep(2)
        assert len(await world.pending_jobs()) == 1
        await world.end_deletion("jobs", "load")
        await world.event("JobRecreated")
    (new,) = await jobs(world)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]


async def test_flapping_job_is_held(world: World) -> None:
    """How often it was created again is remembered for who comes under its name."""
    await world.config_map(LEVEL="info")
    await world.job(annotations=RECREATE)
    async with world.controller(flap_limit=2) as controller:
        for times in (1, 2):
            await world.quiet(controller)
            await world.edit(LEVEL=f"v{times}")
            await world.until(lambda: _is_going(world, "load"), "the Job is being deleted")
            await world.end_deletion("jobs", "load")
            await world.until(partial(_is_reported, world, "JobRecreated", times), "it is back")
        before = await uid(world, "Job", "load")
        await world.quiet(controller)
        await world.edit(LEVEL="v3")
        message = await world.event("Held")
    assert "rollout suppressed since" in message
    assert "2 rollouts in 1m; last modified by kubectl; to roll out now, run" in message
    assert "'hotmap release job/load -n default'" in message
    assert await uid(world, "Job", "load") == before


async def test_manifest_is_kept_before_job_is_deleted(world: World) -> None:
    """In the other order a crash in between would lose it."""
    await world.config_map(LEVEL="info")
    await world.job(annotations=RECREATE)
    kept: list[int] = []

    async def look(plural: str, namespace: str | None, name: str, obj: object) -> None:
        kept.append(len(await world.pending_jobs()))

    world.registry.delete_guards.append(look)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: _is_going(world, "load"), "the Job is being deleted")
    assert kept == [1]


async def test_job_deleted_by_a_user_stays_deleted(world: World) -> None:
    """The dry run makes nothing, and what is gone is not deleted and not created again."""
    await world.config_map(LEVEL="info")
    await world.job(annotations=RECREATE)

    async def delete_first(plural: str, namespace: str | None, name: str, obj: object) -> None:
        if plural == "jobs":
            world.registry.create_guards.clear()
            await world.registry.delete("jobs", NAMESPACE, "load", propagation="Background")

    world.registry.create_guards.append(delete_first)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: _true(not world.registry.create_guards), "it is deleted")
        await world.quiet(controller)
        await world.until(lambda: _none_pending(world), "nothing is pending")
    assert await jobs(world) == []


async def test_kept_manifest_of_job_never_deleted(world: World) -> None:
    """After a crash before the deletion the existing Job stays, and the decision is repeated."""
    await world.config_map(LEVEL="info")
    old = await world.job(annotations=RECREATE)
    async with world.controller() as controller:
        await world.quiet(controller)
    await world.edit(LEVEL="debug")
    metadata = {"name": "load", "namespace": NAMESPACE}
    kept = {"uid": old["metadata"]["uid"], "reason": "old", "job": {"metadata": metadata}}
    await world.keep_pending(kept)
    async with world.controller() as controller:
        await world.until(lambda: _is_going(world, "load"), "the Job is being deleted")
        await world.quiet(controller)
        assert len(await world.pending_jobs()) == 1
        await world.end_deletion("jobs", "load")
        message = await world.event("JobRecreated")
    assert message.endswith(": recreating the Job")
    (new,) = await jobs(world)
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert new["metadata"]["annotations"] == RECREATE


async def test_kept_manifest_of_opted_out_job(world: World) -> None:
    """Nothing is changed by what was kept for a deletion that never came to be."""
    await world.config_map(LEVEL="info")
    old = await world.job()
    metadata = {"name": "load", "namespace": NAMESPACE}
    kept = {"uid": old["metadata"]["uid"], "reason": "old", "job": {"metadata": metadata}}
    await world.keep_pending(kept)
    async with world.controller() as controller:
        await world.until(lambda: _none_pending(world), "nothing is pending")
        await world.quiet(controller)
    assert await uid(world, "Job", "load") == old["metadata"]["uid"]
    assert await world.messages() == []


@pytest.mark.parametrize("is_going", [False, True])
async def test_job_created_by_another_client_first(world: World, is_going: bool) -> None:
    """A deployment tool has put its own there: that one counts, also if it is deleted again."""
    await world.config_map(LEVEL="info")
    await world.job(annotations=RECREATE)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: _is_going(world, "load"), "the Job is being deleted")
        await world.end_deletion("jobs", "load")
        theirs = await world.job(annotations=RECREATE, parallelism=7)
        if is_going:
            await world.registry.delete("jobs", NAMESPACE, "load", propagation="Foreground")
        await world.until(lambda: _none_pending(world), "nothing is pending")
        await world.quiet(controller)
    (job,) = await jobs(world)
    assert job["metadata"]["uid"] == theirs["metadata"]["uid"]


async def test_job_failing_dry_run_is_not_deleted(world: World) -> None:
    """It is created as a dry run first, while the old one is still there."""
    await world.config_map(LEVEL="info")
    old = await world.job(annotations=RECREATE)

    async def refuse(plural: str, namespace: str | None, name: str, obj: object) -> None:
        if plural == "jobs":
            raise api_error(403, "denied by policy no-jobs", reason="Forbidden")

    world.registry.create_guards.append(refuse)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        message = await world.event("Failed")
    assert "denied by policy no-jobs" in message
    assert await uid(world, "Job", "load") == old["metadata"]["uid"]
    assert await world.pending_jobs() == []


async def test_job_too_large_to_keep_is_not_deleted_and_delays_no_other(world: World) -> None:
    """All manifests that are kept share a Secret, and a finalizer may keep one there for good."""
    await world.config_map(LEVEL="info")
    spec = env("LEVEL")
    spec["containers"][0]["args"] = ["x" * 300_000]
    large = await world.job("large", spec, annotations=RECREATE)
    await world.job(annotations=RECREATE)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: _is_going(world, "load"), "the Job is being deleted")
        await world.end_deletion("jobs", "load")
        await world.event("JobRecreated")
        message = await world.event("Failed")
    assert "a Job that is recreated may have 244" in message
    assert await uid(world, "Job", "large") == large["metadata"]["uid"]


async def test_rejected_job_creation_is_retried(world: World) -> None:
    """It was accepted by the dry run and is refused now; this is reported once."""
    await world.config_map(LEVEL="info")
    await world.job(annotations=RECREATE)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: _is_going(world, "load"), "the Job is being deleted")
        await world.quiet(controller)

        async def refuse(plural: str, namespace: str | None, name: str, obj: object) -> None:
            if plural == "jobs":
                raise api_error(422, "spec.template: too bad", reason="Invalid")

        world.registry.create_guards.append(refuse)
        await world.end_deletion("jobs", "load")
        message = await world.event("Failed")
        assert "is not recreated yet; retrying: spec.template: too bad" in message
        world.registry.create_guards.clear()
        await world.event("JobRecreated")
    assert len(await world.messages("Failed")) == 1


async def test_job_changed_during_decision_is_decided_again(world: World) -> None:
    """Its deletion carries the version that was decided on."""
    await world.config_map(LEVEL="info")
    await world.job(annotations=RECREATE)
    changed = False

    async def opt_out_first(plural: str, namespace: str | None, name: str, obj: object) -> None:
        nonlocal changed
        if plural == "jobs" and not changed:
            changed = True
            await world.annotate("load", kind="Job", on_change=None)

    world.registry.delete_guards.append(opt_out_first)
    async with world.controller() as controller:
        await world.quiet(controller)
        before = await uid(world, "Job", "load")
        await world.edit(LEVEL="debug")
        await world.event("Notified")
        await world.quiet(controller)
    assert changed
    assert await uid(world, "Job", "load") == before
    assert await world.pending_jobs() == []


@pytest.mark.parametrize("ended", ["Complete", "Failed"])
async def test_finished_job_is_left_alone(world: World, ended: str) -> None:
    """It has read what it read; not even an Event is written."""
    await world.config_map(LEVEL="info")
    await world.job(ended=ended)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.quiet(controller)
    assert await world.messages() == []


async def test_finished_job_that_opted_in_is_run_again(world: World) -> None:
    """That is what loads new content into a database, say."""
    await world.config_map(LEVEL="info")
    await world.job(annotations=RECREATE, ended="Complete")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: _is_going(world, "load"), "the Job is being deleted")
        await world.end_deletion("jobs", "load")
        await world.event("JobRecreated")


async def test_finished_jobs_cost_nothing(world: World) -> None:
    """Those that say nothing are not even kept, unless flags have them created again."""
    await world.config_map(LEVEL="info")
    await world.job(annotations={}, ended="Complete")
    async with world.controller(follow="auto") as controller:
        await world.quiet(controller)
        assert len(controller.index.consumers["Job"]) == 0
    defaults = Defaults(follow="auto", on_change=frozenset((OnChange.RECREATE,)))
    async with world.controller(defaults=defaults) as controller:
        await world.until(lambda: _keeps_a_job(controller), "the Job is kept")


# -- Pods and ReplicaSets ----------------------------------------------------------------------


async def test_pod_is_evicted(world: World) -> None:
    """Once; what brings it back is its owner's business."""
    await world.config_map(LEVEL="info")
    await world.bare("Pod", annotations=EVICT)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        message = await world.event("Evicted")
        going = await world.until(lambda: _is_going(world, "alone", "Pod"), "the Pod is going")
        await world.quiet(controller)
    assert going["metadata"]["deletionGracePeriodSeconds"] == 30
    assert message.endswith(": evicting the Pod")
    assert len(await world.events()) == 1


async def test_eviction_waits_for_disruption_budget(world: World) -> None:
    """429 is reported once, and retried until the eviction is allowed."""
    await world.config_map(LEVEL="info")
    await world.bare("Pod", annotations=EVICT)
    tries = 0

    async def exhausted(plural: str, namespace: str | None, name: str, obj: object) -> None:
        nonlocal tries
        tries += 1
        if tries <= 2:
            budget = "Cannot evict pod as it would violate the pod's disruption budget."
            raise api_error(429, budget, reason="TooManyRequests", retry_after=1)

    world.registry.delete_guards.append(exhausted)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.event("Evicted")
    assert tries == 3
    (message,) = await world.messages("Failed")
    assert "would violate the pod's disruption budget" in message


@pytest.mark.parametrize("status", [404, 409])
async def test_eviction_of_replaced_pod_is_skipped(world: World, status: int) -> None:
    """This is not a failure: no Event, and no endless retries."""
    await world.config_map(LEVEL="info")
    await world.bare("Pod", annotations=EVICT)
    met = 0

    async def meet(plural: str, namespace: str | None, name: str, obj: object) -> None:
        nonlocal met
        met += 1
        if met == 1:
            raise api_error(status, "it is not what it was")

    world.registry.delete_guards.append(meet)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.until(lambda: _true(met), "the eviction was tried")
        await world.quiet(controller)
    assert await world.messages("Failed") == []


async def test_files_of_a_pod_are_refreshed(world: World) -> None:
    """A bare Pod is nudged like any other."""
    await world.config_map(LEVEL="info")
    labels = {"app": "alone", "hotmap.dev/watch": "true"}
    metadata = {"name": "alone", "labels": labels, "annotations": REREADS}
    body = {"metadata": metadata, "spec": {**files(), "nodeName": "local"}}
    await world.registry.create("pods", NAMESPACE, body, manager="kubectl")
    await world.starts("alone")
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.event("Refreshed")
    assert await world.target("alone")


@pytest.mark.parametrize(
    ("kind", "labels", "owner"),
    [
        pytest.param("Pod", {}, None, id="a Pod that does not ask for it"),
        pytest.param("ReplicaSet", {}, None, id="a ReplicaSet that does not ask for it"),
        pytest.param("Pod", None, ("ReplicaSet", "web"), id="a Pod of a workload"),
        pytest.param("ReplicaSet", None, ("Deployment", "web"), id="a ReplicaSet of a Deployment"),
    ],
)
async def test_objects_without_watch_label_are_ignored(
    world: World, kind: str, labels: dict[str, str] | None, owner: tuple[str, str] | None
) -> None:
    """A hundred thousand pods of workloads must cost nothing."""
    await world.config_map(LEVEL="info")
    await world.bare(kind, labels=labels, owner=owner, annotations=EVICT)
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.quiet(controller)
        assert len(controller.index.consumers[kind]) == 0
    assert await world.messages() == []


async def test_pod_owned_by_operator(world: World) -> None:
    """Its owner is not a workload, so nothing else can replace it."""
    await world.config_map(LEVEL="info")
    await world.bare("Pod", annotations=EVICT, owner=("Database", "db"))
    async with world.controller() as controller:
        await world.quiet(controller)
        await world.edit(LEVEL="debug")
        await world.event("Evicted")


# -- what cannot be meant ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("Deployment", "run-now", "run-now only applies to a CronJob, not to a Deployment"),
        ("CronJob", "evict", "evict only applies to a Pod, not to a CronJob"),
        ("Job", "restart", 'invalid value "restart": expected run-now, recreate or evict'),
    ],
)
async def test_on_change_value_of_another_kind_is_reported(
    world: World, kind: str, value: str, words: str
) -> None:
    """One Warning Event, and the safe reading."""
    await world.config_map(LEVEL="info")
    said = {**FOLLOW, "hotmap.dev/on-change": value}
    match kind:
        case "CronJob":
            await world.cron_job("alone", annotations=said)
        case "Job":
            await world.job("alone", annotations=said)
        case _:
            await world.workload("alone", annotations=said)
    async with world.controller() as controller:
        message = await world.event("InvalidAnnotation")
        await world.quiet(controller)
    assert words in message
    assert message.endswith("treating as report only")
    assert len(await world.events("InvalidAnnotation")) == 1


async def _is_going(world: World, name: str, kind: str = "Job") -> Object | None:
    obj = await world.get(kind, name)
    return obj if "deletionTimestamp" in obj["metadata"] else None


async def _waits(controller: Any) -> bool:
    entries = [entry for kept in controller.decision_log.history().values() for entry in kept]
    return any(entry.reason.endswith("(concurrencyPolicy)") for entry in entries)


async def _are_jobs(world: World, count: int) -> bool:
    return len(await jobs(world)) == count


async def _is_reported(world: World, reason: str, times: int) -> bool:
    return len(await world.events(reason)) == times


async def _none_pending(world: World) -> bool:
    return not await world.pending_jobs()


async def _keeps_a_job(controller: Any) -> bool:
    return len(controller.index.consumers["Job"]) == 1


async def _true(value: object) -> bool:
    return bool(value)
