"""Tables of `hotmap status` on narrow terminals: names stay whole, so that they can be copied."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from hotmap.cli.printers import TableForm, print_proof, print_workloads
from hotmap.cli.status_output import create_console
from hotmap.core.status.status_document import (
    PodSummary,
    SourceSummary,
    StageSummary,
    StatusDocument,
    WorkloadSummary,
)

REASON = "waiting for 3 pods: files are updated at the kubelet's next sync, within 90s"
NAMESPACE = "payments-production"


def consumer(name: str) -> WorkloadSummary:
    stage = StageSummary("probable", "started 1s after the last change")
    pod = PodSummary(name=f"{name}-855f977846-qzpdt", ready=True, loaded=stage, projected=stage)
    source = SourceSummary("SecretProviderClass", f"{name}-config", True, ["start", "files"], 1.0)
    return WorkloadSummary(
        "Deployment", NAMESPACE, name, "unverified", REASON, sources=[source], pods=[pod]
    )


def printed(name: str, *, width: int) -> str:
    """The overview with namespaces, and the workload in full."""
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False, markup=False)
    one = consumer(name)
    document = StatusDocument(workloads=[one], counts={"unverified": 1}, behind=1, time=5.0)
    print_workloads(console, document, TableForm(namespaces=True))
    print_proof(console, one, now=5.0)
    return file.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("name", ["web", "payment-service-frontend-canary-v2-eu-west"])
def test_names_are_whole_at_any_width(name: str, width: int) -> None:
    """Not wrapped, and not cut with an ellipsis."""
    words = printed(name, width=width).split()
    assert f"deployment/{name}" in words
    assert NAMESPACE in words
    assert f"{name}-855f977846-qzpdt" in words
    assert f"secretproviderclass/{name}-config" in words
    assert not [word for word in words if "…" in word]


def test_workloads_of_a_namespace_stand_together() -> None:
    """In the document they are sorted by kind."""
    places = [("CronJob", "shop"), ("Deployment", "blog"), ("Deployment", "shop")]
    workloads = [WorkloadSummary(kind, place, "web", "current", "") for kind, place in places]
    document = StatusDocument(workloads=workloads, counts={"current": 3}, behind=0, time=5.0)
    file = io.StringIO()
    print_workloads(Console(file=file, width=80), document, TableForm(namespaces=True))
    rows = [line.split()[:2] for line in file.getvalue().splitlines()[1:4]]
    assert rows == [["blog", "deployment/web"], ["shop", "cronjob/web"], ["shop", "deployment/web"]]


def test_text_stands_beside_short_names() -> None:
    """As long as it has 24 columns."""
    lines = printed("web", width=80).splitlines()
    assert lines[0].split() == ["NAMESPACE", "WORKLOAD", "STATE", "REASON"]
    assert "waiting for 3 pods" in lines[1]


def test_text_stands_below_long_names() -> None:
    """Wrapped at words to the terminal, under its own head."""
    text = printed("payment-service-frontend-canary-v2-eu-west", width=60)
    assert text.splitlines()[:5] == [
        f"NAMESPACE            WORKLOAD{'STATE':>52}",
        "  REASON",
        f"{NAMESPACE}  deployment/payment-service-frontend-canary-v2-eu-west  unverified",
        "  waiting for 3 pods: files are updated at the kubelet's",
        "  next sync, within 90s",
    ]


@pytest.mark.parametrize(
    ("columns", "width"),
    [("40", 40), ("1", 20), ("0", 80), ("-5", 80), ("", 80), ("abc", 80), ("\u00b2", 80)],
)
def test_width_is_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    """But not so small that words are left out; 0 says that the width is not known."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "dumb")
    assert create_console("table").width == width
    assert create_console("wide").width > 1000
