"""A load that one rule has begun confirms no content of another rule that came after it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.agent.agents import Agent, Volume, agent, eventually, run_program

from hotmap.agent.act.loads import Loads
from hotmap.agent.decide.facts import StartAttempt
from hotmap.agent.settings.probes import parse_probe
from hotmap.agent.settings.settings import Action, Rule

HUP = Action("signal", signal=1, target="name:app")
COUNT, LOG = parse_probe("file /run/loads"), parse_probe("log /run/log loaded")
CONTENT = parse_probe("metric http://127.0.0.1/ hash=7")


class Loop:
    """A clock that stands still, and the calls that are due at some time."""

    def __init__(self) -> None:
        self.time = 0.0
        self.calls: list[float] = []

    def now(self) -> float:
        return self.time

    def at(self, when: float, call: Any) -> Any:
        self.calls.append(when)
        return SimpleNamespace(cancel=lambda: self.calls.remove(when))

    def after(self, seconds: float, call: Any) -> None:
        self.at(self.time + seconds, call)


def rule(name: str, action: Action, *probes: Any) -> Rule:
    return Rule(name, ("*",), (), (action,), probes)


@pytest.mark.parametrize(
    ("first", "second", "since", "waits"),
    [
        ((HUP, COUNT), (HUP, COUNT), 11.0, True),
        ((HUP, COUNT), (HUP, COUNT), 9.0, False),
        ((HUP, COUNT), (HUP, LOG), 11.0, True),
        ((HUP,), (HUP, LOG), 11.0, True),
        ((HUP, COUNT), (HUP, CONTENT), 11.0, False),
        ((HUP, COUNT), (HUP,), 11.0, False),
        ((HUP, COUNT), (HUP._replace(target="name:other"), LOG), 11.0, False),
        ((Action("exec"), COUNT), (Action("exec"), COUNT), 11.0, True),
        ((Action("exec"), COUNT), (Action("exec"), LOG), 11.0, False),
    ],
    ids=[
        "content came after the load began", "content was there", "same process, another probe",
        "nothing confirms the first load", "no load confirms the probe", "no probe",
        "another process", "same probe", "nothing in common",
    ],
)  # fmt: skip
def test_rule_waits_for_a_load_that_would_confirm_its_probe(
    first: tuple[Any, ...], second: tuple[Any, ...], since: float, waits: bool
) -> None:
    """It began at 10 s, and takes 5 s at most."""
    loop: Any = Loop()
    rules = rule("first", *first), rule("second", *second)
    loads = Loads(loop, rules, 5.0)
    command = StartAttempt(rules[1], 0, (), since)
    assert not loads.postpone(command, lambda: None)
    loop.time = 10.0
    loads.begin("first", loop.now())
    loop.time = 12.0
    assert loads.postpone(command, lambda: None) == waits
    assert loop.calls == ([15.0] if waits else [])
    loads.end("first")
    detects = len(first) > 1
    assert loop.calls == ([12.0] if detects else [15.0]) * waits
    assert loads.postpone(command, lambda: None) == (waits and not detects)
    loads.begin("first", loop.now())
    loop.time = 17.0
    assert not loads.postpone(command, lambda: None)


def test_end_of_one_load_is_not_that_of_two() -> None:
    """Two rules have told a process at the same time; it may load once more for the second one."""
    loop: Any = Loop()
    rules = [rule(name, HUP, COUNT) for name in ("first", "second")]
    loads = Loads(loop, rules, 5.0)
    for each in rules:
        loads.begin(each.name, loop.now())
    loop.time = 1.0
    for each in rules:
        loads.end(each.name)
    loop.time = 2.0
    for each in rules:
        assert loads.postpone(StartAttempt(each, 0, (), 1.5), lambda: None)
    loop.time = 5.0
    for each in rules:
        assert not loads.postpone(StartAttempt(each, 0, (), 1.5), lambda: None)


def test_rule_waits_for_an_action_in_progress() -> None:
    """It may have begun a load just before the content came, and is not over by a time of its own.

    What it begins later reads that content. One that failed has begun none.
    """
    loop: Any = Loop()
    rules = rule("first", Action("exec"), COUNT), rule("second", HUP, COUNT)
    loads = Loads(loop, rules, 5.0)
    loads.begin_action("first", 0.0)
    loop.time = 20.0
    assert not loads.postpone(StartAttempt(rules[1], 0, (), 14.0), lambda: None)
    assert loads.postpone(StartAttempt(rules[1], 0, (), 19.0), lambda: None)
    assert loop.calls == [24.0]
    loads.cancel("first", 0.0)
    assert loop.calls == [20.0]
    assert not loads.postpone(StartAttempt(rules[1], 0, (), 19.0), lambda: None)


def test_second_load_of_a_rule_does_not_end_the_wait_for_its_first() -> None:
    """No probe shows when it ends, so both may be in progress; each has its own time."""
    loop: Any = Loop()
    rules = rule("first", HUP), rule("second", HUP, COUNT)
    loads = Loads(loop, rules, 5.0)
    loads.begin("first", 0.0)
    loop.time = 2.0
    loads.begin("first", 2.0)
    assert loads.postpone(StartAttempt(rules[1], 0, (), 1.0), lambda: None)
    assert loop.calls == [5.0]
    loop.time = 5.0
    assert not loads.postpone(StartAttempt(rules[1], 0, (), 1.0), lambda: None)


def test_probe_that_detects_no_change_ends_no_wait() -> None:
    """The process may show what it requires before it has loaded."""
    loop: Any = Loop()
    rules = rule("first", HUP, CONTENT), rule("second", HUP, COUNT)
    loads = Loads(loop, rules, 5.0)
    loads.begin("first", loop.now())
    loads.end("first")
    assert loads.postpone(StartAttempt(rules[1], 0, (), 0.5), lambda: None)


def test_attempt_that_waits_has_one_timer() -> None:
    """Content that changes again and again, while a process loads."""
    loop: Any = Loop()
    rules = rule("first", HUP, COUNT), rule("second", HUP, COUNT)
    loads = Loads(loop, rules, 5.0)
    loads.begin("first", 0.0)

    def resume() -> None:
        pass

    for number in range(1, 4):
        assert loads.postpone(StartAttempt(rules[1], 0, (), float(number)), resume)
    assert loop.calls == [5.0]


#: Loads both files at each HUP, which takes half a second, and refuses "bad".
APP = """
import pathlib, signal, sys, time
one, two, place = map(pathlib.Path, sys.argv[1:])
told = []
signal.signal(signal.SIGHUP, lambda *_: told.append(1))
(place / "pid").write_text(str(__import__("os").getpid()))
while True:
    time.sleep(0.01)
    if told:
        told.clear()
        texts = one.read_text(), two.read_text()
        (place / "reads").open("a").write(" ".join(texts) + "\\n")
        time.sleep(0.5)
        if "bad" not in texts:
            (place / "loads").open("a").write(" ".join(texts) + "\\n")
"""


def states(running: Agent) -> dict[str, str]:
    return {each["name"]: each["state"] for each in running.status()["rules"]}


SIGNAL = '{{ signal = "HUP", process = "{}" }}'
#: Ends after the load that it has begun, as many endpoints respond.
WAIT = """{{ exec = "sh -c 'kill -HUP $(cat {folder}/pid); sleep 1.5'" }}"""


@pytest.mark.parametrize(
    ("action", "probe"),
    [(SIGNAL, "file {}/loads"), (SIGNAL, "exec test -e {}/pid"), (WAIT, "file {}/loads")],
    ids=["signal", "another probe", "an action in progress"],
)
def test_load_of_one_rule_does_not_confirm_refused_content_of_another(
    tmp_path: Path, action: str, probe: str
) -> None:
    """It was edited while the process loaded what it was told before."""
    one, two = (Volume(tmp_path / name, text="a") for name in ("one", "two"))
    process = f"pidfile:{tmp_path}/pid"
    (tmp_path / "rules.toml").write_text(
        "".join(
            f'[[rule]]\nname = "{volume.path.name}"\nfiles = ["{volume.path}/*"]\n'
            f"actions = [{act.format(process, folder=tmp_path)}]\n"
            f'verify = ["{verify.format(tmp_path)}"]\n'
            for volume, act, verify in ((one, action, probe), (two, SIGNAL, "file {}/loads"))
        )
    )
    flags = (
        *("--dir", one, "--dir", two, "--rules", tmp_path / "rules.toml"),
        *("--settle", "0", "--verify-timeout", "2s"),
    )
    words = ["python3", "-c", APP, one.path / "text", two.path / "text", tmp_path]
    with run_program(list(map(str, words))), agent(tmp_path, *flags) as running:
        running.reaches("loaded")
        one.write(text="b")
        eventually(lambda: "b a\n" in (tmp_path / "reads").read_text())
        two.write(text="bad")
        eventually(lambda: states(running) == {"one": "loaded", "two": "failing"})
        two.write(text="c")
        running.reaches("loaded")
        assert (tmp_path / "loads").read_text().endswith("b c\n")
