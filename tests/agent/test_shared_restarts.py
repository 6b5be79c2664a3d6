"""Rules that restart the same application: when a restart for one is one for the other."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.agent.agents import Volume, agent, eventually
from tests.agent.reconcilers import load, only_attempt, pass_check, reconciler

from hotmap.agent.act.actions import is_restarted

#: Restart the application for either directory; the first rule prepares something before.
PREPARED = """
[[rule]]
name = "prepared"
directories = ["{0}/one"]
actions = [
  {{ exec = "sh -c 'sleep 0.5; cp {0}/one/text {0}/prepared'" }},
  {{ restart = "supervised" }},
]
[[rule]]
name = "other"
directories = ["{0}/two"]
actions = [{{ restart = "supervised" }}]
"""


def test_application_that_started_before_an_action_has_not_read_its_result(tmp_path: Path) -> None:
    """The other rule restarted it while the command before the restart was running."""
    one, two = Volume(tmp_path / "one", text="1"), Volume(tmp_path / "two", text="1")
    (tmp_path / "rules").write_text(PREPARED.format(tmp_path))
    (tmp_path / "prepared").write_text("1")
    flags = ("--dir", one, "--dir", two, "--rules", tmp_path / "rules", "--settle", "100ms")
    program = f"cat {tmp_path}/prepared >> {tmp_path}/loaded; exec sleep 600"

    def loaded() -> str:
        path = tmp_path / "loaded"
        return path.read_text() if path.exists() else ""

    with agent(tmp_path, *flags, "--", "sh", "-c", program) as running:
        running.reaches("loaded")
        eventually(lambda: loaded() == "1")
        one.write(text="2")
        two.write(text="2")
        eventually(lambda: running.rule("prepared")["loads"] == 1)
        running.reaches("loaded")
        eventually(lambda: loaded() == "112")


def started(at: float) -> Any:
    """Make the context of an application that started then."""
    return SimpleNamespace(application=SimpleNamespace(is_current=lambda since: at > since))


@pytest.mark.parametrize(
    ("probe", "is_shared"), [("exec true", True), ("output date", False)], ids=["state", "change"]
)
def test_restart_is_shared_unless_a_probe_detects_a_change(probe: str, is_shared: bool) -> None:
    """Such a probe is read after the restart for the other rule, and does not change then."""
    decided = reconciler("--verify", probe, "--", "app")
    load(decided, "a", read=1.0, passed=1.0, done=1.0)
    attempt = only_attempt(pass_check(decided, "b", read=4.0, passed=4.0))
    assert is_restarted(attempt, started(5.0)) is is_shared


def test_restart_that_no_probe_confirms_is_repeated(tmp_path: Path) -> None:
    """The application started after the content was there, and another start may help."""
    volume = Volume(tmp_path / "volume", text="1")
    probe = ("--verify", "exec false", "--verify-timeout", "100ms", "--action-timeout", "300ms")
    with agent(tmp_path, "--dir", volume, *probe, "--", "sleep", "600") as running:
        running.reaches("loaded")
        volume.write(text="2")
        eventually(lambda: running.status()["application"]["starts"] >= 3)


def test_application_that_started_before_the_last_update_is_restarted() -> None:
    """Other content may have been mounted when it started."""
    decided = reconciler("--", "app")
    load(decided, "a", read=1.0, passed=1.0, done=1.0)
    attempt = only_attempt(pass_check(decided, "b", read=4.0, passed=4.0))
    assert attempt.mounted_since == 4.0
    assert is_restarted(attempt, started(5.0))
    assert not is_restarted(attempt._replace(mounted_since=6.0), started(5.0))
    assert not is_restarted(attempt, started(3.0))
