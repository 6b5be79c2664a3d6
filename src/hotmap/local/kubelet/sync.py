"""One pod, kept as the API server wants it: the worker of a pod and when it looks again.

A sync, in order (kubernetes: pkg/kubelet/kubelet.go, SyncPod):

1. register the pod's sources (`sources`)
2. bring its volumes up to date (`mounts`); without all of them no container starts
3. decide what to start and kill (`actions`), start and kill it (`runtime`)
4. report the status (`status`)

When: at once after an update of the pod (spec, labels, annotations, deletion) and after a
container has ended; else after the sync period plus up to half of it, at random. A change of a
ConfigMap or Secret causes no sync, in no strategy.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import signal
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from hotmap.core.errors import ApiError, HotmapError, NotFound
from hotmap.local.kubelet.actions import (
    BackOff,
    Run,
    compute_pod_actions,
    is_backing_off,
    is_sidecar,
    next_back_off,
)
from hotmap.local.kubelet.environment import (
    SourceName,
    expand_command,
    make_environment,
    visible_services,
    wanted_sources,
    with_runtime_defaults,
)
from hotmap.local.kubelet.exec import Command
from hotmap.local.kubelet.logs import ContainerLog
from hotmap.local.kubelet.mounts import PodVolumes, volume_sources
from hotmap.local.kubelet.probes import Target, answers, ask
from hotmap.local.kubelet.runtime import StartFailed
from hotmap.local.kubelet.status import PodFacts, Waiting, make_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.controllers.recorder import Recorder
    from hotmap.local.kubelet.mounts import TokenSource
    from hotmap.local.kubelet.probes import ProbeKind
    from hotmap.local.kubelet.runtime import Process, Runtime
    from hotmap.local.kubelet.sandbox import ContainerSpec
    from hotmap.local.kubelet.sources import SourceReader

_log = logging.getLogger(__name__)

MANAGER = "kubelet"
#: Seconds until a failed sync is repeated, plus up to half (kubernetes: kubelet.go, backOffPeriod).
ERROR_PERIOD = 10.0
#: Seconds until a volume that cannot be set up is tried again, doubled up to the last
#: (kubernetes: pkg/volume/util/nestedpendingoperations).
VOLUME_RETRY_FIRST = 0.5
VOLUME_RETRY_LAST = 122.0
#: Annotations that a kubelet puts on pods itself, so they are no update (pkg/kubelet/types).
_LOCAL_ANNOTATIONS = (
    "kubernetes.io/config.source",
    "kubernetes.io/config.mirror",
    "kubernetes.io/config.seen",
)
_FALLBACK_GRACE = 30
_LASTING_PROBES: tuple[ProbeKind, ...] = ("Readiness", "Liveness")


@dataclass(frozen=True, slots=True)
class SyncSettings:
    """When a pod is looked at without a cause, and how old its sources may be then.

    A pod that is in order is synced again after `period` seconds, plus at random up to `jitter`
    times that: upstream's 60 to 90 s by default. `ttl` is for the strategy Cache: seconds, put
    into the node's annotation; None leaves the minute that holds without one.
    """

    period: float = 60.0
    jitter: float = 0.5
    strategy: Literal["Watch", "Cache", "Get"] = "Watch"
    ttl: float | None = None

    def next_sync(self) -> float:
        """Draw the seconds until the next sync of a pod."""
        return self.period * (1 + self.jitter * random.random())


@dataclass(frozen=True, slots=True)
class Node:
    """What all pods of a kubelet share."""

    registry: Registry
    runtime: Runtime
    sources: SourceReader
    recorder: Recorder
    settings: SyncSettings
    root: Path
    address: str
    allocatable: Mapping[str, str]
    services: Callable[[], Iterable[Mapping[str, Any]]]
    tokens: TokenSource | None


@dataclass(slots=True)
class Container:
    """One container of a pod on this node.

    `process` is the one of `run`, `watcher` notes its end; `log` and `previous_log` belong to
    `run` and `previous`.
    """

    process: Process | None = None
    watcher: asyncio.Task[None] | None = None
    run: Run | None = None
    previous: Run | None = None
    log: ContainerLog | None = None
    previous_log: ContainerLog | None = None
    back_off: BackOff | None = None
    waiting: Waiting | None = None
    #: The environment with which it was started, for commands executed in it.
    env: dict[str, str] = field(default_factory=dict)


class PodWorker:
    """Works on one pod (one uid), one thing at a time, until it is gone from node and API."""

    def __init__(self, pod: dict[str, Any], node: Node, *, address: str) -> None:
        self.pod = pod
        self.containers: dict[str, Container] = {}
        self._node = node
        self._address = address
        self._started_at = time.time()
        self._volumes = PodVolumes(
            node.root,
            pod["metadata"]["uid"],
            node.sources,
            allocatable=node.allocatable,
            tokens=node.tokens,
        )
        self._wake = asyncio.Event()
        #: Like `_wake`, for those who wait while containers are given time to end.
        self._told = asyncio.Event()
        self._kills: set[asyncio.Task[None]] = set()
        self._removed = False
        self._volume_retry = VOLUME_RETRY_FIRST

    # What others tell the worker.

    def update(self, pod: dict[str, Any]) -> None:
        """Take the pod as the API server has it now; sync at once if it matters."""
        before, self.pod = self.pod, pod
        self._told.set()
        if differs_semantically(before, pod):
            self._wake.set()

    def remove(self) -> None:
        """Take notice that the API server no longer has the pod."""
        self._removed = True
        self._told.set()
        self._wake.set()

    # The loop.

    async def run(self) -> None:
        """Work until the pod is gone; a failed sync is repeated, whatever the failure."""
        try:
            while not self._is_leaving():
                self._wake.clear()
                delay = await self._guarded_sync()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(delay):
                        await self._wake.wait()
            await self._terminate()
        finally:
            self._node.sources.unregister(self._uid)
            for state in self.containers.values():
                if state.watcher is not None:
                    state.watcher.cancel()
                if state.log is not None:
                    state.log.close()
            for task in self._kills:
                task.cancel()

    async def _guarded_sync(self) -> float | None:
        try:
            return await self._sync()
        except (HotmapError, OSError) as error:
            _log.warning("pod %s cannot be synced: %s", self._name, error)
        except Exception:
            # The last stop before the worker's task: one strange pod must not lose its worker.
            _log.exception("pod %s cannot be synced", self._name)
        return _soon(ERROR_PERIOD)

    async def _sync(self) -> float | None:
        """Do what has to be done now; return the seconds until the next look, None for never."""
        spec = self.pod["spec"]
        if self._is_finished():
            return None
        self._register_sources()  # 1
        failures = await self._volumes.set_up(self.pod)  # 2
        for failure in failures:
            self._event(
                "Warning",
                "FailedMount",
                f'MountVolume.SetUp failed for volume "{failure.volume}" : {failure.message}',
            )
        delays = [self._node.settings.next_sync()]
        if failures:
            delays.append(self._volume_retry)
            self._volume_retry = min(self._volume_retry * 2, VOLUME_RETRY_LAST)
        else:
            self._volume_retry = VOLUME_RETRY_FIRST
        if not self._volumes.unmounted(self.pod):
            delays += await self._run_actions(spec)  # 3
        await self._report(spec)  # 4
        return min(delays)

    async def _run_actions(self, spec: Mapping[str, Any]) -> list[float]:
        """Start and kill until there is nothing more to do; return when to try again."""
        attempted: set[str] = set()
        delays: list[float] = []
        while True:
            actions = compute_pod_actions(spec, self._runs())
            await self._kill(actions.kill, _FALLBACK_GRACE)
            wanted = [name for name in actions.start if name not in attempted]
            if not wanted:
                return delays
            for name in wanted:
                attempted.add(name)
                delay = await self._start(named_container(spec, name))
                if delay is not None:
                    delays.append(delay)

    # Starting a container.

    async def _start(self, container: Mapping[str, Any]) -> float | None:
        """Start one container, or say why it waits; return the seconds until the next attempt."""
        state = self.containers.setdefault(container["name"], Container())
        last, now = state.run, time.time()
        if last is not None and last.finished_at is not None:
            if is_backing_off(state.back_off, last.finished_at, now):
                assert state.back_off is not None
                self._back_off(container["name"], state, state.back_off)
                return last.finished_at + state.back_off.duration - now
            state.back_off = next_back_off(state.back_off, last.finished_at)
        try:
            spec = await self._prepare(container)
        except (HotmapError, OSError) as error:
            state.waiting = Waiting("CreateContainerConfigError", str(error))
            self._event("Warning", "Failed", f"Error: {error}")
            return _soon(ERROR_PERIOD)
        if not spec["argv"]:
            image = container.get("image", "")
            text = (
                f'image "{image}" cannot be run: this node has no images, only the programs of '
                'its host; give the container a "command"'
            )
            state.waiting = Waiting("ErrImagePull", text)
            self._event("Warning", "Failed", f'Failed to pull image "{image}": {text}')
            return _soon(ERROR_PERIOD)
        return await self._launch(container, state, spec)

    async def _launch(
        self, container: Mapping[str, Any], state: Container, spec: ContainerSpec
    ) -> float | None:
        name, last = container["name"], state.run
        restarts = 0 if last is None else last.restarts + 1
        log = ContainerLog(self.log_directory / name / f"{restarts}.log")
        state.previous, state.previous_log = last, state.log
        state.log, state.env, state.waiting = log, spec["env"], None
        run = Run(
            uuid.uuid4().hex,
            restarts,
            time.time(),
            started="startupProbe" not in container,
            ready="startupProbe" not in container and "readinessProbe" not in container,
        )
        self._event("Normal", "Created", f"Created container: {name}")
        try:
            process = await self._node.runtime.run(spec, log.write)
        except StartFailed as error:
            log.close()
            message = f"failed to start container: {error}"
            state.run = run._replace(
                finished_at=time.time(), exit_code=128, reason="StartError", message=message
            )
            state.waiting = Waiting("RunContainerError", message)
            self._event("Warning", "Failed", f"Error: {message}")
            return _soon(ERROR_PERIOD)
        state.run, state.process = run._replace(started_at=time.time()), process
        self._event("Normal", "Started", f"Started container {name}")
        state.watcher = asyncio.create_task(self._watch(container, state, process, log))
        return None

    async def _watch(
        self, container: Mapping[str, Any], state: Container, process: Process, log: ContainerLog
    ) -> None:
        """Note the end of a run, and look at the pod again; probe it as long as it lasts."""
        probing = asyncio.create_task(self._probe(container, state))
        try:
            code = await process.wait()
        finally:
            probing.cancel()
        log.close()
        assert state.run is not None
        state.run = state.run._replace(
            finished_at=time.time(),
            exit_code=code,
            ready=False,
            reason="Completed" if code == 0 else "Error",
        )
        self._wake.set()

    async def _prepare(self, container: Mapping[str, Any]) -> ContainerSpec:
        """Work out command, environment and mounts from what the sources hold now."""
        pod = {**self.pod, "status": {**self.pod.get("status", {}), **self._addresses()}}
        hostname = pod["spec"].get("hostname") or pod["metadata"]["name"]
        env = with_runtime_defaults(
            make_environment(
                pod,
                container,
                await self._fetch(wanted_sources(container)),
                services=visible_services(pod, self._node.services()),
                allocatable=self._node.allocatable,
            ),
            hostname=hostname,
        )
        context = {
            **(pod["spec"].get("securityContext") or {}),
            **(container.get("securityContext") or {}),
        }
        return {
            "argv": expand_command(container, env) if container.get("command") else [],
            "env": env,
            "cwd": container.get("workingDir") or "/",
            "hostname": hostname[:63],
            "mounts": self._volumes.mounts_of(pod, container, env),
            "user": context.get("runAsUser"),
            "group": context.get("runAsGroup"),
        }

    async def _fetch(
        self, wanted: Iterable[SourceName]
    ) -> dict[SourceName, dict[str, Any] | NotFound]:
        """Read each source once, so that one container sees one state of it."""
        namespace = self.pod["metadata"]["namespace"]
        found: dict[SourceName, dict[str, Any] | NotFound] = {}
        for source in wanted:
            try:
                found[source] = await self._node.sources.get(namespace, source)
            except NotFound as missing:
                found[source] = missing
        return found

    def _back_off(self, name: str, state: Container, back_off: BackOff) -> None:
        metadata = self.pod["metadata"]
        pod = f"{metadata['name']}_{metadata['namespace']}({self._uid})"
        state.waiting = Waiting(
            "CrashLoopBackOff",
            f"back-off {_go_duration(back_off.duration)} restarting failed "
            f"container={name} pod={pod}",
        )
        text = f"Back-off restarting failed container {name} in pod {pod}"
        self._event("Warning", "BackOff", text)

    # Asking a container.

    async def _probe(self, container: Mapping[str, Any], state: Container) -> None:
        """Run the hook after the start, then the startup probe, then the other two together."""
        hook = (container.get("lifecycle") or {}).get("postStart")
        if hook and (failure := await ask(hook, self._target(container), timeout=None)):
            self._event("Warning", "FailedPostStartHook", f"PostStartHook failed: {failure}")
            await self._restart(container, "failed its PostStartHook")
            return
        if "startupProbe" in container:
            await self._follow_probe("Startup", container, state)
        async with asyncio.TaskGroup() as probes:
            for kind in _LASTING_PROBES:
                if f"{kind.lower()}Probe" in container:
                    probes.create_task(self._follow_probe(kind, container, state))

    async def _follow_probe(
        self, kind: ProbeKind, container: Mapping[str, Any], state: Container
    ) -> None:
        """Act on what a probe comes to: started, ready or not, or a restart."""
        definition = container[f"{kind.lower()}Probe"]
        async for answer in answers(definition, self._target(container)):
            if not answer.good:
                self._event("Warning", "Unhealthy", f"{kind} probe failed: {answer.message}")
            if not answer.decisive:
                continue
            assert state.run is not None
            if kind == "Readiness":
                self._set_run(state, state.run._replace(ready=answer.good))
            elif not answer.good:
                await self._restart(container, f"failed {kind.lower()} probe, will be restarted")
                return
            elif kind == "Startup":
                ready = "readinessProbe" not in container
                self._set_run(state, state.run._replace(started=True, ready=ready))
                return

    def _set_run(self, state: Container, run: Run) -> None:
        if run != state.run:
            state.run = run
            self._wake.set()

    async def _restart(self, container: Mapping[str, Any], why: str) -> None:
        self._event("Normal", "Killing", f"Container {container['name']} {why}")
        grace = self.pod["spec"].get("terminationGracePeriodSeconds", _FALLBACK_GRACE)
        # Not awaited: the kill ends the run, and the end of the run ends its probes.
        self._kills.add(task := asyncio.create_task(self._kill([container["name"]], grace)))
        task.add_done_callback(self._kills.discard)

    def _target(self, container: Mapping[str, Any]) -> Target:
        async def execute(command: Sequence[str]) -> tuple[int, bytes]:
            session = await self.execute(container["name"], command, stdin=False, tty=False)
            parts = []
            try:
                while (chunk := await session.read()) is not None:
                    parts.append(chunk[1])
            finally:
                await session.close()
            return await session.wait(), b"".join(parts)

        return Target(container, self._address, execute)

    async def execute(
        self, name: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> Command:
        """Start a command in a running container, with the container's environment.

        Raises:
            StartFailed: the container does not run, or the command cannot be executed.
        """
        state = self.containers.get(name)
        if state is None or state.process is None or not state.process.running:
            raise StartFailed("the container is not running")
        spec: ContainerSpec = {
            "argv": list(command),
            "env": {"TERM": "xterm", **state.env} if tty else state.env,
            "cwd": named_container(self.pod["spec"], name).get("workingDir") or "/",
            "hostname": "",
            "mounts": [],
        }
        return await Command.start(self._node.runtime, state.process, spec, stdin=stdin, tty=tty)

    # Ending.

    async def _terminate(self) -> None:
        """Kill the containers with grace, report the end, and take the pod from node and API."""
        spec = self.pod["spec"]
        sidecars = {c["name"] for c in spec.get("initContainers") or () if is_sidecar(c)}
        running = [name for name, state in self.containers.items() if _runs(state)]
        for name in running:
            self._event("Normal", "Killing", f"Stopping container {name}")
        await self._kill([name for name in running if name not in sidecars], None)
        await self._kill([name for name in running if name in sidecars], None)
        self._volumes.remove()
        if self._removed:
            return
        # Nothing is restarted any more, whatever the policy says.
        await self._report({**spec, "restartPolicy": "Never"})
        metadata = self.pod["metadata"]
        with contextlib.suppress(ApiError):
            await self._node.registry.delete(
                "pods", metadata["namespace"], metadata["name"], grace_period=0, uid=self._uid
            )

    async def _kill(self, names: Sequence[str], grace: float | None) -> None:
        """Send TERM, and KILL after the grace period; None means that of the pod's deletion.

        That one may be shortened by a second deletion while the containers are given time.
        """
        processes = [p for name in names if (p := self.containers[name].process) is not None]
        if not processes:
            return
        begun = time.monotonic()
        await self._pre_stop(names, self._grace() if grace is None else grace)
        for process in processes:
            process.signal(signal.SIGTERM)
        ended: asyncio.Future[list[None]] = asyncio.gather(
            *(watcher for name in names if (watcher := self.containers[name].watcher))
        )
        while not ended.done():
            allowed = self._grace() if grace is None else grace
            left = begun + allowed - time.monotonic()
            if left <= 0:
                for process in processes:
                    process.signal(signal.SIGKILL)
                break
            self._told.clear()
            told = asyncio.create_task(self._told.wait())
            causes: list[asyncio.Future[Any]] = [ended, told]
            await asyncio.wait(causes, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            told.cancel()
        await ended

    async def _pre_stop(self, names: Sequence[str], grace: float) -> None:
        """Run the preStop hooks; the time they take is part of the grace period."""
        hooks = {}
        for name in names:
            container = named_container(self.pod["spec"], name)
            hook = (container.get("lifecycle") or {}).get("preStop")
            if hook and _runs(self.containers[name]):
                hooks[name] = ask(hook, self._target(container), timeout=grace)
        failures = await asyncio.gather(*hooks.values())
        for name, failure in zip(hooks, failures, strict=True):
            if failure:
                self._event("Warning", "FailedPreStopHook", f"PreStopHook of {name}: {failure}")

    def _grace(self) -> float:
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        if self._removed:
            return 0
        configured = spec.get("terminationGracePeriodSeconds", _FALLBACK_GRACE)
        return float(metadata.get("deletionGracePeriodSeconds", configured))

    # What is true now.

    @property
    def log_directory(self) -> Path:
        """Where this pod's logs are; the name is upstream's (`/var/log/pods/…`)."""
        metadata = self.pod["metadata"]
        name = f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"
        return self._node.root / "logs" / name

    @property
    def _uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    @property
    def _name(self) -> str:
        return f"{self.pod['metadata']['namespace']}/{self.pod['metadata']['name']}"

    def _is_leaving(self) -> bool:
        return self._removed or bool(self.pod["metadata"].get("deletionTimestamp"))

    def _is_finished(self) -> bool:
        return self.pod.get("status", {}).get("phase") in ("Succeeded", "Failed")

    def _runs(self) -> dict[str, Run]:
        return {name: state.run for name, state in self.containers.items() if state.run}

    def _addresses(self) -> dict[str, Any]:
        return {
            "podIP": self._address,
            "podIPs": [{"ip": self._address}],
            "hostIP": self._node.address,
            "hostIPs": [{"ip": self._node.address}],
        }

    def _register_sources(self) -> None:
        spec = self.pod["spec"]
        wanted = list(volume_sources(spec))
        for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
            wanted += wanted_sources(container)
        self._node.sources.register(self._uid, self.pod["metadata"]["namespace"], wanted)

    async def _report(self, spec: Mapping[str, Any]) -> None:
        facts = PodFacts(
            runs=self._runs(),
            previous={n: s.previous for n, s in self.containers.items() if s.previous},
            waiting={n: s.waiting for n, s in self.containers.items() if s.waiting},
            address=self._address,
            host_address=self._node.address,
            started_at=self._started_at,
        )

        def change(pod: dict[str, Any]) -> dict[str, Any] | None:
            if pod["metadata"]["uid"] != self._uid:
                return None
            status = make_status({**pod, "spec": spec}, facts, now=time.time())
            return {**pod, "status": {**(pod.get("status") or {}), **status}}

        metadata = self.pod["metadata"]
        with contextlib.suppress(NotFound):
            await self._node.registry.modify(
                "pods",
                metadata["namespace"],
                metadata["name"],
                change,
                manager=MANAGER,
                subresource="status",
            )

    def _event(self, type: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self._node.recorder.event(self.pod, type, reason, message)


def differs_semantically(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Tell whether an update of a pod causes a sync.

    Spec, labels, deletion, and annotations but for the kubelet's own do; status and the rest of
    the metadata do not (kubernetes: pkg/kubelet/config/config.go, podsDifferSemantically).
    """
    return old["spec"] != new["spec"] or _watched_metadata(old) != _watched_metadata(new)


def _watched_metadata(pod: Mapping[str, Any]) -> tuple[object, ...]:
    metadata = pod["metadata"]
    annotations = metadata.get("annotations") or {}
    return (
        metadata.get("labels") or {},
        {k: v for k, v in annotations.items() if k not in _LOCAL_ANNOTATIONS},
        metadata.get("deletionTimestamp"),
        metadata.get("deletionGracePeriodSeconds"),
    )


def named_container(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    return next(container for container in containers if container["name"] == name)


def _runs(state: Container) -> bool:
    return state.run is not None and state.run.running


def _soon(period: float) -> float:
    return period * (1 + random.random() / 2)


def _go_duration(seconds: float) -> str:
    """Write whole seconds as Go prints a time.Duration: 10s, 2m40s, 5m0s."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
