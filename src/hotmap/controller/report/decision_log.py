"""The latest decisions on each consumer, for `hotmap why`, status and log."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from hotmap.core.decide.assessment import CHANGED, Verdict
from hotmap.core.decide.conflicts import WriterConflict
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.plan import ActionType, Plan
from hotmap.core.model.objects import ObjectKey
from hotmap.core.status.consumer import LastDecision
from hotmap.core.text import printable

__all__ = ["DecisionEntry", "DecisionLog"]

_log = logging.getLogger(__name__)


class DecisionEntry(NamedTuple):
    """One decision and its outcome."""

    consumer: ObjectKey
    #: POSIX seconds of the API server.
    at: float
    verdict: str
    reason: str
    actions: tuple[str, ...]
    #: The revision of the content at that time.
    revision: str
    #: "done", or why the actions failed, or what they wait for.
    outcome: str
    #: The resourceVersions that it was based on.
    versions: tuple[str, ...]
    #: Whether a user has to act, or something has to happen, before it continues; and whether a
    #: change was only reported.
    held: bool = False
    waits: bool = False
    only_reported: bool = False
    #: Whether an Event reported it and no later decision has confirmed that no action is needed.
    has_event: bool = False
    #: Whether its actions are not finished, and nothing refused them.
    continues: bool = False
    #: How often it was made, and when first.
    times: int = 1
    first_at: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether its actions were refused."""
        return self.outcome != "done" and not self.continues

    @property
    def is_over(self) -> bool:
        """Whether nothing more follows from it."""
        return not (self.failed or self.held or self.waits)

    @property
    def text(self) -> str:
        """The reason, and the outcome unless that is "done"."""
        return self.reason if self.outcome == "done" else f"{self.reason}; {self.outcome}"

    def repeats(self, other: DecisionEntry) -> bool:
        """Return whether it equals an earlier decision on the same state."""
        mine = (self.reason, self.outcome, self.versions)
        return mine == (other.reason, other.outcome, other.versions)

    def folds_into(self, other: DecisionEntry) -> bool:
        """Return whether an earlier decision has the same text, even if for another edit."""
        return (self.text, self.actions) == (other.text, other.actions)


#: Sources that a line of the log names.
_MAX_SOURCES = 8

#: Decisions kept per consumer.
_MAX_ENTRIES = 5


class DecisionLog:
    """The latest decisions on each consumer, oldest first; repetitions are counted.

    A confirmation is kept if the decision before it was not final.
    """

    def __init__(self, *, wall_clock: Callable[[], float]) -> None:
        """`wall_clock` gives POSIX seconds of the API server."""
        self._wall_clock = wall_clock
        self._entries: dict[ObjectKey, list[DecisionEntry]] = {}
        #: The consumers that were decided on in this term as leader, each with the sources that it
        #: uses and that were not followed then.
        self._decided: dict[ObjectKey, tuple[ObjectKey, ...]] = {}
        #: Sources that a consumer requires and that do not exist.
        self._missing_sources: dict[ObjectKey, tuple[ObjectKey, ...]] = {}
        #: Why a rollout waits that was decided on after the last entry.
        self._settling: dict[ObjectKey, str] = {}
        #: (verdict) → decisions and (kind, act, outcome) → actions, since the start; each attempt
        #: that fails is one.
        self.decisions: Counter[str] = Counter()
        self.actions: Counter[tuple[str, str, str]] = Counter()
        #: Writes of others into pod templates since the start, by kind.
        self.writer_conflicts: Counter[str] = Counter()

    def begin_term(self) -> None:
        """Begin a term as leader: earlier decisions stay listed, but are no longer current."""
        self._decided.clear()
        self._settling.clear()

    def is_decided(self, key: ObjectKey) -> bool:
        """Return whether a consumer was decided on in this term."""
        return key in self._decided

    @property
    def decided(self) -> Collection[ObjectKey]:
        """The consumers that were decided on in this term."""
        return self._decided

    def add(
        self,
        decision: Decision,
        *,
        outcome: str = "done",
        continues: bool = False,
        level: int | None = None,
    ) -> bool:
        """Add a decision and log it; return False if it only confirms or repeats.

        `continues` says that its actions are not finished and that nothing refused them.
        """
        consumer, plan = decision.snapshot.consumer, decision.plan
        entry = _make_entry(decision, outcome, continues=continues, at=self._wall_clock())
        self.decisions[entry.verdict] += 1
        self._decided[consumer.key] = decision.snapshot.unfollowed
        self._settling.pop(consumer.key, None)
        kept = self._entries.setdefault(consumer.key, [])
        if kept and plan.confirms and kept[-1].is_over:
            kept[-1] = kept[-1]._replace(has_event=False)
            return False
        is_repeated = bool(kept) and entry.repeats(kept[-1])
        if entry.failed:  # each attempt is counted: an alert is about those that go on failing
            self._count_actions(entry, "failed")
        elif not is_repeated and not continues:
            self._count_actions(entry, "done")
        if is_repeated:
            # It may not have been final, such as a nudge while pods were still to be checked.
            kept[-1] = kept[-1]._replace(waits=entry.waits, continues=entry.continues)
            return False
        is_same_hold = entry.held and any(map(entry.folds_into, kept))
        _append(kept, entry)
        if not is_same_hold:
            _log.log(
                _level(plan, outcome) if level is None else level,
                entry.text,
                extra={
                    "workload": str(consumer.key),
                    "source": _name_sources(decision),
                    "change": entry.revision,
                },
            )
        return True

    def _count_actions(self, entry: DecisionEntry, outcome: str) -> None:
        self.actions.update((entry.consumer.kind, act, outcome) for act in entry.actions)

    def set_settling(self, decision: Decision) -> None:
        """Keep why a rollout waits: the entries before it say nothing of the present content."""
        key = decision.snapshot.consumer.key
        self._settling[key] = printable(decision.settling_reason)
        self._decided[key] = decision.snapshot.unfollowed

    def record_event(self, key: ObjectKey) -> bool:
        """Record that an Event reports the latest decision; False if one did before."""
        kept = self._entries[key]
        had_event = kept[-1].has_event
        kept[-1] = kept[-1]._replace(has_event=True)
        return not had_event

    def count_conflict(self, found: WriterConflict) -> None:
        """Count a write of another writer into a pod template; the decision names it."""
        self.writer_conflicts[found.kind.value] += 1

    def set_missing_sources(self, key: ObjectKey, sources: tuple[ObjectKey, ...]) -> bool:
        """Set the missing required sources of a consumer; return False if they are unchanged."""
        if self._missing_sources.get(key, ()) == sources:
            return False
        if sources:
            self._missing_sources[key] = sources
        else:
            del self._missing_sources[key]
        return True

    def unfollowed_sources(self, key: ObjectKey) -> tuple[ObjectKey, ...]:
        """Return the used sources of a consumer that were not followed at its last decision."""
        return self._decided.get(key, ())

    def last_decision(self, key: ObjectKey) -> LastDecision | None:
        """Return the parts of the last decision on a consumer that its status needs.

        None: there is none in this term.
        """
        if key not in self._decided:
            return None
        missing = self._missing_sources.get(key, ())
        if key in self._settling:
            return LastDecision(self._settling[key], waits=True, missing_sources=missing)
        entry = self._entries[key][-1]
        return LastDecision(
            entry.text,
            entry.failed,
            entry.held,
            entry.waits,
            entry.only_reported,
            missing,
            only_waits=entry.waits and not entry.actions,
        )

    def latest(self, key: ObjectKey) -> DecisionEntry | None:
        """Return the last decision on a consumer that was not a repetition."""
        kept = self._entries.get(key)
        return kept[-1] if kept else None

    def __iter__(self) -> Iterator[ObjectKey]:
        """Iterate over the consumers with a decision, in no order."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Count the consumers with a decision."""
        return len(self._entries)

    def decisions_on(self, key: ObjectKey) -> tuple[DecisionEntry, ...]:
        """Return the kept decisions on a consumer, oldest first."""
        return tuple(self._entries.get(key, ()))

    def history(self) -> dict[ObjectKey, tuple[DecisionEntry, ...]]:
        """Return the kept decisions on every consumer."""
        return {key: tuple(kept) for key, kept in sorted(self._entries.items())}

    def forget(self, key: ObjectKey) -> None:
        """Drop a deleted consumer; a Job that is being recreated keeps why."""
        kept = self._entries.pop(key, [])
        if kept and _recreates(kept[-1]):
            self._entries[key] = list(filter(_recreates, kept))
        self._decided.pop(key, None)
        self._missing_sources.pop(key, None)
        self._settling.pop(key, None)


def _recreates(entry: DecisionEntry) -> bool:
    return ActionType.RECREATE.value in entry.actions and not entry.failed


def _make_entry(decision: Decision, outcome: str, *, continues: bool, at: float) -> DecisionEntry:
    plan = decision.plan
    return DecisionEntry(
        decision.snapshot.consumer.key,
        at,
        plan.verdict.value,
        printable(plan.reason),
        tuple(action.type.value for action in plan.actions),
        decision.snapshot.revision,
        printable(outcome),
        decision.snapshot.versions,
        held=plan.warning,
        waits=continues or not plan.settles,
        continues=continues,
        only_reported=any(action.type is ActionType.NOTIFY for action in plan.actions),
    )


def _name_sources(decision: Decision) -> str:
    """Name the sources that a decision is about; "" for none."""
    verdicts = (*CHANGED, Verdict.HOLD)
    findings = decision.assessment.findings
    found = [str(each.current.source) for each in findings if each.verdict in verdicts]
    more = f" and {len(found) - _MAX_SOURCES} more" if len(found) > _MAX_SOURCES else ""
    return ", ".join(found[:_MAX_SOURCES]) + more


def _append(kept: list[DecisionEntry], entry: DecisionEntry) -> None:
    """Append a decision; earlier ones that read the same are counted in it.

    An Event reports a hold once, however many edits are made while it lasts.
    """
    times, first_at, has_event = 1, entry.at, False
    for earlier in [item for item in kept if entry.folds_into(item)]:
        kept.remove(earlier)
        times += earlier.times
        first_at = min(first_at, earlier.first_at)
        has_event |= entry.held and earlier.has_event
    kept.append(entry._replace(times=times, first_at=first_at, has_event=has_event))
    del kept[:-_MAX_ENTRIES]


def _level(plan: Plan, outcome: str) -> int:
    """Choose the log level of a decision; unchanged consumers are logged at debug."""
    if plan.warning or outcome != "done":
        return logging.WARNING
    return logging.DEBUG if plan.confirms else logging.INFO
