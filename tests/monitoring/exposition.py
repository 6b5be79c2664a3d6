"""The metrics page of a controller with a sample of every family."""

from __future__ import annotations

from collections import Counter

from hotmap.controller.report.consumer_states import ConsumerStateStatistics
from hotmap.controller.report.decision_log import DecisionLog
from hotmap.controller.report.metrics import Metrics, MetricSources
from hotmap.controller.settings import ReloaderSurface
from hotmap.controller.storage.records import Records
from hotmap.core.model.objects import ObjectKey
from hotmap.core.status.consumer import State
from hotmap.core.status.stage import PodState
from hotmap.kube.client import Client
from hotmap.kube.config import BearerToken, ClusterConfig
from hotmap.kube.reflector_statistics import ReflectorStatistics
from hotmap.kube.workqueue import WorkQueueStatistics

__all__ = ["controller_metrics"]


def controller_metrics(reloader: ReloaderSurface | None = None) -> str:
    """Render the metrics of a leader that has done something of everything.

    `reloader`: under Reloader's names, too.
    """
    client = Client(ClusterConfig("https://localhost", "a test", BearerToken()))
    client._transport.answers["GET", "200"] += 1
    log = DecisionLog(wall_clock=lambda: 0.0)
    log.decisions["up to date"] += 1
    log.actions["Deployment", "rollout", "done"] += 1
    metrics = Metrics(
        MetricSources(
            client=client,
            decision_log=log,
            records=Records(),
            record_shards=None,
            reflectors=lambda: [_watch()],
            queues=lambda: {"reconcile": _queue()},
            consumer_states=lambda: ConsumerStateStatistics(
                dict.fromkeys(State, 0), 0, dict.fromkeys(PodState, 0)
            ),
            pod_checks=lambda: 0,
            pending_jobs=lambda: 0,
            rollout_turn_age=lambda: 0.0,
            task_restarts=lambda: Counter({"records": 1}),
            alerts=lambda: {"sent": 1},
        ),
        reloader,
    )
    for succeeded in (True, False):
        metrics.record_rollout(ObjectKey("Deployment", "shop", "web"), succeeded, 0.5)
    metrics.observe_loop_lag(0.001)
    return metrics.render().decode()


def _watch() -> ReflectorStatistics:
    fields = dict.fromkeys(ReflectorStatistics._fields, 0)
    return ReflectorStatistics(**{**fields, "resource": "secrets"})  # type: ignore[arg-type]


def _queue() -> WorkQueueStatistics:
    return WorkQueueStatistics(**dict.fromkeys(WorkQueueStatistics._fields, 0))
