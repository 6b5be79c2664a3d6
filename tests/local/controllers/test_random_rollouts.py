"""Random edits, scalings, pauses, undos and lost pods: the bounds hold and all ends well.

A watch on the store sees every single write in order, so a bound that is broken for one write
only is found too. A failing seed reproduces the operations, not every interleaving.
"""

from __future__ import annotations

import asyncio
from collections import deque
from random import Random

import msgspec
import pytest
from tests.local.apiserver.api import store_of
from tests.local.controllers.plane import Object, Plane, control_plane, template_change, web

from hotmap.local.controllers.rolling import Bounds, bounds_of
from hotmap.local.store import MVCCStore
from hotmap.local.store_watch import StoreEvent

OPERATIONS = 40

# Store events after which every decision made before a change has been carried out: a sync
# writes at most a handful, the other controllers and the node write in between.
WINDOW = 80


class Monitor:
    """Replays the store's writes and checks the bounds of the Deployment `web` after each."""

    def __init__(self, store: MVCCStore) -> None:
        self._watch = store.watch("/registry/", since=store.compacted)
        self._objects: dict[str, dict[str, Object]] = {}
        #: Bounds that a decision may still rest on, with the revision at which they were replaced.
        self._bounds: deque[tuple[Bounds, int]] = deque()
        #: Revision of the last disturbance that no controller is to blame for.
        self._disturbed = 0
        self.violations: list[str] = []
        self.scale_downs_checked = 0

    async def run(self) -> None:
        async for event in self._watch:
            _, _, resource, *_ = event.key.split("/")
            if resource in ("deployments", "replicasets", "pods"):
                self._take_in(resource, event)

    def _take_in(self, resource: str, event: StoreEvent) -> None:
        objects = self._objects.setdefault(resource, {})
        before = objects.get(event.key)
        lasting = self._lasting()
        after = None if event.value is None else msgspec.json.decode(event.value)
        if after is None:
            objects.pop(event.key, None)
        else:
            objects[event.key] = after
        if resource == "deployments":
            self._note_deployment(before, after, event.revision)
        elif resource == "replicasets":
            self._check_scaling(before, after, lasting, event.revision)
        else:
            self._check_pods(before, after, event.revision)

    def _note_deployment(self, before: Object | None, after: Object | None, at: int) -> None:
        if after is None or (before is not None and before["spec"] == after["spec"]):
            return
        if before is None or bounds_of(before) != bounds_of(after):
            self._disturbed = at
        if before is not None:
            self._bounds.append((bounds_of(before), at))

    def _recent(self, at: int) -> list[Bounds]:
        while self._bounds and self._bounds[0][1] < at - WINDOW:
            self._bounds.popleft()
        present = [bounds_of(d) for d in self._objects.get("deployments", {}).values()]
        return [*present, *(bounds for bounds, _ in self._bounds)]

    def _active(self) -> list[Object]:
        pods = self._objects.get("pods", {}).values()
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def _check_pods(self, before: Object | None, after: Object | None, at: int) -> None:
        """A pod that is made never takes all pods above replicas + maxSurge."""
        if before is None:
            most = max(bounds.max_pods for bounds in self._recent(at))
            if len(self._active()) > most:
                self.violations.append(f"{at}: {len(self._active())} pods, {most} allowed")
        elif _is_killed(before, after):
            self._disturbed = at

    def _lasting(self) -> int:
        """Available pods that stay once every ReplicaSet has its size."""
        total = 0
        for replica_set in self._objects.get("replicasets", {}).values():
            ready = [pod for pod in self._active() if _is_ready(pod) and _owner(pod, replica_set)]
            total += min(len(ready), replica_set["spec"]["replicas"])
        return total

    def _check_scaling(
        self, before: Object | None, after: Object | None, lasting: int, at: int
    ) -> None:
        """A rollout's step never takes available pods below replicas - maxUnavailable."""
        if before is None or after is None or at - self._disturbed < WINDOW:
            return
        if after["spec"]["replicas"] >= before["spec"]["replicas"]:
            return
        self.scale_downs_checked += 1
        least = min(bounds.min_available for bounds in self._recent(at))
        if self._lasting() < min(least, lasting):
            self.violations.append(f"{at}: {self._lasting()} stay available, least is {least}")


def _is_killed(before: Object, after: Object | None) -> bool:
    """Return whether a pod was deleted from outside, without grace; controllers grant it.

    An API server writes the deletion before it removes such a pod.
    """
    if "deletionTimestamp" in before["metadata"]:
        return False
    return after is None or after["metadata"].get("deletionGracePeriodSeconds") == 0


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _owner(pod: Object, replica_set: Object) -> bool:
    owners = pod["metadata"].get("ownerReferences") or []
    return any(owner["uid"] == replica_set["metadata"]["uid"] for owner in owners)


class Chaos:
    """Does random things to the Deployment `web` and to its pods."""

    def __init__(self, plane: Plane, random: Random) -> None:
        self._plane = plane
        self._random = random
        self._bad_versions = {"bad"}
        #: Pods that become ready only when the node looks again.
        self._slow: dict[str, bool] = {}
        plane.node.becomes_ready = self._makes_ready
        self._operations = [
            (4, self._edit), (3, self._scale), (1, self._pause), (2, self._resume),
            (2, self._kill), (1, self._rebound), (4, self._settle_some), (2, self._rest),
        ]  # fmt: skip

    async def run(self, count: int) -> None:
        weights = [weight for weight, _ in self._operations]
        for _ in range(count):
            _, operation = self._random.choices(self._operations, weights)[0]
            await operation()
            await self._turns(self._random.choice((0, 1, 5, 20, 100)))

    async def heal(self) -> None:
        """Take all obstacles away, so that the Deployment can come to rest."""
        self._bad_versions.clear()
        self._slow = dict.fromkeys(self._slow, False)
        self._random = Random(0)
        self._plane.node.becomes_ready = lambda pod: True
        await self._resume()
        self._plane.node.sync_all()

    def _makes_ready(self, pod: Object) -> bool:
        if _is_ready(pod):
            return True
        version = pod["metadata"].get("annotations", {}).get("version")
        if version in self._bad_versions:
            return False
        uid = pod["metadata"]["uid"]
        return not self._slow.setdefault(uid, self._random.random() < 0.5)

    async def _turns(self, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    async def _edit(self) -> None:
        version = self._random.choice(("1", "2", "3", "bad", str(self._random.random())))
        await self._plane.patch("deployments", "web", template_change(version))

    async def _scale(self) -> None:
        replicas = self._random.choice((0, 1, 2, 3, 5, 8))
        await self._plane.patch("deployments", "web", {"spec": {"replicas": replicas}})

    async def _pause(self) -> None:
        await self._plane.patch("deployments", "web", {"spec": {"paused": True}})

    async def _resume(self) -> None:
        await self._plane.patch("deployments", "web", {"spec": {"paused": None}})

    async def _rebound(self) -> None:
        surge, unavailable = self._random.choice(((1, 0), (0, 1), (2, 2), ("50%", "25%")))
        strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
        await self._plane.patch("deployments", "web", {"spec": {"strategy": strategy}})

    async def _kill(self) -> None:
        pods = sorted(await self._plane.names("pods"))
        if pods:
            name = self._random.choice(pods)
            await self._plane.registry.delete("pods", "default", name, grace_period=0)

    async def _settle_some(self) -> None:
        for uid in list(self._slow):
            if self._random.random() < 0.7:
                self._slow[uid] = False
        self._plane.node.sync_all()

    async def _rest(self) -> None:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 20))]
)
async def test_random_rollout_keeps_bounds_and_converges(seed: int) -> None:
    """Whatever happens, no step breaks the bounds, and in the end the last template runs."""
    random = Random(seed)
    async with control_plane() as plane:
        monitor = Monitor(store_of(plane.registry))
        watching = asyncio.create_task(monitor.run())
        await plane.create("deployments", web(3))
        chaos = Chaos(plane, random)
        await chaos.run(OPERATIONS)
        await chaos.heal()
        deployment = await plane.wait_until_complete()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        assert monitor.violations == []
        await _assert_at_rest(plane, deployment)


async def _assert_at_rest(plane: Plane, deployment: Object) -> None:
    sets = [rs for rs in await plane.items("replicasets") if rs["spec"]["replicas"]]
    replicas = deployment["spec"]["replicas"]
    assert sum(rs["spec"]["replicas"] for rs in sets) == replicas
    assert len(sets) <= 1
    revisions = [
        int(rs["metadata"]["annotations"]["deployment.kubernetes.io/revision"])
        for rs in await plane.items("replicasets")
    ]
    assert len(set(revisions)) == len(revisions)
    version = deployment["spec"]["template"]["metadata"].get("annotations", {}).get("version")
    for pod in await plane.items("pods"):
        if "deletionTimestamp" not in pod["metadata"]:
            assert pod["metadata"].get("annotations", {}).get("version") == version
    if replicas:
        noted = deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
        assert int(noted) == max(revisions)


async def test_monitor_detects_rollouts() -> None:
    """The check of scale-downs is made on plain rollouts, or it would prove nothing."""
    async with control_plane() as plane:
        monitor = Monitor(store_of(plane.registry))
        watching = asyncio.create_task(monitor.run())
        await plane.create("deployments", web(6))
        await plane.wait_until_complete()
        for version in ("2", "3", "4"):
            await plane.patch("deployments", "web", template_change(version))
            await plane.wait_until_complete()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        assert monitor.violations == []
        assert monitor.scale_downs_checked >= 9
