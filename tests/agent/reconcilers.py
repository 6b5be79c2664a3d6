"""Reconcilers of the agent, and what happens to their content, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hotmap.agent.decide.facts import PASSED, REFUSED, AttemptFinished, CheckFinished, StartAttempt
from hotmap.agent.decide.progress import KeptAttempt
from hotmap.agent.decide.reconciler import Reconciler
from hotmap.agent.decide.snapshot import Snapshot
from hotmap.agent.settings.flags import parse_arguments
from hotmap.agent.settings.loader import load_settings

if TYPE_CHECKING:
    from hotmap.agent.decide.reconciler import Command

#: The key of digests.
_KEY = b"0123456789abcdef"


def reconciler(
    *flags: str,
    attempts: dict[str, KeptAttempt] | None = None,
    random: Callable[[], float] = lambda: 0.0,
) -> Reconciler:
    """Make one for the directory /d; by default delays are their maximum."""
    settings = load_settings(parse_arguments(["--dir", "/d", *flags]))
    return Reconciler(settings, _KEY, attempts or {}, random)


def snapshot(digest: str) -> Snapshot:
    """Make a reading of one file."""
    contents = {"/d": {"file": digest.encode()}}
    return Snapshot(contents, {"/d/file": digest}, {"/d": digest}, digest, {})


def pass_check(
    decided: Reconciler, digest: str, *, read: float, passed: float
) -> Sequence[Command]:
    """Have content read, and pass its check; returns the commands that follow."""
    decided.record(snapshot(digest), read)
    decided.decide(read)
    decided.record(CheckFinished(snapshot(digest), PASSED), passed)
    return decided.decide(passed)


def refuse(decided: Reconciler, digest: str, *, read: float, refused: float) -> None:
    """Have content read, and fail its check."""
    decided.record(snapshot(digest), read)
    decided.decide(read)
    decided.record(CheckFinished(snapshot(digest), REFUSED, "syntax"), refused)


def finish(decided: Reconciler, now: float, *, error: str = "") -> None:
    """End the attempt of the default rule."""
    decided.record(AttemptFinished("default", error, 0, 1234.0), now)


def load(decided: Reconciler, digest: str, *, read: float, passed: float, done: float) -> None:
    """Have content read, pass its check, and be loaded."""
    pass_check(decided, digest, read=read, passed=passed)
    finish(decided, done)


def only_attempt(commands: Sequence[Command]) -> StartAttempt:
    """Return the attempt that is the only command."""
    (command,) = commands
    assert isinstance(command, StartAttempt)
    return command
