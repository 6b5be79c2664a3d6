"""Runs the pods of Jobs to completion, and counts them (pkg/controller/job/job_controller.go)."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator, Sequence
from itertools import repeat
from typing import Any

from hotmap.core.errors import ApiError, NotFound
from hotmap.local.controllers.batch.backoff import Backoff
from hotmap.local.controllers.batch.indexes import COMPLETION_INDEX
from hotmap.local.controllers.batch.job_view import (
    FINALIZER,
    JobView,
    has_finalizer,
    is_job_finished,
    job_condition,
)
from hotmap.local.controllers.conditions import find_condition
from hotmap.local.controllers.controller import ControllerContext, OwnerController
from hotmap.local.controllers.creation_pace import BURST, CreationPace
from hotmap.local.controllers.pod_control import PodControl, pod_from_template
from hotmap.local.meta import (
    MANAGER,
    Object,
    ObjectName,
    controller_of,
    is_deleted,
    name_of,
    timestamp,
    uid_of,
    with_metadata,
)

__all__ = ["JobController"]

_CONTROLLER_NAME = "kubernetes.io/job-controller"


class JobController(OwnerController):
    """Reconcile Jobs with their pods."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "job", owners="jobs", dependents="pods", finalizer=FINALIZER)
        #: Pods with the finalizer, by the Job that they name; those of none by their namespace.
        self._tracked = self._dependents.index(_job_of_tracked)
        self._pod_control = PodControl(self._client, self._dependents, self._recorder)
        self._pace = CreationPace()
        #: With the uid, since a Job that is created again begins without failures. In memory only,
        #: as upstream's: a restart forgets pauses, never failures.
        self._backoffs: dict[ObjectName, tuple[str, Backoff]] = {}

    async def sync(self, key: ObjectName) -> None:
        """Bring one Job's pods and status up to date.

        1. Release pods that no unfinished Job counts any more.
        2. Adopt and release pods by the selector.
        3. Decide whether the Job ends; delete or create pods accordingly.
        4. Count finished pods in the status, then let them go; then finish the Job.
        """
        job = self._owners.objects.get(key)
        is_counting = job is not None and not is_job_finished(job) and not _is_managed(job)
        await self._release_strays(key, job if is_counting else None)
        if job is None or not is_counting:
            self._backoffs.pop(key, None)
            return
        await self._ownership.claim(job)
        view = self._view(job, job.get("status") or {})
        status = self._started(view)
        view = self._view(job, status)
        uid, backoff = self._backoffs.get(key, ("", Backoff()))
        if uid != uid_of(job):
            backoff = Backoff()
        backoff = backoff.after(view.new_succeeded, view.new_failed)
        end = view.end()
        failure: ApiError | None = None
        try:
            if end is not None:
                await self._pod_control.delete(job, view.active)
            elif not is_deleted(job):
                await self._manage(view, backoff)
        except ApiError as error:
            failure = error
        view = self._view(job, status)
        if end is None:
            end = view.completion()
        if end is None:
            self._set_suspended(job, status, is_suspended=view.is_suspended)
            self._recheck(key, view)
        await self._track(self._view(job, status), end)
        self._backoffs[key] = uid_of(job), backoff
        if failure is not None:
            raise failure

    def _view(self, job: Object, status: Object) -> JobView:
        pods = self._ownership.owned_by(job)
        return JobView({**job, "status": status}, pods, now=self._clock())

    def _started(self, view: JobView) -> Object:
        status = {"uncountedTerminatedPods": {}, **view.status}
        if not status.get("startTime") and not view.is_suspended:
            status["startTime"] = timestamp(view.now)
        return status

    def _recheck(self, key: ObjectName, view: JobView) -> None:
        left = view.seconds_left()
        if left is not None:
            self._loop.add_after(key, left)

    # -- the number of pods ----------------------------------------------------------------------

    async def _manage(self, view: JobView, backoff: Backoff) -> None:
        job = view.job
        surplus = view.surplus()[:BURST]
        if surplus:
            # They are not the Job's failures, so they are not counted.
            await self._release(surplus)
            await self._pod_control.delete(job, surplus)
            return
        missing = view.missing_count()
        if missing <= 0:
            return
        pause = 0.0
        if "backoffLimitPerIndex" not in view.spec:
            pause = backoff.remaining(view.now)
        if pause > 0:
            self._loop.add_after(name_of(job), pause)
            return
        count = self._pace.take(uid_of(job), missing)
        if count < missing:
            self._loop.add_after(name_of(job), self._pace.pause(uid_of(job)))
        await self._pod_control.create(job, self._new_pods(view, count))

    def _new_pods(self, view: JobView, count: int) -> Iterator[Object]:
        job = view.job
        pod = pod_from_template(job, view.spec["template"], self._ownership.reference(job))
        finalizers = pod["metadata"].get("finalizers") or []
        pod = with_metadata(pod, finalizers=list(dict.fromkeys([*finalizers, FINALIZER])))
        if not view.is_indexed:
            yield from repeat(pod, count)
            return
        pauses = {index: view.index_pause(index) for index in view.pending_indexes(count)}
        later = [pause for pause in pauses.values() if pause > 0]
        if later:
            self._loop.add_after(name_of(job), min(later))
        for index, pause in pauses.items():
            if pause == 0:
                yield _indexed_pod(pod, job["metadata"]["name"], index, view)

    # -- the status ------------------------------------------------------------------------------

    def _set_suspended(self, job: Object, status: Object, *, is_suspended: bool) -> None:
        """Update the condition Suspended, with its Event (ensureJobConditionStatus)."""
        conditions = list(status.get("conditions") or [])
        present = find_condition(conditions, "Suspended")
        if (present is not None and present["status"] == "True") == is_suspended:
            return
        now, word = self._clock(), "Suspended" if is_suspended else "Resumed"
        condition = job_condition(
            "Suspended", str(is_suspended), f"Job{word}", f"Job {word.lower()}", now=now
        )
        status["conditions"] = (
            [condition if other is present else other for other in conditions]
            if present is not None
            else [*conditions, condition]
        )
        if is_suspended:
            status.pop("startTime", None)
        else:
            # Time counts from here: a suspended Job is not active.
            status["startTime"] = timestamp(now)
        self._recorder.event(job, "Normal", word, f"Job {word.lower()}")

    async def _track(self, view: JobView, end: Object | None) -> None:
        """Count finished pods: first their uids, then, once they are released, their number.

        So a controller that stops in between counts each of them once.
        """
        job, status = view.job, dict(view.status)
        released = view.countable(end)[:BURST]
        is_whole = len(released) < BURST
        succeeded, failed = view.newly_counted(released, end)
        uncounted = status.get("uncountedTerminatedPods") or {}
        succeeded = [*(uncounted.get("succeeded") or ()), *succeeded]
        failed = [*(uncounted.get("failed") or ()), *failed]
        waiting = {"succeeded": succeeded, "failed": failed}
        status["uncountedTerminatedPods"] = {name: uids for name, uids in waiting.items() if uids}
        fields = view.index_fields(released) if view.is_indexed else {}
        _set_counts(status, view.counts() | fields)
        interim = ("SuccessCriteriaMet", "FailureTarget")
        if end is not None and end["type"] in interim:
            conditions = status.get("conditions") or []
            if find_condition(conditions, end["type"]) is None:
                status["conditions"] = [*conditions, end]
        await self._write(job, status)
        await self._release(released)
        status["uncountedTerminatedPods"] = {}
        totals = {"failed": status.get("failed", 0) + len(failed)}
        if not view.is_indexed:
            totals["succeeded"] = status.get("succeeded", 0) + len(succeeded)
        _set_counts(status, totals)
        final = None
        if end is not None and is_whole and not view.terminating:
            final = _final(end, now=self._clock())
            status["conditions"] = [*(status.get("conditions") or []), final]
            if final["type"] == "Complete":
                status["completionTime"] = final["lastTransitionTime"]
        await self._write(job, status)
        if final is not None:
            self._record_end(job, final)

    def _record_end(self, job: Object, final: Object) -> None:
        if final["type"] == "Complete":
            self._recorder.event(job, "Normal", "Completed", "Job completed")
        else:
            self._recorder.event(job, "Warning", final["reason"], final["message"])

    async def _write(self, job: Object, status: Object) -> None:
        present = self._owners.objects.get(name_of(job))
        if present is None or present.get("status") == status:
            return
        try:
            written = await self._client.modify(
                "jobs",
                *name_of(job),
                lambda obj: {**obj, "status": status} if uid_of(obj) == uid_of(job) else None,
                subresource="status",
                manager=MANAGER,
            )
        except NotFound:
            return
        await self._owners.wait_for_version(written["metadata"]["resourceVersion"])

    # -- finalizers ------------------------------------------------------------------------------

    async def _release_strays(self, key: ObjectName, job: Object | None) -> None:
        """Release pods whose Job is gone, finished, or another one of the same name."""
        uid = uid_of(job) if job is not None else ""
        named = self._tracked.get(key)
        strays = [pod for pod in named if (controller_of(pod) or {}).get("uid") != uid]
        await self._release(strays + self._tracked.get((key[0], "")))

    async def _release(self, pods: Sequence[Object]) -> None:
        """Remove the finalizer of pods, and return when the cache has seen it."""
        changed = await asyncio.gather(*(self._release_pod(pod) for pod in pods))
        revisions = [revision for revision in changed if revision]
        if revisions:
            await self._dependents.wait_for_version(max(revisions, key=int))

    async def _release_pod(self, pod: Object) -> str:
        def release(present: Object) -> Object | None:
            finalizers = present["metadata"].get("finalizers") or []
            if uid_of(present) != uid_of(pod) or FINALIZER not in finalizers:
                return None
            kept = [finalizer for finalizer in finalizers if finalizer != FINALIZER]
            return with_metadata(present, finalizers=kept or None)

        try:
            changed = await self._client.modify("pods", *name_of(pod), release, manager=MANAGER)
        except NotFound:
            return ""
        revision: str = changed["metadata"]["resourceVersion"]
        return revision

    def _on_dependent(self, old: Object | None, new: Object | None) -> None:
        super()._on_dependent(old, new)
        if new is not None and controller_of(new) is None and has_finalizer(new):
            self._loop.add((new["metadata"]["namespace"], ""))


def _is_managed(job: Object) -> bool:
    """Return whether another controller runs a Job (managedByExternalController)."""
    return bool(job["spec"].get("managedBy", _CONTROLLER_NAME) != _CONTROLLER_NAME)


def _job_of_tracked(pod: Object) -> list[Hashable]:
    if not has_finalizer(pod):
        return []
    owner = controller_of(pod)
    if owner is None:
        return [(pod["metadata"]["namespace"], "")]
    return [(pod["metadata"]["namespace"], owner["name"])] if owner["kind"] == "Job" else []


def _indexed_pod(pod: Object, job_name: str, index: int, view: JobView) -> Object:
    """Give a pod its index: in annotations, a label, the environment, its name and hostname."""
    metadata = pod["metadata"]
    # A generated name has 58 characters and 5 random ones (apiserver: storage/names).
    suffix = f"-{index}-"
    prefix = job_name if len(job_name + suffix) <= 58 else job_name[: 58 - len(suffix)]
    pod = with_metadata(
        pod,
        generateName=prefix + suffix,
        labels={**(metadata.get("labels") or {}), COMPLETION_INDEX: str(index)},
        annotations={**(metadata.get("annotations") or {}), **view.index_annotations(index)},
    )
    spec = {**pod["spec"], "hostname": f"{job_name}-{index}"}
    for field in ("initContainers", "containers"):
        if field in spec:
            spec[field] = [_with_index_variable(container) for container in spec[field]]
    return {**pod, "spec": spec}


def _with_index_variable(container: Object) -> Object:
    environment = container.get("env") or []
    if any(variable["name"] == "JOB_COMPLETION_INDEX" for variable in environment):
        return container
    path = f"metadata.labels['{COMPLETION_INDEX}']"
    source = {"fieldRef": {"fieldPath": path}}
    return {
        **container,
        "env": [*environment, {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}],
    }


def _final(end: Object, *, now: float) -> Object:
    """Return the last condition of a Job that ends."""
    kind = "Complete" if end["type"] == "SuccessCriteriaMet" else "Failed"
    return job_condition(kind, "True", end["reason"], end["message"], now=now)


def _set_counts(status: Object, counts: dict[str, Any]) -> None:
    """Set numbers as Go writes them: zero is absent, but for those that are pointers."""
    for field, value in counts.items():
        if value or field in ("ready", "terminating", "failedIndexes"):
            status[field] = value
        else:
            status.pop(field, None)
