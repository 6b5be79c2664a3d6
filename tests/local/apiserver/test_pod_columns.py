"""What `kubectl get pods` shows: READY, STATUS and RESTARTS, as upstream's printPod makes them."""

from __future__ import annotations

from typing import Any

import pytest

from hotmap.local.apiserver.kinds.core.pod import PODS
from hotmap.local.apiserver.tables import table

RUNNING: dict[str, Any] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
DONE: dict[str, Any] = {"terminated": {"exitCode": 0, "reason": "Completed"}}
FAILED: dict[str, Any] = {"terminated": {"exitCode": 1, "reason": "Error"}}
CRASHING: dict[str, Any] = {"waiting": {"reason": "CrashLoopBackOff"}}
WAITING: dict[str, Any] = {"waiting": {"reason": "PodInitializing"}}


def up(state: dict[str, Any], *, restarts: int = 0, started: bool = True) -> dict[str, Any]:
    """The status of a container, ready if it runs."""
    ready = started and "running" in state
    return {"state": state, "ready": ready, "started": started, "restartCount": restarts}


@pytest.mark.parametrize(
    ("init", "containers", "phase", "cells"),
    [
        pytest.param({}, {"a": up(RUNNING)}, "Running", ["1/1", "Running", "0"], id="one"),
        pytest.param(
            {"init": up(DONE, restarts=3)},
            {"a": up(RUNNING, restarts=1)},
            "Running",
            ["1/1", "Running", "1"],
            id="initialized: an init container's restarts are forgotten",
        ),
        pytest.param(
            {"init": up(FAILED, restarts=2)},
            {"a": up(WAITING)},
            "Pending",
            ["0/1", "Init:Error", "2"],
            id="an init container failed",
        ),
        pytest.param(
            {"init": up(DONE), "second": up(RUNNING, started=False)},
            {"a": up(WAITING)},
            "Pending",
            ["0/1", "Init:1/2", "0"],
            id="the second init container runs",
        ),
        pytest.param(
            {"sidecar": up(RUNNING, restarts=2)},
            {"a": up(RUNNING)},
            "Running",
            ["2/2", "Running", "2"],
            id="a native sidecar counts",
        ),
        pytest.param(
            {"sidecar": up(RUNNING, started=False)},
            {"a": up(WAITING)},
            "Pending",
            ["0/2", "Init:0/1", "0"],
            id="a native sidecar starts",
        ),
        pytest.param(
            {"sidecar": up(CRASHING, started=False, restarts=4)},
            {"a": up(RUNNING)},
            "Running",
            ["1/2", "Init:CrashLoopBackOff", "4"],
            id="a native sidecar crashes",
        ),
    ],
)
def test_pod_columns_count_started_native_sidecars(
    init: dict[str, Any], containers: dict[str, Any], phase: str, cells: list[str]
) -> None:
    """Native sidecars, named so here, count as containers once they have started."""
    pod = {
        "metadata": {"name": "p"},
        "spec": {
            "initContainers": [
                {"name": name, **({"restartPolicy": "Always"} if name == "sidecar" else {})}
                for name in init
            ],
            "containers": [{"name": name} for name in containers],
        },
        "status": {
            "phase": phase,
            "initContainerStatuses": [{"name": name, **status} for name, status in init.items()],
            "containerStatuses": [{"name": name, **status} for name, status in containers.items()],
        },
    }
    (row,) = table(PODS, [pod], now=0.0, include="None")["rows"]
    assert row["cells"][1:4] == cells


INITIALIZED = {"type": "Initialized", "status": "True"}


@pytest.mark.parametrize(
    ("pod", "status"),
    [
        pytest.param(
            {
                "initContainerStatuses": [{"name": "sidecar", **up(FAILED)}],
                "containerStatuses": [{"name": "a", **up(DONE)}],
                "conditions": [INITIALIZED],
            },
            "Completed",
            id="a sidecar is killed at the end",
        ),
        pytest.param(
            {
                "initContainerStatuses": [{"name": "sidecar", **up(CRASHING, started=False)}],
                "containerStatuses": [{"name": "a", **up(RUNNING)}],
                "conditions": [INITIALIZED],
            },
            "Init:CrashLoopBackOff",
            id="a sidecar crashes beside what runs",
        ),
        pytest.param(
            {"containerStatuses": [{"name": "a", **up(DONE)}, {"name": "b", **up(FAILED)}]},
            "Error",
            id="one of two has failed",
        ),
        pytest.param(
            {
                "conditions": [
                    {"type": "PodScheduled", "reason": "SchedulingGated"} | {"status": ""}
                ]
            },
            "SchedulingGated",
            id="a scheduling gate is closed",
        ),
    ],
)
def test_status_beyond_the_phase(pod: dict[str, Any], status: str) -> None:
    spec = {"initContainers": [{"name": "sidecar", "restartPolicy": "Always"}], "containers": []}
    obj = {"metadata": {"name": "p"}, "spec": spec, "status": {"phase": "Running", **pod}}
    (row,) = table(PODS, [obj], now=0.0, include="None")["rows"]
    assert row["cells"][2] == status


def test_finished_pod_that_is_deleted_shows_how_it_ended() -> None:
    """And readiness gates are counted."""
    obj = {
        "metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "containers": [],
            "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}],
        },
        "status": {"phase": "Succeeded", "conditions": [{"type": "a", "status": "True"}]},
    }
    (row,) = table(PODS, [obj], now=0.0, include="None")["rows"]
    assert (row["cells"][2], row["cells"][-1]) == ("Succeeded", "1/2")
