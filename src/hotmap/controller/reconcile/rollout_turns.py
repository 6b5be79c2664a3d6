"""Rollouts of the workloads of one source, a few at a time where the source has a limit.

`core.decide.rollout_turns` says which rollouts take a turn, and when they are complete. This module
keeps who has a turn and who waits, in one term of leadership. A consumer that waits is reconciled
again when a turn is free, so that the content of that moment is rolled out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

from hotmap.controller.watch.index import Index
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.rollout_turns import (
    describe_wait,
    is_rolled_out,
    sources_of_rollout,
)
from hotmap.core.errors import Conflict, Unreachable
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.policy.rollout_limits import read_rollout_limit
from hotmap.kube.loop_clock import loop_time

__all__ = ["RolloutTurns"]


class _Turn:
    """The turns of one consumer, one for each of some sources."""

    def __init__(
        self, sources: Iterable[ObjectKey], generation: int | None = None, *, since: float
    ) -> None:
        self.sources = set(sources)
        #: When it was taken, in monotonic seconds.
        self.since = since
        #: That of its rollout; None: it is not written yet.
        self.generation = generation
        #: Whether it may be written all the same, since the response to the last attempt was lost.
        self.may_be_written = False


class RolloutTurns:
    """Who has a turn to be rolled out, and who waits for one."""

    def __init__(
        self,
        index: Index,
        *,
        default_limit: int,
        reconcile: Callable[[ObjectKey], None],
        monotonic: Callable[[], float] = loop_time,
    ) -> None:
        """`reconcile` has a consumer reconciled again; a `default_limit` of 0 means no limit."""
        self._index = index
        self._default_limit = default_limit
        self._reconcile = reconcile
        self._monotonic = monotonic
        self._turns: dict[ObjectKey, _Turn] = {}
        #: By source: the consumers that have a turn, and those that wait, oldest first.
        self._holders: dict[ObjectKey, set[ObjectKey]] = {}
        self._waiting: dict[ObjectKey, dict[ObjectKey, None]] = {}
        #: By consumer that waits: for which sources.
        self._waits_for: dict[ObjectKey, Collection[ObjectKey]] = {}

    def take(self, decision: Decision) -> str:
        """Take a turn of each source that a decision rolls out; returns why it waits, or "".

        A consumer keeps its turn even if more consumers have one than a limit that was lowered:
        otherwise they would wait for each other.
        """
        key = decision.snapshot.consumer.key
        limits = {source: self.limit_of(source) for source in sources_of_rollout(decision)}
        limits = {source: limit for source, limit in limits.items() if limit}
        full = {
            source: limit
            for source, limit in limits.items()
            if key not in (holders := self._holders_of(source)) and len(holders) >= limit
        }
        if limits and not full:
            self._turn(key).sources.update(limits)
            for source in limits:
                self._holders[source].add(key)
        self._wait_for(key, full)
        return describe_wait(full) if full else ""

    @contextmanager
    def writing(self, key: ObjectKey) -> Iterator[None]:
        """Give the turns of a consumer back if the rollout cannot be written.

        The consumer keeps them in two cases. An earlier rollout of it is not complete: then its own
        controller may have changed its status, which is a conflict. Or there was no response: the
        API server may have written the rollout, so that a later conflict is with this write.
        """
        try:
            yield
        except BaseException as error:
            turn = self._turns.get(key)
            if turn is not None and turn.generation is None:
                is_still_open = turn.may_be_written and isinstance(error, Conflict)
                turn.may_be_written = is_still_open or isinstance(error, Unreachable)
                if not turn.may_be_written:
                    self._give_back(key)
            raise

    def written(self, key: ObjectKey, generation: int) -> None:
        """Keep the turns of a consumer until its rollout, of this generation, is complete.

        A decision without a rollout may be of a state before the last one.
        """
        if (turn := self._turns.get(key)) is not None:
            turn.generation = max(turn.generation or 0, generation)
            self._check(key, turn)

    def leave(self, key: ObjectKey) -> None:
        """Let others go first: a consumer that may wait is not to be rolled out now."""
        self._wait_for(key, ())

    def consumer_changed(self, key: ObjectKey, old: Consumer | None, new: Consumer | None) -> None:
        """Free the turns of a consumer whose rollout is complete."""
        if new is not None and new.argo is not None and new.argo.template_in is not None:
            key = new.argo.template_in
        if (turn := self._turns.get(key)) is not None:
            self._check(key, turn)

    def limit_of(self, source: ObjectKey) -> int:
        """Return how many workloads of a source are rolled out at a time; 0: any number."""
        found = self._index.sources[source.kind].get(source)
        return read_rollout_limit(
            found.annotations if found else None,
            self._index.policies.annotations_of(source.namespace),
            default=self._default_limit,
        )

    def longest_wait(self) -> float:
        """Return for how many seconds a turn has kept others waiting, the oldest one; 0: none."""
        turns = [turn.since for turn in self._turns.values() if turn.sources & self._waiting.keys()]
        return self._monotonic() - min(turns) if turns else 0.0

    def forget(self, key: ObjectKey) -> None:
        """Drop the state of a consumer that is deleted, or not followed any more."""
        self.leave(key)
        self._give_back(key)

    def _check(self, key: ObjectKey, turn: _Turn) -> None:
        consumer = self._index.consumer(key)
        if turn.generation is None or consumer is None:
            return  # it is being written; or deleted, see `forget`
        if is_rolled_out(consumer, turn.generation):
            self._give_back(key)

    def _give_back(self, key: ObjectKey) -> None:
        turn = self._turns.pop(key, None)
        for source in turn.sources if turn else ():
            self._holders[source].discard(key)
            self._continue(source)

    def _wait_for(self, key: ObjectKey, sources: Collection[ObjectKey]) -> None:
        """Let a consumer wait for these sources, and no longer for others."""
        before = self._waits_for.pop(key, ())
        if sources:
            self._waits_for[key] = sources
        for source in sources:
            self._waiting.setdefault(source, {}).setdefault(key)
        for source in before:
            if source not in sources:
                del self._waiting[source][key]
                self._continue(source)

    def _continue(self, source: ObjectKey) -> None:
        """Reconcile the consumers that may go now; they wait until they take a turn."""
        held, waiting = self._holders[source], self._waiting.get(source, {})
        limit = self.limit_of(source)
        free = max(0, limit - len(held)) if limit else len(waiting)
        for key in islice(waiting, free):
            self._reconcile(key)
        if not waiting:
            self._waiting.pop(source, None)
            if not held:
                del self._holders[source]

    def _holders_of(self, source: ObjectKey) -> set[ObjectKey]:
        if source not in self._holders:
            unfinished = list(self._unfinished(source))
            self._holders[source] = {consumer.key for consumer in unfinished}
            for consumer in unfinished:
                turn = self._turn(consumer.key, consumer.generation)
                turn.sources.add(source)
        return self._holders[source]

    def _turn(self, key: ObjectKey, generation: int | None = None) -> _Turn:
        if key not in self._turns:
            self._turns[key] = _Turn((), generation, since=self._monotonic())
        return self._turns[key]

    def _unfinished(self, source: ObjectKey) -> Iterator[Consumer]:
        """Iterate over the consumers that an earlier leader rolled out after the last change."""
        found = self._index.sources[source.kind].get(source)
        changed_at = self._index.history.with_change_time(found).changed_at if found else None
        for consumer in self._index.followers_of(source):
            at = consumer.written_at
            is_newer = changed_at is not None and at is not None and at >= changed_at
            if is_newer and not is_rolled_out(consumer, consumer.generation):
                yield consumer
