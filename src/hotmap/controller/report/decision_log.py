"""Keeps the last decision on each consumer, in words, for `hotmap why`, status and log."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from hotmap.core.decide.conflicts import WriterConflict
from hotmap.core.decide.decide import Decision
from hotmap.core.decide.plan import ActionType, Plan
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.status.consumer import Last

__all__ = ["DecisionLog", "Entry"]

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
    #: The resourceVersions that it was made from.
    versions: tuple[str, ...]
    #: Whether a person has to do something, or something has to happen, before it goes on; and
    #: whether nothing but a report came of it.
    held: bool = False
    waits: bool = False
    only_reported: bool = False

    @property
    def last(self) -> Last:
        """What it leaves behind, for how its consumer stands."""
        failed = self.outcome != "done"
        reason = f"{self.reason}; {self.outcome}" if failed else self.reason
        return Last(reason, failed, self.held, self.waits, self.only_reported)

    def repeats(self, other: Entry) -> bool:
        """Tell whether this says the same of the same state as an earlier decision."""
        mine = (self.reason, self.outcome, self.versions)
        return mine == (other.reason, other.outcome, other.versions)


#: Decisions kept per consumer.
_KEPT = 5


class DecisionLog:
    """The latest decisions on each consumer, oldest first; one that repeats is kept once.

    One that only confirms is kept where the decision before it was not the end of the matter.
    """

    def __init__(self, *, wall_clock: Callable[[], float]) -> None:
        self._wall_clock = wall_clock
        self._entries: dict[ObjectKey, list[Entry]] = {}
        #: (verdict) → decisions and (kind, act, outcome) → actions, since the start.
        self.decisions: Counter[str] = Counter()
        self.actions: Counter[tuple[str, str, str]] = Counter()
        #: Writes of others into pod templates, by kind, since the start.
        self.writer_conflicts: Counter[str] = Counter()

    def note(self, decision: Decision, *, outcome: str = "done") -> bool:
        """Keep a decision and log it; False when it only confirms or repeats."""
        consumer, plan = decision.snapshot.consumer, decision.plan
        entry = Entry(
            consumer.key,
            self._wall_clock(),
            plan.verdict.value,
            plan.reason,
            tuple(action.type.value for action in plan.actions),
            decision.snapshot.revision,
            outcome,
            decision.snapshot.versions,
            held=plan.warning,
            waits=not plan.settles,
            only_reported=any(action.type is ActionType.NOTIFY for action in plan.actions),
        )
        self.decisions[entry.verdict] += 1
        kept = self._entries.setdefault(consumer.key, [])
        if kept and (entry.repeats(kept[-1]) or (plan.confirms and kept[-1].last.is_over)):
            return False
        for act in entry.actions:
            self.actions[consumer.key.kind, act, "done" if outcome == "done" else "failed"] += 1
        kept.append(entry)
        del kept[:-_KEPT]
        _log.log(
            _level(plan, outcome),
            "%s%s",
            entry.reason,
            "" if outcome == "done" else f"; {outcome}",
            extra={"consumer": str(consumer.key), "change": entry.revision},
        )
        return True

    def note_conflict(self, consumer: Consumer, found: WriterConflict) -> None:
        """Count and log what somebody else wrote into a consumer's pod template."""
        self.writer_conflicts[found.kind.value] += 1
        _log.warning(found.reason, extra={"consumer": str(consumer.key), "change": ""})

    def latest(self, key: ObjectKey) -> Entry | None:
        """Return the last decision on a consumer that said something."""
        kept = self._entries.get(key)
        return kept[-1] if kept else None

    def __iter__(self) -> Iterator[ObjectKey]:
        """Walk over the consumers that something was decided on, in no order."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Count the consumers that something was decided on."""
        return len(self._entries)

    def of(self, key: ObjectKey) -> tuple[Entry, ...]:
        """Return the kept decisions on a consumer, oldest first."""
        return tuple(self._entries.get(key, ()))

    def history(self) -> dict[ObjectKey, tuple[Entry, ...]]:
        """Return the kept decisions on every consumer."""
        return {key: tuple(kept) for key, kept in sorted(self._entries.items())}

    def forget(self, key: ObjectKey) -> None:
        """Drop a consumer that is gone."""
        self._entries.pop(key, None)


def _level(plan: Plan, outcome: str) -> int:
    """Choose how loud a decision is; that nothing has changed says nobody much after a restart."""
    if plan.warning or outcome != "done":
        return logging.WARNING
    return logging.DEBUG if plan.confirms else logging.INFO
