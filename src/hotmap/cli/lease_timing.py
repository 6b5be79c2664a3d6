"""The times of leader election, from the flags that Reloader has for them since 1.4.22."""

from __future__ import annotations

from hotmap.cli.durations import read_duration
from hotmap.cli.options import invalid_value
from hotmap.cli.reloader_flags import ReloaderFlags
from hotmap.core.errors import SettingsError
from hotmap.core.reloader.go_values import unquote
from hotmap.kube.leaderelection import DEFAULT_TIMING, JITTER, LeaseTiming
from hotmap.kube.lease import LONGEST_DURATION

__all__ = ["read_lease_timing"]

#: Reloader's defaults, which are client-go's. Without a flag hotmap's own hold, also with
#: --reloader-compat: a standby takes over sooner.
_RELOADERS = LeaseTiming(duration=15, renew_deadline=10.0, retry=2.0)

#: Seconds; each replica sends a request after this time.
_SHORTEST_RETRY = 0.1

_FLAG = "--leader-election-{}".format
_DURATION, _DEADLINE, _RETRY = map(_FLAG, ("lease-duration", "renew-deadline", "retry-period"))


def read_lease_timing(flags: ReloaderFlags) -> LeaseTiming:
    """Read the three flags; what is not set has its default, with --reloader-compat Reloader's.

    Raises:
        SettingsError: a value is invalid, or two of them do not fit; the text names the flags.
    """
    texts = {
        "duration": (_DURATION, flags.leader_election_lease_duration),
        "renew_deadline": (_DEADLINE, flags.leader_election_renew_deadline),
        "retry": (_RETRY, flags.leader_election_retry_period),
    }
    given = {
        field: read_duration(flag, unquote(text))
        for field, (flag, text) in texts.items()
        if text is not None
    }
    if not given:
        return DEFAULT_TIMING
    times = (_RELOADERS if flags.reloader_compat else DEFAULT_TIMING)._asdict() | given
    # Whole seconds, as in a Lease: a standby would not wait for the rest.
    if not 1 <= times["duration"] <= LONGEST_DURATION or times["duration"] % 1:
        text = flags.leader_election_lease_duration or ""
        expected = f"whole seconds from 1s to {LONGEST_DURATION // 60}m"
        raise invalid_value(_DURATION, "duration", unquote(text), expected)
    if times["retry"] < _SHORTEST_RETRY:
        text = flags.leader_election_retry_period or ""
        raise invalid_value(_RETRY, "duration", unquote(text), "100ms or more")
    timing = LeaseTiming(**(times | {"duration": int(times["duration"])}))
    _check(timing)
    return timing


def _check(timing: LeaseTiming) -> None:
    if not timing.duration > timing.renew_deadline:
        raise SettingsError(
            f"{_DEADLINE}: {timing.renew_deadline:g}s must be shorter than {_DURATION}, which is "
            f"{timing.duration}s"
        )
    if not timing.renew_deadline > JITTER * timing.retry:
        raise SettingsError(
            f"{_RETRY}: {JITTER} times {timing.retry:g}s must be shorter than {_DEADLINE}, which "
            f"is {timing.renew_deadline:g}s"
        )
