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

#: The number of pattern lists, and of names per list, whose results are cached: at least so many
#: names, or twice as many as the namespace has.
_LISTS = 128
_NAMES = 10_000


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
        #: Latest used last.
        self._results: dict[tuple[str, SourcePatterns], _Results] = {}
        #: When a namespace may have its next turn.
        self._next: dict[str, float] = {}

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
        """Return whether patterns cover a source; True as well where there is no time to tell."""
        if not patterns.expressions:
            return patterns.covers(source)
        results = self._kept(patterns, source.namespace)
        if source not in results and not self._match(patterns, source.namespace, results, [source]):
            return True
        return results[source]

    def wait(self, namespace: str) -> float:
        """Return in how many seconds a namespace may have its next turn."""
        return max(0.0, self._next.get(namespace, 0.0) - self._clock())

    def _kept(self, patterns: SourcePatterns, namespace: str) -> _Results:
        key = namespace, patterns
        results = self._results.pop(key, None)
        if results is None or len(results) > results.limit:
            results = _Results()
        self._results[key] = results
        if len(self._results) > _LISTS:
            del self._results[next(iter(self._results))]
        return results

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
        begun = self._spent()
        done = 0
        for source in sources:
            results[source] = patterns.covers(source)
            done += 1
            if self._spent() - begun >= _TURN:
                break
        taken = self._spent() - begun
        if taken >= _TURN / 10:
            self._next[namespace] = self._clock() + taken / _SHARE
        else:
            self._next.pop(namespace, None)
        return done == len(sources)
