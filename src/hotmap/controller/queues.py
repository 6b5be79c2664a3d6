"""The two queues of one term of leadership, with the object keys of consumers.

They are made before the parts of the term: workers take keys from them, and pod checks, statuses
and turns add keys, or ask whether a decision on a consumer is to come.
"""

from __future__ import annotations

from hotmap.core.model.objects import ObjectKey
from hotmap.kube.workqueue import WorkQueue, WorkQueueStatistics

__all__ = ["ConsumerQueues"]


class ConsumerQueues:
    """The consumers whose pods may need a nudge (`refreshes`), and those to be reconciled."""

    def __init__(self, *, workers: int) -> None:
        """`workers` is the number of those of each queue."""
        # Namespaces take turns: an edit that thousands of workloads of one use delays no other.
        # Half of the workers are left to those that have none: writes may take half a minute each,
        # where an admission webhook does not answer or there are 10,000 pods to nudge.
        most = max(1, workers // 2)
        self.refreshes: WorkQueue[ObjectKey] = WorkQueue(group=_namespace_of, most=most)
        self.reconciles: WorkQueue[ObjectKey] = WorkQueue(group=_namespace_of, most=most)
        self._is_over = False

    def shutdown(self) -> None:
        """Stop all workers: each finishes its key and gets no other. Later keys are ignored."""
        self._is_over = True
        self.refreshes.shutdown()
        self.reconciles.shutdown()

    def has_ready(self) -> bool:
        """Return whether a consumer is due and waits for a worker; True after the end."""
        return self._is_over or self.refreshes.has_ready() or self.reconciles.has_ready()

    def is_pending(self, key: ObjectKey) -> bool:
        """Return whether a consumer is due, settling or with a worker.

        True after the end: then the next leader decides, and nothing is concluded here any more.
        """
        return self._is_over or self.refreshes.is_pending(key) or self.reconciles.is_pending(key)

    def settles_in(self, key: ObjectKey) -> float | None:
        """Return the seconds until a consumer's changes have settled; None: they have."""
        return self.reconciles.settles_in(key)

    def statistics(self) -> dict[str, WorkQueueStatistics]:
        """Count the waiting and processed consumers, by queue."""
        return {"refresh": self.refreshes.statistics(), "reconcile": self.reconciles.statistics()}


def _namespace_of(key: ObjectKey) -> str:
    return key.namespace
