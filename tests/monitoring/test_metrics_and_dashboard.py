"""Metrics keep Prometheus' conventions; alerts and dashboard name only metrics that exist."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest
import yaml
from prometheus_client import CollectorRegistry
from tests.monitoring.exposition import controller_metrics
from tests.support.requires import requires
from tools.generate_dashboard import DASHBOARD, ROWS, rendered_dashboard

from hotmap.cli.main import hotmap
from hotmap.controller.report.reloader_metrics import OTHER_NAMESPACES, ReloaderMetrics
from hotmap.controller.settings import ReloaderSurface
from hotmap.core.model.objects import ObjectKey

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "charts" / "hotmap" / "files" / "monitoring" / "alerts.yaml"
RUNBOOKS = sorted((ROOT / "docs" / "runbooks").glob("Hotmap*.md"))
#: A series of one metric for each of these would be unbounded.
_UNBOUNDED = {"name", "pod", "workload", "uid", "namespace", "node", "reason", "version"}


def promtool(*arguments: str, stdin: str = "") -> str:
    program = shutil.which("promtool")
    requires("prometheus", available=program is not None, reason="there is no promtool")
    done = subprocess.run(
        [str(program), *arguments], input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def exposed() -> tuple[set[str], dict[str, set[str]]]:
    """Return the names of all series, and the labels of each."""
    labels: dict[str, set[str]] = {}
    for line in controller_metrics().splitlines():
        if line.startswith("#"):
            continue
        name, _, rest = line.partition("{")
        found = re.findall(r'(\w+)="', rest) if rest else []
        labels.setdefault(name.split()[0], set()).update(found)
    # Families that have no sample until something happened have a type.
    types = re.findall(r"^# TYPE (\w+) ", controller_metrics(), re.MULTILINE)
    return {*labels, *types}, labels


@pytest.mark.parametrize(
    "reloader", [None, ReloaderSurface(counts_by_namespace=True)], ids=["", "compat"]
)
def test_promtool_finds_nothing_in_the_metrics(reloader: ReloaderSurface | None) -> None:
    """Units, suffixes, help texts."""
    text = controller_metrics(reloader)
    page = "\n".join(line for line in text.splitlines() if "_created" not in line)
    assert promtool("check", "metrics", stdin=page + "\n") == ""


@pytest.mark.parametrize("by_namespace", [False, True])
def test_metrics_of_reloader_are_beside_hotmaps(by_namespace: bool) -> None:
    """With its names and labels; the count by namespace on request."""
    text = controller_metrics(ReloaderSurface(counts_by_namespace=by_namespace))
    grouped = "reloader_reload_executed_total_by_namespace"
    assert [line for line in text.splitlines() if line.startswith("reloader_reload")] == [
        'reloader_reload_executed_total{success="true"} 1.0',
        'reloader_reload_executed_total{success="false"} 1.0',
        *(
            f'{grouped}{{namespace="shop",success="{success}"}} 1.0'
            for success in ("true", "false")
            if by_namespace
        ),
    ]
    types = dict(re.findall(r"^# TYPE ((?:reloader|rest_client)_\w+) (\w+)$", text, re.MULTILINE))
    types = {name: kind for name, kind in types.items() if not name.endswith("_created")}
    assert types == {
        "reloader_reload_executed_total": "counter",
        **({grouped: "untyped"} if by_namespace else {}),
        "reloader_action_total": "counter",
        "reloader_action_latency_seconds": "histogram",
        "reloader_reconcile_total": "counter",
        "reloader_workqueue_depth": "gauge",
        "reloader_workqueue_adds_total": "counter",
        "reloader_retries_total": "counter",
        "rest_client_requests_total": "counter",
    }
    assert "hotmap_change_to_rollout_seconds_count 1.0" in text
    assert 'rest_client_requests_total{code="200",host="localhost",method="GET"}' in text


def test_metrics_of_reloader_are_off_by_default() -> None:
    """hotmap has its own."""
    assert not re.search(r"^(reloader|rest_client)_", controller_metrics(), re.MULTILINE)


def test_namespaces_in_metrics_are_bounded() -> None:
    """Beyond 1,000 they share a series, so that a cluster cannot grow the page without end."""
    registry = CollectorRegistry()
    metrics = ReloaderMetrics(registry, by_namespace=True, host="", answers=dict, queues=dict)
    for number in range(1500):
        metrics.record_rollout(ObjectKey("Deployment", f"n{number}", "web"), succeeded=True)
    metrics.record_rollout(ObjectKey("Deployment", "n7", "web"), succeeded=True)
    name = "reloader_reload_executed_total_by_namespace"
    counts = {
        sample.labels["namespace"]: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name
    }
    assert len(counts) == 1001
    assert counts["n7"] == 2
    assert counts[OTHER_NAMESPACES] == 500


def test_no_label_is_unbounded() -> None:
    """Labels are kinds, states, verdicts and resources, never objects."""
    _, labels = exposed()
    assert not {label for found in labels.values() for label in found} & _UNBOUNDED


def test_dashboard_is_up_to_date() -> None:
    """Who changes a panel runs tools/generate_dashboard.py."""
    assert DASHBOARD.read_text() == rendered_dashboard()


def test_dashboard_panels_do_not_overlap() -> None:
    """Each panel has its place in the grid, and its own number."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in cells, panel["title"]
                cells.add((x, y))


def expressions() -> dict[str, str]:
    """Return each expression of the dashboard by its panel, with Grafana's variables filled in."""
    return {
        f"{panel.title} {legend}": expression.replace("$__rate_interval", "5m")
        .replace("$namespace", ".*")
        .replace("$job", ".*")
        for row in ROWS.values()
        for panel in row
        for legend, expression in panel.expressions.items()
    }


def test_dashboard_expressions_are_valid(tmp_path: Path) -> None:
    """Checked as recording rules."""
    rules = [
        {"record": f"panel:{index}", "expr": expression}
        for index, expression in enumerate(expressions().values())
    ]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(path))


def test_dashboard_and_alerts_use_existing_metrics() -> None:
    """A renamed metric fails here."""
    names, labels = exposed()
    rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    texts = [*expressions().values(), *(rule["expr"] for rule in rules)]
    for text in texts:
        used = set(re.findall(r"\bhotmap_\w+", text))
        assert used <= names, text
        for metric, matchers in re.findall(r"\b(hotmap_\w+)\{([^}]*)\}", text):
            matched = set(re.findall(r"(\w+)=~?\"", matchers)) - {"namespace", "job"}
            assert matched <= labels.get(metric, matched), text


def test_every_metric_is_on_the_dashboard() -> None:
    """What is not worth a panel is not worth a metric."""
    names, _ = exposed()
    families = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in names}
    used = {
        re.sub(r"_bucket$", "", name)
        for text in expressions().values()
        for name in re.findall(r"\bhotmap_\w+", text)
    }
    assert families == used


@pytest.mark.parametrize("page", RUNBOOKS, ids=lambda page: page.stem)
def test_commands_of_runbook_parse(page: Path) -> None:
    """Each `hotmap …` line has a command that exists, with flags that it has."""
    for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("hotmap "):
                filled_in = line.partition("|")[0].replace("NAMESPACE", "shop")
                name, *words = shlex.split(filled_in)[1:]
                command = hotmap.commands[name]
                assert isinstance(command, click.Command)
                command.make_context(name, words)
