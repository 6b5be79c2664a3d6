"""Chooses the pods of a workload that may restart in place now.

    a pod that was told           counts as restarting until it is Ready again and its agent, if it
                                  can be asked, reports that the content is loaded
    a pod that is not Ready       may restart at once: it serves no requests
    all others                    as many at a time as maxUnavailable permits, less those that are
                                  restarting or not Ready; and as many as each
                                  PodDisruptionBudget of the pod permits
    a pod that does not come back stops the wave, until there is other content

maxUnavailable is computed as for a rolling update (kubernetes: pkg/controller/deployment,
ResolveFenceposts); at least one pod, since a restart in place has no surge (ours).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hotmap.core.decide.disruption_budget import DisruptionBudget

__all__ = ["RestartPod", "RestartProgress", "Wave", "next_wave", "pending_disruptions"]

#: Seconds after the request before a Ready pod counts as restarted if no agent confirms it: the
#: announcement and the readiness probe take some seconds.
_UNCONFIRMED_READY_TIME = 15.0

#: The same if its agent confirms it: the process has started, but a readiness probe runs only every
#: ten seconds by default.
_CONFIRMED_READY_TIME = 10.0

#: Seconds for which an agent may fail to make a process that has just started load files: a reload
#: signal waits up to a minute for its handler.
_RETRIED_FOR = 75.0

#: Seconds after which a restart has failed; the default progressDeadlineSeconds of a Deployment.
_DEADLINE = 600.0


class RestartProgress(NamedTuple):
    """The progress of a restart as the pod's agent reports it."""

    loaded: bool
    #: Why it failed; "" otherwise.
    failure: str = ""
    #: Whether the agent retries it, and may succeed.
    retried: bool = False


class RestartPod(NamedTuple):
    """The state of one pod in a restart wave."""

    name: str
    ready: bool
    #: Seconds since it was requested to restart for the desired content; None: not requested yet.
    since_request: float | None
    #: Whether its agent reports that it has loaded the content; None: it cannot be queried.
    loaded: bool | None = None
    #: Why its agent failed to load it, "" otherwise; and whether it retries that.
    failure: str = ""
    retried: bool = False

    @property
    def is_back(self) -> bool:
        """Whether it has restarted, as far as known."""
        if self.since_request is None or not self.ready:
            return False
        if self.loaded is None:
            return self.since_request >= _UNCONFIRMED_READY_TIME
        return self.loaded and self.since_request >= _CONFIRMED_READY_TIME


class Wave(NamedTuple):
    """The pods that restart now, and why the others wait; "" if none waits."""

    names: tuple[str, ...]
    reason: str = ""
    #: Whether no other pod restarts until the content changes, since a restart failed.
    stopped: bool = False
    #: Whether a PodDisruptionBudget permits none of them although all pods are healthy.
    forbidden: bool = False


def pending_disruptions(pods: Sequence[RestartPod], names: frozenset[str]) -> int:
    """Count the pods among `names` that are about to restart and still count as healthy."""
    return sum(
        pod.ready and pod.since_request is not None and not pod.is_back
        for pod in pods
        if pod.name in names
    )


def next_wave(
    pods: Sequence[RestartPod],
    *,
    max_unavailable: int,
    budgets: Sequence[DisruptionBudget] = (),
) -> Wave:
    """Choose the pods that may restart now, in the given order.

    `budgets` allow what they say besides the pods given that are about to restart.
    """
    waiting = [pod for pod in pods if pod.since_request is None]
    if not waiting:
        return Wave(())
    if failed := _find_failed(pods):
        name, why = failed
        rest = f"{len(waiting)} of {len(pods)} pods keep running with the previous content"
        return Wave((), f"Pod {name} {why}: {rest}", stopped=True)
    down = [pod.name for pod in waiting if not pod.ready]
    restarting = [pod.name for pod in pods if pod.since_request is not None and not pod.is_back]
    slots = max(0, max(1, max_unavailable) - len(down) - len(restarting))
    ready = [pod.name for pod in waiting if pod.ready]
    chosen, limit = _choose_within_budgets(ready, slots, pods, budgets)
    names = (*down, *chosen)
    left = len(waiting) - len(names)
    if not left:
        return Wave(names)
    unavailable = len(down) + len(restarting) + len(chosen)
    wait = f"{left} of {len(pods)} pods wait to restart; {unavailable} restarting or not ready, "
    if limit is None:
        return Wave(names, f"{wait}maxUnavailable is {max_unavailable}")
    if limit.is_never_satisfied and not unavailable:
        reason = (
            f"PodDisruptionBudget {limit.name} requires {limit.required} healthy pods of "
            f"{limit.expected}: {left} of {len(pods)} pods keep running with the previous content"
        )
        return Wave(names, reason, forbidden=True)
    return Wave(names, f"{wait}PodDisruptionBudget {limit.name} permits no more")


def _choose_within_budgets(
    ready: Sequence[str],
    slots: int,
    pods: Sequence[RestartPod],
    budgets: Sequence[DisruptionBudget],
) -> tuple[list[str], DisruptionBudget | None]:
    """Choose at most `slots` pods; returns the budget, if one is the reason that it is fewer."""
    left = {
        budget: max(0, budget.allowed - pending_disruptions(pods, budget.pods))
        for budget in budgets
    }
    chosen: list[str] = []
    limit = None
    for name in ready:
        if len(chosen) == slots:
            return chosen, None
        own = [budget for budget in budgets if name in budget.pods]
        if spent := [budget for budget in own if not left[budget]]:
            limit = limit or spent[0]
            continue
        chosen.append(name)
        for budget in own:
            left[budget] -= 1
    return chosen, limit


def _find_failed(pods: Sequence[RestartPod]) -> tuple[str, str] | None:
    for pod in pods:
        if pod.since_request is None:
            continue
        if pod.failure and not (pod.retried and pod.since_request < _RETRIED_FOR):
            return pod.name, pod.failure
        if not pod.is_back and pod.since_request >= _DEADLINE:
            what = "is not ready" if not pod.ready else "has not loaded the content"
            return pod.name, f"{what} {_DEADLINE:g}s after it was requested to restart"
    return None
