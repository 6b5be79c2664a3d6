"""Loads of processes that may be in progress, by the rule that has begun them.

Any load that ends confirms a probe that detects a change. So a rule with such a probe waits for a
load that another rule has begun before its own content was there: that load has not read it.
"""

from __future__ import annotations

from math import inf

__all__ = ["Loads"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hotmap.agent.decide.facts import StartAttempt
    from hotmap.agent.runtime.loop import Loop, Timer
    from hotmap.agent.settings.settings import Probe, Rule


class Loads:
    """The loads that rules have begun."""

    def __init__(self, loop: Loop, rules: Iterable[Rule], longest: float) -> None:
        """`longest`: seconds that a load takes at most."""
        self._loop = loop
        self._longest = longest
        rules = tuple(rules)
        #: By rule, the other rules whose loads confirm its probes.
        self._related = {
            rule.name: [other.name for other in rules if other is not rule and _share(rule, other)]
            for rule in rules
        }
        #: The rules whose probes are confirmed by nothing but the end of a load.
        self._detecting = {rule.name for rule in rules if _compared(rule)}
        #: By rule and by the time when a load began, until when it may end without notice. Without
        #: a limit while the action that began it is in progress.
        self._loads: dict[str, dict[float, float]] = {rule.name: {} for rule in rules}
        #: The attempts that wait, and the timers that end that.
        self._waiting: dict[Callable[[], None], Timer] = {}

    def begin(self, rule: str, since: float) -> None:
        """Record that a rule has told its process to load; its first action began at `since`.

        An earlier load of the rule may be in progress as well.
        """
        now, loads = self._loop.now(), self._loads[rule]
        for began in [began for began, until in loads.items() if until <= now]:
            del loads[began]
        loads[since] = now + self._longest

    def begin_action(self, rule: str, since: float) -> None:
        """Record that an action is in progress, which may have told the process at any time.

        `begin` or `cancel` follows when it ends.
        """
        self._loads[rule][since] = inf

    def cancel(self, rule: str, since: float) -> None:
        """Record that a rule's action has failed; attempts that wait for its load go on."""
        if self._loads[rule].pop(since, None) is not None:
            self._resume()

    def end(self, rule: str) -> None:
        """Record that a rule's probes are confirmed; those that wait go on, from the loop.

        Probes that detect no change may be confirmed before the load ends, and end no wait.

        Where another rule has begun one as well, that may be the one that has ended: a process that
        was told twice may load twice. So both may be in progress until their time is over.
        """
        if rule not in self._detecting or self._is_loading(self._related[rule]):
            return
        self._loads[rule].clear()
        self._resume()

    def _resume(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for resume, timer in waiting.items():
            timer.cancel()
            self._loop.after(0, resume)

    def postpone(self, command: StartAttempt, resume: Callable[[], None]) -> bool:
        """Return whether an attempt has to wait for a load; `resume` is called when that ends."""
        since = command.desired_since
        loads = [self._loads[name] for name in self._related[command.rule.name]]
        # What an action in progress begins after `since` reads the content of this attempt.
        ends = [
            min(until, since + self._longest)
            for found in loads
            for began, until in found.items()
            if began < since
        ]
        if max(ends, default=0.0) <= self._loop.now():
            return False
        if resume in self._waiting:
            self._waiting[resume].cancel()
        self._waiting[resume] = self._loop.at(max(ends), resume)
        return True

    def _is_loading(self, rules: Iterable[str]) -> bool:
        now = self._loop.now()
        return any(until > now for name in rules for until in self._loads[name].values())


def _share(rule: Rule, other: Rule) -> bool:
    """Whether a load of the other rule confirms a probe of this one."""
    compared = _compared(rule)
    return bool(compared) and bool(
        compared & _compared(other) or _processes(rule) & _processes(other)
    )


def _compared(rule: Rule) -> set[Probe]:
    return {probe for probe in rule.probes if probe.compares}


def _processes(rule: Rule) -> set[str]:
    """Return the processes that a rule acts on, as they are named there."""
    return {action.target for action in rule.actions if action.target}
