"""Answers the requests of the API server for a node's pods: log, exec, attach, port-forward."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from hotmap.core.errors import ApiError, BadRequest, api_error
from hotmap.local.kubelet.addresses import HOST_ADDRESS
from hotmap.local.kubelet.container_state import earlier_states
from hotmap.local.kubelet.exec import FailedCommand
from hotmap.local.kubelet.missing_logs import no_log
from hotmap.local.kubelet.restart_policy import all_containers
from hotmap.local.kubelet.runtime import StartFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from hotmap.local.kubelet.container_state import Container
    from hotmap.local.kubelet.sync import PodWorker
    from hotmap.local.kubelet_api import LogOptions, RemoteSession, StreamOptions

__all__ = ["PodRequests"]


class PodRequests:
    """Serves the pods of one node to the API server; implements `local.kubelet_api.KubeletAPI`."""

    def __init__(
        self,
        root_dir: Path,
        *,
        workers: Callable[[], Iterable[PodWorker]],
        pods: Mapping[tuple[str, str], dict[str, Any]],
    ) -> None:
        """Answer for the node whose kubelet has this root directory.

        workers: returns the workers of the running pods, the newest first
        pods: all pods of the node by namespace and name; those without a worker have only logs
        """
        self._root = root_dir
        self._workers = workers
        self._pods = pods

    async def logs(
        self, namespace: str, pod: str, container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        """Open a container's log, of the current run or the one before.

        Raises:
            BadRequest: there is no such container, or no such run of it.
        """
        worker = self._worker(namespace, pod)
        known = self._pods.get((namespace, pod)) if worker is None else worker.pod
        if worker is not None:
            state = worker.containers.states.get(container)
        else:
            state = earlier_states(self._root, known).get(container) if known else None
        log = None
        if state is not None:
            # Before its first run here, a container has the log of its last run.
            is_current = not options.previous and state.log is not None
            log = state.log if is_current else state.previous_log
        if log is None:
            waiting = state.waiting.reason if state is not None and state.waiting else ""
            raise BadRequest(
                no_log(known or {}, pod, container, waiting=waiting, previous=options.previous)
            )
        return log.read(options)

    async def exec(
        self,
        namespace: str,
        pod: str,
        container: str,
        command: Sequence[str],
        options: StreamOptions,
    ) -> RemoteSession:
        """Start a command in a running container, with the container's environment.

        Raises:
            BadRequest: there is no such container.
            ApiError: 500, it does not run.
        """
        worker, _ = self._running(namespace, pod, container)
        try:
            return await worker.containers.execute(
                container, command, stdin=options.stdin, tty=options.tty
            )
        except StartFailed as error:
            return FailedCommand(
                _internal_error(
                    "error executing command in container: failed to exec in container: failed to "
                    f"start exec: unable to start container process: {error}"
                )
            )

    async def attach(
        self, namespace: str, pod: str, container: str, options: StreamOptions
    ) -> RemoteSession:
        """Join a client and the streams of a running container.

        Raises:
            BadRequest: there is no such container.
            ApiError: 500, it does not run.
        """
        _, state = self._running(namespace, pod, container)
        assert state.streams is not None
        return state.streams.attach(stdin=options.stdin)

    async def connect(
        self, namespace: str, pod: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection to a port of a pod, or of this machine where only that listens.

        Raises:
            ApiError: nothing listens there, or the pod does not run.
        """
        worker = self._worker(namespace, pod)
        if worker is None:
            raise api_error(500, f'pod not found ("{pod}_{namespace}")', reason="InternalError")
        for address in (worker.containers.address, HOST_ADDRESS):
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(address, port)
        text = (
            f"failed to connect to localhost:{port} inside the pod: "
            f"dial tcp4 {worker.containers.address}:{port}: connect: connection refused"
        )
        raise api_error(500, text, reason="InternalError")

    def address(self, namespace: str, pod: str) -> str:
        """Return the address that a pod has here, "" if it has none."""
        worker = self._worker(namespace, pod)
        return "" if worker is None else worker.containers.address

    def _running(self, namespace: str, pod: str, container: str) -> tuple[PodWorker, Container]:
        """Find a running container.

        Raises:
            BadRequest: there is no such container.
            ApiError: 500, it does not run.
        """
        worker, state = self._find(namespace, pod, container)
        if state is None or state.process is None or not state.process.running:
            text = f'container not found ("{container}")'
            raise api_error(500, text, reason="InternalError")
        return worker, state

    def _worker(self, namespace: str, pod: str) -> PodWorker | None:
        """Find a pod by names; of two with one name, take the newer."""
        for worker in self._workers():
            metadata = worker.pod["metadata"]
            if (metadata["namespace"], metadata["name"]) == (namespace, pod):
                return worker
        return None

    def _find(self, namespace: str, pod: str, container: str) -> tuple[PodWorker, Container | None]:
        """Find a container by names."""
        worker = self._worker(namespace, pod)
        if worker is not None and any(
            known["name"] == container for known in all_containers(worker.pod["spec"])
        ):
            return worker, worker.containers.states.get(container)
        raise BadRequest(f"container {container} is not valid for pod {pod}")


def _internal_error(text: str) -> ApiError:
    """Make the error of a kubelet (apimachinery: errors.NewInternalError)."""
    return api_error(500, f"Internal error occurred: {text}", reason="InternalError")
