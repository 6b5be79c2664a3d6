"""The state of one container of a pod on this node, also as an earlier kubelet has left it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotmap.local.kubelet.actions import BackOff, Run
from hotmap.local.kubelet.attach import ContainerStreams
from hotmap.local.kubelet.earlier_runs import EarlierRun, earlier_runs
from hotmap.local.kubelet.logs import ContainerLog, log_directory, log_path
from hotmap.local.kubelet.status import Waiting

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from hotmap.local.kubelet.runtime import Process

__all__ = ["Container", "earlier_states", "removed_state"]

#: What the status says of a container that was removed so that all start again (kubelet_pods.go).
_RESTARTING_ALL = "RestartingAllContainers"
_REMOVED = "The container is removed because RestartAllContainers in place"


@dataclass(slots=True)
class Container:
    """One container of a pod on this node.

    `process` and `streams` are those of `run`, `watcher` waits for its end; `log` and
    `previous_log` belong to `run` and `previous`.
    """

    process: Process | None = None
    streams: ContainerStreams | None = None
    watcher: asyncio.Task[None] | None = None
    run: Run | None = None
    previous: Run | None = None
    log: ContainerLog | None = None
    previous_log: ContainerLog | None = None
    back_off: BackOff | None = None
    waiting: Waiting | None = None
    #: The runs that there were before this kubelet.
    earlier: int = 0
    #: The environment of `process`, for commands executed in it; empty while nothing runs, as it
    #: may be large: there are variables for each port of each Service.
    env: dict[str, str] = field(default_factory=dict)
    #: The root file system of `process`, as in its spec.
    root: str = ""

    @property
    def is_running(self) -> bool:
        """Whether it runs now."""
        return self.run is not None and self.run.running


def earlier_states(root: Path, pod: Mapping[str, Any]) -> dict[str, Container]:
    """Return the containers that remain of a pod which an earlier kubelet ran."""
    directory = log_directory(root, pod)
    return {
        name: _earlier_state(found, directory, name)
        for name, found in earlier_runs(pod, now=time.time()).items()
    }


def _earlier_state(found: EarlierRun, directory: Path, name: str) -> Container:
    log, previous_log = (
        ContainerLog.of_earlier_run(log_path(directory, name, found.run.restarts - before))
        for before in (0, 1)
    )
    if found.is_final:
        return Container(run=found.run, log=log, previous_log=previous_log)
    return Container(previous=found.run, earlier=found.run.restarts + 1, previous_log=log)


def removed_state(state: Container) -> Container:
    """Return the state of a container that was removed so that all start again."""
    assert state.run is not None
    restarts = state.run.restarts + 1
    removed = Run(
        "",
        restarts,
        0.0,
        ready=False,
        finished_at=0.0,
        exit_code=137,
        reason=_RESTARTING_ALL,
        message=_REMOVED,
    )
    waiting = Waiting(_RESTARTING_ALL, _REMOVED)
    return Container(previous=removed, earlier=restarts, waiting=waiting, back_off=state.back_off)
