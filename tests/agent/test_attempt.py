"""An attempt says whether it told the process, or had no need to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.agent.agents import eventually, run_program

from hotmap.agent.act.attempt import Attempt, ContentHistory
from hotmap.agent.decide.facts import AttemptFinished, StartAttempt
from hotmap.agent.runtime.clock import since_boot
from hotmap.agent.settings.flags import parse_arguments
from hotmap.agent.settings.loader import load_settings


@pytest.fixture
def pidfile(tmp_path: Path) -> Iterator[Path]:
    """A pid file of a process that blocks HUP."""
    blocks = (
        "import pathlib, signal, time; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP]); "
        f"pathlib.Path({str(tmp_path / 'ready')!r}).touch(); time.sleep(600)"
    )
    words = [sys.executable, "-S", "-c", blocks]
    with run_program(words) as process:
        eventually((tmp_path / "ready").exists)
        path = tmp_path / "pid"
        path.write_text(str(process.pid))
        yield path


@pytest.mark.parametrize(
    ("since_start", "position", "by_itself"),
    [(-60.0, 0, True), (60.0, 0, False), (-60.0, 1, False)],
    ids=["process is newer", "process is older", "an earlier attempt acted"],
)
def test_attempt_that_spares_a_newer_process_had_nothing_to_do(
    tmp_path: Path, pidfile: Path, since_start: float, position: int, by_itself: bool
) -> None:
    """Also where the process appeared only after the attempt began."""
    rules = tmp_path / "rules.toml"
    touch = f'{{ touch = "{tmp_path}/touched" }}'
    hup = f'{{ signal = "HUP", process = "pidfile:{pidfile}" }}'
    rules.write_text(f"[[rule]]\nactions = [{touch}, {hup}]\n")
    flags = ["--dir", "/etc/app", "--signal", "HUP", "--process", f"pidfile:{pidfile}"]
    if position:
        flags = ["--dir", "/etc/app", "--rules", str(rules)]
    settings = load_settings(parse_arguments(flags))
    desired_since = since_boot() + since_start
    context: Any = SimpleNamespace(
        settings=settings,
        loop=SimpleNamespace(now=since_boot),
        application=SimpleNamespace(process=lambda: None),
        loads=SimpleNamespace(begin=lambda *_: None),
    )
    command = StartAttempt(settings.rules[0], position, (), desired_since)
    results: list[AttemptFinished] = []
    history = ContentHistory(desired_since, 1.0, repeats=True)
    Attempt(command, context, history, results.append).start()
    assert [(result.error, result.by_itself) for result in results] == [("", by_itself)]


def test_load_counts_from_the_action_that_told_the_process(pidfile: Path, tmp_path: Path) -> None:
    """Also where a later action fails: the process loads nevertheless."""
    rules = tmp_path / "rules.toml"
    hup = f'{{ signal = "HUP", process = "pidfile:{pidfile}" }}'
    lost = f'{{ signal = "HUP", process = "pidfile:{tmp_path}/lost" }}'
    rules.write_text(f"[[rule]]\nactions = [{hup}, {lost}]\n")
    settings = load_settings(parse_arguments(["--dir", "/etc/app", "--rules", str(rules)]))
    begun: list[float] = []
    context: Any = SimpleNamespace(
        settings=settings,
        loop=SimpleNamespace(now=since_boot),
        application=SimpleNamespace(process=lambda: None),
        loads=SimpleNamespace(begin=lambda _, since: begun.append(since)),
    )
    before = since_boot()
    command = StartAttempt(settings.rules[0], 0, (), before + 60.0)
    results: list[AttemptFinished] = []
    history = ContentHistory(command.desired_since, 1.0, repeats=True)
    Attempt(command, context, history, results.append).start()
    assert results[0].error
    assert len(begun) == 1
    assert before <= begun[0] <= since_boot()
