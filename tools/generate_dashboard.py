"""Writes the Grafana dashboard of the chart: `python -m tools.generate_dashboard`.

The panels are declared here; a test checks that the file is up to date and that each metric exists.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["DASHBOARD", "ROWS", "Panel", "rendered_dashboard"]

DASHBOARD = Path(__file__).parents[1] / "charts/hotmap/files/monitoring/dashboard.json"

_SELECTOR = 'namespace=~"$namespace",job=~"$job"'
_DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_CURRENT = ',state="current"'
#: Grafana's grid has 24 columns.
_COLUMNS = 24


class Panel(NamedTuple):
    """One panel: expressions with the legend of each."""

    title: str
    expressions: dict[str, str]
    unit: str = "short"
    #: "stat" shows the last value only.
    kind: str = "timeseries"
    width: int = 8
    stacked: bool = False
    description: str = ""


def _quantiles(metric: str, *quantiles: float) -> dict[str, str]:
    return {
        f"p{quantile * 100:g}": f"histogram_quantile({quantile}, sum by (le) "
        f"(rate({metric}_bucket{{{_SELECTOR}}}[$__rate_interval])))"
        for quantile in quantiles
    }


def _series(metric: str) -> str:
    return f"{metric}{{{_SELECTOR}}}"


def _gauge(metric: str, by: str = "", labels: str = "") -> str:
    return f"sum{f' by ({by})' if by else ''} ({metric}{{{_SELECTOR}{labels}}})"


def _largest(metric: str, by: str = "") -> str:
    grouping = f" by ({by})" if by else ""
    return f"max{grouping} ({_series(metric)})"


def _rate(metric: str, by: str = "", labels: str = "") -> str:
    grouping = f" by ({by})" if by else ""
    return f"sum{grouping} (rate({metric}{{{_SELECTOR}{labels}}}[$__rate_interval]))"


ROWS: dict[str, list[Panel]] = {
    "Content": [
        Panel("Leaders", {"": _gauge("hotmap_leader")}, kind="stat", width=6),
        Panel("Workloads", {"": _gauge("hotmap_workloads")}, kind="stat", width=6),
        Panel(
            "Up to date",
            {"": f"{_gauge('hotmap_workloads', labels=_CURRENT)} / {_gauge('hotmap_workloads')}"},
            unit="percentunit",
            kind="stat",
            width=6,
        ),
        Panel("Pods behind", {"": _gauge("hotmap_pods_behind")}, kind="stat", width=6),
        Panel(
            "Workloads by state",
            {"{{state}}": _gauge("hotmap_workloads", by="state")},
            stacked=True,
            width=12,
            description="docs/reference/status.md explains each state.",
        ),
        Panel(
            "Pods by state, as of their last check",
            {"{{state}}": _gauge("hotmap_pods", by="state")},
            stacked=True,
            width=12,
        ),
    ],
    "Decisions and actions": [
        Panel(
            "Change to rollout",
            _quantiles("hotmap_change_to_rollout_seconds", 0.5, 0.9, 0.99),
            unit="s",
            description="From the watch event to the write; the settle time is part of it.",
        ),
        Panel(
            "Actions",
            {"{{action}} {{outcome}}": _rate("hotmap_actions_total", by="action, outcome")},
            unit="ops",
        ),
        Panel(
            "Decisions", {"{{verdict}}": _rate("hotmap_decisions_total", by="verdict")}, unit="ops"
        ),
        Panel(
            "Conflicts with other writers",
            {"{{kind}}": _rate("hotmap_template_conflicts_total", by="kind")},
            unit="ops",
            width=6,
        ),
        Panel("Pod checks", {"checks": _rate("hotmap_pod_checks_total")}, unit="ops", width=6),
        Panel(
            "Jobs between deletion and creation", {"jobs": _gauge("hotmap_jobs_pending")}, width=6
        ),
        Panel(
            "Turn that others wait for",
            {"longest": _largest("hotmap_rollout_turn_age_seconds")},
            unit="s",
            width=6,
            description="A source limits how many of its workloads are rolled out at a time.",
        ),
    ],
    "Watches and API server": [
        Panel(
            "Age of the last byte",
            {"{{resource}}": _largest("hotmap_watch_last_byte_age_seconds", by="resource")},
            unit="s",
            description="A bookmark arrives about once a minute.",
        ),
        Panel(
            "Watch events",
            {"{{resource}}": _rate("hotmap_watch_events_total", by="resource")},
            unit="ops",
        ),
        Panel(
            "Failed attempts and lists",
            {
                "{{resource}} failed": _rate("hotmap_watch_errors_total", by="resource"),
                "{{resource}} lists": _rate("hotmap_lists_total", by="resource"),
            },
            unit="ops",
        ),
        Panel(
            "Not synced, refused, unreadable",
            {
                "{{resource}} not synced": f"{_series('hotmap_watch_synced')} == 0",
                "{{resource}} refused": f"{_series('hotmap_watch_refused')} == 1",
                "{{resource}} unreadable": f"{_series('hotmap_watch_unreadable_objects')} > 0",
            },
        ),
        Panel(
            "Responses",
            {"{{method}} {{status}}": _rate("hotmap_api_requests_total", by="method, status")},
            unit="reqps",
        ),
        Panel("Repeated requests", {"retries": _rate("hotmap_api_retries_total")}, unit="reqps"),
    ],
    "Controller": [
        Panel(
            "Queues",
            {"{{queue}} {{state}}": _gauge("hotmap_queue_depth", by="queue, state")},
        ),
        Panel(
            "Retries", {"{{queue}}": _rate("hotmap_queue_retries_total", by="queue")}, unit="ops"
        ),
        Panel("Event loop lag", _quantiles("hotmap_event_loop_lag_seconds", 0.5, 0.99), unit="s"),
        Panel(
            "Records",
            {
                "records": _gauge("hotmap_records"),
                "not written": _gauge("hotmap_records_unpersisted"),
                "shards not written yet": _gauge("hotmap_record_shards_dirty"),
            },
        ),
        Panel(
            "Record writes",
            {
                "written": _rate("hotmap_record_writes_total"),
                "failed": _rate("hotmap_record_write_failures_total"),
            },
            unit="ops",
        ),
        Panel(
            "Restarted tasks",
            {"{{task}}": _rate("hotmap_task_restarts_total", by="task")},
            unit="ops",
        ),
        Panel(
            "Alerts of rollouts",
            {"{{outcome}}": _rate("hotmap_alerts_total", by="outcome")},
            unit="ops",
        ),
    ],
}


def rendered_dashboard() -> str:
    """Return the text of the dashboard's file."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS.items():
        panels.append(_row(title, top, len(panels) + 1))
        top += 1
        left, height = 0, 0
        for panel in row:
            if left + panel.width > _COLUMNS:
                top, left, height = top + height, 0, 0
            panels.append(_panel(panel, left, top, len(panels) + 1))
            left += panel.width
            height = max(height, _height(panel))
        top += height
    dashboard = {
        "uid": "hotmap-controller",
        "title": "hotmap",
        "description": "ConfigMap and Secret edits: what is delivered, and what is not.",
        "tags": ["hotmap", "kubernetes"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": panels,
    }
    return json.dumps(dashboard, indent=2) + "\n"


def _variables() -> list[dict[str, Any]]:
    source = {"name": "datasource", "label": "Data source", "type": "datasource"}
    return [{**source, "query": "prometheus"}, _variable("namespace"), _variable("job")]


def _variable(label: str) -> dict[str, Any]:
    return {
        "name": label,
        "label": label.capitalize(),
        "type": "query",
        "datasource": _DATA_SOURCE,
        "query": f"label_values(hotmap_leader, {label})",
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _height(panel: Panel) -> int:
    return 4 if panel.kind == "stat" else 8


def _row(title: str, top: int, number: int) -> dict[str, Any]:
    position = {"x": 0, "y": top, "w": _COLUMNS, "h": 1}
    return {"id": number, "type": "row", "title": title, "gridPos": position, "panels": []}


def _panel(panel: Panel, left: int, top: int, number: int) -> dict[str, Any]:
    stacking = {"stacking": {"mode": "normal"}, "fillOpacity": 30} if panel.stacked else {}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATA_SOURCE,
        "gridPos": {"x": left, "y": top, "w": panel.width, "h": _height(panel)},
        "fieldConfig": {"defaults": {"unit": panel.unit, "custom": stacking}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + index), "expr": expression, "legendFormat": legend}
            for index, (legend, expression) in enumerate(panel.expressions.items())
        ],
    }


def main() -> None:
    """Write the file."""
    DASHBOARD.write_text(rendered_dashboard())


if __name__ == "__main__":
    main()
