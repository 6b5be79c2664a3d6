"""Content that containers read when they start: environment, subPath, files read only then."""

from __future__ import annotations

from math import inf

from hotmap.core.decide.evidence import MARGIN, ContainerStart, any_started_before, latest_time
from hotmap.core.decide.own_rollouts import was_made_for
from hotmap.core.patch.nudge import is_before
from hotmap.core.status.agent_stages import has_restarted, restart_stage
from hotmap.core.status.desired import StartChange
from hotmap.core.status.pod_facts import KUBELET_SYNC, MADE_AFTER, WAITED, PodFacts
from hotmap.core.status.stage import Confidence, Stage
from hotmap.core.text import printable

__all__ = ["read_at_start"]

_KEPT_CONTENT = Stage(Confidence.INFERRED, "its template is of this content, which has come back")


def read_at_start(facts: PodFacts, mounted: float) -> list[tuple[Stage, bool]]:
    """Judge what each container has read at its start, and say whether agents restart it."""
    desired, start = facts.desired, facts.pod.start
    stages: list[tuple[Stage, bool]] = []
    for container in start.readers(source for source, _ in desired.start_changes):
        for change in facts.changes_of(container.read):
            stages.append((_environment(facts, container, change), change.in_place))
            if change.sub_path_at != -inf:
                stages.append((_sub_path(facts, container, change, mounted), change.in_place))
        if not desired.files_read_at_start and (added := _added(facts, container, mounted)):
            stages.append((added, False))
    if desired.files_changed != -inf and desired.files_read_at_start and start.at is not None:
        is_older = any_started_before((start,), desired.files_edited_since)
        is_older |= _mounted_by(mounted) <= desired.files_edited_since
        files = _files_at_start(facts, start.at, mounted)
        latest = max((span.latest for span in start.containers), default=inf)
        stage = _or_by_template(facts, files, is_older=is_older, latest=latest)
        stages.append((stage, False))
    return stages


def _added(facts: PodFacts, container: ContainerStart, mounted: float) -> Stage | None:
    """Judge what an admission webhook makes a container read at its start.

    The pod template has this content only in files that are updated while the pod runs. None: the
    webhook added nothing of that kind.
    """
    changed = latest_time(
        at for source, at in facts.desired.live_changes if source in container.added
    )
    if changed == -inf:
        return None
    by_time = facts.known_by_time(mounted, changed)
    if by_time.reached:
        return by_time
    if changed is not None and container.span.earliest >= changed + KUBELET_SYNC:
        return Stage(Confidence.INFERRED, "restarted after the kubelet had updated its files")
    stage = facts.made_with_files() or by_time
    if stage.reached:
        return stage
    name = printable(container.name)
    why = f"container {name} reads it at its start, unlike in the pod template; {stage.reason}"
    return stage._replace(reason=why)


def _environment(facts: PodFacts, container: ContainerStart, change: StartChange) -> Stage:
    began = container.span.earliest
    by_time = facts.known_by_time(began, change.at, edited=change.edited)
    if not by_time.reached and _has_waited(container, change, change.at):
        return WAITED
    is_older = container.span.latest < change.edited_since
    return _or_otherwise(facts, by_time, container, change, change.at, is_older=is_older)


def _sub_path(
    facts: PodFacts, container: ContainerStart, change: StartChange, mounted: float
) -> Stage:
    """Judge files that are bound when a container starts (subPath)."""
    by_time = _sub_path_by_time(facts, container, change, mounted)
    # A container that started later may have been given what was there before.
    written = min(container.span.latest, _mounted_by(mounted))
    is_older = written < change.edited_since
    return _or_otherwise(facts, by_time, container, change, change.sub_path_at, is_older=is_older)


def _sub_path_by_time(
    facts: PodFacts, container: ContainerStart, change: StartChange, mounted: float
) -> Stage:
    """Judge such files by when they were written.

    The container gets what its kubelet has written by then, and that may be older than its
    start: only what the kubelet wrote after the change counts.
    """
    started, changed, pod = container.span.earliest, change.sub_path_at, facts.pod
    by_time = facts.known_by_time(mounted, changed, edited=change.edited)
    if by_time.reached or changed is None or facts.is_undated(mounted):
        return by_time
    if started >= changed + KUBELET_SYNC:
        return Stage(Confidence.INFERRED, "restarted after the kubelet had updated its files")
    if _has_waited(container, change, changed):
        return WAITED
    is_announced = pod.nudged is not None and pod.nudged.frozen == facts.desired.target.frozen
    if is_announced and pod.nudged_at is not None and started >= max(pod.nudged_at, changed):
        return Stage(Confidence.INFERRED, "restarted after the pod was nudged")
    return by_time


def _files_at_start(facts: PodFacts, started: float, mounted: float) -> Stage:
    """Judge files that are read at container start.

    The kubelet writes a volume before it pulls images, so a container that started after the
    change may have read files from before it; only the pod's own start is proof. A container
    that was restarted a sync period later read what its kubelet had updated meanwhile.
    """
    changed = facts.desired.files_changed
    by_time = facts.known_by_time(mounted, changed)
    if by_time.reached or changed is None or facts.is_undated(mounted):
        return by_time
    if started >= changed + KUBELET_SYNC:
        return Stage(Confidence.INFERRED, "restarted after the kubelet had updated its files")
    return facts.waited_for_files() or by_time


def _or_otherwise(
    facts: PodFacts,
    by_time: Stage,
    container: ContainerStart,
    change: StartChange,
    at: float | None,
    *,
    is_older: bool,
) -> Stage:
    """Fall back on the pod's template, then on its agent, where times prove nothing."""
    latest = container.span.latest
    stage = _or_by_template(facts, by_time, is_older=is_older, latest=latest)
    return _or_by_agent(facts, stage, container, change, at) if change.in_place else stage


def _or_by_template(facts: PodFacts, by_time: Stage, *, is_older: bool, latest: float) -> Stage:
    """Fall back on the pod's template where times prove nothing.

    `latest` is by when what has read the content had started, and `is_older` says that this was
    before the change, as observed; or that files were written before it, and may not have been
    updated yet.
    """
    if by_time.reached or facts.desired.pinned is not None:
        return by_time
    if facts.desired.unseen is not None:  # it may have changed since the template was written
        return Stage(Confidence.UNKNOWN, f"{facts.desired.unseen} cannot be read")
    if facts.was_made_after_changes():
        return MADE_AFTER
    # A return to earlier content brings its name back, and not the content into its pods.
    template, applied_at = facts.desired.template, facts.desired.applied_at
    if _kept_content(facts, latest):
        return _KEPT_CONTENT
    if is_older:
        return by_time
    if was_made_for(facts.pod.start, template, applied_at=applied_at):
        return Stage(Confidence.INFERRED, "its template was written for this content")
    if facts.template_current:
        why = "all pods have the template written for this content"
        return Stage(Confidence.INFERRED, why)
    return by_time


def _kept_content(facts: PodFacts, latest: float) -> bool:
    """Return whether containers that started by `latest` have the content that has come back.

    They do if their pod was made for it, and they started before it was replaced meanwhile.
    """
    desired = facts.desired
    is_same = facts.pod.start.revision == desired.written
    return is_same and latest + MARGIN <= desired.replaced_at


def _or_by_agent(
    facts: PodFacts,
    stage: Stage,
    container: ContainerStart,
    change: StartChange,
    changed: float | None,
) -> Stage:
    """Fall back on the agent that restarts containers, where their starts prove nothing.

    Times are whole seconds. A restart because of an announcement came after the change that
    was announced, though it shows as of the same second. The last change may be another: a
    return to the announced content, which is announced no more and restarts nothing.
    """
    if stage.reached or facts.agent is None:
        return stage
    if (reported := restart_stage(facts.agent, facts.announcement)) is not None:
        return reported
    if changed is None or facts.replaced is not None:
        return stage
    if facts.is_undated(container.span.earliest):
        return stage
    if change.estimated or is_before(facts.pod.nudged_at, changed):
        return stage
    if (
        container.restarted
        and container.span.latest >= changed
        and has_restarted(facts.agent, facts.announcement)
    ):
        return Stage(Confidence.PROBABLE, "its agent has restarted it for the last change")
    return stage


def _has_waited(container: ContainerStart, change: StartChange, changed: float | None) -> bool:
    """Return whether a container has waited for a creation, POSIX seconds; None: unknown."""
    if changed is None or not change.awaited or container.restarted:
        return False
    return container.span.latest >= changed


def _mounted_by(mounted: float) -> float:
    """Return by when a pod's files were written; times are whole seconds."""
    return mounted + 1
