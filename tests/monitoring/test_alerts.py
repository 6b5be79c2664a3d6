"""The alerts fire when they should, and only then; promtool evaluates them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from tests.support.requires import requires

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "charts" / "hotmap" / "files" / "monitoring" / "alerts.yaml"
RUNBOOKS = ROOT / "docs" / "runbooks"

#: The labels that Prometheus adds to each series of a target.
_JOB = {"namespace": "hotmap", "job": "hotmap"}
_INSTANCE = {**_JOB, "instance": "10.0.0.1:9533"}


class Scenario(NamedTuple):
    """What makes one alert fire: series that replace those of a healthy controller."""

    series: dict[str, str | None]
    #: the labels of the alert beside its own
    labels: dict[str, str]
    #: minutes until it fires, and not two minutes earlier; 0: not checked
    minutes: int
    #: annotations whose templates are filled in
    annotations: dict[str, str] = {}  # noqa: RUF012 - never changed


def series(name: str, **labels: str) -> str:
    return f"{name}{{{','.join(f'{key}={value!r}' for key, value in labels.items())}}}".replace(
        "'", '"'
    )


def on_target(name: str, **labels: str) -> str:
    return series(name, **_INSTANCE, **labels)


_STATES = ("current", "unverified", "waiting", "paused", "stuck", "latent", "held", "refused",
           "failed", "unknown")  # fmt: skip
_POD_STATES = ("current", "waiting", "refused", "failed", "unknown")

#: A leader that works; values in promtool's notation, a sample a minute.
HEALTHY: dict[str, str | None] = {
    on_target("hotmap_leader"): "1x100",
    **{
        on_target("hotmap_workloads", state=state): f"{int(state == 'current')}x100"
        for state in _STATES
    },
    **{on_target("hotmap_pods", state=state): "0x100" for state in _POD_STATES},
    on_target("hotmap_watch_last_byte_age_seconds", resource="secrets"): "30x100",
    on_target("hotmap_watch_refused", resource="secrets"): "0x100",
    on_target("hotmap_watch_unreadable_objects", resource="secrets"): "0x100",
    on_target("hotmap_records_unpersisted"): "0x100",
    on_target("hotmap_record_shards_dirty"): "1x100",
    on_target("hotmap_record_write_failures_total"): "3x100",
    on_target("hotmap_jobs_pending"): "0x100",
    on_target("hotmap_rollout_turn_age_seconds"): "840x100",
    on_target("hotmap_template_conflicts_total", kind="removed"): "2x100",
    on_target("hotmap_actions_total", kind="Deployment", action="rollout", outcome="failed"): (
        "7x100"
    ),
    on_target("hotmap_task_restarts_total", task="records"): "1x100",
    on_target("hotmap_change_to_rollout_seconds_bucket", le="1"): "0+6x100",
    on_target("hotmap_change_to_rollout_seconds_bucket", le="60"): "0+6x100",
    on_target("hotmap_change_to_rollout_seconds_bucket", le="+Inf"): "0+6x100",
    on_target("hotmap_event_loop_lag_seconds_bucket", le="0.005"): "0+240x100",
    on_target("hotmap_event_loop_lag_seconds_bucket", le="1"): "0+240x100",
    on_target("hotmap_event_loop_lag_seconds_bucket", le="+Inf"): "0+240x100",
}


def _state(state: str) -> dict[str, str | None]:
    return {on_target("hotmap_workloads", state=state): "2x100"}


def _pods(state: str) -> dict[str, str | None]:
    return {on_target("hotmap_pods", state=state): "4x100"}


SCENARIOS = {
    "HotmapAbsent": Scenario(dict.fromkeys(HEALTHY), {}, 6),
    "HotmapNoLeader": Scenario(
        {on_target("hotmap_leader"): "0x100"},
        _JOB,
        3,
        {"summary": "No hotmap controller of hotmap acts."},
    ),
    "HotmapSeveralLeaders": Scenario(
        {series("hotmap_leader", **{**_INSTANCE, "instance": "10.0.0.2:9533"}): "1x100"},
        _JOB,
        3,
        {"summary": "2 hotmap controllers of hotmap act at the same time."},
    ),
    "HotmapWatchStale": Scenario(
        {on_target("hotmap_watch_last_byte_age_seconds", resource="secrets"): "150x100"},
        {**_INSTANCE, "resource": "secrets"},
        4,
        {
            "summary": "The watch of secrets is silent on 10.0.0.1:9533.",
            "description": ("The API server has sent nothing for 2m 30s, so changes are not seen."),
        },
    ),
    "HotmapWatchRefused": Scenario(
        {
            on_target("hotmap_watch_refused", resource="secrets"): "1x100",
            on_target("hotmap_watch_last_byte_age_seconds", resource="secrets"): "900x100",
        },
        {**_INSTANCE, "resource": "secrets"},
        11,
        {"summary": "hotmap may not watch secrets."},
    ),
    "HotmapWorkloadsStuck": Scenario(
        _state("stuck"), _JOB, 16, {"summary": "2 workloads are stuck in a rollout."}
    ),
    "HotmapWorkloadsLatent": Scenario(
        _state("latent"), _JOB, 61, {"summary": "2 workloads may run with older content."}
    ),
    "HotmapRolloutsHeld": Scenario(
        _state("held"), _JOB, 11, {"summary": "Rollouts of 2 workloads are suppressed."}
    ),
    "HotmapWritesFailing": Scenario(
        {
            **_state("failed"),
            on_target(
                "hotmap_actions_total", kind="Deployment", action="rollout", outcome="failed"
            ): "7+1x100",
        },
        _JOB,
        12,
        {"summary": "Actions on 2 workloads fail."},
    ),
    "HotmapStateNotWritten": Scenario(
        {on_target("hotmap_record_write_failures_total"): "3+1x100"},
        _INSTANCE,
        12,
        {"summary": "hotmap cannot write its state on 10.0.0.1:9533."},
    ),
    "HotmapAgentsRefuseContent": Scenario(
        _pods("refused"),
        _JOB,
        11,
        {"summary": "Agents of 4 pods refuse the current content."},
    ),
    "HotmapAgentsFailing": Scenario(
        _pods("failed"), _JOB, 11, {"summary": "Agents of 4 pods cannot load the current content."}
    ),
    "HotmapAgentsUnreachable": Scenario(
        _state("unknown"),
        _JOB,
        16,
        {"summary": "It is unknown which content the pods of 2 workloads have."},
    ),
    "HotmapJobsPending": Scenario(
        {on_target("hotmap_jobs_pending"): "1x100"},
        _INSTANCE,
        11,
        {"summary": "1 Jobs were deleted and could not be created again."},
    ),
    "HotmapRolloutsStopped": Scenario(
        {on_target("hotmap_rollout_turn_age_seconds"): "0+60x100"},
        _INSTANCE,
        22,
        {"summary": "A workload has kept others from being rolled out for 22m 0s."},
    ),
    "HotmapRolloutsSlow": Scenario(
        {on_target("hotmap_change_to_rollout_seconds_bucket", le="1"): "0x100"},
        _JOB,
        17,
        {"summary": "Rollouts follow changes only after 54.1s."},
    ),
    "HotmapEventLoopSlow": Scenario(
        {on_target("hotmap_event_loop_lag_seconds_bucket", le="0.005"): "0x100"},
        _INSTANCE,
        12,
        {
            "summary": "The controller 10.0.0.1:9533 is overloaded.",
            "description": "Its timers are late by 990ms; the Lease may be lost.",
        },
    ),
    "HotmapTaskRestarts": Scenario(
        {on_target("hotmap_task_restarts_total", task="nudges"): "_x30 1x70"},
        {**_INSTANCE, "task": "nudges"},
        35,
        {"summary": "The task nudges of 10.0.0.1:9533 ended unexpectedly."},
    ),
    "HotmapObjectsUnreadable": Scenario(
        {on_target("hotmap_watch_unreadable_objects", resource="secrets"): "3x100"},
        {**_INSTANCE, "resource": "secrets"},
        16,
        {"summary": "3 secrets cannot be decoded and are ignored."},
    ),
    "HotmapTemplateConflicts": Scenario(
        {on_target("hotmap_template_conflicts_total", kind="removed"): "2+1x100"},
        {**_JOB, "kind": "removed"},
        60,
        {"description": ("Conflicts of the kind removed were reported 30 times in half an hour.")},
    ),
}


def rules() -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def _test(name: str, changed: dict[str, str | None], checks: list[dict[str, Any]]) -> Any:
    found = {**HEALTHY, **changed}
    return {
        "name": name,
        "interval": "1m",
        "input_series": [
            {"series": series, "values": values}
            for series, values in found.items()
            if values is not None
        ],
        "alert_rule_test": checks,
    }


def _check(alert: str, minute: int, *expected: dict[str, Any]) -> dict[str, Any]:
    return {"alertname": alert, "eval_time": f"{minute}m", "exp_alerts": list(expected)}


def _scenario_test(alert: str, scenario: Scenario) -> Any:
    """Expect the alert in time and not before, and none of the others."""
    rule = rules()[alert]
    expected = {
        "exp_labels": {**scenario.labels, **rule["labels"]},
        "exp_annotations": {**rule["annotations"], **scenario.annotations},
    }
    others = [_check(other, scenario.minutes) for other in SCENARIOS if other != alert]
    checks = [_check(alert, scenario.minutes, expected), *others]
    if "for" in rule:
        checks.append(_check(alert, scenario.minutes - 2))
    return _test(alert, scenario.series, checks)


def test_alerts_fire_in_their_scenario_and_in_no_other(tmp_path: Path) -> None:
    """One run of promtool: each scenario, and a healthy controller for an hour and a half."""
    promtool = shutil.which("promtool")
    requires("prometheus", available=promtool is not None, reason="there is no promtool")
    healthy = [_check(alert, minute) for alert in rules() for minute in (14, 60, 95)]
    tests = [_test("healthy", {}, healthy)]
    tests += [_scenario_test(alert, scenario) for alert, scenario in SCENARIOS.items()]
    path = tmp_path / "tests.yaml"
    path.write_text(
        yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests})
    )
    done = subprocess.run(
        [str(promtool), "test", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_scenario_and_a_runbook() -> None:
    """The page is named after the alert, and explains nothing else."""
    assert list(rules()) == list(SCENARIOS)
    assert len(SCENARIOS) >= 8
    pages = {path.stem for path in RUNBOOKS.glob("Hotmap*.md")}
    assert pages == set(SCENARIOS)
    for alert, rule in rules().items():
        assert rule["annotations"]["runbook_url"] == f"docs/runbooks/{alert}.md"
        text = (RUNBOOKS / f"{alert}.md").read_text()
        assert text.startswith(f"# {alert}\n")
        headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert headings == ["Meaning", "Impact", "Diagnosis", "Resolution"]


@pytest.mark.parametrize("alert", SCENARIOS)
def test_alert_has_severity_summary_and_description(alert: str) -> None:
    """In the form that kube-prometheus uses."""
    rule = rules()[alert]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
