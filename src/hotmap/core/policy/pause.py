"""Reads how a Deployment is paused as Reloader pauses one.

A change pauses it (`spec.paused`, and an annotation with the time), and it is resumed when the
pause period has passed since then. Everything is read from the Deployment itself, so a controller
that starts later, or another leader, resumes it as well; Reloader keeps the time in memory only.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from hotmap.core.model.consumer import Consumer
from hotmap.core.model.source import parse_time
from hotmap.core.policy.lint import Problem
from hotmap.core.policy.policy import Pause
from hotmap.core.reloader.annotations import Dialect, DialectSettings
from hotmap.core.text import quote_short

__all__ = ["pause_problems", "read_pause"]

#: Characters of the longest time with an offset.
_LONGEST_TIME = 40


def read_pause(consumer: Consumer, dialect: Dialect, settings: DialectSettings) -> Pause | None:
    """Return how a Deployment is paused; None where changes do not pause it, and none is paused.

    One that another writer has paused is never resumed: it has no annotation, or another field
    manager owns `spec.paused`. In shadow mode Reloader resumes its own.
    """
    if consumer.key.kind != "Deployment" or consumer.argo or settings.compares:
        return None
    name = settings.names.paused_at
    text = consumer.annotations.get(name)
    own = settings.pauses
    period = dialect.pause or 0.0
    if text is None or (consumer.paused and consumer.paused_by_other):
        return Pause(name, period, own=True) if own and period else None
    if consumer.paused:
        return Pause(name, period, own=own, paused_at=_read_time(text) or 0.0)
    return Pause(name, period, own=True, ended_early=True) if own else None


def pause_problems(consumer: Consumer, pause: Pause | None) -> Iterable[Problem]:
    """Return why the time of a pause cannot be read; the pause counts as over then."""
    if pause is None or pause.paused_at is None:
        return
    text = consumer.annotations[pause.annotation]
    if _read_time(text) is None:
        message = f"invalid time {quote_short(text)}: expected a time such as 2026-11-21T20:00:00Z"
        yield Problem(
            pause.annotation, f"annotation {pause.annotation}: {message}; resuming the Deployment"
        )


def _read_time(text: str) -> float | None:
    """Read a time as Go's time.RFC3339, which Reloader writes in its own time zone."""
    if (at := parse_time(text)) is not None or len(text) > _LONGEST_TIME:
        return at
    try:
        time = datetime.fromisoformat(text)
        return time.timestamp() if time.tzinfo else None
    except (ValueError, OverflowError, OSError):
        return None
