"""Random histories of StatefulSets and DaemonSets, decided by the plans alone.

Whatever happened to pods and nodes: once all pods become ready, the plans end with the pods that
were asked for, and on the way they never do more than their bounds allow.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.local.controllers.objects import pod_template

from hotmap.local.controllers.daemonset.plan import DaemonSetView, plan_pods, plan_update
from hotmap.local.controllers.daemonset.pods import daemon_pod, target_node
from hotmap.local.controllers.history import template_patch
from hotmap.local.controllers.pods import is_ready
from hotmap.local.controllers.statefulset.identity import ordinal_of, revision_of
from hotmap.local.controllers.statefulset.plan import StatefulSetView, plan_steps

Object = dict[str, Any]

NOW = 1767226200.0
SINCE = "2026-01-01T00:00:00Z"
STEPS = 40
#: Steps within which everything is done; a step moves at least one pod on.
ENOUGH = 200


class World:
    """Pods by name, and what a kubelet does to them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pods: dict[str, Object] = {}
        self._made = 0

    def create(self, pod: Object, *, name: str = "") -> None:
        self._made += 1
        name = name or pod["metadata"]["name"]
        assert name not in self.pods, f"{name} is there already"
        second = f"2026-01-01T00:{self._made // 60:02}:{self._made % 60:02}Z"
        identity = {"uid": f"uid-{self._made}", "name": name, "namespace": "default"}
        metadata = {**pod["metadata"], **identity, "creationTimestamp": second}
        self.pods[name] = {**pod, "metadata": metadata, "status": {"phase": "Pending"}}

    def delete(self, pod: Object) -> None:
        present = self.pods[pod["metadata"]["name"]]
        assert not present["metadata"].get("deletionTimestamp"), "deleted twice"
        metadata = {**present["metadata"], "deletionTimestamp": SINCE}
        self.pods[pod["metadata"]["name"]] = {**present, "metadata": metadata}

    def change_one(self) -> None:
        """Let something happen to one pod."""
        if self.pods:
            self.move(self.random.choice(sorted(self.pods)), self.random.random() < 0.7)

    def heal(self) -> None:
        for name in sorted(self.pods):
            self.move(name, True)

    def remove_ended(self) -> None:
        """Delete by hand what will not run again."""
        ended = [p for p in self.pods.values() if p["status"]["phase"] in ("Failed", "Succeeded")]
        for pod in ended:
            del self.pods[pod["metadata"]["name"]]

    def move(self, name: str, well: bool) -> None:
        pod = self.pods[name]
        if pod["metadata"].get("deletionTimestamp"):
            del self.pods[name]
            return
        phase = "Running" if well else self.random.choice(["Running", "Failed", "Succeeded"])
        if pod["status"]["phase"] in ("Failed", "Succeeded"):
            return
        ready = "True" if well else "False"
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": SINCE}
        spec = {**pod["spec"], "nodeName": target_node(pod) or "local"}
        status = {"phase": phase, "conditions": [condition]}
        self.pods[name] = {**pod, "spec": spec, "status": status}


def _is_well(pod: Object) -> bool:
    return is_ready(pod) and not pod["metadata"].get("deletionTimestamp")


def _stateful_set(replicas: int, policy: str, partition: int, start: int) -> Object:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
    return {
        "metadata": {"namespace": "default", "name": "web", "uid": "uid-of-web"},
        "spec": {
            "replicas": replicas,
            "ordinals": {"start": start},
            "podManagementPolicy": policy,
            "template": pod_template(),
            "updateStrategy": strategy,
        },
    }


def _revision(name: str) -> Object:
    return {"metadata": {"name": name}, "data": template_patch(pod_template(image=name))}


def _sync_stateful_set(world: World, owner: Object, current: str, update: str) -> bool:
    """Carry one plan out; return whether it had steps."""
    view = StatefulSetView(
        owner, list(world.pods.values()), _revision(current), _revision(update), {}, {}, NOW
    )
    steps = plan_steps(view)
    if view.is_ordered:
        assert len(steps) <= 1
    for step in steps:
        if view.is_ordered and step.action == "create":
            lower = [p for p in view.pods if ordinal_of(p) < ordinal_of(step.pod)]
            wanted = owner["spec"]["ordinals"]["start"]
            assert all(_is_well(pod) for pod in lower if ordinal_of(pod) >= wanted)
        if step.action == "create":
            world.create(step.pod)
        else:
            assert step.action == "delete"
            world.delete(step.pod)
    return bool(steps)


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
@pytest.mark.parametrize("seed", range(15))
def test_stateful_set_ends_with_its_replicas(policy: str, seed: int) -> None:
    world = World(seed)
    current = update = "r0"
    owner = _stateful_set(3, policy, 0, 0)
    for step in range(STEPS):
        if world.random.random() < 0.15:
            sizes = world.random.randint(0, 4), world.random.randint(0, 4)
            owner = _stateful_set(sizes[0], policy, sizes[1], world.random.randint(0, 2))
        if world.random.random() < 0.15:
            update = f"r{step}"
        _sync_stateful_set(world, owner, current, update)
        world.change_one()
    for _ in range(ENOUGH):
        moved = _sync_stateful_set(world, owner, current, update)
        if not moved and all(map(_is_well, world.pods.values())):
            break
        if not moved:
            # Of several pods beyond the replicas that have ended none is removed, as upstream.
            world.remove_ended()
        world.heal()
    else:
        raise AssertionError(f"not done: {sorted(world.pods)}")
    spec = owner["spec"]
    start = spec["ordinals"]["start"]
    wanted = range(start, start + spec["replicas"])
    assert sorted(map(ordinal_of, world.pods.values())) == list(wanted)
    first = start + spec["updateStrategy"]["rollingUpdate"]["partition"]
    updated = [p for p in world.pods.values() if ordinal_of(p) >= first]
    assert {revision_of(pod) for pod in updated} <= {update}


def _daemon_set(unavailable: int, surge: int) -> Object:
    bounds = {"maxUnavailable": unavailable, "maxSurge": surge}
    return {
        "metadata": {"namespace": "default", "name": "agent", "uid": "uid"},
        "spec": {
            "template": pod_template(),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": bounds},
        },
    }


def _sync_daemon_set(world: World, owner: Object, nodes: list[str], revision: str) -> bool:
    """Carry the plans out, as the controller does; return whether they had steps."""
    known = {name: {"metadata": {"name": name}, "spec": {}} for name in nodes}
    busy = False
    for plan_of in (plan_pods, plan_update):
        view = DaemonSetView(owner, known, list(world.pods.values()), revision, NOW)
        plan = plan_of(view)
        if plan_of is plan_update:
            well = [p for p in view.pods if _is_well(p) and target_node(p) in nodes]
            lost = [p for p in plan.delete if _is_well(p) and target_node(p) in nodes]
            bounds = owner["spec"]["updateStrategy"]["rollingUpdate"]
            if lost and not bounds["maxSurge"]:
                assert len(nodes) - (len(well) - len(lost)) <= bounds["maxUnavailable"]
        for node in plan.create:
            made = daemon_pod(owner, node, revision_hash=revision, reference={})
            world.create(made, name=f"agent-{len(world.pods)}-{world.random.random()}")
        for pod in (*plan.delete, *plan.failed, *plan.succeeded):
            world.delete(pod)
        busy = busy or any(plan)
    return busy


@pytest.mark.parametrize("bounds", [(1, 0), (2, 0), (0, 1), (0, 2)])
@pytest.mark.parametrize("seed", range(10))
def test_daemon_set_ends_with_a_pod_per_node(bounds: tuple[int, int], seed: int) -> None:
    world = World(seed)
    owner, nodes, revision = _daemon_set(*bounds), ["a", "b", "c"], "r0"
    for step in range(STEPS):
        if world.random.random() < 0.15:
            nodes = sorted(world.random.sample("abcd", world.random.randint(0, 4)))
            # What a node had goes with it (kubernetes: pkg/controller/podgc).
            gone = [name for name, pod in world.pods.items() if target_node(pod) not in nodes]
            for name in gone:
                del world.pods[name]
        if world.random.random() < 0.15:
            revision = f"r{step}"
        _sync_daemon_set(world, owner, nodes, revision)
        world.change_one()
    for _ in range(ENOUGH):
        moved = _sync_daemon_set(world, owner, nodes, revision)
        if not moved and all(map(_is_well, world.pods.values())):
            break
        world.heal()
    else:
        raise AssertionError(f"not done: {sorted(world.pods)}")
    assert sorted(target_node(pod) or "" for pod in world.pods.values()) == nodes
    assert {revision_of(pod) for pod in world.pods.values()} <= {revision}
