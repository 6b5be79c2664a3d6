"""Evidence: what the starts of a consumer's pods prove about the content that they have.

A container that started after a change read the new content. `pod_starts` reads the starts from
Pods, as bounds on the API server's clock, which sources have as well. The earliest start proves
that a pod is younger than a change, the latest one that it started after a window.

Times are whole seconds, and the kubelet's own watch may lag, so only a start at least MARGIN after
the change is proof. Newest ReplicaSets and ControllerRevisions prove nothing: an undo, OnDelete
and partitions all keep old pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor, inf
from typing import NamedTuple

from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import Window

__all__ = [
    "MARGIN",
    "ContainerStart",
    "PodStart",
    "Span",
    "all_created_since",
    "all_started_after",
    "any_started_before",
    "find_pods_started_within",
    "latest_time",
]

#: Seconds: one for each of the two truncated times. Pods that started in the second of an edit were
#: observed to have the old value.
MARGIN = 2.0


class Span(NamedTuple):
    """Bounds of one start: POSIX seconds of the API server's clock."""

    earliest: float
    latest: float
    #: What the node's clock says, which is later where its kubelet saw the pod long after it was
    #: scheduled. That clock may be wrong, so this raises a suspicion and proves nothing.
    by_node: float = -inf


class ContainerStart(NamedTuple):
    """The last start of a container, and what it read then."""

    span: Span
    #: The followed sources of which it read content at its start.
    read: frozenset[ObjectKey]
    #: Whether it has run before.
    restarted: bool = False
    #: Its name, and those of the sources that it does not read at its start by the template, but by
    #: what an admission webhook has added to the pod.
    name: str = ""
    added: frozenset[ObjectKey] = frozenset()


class PodStart(NamedTuple):
    """When one pod read its configuration."""

    name: str
    #: The earliest moment at which any of it was read, POSIX seconds of the API server's clock;
    #: None while it has not started.
    at: float | None
    #: The revision its template carried.
    revision: str
    #: When each of its containers that use a source was last started.
    containers: tuple[Span, ...] = ()
    #: When it was created, POSIX seconds of the API server's clock, cut to whole seconds.
    created: float = 0.0
    #: The earliest moment at which its volumes may have been written; None: it has none yet.
    mounted: float | None = None
    #: Whether a container that uses a source has run before.
    restarted: bool = False
    #: Whether its spec lacks uses of the present template, which its controller never replaces.
    is_outdated: bool = False
    #: Its resourceVersion; 0: unknown.
    version: int = 0
    #: Whether it has the marks that Reloader's strategies have left in the present template.
    is_marked: bool = False
    #: The containers that read content when they start: others only have files, which are updated
    #: while they run.
    at_start: tuple[ContainerStart, ...] = ()

    def of_content_read_at_start(self) -> PodStart:
        """Leave out containers that only have files, where something reloads or re-reads those."""
        if not self.at_start:
            return self
        spans = tuple(container.span for container in self.at_start)
        return self._replace(at=min(span.earliest for span in spans), containers=spans)

    def readers(self, sources: Iterable[ObjectKey]) -> list[ContainerStart]:
        """List the containers that have read content at their start, and what each has read.

        Those of the sources that no container is known to have read count as read when the first
        container started.
        """
        others = set(sources).difference(*(container.read for container in self.at_start))
        if not others or self.at is None:
            return list(self.at_start)
        latest = min((span.latest for span in self.containers), default=inf)
        return [*self.at_start, ContainerStart(Span(self.at, latest), frozenset(others))]


def all_started_after(
    starts: Sequence[PodStart], changed_at: float | None, *, files: bool = False
) -> bool:
    """Return whether every pod certainly started after a change; no pods are proof.

    A pod that has not started yet will read the content at its start, so it does not contradict the
    proof. An unknown time of change counts as just now. `files` means that a volume is read: it is
    written before images are pulled.
    """
    running = [start.at for start in starts if start.at is not None]
    if files:
        running += [start.mounted for start in starts if start.mounted is not None]
    if not running:
        return True
    return changed_at is not None and all(at >= changed_at + MARGIN for at in running)


def any_started_before(starts: Sequence[PodStart], changed_at: float | None) -> bool:
    """Return whether a container certainly started before a change, so has older content.

    `changed_at` is a lower bound of the change. An unknown time proves nothing.
    """
    if changed_at is None:
        return False
    return any(span.latest < changed_at for start in starts for span in start.containers)


def all_created_since(starts: Sequence[PodStart], at: float) -> bool:
    """Return whether every pod was created in or after the second of a moment."""
    return all(start.created >= floor(at) for start in starts)


def find_pods_started_within(
    starts: Sequence[PodStart], windows: Iterable[Window]
) -> tuple[str, ...]:
    """Return the pods with a container that may have started in a window, widened by MARGIN.

    Each container counts by itself: one that crashed read its environment again, independent of the
    others.
    """
    wide = [(window.start - MARGIN, window.end + MARGIN) for window in windows]
    return tuple(
        start.name
        for start in starts
        if any(
            span.earliest <= high and low <= max(span.latest, span.by_node)
            for span in start.containers
            for low, high in wide
        )
    )


def latest_time(times: Iterable[float | None]) -> float | None:
    """Return the latest time, -inf without any; None if one is unknown."""
    found = list(times)
    return None if None in found else max((at for at in found if at is not None), default=-inf)
