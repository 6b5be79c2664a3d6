"""A simulated cluster whose pods have agents, and kubelets that update one volume after the other.

A kubelet syncs a pod when its annotation changes, and every minute or so. It writes each volume
with what its own watch of the sources has delivered by then.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from math import inf
from typing import Any

import msgspec
from tests.simulation.agents import MountedVolume, SimulatedAgent
from tests.simulation.applications import Application
from tests.simulation.cluster import Cluster
from tests.simulation.pods import (
    Content,
    SimulatedPod,
    SimulatedTemplate,
    is_complete,
    rfc3339,
)

from hotmap.core.model.consumer import FIELD_MANAGER
from hotmap.core.model.objects import (
    ContainerState,
    ContainerStateTerminated,
    Pod,
    PodSpec,
)
from hotmap.core.model.references import Use, UseKind
from hotmap.core.payload import downward_map
from hotmap.core.target import TARGET

__all__ = ["AgentCluster", "AgentPod"]

#: The name of the volume with the pod's annotations.
_POD = "hotmap-pod"

#: Seconds between two syncs of a pod that nothing else causes.
_SYNC = (60.0, 90.0)


#: The state of a container between two starts.
_ENDED = ContainerState(terminated=ContainerStateTerminated(reason="Completed"))


def _volume_of(use: Use) -> str:
    """Return the name of the volume of a live use."""
    return use.path.partition("[")[2].partition("]")[0]


class AgentPod(SimulatedPod):
    """A pod with agents."""

    def __init__(self, name: str, template: SimulatedTemplate, at: float, **options: Any) -> None:
        self.uid: str = options.pop("uid")
        self.restart_delay: Callable[[], float] = options.pop("restart_delay")
        super().__init__(name, template, at, **options)
        #: The target of its annotation, as the API server and its file have it, and since when.
        self.target = self._shown_target = ""
        self.nudged_at: float | None = None
        self.volumes: dict[str, MountedVolume] = {}
        #: When its kubelet writes each volume next, and when it syncs the pod by itself.
        self.writes: dict[str, float] = {}
        self.syncs_at = inf
        #: Up to when the kubelet has seen the changes of each source.
        self.seen: dict[str, float] = {}
        self.applications: dict[str, Application] = {}
        self.agents: dict[str, SimulatedAgent] = {}
        #: How often each container was started.
        self.starts: Counter[str] = Counter()
        #: When containers that have ended start again.
        self.restarts: dict[str, float] = {}

    def live_uses(self) -> list[Use]:
        return [use for use in self.template.uses() if use.kind is UseKind.LIVE]

    def directory(self, volume: str) -> dict[str, str]:
        """Return the files of a volume."""
        found: dict[str, str] = {}
        for use in self.live_uses():
            if _volume_of(use) == volume:
                found |= self.files[use]
        return found

    def annotations_file(self) -> str:
        """Return the file with the pod's annotations."""
        values = self.template.annotations()
        return downward_map(values | ({TARGET: self._shown_target} if self._shown_target else {}))

    def terminate(self, container: str, now: float) -> None:
        """End a container's process; its kubelet starts the container again."""
        if self.applications.pop(container, None) is not None:
            self.restarts[container] = now + self.restart_delay()

    def show_annotations(self) -> None:
        """Write that file."""
        self._shown_target = self.target

    def observed(self, now: float) -> Pod:
        """Show it as the API server does."""
        pod = super().observed(now)
        metadata: dict[str, Any] = {**msgspec.to_builtins(pod.metadata), "uid": self.uid}
        if self.target:
            metadata["annotations"] = {**metadata["annotations"], TARGET: self.target}
            at = rfc3339(self.nudged_at or 0.0)
            metadata["managedFields"] = [{"manager": FIELD_MANAGER, "time": at}]
        statuses = [
            msgspec.structs.replace(status, ready=False, state=_ENDED)
            if status.name in self.restarts
            else status
            for status in pod.status.container_statuses or ()
        ]
        return msgspec.structs.replace(
            pod,
            metadata=msgspec.convert(metadata, type(pod.metadata)),
            spec=msgspec.convert(self.template.pod_spec(), PodSpec),
            status=msgspec.structs.replace(
                pod.status, pod_ip="10.0.0.1", container_statuses=statuses
            ),
        )


class AgentCluster(Cluster):
    """The cluster; agents and applications move on with each step."""

    pods: list[AgentPod]  # type: ignore[assignment]

    def __init__(self, chance: random.Random, kind: str, template: int) -> None:
        #: Whether agents, and whether applications, refuse some content.
        self.agents_check = chance.random() < 0.3
        self.applications_refuse = chance.random() < 0.3
        #: By how many seconds kubelets see a change late.
        self.lags = chance.choice(((0.0,), (0.0, 0.05, 0.3), (0.0, 0.3, 1.0)))
        #: The share of requests that reach no agent.
        self.unreachable = 0.05
        super().__init__(chance, kind, template)

    def first_data(self, name: str) -> Content:
        """Return what a source holds at first: no two have the same, as is usual."""
        return {**super().first_data(name), "name": name}

    # -- what happens to it --------------------------------------------------------------------

    def nudge(self, uid: str, target: str) -> bool:
        """Annotate a pod, so that its kubelet syncs it; returns whether it is there."""
        for pod in self.pods:
            if pod.uid == uid:
                pod.target, pod.nudged_at = target, self.now
                self._sync(pod, self.now + self.chance.choice((0.0, 0.05, 0.3)))
                return True
        return False

    def restart_agent(self) -> None:
        """End an agent; its container starts again."""
        if agents := [agent for pod in self.pods for agent in pod.agents.values()]:
            agent = self.chance.choice(agents)
            agent.restart(self.now + self.chance.choice((0.3, 1.0, 10.0, 40.0)))

    def sync_pod(self) -> None:
        """Let a kubelet sync a pod, for any reason."""
        if self.pods:
            self._sync(self.chance.choice(self.pods), self.now)

    def crash_container(self) -> None:
        """End a container; its kubelet starts it again a moment later."""
        if running := [pod for pod in self.pods if pod.applications and pod.ends is None]:
            pod = self.chance.choice(running)
            pod.terminate(self.chance.choice(sorted(pod.applications)), self.now)

    # -- kubelets ------------------------------------------------------------------------------

    def make_pod(self, template: SimulatedTemplate, *, number: int = -1) -> None:
        self._made += 1
        name = f"web-{number}" if self.kind == "StatefulSet" else f"web-{self._made}"
        self.pods.append(
            AgentPod(
                name,
                template,
                self.now,
                uid=f"uid-pod-{self._made}",
                restart_delay=lambda: self.chance.choice((0.3, 1.0, 3.0)),
                number=number,
                node=f"node-{number}" if self.kind == "DaemonSet" else "node",
                ahead=self._node_ahead,
            )
        )

    def _serve(self, pod: SimulatedPod) -> None:
        assert isinstance(pod, AgentPod)
        if pod.mounted is None or pod.started is None:
            if pod.ends is None and self._can_start(pod) and self.chance.random() < 0.5:
                self._start(pod)
            return
        if pod.ends is None:
            if self.now >= pod.syncs_at:
                self._sync(pod, self.now)
            for volume, at in tuple(pod.writes.items()):
                if at <= self.now:
                    del pod.writes[volume]
                    self._write(pod, volume)
            for name, at in tuple(pod.restarts.items()):
                if at <= self.now and self._can_start(pod):
                    del pod.restarts[name]
                    self._start_container(pod, name)
        for application in pod.applications.values():
            application.step(self.now)
        for agent in pod.agents.values():
            agent.step(self.now)

    def _start(self, pod: AgentPod) -> None:
        """Mount the volumes of a pod, then start its containers."""
        if pod.mounted is None:
            pod.mounted = self.now
            lag = self._lag()
            for use in pod.template.uses():
                pod.files[use] = self._served(pod, use, self.now - lag)
                pod.seen[use.source.name] = self.now - lag
            names = sorted({_volume_of(use) for use in pod.live_uses()})
            pod.volumes = {name: MountedVolume(self.now) for name in names}
            return
        for container in pod.template.pod_spec()["initContainers"]:
            pod.agents[container["name"]] = SimulatedAgent(
                pod,
                tuple(container["args"]),
                self.chance,
                checks=self.agents_check,
                starts_at=self.now + self.chance.choice((0.0, 0.0, 3.0)),
            )
        for name in pod.template.containers():
            self._start_container(pod, name)
        pod.syncs_at = self.now + self.chance.uniform(*_SYNC)

    def _start_container(self, pod: SimulatedPod, name: str) -> None:
        super()._start_container(pod, name)
        assert isinstance(pod, AgentPod)
        pod.starts[name] += 1
        pod.applications[name] = Application(
            pod, name, self.chance, refuses=self.applications_refuse
        )

    def _sync(self, pod: AgentPod, at: float) -> None:
        """Write all volumes of a pod soon after a time, in any order."""
        for volume in (*pod.volumes, _POD):
            due = at + self.chance.choice((0.0, 0.1, 0.2))
            pod.writes[volume] = min(due, pod.writes.get(volume, inf))
        pod.syncs_at = at + self.chance.uniform(*_SYNC)

    def _write(self, pod: AgentPod, volume: str) -> None:
        """Update one volume with what the kubelet knows; a missing source leaves it as it is."""
        if volume == _POD:
            pod.show_annotations()
            return
        uses = [use for use in pod.live_uses() if _volume_of(use) == volume]
        for name in sorted({use.source.name for use in uses}):
            seen = self.now - self.chance.choice(self.lags)
            pod.seen[name] = max(pod.seen.get(name, -inf), seen)
        found = {use: self._served(pod, use, pod.seen[use.source.name]) for use in uses}
        if not all(
            use.optional or is_complete(use, self._held(use.source.name, self.now)) for use in uses
        ):
            return
        if any(pod.files[use] != content for use, content in found.items()):
            pod.files |= found
            pod.volumes[volume].update(self.now)

    def refresh_files(self, pod: SimulatedPod) -> None:
        """Let a kubelet sync a pod now."""
        assert isinstance(pod, AgentPod)
        if pod.started is not None:
            self._sync(pod, self.now)

    # -- the truth -----------------------------------------------------------------------------

    def wrong_claims(self) -> list[str]:
        """Return what agents call loaded, and processes have not."""
        return [
            claim
            for pod in self.pods
            if pod.ends is None
            for agent in pod.agents.values()
            if agent.is_running
            for claim in self._wrong_claims(pod, agent)
        ]

    def _wrong_claims(self, pod: AgentPod, agent: SimulatedAgent) -> list[str]:
        application = pod.applications.get(agent.served_by)
        if application is None:
            return []  # it reads the files when it starts
        if agent.calls_only and agent.missed_content and not application.told:
            return []  # it may have started during that content
        wrong = [volume for volume in agent.volumes if not application.has_loaded(volume)]
        called = agent.loaded_volumes(self.now) if wrong else ()
        return [
            f"{pod.name}: {volume} is called loaded; {application.held(volume)}"
            for volume in wrong
            if volume in called
        ]

    def needless_calls(self) -> list[str]:
        """Return which agents told a process more often than there was a reason.

        That is an update of the files, another start of one of both, or a failure before.
        """
        found = []
        for pod in self.pods:
            for name, agent in pod.agents.items():
                updates = sum(pod.volumes[volume].revision for volume in agent.volumes)
                starts = agent.starts + pod.starts[agent.served_by]
                if agent.told > updates + starts + agent.failures + agent.announced:
                    reasons = (
                        f"{updates} updates, {agent.announced} announcements, {starts} starts,"
                        f" {agent.failures} failures"
                    )
                    found.append(f"{pod.name}: {name} told {agent.told} times; {reasons}")
        return found

    def old_content(self, *, files: bool = False, all_processes: bool = False) -> list[str]:
        """Say which processes do not hold the present content; `files`: which files do not.

        Containers without an agent are not known to load files, so these count by themselves, but
        for `all_processes`.
        """
        return [
            f"{pod.name} holds {held} of {use.path}, which is {present}"
            for pod in self.pods
            if pod.started is not None and pod.ends is None
            for use in pod.template.application_uses()
            if use.container not in pod.restarts and self._is_judged(use)
            if (held := self._held_of(pod, use, files=files, all_processes=all_processes))
            != (present := self._content(use, self.now))
        ]

    def _is_judged(self, use: Use) -> bool:
        """Return whether a container is to have what there is: not what it read of a gone source.

        The files of an optional source are emptied when it is deleted.
        """
        is_emptied = use.kind is UseKind.LIVE and use.optional
        return self.data(use.source.name) is not None or is_emptied

    def _held_of(self, pod: AgentPod, use: Use, *, files: bool, all_processes: bool) -> Content:
        served = {agent.served_by for agent in pod.agents.values()}
        is_served = all_processes or use.container in served
        shows_files = use.kind is UseKind.LIVE and (files or not is_served)
        return pod.files[use] if shows_files else pod.read[use]
