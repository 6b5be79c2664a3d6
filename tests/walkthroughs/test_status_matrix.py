"""No cell says current when a process serves old content.

{what goes wrong} × {file, env, staged} × {status, --wait, Event, metric}, each cell a test. All
workloads run and are edited at once, and the processes themselves are asked what they have loaded.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest
from tests.walkthroughs.backend import Backend
from tests.walkthroughs.cluster import ClusterBackend
from tests.walkthroughs.local import LocalBackend
from tests.walkthroughs.status_matrix import (
    TROUBLES,
    USES,
    WAIT_SECONDS,
    Cell,
    Observations,
    observe,
)

#: Sixty processes start at once, which a busy machine takes its time for.
pytestmark = pytest.mark.timeout(600)

CURRENT, NOT_CURRENT, CANNOT_TELL = 0, 1, 2

BACKENDS = [
    pytest.param("local", marks=pytest.mark.slow),
    pytest.param("cluster", marks=pytest.mark.cluster),
]

#: States of a workload in which nothing is known to have gone wrong for good.
_UNFINISHED = {"waiting", "unverified", "failed", "unknown"}


@pytest.fixture(scope="module", params=BACKENDS)
def seen(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Observations]:
    """Observe the matrix once for all its cells."""
    namespace = f"matrix-{uuid.uuid4().hex[:8]}"
    if request.param == "cluster":
        backend: Backend = ClusterBackend(request.getfixturevalue("real_cluster"), namespace)
    else:
        plane = request.getfixturevalue("plane")
        backend = LocalBackend(plane, namespace, sync_limit=100.0)
    yield asyncio.run(_observe(backend, tmp_path_factory))


async def _observe(backend: Backend, folders: pytest.TempPathFactory) -> Observations:
    async with backend:  # type: ignore[attr-defined]
        return await observe(backend, folders.mktemp("matrix"))


CELLS = [
    pytest.param(Cell(trouble, use), id=f"{trouble}-{use}") for trouble in TROUBLES for use in USES
]

#: The state in which each ends. An environment that keeps the application from starting shows as
#: a container that does not run. Only its liveness probe restarts a stopped agent.
STATES = {
    "no trouble": {"current"},
    "agent refuses": {"refused"},
    "checker missing": {"failed"},
    "load fails": {"failed"},
    "agent killed": {"current"},
    "agent stopped": {"unknown", "current"},
    "application not ready": {"waiting"},
    "old agent": {"unknown"},
    "no agent": {"unknown"},
}
WAITS = {
    "current": {CURRENT},
    "refused": {NOT_CURRENT},
    "failed": {NOT_CURRENT},
    "waiting": {NOT_CURRENT},
    "unknown": {CANNOT_TELL},
}
#: Troubles that end by themselves, or by the liveness probe of the agent.
HEALING = ("no trouble", "agent killed", "agent stopped")
WARNINGS = {"agent refuses": {"Refused"}, "checker missing": {"LoadFailed"},
            "load fails": {"LoadFailed"}}  # fmt: skip


def states(cell: Cell) -> set[str]:
    if cell == Cell("load fails", "env"):
        return _UNFINISHED
    return STATES[cell.trouble]


def test_nothing_is_current_that_serves_old_content(seen: Observations) -> None:
    """At no moment of the whole run, in overview and detail."""
    assert not seen.false_current


@pytest.mark.parametrize("cell", CELLS)
def test_status_is_that_of_the_process(seen: Observations, cell: Cell) -> None:
    found = seen.cells[cell]
    assert found.status["state"] in states(cell), (found.status, found.served)
    if found.status["state"] == "current":
        assert found.served == cell.new


@pytest.mark.parametrize("cell", CELLS)
def test_wait_ends_with_the_outcome(seen: Observations, cell: Cell) -> None:
    """0 only where the process has the content; at once where a user has to act."""
    found = seen.cells[cell]
    allowed = {status for state in states(cell) for status in WAITS.get(state, {2})}
    if cell.trouble == "agent stopped" and found.wait.document.get("state") in _UNFINISHED:
        allowed.add(NOT_CURRENT)  # its time was over while the agent started again
    assert found.wait.status in allowed, found.wait.text
    if found.wait.status == CURRENT:
        assert found.served_after_wait == cell.new, found.wait.text
    if cell.trouble == "agent refuses":
        assert found.status["actionRequired"]


@pytest.mark.parametrize("cell", CELLS)
def test_wait_ends_early_only_if_current_or_a_user_has_to_act(
    seen: Observations, cell: Cell
) -> None:
    """What ends by itself is waited for until the time is over."""
    found = seen.cells[cell]
    if found.wait.seconds < WAIT_SECONDS:
        document = found.wait.document
        reached = document["state"] in ("current", "delivered")
        assert reached or document["actionRequired"], found.wait.text
    if cell.trouble in HEALING:
        assert not found.wait.document["actionRequired"], found.wait.text


@pytest.mark.parametrize("cell", CELLS)
def test_event_says_what_went_wrong(seen: Observations, cell: Cell) -> None:
    """A Warning where content was refused or not loaded, and none where nothing is known."""
    found = seen.cells[cell].warnings & {"Refused", "LoadFailed"}
    if cell == Cell("load fails", "env"):
        return  # its container does not run, which Kubernetes reports
    assert found == WARNINGS.get(cell.trouble, set()), seen.cells[cell].status["reason"]


@pytest.mark.parametrize("cell", CELLS)
def test_metric_counts_pods_by_what_they_serve(seen: Observations, cell: Cell) -> None:
    """Each pod in one state; never as current, nor told, where its process has old content."""
    found = seen.cells[cell]
    assert sum(seen.metric.values()) <= len(seen.cells)
    for pod in found.status["pods"]:
        if found.served != cell.new:
            assert pod["state"] not in ("current", "told")
        assert seen.metric[pod["state"]] > 0 or cell.trouble in ("agent stopped", "load fails")
    good = sum(1 for each, item in seen.cells.items() if item.served == each.new)
    assert seen.metric["current"] + seen.metric["told"] <= good
