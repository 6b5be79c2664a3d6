"""The containers of one pod: start, probes, exec and termination.

kubernetes: pkg/kubelet/kuberuntime (startContainer, killContainer) and pkg/kubelet/prober.
`actions` decides which containers to start or kill, `sync` when; `container_spec` has what one is
started with.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hotmap.core.errors import HotmapError
from hotmap.local.kubelet.actions import (
    RELIST_PERIOD,
    BackOff,
    Run,
    is_backing_off,
    next_back_off,
    start_hook,
)
from hotmap.local.kubelet.attach import ContainerStreams
from hotmap.local.kubelet.container_spec import exec_spec, start_spec
from hotmap.local.kubelet.container_state import Container, earlier_states, removed_state
from hotmap.local.kubelet.environment import ConfigError
from hotmap.local.kubelet.error_text import error_text
from hotmap.local.kubelet.exec import Command
from hotmap.local.kubelet.images import Image, ImageMissing
from hotmap.local.kubelet.logs import (
    ContainerLog,
    log_directory,
    log_path,
    remove_older_logs,
)
from hotmap.local.kubelet.probes import Target, answers, ask
from hotmap.local.kubelet.restart_policy import all_containers, policy_of, should_restart
from hotmap.local.kubelet.runtime import StartFailed
from hotmap.local.kubelet.status import Waiting
from hotmap.local.kubelet.termination_message import TerminationMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hotmap.local.kubelet.mounts import PodVolumes
    from hotmap.local.kubelet.node_context import Node
    from hotmap.local.kubelet.probes import ProbeKind
    from hotmap.local.kubelet.runtime import Process
    from hotmap.local.kubelet.sandbox import ContainerSpec

#: Seconds until a failed sync is retried, plus up to half (kubelet.go, backOffPeriod).
ERROR_PERIOD = 10.0
#: Grace period in seconds if the pod sets none (kubernetes: pkg/apis/core/v1/defaults.go).
FALLBACK_GRACE = 30.0
#: Seconds that a container gets at least (kuberuntime: minimumGracePeriodInSeconds).
MINIMUM_GRACE = 2.0
_GRACE = "terminationGracePeriodSeconds"
# The exit code of a container that could not be started (containerd).
_START_ERROR = 128
_LASTING_PROBES: tuple[ProbeKind, ...] = ("Readiness", "Liveness")


class PodContainers:
    """Starts and stops the containers of one pod, and records their state.

    `pod` is kept up to date by the pod's worker; `changed` is called when a run has ended or a
    probe has a result.
    """

    def __init__(
        self,
        pod: dict[str, Any],
        node: Node,
        volumes: PodVolumes,
        *,
        address: str,
        changed: Callable[[], None],
    ) -> None:
        self.pod = pod
        self._log_directory = log_directory(node.root, pod)
        self.states = earlier_states(node.root, pod)
        self.address = address
        self._node = node
        self._volumes = volumes
        self._changed = changed
        self._grace_period_changed = asyncio.Event()
        self._kills: set[asyncio.Task[None]] = set()

    def reconsider(self) -> None:
        """Wake up waits for termination, so that they read the grace period again."""
        self._grace_period_changed.set()

    def close(self) -> None:
        """Stop watching, and close the logs; what still runs is not killed."""
        for state in self.states.values():
            if state.watcher is not None:
                state.watcher.cancel()
            if state.streams is not None:
                state.streams.close()
        for task in self._kills:
            task.cancel()

    def has_unshown_end(self, names: Iterable[str]) -> bool:
        """Whether one of the containers has ended and does not wait for its next start yet."""
        states = (self.states.get(name) for name in names)
        return any(
            state is not None
            and state.run is not None
            and not state.run.running
            and state.waiting is None
            for state in states
        )

    # -- starting a container ------------------------------------------------------------------

    async def start(self, container: Mapping[str, Any]) -> float | None:
        """Start one container, or set why it waits; return the seconds until the next attempt."""
        state = self.states.setdefault(container["name"], Container())
        last, now = state.run, time.time()
        if last is not None and last.finished_at is not None:
            if last.image not in ("", container.get("image", "")):
                # Another image has not failed yet (kuberuntime: the key of a back-off has a hash).
                state.back_off = None
            elif is_backing_off(state.back_off, last.finished_at, now):
                assert state.back_off is not None
                self._back_off(container, state, state.back_off)
                return last.finished_at + state.back_off.duration - now
            else:
                state.back_off = next_back_off(state.back_off, last.finished_at)
        try:
            image = self._find_image(container)
        except ImageMissing as error:
            state.waiting = Waiting("ErrImageNeverPull", str(error))
            self._event(container, "Warning", "ErrImageNeverPull", str(error))
            self._event(container, "Warning", "Failed", "Error: ErrImageNeverPull")
            return retry_delay()
        present = f'Container image "{container.get("image", "")}" already present on machine'
        self._event(container, "Normal", "Pulled", f"{present} and can be accessed by the pod")
        try:
            spec = await start_spec(
                self.pod,
                container,
                image,
                node=self._node,
                volumes=self._volumes,
                address=self.address,
            )
            spec["beside"] = self._target_process(container)
        except (HotmapError, OSError) as error:
            message = error_text(error)
            state.waiting = Waiting("CreateContainerConfigError", message)
            self._event(container, "Warning", "Failed", f"Error: {message}")
            return retry_delay()
        return await self._launch(container, state, spec)

    async def _launch(
        self, container: Mapping[str, Any], state: Container, spec: ContainerSpec
    ) -> float | None:
        name, last = container["name"], state.run
        restarts = state.earlier if last is None else last.restarts + 1
        log = ContainerLog(log_path(self._log_directory, name, restarts))
        # The run before the current one can be queried, as upstream keeps one dead container.
        remove_older_logs(log.path, restarts - 1)
        if last is not None:
            state.previous, state.previous_log = last, state.log
        state.log, state.waiting = log, None
        state.streams = streams = ContainerStreams(container, log)
        last_words = TerminationMessage(container, self._message_path(name, restarts))
        spec["mounts"] = [*spec["mounts"], last_words.create()]
        run = Run(
            uuid.uuid4().hex,
            restarts,
            time.time(),
            started="startupProbe" not in container,
            ready="startupProbe" not in container and "readinessProbe" not in container,
            starting=start_hook(container) is not None,
            image=container.get("image", ""),
        )
        self._event(container, "Normal", "Created", "Container created")
        try:
            process = await streams.start(self._node.runtime, spec)
        except StartFailed as error:
            message = f"failed to start container: {error}"
            state.run = run._replace(
                finished_at=time.time(),
                exit_code=_START_ERROR,
                reason="StartError",
                message=message,
            )
            if should_restart(self.pod["spec"], container, _START_ERROR):
                # What is not tried again has only ended (kubelet_pods.go: reasonCache).
                state.waiting = Waiting("RunContainerError", message)
            self._event(container, "Warning", "Failed", f"Error: {message}")
            return RELIST_PERIOD
        state.run, state.process = run._replace(started_at=time.time()), process
        state.env, state.root = spec["env"], spec["root"]
        self._event(container, "Normal", "Started", "Container started")
        state.watcher = asyncio.create_task(self._watch(container, state, process, last_words))
        return None

    async def _watch(
        self,
        container: Mapping[str, Any],
        state: Container,
        process: Process,
        message: TerminationMessage,
    ) -> None:
        """Probe a run until it ends; then record the end and sync the pod."""
        probing = asyncio.create_task(self._probe(container, state))
        try:
            code = await process.wait()
        finally:
            probing.cancel()
        assert state.run is not None
        assert state.streams is not None
        assert state.log is not None
        state.streams.close()
        state.env = {}
        state.run = state.run._replace(
            finished_at=time.time(),
            exit_code=code,
            ready=False,
            starting=False,
            reason="Completed" if code == 0 else "Error",
            message=message.read(exit_code=code, log=state.log.path),
        )
        message.remove()
        self._changed()

    def _find_image(self, container: Mapping[str, Any]) -> Image:
        """Find what a container runs; with a command of its own that is this machine, at least.

        Raises:
            ImageMissing: it is not known what the image runs.
        """
        image = self._node.runtime.images.find(container.get("image", ""))
        if image is None and not container.get("command"):
            raise ImageMissing(container.get("image", ""))
        return image or Image()

    def _target_process(self, container: Mapping[str, Any]) -> int | None:
        """Return the number of the process whose namespace an ephemeral container joins.

        Raises:
            ConfigError: that container has not run.
        """
        target = container.get("targetContainerName")
        if not target:
            return None
        state = self.states.get(target)
        if state is None or state.process is None:
            raise ConfigError(f"unable to find target container {target}")
        return state.process.id

    def _back_off(self, container: Mapping[str, Any], state: Container, back_off: BackOff) -> None:
        name, metadata = container["name"], self.pod["metadata"]
        pod = f"{metadata['name']}_{metadata['namespace']}({self._uid})"
        state.waiting = Waiting(
            "CrashLoopBackOff",
            f"back-off {_go_duration(back_off.duration)} restarting failed "
            f"container={name} pod={pod}",
        )
        text = f"Back-off restarting failed container {name} in pod {pod}"
        self._event(container, "Warning", "BackOff", text)

    # -- probes and exec -----------------------------------------------------------------------

    async def _probe(self, container: Mapping[str, Any], state: Container) -> None:
        """Run the hook after the start, then the startup probe, then the other two together."""
        hook = start_hook(container)
        failure = None
        if hook:
            failure = await ask(hook, self._target(container), timeout=None, purpose="lifecycle")
        if failure is not None:
            # Its output stays in the container, as it may have Secrets.
            self._event(container, "Warning", "FailedPostStartHook", "PostStartHook failed")
            state.waiting = Waiting("PostStartHookError", "the postStart hook failed")
            self._changed()
            await self._restart(container, "FailedPostStartHook")
            return
        if hook and state.run is not None:
            self._set_run(state, state.run._replace(starting=False))
        if "startupProbe" in container:
            await self._follow_probe("Startup", container, state)
        async with asyncio.TaskGroup() as probes:
            for kind in _LASTING_PROBES:
                if f"{kind.lower()}Probe" in container:
                    probes.create_task(self._follow_probe(kind, container, state))

    async def _follow_probe(
        self, kind: ProbeKind, container: Mapping[str, Any], state: Container
    ) -> None:
        """Act on the result of a probe: started, ready or not, or a restart."""
        definition = container[f"{kind.lower()}Probe"]
        async for answer in answers(definition, self._target(container), kind=kind):
            if not answer.good:
                text = f"{kind} probe failed: {answer.message}"
                self._event(container, "Warning", "Unhealthy", text)
            if not answer.decisive:
                continue
            assert state.run is not None
            if kind == "Readiness":
                self._set_run(state, state.run._replace(ready=answer.good))
            elif not answer.good:
                failed = f"Container {container['name']} failed {kind.lower()} probe"
                again = policy_of(self.pod["spec"], container) != "Never"
                why = f"{failed}, will be restarted" if again else failed
                await self._restart(container, why, definition.get(_GRACE))
                return
            elif kind == "Startup":
                ready = "readinessProbe" not in container
                self._set_run(state, state.run._replace(started=True, ready=ready))
                return

    def _set_run(self, state: Container, run: Run) -> None:
        if run != state.run:
            state.run = run
            self._changed()

    async def _restart(
        self, container: Mapping[str, Any], why: str, grace: float | None = None
    ) -> None:
        """Kill a container, with the pod's grace period where `grace` is None."""
        self._event(container, "Normal", "Killing", why)
        seconds = self.pod["spec"].get(_GRACE, FALLBACK_GRACE) if grace is None else grace
        # Not awaited: the kill ends the run, and the end of the run ends its probes.
        killing = self.kill([container["name"]], lambda: float(seconds))
        self._kills.add(task := asyncio.create_task(killing))
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

        return Target(container, self.address, execute)

    async def execute(
        self, name: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> Command:
        """Start a command in a running container, with the container's environment.

        Raises:
            StartFailed: the container does not run, or the command cannot be executed.
        """
        state = self.states.get(name)
        if state is None or state.process is None or not state.process.running:
            raise StartFailed("the container is not running")
        container = named_container(self.pod["spec"], name)
        spec = exec_spec(self.pod["spec"], container, command, state.env, root=state.root, tty=tty)
        return await Command.start(self._node.runtime, state.process, spec, stdin=stdin, tty=tty)

    # -- termination ---------------------------------------------------------------------------

    async def reset(self, names: Sequence[str]) -> None:
        """Kill and remove containers one after the other, as if they had not run (KEP-5532)."""
        for name in names:
            if self.states[name].is_running:
                container = named_container(self.pod["spec"], name)
                self._event(container, "Normal", "Killing", "killing")
                await self.kill([name], lambda: MINIMUM_GRACE, hooks=False)
            self.states[name] = removed_state(self.states[name])

    async def kill(
        self, names: Sequence[str], grace: Callable[[], float], *, hooks: bool = True
    ) -> None:
        """Send TERM, and KILL after the grace period; return when all have ended.

        `grace` returns seconds and is called again at `reconsider`: a second deletion may shorten
        the grace period. `hooks` says whether preStop hooks run.
        """
        processes = [p for name in names if (p := self.states[name].process) is not None]
        if not processes:
            return
        begun = time.monotonic()
        if hooks:
            await self._pre_stop(names, grace())
        for process in processes:
            process.signal(signal.SIGTERM)
        watchers = [watcher for name in names if (watcher := self.states[name].watcher)]
        while running := [watcher for watcher in watchers if not watcher.done()]:
            left = begun + grace() - time.monotonic()
            if left <= 0:
                for process in processes:
                    process.signal(signal.SIGKILL)
                break
            self._grace_period_changed.clear()
            changed = asyncio.create_task(self._grace_period_changed.wait())
            causes: list[asyncio.Task[Any]] = [*running, changed]
            await asyncio.wait(causes, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
        if watchers:
            # Not gather: a kubelet that stops cancels this wait, and the watchers by themselves.
            await asyncio.wait(watchers)

    async def _pre_stop(self, names: Sequence[str], grace: float) -> None:
        """Run the preStop hooks; the time they take is part of the grace period."""
        hooks = {}
        for name in names:
            container = named_container(self.pod["spec"], name)
            hook = (container.get("lifecycle") or {}).get("preStop")
            if hook and self.states[name].is_running:
                target = self._target(container)
                hooks[name] = ask(hook, target, timeout=grace, purpose="lifecycle")
        failures = await asyncio.gather(*hooks.values())
        for name, failure in zip(hooks, failures, strict=True):
            if failure is not None:
                container = named_container(self.pod["spec"], name)
                self._event(container, "Warning", "FailedPreStopHook", "PreStopHook failed")

    # -- current state -------------------------------------------------------------------------

    def _message_path(self, name: str, restarts: int) -> Path:
        return self._node.root / "pods" / self._uid / "containers" / name / str(restarts)

    def runs(self) -> dict[str, Run]:
        """Return the newest run of each container that ever ran."""
        return {name: state.run for name, state in self.states.items() if state.run}

    @property
    def _uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    def event_of_stop(self, name: str) -> None:
        """Report that a container is stopped with its pod."""
        container = named_container(self.pod["spec"], name)
        self._event(container, "Normal", "Killing", f"Stopping container {name}")

    def event_of_change(self, name: str) -> None:
        """Report that a container is stopped and started again, since it has another image."""
        container = named_container(self.pod["spec"], name)
        if container in self.pod["spec"]["containers"]:
            text = f"Container {name} definition changed, will be restarted"
        else:
            text = f"Init container {name} definition changed"
        self._event(container, "Normal", "Killing", text)

    def _event(
        self,
        container: Mapping[str, Any],
        type: Literal["Normal", "Warning"],
        reason: str,
        message: str,
    ) -> None:
        path = container_path(self.pod["spec"], container["name"])
        self._node.recorder.event(self.pod, type, reason, message, field_path=path)


def named_container(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Find the definition of a container of any kind."""
    return next(container for container in all_containers(spec) if container["name"] == name)


def container_path(spec: Mapping[str, Any], name: str) -> str:
    """Name a container as a part of its pod (pkg/kubelet/container/ref.go)."""
    fields = ("containers", "initContainers", "ephemeralContainers")
    field = next(f for f in fields if any(c["name"] == name for c in spec.get(f) or ()))
    return f"spec.{field}{{{name}}}"


def retry_delay() -> float:
    """Draw the seconds until the next retry: ERROR_PERIOD plus up to half of it."""
    return ERROR_PERIOD * (1 + random.random() / 2)


def _go_duration(seconds: float) -> str:
    """Write whole seconds as Go prints a time.Duration: 10s, 2m40s, 5m0s."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
