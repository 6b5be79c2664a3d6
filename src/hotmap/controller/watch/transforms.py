"""Transforms of watched workloads: what is stored of each is a consumer, or nothing.

Most Jobs, ReplicaSets and Pods are managed by a workload, whose template is used instead; they are
dropped on arrival, so they take no memory.
"""

from __future__ import annotations

from collections.abc import Callable

from hotmap.core.model.consumer import Consumer, has_workload, is_owned
from hotmap.core.model.consumer_conversion import (
    consumer_from_cron_job,
    consumer_from_job,
    consumer_from_pod,
    consumer_from_rollout,
    consumer_from_workload,
)
from hotmap.core.model.objects import CronJob, Job, Pod, Rollout, Workload
from hotmap.core.model.pod_conditions import FINISHED
from hotmap.core.policy.policy import Defaults, OnChange

__all__ = ["Transforms"]


class Transforms:
    """The transforms of the reflectors, one for each kind.

    `known` is the stored value of the same object.
    """

    def __init__(self, defaults: Defaults) -> None:
        self._dialect = defaults.dialect
        #: Whether flags enable the recreation of Jobs, including finished ones.
        self._recreates = OnChange.RECREATE in defaults.on_change

    def workload(self, kind: str) -> Callable[..., Consumer | None]:
        """Return the transform of a kind that supports rollouts.

        Its controller replaces no pods of one that is being deleted, so a rollout would never end
        (kubernetes: pkg/controller/deployment, syncDeployment).
        """

        def transform(item: Workload, known: Consumer | None = None) -> Consumer | None:
            if item.metadata.deletion_timestamp:
                return None
            return consumer_from_workload(kind, item, self._dialect, known=known)

        return transform

    def cron_job(self, item: CronJob, known: Consumer | None = None) -> Consumer:
        """Keep every CronJob."""
        return consumer_from_cron_job(item, self._dialect, known=known)

    def rollout(self, item: Rollout, known: Consumer | None = None) -> Consumer:
        """Keep every Argo Rollout."""
        return consumer_from_rollout(item, self._dialect, known=known)

    def job(self, item: Job, known: Consumer | None = None) -> Consumer | None:
        """Keep the Jobs that no CronJob owns and that are not being deleted.

        Of the finished ones, which read nothing any more, only those that may be recreated.
        """
        if item.metadata.deletion_timestamp or is_owned(item.metadata):
            return None
        job = consumer_from_job(item, self._dialect, known=known)
        asks = self._recreates or job.annotations or job.template_annotations
        return None if job.finished and not asks else job

    def replica_set(self, item: Workload, known: Consumer | None = None) -> Consumer | None:
        """Keep the ReplicaSets that no Deployment or Rollout owns."""
        if is_owned(item.metadata):
            return None
        return consumer_from_workload("ReplicaSet", item, self._dialect, known=known)

    def pod(self, item: Pod, known: Consumer | None = None) -> Consumer | None:
        """Keep the Pods that no workload owns and that may still run."""
        ends = item.metadata.deletion_timestamp or item.status.phase in FINISHED
        if ends or has_workload(item.metadata):
            return None
        return consumer_from_pod(item, self._dialect, known=known)
