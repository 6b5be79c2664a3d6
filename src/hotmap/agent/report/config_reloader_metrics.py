"""Reloads under prometheus-config-reloader's metric names, for its dashboards and alerts."""

from __future__ import annotations

from hotmap.agent.report.metric import Metric

__all__ = ["config_reloader_metrics"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def config_reloader_metrics(status: Mapping[str, Any], method: str, unknown: int) -> list[Metric]:
    """Return its metrics; `unknown`: references to variables that are not set."""
    rule, counts = status["rules"][0], status["check"]["counts"]
    detector = status["detector"]
    return [
        _metric("reloads_total", "counter", "Number of reloads.", rule["loads"] + rule["failures"]),
        _metric("reloads_failed_total", "counter", "Number of failed reloads.", rule["failures"]),
        _metric(
            "last_reload_successful", "gauge", "Whether the last reload succeeded.",
            int(bool(rule["loaded_at"]) and not rule["consecutive_failures"]),
        ),
        _metric(
            "last_reload_success_timestamp_seconds", "gauge", "Time of the last successful reload.",
            rule["loaded_at"],
        ),
        _metric(
            "config_apply_operations_total", "counter", "Number of readings of the configuration.",
            sum(counts.values()),
        ),
        _metric(
            "config_apply_operations_failed_total", "counter", "Number of readings that failed.",
            counts["error"] + counts["refused"],
        ),
        _metric(
            "config_environment_variable_expansion_errors", "gauge",
            "Number of references to variables that are not set.", unknown,
        ),
        _metric("watches", "gauge", "Number of watched directories.", len(status["directories"])),
        _metric(
            "watch_events_total", "counter", "Number of updates that were detected.",
            detector["updates"],
        ),
        _metric(
            "watch_errors_total", "counter", "Number of watches that were lost and restored.",
            detector["watches_lost"] + detector["overflows"],
        ),
        Metric("reloader_info", "gauge", "How to reload.", [({"method": method}, 1)]),
    ]  # fmt: skip


def _metric(name: str, kind: str, text: str, value: float) -> Metric:
    return Metric(f"reloader_{name}", kind, text, [({}, value)])
