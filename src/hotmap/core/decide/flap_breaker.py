"""The flap breaker: limits how often one consumer is rolled out.

There are three limits; LIMIT is `hotmap.dev/flap-limit`:

    limit       suppresses a rollout …                               after this many rollouts
    ----------  ---------------------------------------------------  -----------------------------
    flapping    to content that was recently rolled to or from       LIMIT in ten minutes, between
                                                                     few contents (A→B→A→B→A)
    burst       to any content                                       LIMIT in a minute
    sustained   to any content                                       4 times LIMIT in half an hour

Manual edits, minutes apart and each with other content, are never suppressed. After each
suppression the windows of the consumer are twice as wide, up to eight times, so two writers that
keep overwriting each other cause fewer and fewer rollouts. An hour without a rollout resets this,
and so does a new value of the annotation `hotmap.dev/release`.

Rollouts in quick succession are spaced, even without a settle time: one second after the first
within a minute, two seconds after the second, then four, up to sixteen. A burst of edits results
in a few rollouts, the last of them with the final content.

The times are stored in the consumer's record, so they survive a change of leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hotmap.core.decide.plan import Plan
from hotmap.core.duration import format_age, format_time_of_day
from hotmap.core.fingerprint import digest
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import RolloutTimes

__all__ = [
    "LIMIT",
    "WINDOW",
    "Hold",
    "add_rollout",
    "count_recent_rollouts",
    "find_hold",
    "limit_flapping",
    "release",
    "remaining_spacing",
]

#: The default number of rollouts of one consumer within a window.
LIMIT = 5

#: Seconds of the window in which returns to the same contents are counted.
WINDOW = 600.0

#: Seconds of the windows in which all rollouts are counted, and the factor of the wide window's
#: limit.
_BURST = 60.0
_SUSTAINED = 1800.0
_SUSTAINED_LIMITS = 4

#: How often the windows may double.
_DOUBLINGS = 3

#: Seconds without a rollout after which earlier ones are not counted.
_EXPIRES_AFTER = 3600.0

#: Seconds between the first two rollouts of a minute, and how often that doubles.
_SPACING = 1.0
_SPACING_DOUBLINGS = 4

#: Seconds by which a clock may have been set back; later times in the future are ignored.
_CLOCK_STEP = 5.0


class Hold(NamedTuple):
    """Why a consumer may not be rolled out now."""

    #: POSIX seconds.
    until: float
    #: The exceeded rate, such as "5 rollouts in 10m".
    rate: str


def find_hold(
    rollouts: RolloutTimes, content: str, now: float, *, limit: int = LIMIT
) -> Hold | None:
    """Return why a consumer may not be rolled out to some content now; None: it may.

    `content` names the new content. `limit` 0 disables the flap breaker.
    """
    if not limit or _is_expired(rollouts, now):
        return None
    times = _past_times(rollouts.times, now)
    scale = _scale(rollouts)
    holds = [
        Hold(times[-most] + width * scale, _rate(most, width * scale))
        for most, width in ((limit, _BURST), (limit * _SUSTAINED_LIMITS, _SUSTAINED))
        if len(times) >= most
    ]
    if len(times) >= limit and _is_flapping(rollouts, content, limit):
        width = WINDOW * scale
        rate = f"{_rate(limit, width)} between the same contents"
        holds.append(Hold(times[-limit] + width, rate))
    return max((hold for hold in holds if hold.until > now), default=None)


def _is_flapping(rollouts: RolloutTimes, content: str, limit: int) -> bool:
    """Return whether the last rollouts alternated between few contents, and this one does too."""
    lately = rollouts.contents[-limit - 1 :]
    return content in lately and len(set(lately[1:])) <= max(2, (limit + 1) // 2)


def add_rollout(
    rollouts: RolloutTimes,
    now: float,
    *,
    content: str,
    previous: str = "",
    since: float | None = None,
    limit: int = LIMIT,
) -> RolloutTimes:
    """Add a rollout to `content` at `now`; drop the times that no limit needs.

    `previous` names the content before, `since` is when the change was first observed: if the
    rollout was not permitted then, it was suppressed meanwhile.
    """
    if not limit:
        return RolloutTimes((now,), contents=(content,), release=rollouts.release)
    if _is_expired(rollouts, now):
        rollouts = RolloutTimes(release=rollouts.release)
    was_held = (
        find_hold(rollouts, content, now if since is None else since, limit=limit) is not None
    )
    held = was_held or _was_flapping(rollouts, content, now, limit)
    contents = rollouts.contents or (previous,)
    return RolloutTimes(
        (*_past_times(rollouts.times, now), now)[-limit * _SUSTAINED_LIMITS :],
        rollouts.held + held,
        (*contents, content)[-limit - 1 :],
        rollouts.release,
    )


def _was_flapping(rollouts: RolloutTimes, content: str, now: float, limit: int) -> bool:
    """Return whether a suppression for flapping ended less than its own duration ago."""
    if len(rollouts.times) < limit or not _is_flapping(rollouts, content, limit):
        return False
    return now - rollouts.times[-limit] < 2 * WINDOW * _scale(rollouts)


def remaining_spacing(rollouts: RolloutTimes, now: float, *, limit: int = LIMIT) -> float:
    """Return seconds until the next rollout may follow the last ones; 0: it may now."""
    count = count_recent_rollouts(rollouts, now)
    if not limit or not count:
        return 0.0
    pause = _SPACING * (1 << min(count - 1, _SPACING_DOUBLINGS))
    return min(max(0.0, _past_times(rollouts.times, now)[-1] + pause - now), pause)


def count_recent_rollouts(rollouts: RolloutTimes, now: float) -> int:
    """Count the rollouts of the last minute, on which the spacing depends."""
    return sum(now - at < _BURST for at in _past_times(rollouts.times, now))


def release(rollouts: RolloutTimes, request: str | None) -> RolloutTimes:
    """Forget the rollouts if a new release was requested.

    `request` is the value of `hotmap.dev/release`, None without it.
    """
    name = digest([request])[:8] if request else ""
    if name in ("", rollouts.release):
        return rollouts
    return RolloutTimes(release=name)


def limit_flapping(
    plan: Plan,
    rollouts: RolloutTimes,
    *,
    consumer: ObjectKey,
    content: str,
    now: float,
    writers: Sequence[str],
    limit: int,
) -> Plan:
    """Remove the actions that start new pods from a plan while a limit is exceeded.

    `writers` are the field managers that last wrote the changed sources; the reason names them.
    The reason does not change during the suppression, which began with the last rollout.
    """
    if not plan.starts_new_pods:
        return plan
    hold = find_hold(rollouts, content, now, limit=limit)
    if hold is None:
        return plan
    who = f"; last modified by {' and '.join(sorted(set(writers)))}" if writers else ""
    since = format_time_of_day(rollouts.times[-1])
    reason = (
        f"rollout suppressed since {since} "
        f"until {format_time_of_day(hold.until)} UTC: {hold.rate}{who}; to roll out now, run "
        f"'hotmap release {consumer.kind.lower()}/{consumer.name} -n {consumer.namespace}'"
    )
    return plan.without_new_pods(reason, recheck_in=hold.until - now)


def _scale(rollouts: RolloutTimes) -> int:
    return 1 << min(rollouts.held, _DOUBLINGS)


def _is_expired(rollouts: RolloutTimes, now: float) -> bool:
    since = now - rollouts.times[-1] if rollouts.times else 0.0
    return since > max(_EXPIRES_AFTER, WINDOW * _scale(rollouts))


def _past_times(times: Sequence[float], now: float) -> tuple[float, ...]:
    """Drop times in the future, which remain after a clock was set back."""
    return tuple(at for at in times if at <= now + _CLOCK_STEP)


def _rate(count: int, seconds: float) -> str:
    return f"{count} {'rollout' if count == 1 else 'rollouts'} in {format_age(seconds)}"
