"""Shadow mode: decides beside a running Reloader, writes nothing, and logs differences.

Collects Reloader's rollouts and the ones that hotmap would have made, by consumer and source.
Reloader acts at once and hotmap after the settle time, so they are compared COMPARED_AFTER seconds
later. Equal counts are agreement; any difference is one log line.

Reloader's own write must not change what hotmap decides, or there would be nothing to compare:
hotmap reads a marked template and a new generation as a rollout by someone else. So it decides
on consumers as they would be if Reloader had not written them (`without_reloader_writes`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple, NoReturn

import msgspec

from hotmap.controller.reconcile.executor import rollout_patch
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.plan import ActionType
from hotmap.core.decide.record import Outcome
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.reloader.patch import FIELD_MANAGERS, Traces, variable_name
from hotmap.kube.loop_clock import loop_time

__all__ = ["Shadow", "ShadowExecutor", "ShadowNudges"]

#: Seconds for either side to follow the other: Reloader needs 0.2 s for each consumer of a
#: source (client-go's default of 5 requests a second), so 150 of them are done in it.
COMPARED_AFTER = 30.0

#: Why hotmap does nothing where a source has the content that it had before.
_REVERTED = "was changed and reverted"

_log = logging.getLogger(__name__)


class ShadowExecutor:
    """An executor that does nothing and reports success."""

    async def execute(self, decision: Decision) -> Outcome:
        """Return what the consumer would show: its generation, and the desired revision."""
        snapshot = decision.snapshot
        revision = snapshot.consumer.revision
        for action in decision.plan.actions:
            if action.type is ActionType.ROLLOUT:
                revision = rollout_patch(decision, action).revision
        return Outcome(snapshot.consumer.generation, revision, snapshot.now)


class ShadowNudges:
    """Nudges that are not sent."""

    async def send(self, decision: Decision) -> int:
        """Nudge no pod."""
        return 0

    def second_in(self, snapshot: Snapshot) -> float | None:
        """Return None: no second nudge."""
        return None

    def waiting_restarts(self, key: ObjectKey) -> str:
        """Return "": nothing is restarted."""
        return ""

    def forget(self, key: ObjectKey) -> None:
        """Do nothing."""


class _Comparison(NamedTuple):
    """The recent actions of both sides on one consumer and source."""

    #: Monotonic seconds of the first action.
    since: float
    ours: int = 0
    reloaders: int = 0
    #: Why hotmap would have rolled out, or not.
    reason: str = ""


class Shadow:
    """Compares, and logs one line for each difference.

    `reason_of` returns hotmap's latest reason on a consumer.
    """

    def __init__(self, *, reason_of: Callable[[ObjectKey], str]) -> None:
        self._reason_of = reason_of
        #: By consumer and by Reloader's variable for a source.
        self._open: dict[tuple[ObjectKey, str], _Comparison] = {}
        #: How far a consumer's generation was moved by Reloader, by uid.
        self._moved: dict[str, int] = {}
        self.agreed = self.differed = 0

    # -- observations --------------------------------------------------------------------------

    def record_own_rollout(self, decision: Decision) -> None:
        """Record that hotmap would have rolled out a consumer since some sources changed.

        Three things are left out: rollouts for pods with older content (rule 10), since they follow
        from Reloader's rollouts, which hotmap would have made itself; those for pods that Reloader
        has started with the content of an edit which was reverted (rule 3); and what Reloader does
        without a mark in the template: runs of Jobs, and pods of an Argo Rollout that it restarts.
        """
        marks = any(action.type is ActionType.ROLLOUT for action in decision.plan.actions)
        if decision.assessment.heals or not marks:
            return
        consumer, reason = decision.snapshot.consumer.key, decision.plan.reason
        for source in decision.changed_sources():
            key = consumer, variable_name(source)
            before = self._comparison(*key)
            if decision.assessment.distinct and before.reloaders:
                self._open[key] = before._replace(reason=before.reason or f"{source} {_REVERTED}")
            else:
                self._open[key] = before._replace(ours=before.ours + 1, reason=reason)

    def consumer_changed(self, key: ObjectKey, old: Consumer | None, new: Consumer | None) -> None:
        """Record what Reloader has written; the consumers' stores call this."""
        if old is None or new is None or old.uid != new.uid:
            self._moved.pop(old.uid if old else "", None)
            return
        marks = _new_marks(old.traces, new.traces) if _is_by_reloader(old, new) else set()
        for mark in marks:
            before = self._comparison(key, mark)
            self._open[key, mark] = before._replace(reloaders=before.reloaders + 1)
        if marks:
            moved = self._moved.get(new.uid, 0) + new.generation - old.generation
            self._moved[new.uid] = moved

    def without_reloader_writes(self, consumer: Consumer) -> Consumer:
        """Return a consumer as it would be without Reloader's writes."""
        moved = self._moved.get(consumer.uid)
        if moved is None:
            return consumer
        return msgspec.structs.replace(
            consumer, generation=consumer.generation - moved, rolling=False
        )

    def _comparison(self, consumer: ObjectKey, mark: str) -> _Comparison:
        return self._open.get((consumer, mark)) or _Comparison(loop_time())

    # -- report --------------------------------------------------------------------------

    async def run(self) -> NoReturn:
        """Log differences when they are certain, until cancelled."""
        while True:
            await asyncio.sleep(1.0)
            self.conclude(older_than=COMPARED_AFTER)

    def conclude(self, *, older_than: float = 0.0) -> None:
        """Close the comparisons that are older than some seconds."""
        now = loop_time()
        for (consumer, mark), item in list(self._open.items()):
            if now - item.since < older_than:
                continue
            del self._open[consumer, mark]
            if item.ours == item.reloaders:
                self.agreed += 1
            else:
                self.differed += 1
                _log.warning(self._difference(consumer, mark, item))

    def close(self) -> None:
        """Log the open differences, and how often both agreed."""
        self.conclude()
        _log.info("shadow: %d agreed, %d differed", self.agreed, self.differed)

    def _difference(self, consumer: ObjectKey, mark: str, comparison: _Comparison) -> str:
        if not comparison.reloaders:
            return f"{consumer}: Reloader does nothing; hotmap: {comparison.reason}"
        if comparison.ours:
            return (
                f"{consumer}: Reloader rolls it out {_times(comparison.reloaders)} for {mark}; "
                f"hotmap {_times(comparison.ours)}: {comparison.reason}"
            )
        reason = comparison.reason or self._reason_of(consumer) or "not followed by hotmap"
        return f"{consumer}: Reloader rolls it out for {mark}; hotmap does not: {reason}"


def _is_by_reloader(old: Consumer, new: Consumer) -> bool:
    """Return whether Reloader made a change of its marks; an undo restores or removes them, too."""
    newer = (new.reloaded_at or 0.0) > (old.reloaded_at or 0.0)
    return newer or new.template_writer in ("", *FIELD_MANAGERS)


def _new_marks(old: Traces | None, new: Traces | None) -> set[str]:
    """Return the variables of the sources that a template was newly marked with."""
    if old is None or new is None:
        return set()
    before, after = (
        {(variable.container, variable.name, variable.value) for variable in traces.variables}
        for traces in (old, new)
    )
    marks = {name for _, name, _ in before ^ after}
    if new.last is not None and new.last != old.last:
        kind, name, _ = new.last
        marks.add(variable_name(ObjectKey(kind, "", name)))
    return marks


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
