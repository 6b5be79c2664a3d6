"""Creates Jobs by the clock (pkg/controller/cronjob/cronjob_controllerv2.go)."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from hotmap.core.errors import AlreadyExists, ApiError, NotFound, is_namespace_terminating
from hotmap.local.controllers.batch.job_view import is_job_finished
from hotmap.local.controllers.batch.schedule import Schedule, parse_schedule
from hotmap.local.controllers.controller import ControllerContext, OwnerController
from hotmap.local.meta import (
    MANAGER,
    Object,
    ObjectName,
    controller_of,
    created_at,
    is_deleted,
    name_of,
    parse_time,
    timestamp,
    uid_of,
)

__all__ = ["CronJobController", "DueTimes", "due_times"]

# Seconds from a due time until it is checked (nextScheduleDelta).
_MARGIN = 0.1
_MANY = 100


class DueTimes(NamedTuple):
    """The due times of a CronJob around now, in POSIX seconds."""

    #: The last one that has not been used; None where there is none.
    last: float | None
    next: float | None
    #: How many were missed, about.
    missed: int


def due_times(cron_job: Object, schedule: Schedule, now: float) -> DueTimes:
    """Find the last due time since the last use or the creation, and the next.

    kubernetes: utils.go, mostRecentScheduleTime.

    Raises:
        ValueError: the schedule is never due.
    """
    status, spec = cron_job.get("status") or {}, cron_job["spec"]
    since = parse_time(status.get("lastScheduleTime") or created_at(cron_job))
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is not None:
        since = max(since, now - float(deadline))
    first = schedule.next_after(since)
    second = schedule.next_after(first) if first is not None else None
    if first is None or second is None:
        raise ValueError("time difference between two schedules is less than 1 second")
    if now < first:
        return DueTimes(None, first, 0)
    interval = second - first
    missed = int((now - first) / interval) + 1
    # Not all of them one by one; an irregular schedule is searched from about there on.
    start = first + (missed - 2) * interval if missed > 1 else since
    last, following = None, schedule.next_after(start)
    while following is not None and following <= now:
        last, following = following, schedule.next_after(following)
    return DueTimes(last, following, missed)


class CronJobController(OwnerController):
    """Start the Jobs of CronJobs, and delete old ones."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "cronjob", owners="cronjobs", dependents="jobs")

    async def sync(self, key: ObjectName) -> None:
        """Bring one CronJob's Jobs and status up to date.

        1. Take finished and missing Jobs off the list of active ones.
        2. Start a Job if one is due and the concurrency policy permits it.
        3. Delete finished Jobs beyond the history limits.
        """
        cron_job = self._owners.objects.get(key)
        if cron_job is None:
            return
        status = dict(cron_job.get("status") or {})
        jobs = self._ownership.owned_by(cron_job)
        self._update_active(cron_job, status, jobs)
        try:
            if not is_deleted(cron_job):
                await self._start_due(cron_job, status)
        finally:
            await self._trim_history(cron_job, jobs)
            await self._write(cron_job, status)

    # -- the list of active Jobs -----------------------------------------------------------------

    def _update_active(self, cron_job: Object, status: Object, jobs: list[Object]) -> None:
        active = status.get("active") or []
        known = {reference["uid"] for reference in active}
        present = {uid_of(job): job for job in jobs}
        for uid, job in present.items():
            name = job["metadata"]["name"]
            if not is_job_finished(job):
                if uid not in known:
                    text = f"Saw a job that the controller did not create or forgot: {name}"
                    self._recorder.event(cron_job, "Warning", "UnexpectedJob", text)
                continue
            if uid in known:
                kind = _finished_as(job)
                text = f"Saw completed job: {name}, condition: {kind}"
                self._recorder.event(cron_job, "Normal", "SawCompletedJob", text)
            completed = job["status"].get("completionTime")
            if completed and completed > status.get("lastSuccessfulTime", ""):
                status["lastSuccessfulTime"] = completed
        kept = []
        for reference in active:
            found = present.get(reference["uid"])
            if found is None:
                text = f"Active job went missing: {reference['name']}"
                self._recorder.event(cron_job, "Normal", "MissingJob", text)
            elif not is_job_finished(found):
                kept.append(reference)
        _set_active(status, kept)

    # -- starting Jobs ---------------------------------------------------------------------------

    async def _start_due(self, cron_job: Object, status: Object) -> None:
        spec, now = cron_job["spec"], self._clock()
        if spec.get("suspend"):
            return
        try:
            schedule = parse_schedule(spec["schedule"], spec.get("timeZone") or "")
            times = due_times({**cron_job, "status": status}, schedule, now)
        except ValueError as error:
            text = f'unparseable schedule: "{spec["schedule"]}" : {error}'
            self._recorder.event(cron_job, "Warning", "UnparseableSchedule", text)
            return
        if times.missed > _MANY:
            text = (
                "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or "
                "check clock skew"
            )
            self._recorder.event(cron_job, "Warning", "TooManyMissedTimes", text)
        if times.next is not None:
            self._loop.add_after(name_of(cron_job), max(0.0, times.next - now) + _MARGIN)
        if times.last is not None and self._may_start(cron_job, status, times.last):
            await self._start(cron_job, status, times.last)

    def _may_start(self, cron_job: Object, status: Object, due: float) -> bool:
        spec, active = cron_job["spec"], status.get("active") or []
        deadline = spec.get("startingDeadlineSeconds")
        if deadline is not None and due + float(deadline) < self._clock():
            moment = format_datetime(datetime.fromtimestamp(due, UTC)).replace("+0000", "UTC")
            text = f"Missed scheduled time to start a job: {moment}"
            self._recorder.event(cron_job, "Warning", "MissSchedule", text)
            return False
        name = _job_name(cron_job, due)
        if any(reference["name"] == name for reference in active):
            return False
        if status.get("lastScheduleTime") == timestamp(due):
            return False
        if spec.get("concurrencyPolicy") == "Forbid" and active:
            text = (
                "Not starting job because prior execution is running and concurrency policy is "
                "Forbid"
            )
            self._recorder.event(cron_job, "Normal", "JobAlreadyActive", text)
            return False
        return True

    async def _start(self, cron_job: Object, status: Object, due: float) -> None:
        if cron_job["spec"].get("concurrencyPolicy") == "Replace":
            for reference in status.get("active") or ():
                await self._delete_job(cron_job, (reference["namespace"], reference["name"]))
            _set_active(status, [])
        namespace = cron_job["metadata"]["namespace"]
        job = _new_job(cron_job, due, self._ownership.reference(cron_job))
        try:
            created = await self._client.create("jobs", namespace, job, manager=MANAGER)
        except AlreadyExists:
            created = await self._client.get("jobs", namespace, job["metadata"]["name"])
            if (controller_of(created) or {}).get("uid") != uid_of(cron_job):
                return
        except ApiError as error:
            if not is_namespace_terminating(error):
                text = f"Error creating job: {error}"
                self._recorder.event(cron_job, "Warning", "FailedCreate", text)
                raise
            return
        else:
            await self._dependents.wait_for_version(created["metadata"]["resourceVersion"])
            text = f"Created job {created['metadata']['name']}"
            self._recorder.event(cron_job, "Normal", "SuccessfulCreate", text)
        _set_active(status, [*(status.get("active") or []), _reference(created)])
        status["lastScheduleTime"] = timestamp(due)

    # -- history and status ----------------------------------------------------------------------

    async def _trim_history(self, cron_job: Object, jobs: list[Object]) -> None:
        limits = {"Complete": "successfulJobsHistoryLimit", "Failed": "failedJobsHistoryLimit"}
        for kind, field in limits.items():
            limit = cron_job["spec"].get(field)
            finished = [job for job in jobs if _finished_as(job) == kind and not is_deleted(job)]
            if limit is None or len(finished) <= limit:
                continue
            finished.sort(key=lambda job: (job["status"].get("startTime") or "~", name_of(job)))
            for job in finished[: len(finished) - limit]:
                await self._delete_job(cron_job, name_of(job))

    async def _delete_job(self, cron_job: Object, name: ObjectName) -> None:
        with contextlib.suppress(NotFound):
            await self._client.delete("jobs", *name, propagation="Background")
            text = f"Deleted job {name[1]}"
            self._recorder.event(cron_job, "Normal", "SuccessfulDelete", text)

    async def _write(self, cron_job: Object, status: Object) -> None:
        if status == (cron_job.get("status") or {}):
            return
        with contextlib.suppress(NotFound):
            written = await self._client.modify(
                "cronjobs",
                *name_of(cron_job),
                lambda obj: {**obj, "status": status} if uid_of(obj) == uid_of(cron_job) else None,
                subresource="status",
                manager=MANAGER,
            )
            await self._owners.wait_for_version(written["metadata"]["resourceVersion"])


def _set_active(status: Object, active: list[Object]) -> None:
    if active:
        status["active"] = active
    else:
        status.pop("active", None)


def _finished_as(job: Object) -> str:
    """Return the type of the condition with which a Job finished; "" if it has not."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return str(condition["type"])
    return ""


def _job_name(cron_job: Object, due: float) -> str:
    # The same for the same time, so that it is not started twice.
    return f"{cron_job['metadata']['name']}-{int(due) // 60}"


def _new_job(cron_job: Object, due: float, reference: Object) -> Object:
    template, zone = cron_job["spec"]["jobTemplate"], cron_job["spec"].get("timeZone")
    metadata = template.get("metadata") or {}
    moment = datetime.fromtimestamp(due, ZoneInfo(zone) if zone else UTC)
    text = moment.isoformat(timespec="seconds").replace("+00:00", "Z")
    scheduled = {"batch.kubernetes.io/cronjob-scheduled-timestamp": text}
    labels = {"labels": metadata["labels"]} if metadata.get("labels") else {}
    return {
        "metadata": {
            "name": _job_name(cron_job, due),
            **labels,
            "annotations": {**(metadata.get("annotations") or {}), **scheduled},
            "ownerReferences": [reference],
        },
        "spec": template["spec"],
    }


def _reference(job: Object) -> Object:
    metadata = job["metadata"]
    return {
        "kind": "Job",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "apiVersion": "batch/v1",
        "resourceVersion": metadata["resourceVersion"],
    }
