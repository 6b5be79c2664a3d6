"""One cluster: up, down, status, and the faults that tests put on its parts.

`up` is a list of steps, each of which looks first and does only what is missing; so it can be
killed at any point and run again. `down` undoes by looking as well, not by remembering.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tests.cluster import controlplane, footprint, keys, kwok, layout, lock, machine, node, versions
from tests.cluster.components import (
    Component,
    Process,
    Processes,
    State,
    end,
    resident_bytes,
)
from tests.cluster.errors import TestBedError, disk_sentence
from tests.cluster.layout import Layout, Settings

STATE_GIB = 2  # containerd's copies of the images, etcd, logs


class Status(NamedTuple):
    """One component as `status` shows it."""

    name: str
    state: State
    process: Process | None
    problem: str | None  # None when healthy
    resident: int  # bytes


class Cluster:
    """A cluster in one folder, running or not."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.layout = Layout(folder.absolute(), settings)
        self.processes = Processes(self.layout.folder)

    @classmethod
    def present(cls, folder: Path) -> "Cluster | None":
        """Return the cluster that `up` made in a folder, or None."""
        settings = layout.read_settings(folder)
        return None if settings is None else cls(folder, settings)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.layout.kubeconfig

    @property
    def kubectl_path(self) -> Path:
        """The real kubectl of the cluster's release."""
        return self.layout.programs.path("kubectl")

    def kubectl(self, *arguments: str, stdin: str | None = None, seconds: float = 60) -> str:
        """Run kubectl as administrator; return what it printed.

        Raises:
            TestBedError: it failed, or did not end within `seconds`.
        """
        command = [str(self.kubectl_path), f"--kubeconfig={self.kubeconfig}", *arguments]
        try:
            done = subprocess.run(
                command, input=stdin, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            raise TestBedError(
                f"kubectl {' '.join(arguments)} did not end within {seconds:g} s."
            ) from None
        if done.returncode != 0:
            raise TestBedError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def components(self) -> list[Component]:
        """Return what this cluster consists of, in the order in which it is started."""
        found = controlplane.components(self.layout)
        if self.layout.settings.node:
            found += node.components(self.layout)
        if self.layout.settings.kwok_nodes:
            found.append(kwok.component(self.layout))
        return found

    def component(self, name: str) -> Component:
        """Return one of the components by its name.

        Raises:
            TestBedError: this cluster has no such component; the message lists them.
        """
        for component in self.components():
            if component.name == name:
                return component
        names = ", ".join(component.name for component in self.components())
        raise TestBedError(f"{name} is not a component of this cluster; it has {names}.")

    def programs(self) -> list[str]:
        """List the upstream programs this cluster needs."""
        settings = self.layout.settings
        return [
            "etcd",
            *versions.CONTROL_PLANE,
            *(versions.NODE if settings.node else ()),
            *(["coredns"] if settings.dns else []),
            *(["kwok"] if settings.kwok_nodes else []),
        ]

    def up(self, say: Callable[[str], None] = print) -> None:
        """Start what does not run and wait until all of it is healthy, with a line per step.

        A paused component is resumed.
        What was running before stays as it is when a step fails; a cluster that did not run
        before is taken down again, so that a failed start leaves nothing but its logs.

        Raises:
            TestBedError: a step cannot be done; the message says which and what to do.
        """
        say = _Clock(say)
        with self._locked():
            self._require()
            had_state = layout.read_settings(self.layout.folder) is not None
            had_processes = bool(self.processes.leftovers())
            if not had_state and not had_processes:
                shutil.rmtree(self.layout.logs, ignore_errors=True)  # of an earlier cluster
            try:
                self._up(say)
            except BaseException as failure:
                if not had_processes:
                    self._down(lambda _: None, keep=had_state)
                if isinstance(failure, OSError) and (sentence := disk_sentence(failure)):
                    raise TestBedError(sentence) from None
                raise

    def down(self, say: Callable[[str], None] = print, *, keep: bool = False) -> None:
        """End exactly what `up` started and undo what it did to the machine.

        The state is removed as well, except the logs; with `keep` it stays, so that the next
        `up` finds its objects again.
        """
        with self._locked():
            self._down(_Clock(say), keep=keep)

    def status(self) -> list[Status]:
        """Look at every component: its process, its memory and whether it answers."""
        return [self._look(component) for component in self.components()]

    def unhealthy(self) -> list[str]:
        """Say in a sentence each what is wrong; empty when everything works."""
        return [
            f"{status.name} is {status.state}"
            + (f": {status.problem}" if status.state is State.RUNNING else "")
            for status in self.status()
            if status.problem is not None
        ]

    def kill(self, name: str) -> None:
        """Kill a component as a crash would; `restart` brings it back."""
        self.processes.kill(self.component(name).name)

    def pause(self, name: str) -> None:
        """Freeze a component: its connections stay open and nothing answers."""
        self.processes.pause(self.component(name).name)

    def resume(self, name: str) -> None:
        """Let a paused component go on, and wait until it is healthy."""
        self.processes.resume(name)
        self.wait_healthy(self.component(name))

    def stop(self, name: str) -> None:
        """End a component in an orderly way; `restart` brings it back."""
        self.processes.stop(self.component(name).name)

    def restart(self, name: str) -> None:
        """Stop a component if it runs, start it and wait until it is healthy."""
        component = self.component(name)
        self.processes.stop(name)
        self.processes.start(component)
        self.wait_healthy(component)

    def route(self, name: str, server: str | None) -> None:
        """Let a component reach the API through `server` (a fault proxy), None for directly.

        Restarts the component, since kubeconfigs are read once.
        """
        if self.component(name).name not in keys.USERS:
            raise TestBedError(f"{name} has no kubeconfig of its own that could be routed.")
        keys.write_kubeconfig(self.layout, name, server=server or self.layout.server)
        self.restart(name)

    def kubeconfig_through(self, server: str, to: Path) -> Path:
        """Write an administrator's kubeconfig that reaches the API through `server`."""
        return keys.write_kubeconfig(self.layout, "admin", server=server, to=to)

    def wait_healthy(self, component: Component) -> None:
        """Wait until a component answers that it is well.

        Raises:
            TestBedError: it ended, or was not healthy within its time; with its last log line.
        """
        deadline = time.monotonic() + component.seconds
        while (problem := component.ask()) is not None:
            if self.processes.state(component.name) is State.KILLED:
                raise TestBedError(self._end_sentence(component, "ended while it started"))
            if time.monotonic() > deadline:
                what = f"was not healthy after {component.seconds:g} s ({problem})"
                raise TestBedError(self._end_sentence(component, what))
            time.sleep(0.05)

    def require_machine(self) -> None:
        """Check that this cluster can run on this machine at all; install Debian packages.

        Raises:
            TestBedError: no root, no cgroups, no packages, or neither programs nor Go.
        """
        if self.layout.settings.node:
            node.require_machine()
        self.layout.programs.require(self.programs())

    def _require(self) -> None:
        """Check what can be checked before anything is written or started; build programs."""
        layout.require_same(self.layout)
        self.require_machine()
        if self.layout.settings.node:
            node.require_no_other(self.layout.folder)
        machine.require_disk(self.layout.folder, STATE_GIB, "to run a cluster")
        self._require_ports()
        self.layout.programs.build(self.programs())

    def _up(self, say: Callable[[str], None]) -> None:
        settings = self.layout.settings
        layout.write_settings(self.layout)
        keys.make(self.layout)
        controlplane.write_files(self.layout)
        if settings.node:
            node.prepare(self.layout)
        say("keys and settings written")
        plane = controlplane.components(self.layout)
        self._start(plane[:1], say)
        self._start(plane[1:2], say)
        self._start(plane[2:], say)
        self._wait_for_account()
        say("control plane works")
        if settings.node:
            self._start_node(say)
        if settings.kwok_nodes:
            self._start([kwok.component(self.layout)], say)
            kwok.make_nodes(self, settings.kwok_nodes)
            say(f"{settings.kwok_nodes} pretended nodes are Ready")
        say(f"up: KUBECONFIG={self.kubeconfig}")

    def _start_node(self, say: Callable[[str], None]) -> None:
        containerd, *others = node.components(self.layout)
        self._start([containerd], say)
        say(f"{node.load_images(self.layout)} images present")
        began = time.time() if self.processes.state("kubelet") is not State.RUNNING else 0.0
        self._start(others, say)
        if self.layout.settings.dns:
            node.publish_dns(self)
        ready = replace(self.component("kubelet"), ask=lambda: node.not_ready(self, since=began))
        self.wait_healthy(ready)
        say(f"{layout.NODE_NAME} is Ready")

    def _start(self, components: Iterable[Component], say: Callable[[str], None]) -> None:
        started = {component: self.processes.start(component) for component in components}
        for component, new in started.items():
            if self.processes.state(component.name) is State.PAUSED:
                self.processes.resume(component.name)
            self.wait_healthy(component)
            say(f"{component.name} {'healthy' if new else 'already up'}")

    def _wait_for_account(self) -> None:
        """Wait until pods can be created: they need their namespace's default ServiceAccount."""
        controllers = self.component("kube-controller-manager")
        present = ("get", "serviceaccount", "default", "--namespace=default")

        def ask() -> str | None:
            try:
                self.kubectl(*present)
            except TestBedError as error:
                return str(error)
            return None

        self.wait_healthy(replace(controllers, ask=ask))

    def _down(self, say: Callable[[str], None], *, keep: bool = False) -> None:
        for name in self.processes.names():
            with suppress(TestBedError):  # what is dead already
                self.processes.resume(name)  # else others wait for it until they are killed
        if self.layout.settings.node:
            node.stop(self.layout, self.processes)
            say("containers and kubelet gone")
        for component in reversed(self.components()):
            self.processes.stop(component.name)
        for process in self.processes.leftovers():
            end(process, seconds=2)
        if self.layout.settings.node:
            footprint.clean(self.layout)
        if not keep:
            self._remove_state()
        say("down")

    def _remove_state(self) -> None:
        """Remove all but the logs; the settings last, so that a killed `down` can be repeated."""
        if not self.layout.folder.exists():
            return
        kept = ("log", "lock", "cluster.json")
        for path in self.layout.folder.iterdir():
            if path.name in kept:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        (self.layout.folder / "cluster.json").unlink(missing_ok=True)

    def _require_ports(self) -> None:
        for component in self.components():
            if self.processes.state(component.name) in (State.RUNNING, State.PAUSED):
                continue
            wanted = [self.layout.settings.port(listener) for listener in component.listens]
            if used := machine.used_ports(wanted):
                raise TestBedError(
                    f"Port {used[0]}, which {component.name} needs, is already in use;"
                    " end what listens there or choose another --base-port."
                )

    def _look(self, component: Component) -> Status:
        state, process = self.processes.state(component.name), None
        resident = 0
        problem: str | None = str(state)
        if state in (State.RUNNING, State.PAUSED):
            process = self.processes.process(component.name)
            resident = resident_bytes(process) if process else 0
        if state is State.RUNNING:
            problem = component.ask()
        return Status(component.name, state, process, problem, resident)

    def _end_sentence(self, component: Component, what: str) -> str:
        lines: list[str] = []
        with suppress(FileNotFoundError):
            lines = self.processes.log(component.name).read_text(errors="replace").splitlines()
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
        return (
            f"{component.name} {what}; its last words: {last[:300]}"
            f" (all of them: {self.processes.log(component.name)})"
        )

    def _locked(self) -> AbstractContextManager[None]:
        return lock.held(
            self.layout.folder / "lock",
            waiting=f"Another command works on {self.layout.folder}; waiting for it.",
        )


class _Clock:
    """Puts the seconds since it was made before each line."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._began = time.monotonic()

    def __call__(self, line: str) -> None:
        self._say(f"{time.monotonic() - self._began:6.1f} s  {line}")


def running(folder: Path) -> Cluster | None:
    """Return the cluster in a folder if all of it works now."""
    cluster = Cluster.present(folder)
    if cluster is None or not os.access(folder, os.W_OK) or cluster.unhealthy():
        return None
    return cluster
