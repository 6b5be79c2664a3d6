"""The worker of one pod: what a sync does, and when the next one is due.

A sync, in order (kubernetes: pkg/kubelet/kubelet.go, SyncPod):

1. register the pod's sources (`sources`)
2. bring its volumes up to date (`mounts`); without all of them no container starts
3. decide what to start and kill (`actions`), start and kill it (`runtime`)
4. report the status (`status`)

When: at once after an update of the pod (spec, labels, annotations, deletion, readiness gates) and
after a container has ended; else after the sync period plus up to half of it, at random. A change
of a ConfigMap or Secret causes no sync, in no strategy.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hotmap.core.errors import Conflict, HotmapError, NotFound
from hotmap.local.kubelet.actions import compute_pod_actions
from hotmap.local.kubelet.claims import ClaimedPaths
from hotmap.local.kubelet.containers import (
    FALLBACK_GRACE,
    PodContainers,
    named_container,
    retry_delay,
)
from hotmap.local.kubelet.environment import wanted_sources
from hotmap.local.kubelet.logs import remove_logs
from hotmap.local.kubelet.mounts import PodVolumes, volume_sources
from hotmap.local.kubelet.node import MAX_PODS
from hotmap.local.kubelet.restart_policy import all_containers, is_sidecar, without_restarts
from hotmap.local.kubelet.status import Ended, PodFacts, make_status, readiness_gates
from hotmap.local.meta import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotmap.local.kubelet.node_context import Node

_log = logging.getLogger(__name__)

MANAGER = "kubelet"
#: Seconds until a volume that cannot be set up is tried again, doubled up to the last
#: (kubernetes: pkg/volume/util/nestedpendingoperations).
VOLUME_RETRY_FIRST = 0.5
VOLUME_RETRY_LAST = 122.0
#: Seconds between two restarts of all containers, for which there is no back-off: about what a
#: container runtime takes for one.
RESET_PERIOD = 1.0
#: pkg/kubelet/active_deadline.go
_PAST_DEADLINE = Ended(
    "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
)
#: Annotations that a kubelet puts on pods itself, so they are not updates (pkg/kubelet/types).
_LOCAL_ANNOTATIONS = (
    "kubernetes.io/config.source",
    "kubernetes.io/config.mirror",
    "kubernetes.io/config.seen",
)


@dataclass(frozen=True, slots=True)
class SyncSettings:
    """How often pods are synced periodically, how old sources may be, and how many pods there are.

    A healthy pod is synced again after `period` seconds, plus at random up to `jitter`
    times that: upstream's 60 to 90 s by default. `ttl` is for the strategy Cache: seconds, put
    into the node's annotation; None leaves the default of one minute. The node takes `max_pods`
    pods that have not finished.
    """

    period: float = 60.0
    jitter: float = 0.5
    strategy: Literal["Watch", "Cache", "Get"] = "Watch"
    ttl: float | None = None
    max_pods: int = MAX_PODS

    def next_sync(self) -> float:
        """Draw the seconds until the next sync of a pod."""
        return self.period * (1 + self.jitter * random.random())


class PodWorker:
    """Syncs one pod (one uid) until it is gone from the node and the API."""

    def __init__(
        self, pod: dict[str, Any], node: Node, *, settings: SyncSettings, address: str
    ) -> None:
        self.pod = pod
        self._node = node
        self._settings = settings
        self._started_at = time.time()
        self._volumes = PodVolumes(
            node.root,
            pod["metadata"]["uid"],
            node.sources,
            allocatable=node.allocatable,
            tokens=node.tokens,
            claims=ClaimedPaths(node.client),
        )
        self._wake = asyncio.Event()
        self.containers = PodContainers(
            pod, node, self._volumes, address=address, changed=self._wake.set
        )
        self._removed = False
        self._ended: Ended | None = None
        self._volume_retry = VOLUME_RETRY_FIRST
        self._last_reset = -RESET_PERIOD

    # -- notifications -------------------------------------------------------------------------

    def update(self, pod: dict[str, Any]) -> None:
        """Set the pod as the API server has it; sync at once if the change matters."""
        before, self.pod = self.pod, pod
        self.containers.pod = pod
        self.containers.reconsider()
        if differs_semantically(before, pod):
            self._wake.set()

    def remove(self) -> None:
        """Record that the API server no longer has the pod."""
        self._removed = True
        self.containers.reconsider()
        self._wake.set()

    # -- the loop ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until the pod is gone; retry every failed sync."""
        try:
            while not self._is_terminating():
                self._wake.clear()
                delay = await self._guarded_sync()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(delay):
                        await self._wake.wait()
            await self._terminate()
        finally:
            self._node.sources.unregister(self._uid)
            self.containers.close()

    async def _guarded_sync(self) -> float | None:
        try:
            return await self._sync()
        except (HotmapError, OSError) as error:
            _log.warning("pod %s: sync failed: %s", self._name, error)
        except Exception:
            # An exception must not end the worker of this pod.
            _log.exception("pod %s: internal error; retrying", self._name)
        return retry_delay()

    async def _sync(self) -> float | None:
        """Sync once; return the seconds until the next sync, None for never."""
        spec = self.pod["spec"]
        if self._is_finished():
            return None
        remaining = self._until_deadline()
        if self._ended is None and remaining is not None and remaining <= 0:
            self._ended = _PAST_DEADLINE
            self._event("Normal", *_PAST_DEADLINE)
        if self._ended is not None:
            await self._kill_running()
            await self._report(without_restarts(spec))
            return None
        self._register_sources()  # 1
        failures = await self._volumes.set_up(self.pod)  # 2
        for failure in failures:
            self._event(
                "Warning",
                "FailedMount",
                f'MountVolume.SetUp failed for volume "{failure.volume}" : {failure.message}',
            )
        delays = [self._settings.next_sync()]
        if remaining is not None:
            delays.append(remaining)
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
        """Start and kill until nothing is left to do; return when to retry."""
        attempted: set[str] = set()
        delays: list[float] = []
        while True:
            actions = compute_pod_actions(spec, self.containers.runs(), attempted)
            if actions.reset:
                wait = self._last_reset + RESET_PERIOD - time.monotonic()
                if wait > 0:
                    return [*delays, wait]
                await self._reset(actions.reset)
                continue
            if actions.replace:
                for name in actions.replace:
                    self.containers.event_of_change(name)
                await self.containers.kill(actions.replace, self._grace)
                if self._is_terminating():
                    return delays
            for name in actions.kill:
                self.containers.event_of_stop(name)
            await self.containers.kill(actions.kill, self._grace)
            starting = (*actions.replace, *actions.start)
            if not starting:
                return delays
            if self.containers.has_unshown_end(actions.start):
                # As upstream: how a container has ended is shown before it is started again.
                await self._report(spec)
            for name in starting:
                attempted.add(name)
                delay = await self.containers.start(named_container(spec, name))
                if delay is not None:
                    delays.append(delay)

    async def _reset(self, names: Sequence[str]) -> None:
        """Remove all containers, so that the pod starts again with its volumes (KEP-5532)."""
        await self._report(self.pod["spec"])
        await self.containers.reset(names)
        self._last_reset = time.monotonic()
        await self._report(self.pod["spec"])

    # -- ending --------------------------------------------------------------------------------

    def _until_deadline(self) -> float | None:
        """Return the seconds that the pod may still be active, None forever."""
        allowed = self.pod["spec"].get("activeDeadlineSeconds")
        if allowed is None:
            return None
        started = self.pod.get("status", {}).get("startTime")
        since = self._started_at if started is None else parse_time(started)
        return since + float(allowed) - time.time()

    async def _kill_running(self) -> None:
        """Kill the containers with grace, sidecars last."""
        sidecars = {
            c["name"] for c in self.pod["spec"].get("initContainers") or () if is_sidecar(c)
        }
        running = [name for name, run in self.containers.runs().items() if run.running]
        for name in running:
            self.containers.event_of_stop(name)
        await self.containers.kill([n for n in running if n not in sidecars], self._grace)
        await self.containers.kill([n for n in running if n in sidecars], self._grace)

    async def _terminate(self) -> None:
        """Kill the containers with grace, report the end, and take the pod from node and API."""
        spec = self.pod["spec"]
        await self._kill_running()
        self._volumes.remove()
        remove_logs(self._node.root, self.pod)
        if self._removed:
            return
        metadata = self.pod["metadata"]
        try:
            # Nothing is restarted any more, whatever the policy says.
            await self._report(without_restarts(spec))
            await self._node.client.delete(
                "pods", metadata["namespace"], metadata["name"], grace_period=0, uid=self._uid
            )
        except (NotFound, Conflict):
            # The pod is gone already; its name may belong to another pod now.
            return

    def _grace(self) -> float:
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        if self._removed:
            return 0
        configured = spec.get("terminationGracePeriodSeconds", FALLBACK_GRACE)
        return float(metadata.get("deletionGracePeriodSeconds", configured))

    # -- state ---------------------------------------------------------------------------------

    @property
    def _uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    @property
    def _name(self) -> str:
        return f"{self.pod['metadata']['namespace']}/{self.pod['metadata']['name']}"

    def _is_terminating(self) -> bool:
        return self._removed or bool(self.pod["metadata"].get("deletionTimestamp"))

    def _is_finished(self) -> bool:
        return self.pod.get("status", {}).get("phase") in ("Succeeded", "Failed")

    def _register_sources(self) -> None:
        spec = self.pod["spec"]
        wanted = list(volume_sources(spec))
        for container in all_containers(spec):
            wanted += wanted_sources(container)
        self._node.sources.register(self._uid, self.pod["metadata"]["namespace"], wanted)

    async def _report(self, spec: Mapping[str, Any]) -> None:
        states, runs = self.containers.states, self.containers.runs()
        facts = PodFacts(
            runs={name: run for name, run in runs.items() if not run.starting},
            previous={name: s.previous for name, s in states.items() if s.previous},
            waiting={name: s.waiting for name, s in states.items() if s.waiting},
            address=self.containers.address,
            host_address=self._node.address,
            started_at=self._started_at,
            generation=self.pod["metadata"].get("generation", 0),
            ended=self._ended,
            has_volumes=not self._volumes.unmounted(self.pod),
        )

        def change(pod: dict[str, Any]) -> dict[str, Any] | None:
            if pod["metadata"]["uid"] != self._uid:
                return None
            status = make_status({**pod, "spec": spec}, facts, now=time.time())
            return {**pod, "status": {**(pod.get("status") or {}), **status}}

        metadata = self.pod["metadata"]
        with contextlib.suppress(NotFound):
            await self._node.client.modify(
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
    """Return whether an update of a pod causes a sync.

    Spec, labels, deletion, and annotations but for the kubelet's own do, and the conditions of
    readiness gates; the rest of status and metadata does not (kubernetes:
    pkg/kubelet/config/config.go, podsDifferSemantically; status/status_manager.go,
    NeedToReconcilePodReadiness).
    """
    return (
        old["spec"] != new["spec"]
        or _watched_metadata(old) != _watched_metadata(new)
        or _gates(old) != _gates(new)
    )


def _gates(pod: Mapping[str, Any]) -> dict[str, str]:
    return readiness_gates(pod["spec"], pod.get("status") or {})


def _watched_metadata(pod: Mapping[str, Any]) -> tuple[object, ...]:
    metadata = pod["metadata"]
    annotations = metadata.get("annotations") or {}
    return (
        metadata.get("labels") or {},
        {k: v for k, v in annotations.items() if k not in _LOCAL_ANNOTATIONS},
        metadata.get("deletionTimestamp"),
        metadata.get("deletionGracePeriodSeconds"),
    )
