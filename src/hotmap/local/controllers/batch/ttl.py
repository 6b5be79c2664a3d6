"""Deletes Jobs some time after they finished (pkg/controller/ttlafterfinished)."""

from __future__ import annotations

import contextlib

from hotmap.core.errors import Conflict, NotFound
from hotmap.local.controllers.batch.job_view import is_job_finished
from hotmap.local.controllers.controller import Controller, ControllerContext
from hotmap.local.meta import Object, ObjectName, is_deleted, name_of, parse_time, uid_of

__all__ = ["TTLAfterFinishedController"]


class TTLAfterFinishedController(Controller[ObjectName]):
    """Delete finished Jobs with a `ttlSecondsAfterFinished`."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "ttl-after-finished")
        self._jobs = self._informers["jobs"]
        self._jobs.subscribe(self._on_job)

    async def sync(self, key: ObjectName) -> None:
        """Delete one Job if its time is over, else look again when it is."""
        job = self._jobs.objects.get(key)
        if job is None or not _expires(job):
            return
        left = _finish_time(job) + float(job["spec"]["ttlSecondsAfterFinished"]) - self._clock()
        if left > 0:
            self._loop.add_after(key, left)
            return
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete("jobs", *key, uid=uid_of(job), propagation="Foreground")

    def _on_job(self, old: Object | None, new: Object | None) -> None:
        if new is not None and _expires(new):
            self._loop.add(name_of(new))


def _expires(job: Object) -> bool:
    has_limit = job["spec"].get("ttlSecondsAfterFinished") is not None
    return has_limit and is_job_finished(job) and not is_deleted(job)


def _finish_time(job: Object) -> float:
    """Return when a finished Job finished: when its last condition became true."""
    return next(
        parse_time(condition["lastTransitionTime"])
        for condition in job["status"]["conditions"]
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
    )
