"""What follows from a Job and its pods at one moment; no I/O.

kubernetes: pkg/controller/job/job_controller.go. A pod carries the finalizer of its Job until it is
counted in the status, so that no finished pod is missed or counted twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from hotmap.local.controllers.batch.backoff import finished_at, remaining_pause
from hotmap.local.controllers.batch.indexes import (
    COMPLETION_INDEX,
    completion_index,
    format_indexes,
    parse_indexes,
)
from hotmap.local.controllers.batch.policies import match_failure_policy, match_success_policy
from hotmap.local.controllers.conditions import find_condition
from hotmap.local.controllers.pods import choose_victims, is_active, is_finished, is_ready
from hotmap.local.meta import Object, annotations_of, is_deleted, parse_time, timestamp, uid_of

__all__ = ["FINALIZER", "JobView", "has_finalizer", "is_job_finished", "job_condition"]

FINALIZER = "batch.kubernetes.io/job-tracking"
_FAILURES = "batch.kubernetes.io/job-index-failure-count"
_IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
_REACHED = ("CompletionsReached", "Reached expected number of succeeded pods")


def is_job_finished(job: Object) -> bool:
    """Return whether a Job is complete or has failed."""
    return any(
        condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
        for condition in (job.get("status") or {}).get("conditions") or ()
    )


def has_finalizer(pod: Object) -> bool:
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def job_condition(kind: str, status: str, reason: str, message: str, *, now: float) -> Object:
    """Build a condition of a Job; `now` is POSIX seconds."""
    moment = timestamp(now)
    return {
        "type": kind,
        "status": status,
        "lastProbeTime": moment,
        "lastTransitionTime": moment,
        "reason": reason,
        "message": message,
    }


class JobView:
    """A Job with all pods that it owns."""

    def __init__(self, job: Object, pods: Sequence[Object], *, now: float) -> None:
        self.job = job
        self.spec: Object = job["spec"]
        self.status: Object = job.get("status") or {}
        self.now = now
        self.is_indexed = self.spec.get("completionMode") == "Indexed"
        self.is_suspended = bool(self.spec.get("suspend"))
        self.completions: int | None = self.spec.get("completions")
        self.pods = sorted(pods, key=self._index_order) if self.is_indexed else list(pods)
        self.active = [pod for pod in self.pods if is_active(pod)]
        self.terminating = [pod for pod in self.pods if is_deleted(pod) and not is_finished(pod)]
        uncounted = self.status.get("uncountedTerminatedPods") or {}
        self._uncounted_succeeded = frozenset(uncounted.get("succeeded") or ())
        self._uncounted_failed = frozenset(uncounted.get("failed") or ())

    # -- what the pods have done -----------------------------------------------------------------

    @cached_property
    def new_succeeded(self) -> list[Object]:
        """The succeeded pods that the status does not count yet."""
        return [
            pod
            for pod in self._tracked(self._uncounted_succeeded)
            if pod.get("status", {}).get("phase") == "Succeeded"
        ]

    @cached_property
    def new_failed(self) -> list[Object]:
        """The failed pods that the status does not count yet, those of ignored failures as well."""
        return [pod for pod in self._tracked(self._uncounted_failed) if self._is_failed(pod)]

    @property
    def succeeded(self) -> int:
        if self.is_indexed:
            return len(self.succeeded_indexes)
        known: int = self.status.get("succeeded", 0)
        return known + len(self.new_succeeded) + len(self._uncounted_succeeded)

    @property
    def failed(self) -> int:
        known: int = self.status.get("failed", 0)
        counted = sum(map(self._counts, self.new_failed))
        return known + counted + len(self._uncounted_failed)

    @cached_property
    def known_indexes(self) -> set[int]:
        """The succeeded indexes that the status counts."""
        return parse_indexes(self.status.get("completedIndexes", ""), self.completions or 0)

    @cached_property
    def succeeded_indexes(self) -> set[int]:
        return self.known_indexes | self._indexes(self.new_succeeded)

    @cached_property
    def failed_indexes(self) -> set[int]:
        """The indexes that failed too often, or by a rule; empty without backoffLimitPerIndex."""
        limit = self.spec.get("backoffLimitPerIndex")
        if limit is None or not self.is_indexed:
            return set()
        found = parse_indexes(self.status.get("failedIndexes") or "", self.completions or 0)
        for pod in self._tracked(frozenset()):
            if self._is_failed(pod):
                match = match_failure_policy(self.spec.get("podFailurePolicy"), pod)
                is_last = match.counts and _number(pod, _FAILURES) >= limit
                if match.action == "FailIndex" or is_last:
                    found |= self._indexes([pod])
        return found - self.succeeded_indexes

    @cached_property
    def replaced(self) -> dict[int, Object]:
        """The last failed pod of each index that is to run again (podsWithDelayedDeletionPerIndex).

        It stays until there is another, which inherits its number of failures.
        """
        if self.spec.get("backoffLimitPerIndex") is None or not self.is_indexed:
            return {}
        done = self.succeeded_indexes | self.failed_indexes | self._indexes(self.active)
        found: dict[int, Object] = {}
        for pod in self._tracked(frozenset()):
            index = completion_index(pod)
            if index is not None and index not in done and self._is_failed(pod):
                other = found.get(index)
                if other is None or _failure_order(other) <= _failure_order(pod):
                    found[index] = pod
        return found

    def _tracked(self, except_for: frozenset[str]) -> list[Object]:
        return [
            pod
            for pod in self.pods
            if has_finalizer(pod) and uid_of(pod) not in except_for and self._is_in_range(pod)
        ]

    def _is_in_range(self, pod: Object) -> bool:
        if not self.is_indexed:
            return True
        index = completion_index(pod)
        return index is not None and index < (self.completions or 0)

    def _is_failed(self, pod: Object) -> bool:
        """Return whether a pod counts as failed: a deleted one as well, unless it may succeed."""
        phase: str = pod.get("status", {}).get("phase", "")
        if phase == "Failed" or self.replaces_only_failed:
            return phase == "Failed"
        return is_deleted(pod) and phase != "Succeeded"

    def _counts(self, pod: Object) -> bool:
        return match_failure_policy(self.spec.get("podFailurePolicy"), pod).counts

    @property
    def replaces_only_failed(self) -> bool:
        """Whether a pod that is being deleted is replaced only when it is gone."""
        policy = self.spec.get("podReplacementPolicy")
        return policy == "Failed" or bool(self.spec.get("podFailurePolicy"))

    @staticmethod
    def _indexes(pods: Iterable[Object]) -> set[int]:
        return {index for pod in pods if (index := completion_index(pod)) is not None}

    @staticmethod
    def _index_order(pod: Object) -> int:
        index = completion_index(pod)
        return -1 if index is None else index

    # -- whether it ends -------------------------------------------------------------------------

    def end(self) -> Object | None:
        """Return the condition with which the Job begins to end, other than by all completions.

        In this order: what an earlier sync decided; a rule for failed pods; too many failures;
        too much time; failed indexes; a rule for succeeded indexes.
        """
        conditions = self.status.get("conditions") or []
        met = find_condition(conditions, "SuccessCriteriaMet")
        if met is not None and met["status"] == "True":
            return met
        target = find_condition(conditions, "FailureTarget")
        if target is not None and target["status"] == "True":
            return job_condition(
                "Failed", "True", target["reason"], target["message"], now=self.now
            )
        reason, message = self._failure()
        if reason:
            return job_condition("FailureTarget", "True", reason, message, now=self.now)
        if self.is_indexed:
            message = match_success_policy(
                self.spec.get("successPolicy"), self.completions or 0, self.succeeded_indexes
            )
            if message:
                reason = "SuccessPolicy"
                return job_condition("SuccessCriteriaMet", "True", reason, message, now=self.now)
        return None

    def completion(self) -> Object | None:
        """Return the condition of a Job with all its completions, None if it has not."""
        enough = 1 if self.completions is None else self.completions
        if self.succeeded < enough or self.active:
            return None
        return job_condition("SuccessCriteriaMet", "True", *_REACHED, now=self.now)

    def _failure(self) -> tuple[str, str]:
        policy = self.spec.get("podFailurePolicy")
        for pod in filter(self._is_failed, self.pods):
            message = match_failure_policy(policy, pod).message
            if message:
                return "PodFailurePolicy", message
        limit = self.spec.get("backoffLimit", 6)
        if self.failed > limit or self._restarts_exceed(limit):
            return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        if self.seconds_left() == 0:
            return "DeadlineExceeded", "Job was active longer than specified deadline"
        failed, most = len(self.failed_indexes), self.spec.get("maxFailedIndexes")
        if most is not None and failed > most:
            text = "Job has exceeded the specified maximal number of failed indexes"
            return "MaxFailedIndexesExceeded", text
        if failed and failed + len(self.succeeded_indexes) >= (self.completions or 0):
            return "FailedIndexes", "Job has failed indexes"
        return "", ""

    def _restarts_exceed(self, limit: int) -> bool:
        if self.spec["template"]["spec"].get("restartPolicy") != "OnFailure":
            return False
        restarts = sum(
            container.get("restartCount", 0)
            for pod in self.pods
            if not is_finished(pod)
            for field in ("initContainerStatuses", "containerStatuses")
            for container in (pod.get("status") or {}).get(field) or ()
        )
        return bool(restarts >= max(limit, 1))

    def seconds_left(self) -> float | None:
        """Return how long the Job may still be active; None without a limit, or before it runs."""
        limit, started = self.spec.get("activeDeadlineSeconds"), self.status.get("startTime")
        if limit is None or self.is_suspended or not started:
            return None
        return max(0.0, parse_time(started) + float(limit) - self.now)

    # -- how many pods it wants ------------------------------------------------------------------

    def wanted_count(self) -> int:
        """Return how many pods are to be active."""
        if self.is_suspended:
            return 0
        parallelism: int = self.spec.get("parallelism", 1)
        if self.completions is None:
            return len(self.active) if self.succeeded else parallelism
        return max(0, min(parallelism, self.completions - self.succeeded))

    def surplus(self) -> list[Object]:
        """Choose the active pods to delete: too many, or of an index that another works on."""
        count = max(0, len(self.active) - self.wanted_count())
        if not self.is_indexed:
            return choose_victims(self.active, self.pods, count, now=self.now)
        kept: dict[int, Object] = {}
        doubled: list[Object] = []
        for pod in choose_victims(self.active, self.pods, len(self.active), now=self.now)[::-1]:
            index = completion_index(pod)
            if index is None or index in kept or not self._is_in_range(pod):
                doubled.append(pod)
            else:
                kept[index] = pod
        rest = max(0, count - len(doubled))
        return doubled + choose_victims(list(kept.values()), self.pods, rest, now=self.now)

    def missing_count(self) -> int:
        """Return how many pods there are too few."""
        waiting = len(self.terminating) if self.replaces_only_failed else 0
        return self.wanted_count() - waiting - len(self.active)

    def pending_indexes(self, count: int) -> list[int]:
        """Return the lowest indexes without a pod that are neither done nor failed."""
        taken = self.succeeded_indexes | self.failed_indexes | self._indexes(self.active)
        if self.replaces_only_failed:
            taken |= self._indexes(self.terminating)
        found: list[int] = []
        for index in range(self.completions or 0):
            if len(found) == count:
                break
            if index not in taken:
                found.append(index)
        return found

    def index_pause(self, index: int) -> float:
        """Return the seconds until an index may run again (getRemainingTimePerIndex)."""
        pod = self.replaced.get(index)
        if pod is None:
            return 0.0
        failures = _number(pod, _FAILURES) + _number(pod, _IGNORED_FAILURES) + 1
        return remaining_pause(failures, finished_at(pod), self.now)

    def index_annotations(self, index: int) -> dict[str, str]:
        """Return what a pod says of its index, and of the failures before it."""
        annotations = {COMPLETION_INDEX: str(index)}
        if self.spec.get("backoffLimitPerIndex") is None:
            return annotations
        failures = ignored = 0
        pod = self.replaced.get(index)
        if pod is not None:
            counts = self._counts(pod)
            failures = _number(pod, _FAILURES) + counts
            ignored = _number(pod, _IGNORED_FAILURES) + (not counts)
        annotations[_FAILURES] = str(failures)
        if ignored:
            annotations[_IGNORED_FAILURES] = str(ignored)
        return annotations

    # -- what its status says --------------------------------------------------------------------

    def counts(self) -> dict[str, Any]:
        """Return the numbers of pods that are neither succeeded nor failed."""
        ready = sum(map(is_ready, self.active))
        return {
            "active": len(self.active),
            "ready": ready,
            "terminating": len(self.terminating),
        }

    def index_fields(self, released: Iterable[Object]) -> dict[str, Any]:
        """Return the status of the indexes once *released* pods are counted."""
        succeeded = [pod for pod in released if pod.get("status", {}).get("phase") == "Succeeded"]
        done = self.known_indexes | {
            index for index in self._indexes(succeeded) if index < (self.completions or 0)
        }
        fields = {"completedIndexes": format_indexes(done), "succeeded": len(done)}
        if self.spec.get("backoffLimitPerIndex") is not None:
            fields["failedIndexes"] = format_indexes(self.failed_indexes)
        return fields

    def countable(self, end: Object | None) -> list[Object]:
        """Return the pods with a finalizer that can be counted now, and released."""
        return [pod for pod in self.pods if has_finalizer(pod) and self._can_be_released(pod, end)]

    def _can_be_released(self, pod: Object, end: Object | None) -> bool:
        phase = pod.get("status", {}).get("phase")
        if is_deleted(self.job) or end is not None or phase == "Succeeded":
            return True
        index = completion_index(pod)
        waits = index is not None and self.replaced.get(index) is pod
        return self._is_failed(pod) and not waits

    def newly_counted(
        self, released: Iterable[Object], end: Object | None
    ) -> tuple[list[str], list[str]]:
        """Return the uids of the pods that count as succeeded and as failed.

        Of a Job that ends without success all pods count as failed.
        """
        failing = end is not None and end["type"] != "SuccessCriteriaMet"
        succeeded, failed = [], []
        for pod in released:
            uid = uid_of(pod)
            has_succeeded = pod.get("status", {}).get("phase") == "Succeeded"
            if has_succeeded and uid not in self._uncounted_failed:
                if not self.is_indexed and uid not in self._uncounted_succeeded:
                    succeeded.append(uid)
            elif self._is_failed(pod) or failing:
                is_new = uid not in self._uncounted_failed and self._is_in_range(pod)
                if is_new and self._counts(pod):
                    failed.append(uid)
        return succeeded, failed


def _number(pod: Object, annotation: str) -> int:
    text = annotations_of(pod).get(annotation, "0")
    return int(text) if text.isascii() and text.isdigit() else 0


def _failure_order(pod: Object) -> tuple[int, float]:
    return _number(pod, _FAILURES) + _number(pod, _IGNORED_FAILURES), finished_at(pod)
