"""CronJobs: a change waits for the next run, or starts one (`hotmap.dev/on-change: run-now`).

The plane stores Jobs and runs none of them: the tests play their controllers.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from tests.controller.stored_jobs import RECREATE, jobs
from tests.controller.world import FOLLOW, World, env, files

from hotmap.core.errors import api_error
from hotmap.core.policy.policy import Defaults
from hotmap.core.reloader.annotations import DialectSettings

RUN_NOW = {**FOLLOW, "hotmap.dev/on-change": "run-now"}


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
    """The last run was without it; unless creations do not count as changes."""
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


async def test_cron_job_that_is_being_deleted_is_not_run(world: World) -> None:
    """Its controller starts no Jobs of it either."""
    await world.config_map(LEVEL="info")
    await world.cron_job(annotations=RUN_NOW)
    async with world.controller() as controller:
        await world.quiet(controller)
        finalizers = {"metadata": {"finalizers": ["example.com/never"]}}
        await world.merge("CronJob", "report", finalizers)
        await world.delete("CronJob", "report")
        await world.edit(LEVEL="debug")
        await world.quiet(controller)
    assert await jobs(world) == []


async def test_cron_job_suspended_before_the_write_does_not_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CronJob is read again before its run, and it is another version by then."""
    await world.config_map(LEVEL="info")
    await world.cron_job(annotations=RUN_NOW)
    async with world.controller() as controller:
        await world.quiet(controller)
        read = world.plane.fail("get", "cronjobs.batch", times=1)

        async def suspend() -> None:
            await world.merge("CronJob", "report", {"spec": {"suspend": True}})

        monkeypatch.setattr(read, "meet", suspend)
        await world.edit(LEVEL="debug")
        await world.quiet(controller)
    assert read.met
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


async def _waits(controller: Any) -> bool:
    entries = [entry for kept in controller.decision_log.history().values() for entry in kept]
    return any(entry.reason.endswith("(concurrencyPolicy)") for entry in entries)


async def _are_jobs(world: World, count: int) -> bool:
    return len(await jobs(world)) == count
