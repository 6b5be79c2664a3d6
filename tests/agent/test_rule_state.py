"""What a rule's actions say about the process that loads its files."""

from __future__ import annotations

import pytest
from tests.agent.reconcilers import finish, pass_check, reconciler

NAMED = ("--process", "name:app")
SIGNAL, TERM = ("--signal", "HUP", *NAMED), ("--restart", "term", *NAMED)
URL, ALL = ("--url", "http://127.0.0.1:1/"), ("--restart", "all-containers")
CHILD = ("--restart", "supervised", "--", "app")


@pytest.mark.parametrize(
    ("flags", "signals_only", "restarts_process", "restarts"),
    [
        pytest.param(SIGNAL, True, False, False, id="signal"),
        pytest.param((*SIGNAL, "--exec", "true"), False, False, False, id="signal and command"),
        pytest.param(URL, False, False, False, id="endpoint"),
        pytest.param(TERM, False, True, True, id="restart of a process"),
        pytest.param((*TERM, "--exec", "true"), False, False, True, id="restart and command"),
        pytest.param(ALL, False, False, True, id="restart of all containers"),
        pytest.param(CHILD, False, True, True, id="supervised restart"),
    ],
)
def test_rule_knows_the_process_if_its_actions_are_about_one(
    flags: tuple[str, ...], signals_only: bool, restarts_process: bool, restarts: bool
) -> None:
    (state, *_) = reconciler(*flags).rules
    found = (state.signals_only, state.restarts_process, state.restarts)
    assert found == (signals_only, restarts_process, restarts)
    assert state.knows_process is (signals_only or restarts_process)


@pytest.mark.parametrize(
    ("flags", "loads"),
    [
        pytest.param(CHILD, True, id="it is restarted"),
        pytest.param(("--signal", "HUP", "--", "app"), True, id="it is signalled"),
        pytest.param(("--exec", "true", "--", "app"), True, id="no process is named"),
        pytest.param((*SIGNAL, "--", "app"), False, id="another process is signalled"),
        pytest.param((*ALL, "--", "app"), False, id="other containers restart too"),
    ],
)
def test_start_of_the_application_loads_what_is_about_it(
    flags: tuple[str, ...], loads: bool
) -> None:
    decided = reconciler(*flags)
    pass_check(decided, "a", read=1.0, passed=1.0)
    assert (decided.rules[0].progress.loaded is not None) is loads


@pytest.mark.parametrize(
    ("flags", "state"),
    [
        pytest.param(SIGNAL, "told", id="signal"),
        pytest.param((*SIGNAL, "--verify", "exec true"), "loaded", id="signal and probe"),
        pytest.param(("--exec", "true"), "told", id="command"),
        pytest.param(URL, "loaded", id="endpoint"),
        pytest.param((*SIGNAL, *URL), "told", id="signal, and the endpoint of another process"),
        pytest.param(TERM, "loaded", id="restart of a process"),
        pytest.param(ALL, "told", id="restart of all containers"),
    ],
)
def test_load_is_confirmed_by_what_the_process_answers(flags: tuple[str, ...], state: str) -> None:
    """That a signal or a command arrived is not an answer."""
    decided = reconciler(*flags)
    pass_check(decided, "a", read=1.0, passed=1.0)
    finish(decided, 2.0)
    assert decided.rules[0].state == state
