"""Jobs on the real Registry: as many successes as asked for, each pod counted once."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.local.controllers.plane import Object, Plane, control_plane

from hotmap.core.errors import NotFound
from hotmap.local.controllers.batch.indexes import format_indexes, parse_indexes
from hotmap.local.controllers.batch.job_view import FINALIZER
from hotmap.local.meta import timestamp


def _job(name: str = "task", **spec: Any) -> Object:
    container = {"name": "main", "image": "host", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


_LONG_AGO = "2026-01-01T00:00:00Z"


async def _finish(plane: Plane, pod: Object, *, code: int = 0, at: str = _LONG_AGO) -> None:
    """End a pod as the kubelet does."""
    phase = "Failed" if code else "Succeeded"
    ended = {"exitCode": code, "finishedAt": at, "reason": "Completed"}
    container = {"name": "main", "state": {"terminated": ended}}

    def change(obj: Object) -> Object:
        return {**obj, "status": {"phase": phase, "containerStatuses": [container]}}

    await plane.registry.modify(
        "pods",
        "default",
        pod["metadata"]["name"],
        change,
        subresource="status",
        manager="kubelet",
    )


async def _active_pods(plane: Plane, count: int) -> list[Object]:
    found: list[Object] = []

    async def check() -> bool:
        found[:] = [
            pod
            for pod in await plane.items("pods")
            if pod.get("status", {}).get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        ]
        return len(found) == count

    await plane.until(check, what=f"{count} active pods")
    return found


async def _with_condition(plane: Plane, kind: str, name: str = "task") -> Object:
    async def check() -> Object | None:
        job = await plane.registry.get("jobs", "default", name)
        conditions = job.get("status", {}).get("conditions") or []
        return job if any(c["type"] == kind and c["status"] == "True" for c in conditions) else None

    found: Object = await plane.until(check, what=f"{name} to be {kind}")
    return found


async def _messages(plane: Plane, reason: str) -> list[str]:
    """Events are written a little later than what they report."""

    async def check() -> list[str]:
        return await plane.messages(reason)

    found: list[str] = await plane.until(check, what=f"an Event {reason}")
    return found


def _conditions(job: Object) -> list[tuple[str, str, str]]:
    return [(c["type"], c["status"], c["reason"]) for c in job["status"]["conditions"]]


async def test_job_completes_when_its_pods_have_succeeded() -> None:
    """No more pods run than parallelism, and the status is as Kubernetes writes it."""
    async with control_plane() as plane:
        await plane.create("jobs", _job(completions=3, parallelism=2))
        first = await _active_pods(plane, 2)
        assert all(pod["metadata"]["finalizers"] == [FINALIZER] for pod in first)
        await _finish(plane, first[0])
        for pod in await _active_pods(plane, 2):
            await _finish(plane, pod)
        job = await _with_condition(plane, "Complete")
        status = dict(job["status"])
        for field in ("startTime", "completionTime", "conditions"):
            assert status.pop(field)
        assert status == {
            "succeeded": 3,
            "ready": 0,
            "terminating": 0,
            "uncountedTerminatedPods": {},
        }
        assert _conditions(job) == [
            ("SuccessCriteriaMet", "True", "CompletionsReached"),
            ("Complete", "True", "CompletionsReached"),
        ]
        assert not any("finalizers" in pod["metadata"] for pod in await plane.items("pods"))
        assert await _messages(plane, "Completed") == ["Job completed"]


async def test_job_fails_beyond_its_backoff_limit() -> None:
    """The other pods are deleted and count as failed; the reason is the limit."""
    async with control_plane() as plane:
        await plane.create("jobs", _job(completions=2, parallelism=2, backoffLimit=0))
        first, _ = await _active_pods(plane, 2)
        await _finish(plane, first, code=1)
        job = await _with_condition(plane, "Failed")
        assert _conditions(job) == [
            ("FailureTarget", "True", "BackoffLimitExceeded"),
            ("Failed", "True", "BackoffLimitExceeded"),
        ]
        assert job["status"]["failed"] == 2
        assert "succeeded" not in job["status"]
        reached = "Job has reached the specified backoff limit"
        assert await _messages(plane, "BackoffLimitExceeded") == [reached]


async def test_suspended_job_has_no_pods_and_resumes() -> None:
    """Pods of a Job that is suspended are deleted without counting as failures."""
    async with control_plane() as plane:
        await plane.create("jobs", _job())
        await _active_pods(plane, 1)
        await plane.patch("jobs", "task", {"spec": {"suspend": True}})
        job = await _with_condition(plane, "Suspended")
        await _active_pods(plane, 0)
        assert "failed" not in job["status"]
        assert "startTime" not in job["status"]
        await plane.patch("jobs", "task", {"spec": {"suspend": False}})
        (pod,) = await _active_pods(plane, 1)
        await _finish(plane, pod)
        job = await _with_condition(plane, "Complete")
        assert ("Suspended", "False", "JobResumed") in _conditions(job)
        assert "failed" not in job["status"]


async def test_job_beyond_its_deadline_fails() -> None:
    """The deadline counts from the start."""
    async with control_plane() as plane:
        await plane.create("jobs", _job(activeDeadlineSeconds=0))
        job = await _with_condition(plane, "Failed")
        assert _conditions(job)[-1] == ("Failed", "True", "DeadlineExceeded")


async def test_failed_pod_is_replaced_after_a_pause() -> None:
    """A failure long ago is not a reason to wait any more."""
    async with control_plane() as plane:
        await plane.create("jobs", _job(backoffLimit=2))
        (pod,) = await _active_pods(plane, 1)
        await _finish(plane, pod, code=1)
        (other,) = await _active_pods(plane, 1)
        await _finish(plane, other)
        job = await _with_condition(plane, "Complete")
        assert (job["status"]["succeeded"], job["status"]["failed"]) == (1, 1)


async def test_recreated_job_does_not_wait_for_failures_of_its_predecessor() -> None:
    """Created in the moment after the deletion, it has a queue key that never left the queue."""
    async with control_plane() as plane:
        await plane.create("jobs", _job(completions=3, parallelism=3))
        for pod in await _active_pods(plane, 3):
            await _finish(plane, pod, code=1, at=timestamp(time.time()))

        async def has_failed() -> bool:
            job = await plane.registry.get("jobs", "default", "task")
            return bool(job["status"].get("failed") == 3)

        await plane.until(has_failed, what="three failures")
        await plane.registry.delete("jobs", "default", "task", propagation="Background")
        await plane.create("jobs", _job(completions=3, parallelism=3))
        async with asyncio.timeout(20):  # the pause after three failures is 40 s
            await _active_pods(plane, 3)


async def test_indexed_job_runs_each_index_once() -> None:
    """Each pod knows its index by annotation, label, hostname and environment."""
    async with control_plane() as plane:
        await plane.create("jobs", _job(completionMode="Indexed", completions=3, parallelism=3))
        pods = await _active_pods(plane, 3)
        label = "batch.kubernetes.io/job-completion-index"
        found = {pod["metadata"]["labels"][label]: pod for pod in pods}
        assert sorted(found) == ["0", "1", "2"]
        pod = found["1"]
        assert pod["metadata"]["annotations"][label] == "1"
        assert pod["metadata"]["name"].startswith("task-1-")
        assert pod["spec"]["hostname"] == "task-1"
        path = f"metadata.labels['{label}']"
        variable = pod["spec"]["containers"][0]["env"][0]
        assert variable["name"] == "JOB_COMPLETION_INDEX"
        assert variable["valueFrom"]["fieldRef"]["fieldPath"] == path
        for pod in pods:
            await _finish(plane, pod)
        job = await _with_condition(plane, "Complete")
        assert job["status"]["completedIndexes"] == "0-2"
        assert job["status"]["succeeded"] == 3


async def test_index_that_fails_too_often_fails_alone() -> None:
    """With a limit per index the others go on."""
    async with control_plane() as plane:
        spec: Object = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
        await plane.create("jobs", _job(**spec, backoffLimitPerIndex=1))
        label = "batch.kubernetes.io/job-completion-index"
        for _ in range(2):
            pods = await _active_pods(plane, 2)
            first = next(pod for pod in pods if pod["metadata"]["labels"][label] == "0")
            await _finish(plane, first, code=1)
        (second,) = await _active_pods(plane, 1)
        await _finish(plane, second)
        job = await _with_condition(plane, "Failed")
        assert _conditions(job)[-1] == ("Failed", "True", "FailedIndexes")
        assert job["status"]["failedIndexes"] == "0"
        assert job["status"]["completedIndexes"] == "1"


@pytest.mark.parametrize(("action", "condition"), [("FailJob", "Failed"), ("Ignore", "Complete")])
async def test_failure_policy_decides_by_exit_code(action: str, condition: str) -> None:
    """A rule ends the Job, or leaves the failure out of the count."""
    rule = {"action": action, "onExitCodes": {"operator": "In", "values": [42]}}
    async with control_plane() as plane:
        await plane.create("jobs", _job(backoffLimit=0, podFailurePolicy={"rules": [rule]}))
        (pod,) = await _active_pods(plane, 1)
        await _finish(plane, pod, code=42)
        if action == "Ignore":
            (pod,) = await _active_pods(plane, 1)
            await _finish(plane, pod)
        job = await _with_condition(plane, condition)
        if action == "FailJob":
            name = pod["metadata"]["name"]
            assert job["status"]["conditions"][-1]["message"] == (
                f"Container main for pod default/{name} failed with exit code 42 matching FailJob "
                "rule at index 0"
            )
        else:
            assert "failed" not in job["status"]


async def test_success_policy_ends_a_job_early() -> None:
    """Enough succeeded indexes are success, and the other pods are deleted."""
    spec: Object = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}
    policy = {"rules": [{"succeededIndexes": "0"}]}
    async with control_plane() as plane:
        await plane.create("jobs", _job(**spec, successPolicy=policy))
        label = "batch.kubernetes.io/job-completion-index"
        pods = await _active_pods(plane, 3)
        first = next(pod for pod in pods if pod["metadata"]["labels"][label] == "0")
        await _finish(plane, first)
        job = await _with_condition(plane, "Complete")
        assert _conditions(job)[-1] == ("Complete", "True", "SuccessPolicy")
        await _active_pods(plane, 0)


async def test_deleted_job_lets_its_pods_go() -> None:
    """No finalizer keeps a pod whose Job is gone, whether it is deleted with it or orphaned."""
    async with control_plane() as plane:
        for name, propagation in (("task", "Background"), ("other", "Orphan")):
            await plane.create("jobs", _job(name))
            await _active_pods(plane, 1)
            await plane.registry.delete("jobs", "default", name, propagation=propagation)

            async def are_released() -> bool:
                pods = await plane.items("pods")
                return not any(pod["metadata"].get("finalizers") for pod in pods)

            await plane.until(are_released)
        (left,) = await plane.items("pods")
        assert left["metadata"]["name"].startswith("other-")


async def test_finished_job_is_deleted_after_its_time() -> None:
    """A TTL of zero deletes a Job with its pods at once."""
    async with control_plane() as plane:
        await plane.create("jobs", _job(ttlSecondsAfterFinished=0))
        (pod,) = await _active_pods(plane, 1)
        await _finish(plane, pod)

        async def is_gone() -> bool:
            try:
                await plane.registry.get("jobs", "default", "task")
            except NotFound:
                return not await plane.items("pods")
            return False

        await plane.until(is_gone)


async def test_job_of_another_controller_is_left_alone() -> None:
    """`spec.managedBy` names who runs a Job."""
    async with control_plane() as plane:
        await plane.create("jobs", _job("foreign", managedBy="example.com/runner"))
        await plane.create("jobs", _job("own"))
        (pod,) = await _active_pods(plane, 1)
        assert pod["metadata"]["name"].startswith("own-")
        job = await plane.registry.get("jobs", "default", "foreign")
        assert not job.get("status")


@pytest.mark.parametrize(
    ("text", "indexes"),
    [("", []), ("0", [0]), ("0,1", [0, 1]), ("0-2,4", [0, 1, 2, 4]), ("1,2,5-7", [1, 2, 5, 6, 7])],
)
def test_indexes_are_written_as_intervals(text: str, indexes: list[int]) -> None:
    """Reading and writing are each other's inverse."""
    assert format_indexes(indexes) == text
    assert parse_indexes(text, 10) == set(indexes)


def test_indexes_that_are_none_are_ignored() -> None:
    """A status written by another program is not a reason to fail."""
    assert parse_indexes("x,1-,3-9,a-b", 5) == {1, 3, 4}


def test_indexes_beyond_all_bounds_take_no_memory() -> None:
    """Whoever writes a status decides its text."""
    assert len(parse_indexes("0-2000000000", 2**31)) < 2_000_000
