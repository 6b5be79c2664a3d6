"""Calls of endpoints under configmap-reload's metric names, for its dashboards and alerts."""

from __future__ import annotations

from hotmap.agent.report.metric import Metric

__all__ = ["configmap_reload_metrics"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hotmap.agent.act.call_statistics import CallStatistics


def configmap_reload_metrics(calls: CallStatistics, watcher_errors: int) -> list[Metric]:
    """Return configmap-reload's metrics; none without an endpoint."""
    if not calls.endpoints:
        return []
    labelled = [({"webhook": url}, endpoint) for url, endpoint in calls.endpoints.items()]
    return [
        Metric(
            "configmap_reload_last_reload_error", "gauge",
            "Whether the last call failed.",
            [(labels, int(endpoint.failing)) for labels, endpoint in labelled],
        ),
        Metric(
            "configmap_reload_last_request_duration_seconds", "gauge",
            "Seconds that the last successful call took.",
            [(labels, endpoint.seconds) for labels, endpoint in labelled],
        ),
        Metric(
            "configmap_reload_success_reloads_total", "counter",
            "Number of successful calls.",
            [(labels, endpoint.successes) for labels, endpoint in labelled],
        ),
        Metric(
            "configmap_reload_request_errors_total", "counter",
            "Number of failed calls by reason.",
            [
                ({**labels, "reason": reason}, count)
                for labels, endpoint in labelled
                for reason, count in endpoint.failures.items()
            ],
        ),
        Metric(
            "configmap_reload_requests_total", "counter",
            "Number of responses by status code.",
            [
                ({**labels, "status_code": str(status)}, count)
                for labels, endpoint in labelled
                for status, count in endpoint.responses.items()
            ],
        ),
        Metric(
            "configmap_reload_watcher_errors_total", "counter",
            "Number of inotify watches that ended and were restored.",
            [({}, watcher_errors)],
        ),
    ]  # fmt: skip
