"""CronJobs: when they are due, and what they start and delete."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.local.controllers.plane import Object, Plane, control_plane
from tests.support.clocks import Clock

from hotmap.local.controllers.batch.cronjob import due_times
from hotmap.local.controllers.batch.schedule import parse_schedule


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _next(schedule: str, after: str, zone: str = "") -> str | None:
    found = parse_schedule(schedule, zone).next_after(_moment(after))
    if found is None:
        return None
    return datetime.fromtimestamp(found, UTC).isoformat(timespec="minutes").replace("+00:00", "Z")


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01Z"),
        ("* * * * *", "2026-01-01T00:00:59Z", "2026-01-01T00:01Z"),
        ("*/15 * * * *", "2026-01-01T00:15:00Z", "2026-01-01T00:30Z"),
        ("5/20 * * * *", "2026-01-01T00:06:00Z", "2026-01-01T00:25Z"),
        ("30 6-16/4 * * 1-5", "2026-01-02T14:30:00Z", "2026-01-05T06:30Z"),
        ("0 0 1 jan *", "2026-01-01T00:00:00Z", "2027-01-01T00:00Z"),
        ("0 0 13 * fri", "2026-01-01T00:00:00Z", "2026-01-02T00:00Z"),  # either of both
        ("0 0 * * fri", "2026-01-01T00:00:00Z", "2026-01-02T00:00Z"),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00Z"),
        ("59 23 31 2 *", "2026-01-01T00:00:00Z", None),
        ("@hourly", "2026-01-01T00:00:00Z", "2026-01-01T01:00Z"),
        ("@every 1h30m", "2026-01-01T00:00:00Z", "2026-01-01T01:30Z"),
    ],
)
def test_schedule_is_due_as_cron_is(schedule: str, after: str, expected: str | None) -> None:
    """As github.com/robfig/cron reads it."""
    assert _next(schedule, after) == expected


def test_schedule_follows_a_time_zone_through_its_changes() -> None:
    """A time that a clock leaves out is not due; one that comes twice is due twice."""
    berlin = "Europe/Berlin"
    assert _next("0 9 * * *", "2026-07-01T00:00:00Z", berlin) == "2026-07-01T07:00Z"
    assert _next("30 2 * * *", "2026-03-29T00:00:00Z", berlin) == "2026-03-30T00:30Z"
    assert _next("30 2 * * *", "2026-10-25T00:30:00Z", berlin) == "2026-10-25T01:30Z"


@pytest.mark.parametrize("schedule", ["", "* * * *", "61 * * * *", "*/0 * * * *", "@every x"])
def test_schedule_that_is_none_is_refused(schedule: str) -> None:
    """Whatever is stored, there is one exception for it."""
    with pytest.raises(ValueError):
        parse_schedule(schedule)


@pytest.mark.parametrize(
    ("now", "deadline", "last", "missed"),
    [
        ("2026-01-01T00:59:59Z", None, None, 0),
        ("2026-01-01T01:00:01Z", None, "2026-01-01T01:00:00Z", 1),
        ("2026-01-01T05:30:00Z", None, "2026-01-01T05:00:00Z", 5),
        ("2026-01-01T05:30:00Z", 600, None, 0),
        ("2026-03-01T00:00:00Z", None, "2026-03-01T00:00:00Z", 1416),
    ],
)
def test_last_due_time_is_the_one_that_counts(
    now: str, deadline: int | None, last: str | None, missed: int
) -> None:
    """However many were missed, one Job starts."""
    spec: Object = {} if deadline is None else {"startingDeadlineSeconds": deadline}
    cron_job = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec}
    found = due_times(cron_job, parse_schedule("@hourly"), _moment(now))
    assert found.last == (None if last is None else _moment(last))
    assert found.missed == missed


def _cron_job(**spec: Any) -> Object:
    container = {"name": "main", "image": "host", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"metadata": {"labels": {"app": "tick"}}, "spec": {"template": template}}
    return {
        "metadata": {"name": "tick"},
        "spec": {"schedule": "@hourly", "jobTemplate": job, **spec},
    }


async def _tick(plane: Plane, clock: Clock, to: str) -> None:
    """Move the clock, and let the controller look."""
    clock.now = _moment(to)
    await plane.patch("cronjobs", "tick", {"metadata": {"annotations": {"now": to}}})


async def _last_start(plane: Plane, time: str) -> Object:
    async def check() -> Object | None:
        found = await plane.registry.get("cronjobs", "default", "tick")
        return found if found.get("status", {}).get("lastScheduleTime") == time else None

    found: Object = await plane.until(check, what=f"a start at {time}")
    return found


async def test_cronjob_starts_a_job_when_it_is_due() -> None:
    """The Job is named by its time, and is on the list of active ones."""
    clock = Clock(_moment("2026-01-01T00:30:00Z"))
    async with control_plane(clock=clock) as plane:
        await plane.create("cronjobs", _cron_job())
        await _tick(plane, clock, "2026-01-01T01:00:01Z")
        cron_job = await _last_start(plane, "2026-01-01T01:00:00Z")
        (job,) = await plane.items("jobs")
        assert job["metadata"]["name"] == f"tick-{int(_moment('2026-01-01T01:00:00Z')) // 60}"
        assert job["metadata"]["labels"] == {"app": "tick"}
        annotation = "batch.kubernetes.io/cronjob-scheduled-timestamp"
        assert job["metadata"]["annotations"][annotation] == "2026-01-01T01:00:00Z"
        (active,) = cron_job["status"]["active"]
        assert active["uid"] == job["metadata"]["uid"]


@pytest.mark.parametrize(("policy", "count"), [("Allow", 2), ("Forbid", 1), ("Replace", 1)])
async def test_concurrency_policy_decides_about_a_second_job(policy: str, count: int) -> None:
    """Beside the one that runs, not at all, or in its place."""
    clock = Clock(_moment("2026-01-01T00:30:00Z"))
    async with control_plane(clock=clock) as plane:
        await plane.create("cronjobs", _cron_job(concurrencyPolicy=policy))
        await _tick(plane, clock, "2026-01-01T01:00:01Z")
        await _last_start(plane, "2026-01-01T01:00:00Z")
        first = await plane.names("jobs")
        await _tick(plane, clock, "2026-01-01T02:00:01Z")
        if policy == "Forbid":

            async def is_reported() -> list[str]:
                return await plane.messages("JobAlreadyActive")

            await plane.until(is_reported)
        else:
            await _last_start(plane, "2026-01-01T02:00:00Z")

        async def settled() -> bool:
            return len(await plane.names("jobs")) == count

        await plane.until(settled)
        assert (first <= await plane.names("jobs")) is (policy != "Replace")


async def test_suspended_cronjob_starts_nothing() -> None:
    """It starts again when it is resumed."""
    clock = Clock(_moment("2026-01-01T00:30:00Z"))
    async with control_plane(clock=clock) as plane:
        await plane.create("cronjobs", _cron_job(suspend=True))
        await _tick(plane, clock, "2026-01-01T01:00:01Z")
        await plane.create("namespaces", {"metadata": {"name": "later"}}, None)
        assert await plane.items("jobs") == []
        await plane.patch("cronjobs", "tick", {"spec": {"suspend": False}})
        await _last_start(plane, "2026-01-01T01:00:00Z")


async def test_finished_jobs_beyond_the_history_limit_are_deleted() -> None:
    """The oldest first."""
    clock = Clock(_moment("2026-01-01T00:30:00Z"))
    async with control_plane(clock=clock) as plane:
        await plane.create("cronjobs", _cron_job(successfulJobsHistoryLimit=1))
        for hour in (1, 2):
            await _tick(plane, clock, f"2026-01-01T0{hour}:00:01Z")
            cron_job = await _last_start(plane, f"2026-01-01T0{hour}:00:00Z")
            (active,) = cron_job["status"]["active"]
            await _succeed(plane, active["name"])

        async def check() -> Object | None:
            found = await plane.registry.get("cronjobs", "default", "tick")
            return found if not found["status"].get("active") else None

        cron_job = await plane.until(check)
        assert cron_job["status"]["lastSuccessfulTime"]

        async def is_trimmed() -> bool:
            return await plane.names("jobs") == {active["name"]}

        await plane.until(is_trimmed)


async def _succeed(plane: Plane, job: str) -> None:
    async def pod_of_job() -> Object | None:
        pods = [p for p in await plane.items("pods") if p["status"].get("phase") == "Running"]
        return next((p for p in pods if p["metadata"]["labels"]["job-name"] == job), None)

    pod = await plane.until(pod_of_job)
    await plane.registry.modify(
        "pods",
        "default",
        pod["metadata"]["name"],
        lambda obj: {**obj, "status": {"phase": "Succeeded"}},
        subresource="status",
        manager="kubelet",
    )

    async def is_complete() -> bool:
        found = await plane.registry.get("jobs", "default", job)
        return "completionTime" in found.get("status", {})

    await plane.until(is_complete)
