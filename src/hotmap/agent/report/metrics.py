"""Prometheus' text format: each metric is a row of a table."""

from __future__ import annotations

from hotmap.agent.report.configmap_reload_metrics import configmap_reload_metrics
from hotmap.agent.report.metric import Metric, format_metrics

__all__ = ["render_metrics"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from hotmap.agent.act.call_statistics import CallStatistics


def render_metrics(status: Mapping[str, Any], calls: CallStatistics) -> str:
    """Render the status document and the calls of endpoints."""
    return format_metrics(
        [
            *_rule_metrics(status["rules"]),
            *_directory_metrics(status["directories"]),
            *_check_metrics(status["check"]),
            *_detector_metrics(status["detector"]),
            Metric(
                "hotmap_agent_last_poll_age_seconds", "gauge",
                "Seconds since the directories were last polled.",
                [({}, status["last_poll_age_seconds"])],
            ),
            Metric(
                "hotmap_agent_application_starts_total", "counter",
                "Number of starts of the supervised application.",
                [({}, status["application"]["starts"])],
            ),
            Metric(
                "hotmap_agent_internal_errors_total", "counter",
                "Number of unexpected errors; what they interrupted is retried.",
                [({}, status["internal_errors"])],
            ),
            Metric(
                "hotmap_agent_log_lines_dropped_total", "counter",
                "Number of log lines that were dropped because standard error was not read.",
                [({}, status["log_lines_dropped"])],
            ),
            *configmap_reload_metrics(calls, status["detector"]["watches_lost"]),
        ]
    )  # fmt: skip


def _rule_metrics(rules: list[Mapping[str, Any]]) -> list[Metric]:
    labelled = [({"rule": rule["name"]}, rule) for rule in rules]
    return [
        Metric(
            "hotmap_agent_loaded", "gauge",
            "Whether the process has loaded the current content.",
            [(labels, int(rule["state"] == "loaded")) for labels, rule in labelled],
        ),
        Metric(
            "hotmap_agent_told", "gauge",
            "Whether the process was told to load the current content, without confirmation.",
            [(labels, int(rule["state"] == "told")) for labels, rule in labelled],
        ),
        Metric(
            "hotmap_agent_pending_seconds", "gauge",
            "Seconds that a load has been pending; 0 when none is.",
            [(labels, rule["pending_seconds"]) for labels, rule in labelled],
        ),
        Metric(
            "hotmap_agent_loads_total", "counter",
            "Number of successful loads.",
            [(labels, rule["loads"]) for labels, rule in labelled],
        ),
        Metric(
            "hotmap_agent_failures_total", "counter",
            "Number of failed attempts.",
            [(labels, rule["failures"]) for labels, rule in labelled],
        ),
        Metric(
            "hotmap_agent_last_load_timestamp_seconds", "gauge",
            "Time of the last successful load.",
            [(labels, rule["loaded_at"]) for labels, rule in labelled if rule["loaded_at"]],
        ),
    ]  # fmt: skip


def _directory_metrics(directories: list[Mapping[str, Any]]) -> list[Metric]:
    return [
        Metric(
            "hotmap_agent_target_matched", "gauge",
            "Whether a directory has the content that was announced to the pod.",
            [
                ({"directory": each["directory"], "evidence": each["evidence"]},
                 int(each["target"] == "matched"))
                for each in directories
                if each["evidence"]
            ],
        ),
        Metric(
            "hotmap_agent_directory_pending_seconds", "gauge",
            "Seconds that a directory has had content that is not loaded.",
            [({"directory": each["directory"]}, each["pending_seconds"]) for each in directories],
        ),
    ]  # fmt: skip


def _check_metrics(check: Mapping[str, Any]) -> list[Metric]:
    return [
        Metric(
            "hotmap_agent_check_passed", "gauge",
            "Whether the current content passed its check.",
            [({}, int(check["state"] == "passed"))],
        ),
        Metric(
            "hotmap_agent_checks_total", "counter",
            "Number of checks by result.",
            [({"result": result}, count) for result, count in check["counts"].items()],
        ),
    ]  # fmt: skip


def _detector_metrics(detector: Mapping[str, Any]) -> list[Metric]:
    return [
        Metric(
            "hotmap_agent_detector_info", "gauge",
            "How changes are detected, and why inotify is not used.",
            [({"mode": detector["mode"], "reason": detector["reason"]}, 1)],
        ),
        Metric(
            "hotmap_agent_updates_total", "counter",
            "Number of updates of volumes that were detected.",
            [({}, detector["updates"])],
        ),
        Metric(
            "hotmap_agent_watches_lost_total", "counter",
            "Number of inotify watches that ended and were restored.",
            [({}, detector["watches_lost"])],
        ),
        Metric(
            "hotmap_agent_overflows_total", "counter",
            "Number of overflows of the inotify event queue.",
            [({}, detector["overflows"])],
        ),
    ]  # fmt: skip
