"""When a reflector counts a watch as silent, and how long it pauses between attempts."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, NamedTuple

from hotmap.core.errors import ApiError, Expired, HotmapError
from hotmap.kube.retry import Backoff

__all__ = ["DEFAULT_TIMING", "Timing", "pause_after", "silent_at"]


class Timing(NamedTuple):
    """Every duration of a reflector, in seconds."""

    #: the longest silence of a watch. The server sends a bookmark about once a minute
    #: (apiserver: pkg/storage/cacher, defaultBookmarkFrequency), so more means a dead connection.
    #: Not near the requested end: see `silent_at`
    silence: float = 75.0
    #: the longest silence before the initial objects of a stream are complete
    initial_silence: float = 30.0
    #: the server is requested to end a watch after a random time between these, so that the load
    #: of many clients spreads over its replicas (client-go: minWatchTimeout, 5 to 10 min)
    watch_shortest: float = 300.0
    watch_longest: float = 600.0
    #: the first and the longest pause between attempts (client-go: 0.8 s to 30 s)
    pause_first: float = 0.8
    pause_last: float = 30.0
    #: an attempt that lasted this long was healthy, and the backoff is reset (client-go: 2 min)
    healthy_after: float = 120.0
    #: the longest Retry-After that is honoured
    max_retry_after: float = 300.0


DEFAULT_TIMING: Final = Timing()


def silent_at(last: float, deadline: float, silence: float) -> float:
    """Return when a watch that last sent something at `last` counts as silent.

    `deadline` is when the server ends it, by timeoutSeconds. The server sends its last
    bookmark 2 s before that and may leave out the one before (apiserver: pkg/storage/cacher,
    bookmarkFrequency and the watch's deadline; gaps of 75 to 99 s were seen on 1.36.3). So where
    half a limit or less would be left then, wait for the end and a fifth of the limit more.
    """
    at = last + silence
    return max(at, deadline + silence / 5) if at > deadline - silence / 2 else at


def pause_after(
    lasted: float,
    error: HotmapError | None,
    *,
    listed: float,
    backoff: Backoff,
    timing: Timing,
    uniform: Callable[[float, float], float] = random.uniform,
) -> float:
    """Return the seconds between the end of an attempt and the start of the next.

    `lasted` is how long the attempt took, `error` what ended it, None for a proper end; `listed`
    is how long ago the last list began.

    A pause counts from the start of the attempt before it, so a stream that a proxy ends every
    minute is resumed at once, while one that ends at once is not: there are never more attempts
    than pauses of `backoff`. After a failure there is a short pause all the same, so that the
    clients of a failed server do not reconnect at the same instant. A 410 is the answer of a server
    that works again, so the list does not wait for a pause that earlier failures have made long,
    unless the last list began less than the longest pause ago. Ours; client-go waits a full pause
    in every case.
    """
    works_again = isinstance(error, Expired) and listed >= timing.pause_last
    if lasted >= timing.healthy_after or works_again:
        backoff.reset()
    least = 0.0
    if error is not None and not isinstance(error, Expired):
        least = uniform(timing.pause_first, 3 * timing.pause_first)
    retry_after = 0.0
    if isinstance(error, ApiError) and error.retry_after:
        retry_after = min(error.retry_after, timing.max_retry_after)
    return max(backoff.next() - lasted, least, retry_after)
