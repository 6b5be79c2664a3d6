"""Files that are updated and reloaded while a pod runs: projected, and loaded with that."""

from __future__ import annotations

from math import inf

from hotmap.core.decide.evidence import latest_time
from hotmap.core.duration import format_age
from hotmap.core.patch.nudge import is_before
from hotmap.core.status.agent_announcement import delivered_by_nudge
from hotmap.core.status.agent_coverage import Uncovered
from hotmap.core.status.agent_stages import agent_stage, projected_by_agent
from hotmap.core.status.pod_facts import KUBELET_SYNC, PodFacts
from hotmap.core.status.stage import Confidence, PodState, Stage, weakest

__all__ = ["projected_files", "reloaded_files", "reread_files"]


def projected_files(facts: PodFacts, mounted: float) -> Stage:
    """Judge the content of mounted files."""
    by_time = facts.known_by_time(mounted, facts.desired.files_changed)
    if by_time.reached:
        return by_time
    synced = facts.made_with_files() or _synced(facts, by_time)
    if facts.agent is not None:
        by_agent = projected_by_agent(facts.agent, facts.announcement, synced=synced)
        if by_agent is not None:
            return _unless_kept(facts, by_agent)
    return _delivered(facts, synced)


def reloaded_files(facts: PodFacts, files: Stage, mounted: float) -> Stage:
    """Judge files that something in the pod reloads while it runs."""
    by_start = facts.known_by_time(mounted, facts.desired.files_changed)
    if not by_start.reached:
        by_start = facts.made_with_files() or by_start
    if by_start.reached:
        return by_start
    if facts.agent is None:
        return _reread(facts, files)
    by_agent = agent_stage(facts.agent, facts.announcement, synced=_synced(facts, by_start))
    stage = _unless_kept(facts, by_agent)
    uncovered = facts.pod.coverage.uncovered if facts.pod.coverage else ()
    return weakest([stage, *(_without_agent(facts, each, mounted) for each in uncovered)])


def _unless_kept(facts: PodFacts, stage: Stage) -> Stage:
    """Return what a kubelet may keep, although it has had the time to update the files."""
    if facts.replaced is None or stage.state is not PodState.WAITING:
        return stage
    if facts.desired.pinned is not None:
        return facts.kept_by_kubelet()
    created = dict(facts.desired.immutable).get(facts.replaced, inf)
    return facts.kept_by_kubelet() if facts.now >= created + KUBELET_SYNC else stage


def _without_agent(facts: PodFacts, container: Uncovered, mounted: float) -> Stage:
    """Assess the files of a container that no agent reloads, as in a pod without an agent."""
    changed = latest_time(at for key, at in facts.desired.live_changes if key in container.sources)
    by_start = facts.known_by_time(mounted, changed)
    if by_start.reached:
        return by_start
    stage = _reread(facts, _delivered(facts, _synced(facts, by_start)))
    if not stage.reached and stage.state is None:
        stage = stage._replace(state=PodState.WAITING)
    reason = f"container {container.container} has no agent, and {stage.reason}"
    return stage._replace(reason=reason)


def _reread(facts: PodFacts, files: Stage) -> Stage:
    """Judge files that an application re-reads without reporting it."""
    return reread_files(facts, _delivered_at(facts)) if files.reached else files


def reread_files(facts: PodFacts, delivered: float | None) -> Stage:
    """Judge files that were updated by some time, POSIX seconds; None: unknown."""
    seconds = facts.desired.rereads_within
    if not facts.desired.rereads:
        why = "its files are updated; nothing is known to re-read them"
        return Stage(Confidence.INFERRED, why, PodState.DELIVERED)
    if not seconds or delivered is None:
        why = "its files are updated; nothing shows whether the application has re-read them"
        return Stage(Confidence.INFERRED, why, PodState.DELIVERED)
    within = format_age(seconds)
    if facts.now < delivered + seconds:
        why = f"its files are updated; the application re-reads them within {within}"
        due = delivered + seconds
        return Stage(Confidence.UNKNOWN, why, PodState.LOADING, reached_at=due)
    updated = format_age(facts.now - delivered)
    why = f"its files were updated {updated} ago; the application re-reads them within {within}"
    return Stage(Confidence.INFERRED, why)


def _delivered(facts: PodFacts, synced: Stage) -> Stage:
    """Judge whether the kubelet has updated files, by its sync period or a nudge."""
    nudged = facts.pod.nudged
    if nudged is None or nudged.live != facts.desired.target.live or facts.replaced is not None:
        return synced
    if is_before(facts.pod.nudged_at, facts.desired.files_changed):
        return synced
    delivered = _delivered_at(facts)
    if delivered is None or facts.now >= delivered:
        return Stage(Confidence.INFERRED, "the pod was nudged after the change")
    return Stage(Confidence.UNKNOWN, "the pod was nudged, and its kubelet updates the files")


def _delivered_at(facts: PodFacts) -> float | None:
    """Return by when the kubelet has updated the files, POSIX seconds; None: unknown."""
    changed = facts.desired.files_changed
    by_sync = inf if changed is None else changed + KUBELET_SYNC
    delivered = min(delivered_by_nudge(facts.desired, facts.pod), by_sync)
    return None if delivered == inf else delivered


def _synced(facts: PodFacts, by_time: Stage) -> Stage:
    changed = facts.desired.files_changed
    if changed is not None and facts.now >= changed + KUBELET_SYNC:
        return Stage(Confidence.INFERRED, "the kubelet has synced the pod since the change")
    return by_time
