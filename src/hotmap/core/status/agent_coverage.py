"""Which containers of a pod its agents reload, and which mounted files they watch.

An agent's report is about the files that it watches, for the containers that the annotation
`hotmap.dev/agent` names (`container=`). Everything else in the pod is as without an agent: another
container that mounts the same files, and files that no agent mounts. The pod's own spec decides,
not its template, since admission webhooks add containers. Ephemeral containers are not part of the
workload, and what an init container has read is not reloaded.

An entry of the annotation without `container=` is for the only container that mounts followed
files beside the agent's. That is not so for an agent that is the parent process of its application,
nor with a stage, which the application mounts instead.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hotmap.core.model.agent_containers import command_words, running_containers, runs_agent
from hotmap.core.model.annotations import AGENT
from hotmap.core.model.objects import Container, ObjectKey, Pod, PodSpec
from hotmap.core.model.references import source_key
from hotmap.core.model.volume_uses import volume_sources
from hotmap.core.text import printable

__all__ = [
    "AgentCoverage",
    "Uncovered",
    "WatchedVolume",
    "agent_coverage",
]


class WatchedVolume(NamedTuple):
    """A mounted volume with followed sources that an agent watches."""

    name: str
    sources: frozenset[ObjectKey]


class Uncovered(NamedTuple):
    """A container that reads followed files without an agent that reloads it."""

    container: str
    sources: frozenset[ObjectKey]


class AgentCoverage(NamedTuple):
    """The part of a pod that the reports of its agents are about."""

    #: One entry for each directory, where the containers of agents are known; else for each volume.
    watched: tuple[WatchedVolume, ...]
    uncovered: tuple[Uncovered, ...]
    #: The number of directories that agents watch at least; 0: unknown.
    directories: int


def agent_coverage(pod: Pod, followed: frozenset[ObjectKey]) -> AgentCoverage | None:
    """Determine what the agents of a pod are about; None: it mounts no followed source.

    `followed` are the sources that the workload's containers read as files.
    """
    volumes = _followed_volumes(pod.spec, pod.metadata.namespace, followed)
    containers = list(running_containers(pod.spec))
    mounts = {
        container.name: found for container in containers if (found := _mounts(container, volumes))
    }
    if not mounts:
        return None
    agents = [container for container in containers if runs_agent(container)]
    covered = _covered(pod, agents, mounts)
    watched = [name for container in agents for name in mounts.get(container.name, ())]
    if not agents:
        watched = sorted({name for container in covered for name in mounts.get(container, ())})
    return AgentCoverage(
        tuple(WatchedVolume(name, volumes[name]) for name in watched),
        tuple(_uncovered(mounts, volumes, covered, frozenset(watched))),
        len(watched) if agents else 0,
    )


def _uncovered(
    mounts: Mapping[str, list[str]],
    volumes: Mapping[str, frozenset[ObjectKey]],
    covered: frozenset[str],
    watched: frozenset[str],
) -> Iterator[Uncovered]:
    for container, names in mounts.items():
        left = set(names) - watched if container in covered else set(names)
        if left:
            sources = frozenset[ObjectKey]().union(*(volumes[name] for name in left))
            yield Uncovered(printable(container), sources)


def _covered(pod: Pod, agents: list[Container], mounts: Mapping[str, list[str]]) -> frozenset[str]:
    """Return the containers that agents reload, and those that they run in."""
    covered = {container.name for container in agents}
    unnamed = False
    for entry in (pod.metadata.annotations or {}).get(AGENT, "").split(","):
        parts = [part.strip() for part in entry.split(";")]
        names = [part[10:] for part in parts if part.startswith("container=")]
        covered.update(names)
        unnamed = unnamed or not names
    others = mounts.keys() - covered
    elsewhere = any({"--", "--stage"}.intersection(command_words(each)) for each in agents)
    if unnamed and len(others) == 1 and not elsewhere:
        covered |= others
    return frozenset(covered)


def _followed_volumes(
    spec: PodSpec, namespace: str, followed: frozenset[ObjectKey]
) -> dict[str, frozenset[ObjectKey]]:
    found = {}
    for volume in spec.volumes or ():
        named = volume_sources(volume)
        sources = followed.intersection(source_key(kind, namespace, name) for kind, name in named)
        if sources:
            found[volume.name] = sources
    return found


def _mounts(container: Container, volumes: Mapping[str, frozenset[ObjectKey]]) -> list[str]:
    """List the volumes that a container mounts and whose files are updated while it runs."""
    return [
        mount.name
        for mount in container.volume_mounts or ()
        if mount.name in volumes
        and not mount.sub_path_expr
        and (not mount.sub_path or posixpath.normpath(mount.sub_path) == ".")
    ]
