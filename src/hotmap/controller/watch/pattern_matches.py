"""Matches name patterns with the sources of a namespace, in short time slices.

RE2 runs in linear time, but a permitted list of patterns may still take 10 ms for one long name, so
many names could block the event loop. Therefore results are cached, each slice is short, and each
namespace has a limited share of the processor time. When it is used up, only the consumers with
patterns in that namespace wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.patterns import SourcePatterns

__all__ = ["PatternMatches"]

#: Processor seconds of one slice, and the maximum share of the time for one namespace.
_TURN = 0.01
_SHARE = 0.05

#: Seconds by which a namespace may be ahead of its share: one slice.
_AHEAD = _TURN / _SHARE

#: The number of results that are cached, of all namespaces, and of one list of patterns: at least
#: so many names, or twice as many as the namespace has.
_RESULTS = 1_000_000
_NAMES = 10_000


#: Namespaces after which those are dropped that are not ahead.
_PAID = 1_000


class _Results(dict[ObjectKey, bool]):
    """Whether a list of patterns covers each source of a namespace."""

    limit = _NAMES


class PatternMatches:
    """The cached matches of all consumers' patterns."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        spent: Callable[[], float] = time.thread_time,
    ) -> None:
        """`clock` returns monotonic seconds, `spent` processor seconds."""
        self._clock = clock
        self._spent = spent
        #: By namespace, so that the lists of one displace no other's; latest used last.
        self._results: dict[str, dict[SourcePatterns, _Results]] = {}
        #: How many results there are.
        self._count = 0
        #: Until when what a namespace has had is its share.
        self._paid: dict[str, float] = {}

    def resolve(
        self, patterns: SourcePatterns, namespace: str, sources: Collection[ObjectKey]
    ) -> SourcePatterns | None:
        """Replace expressions with the names of the sources that they match.

        None: not finished yet; call again after `wait`.
        """
        if not patterns.expressions:
            return patterns
        results = self._kept(patterns, namespace)
        results.limit = max(_NAMES, 2 * len(sources))
        missing = [source for source in sources if source not in results]
        if missing and not self._match(patterns, namespace, results, missing):
            return None
        matched = {source.kind_and_name for source in sources if results.get(source)}
        return SourcePatterns(patterns.kinds, patterns.names | matched)

    def may_cover(self, patterns: SourcePatterns, source: ObjectKey) -> bool:
        """Return whether patterns cover a source; True, too, where there is no time to find out."""
        if not patterns.expressions:
            return patterns.covers(source)
        results = self._kept(patterns, source.namespace)
        if source not in results and not self._match(patterns, source.namespace, results, [source]):
            return True
        return results[source]

    def wait(self, namespace: str) -> float:
        """Return in how many seconds a namespace may have its next turn."""
        ahead = self._paid.get(namespace, 0.0) - self._clock()
        return max(0.0, ahead - _AHEAD)

    def _kept(self, patterns: SourcePatterns, namespace: str) -> _Results:
        lists = self._results.setdefault(namespace, {})
        results = lists.pop(patterns, None)
        if results is not None and len(results) > results.limit:
            self._count -= len(results)
            results = None
        lists[patterns] = _Results() if results is None else results
        while self._count > _RESULTS:
            self._drop_oldest_of_largest()
        return lists[patterns]

    def _drop_oldest_of_largest(self) -> None:
        """Drop the results that were not used for longest, in the namespace with the most lists."""
        namespace = max(self._results, key=lambda name: len(self._results[name]))
        lists = self._results[namespace]
        self._count -= len(lists.pop(next(iter(lists))))
        if not lists:
            del self._results[namespace]

    def _match(
        self,
        patterns: SourcePatterns,
        namespace: str,
        results: dict[ObjectKey, bool],
        sources: list[ObjectKey],
    ) -> bool:
        """Try patterns on names until a turn is over; False when some are left."""
        if self.wait(namespace):
            return False
        known, begun = len(results), self._spent()
        done = 0
        for source in sources:
            results[source] = patterns.covers(source)
            done += 1
            if self._spent() - begun >= _TURN:
                break
        self._count += len(results) - known
        now, taken = self._clock(), self._spent() - begun
        self._paid[namespace] = max(now, self._paid.get(namespace, 0.0)) + taken / _SHARE
        if len(self._paid) > _PAID:
            self._paid = {name: until for name, until in self._paid.items() if until > now}
        return done == len(sources)
