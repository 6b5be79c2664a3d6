"""When the pods of a consumer started: bounds on the API server's clock.

Two clocks are involved: sources and the creation of pods have times of the API server's clock,
`startTime` and `startedAt` of the node's, which may be wrong by minutes. So a start is converted:

    a pod's creation (API server)  +  startedAt − startTime (both the node's, so that clock's error
    cancels out)

* in the ordinary case it lies between that (less one second, as both are whole seconds) and the
  same counted from when the pod was scheduled (plus one)
* `startedAt` before `startTime`, or later than the status was last reported: the clock was set in
  between. Then the start lies between the creation and that report
* where the node's clock says that it is later than these bounds, its kubelet may have seen the pod
  late; it may have started in a window until then
* the files of an init container are written between the creation and its last start

The scheduling is a condition that the API server stamps when it binds a pod (kubernetes:
pkg/registry/core/pod/storage), the report an entry of managedFields. A restart long after a clock
was set, hidden by a later report, is not detected.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from math import inf

from hotmap.core.decide.evidence import ContainerStart, PodStart, Span
from hotmap.core.model.agent_containers import running_containers
from hotmap.core.model.consumer import REVISION, Consumer
from hotmap.core.model.limits import LimitExceeded
from hotmap.core.model.objects import (
    ContainerState,
    ContainerStatus,
    ObjectKey,
    Pod,
    PodTemplate,
)
from hotmap.core.model.pod_conditions import FINISHED
from hotmap.core.model.references import Use, UseKind
from hotmap.core.model.source import parse_time
from hotmap.core.model.template_uses import find_users, find_uses
from hotmap.core.model.uses import uses_of_template
from hotmap.core.reloader.patch import has_marks_of
from hotmap.core.resource_version import version_number

__all__ = ["earliest_mount", "pod_starts"]

#: Kinds whose controller leaves pods of an earlier template as they are (kubernetes: ReplicaSet,
#: "the pod template"; CronJob, "modifying a CronJob").
_KEEP_PODS = ("ReplicaSet", "CronJob")


def pod_starts(
    consumer: Consumer,
    pods: Iterable[Pod],
    *,
    followed: Sequence[Use] | None = None,
) -> tuple[PodStart, ...]:
    """Reduce a consumer's pods to their starts; terminating and finished ones do not count.

    The start is the earliest among the containers that use a source, so that one restarted
    container is no evidence for the others; with files of an init container it is the pod's
    creation, as they were written then. Containers that an admission webhook added count too.

    `followed` are the uses that count for `PodStart.at_start`, by default all. Of a source that is
    followed by name, any container of an application counts.
    """
    uses = [use for use in consumer.uses if use.kind in (UseKind.FROZEN, UseKind.LIVE)]
    mounting = [use for use in consumer.uses if use.kind is UseKind.FOREIGN and not use.init]
    # Without any of the former, each container counts.
    counted = [*uses, *mounting] if uses else []

    def start(pod: Pod) -> PodStart:
        readers = _readers(pod, uses if followed is None else followed, consumer.applications)
        return _pod_start(pod, counted)._replace(at_start=tuple(readers))

    found = (
        (pod, _with_marks(start(pod), consumer, pod))
        for pod in pods
        if not pod.metadata.deletion_timestamp and pod.status.phase not in FINISHED
    )
    if consumer.key.kind not in _KEEP_PODS:
        return tuple(start for _, start in found)
    wanted = set(map(_what_is_used, uses))
    return tuple(
        start._replace(is_outdated=not wanted <= _used_by(pod, consumer.key.namespace))
        for pod, start in found
    )


def _with_marks(start: PodStart, consumer: Consumer, pod: Pod) -> PodStart:
    if consumer.traces is None:
        return start
    annotations = pod.metadata.annotations or {}
    is_marked = has_marks_of(consumer.traces, pod.spec.containers or (), annotations)
    return start._replace(is_marked=is_marked)


def _used_by(pod: Pod, namespace: str) -> set[Hashable]:
    """Return what a pod uses by its own spec; an admission webhook may have added to that."""
    return set(map(_what_is_used, uses_of_template(PodTemplate(spec=pod.spec), namespace)))


def _what_is_used(use: Use) -> Hashable:
    return use.source, use.kind, use.container, use.keys.names


def _pod_start(pod: Pod, uses: Sequence[Use]) -> PodStart:
    users, init = _users(pod, uses)
    counted = [
        (status, at) for status, at in _container_starts(pod) if status.name in users or not users
    ]
    spans = [_span(pod, at) for _, at in counted if at is not None]
    spans += [start.span for _, start in _init_starts(pod, init, uses)]
    revision = (pod.metadata.annotations or {}).get(REVISION, "")
    at = min((span.earliest for span in spans), default=None)
    created = parse_time(pod.metadata.creation_timestamp) or 0.0
    return PodStart(
        pod.metadata.name,
        at,
        revision,
        tuple(spans),
        created,
        earliest_mount(pod),
        restarted=any(status.restart_count for status, _ in counted),
        version=version_number(pod.metadata.resource_version),
    )


def _users(pod: Pod, uses: Sequence[Use]) -> tuple[set[str], set[str]]:
    """Name the containers with these uses of sources, and those that a webhook added to a pod.

    None are named if it may be any. The second value are the init containers among them.
    """
    init = {use.container for use in uses if use.init}
    users = {use.container for use in uses}
    if not users or not all(users):  # a source that is followed by name may be read by any
        return set(), (init - {""}) | (_init_containers(pod) if "" in init else set())
    found = find_users(pod.spec, pod.metadata.namespace, {use.source for use in uses})
    added = found.keys() - users
    return users | added, init | (added & _init_containers(pod))


def _init_containers(pod: Pod) -> set[str]:
    """Name the init containers that run to completion."""
    found = pod.spec.init_containers or ()
    return {each.name for each in found if each.restart_policy != "Always"}


def _readers(
    pod: Pod, followed: Sequence[Use], applications: Sequence[str]
) -> Iterator[ContainerStart]:
    """List the containers of a pod that read content when they start, as far as they have started.

    What the pod's own spec has in addition to the template counts too.
    """
    frozen = [use for use in followed if use.kind is UseKind.FROZEN]
    sources = {use.source for use in followed}
    read = find_users(pod.spec, pod.metadata.namespace, sources, only_at_start=True)
    by_template: dict[str, set[ObjectKey]] = {}
    for use in frozen:
        by_template.setdefault(use.container, set()).add(use.source)
    added = _added_reads(pod, read, by_template)
    init = _init_containers(pod).union(use.container for use in frozen if use.init)
    for use in frozen:
        for name in (use.container,) if use.container else applications or _running_names(pod):
            read.setdefault(name, set()).add(use.source)
    by_init = {name: frozenset(read.pop(name)) for name in init & read.keys()}
    for name, start in _init_starts(pod, by_init, followed):
        yield start._replace(read=by_init[name], name=name, added=added.get(name, frozenset()))
    for status, at in _container_starts(pod):
        if at is not None and (names := read.get(status.name)):
            yield ContainerStart(
                _span(pod, at),
                frozenset(names),
                bool(status.restart_count),
                status.name,
                added.get(status.name, frozenset()),
            )


def _added_reads(
    pod: Pod, read: Mapping[str, Set[ObjectKey]], by_template: Mapping[str, Set[ObjectKey]]
) -> dict[str, frozenset[ObjectKey]]:
    """Name what containers of a pod read at their start, and not by its template.

    `read` is what they may read: a subPath of a volume with several sources counts as all of them.
    So where that is more than in the template, the pod's own uses are found as the template's are.
    """
    more = {name: names - by_template.get(name, frozenset()) for name, names in read.items()}
    if not any(more.values()):
        return {}
    try:
        uses = find_uses(PodTemplate(spec=pod.spec), pod.metadata.namespace)
    except LimitExceeded:
        return {name: frozenset(names) for name, names in more.items()}
    frozen = {(use.container, use.source) for use in uses if use.kind is UseKind.FROZEN}
    return {
        name: frozenset(source for source in names if (name, source) in frozen)
        for name, names in more.items()
    }


def _init_starts(
    pod: Pod, names: Collection[str], uses: Sequence[Use]
) -> Iterator[tuple[str, ContainerStart]]:
    """Bound when each of these init containers has read content, as far as it has.

    What it mounts is written between the acknowledgement of the pod and its last start; its
    environment is read at that start.
    """
    acknowledged = parse_time(pod.status.start_time)
    if acknowledged is None:
        return
    statuses = {status.name: status for status in pod.status.init_container_statuses or ()}
    for name in sorted(names):
        span = _span(pod, acknowledged)
        if (status := statuses.get(name)) is None:  # none is reported yet
            yield name, ContainerStart(span, frozenset())
            continue
        started, restarted = _started_at(status.state, ended=True), bool(status.restart_count)
        last = span._replace(latest=inf) if started is None else _span(pod, started)
        if restarted or _may_read_files(name, uses):
            yield name, ContainerStart(span._replace(latest=last.latest), frozenset(), restarted)
        elif started is not None:
            yield name, ContainerStart(last, frozenset())


def _may_read_files(init_container: str, uses: Iterable[Use]) -> bool:
    """Return whether an init container may read files of a source; one that was added may."""
    known = [use for use in uses if use.init and use.container == init_container]
    return not known or any(use.reads_files for use in known)


def _running_names(pod: Pod) -> Sequence[str]:
    return [container.name for container in running_containers(pod.spec)]


def earliest_mount(pod: Pod) -> float | None:
    """Bound when a pod's volumes were written: POSIX seconds of the API server's clock.

    A kubelet mounts nothing before the pod is bound to its node, and it mounts before it pulls
    images, so this can be minutes before any container starts. None while it has not acknowledged
    the pod.
    """
    if parse_time(pod.status.start_time) is None:
        return None
    return max(parse_time(pod.metadata.creation_timestamp) or 0.0, _scheduled_at(pod))


def _container_starts(pod: Pod) -> list[tuple[ContainerStatus, float | None]]:
    """List when containers started, on the node's clock; None: one is down.

    An init container that has ended has read its content; another container that ended restarts.
    """
    init = [
        (status, _started_at(status.state, ended=True))
        for status in pod.status.init_container_statuses or ()
    ]
    return init + [
        (status, _started_at(status.state, ended=False))
        for status in pod.status.container_statuses or ()
    ]


def _started_at(state: ContainerState | None, *, ended: bool) -> float | None:
    if state is None:
        return None
    if state.running:
        return parse_time(state.running.started_at)
    return parse_time(state.terminated.started_at) if state.terminated and ended else None


def _span(pod: Pod, at: float) -> Span:
    """Convert a start on the node's clock to bounds on the API server's, as described above."""
    created = parse_time(pod.metadata.creation_timestamp) or 0.0
    reported = _reported_at(pod)
    acknowledged = parse_time(pod.status.start_time)
    running_for = -inf if acknowledged is None else at - acknowledged
    if running_for < 0 or created + running_for - 1 > reported:
        return Span(created, max(created, reported))
    latest = max(created, _scheduled_at(pod)) + running_for + 1
    limit = max(created, reported)
    return Span(created + max(0.0, running_for - 1), min(latest, limit), min(at + 1, limit))


def _reported_at(pod: Pod) -> float:
    """Return by when everything in a pod's status had happened; infinity if unknown."""
    times = [
        at
        for entry in pod.metadata.managed_fields or ()
        if entry.subresource == "status" and (at := parse_time(entry.time)) is not None
    ]
    return max(times) + 1 if times else inf


def _scheduled_at(pod: Pod) -> float:
    times = [
        parse_time(condition.last_transition_time)
        for condition in pod.status.conditions or ()
        if condition.type == "PodScheduled" and condition.status == "True"
    ]
    return times[0] or 0.0 if times else 0.0
