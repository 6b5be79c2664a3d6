"""Helm, programs in Go and the Python clients work with a local plane."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cluster.build import Programs
from tests.conformance.clients import install
from tests.conformance.conftest import run_cluster
from tests.support.requires import requires

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.conftest import Kubectl

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

CHART = Path(__file__).with_name("clients") / "chart"
PYTHON_CLIENTS = Path(__file__).with_name("clients") / "python_clients.py"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """A cluster of its own, whose node runs pods; its kubeconfig is `state/kubeconfig`."""
    yield from run_cluster(tmp_path_factory.mktemp("clients"), "node")


def run(served: Kubectl, *command: str) -> str:
    """Run a program with the cluster's kubeconfig; return what it printed."""
    environment = {
        **os.environ,
        "KUBECONFIG": str(served.directory / "state" / "kubeconfig"),
        "HOME": str(served.directory),
    }
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


def find(program: str) -> str:
    """Return a program of the test bed; skip the test where it is not built."""
    programs = Programs()
    missing = program in programs.missing([program])
    requires(program, available=not missing, reason=f"{program} is not built")
    return str(programs.path(program))


def test_helm_installs_upgrades_and_rolls_back(served: Kubectl) -> None:
    helm = find("helm")

    def color() -> str:
        return served.run("get", "configmap", "app", "-o", "jsonpath={.data.color}").output

    run(served, helm, "install", "app", str(CHART), "--wait", "--timeout=120s")
    assert color() == "red"
    assert served.run("get", "deployment", "app", "-o", "jsonpath={.status.readyReplicas}") == (
        0,
        "1",
    )
    run(served, helm, "upgrade", "app", str(CHART), "--set=color=blue", "--wait", "--timeout=120s")
    assert color() == "blue"
    hook = served.run("get", "configmap", "app-hook", "-o", "jsonpath={.data.revision}")
    assert hook == (0, "2")
    run(served, helm, "rollback", "app", "1", "--wait", "--timeout=120s")
    assert color() == "red"
    listed = json.loads(run(served, helm, "list", "--output=json"))
    assert [(each["name"], each["revision"], each["status"]) for each in listed] == [
        ("app", "3", "deployed")
    ]
    history = json.loads(run(served, helm, "history", "app", "--output=json"))
    assert [each["revision"] for each in history] == [1, 2, 3]
    run(served, helm, "uninstall", "app", "--wait", "--timeout=120s")
    assert served.run("get", "configmap", "app").status == 1
    assert json.loads(run(served, helm, "list", "--output=json")) == []


def test_go_clients_work(served: Kubectl) -> None:
    """client-go in protobuf: typed, informer, apply, election; controller-runtime's envtest."""
    lines = run(served, find("clients")).splitlines()
    assert "ok envtest stops" in lines[-2:]  # the manager may end before the program does
    assert all(line.startswith("ok ") for line in lines)


@pytest.mark.parametrize("client", ["kubernetes", "kr8s", "lightkube", "kopf"])
def test_python_client_works(served: Kubectl, client: str) -> None:
    reason = "run python -m tests.conformance.clients.install"
    requires("python-clients", available=install.is_installed(), reason=reason)
    lines = run(served, str(install.python()), str(PYTHON_CLIENTS), client).splitlines()
    assert len(lines) >= 3
    assert all(line.startswith("ok ") for line in lines)
