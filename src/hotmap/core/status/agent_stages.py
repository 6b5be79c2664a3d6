"""What the answer of an agent proves about the content of its pod.

An answer about an earlier announcement proves nothing about this one. The document itself is
`agent_answers`; which containers and files an agent is responsible for is `agent_coverage`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf

from hotmap.core.decide.evidence import MARGIN
from hotmap.core.decide.restart_wave import RestartProgress
from hotmap.core.status.agent_announcement import AgentAnnouncement
from hotmap.core.status.agent_answers import (
    AgentAnswer,
    AgentDirectory,
    AgentReport,
    AgentState,
    Evidence,
)
from hotmap.core.status.stage import Confidence, PodState, Stage
from hotmap.core.target import Target

__all__ = [
    "agent_stage",
    "has_restarted",
    "is_final",
    "projected_by_agent",
    "restart_progress",
    "restart_stage",
]

#: Seconds by which the controller's and the agent's measurements of a time may differ.
_CLOCKS = 1.0

#: The state of a pod for each state of its agent, with the reason.
_TROUBLE = {
    AgentState.WAITING: (PodState.WAITING, "its files are not updated yet"),
    AgentState.SETTLING: (PodState.SETTLING, "its agent waits until the files are complete"),
    AgentState.CHECKING: (PodState.CHECKING, "its agent is checking the content"),
    AgentState.LOADING: (PodState.LOADING, "its agent is reloading the process"),
    AgentState.RESTARTING: (
        PodState.RESTARTING,
        "its agent is restarting the process, or waits until it has run for a while (--min-uptime)",
    ),
    AgentState.UNREADABLE: (PodState.FAILED, "its agent cannot read the files"),
    AgentState.CHECK_FAILED: (PodState.FAILED, "the check of its agent could not run"),
    AgentState.FAILED: (PodState.FAILED, "the process did not load the content"),
    AgentState.REFUSED: (PodState.REFUSED, "the content did not pass the check of its agent"),
}


def is_final(report: AgentReport, announcement: AgentAnnouncement) -> bool:
    """Return whether another query about the same content would return nothing new."""
    answer, nudged = report.answer, announcement.nudged
    if answer is None or answer.live != announcement.desired.live:
        return False
    if nudged is not None and answer.frozen != nudged.frozen:
        return False
    if not agent_stage(report, announcement, synced=_NOT_SYNCED).reached:
        return False  # what is missing may arrive
    best = (AgentState.NONE, AgentState.LOADED, AgentState.TOLD)
    return answer.worst in best and answer.restart.state in best


def agent_stage(report: AgentReport, announcement: AgentAnnouncement, *, synced: Stage) -> Stage:
    """Determine from an agent's report whether the process has loaded the desired files.

    `synced` says by time alone whether the kubelet has updated the files.

    An answer about an earlier announcement proves nothing about this one. If the pod was not
    nudged, as after an adoption, the report counts for the files that are present by time.
    """
    answer, desired = report.answer, announcement.desired
    if answer is None:
        return _unknown(report.problem)
    if report.at is not None:
        announcement = announcement._replace(now=report.at)
    announced = answer.live == desired.live
    if synced.reached or not announced:
        # It waits for content that none of its directories has, or that is no longer desired.
        answer = answer.of_present_files
    nudged = announcement.nudged
    if not announced and nudged is not None and nudged.live == desired.live:
        return _waiting("the announcement has not reached its agent yet")
    if answer.worst in _TROUBLE:
        return _trouble(answer.worst, answer)
    if not answer.directories:
        return _unknown("its agent watches no files")
    files = _matched(answer, announcement, synced) if announced else synced
    if not files.reached:
        return files if announced else files._replace(state=PodState.WAITING)
    if answer.worst is AgentState.TOLD:
        reason = "nothing confirms that its process has loaded all files"
        return Stage(Confidence.INFERRED, reason, PodState.TOLD)
    return files


def projected_by_agent(
    report: AgentReport, announcement: AgentAnnouncement, *, synced: Stage
) -> Stage | None:
    """Determine from an agent's report whether the files are present; None: unknown."""
    answer = report.answer
    if answer is None or answer.live != announcement.desired.live:
        return None
    awaits = any(each.state is AgentState.WAITING for each in answer.directories)
    if awaits and not synced.reached:
        return _waiting("its files are not updated yet")
    if report.at is not None:
        announcement = announcement._replace(now=report.at)
    return _matched(answer, announcement, synced)


def _matched(answer: AgentAnswer, announcement: AgentAnnouncement, synced: Stage) -> Stage:
    """Compare the files of a pod with the announcement."""
    if len(answer.directories) < announcement.directories:
        return _waiting("its agent does not watch all directories that its container mounts")
    exact = Counter(each.payload for each in answer.directories if each.evidence is Evidence.EXACT)
    if Counter(announcement.desired.payloads) - exact:
        return _waiting("its agent does not find all announced files in the directories it watches")
    others = [each for each in answer.directories if each.evidence is not Evidence.EXACT]
    if all(at == -inf for at in announcement.order_changes):
        return Stage(Confidence.PROVEN, "its agent has loaded the announced content")
    inferred = Stage(Confidence.INFERRED, "its agent has loaded the files of the announcement")
    # Files of a directory that has no followed source come without an announcement, and may be
    # taken for the announced ones of another.
    known = announcement.directories or len(announcement.order_changes) + len(
        announcement.desired.payloads
    )
    ordered = len(answer.directories) <= known and all(
        other.evidence is Evidence.ORDER for other in others
    )
    if synced.reached or _is_updated(others, announcement, ordered=ordered):
        return inferred
    return _waiting("its files may not be updated yet")


def _is_updated(
    directories: Sequence[AgentDirectory], announcement: AgentAnnouncement, *, ordered: bool
) -> bool:
    """Return whether the last updates of some directories belong to the last changes.

    If announcements and updates arrived in order, an update must not be older than its change.
    Otherwise it may belong to the previous change, so it must be clearly younger than its change,
    or the kubelet must have had the time to update the files again. Which directory has which
    source is not known, so the latest updates are compared with the latest changes: kubelets watch
    each source separately, and one may arrive long after another.
    """
    changes = sorted((inf if at is None else at for at in announcement.order_changes), reverse=True)
    updates = sorted(
        (-inf if each.age is None else announcement.now - each.age for each in directories),
        reverse=True,
    )
    is_last = ordered or announcement.now >= announcement.delivered_at
    margin = -_CLOCKS if is_last else MARGIN
    return len(updates) >= len(changes) and all(
        changed == -inf or updated >= changed + margin
        for updated, changed in zip(updates, changes, strict=False)
    )


def restart_stage(report: AgentReport, announcement: AgentAnnouncement) -> Stage | None:
    """Return the state of a restart for content read at start; None: no problem is reported.

    A completed restart shows in the start of the containers; where that leaves open whether it was
    after the change, `has_restarted` is evidence as well.
    """
    answer, desired = report.answer, announcement.desired
    if answer is None:
        return _unknown(report.problem)
    nudged = announcement.nudged
    if answer.frozen != desired.frozen and nudged is not None and nudged.frozen == desired.frozen:
        return _waiting("the announcement has not reached its agent yet")
    return _trouble(answer.restart.state, answer) if answer.restart.state in _TROUBLE else None


def has_restarted(report: AgentReport, announcement: AgentAnnouncement) -> bool:
    """Return whether an agent has restarted its application for the desired content.

    Agents of earlier versions report the same of content that was announced first, so containers
    must have restarted.
    """
    answer, frozen = report.answer, announcement.desired.frozen
    if answer is None or answer.frozen != frozen:
        return False
    return answer.restart.state is AgentState.LOADED and answer.restart.fingerprint == frozen


def restart_progress(report: AgentReport, desired: Target) -> RestartProgress | None:
    """Return whether an agent has restarted its process for the desired content; None: unknown."""
    answer = report.answer
    if answer is None:
        return None
    if (answer.live, answer.frozen) != (desired.live, desired.frozen):
        return RestartProgress(loaded=False)
    for state in (answer.restart.state, answer.worst):
        if state in _TROUBLE and _TROUBLE[state][0] in (PodState.FAILED, PodState.REFUSED):
            why = f"did not restart: {_TROUBLE[state][1]}"
            # Of files it may succeed once the process is ready, which has just started.
            is_restart = state is answer.restart.state
            is_retried = _TROUBLE[state][0] is PodState.FAILED and not is_restart
            return RestartProgress(loaded=False, failure=why, retried=is_retried)
    best = (AgentState.NONE, AgentState.LOADED, AgentState.TOLD)
    return RestartProgress(loaded=answer.restart.state in best and answer.worst in best)


_NOT_SYNCED = Stage(Confidence.UNKNOWN, "")


def _trouble(worst: AgentState, answer: AgentAnswer) -> Stage:
    state, reason = _TROUBLE[worst]
    if answer.exit_status is not None and worst in (AgentState.REFUSED, AgentState.CHECK_FAILED):
        reason += f" (exit status {answer.exit_status})"
    # The shell's exit statuses for a program that does not exist or cannot be executed.
    permanent = worst is AgentState.CHECK_FAILED and answer.exit_status in (126, 127)
    return Stage(Confidence.UNKNOWN, reason, state, permanent)


def _waiting(reason: str) -> Stage:
    return Stage(Confidence.UNKNOWN, reason, PodState.WAITING)


def _unknown(reason: str) -> Stage:
    return Stage(Confidence.UNKNOWN, reason, PodState.UNKNOWN)
