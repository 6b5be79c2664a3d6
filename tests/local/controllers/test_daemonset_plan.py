"""Which pods of a DaemonSet are created and deleted, as tables of nodes and pods."""

from __future__ import annotations

from typing import Any

import pytest
from tests.local.controllers.objects import pod_template

from hotmap.local.controllers.daemonset.backoff import FailedPodBackoff
from hotmap.local.controllers.daemonset.nodes import place
from hotmap.local.controllers.daemonset.plan import (
    DaemonSetView,
    PodPlan,
    UpdateBounds,
    plan_pods,
    plan_update,
    update_bounds,
)
from hotmap.local.controllers.daemonset.pods import (
    daemon_pod,
    daemon_tolerations,
    target_node,
)
from hotmap.local.controllers.daemonset.status import daemon_set_status

Object = dict[str, Any]

# Ten minutes after pods of the tests became ready.
NOW = 1767226200.0
READY_SINCE = "2026-01-01T00:00:00Z"


def daemon_set(*, pod_spec: Object | None = None, **spec: Any) -> Object:
    template = pod_template()
    template["spec"] |= pod_spec or {}
    return {
        "metadata": {"namespace": "default", "name": "agent", "uid": "uid", "generation": 3},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": template,
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
            },
            **spec,
        },
    }


def rolling(max_unavailable: int | str, max_surge: int | str = 0) -> Object:
    bounds = {"maxUnavailable": max_unavailable, "maxSurge": max_surge}
    return {"type": "RollingUpdate", "rollingUpdate": bounds}


def node(text: str) -> Object:
    """A node from `<name>[ <label>=<value>][ <taint effect>]`."""
    name, *rest = text.split()
    labels = dict(part.split("=") for part in rest if "=" in part)
    taints = [{"key": "t", "value": "v", "effect": part} for part in rest if "=" not in part]
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}


def daemon(text: str, serial: int) -> Object:
    """A pod from `<node> <new|old> <state>`; later ones are younger.

    States: ready, unready, young (ready for one second), waiting (not scheduled), failed,
    succeeded, going (on its way out), gone (finished and on its way out).
    """
    where, revision, state = text.split()
    made = daemon_pod(daemon_set(), where, revision_hash=revision, reference={})
    phase = {"failed": "Failed", "succeeded": "Succeeded", "gone": "Failed", "waiting": "Pending"}
    since = "2026-01-01T00:09:59Z" if state == "young" else READY_SINCE
    ready = "True" if state in ("ready", "young", "going") else "False"
    name = f"{where}-{revision}-{state}"
    made["metadata"] |= {"namespace": "default", "name": name, "uid": name}
    made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{serial:02}Z"
    if state in ("going", "gone"):
        made["metadata"]["deletionTimestamp"] = READY_SINCE
    if state != "waiting":
        made["spec"]["nodeName"] = where
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": since}
    made["status"] = {"phase": phase.get(state, "Running"), "conditions": [condition]}
    return made


def view(owner: Object, nodes: str, pods: str) -> DaemonSetView:
    listed = [node(text) for text in nodes.split(",") if text.strip()]
    found = [daemon(text, n) for n, text in enumerate(pods.split(",")) if text.strip()]
    by_name = {each["metadata"]["name"]: each for each in listed}
    return DaemonSetView(owner, by_name, found, "new", NOW)


def told(plan: PodPlan) -> list[str]:
    steps = [f"create {name}" for name in plan.create]
    for verb, pods in zip(("delete", "failed", "succeeded"), plan[1:], strict=True):
        steps += [f"{verb} {each['metadata']['name']}" for each in pods]
    return steps


@pytest.mark.parametrize(
    ("nodes", "pods", "steps"),
    [
        ("", "", []),
        ("a, b", "", ["create a", "create b"]),
        ("a, b", "a new ready", ["create b"]),
        ("a", "a new waiting", []),
        ("a", "a old ready", []),
        # A pod that is still there keeps the place of the next.
        ("a", "a new going", []),
        ("a", "a new gone", ["create a"]),
        ("a", "a new failed", ["failed a-new-failed"]),
        ("a", "a new succeeded", ["succeeded a-new-succeeded"]),
        ("a", "a old ready, a new ready", ["delete a-new-ready"]),
        ("a", "a old waiting, a new ready", ["delete a-old-waiting"]),
        ("a", "a new ready, gone-node new waiting", ["delete gone-node-new-waiting"]),
        ("a", "a new ready, gone-node new ready", []),
        ("a NoSchedule", "", []),
        ("a NoSchedule", "a new ready", []),
        ("a NoExecute", "a new ready", ["delete a-new-ready"]),
        ("a PreferNoSchedule", "", ["create a"]),
    ],
)
def test_each_node_has_one_pod(nodes: str, pods: str, steps: list[str]) -> None:
    assert told(plan_pods(view(daemon_set(), nodes, pods))) == steps


@pytest.mark.parametrize(
    ("pods", "steps"),
    [
        ("", ["create a"]),
        ("a old ready, a new unready", []),
        ("a old ready, a new ready", ["delete a-old-ready"]),
        ("a old unready, a new unready", ["delete a-old-unready"]),
        ("a old going", ["create a"]),
        ("a old ready, a old unready, a new unready", ["delete a-old-unready"]),
        ("a new ready, a new unready", ["delete a-new-unready"]),
    ],
)
def test_surge_allows_a_new_pod_beside_an_old_one(pods: str, steps: list[str]) -> None:
    owner = daemon_set(updateStrategy=rolling(0, 1))
    assert told(plan_pods(view(owner, "a", pods))) == steps


@pytest.mark.parametrize(
    ("limit", "pods", "steps"),
    [
        (1, "a new ready, b new ready, c new ready", []),
        (1, "a old ready, b old ready, c old ready", ["delete a-old-ready"]),
        (2, "a old ready, b old ready, c old ready", ["delete a-old-ready", "delete b-old-ready"]),
        (
            "34%",
            "a old ready, b old ready, c new ready",
            ["delete a-old-ready", "delete b-old-ready"],
        ),
        (1, "a new unready, b old ready, c old ready", []),
        (1, "a new young, b old ready, c old ready", ["delete b-old-ready"]),
        # Unavailable old pods go beyond the bound, and count.
        (1, "a old unready, b old ready, c old ready", ["delete a-old-unready"]),
        (
            1,
            "a old unready, b old unready, c old ready",
            ["delete a-old-unready", "delete b-old-unready"],
        ),
        # A node without a pod, or with one on its way out, is unavailable.
        (1, "b old ready, c old ready", []),
        (1, "a old going, b old ready, c old ready", []),
        (1, "a old ready, a new ready, b old ready, c old ready", []),
    ],
)
def test_update_deletes_old_pods_within_the_bound(
    limit: int | str, pods: str, steps: list[str]
) -> None:
    owner = daemon_set(updateStrategy=rolling(limit))
    assert told(plan_update(view(owner, "a, b, c", pods))) == steps


def test_update_waits_for_min_ready_seconds() -> None:
    owner = daemon_set(minReadySeconds=2)
    assert told(plan_update(view(owner, "a, b", "a new young, b old ready"))) == []
    assert told(plan_update(view(owner, "a, b", "a new ready, b old ready"))) == [
        "delete b-old-ready"
    ]


@pytest.mark.parametrize(
    ("nodes", "pods", "steps"),
    [
        ("a, b", "a old ready, b old ready", ["create a"]),
        ("a, b", "a old ready, a new unready, b old ready", []),
        ("a, b", "a old ready, a new ready, b old ready", ["create b", "delete a-old-ready"]),
        ("a, b", "a old unready, b old ready", ["create a", "create b"]),
        ("a, b", "a new ready, b new ready", []),
        ("a, b NoSchedule", "b old unready", ["delete b-old-unready"]),
        # The old pod of a node that is no longer wanted goes when another makes up for it.
        ("a, b NoSchedule", "b old ready", []),
        ("a, b NoSchedule", "a new ready, b old ready", ["delete b-old-ready"]),
    ],
)
def test_update_with_surge_creates_before_it_deletes(
    nodes: str, pods: str, steps: list[str]
) -> None:
    owner = daemon_set(updateStrategy=rolling(0, 1))
    assert told(plan_update(view(owner, nodes, pods))) == steps


@pytest.mark.parametrize(
    ("strategy", "nodes", "bounds"),
    [
        (rolling(1), 10, (0, 1)),
        (rolling("10%"), 11, (0, 2)),
        (rolling(0, "10%"), 11, (2, 0)),
        (rolling(0), 10, (0, 1)),
        (rolling(0), 0, (0, 0)),
        ({"type": "OnDelete"}, 10, (0, 0)),
    ],
)
def test_bounds_are_rounded_up(strategy: Object, nodes: int, bounds: tuple[int, int]) -> None:
    found = update_bounds(daemon_set(updateStrategy=strategy), nodes)
    assert found == (UpdateBounds(*bounds) if strategy["type"] != "OnDelete" else (0, 0))


def affinity(**term: Any) -> Object:
    terms = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def expression(operator: str, *values: str, key: str = "zone") -> list[Object]:
    return [{"key": key, "operator": operator, "values": list(values)}]


@pytest.mark.parametrize(
    ("pod_spec", "where", "placement"),
    [
        ({}, "a", "run"),
        ({"nodeName": "a"}, "a", "run"),
        ({"nodeName": "b"}, "a", "none"),
        ({"nodeSelector": {"zone": "1"}}, "a zone=1", "run"),
        ({"nodeSelector": {"zone": "1"}}, "a zone=2", "none"),
        (affinity(matchExpressions=expression("In", "1", "2")), "a zone=2", "run"),
        (affinity(matchExpressions=expression("In", "1", "2")), "a", "none"),
        (affinity(matchExpressions=expression("NotIn", "1")), "a", "run"),
        (affinity(matchExpressions=expression("Exists")), "a zone=1", "run"),
        (affinity(matchExpressions=expression("DoesNotExist")), "a zone=1", "none"),
        (affinity(matchExpressions=expression("Gt", "1")), "a zone=2", "run"),
        (affinity(matchExpressions=expression("Lt", "1")), "a zone=2", "none"),
        (affinity(matchExpressions=expression("Gt", "1")), "a zone=x", "none"),
        (affinity(matchFields=expression("In", "a", key="metadata.name")), "a", "run"),
        (affinity(matchFields=expression("NotIn", "a", key="metadata.name")), "a", "none"),
        (affinity(), "a", "none"),
        ({}, "a NoSchedule", "stay"),
        ({}, "a NoExecute", "none"),
        ({"tolerations": [{"operator": "Exists"}]}, "a NoExecute", "run"),
        ({"tolerations": [{"key": "t", "value": "v"}]}, "a NoSchedule", "run"),
        ({"tolerations": [{"key": "t", "value": "other"}]}, "a NoSchedule", "stay"),
    ],
)
def test_placement_follows_selectors_and_taints(
    pod_spec: Object, where: str, placement: str
) -> None:
    assert place(daemon_set(pod_spec=pod_spec), node(where)) == placement


def test_cordoned_node_keeps_its_daemons() -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    found = {"metadata": {"name": "a"}, "spec": {"unschedulable": True, "taints": [taint]}}
    assert place(daemon_set(), found) == "run"


def test_daemons_tolerate_what_happens_to_nodes() -> None:
    mine = {"key": "mine", "operator": "Exists"}
    short = {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 5,
    }
    found = daemon_tolerations({"tolerations": [mine, short], "hostNetwork": True})
    assert found[0] == mine
    assert [each.get("key", "").rpartition("/")[2] for each in found[1:]] == [
        "not-ready",
        "unreachable",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
        "network-unavailable",
    ]
    assert not any("tolerationSeconds" in each for each in found)


def test_pod_is_for_its_node_alone() -> None:
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    owner = daemon_set(pod_spec={"affinity": {"nodeAffinity": preferred, "podAffinity": {}}})
    owner["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "4"}
    made = daemon_pod(owner, "a", revision_hash="new", reference={"name": "agent"})
    fields = [{"key": "metadata.name", "operator": "In", "values": ["a"]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    assert made["spec"]["affinity"] == {
        "nodeAffinity": {
            **preferred,
            "requiredDuringSchedulingIgnoredDuringExecution": required,
        },
        "podAffinity": {},
    }
    assert target_node(made) == "a"
    assert target_node({"spec": {}}) is None
    assert made["metadata"]["generateName"] == "agent-"
    assert made["metadata"]["labels"] == {
        "app": "web",
        "controller-revision-hash": "new",
        "pod-template-generation": "4",
    }


@pytest.mark.parametrize(
    ("nodes", "pods", "status"),
    [
        ("", "", {}),
        ("a, b", "", {"desiredNumberScheduled": 2, "numberUnavailable": 2}),
        (
            "a, b, c",
            "a new ready, b old ready, c new unready",
            {
                "desiredNumberScheduled": 3,
                "currentNumberScheduled": 3,
                "numberReady": 2,
                "numberAvailable": 2,
                "numberUnavailable": 1,
                "updatedNumberScheduled": 2,
            },
        ),
        (
            "a NoSchedule",
            "a new ready",
            {"numberMisscheduled": 1},
        ),
        # The oldest pod of a node counts.
        (
            "a",
            "a old ready, a new unready",
            {
                "desiredNumberScheduled": 1,
                "currentNumberScheduled": 1,
                "numberReady": 1,
                "numberAvailable": 1,
            },
        ),
    ],
)
def test_status_counts_nodes(nodes: str, pods: str, status: Object) -> None:
    owner = {**daemon_set(), "status": {"collisionCount": 1, "numberReady": 9}}
    assert daemon_set_status(view(owner, nodes, pods)) == {
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
        "observedGeneration": 3,
        "collisionCount": 1,
        **status,
    }


def test_failed_pods_of_a_node_are_replaced_ever_more_slowly() -> None:
    now = 0.0
    backoff = FailedPodBackoff(clock=lambda: now)
    key, other = ("uid", 1, "a"), ("uid", 2, "a")
    assert backoff.take(key) == 0
    assert backoff.take(key) == 1
    assert backoff.take(other) == 0
    now = 0.5
    assert backoff.take(key) == 0.5
    pauses = []
    for _ in range(12):
        now += 900
        assert backoff.take(key) == 0
        pauses.append(backoff.take(key))
    assert pauses == [2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900]
    now += 1801
    assert backoff.take(key) == 0
    assert backoff.take(key) == 1


def test_backoff_forgets_when_there_are_too_many() -> None:
    backoff = FailedPodBackoff(clock=lambda: 0.0)
    assert all(backoff.take(("uid", 1, str(number))) == 0 for number in range(3000))
    assert backoff.take(("uid", 1, "2999")) == 1
    assert backoff.take(("uid", 1, "0")) == 0
