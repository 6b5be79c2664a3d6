"""May a consumer be rolled now? The flap breaker.

Three bounds, each on what was rolled lately; LIMIT is `hotmap.dev/flap-limit`:

    bound       held is a rollout …                                  after
    ----------  ---------------------------------------------------  -----------------------------
    flapping    back to content that it was rolled to or from        LIMIT in ten minutes, between
                                                                     few contents (A→B→A→B→A)
    burst       to any content                                       LIMIT in a minute
    sustained   to any content                                       4 times LIMIT in half an hour

So a person's own edits, minutes apart and each with other content, are never held. Whoever has to
be held gets windows twice as wide the next time, up to eight times as wide, so that two writers
who fight over a source cost fewer and fewer rollouts. An hour without any gives everything back,
and so does a person with the annotation `hotmap.dev/release`: a value that was not seen before.

Rollouts that follow each other closely are spaced, also without a settle time: a second after the
first of a minute, two after the second, then four, up to sixteen. A burst of edits so ends in a
few rollouts, the last of them with the last content.

The times are kept in the consumer's record, so a change of leader does not forget them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hotmap.core.decide.plan import NEW_PODS, Plan
from hotmap.core.duration import format_age
from hotmap.core.fingerprint import digest
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import RolloutTimes

__all__ = [
    "LIMIT",
    "WINDOW",
    "Hold",
    "add_rollout",
    "find_hold",
    "limit_flapping",
    "release",
    "remaining_spacing",
]

#: Rollouts of one consumer within a window, where nobody says otherwise.
LIMIT = 5

#: Seconds of the window in which returns to the same contents are counted.
WINDOW = 600.0

#: Seconds of the windows in which all rollouts are counted, and of how many limits the wide one is.
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

#: Seconds that a clock may have been set back before a time in the future is not believed.
_CLOCK_STEP = 5.0


class Hold(NamedTuple):
    """Why a consumer may not be rolled now."""

    #: POSIX seconds.
    until: float
    #: What was counted, in words.
    rate: str


def find_hold(
    rollouts: RolloutTimes, content: str, now: float, *, limit: int = LIMIT
) -> Hold | None:
    """Return what forbids to roll a consumer to some content now; None: it may be rolled.

    `content` names what it would be rolled to. `limit` 0 holds nobody.
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
    """Return whether the last rollouts went back and forth, and this one returns once more."""
    lately = rollouts.contents[-limit - 1 :]
    return content in lately and len(set(lately[1:])) <= max(2, (limit + 1) // 2)


def add_rollout(
    rollouts: RolloutTimes,
    now: float,
    *,
    content: str = "",
    previous: str = "",
    since: float | None = None,
    limit: int = LIMIT,
) -> RolloutTimes:
    """Return rollouts with one to `content` that is written now; only what the bounds need is kept.

    `previous` names the content before, and `since` is when the change was first seen: it was
    held meanwhile if it was not permitted then.
    """
    if not limit:
        return RolloutTimes(release=rollouts.release)
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
    """Return whether a hold for flapping ended less than its own length ago."""
    if len(rollouts.times) < limit or not _is_flapping(rollouts, content, limit):
        return False
    return now - rollouts.times[-limit] < 2 * WINDOW * _scale(rollouts)


def remaining_spacing(rollouts: RolloutTimes, now: float, *, limit: int = LIMIT) -> float:
    """Return seconds until the next rollout is not too close to the last ones; 0: it is not."""
    times = _past_times(rollouts.times, now)
    count = sum(now - at < _BURST for at in times)
    if not limit or not count:
        return 0.0
    pause = _SPACING * (1 << min(count - 1, _SPACING_DOUBLINGS))
    return min(max(0.0, times[-1] + pause - now), pause)


def release(rollouts: RolloutTimes, request: str | None) -> RolloutTimes:
    """Return no rollouts where somebody asks for that in words not seen before.

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
    limit: int = LIMIT,
) -> Plan:
    """Return a plan without what starts new pods while that has been done to a consumer too often.

    `writers` are the field managers that wrote the changed sources last; they are named, since one
    of them has to stop. Nothing else in the plan is held: a nudge disturbs nobody. The reason
    stays the same for as long as the hold lasts, which began with the last rollout.
    """
    if not any(action.type in NEW_PODS for action in plan.actions):
        return plan
    hold = find_hold(rollouts, content, now, limit=limit)
    if hold is None:
        return plan
    rest = tuple(action for action in plan.actions if action.type not in NEW_PODS)
    who = f"; last modified by {' and '.join(sorted(set(writers)))}" if writers else ""
    reason = (
        f"{plan.cause or plan.reason}: rollout suppressed since {_format_time(rollouts.times[-1])} "
        f"until {_format_time(hold.until)} UTC: {hold.rate}{who}; to roll out now, run "
        f"'hotmap release {consumer.kind.lower()}/{consumer.name} -n {consumer.namespace}'"
    )
    return plan._replace(
        actions=rest, reason=reason, settles=False, warning=True, requeue_after=hold.until - now
    )


def _scale(rollouts: RolloutTimes) -> int:
    return 1 << min(rollouts.held, _DOUBLINGS)


def _is_expired(rollouts: RolloutTimes, now: float) -> bool:
    since = now - rollouts.times[-1] if rollouts.times else 0.0
    return since > max(_EXPIRES_AFTER, WINDOW * _scale(rollouts))


def _past_times(times: Sequence[float], now: float) -> tuple[float, ...]:
    """Return times without those in the future: the clock was set back since."""
    return tuple(at for at in times if at <= now + _CLOCK_STEP)


def _rate(count: int, seconds: float) -> str:
    return f"{count} {'rollout' if count == 1 else 'rollouts'} in {format_age(seconds)}"


def _format_time(at: float) -> str:
    """Return POSIX seconds as a time of the day in UTC."""
    minutes, second = divmod(int(at) % 86400, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
