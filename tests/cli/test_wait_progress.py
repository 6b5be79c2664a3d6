"""`hotmap status --wait` shows on a terminal what it waits for."""

from __future__ import annotations

import io
from typing import Any

import pytest
from tests.cli.test_status_wait import FakeController, controller, wait

from hotmap.cli.wait_progress import WaitProgress, create_wait_progress

__all__ = ["controller"]


def document(*workloads: tuple[str, str, str]) -> dict[str, Any]:
    """A status document with (name, state, reason) of Deployments."""
    return {
        "workloads": [
            {"kind": "Deployment", "namespace": "shop", "name": name, "state": state, "reason": why}
            for name, state, why in workloads
        ]
    }


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("terminal", [True, False])
async def test_waiting_shows_each_reason_once_on_a_terminal(
    terminal: bool, controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard error gets each reason when it changes, and nothing where it is not a terminal."""
    stderr = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", stderr)
    controller.shown = ["waiting", "waiting", "paused", "current"]
    assert await wait(controller) == 0
    shown = ["statefulset/db in shop: it is waiting", "statefulset/db in shop: it is paused"]
    assert stderr.getvalue().splitlines() == (shown if terminal else [])


def test_workload_that_becomes_current_is_shown() -> None:
    """One that was current from the start is not."""
    stream = io.StringIO()
    progress = WaitProgress(stream)
    progress.report(document(("a", "waiting", "2 pods"), ("b", "current", "up to date")))
    progress.report(document(("a", "current", "up to date"), ("b", "current", "up to date")))
    assert stream.getvalue() == ("deployment/a in shop: 2 pods\ndeployment/a in shop: up to date\n")


def test_many_workloads_are_few_lines() -> None:
    """Ten, and the number of the others."""
    stream = io.StringIO()
    many = [(f"w{number:03}", "waiting", "rollout") for number in range(200)]
    WaitProgress(stream).report(document(*many))
    lines = stream.getvalue().splitlines()
    assert (len(lines), lines[-1]) == (11, "… and 190 more")


def test_reason_of_others_does_not_control_the_terminal() -> None:
    """Control characters are escaped."""
    stream = io.StringIO()
    WaitProgress(stream).report(document(("a", "waiting", "\x1b[2J")))
    assert "\x1b" not in stream.getvalue()


def test_quiet_waits_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    """--quiet prints nothing, on a terminal either."""
    stderr = Terminal()
    monkeypatch.setattr("sys.stderr", stderr)
    create_wait_progress(quiet=True).report(document(("a", "waiting", "2 pods")))
    assert stderr.getvalue() == ""
