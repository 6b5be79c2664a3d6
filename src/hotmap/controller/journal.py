"""Keeps the last decision on each consumer, in words, for `hotmap why`, status and log."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from hotmap.core.consumer import Consumer
from hotmap.core.objects import ObjectKey
from hotmap.core.plan import Plan

__all__ = ["Entry", "Journal"]

_log = logging.getLogger(__name__)


class Entry(NamedTuple):
    """One decision and what came of it."""

    consumer: ObjectKey
    #: POSIX seconds.
    at: float
    verdict: str
    reason: str
    actions: tuple[str, ...]
    #: The revision of the content that was present.
    revision: str
    #: What became of the actions: "done", or why not.
    outcome: str


class Journal:
    """The latest decision on each consumer."""

    def __init__(self, *, wall_clock: Callable[[], float]) -> None:
        self._wall_clock = wall_clock
        self._entries: dict[ObjectKey, Entry] = {}
        #: (verdict) → decisions and (act, outcome) → actions, since the start.
        self.decisions: Counter[str] = Counter()
        self.actions: Counter[tuple[str, str, str]] = Counter()

    def note(self, consumer: Consumer, plan: Plan, *, revision: str, outcome: str = "done") -> None:
        """Keep a decision; it is logged when it acts, warns or differs from the one before."""
        actions = tuple(action.act.value for action in plan.actions)
        entry = Entry(
            consumer.key,
            self._wall_clock(),
            plan.verdict.value,
            plan.reason,
            actions,
            revision,
            outcome,
        )
        before = self._entries.get(consumer.key)
        self._entries[consumer.key] = entry
        self.decisions[plan.verdict.value] += 1
        for act in actions:
            self.actions[consumer.key.kind, act, "done" if outcome == "done" else "failed"] += 1
        level = logging.WARNING if plan.warning or outcome != "done" else logging.INFO
        if not actions and before is not None and before.reason == plan.reason:
            level = logging.DEBUG
        _log.log(
            level,
            "%s%s",
            plan.reason,
            "" if outcome == "done" else f"; {outcome}",
            extra={"consumer": str(consumer.key), "change": revision},
        )

    def entry(self, key: ObjectKey) -> Entry | None:
        """Return the last decision on a consumer."""
        return self._entries.get(key)

    def entries(self) -> list[Entry]:
        """List the last decision on every consumer, newest last."""
        return sorted(self._entries.values(), key=lambda entry: entry.at)

    def forget(self, key: ObjectKey) -> None:
        """Drop a consumer that is gone."""
        self._entries.pop(key, None)
