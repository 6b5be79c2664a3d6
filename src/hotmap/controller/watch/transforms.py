"""Transforms of watched workloads: what is stored of each is a consumer, or nothing.

Most Jobs, ReplicaSets and Pods are managed by a workload, whose template is used instead; they are
dropped on arrival, so they take no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from hotmap.core.model.consumer import Consumer, has_workload, is_owned
from hotmap.core.model.consumer_conversion import (
    consumer_from_cron_job,
    consumer_from_job,
    consumer_from_pod,
    consumer_from_rollout,
    consumer_from_workload,
)
from hotmap.core.model.objects import CommonMeta, CronJob, Job, Pod, Rollout, Workload
from hotmap.core.model.pod_conditions import FINISHED
from hotmap.core.policy.policy import Defaults, OnChange

__all__ = ["LEFT_OUT_BY_CONTENT", "Transforms", "is_left_out"]

#: The kinds of which some objects are left out by more than their metadata: the finished ones.
LEFT_OUT_BY_CONTENT: Final = ("Job", "Pod")

#: How to find the objects that a workload manages, by kind.
_IS_MANAGED: Final[Mapping[str, Callable[[CommonMeta], bool]]] = {
    "Job": is_owned,
    "ReplicaSet": is_owned,
    "Pod": has_workload,
}


def is_left_out(kind: str, metadata: CommonMeta) -> bool:
    """Return whether the metadata of an object alone shows that it is not kept as a consumer.

    Another workload manages it, or it is being deleted: its controller starts and replaces no pods
    then, so a rollout would never end (kubernetes: pkg/controller/deployment, syncDeployment).
    """
    is_managed = _IS_MANAGED.get(kind)
    return bool(metadata.deletion_timestamp) or (is_managed is not None and is_managed(metadata))


class Transforms:
    """The transforms of the reflectors, one for each kind; None for what `is_left_out` says.

    `known` is the stored value of the same object, to reuse what is unchanged.
    """

    def __init__(self, defaults: Defaults) -> None:
        self._dialect = defaults.dialect
        #: Whether flags enable the recreation of Jobs, including finished ones.
        self._recreates = OnChange.RECREATE in defaults.on_change

    def workload(self, kind: str) -> Callable[..., Consumer | None]:
        """Return the transform of Deployments and similar kinds, and of ReplicaSets."""

        def transform(item: Workload, known: Consumer | None = None) -> Consumer | None:
            if is_left_out(kind, item.metadata):
                return None
            return consumer_from_workload(kind, item, self._dialect, known=known)

        return transform

    def cron_job(self, item: CronJob, known: Consumer | None = None) -> Consumer | None:
        """Keep the CronJobs that are not being deleted."""
        if is_left_out("CronJob", item.metadata):
            return None
        return consumer_from_cron_job(item, self._dialect, known=known)

    def rollout(self, item: Rollout, known: Consumer | None = None) -> Consumer | None:
        """Keep the Argo Rollouts that are not being deleted."""
        if is_left_out("Rollout", item.metadata):
            return None
        return consumer_from_rollout(item, self._dialect, known=known)

    def job(self, item: Job, known: Consumer | None = None) -> Consumer | None:
        """Keep the Jobs that no CronJob owns.

        Of the finished ones, which read nothing any more, only those that may be recreated.
        """
        if is_left_out("Job", item.metadata):
            return None
        job = consumer_from_job(item, self._dialect, known=known)
        asks = self._recreates or job.annotations or job.template_annotations
        return None if job.finished and not asks else job

    def pod(self, item: Pod, _known: Consumer | None = None) -> Consumer | None:
        """Keep the Pods that no workload owns and that may still run."""
        if is_left_out("Pod", item.metadata) or item.status.phase in FINISHED:
            return None
        return consumer_from_pod(item, self._dialect)
