"""The flap breaker: limits how often a consumer is rolled out.

A consumer is rolled out at most LIMIT times in a window of ten minutes. After each suppression its
window doubles, up to an hour and 20 minutes, so that two writers who keep changing a source cause
fewer and fewer rollouts. An hour without a rollout resets it.

The times are kept in the consumer's record, so a change of leader does not forget them.
"""

from __future__ import annotations

from collections.abc import Sequence

from hotmap.core.decide.plan import NEW_PODS, Plan
from hotmap.core.model.state import RolloutTimes

__all__ = ["LIMIT", "WINDOW", "limit_flapping", "note_rollout", "rollout_allowed_at"]

#: Rollouts of one consumer within a window.
LIMIT = 5

#: Seconds of the first window, and how often it may double.
WINDOW = 600.0
_DOUBLINGS = 3

#: Seconds without a rollout after which the window of a consumer is reset.
_FORGIVEN = 3600.0


def rollout_allowed_at(rolls: RolloutTimes, now: float, *, limit: int = LIMIT) -> float:
    """Return from when on a consumer may be rolled out, POSIX seconds; a past time means now.

    `limit` 0 means no limit.
    """
    if not limit or len(rolls.times) < limit or _forgiven(rolls, now):
        return now
    return rolls.times[-limit] + _width(rolls)


def note_rollout(rolls: RolloutTimes, now: float, *, limit: int = LIMIT) -> RolloutTimes:
    """Record a rollout that is written now; only the last `limit` are kept."""
    if not limit:
        return RolloutTimes()
    if _forgiven(rolls, now):
        rolls = RolloutTimes()
    flapped = len(rolls.times) >= limit and now - rolls.times[-limit] < 2 * _width(rolls)
    held = rolls.held + 1 if flapped else rolls.held
    return RolloutTimes((*rolls.times, now)[-limit:], held)


def limit_flapping(
    plan: Plan, rolls: RolloutTimes, *, now: float, writers: Sequence[str], limit: int = LIMIT
) -> Plan:
    """Suppress actions that start new pods while a consumer had too many of them.

    `writers` are the field managers that wrote the changed sources last; they are named, since one
    of them has to stop. Other actions of the plan stay: a nudge is no disruption.
    """
    at = rollout_allowed_at(rolls, now, limit=limit)
    rolls_out = any(action.type in NEW_PODS for action in plan.actions)
    if not rolls_out or at <= now:
        return plan
    rest = tuple(action for action in plan.actions if action.type not in NEW_PODS)
    who = f"; last modified by {' and '.join(sorted(set(writers)))}" if writers else ""
    rate = f"{limit} in {_minutes(_width(rolls))}"
    reason = f"{plan.cause or plan.reason}: rollout suppressed: {rate}{who}"
    return plan._replace(
        actions=rest, reason=reason, settles=False, warning=True, requeue_after=at - now
    )


def _width(rolls: RolloutTimes) -> float:
    return WINDOW * (1 << min(rolls.held, _DOUBLINGS))


def _forgiven(rolls: RolloutTimes, now: float) -> bool:
    return bool(rolls.times) and now - rolls.times[-1] > max(_FORGIVEN, _width(rolls))


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:g}m"
