"""What is kept of each workload that is watched: a consumer, or nothing.

Most Jobs, ReplicaSets and Pods are made by a workload, whose template is what counts; they are
dropped as they come, so that they cost nothing that stays.
"""

from __future__ import annotations

from collections.abc import Callable

from hotmap.core.model.consumer import (
    Consumer,
    consumer_from_cron_job,
    consumer_from_job,
    consumer_from_pod,
    consumer_from_rollout,
    consumer_from_workload,
    has_workload,
    is_owned,
)
from hotmap.core.model.objects import CronJob, Job, Pod, Rollout, Workload
from hotmap.core.policy.policy import Defaults, OnChange

__all__ = ["Transforms"]

_FINISHED = ("Succeeded", "Failed")


class Transforms:
    """The transforms of the reflectors, one for each kind.

    `known` is what was kept of the same object before.
    """

    def __init__(self, defaults: Defaults) -> None:
        self._dialect = defaults.dialect
        #: Whether flags have Jobs created again, finished ones too.
        self._recreates = OnChange.RECREATE in defaults.on_change

    def workload(self, kind: str) -> Callable[..., Consumer]:
        """Make the transform of a kind whose controller rolls it."""
        dialect = self._dialect
        return lambda item, known=None: consumer_from_workload(kind, item, dialect, known=known)

    def cron_job(self, item: CronJob, known: Consumer | None = None) -> Consumer:
        """Keep every CronJob."""
        return consumer_from_cron_job(item, self._dialect, known=known)

    def rollout(self, item: Rollout, known: Consumer | None = None) -> Consumer:
        """Keep every Argo Rollout."""
        return consumer_from_rollout(item, self._dialect, known=known)

    def job(self, item: Job, known: Consumer | None = None) -> Consumer | None:
        """Keep the Jobs that no CronJob made and that are not being deleted.

        Of the finished ones, which read nothing any more, those that may ask to be run again.
        """
        if item.metadata.deletion_timestamp or is_owned(item.metadata):
            return None
        job = consumer_from_job(item, self._dialect, known=known)
        asks = self._recreates or job.annotations or job.template_annotations
        return None if job.finished and not asks else job

    def replica_set(self, item: Workload, known: Consumer | None = None) -> Consumer | None:
        """Keep the ReplicaSets that no Deployment or Rollout made."""
        if is_owned(item.metadata):
            return None
        return consumer_from_workload("ReplicaSet", item, self._dialect, known=known)

    def pod(self, item: Pod, known: Consumer | None = None) -> Consumer | None:
        """Keep the Pods that no workload made and that may still run."""
        ends = item.metadata.deletion_timestamp or item.status.phase in _FINISHED
        if ends or has_workload(item.metadata):
            return None
        return consumer_from_pod(item, self._dialect, known=known)
