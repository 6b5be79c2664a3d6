"""What a sync of a StatefulSet does, as tables of what there is and what follows."""

from __future__ import annotations

from typing import Any

import pytest
from tests.local.controllers.objects import pod_template

from hotmap.local.controllers.creation_pace import BURST
from hotmap.local.controllers.history import template_patch
from hotmap.local.controllers.statefulset.identity import stateful_pod
from hotmap.local.controllers.statefulset.plan import StatefulSetView, plan_steps
from hotmap.local.controllers.statefulset.status import is_status_outdated, stateful_set_status

Object = dict[str, Any]

# Ten minutes after pods of the tests became ready.
NOW = 1767226200.0
READY_SINCE = "2026-01-01T00:00:00Z"


def stateful_set(replicas: int = 3, **spec: Any) -> Object:
    return {
        "metadata": {"namespace": "default", "name": "web", "uid": "uid-of-web", "generation": 2},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "serviceName": "peers",
            "template": pod_template(),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            **spec,
        },
    }


def revision(name: str, number: int = 1) -> Object:
    data = template_patch(pod_template(image=name))
    return {"metadata": {"name": f"web-{name}"}, "data": data, "revision": number}


def replica(text: str) -> Object:
    """A pod from `<ordinal> <revision> <state>`.

    States: ready, unready, pending, failed, succeeded, going (on its way out, still ready), young
    (ready for one second).
    """
    ordinal, revision_name, state = text.split()
    made = stateful_pod(
        stateful_set(), pod_template(), int(ordinal), revision=f"web-{revision_name}", reference={}
    )
    phase = {"pending": "Pending", "failed": "Failed", "succeeded": "Succeeded"}
    ready = "True" if state in ("ready", "going", "young") else "False"
    since = "2026-01-01T00:09:59Z" if state == "young" else READY_SINCE
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": since}
    made["metadata"] |= {"namespace": "default", "uid": f"uid-of-{ordinal}"}
    if state == "going":
        made["metadata"]["deletionTimestamp"] = READY_SINCE
    made["status"] = {"phase": phase.get(state, "Running"), "conditions": [condition]}
    return made


def view(owner: Object, pods: str, *, claims: dict[str, Object] | None = None) -> StatefulSetView:
    """Of pods as `replica` reads them, separated by commas."""
    found = [replica(text) for text in pods.split(",") if text.strip()]
    return StatefulSetView(owner, found, revision("a"), revision("b", 2), claims or {}, {}, NOW)


def planned(owner: Object, pods: str, **other: Any) -> list[str]:
    """The steps as `<action> <pod>[ <revision>]`, the revision of pods that are created."""
    steps = []
    for action, pod in plan_steps(view(owner, pods, **other)):
        made_of = pod["metadata"]["labels"]["controller-revision-hash"].removeprefix("web-")
        suffix = f" {made_of}" if action == "create" else ""
        steps.append(f"{action} {pod['metadata']['name'].removeprefix('web-')}{suffix}")
    return steps


PARALLEL: Object = {"podManagementPolicy": "Parallel"}
ON_DELETE: Object = {"updateStrategy": {"type": "OnDelete"}}


def rolling(**parameters: Any) -> Object:
    return {
        "updateStrategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"partition": 0, **parameters},
        }
    }


@pytest.mark.parametrize(
    ("pods", "steps"),
    [
        ("", ["create 0 b"]),
        ("0 b pending", []),
        ("0 b unready", []),
        ("0 b ready", ["create 1 b"]),
        ("0 b ready, 1 b ready", ["create 2 b"]),
        ("0 b ready, 1 b ready, 2 b ready", []),
        ("1 b ready, 2 b ready", ["create 0 b"]),
        ("0 b ready, 2 b ready", ["create 1 b"]),
        ("0 b unready, 2 b ready", []),
        ("0 b going", []),
        ("0 b failed, 1 b ready, 2 b ready", ["delete 0"]),
        ("0 b ready, 1 b succeeded, 2 b ready", ["delete 1"]),
        ("0 b ready, 1 b unready, 2 b failed", []),
    ],
)
def test_ordered_pods_are_created_one_after_another(pods: str, steps: list[str]) -> None:
    assert planned(stateful_set(), pods) == steps


@pytest.mark.parametrize(
    ("pods", "steps"),
    [
        ("", ["create 0 b", "create 1 b", "create 2 b"]),
        ("0 b unready, 2 b pending", ["create 1 b"]),
        ("0 b failed, 1 b going, 2 b ready", ["delete 0"]),
        ("0 b ready, 1 b ready, 2 b ready, 3 b unready, 4 b ready", ["delete 4", "delete 3"]),
        ("0 b pending, 3 b going", ["create 1 b", "create 2 b"]),
        ("0 a failed, 1 a ready, 2 a ready", ["delete 0", "delete 2"]),
        ("0 a ready, 1 a unready, 2 a ready", ["delete 2"]),
        ("0 a ready, 1 a ready, 2 b unready", []),
    ],
)
def test_parallel_pods_are_created_and_removed_together(pods: str, steps: list[str]) -> None:
    assert planned(stateful_set(**PARALLEL), pods) == steps


@pytest.mark.parametrize(
    ("replicas", "pods", "steps"),
    [
        (2, "0 b ready, 1 b ready, 2 b ready, 3 b ready", ["delete 3"]),
        (2, "0 b ready, 1 b ready, 2 b ready, 3 b going", []),
        (0, "0 b ready", ["delete 0"]),
        (0, "", []),
        (1, "0 b unready, 1 b ready, 2 b ready", []),
        # The lowest unavailable one may go even so.
        (0, "0 b unready", ["delete 0"]),
        (0, "0 b unready, 1 b ready", ["delete 1"]),
        (0, "0 b unready, 1 b unready", []),
        (2, "0 b ready, 1 b ready, 2 b unready", ["delete 2"]),
        # Sizes come before updates.
        (1, "0 a ready, 1 a ready", ["delete 1"]),
    ],
)
def test_ordered_pods_are_removed_from_the_highest(
    replicas: int, pods: str, steps: list[str]
) -> None:
    assert planned(stateful_set(replicas), pods) == steps


@pytest.mark.parametrize(
    ("pods", "steps"),
    [
        ("0 a ready, 1 a ready, 2 a ready", ["delete 2"]),
        ("0 a ready, 1 a ready, 2 a going", []),
        ("0 a ready, 1 a ready", ["create 2 b"]),
        ("0 a ready, 1 a ready, 2 b unready", []),
        ("0 a ready, 1 a ready, 2 b ready", ["delete 1"]),
        ("0 a ready, 1 b ready, 2 b ready", ["delete 0"]),
        ("0 b ready, 1 b ready, 2 b ready", []),
        # An old pod that is not ready stops the update, also that to a mended template.
        ("0 a ready, 1 a ready, 2 a unready", []),
        ("0 a unready, 1 a ready, 2 a ready", []),
    ],
)
def test_update_replaces_the_highest_old_replica(pods: str, steps: list[str]) -> None:
    assert planned(stateful_set(), pods) == steps


@pytest.mark.parametrize(
    ("partition", "pods", "steps"),
    [
        (3, "0 a ready, 1 a ready, 2 a ready", []),
        (2, "0 a ready, 1 a ready, 2 a ready", ["delete 2"]),
        (2, "0 a ready, 1 a ready, 2 b ready", []),
        (2, "0 a ready, 2 b ready", ["create 1 a"]),
        (2, "0 a ready, 1 a ready", ["create 2 b"]),
        (9, "0 a ready, 1 a ready", ["create 2 a"]),
    ],
)
def test_partition_keeps_lower_replicas_at_the_current_revision(
    partition: int, pods: str, steps: list[str]
) -> None:
    assert planned(stateful_set(**rolling(partition=partition)), pods) == steps


@pytest.mark.parametrize(
    ("limit", "pods", "steps"),
    [
        (1, "0 a ready, 1 a ready, 2 a ready", ["delete 2"]),
        (2, "0 a ready, 1 a ready, 2 a ready", ["delete 2", "delete 1"]),
        ("67%", "0 a ready, 1 a ready, 2 a ready", ["delete 2", "delete 1"]),
        ("10%", "0 a ready, 1 a ready, 2 a ready", ["delete 2"]),
        (2, "0 a ready, 1 b unready, 2 b ready", []),
    ],
)
def test_max_unavailable_is_how_many_are_updated_at_once(
    limit: int | str, pods: str, steps: list[str]
) -> None:
    assert planned(stateful_set(**rolling(maxUnavailable=limit)), pods) == steps


@pytest.mark.parametrize(
    ("limit", "pods", "steps"),
    [
        (2, "0 a ready, 1 b unready, 2 b ready", ["delete 0"]),
        (2, "0 a ready, 1 b unready, 2 a unready", []),
        (3, "0 a ready, 1 b going, 2 a ready", ["delete 2", "delete 0"]),
        (1, "0 a failed, 1 a ready, 2 a ready", ["delete 0"]),
    ],
)
def test_max_unavailable_counts_unavailable_pods_of_parallel_sets(
    limit: int, pods: str, steps: list[str]
) -> None:
    assert planned(stateful_set(**PARALLEL, **rolling(maxUnavailable=limit)), pods) == steps


def test_on_delete_replaces_only_deleted_pods() -> None:
    owner = stateful_set(**ON_DELETE)
    assert planned(owner, "0 a ready, 1 a ready, 2 a ready") == []
    assert planned(owner, "0 a ready, 2 a ready") == ["create 1 b"]


def test_pods_must_have_been_ready_for_min_ready_seconds() -> None:
    owner = stateful_set(minReadySeconds=2)
    assert planned(owner, "0 b young") == []
    assert planned(owner, "0 b ready") == ["create 1 b"]
    assert planned(owner, "0 a ready, 1 a ready, 2 b young") == []
    assert planned(stateful_set(minReadySeconds=1), "0 b young") == ["create 1 b"]


def test_first_ordinal_moves_replicas() -> None:
    owner = stateful_set(2, ordinals={"start": 3})
    assert planned(owner, "") == ["create 3 b"]
    assert planned(owner, "3 b ready") == ["create 4 b"]
    assert planned(owner, "0 b ready, 3 b ready, 4 b ready") == ["delete 0"]
    partition = stateful_set(2, ordinals={"start": 3}, **rolling(partition=1))
    assert planned(partition, "4 b ready") == ["create 3 a"]
    assert planned(partition, "3 a ready, 4 a ready") == ["delete 4"]


def test_deleted_set_does_nothing() -> None:
    owner = stateful_set()
    owner["metadata"]["deletionTimestamp"] = READY_SINCE
    assert planned(owner, "0 b failed") == []


def test_great_number_of_parallel_replicas_is_planned_in_parts() -> None:
    assert len(planned(stateful_set(2**31 - 1, **PARALLEL), "")) == BURST


def test_pod_without_its_label_gets_it() -> None:
    found = view(stateful_set(), "0 b ready, 1 b ready, 2 b ready")
    del found.pods[1]["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"]
    assert [(step.action, step.pod["metadata"]["name"]) for step in plan_steps(found)] == [
        ("update", "web-1")
    ]


def test_new_pod_has_its_identity() -> None:
    owner = stateful_set(volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": {}}])
    (step,) = plan_steps(view(owner, ""))
    metadata, spec = step.pod["metadata"], step.pod["spec"]
    assert metadata["labels"] == {
        "app": "web",
        "apps.kubernetes.io/pod-index": "0",
        "controller-revision-hash": "web-b",
        "statefulset.kubernetes.io/pod-name": "web-0",
    }
    assert (metadata["name"], metadata["generateName"]) == ("web-0", "web-")
    assert (spec["hostname"], spec["subdomain"]) == ("web-0", "peers")
    assert spec["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}
    ]
    assert spec["containers"][0]["image"] == "b"


@pytest.mark.parametrize(
    ("pods", "status"),
    [
        ("", {}),
        ("0 a pending", {"replicas": 1, "currentReplicas": 1}),
        (
            "0 a ready, 1 a unready, 2 b ready",
            {
                "replicas": 3,
                "readyReplicas": 2,
                "availableReplicas": 2,
                "currentReplicas": 2,
                "updatedReplicas": 1,
            },
        ),
        (
            "0 a ready, 1 a ready, 2 a going",
            {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "currentReplicas": 2},
        ),
        (
            "0 b ready, 1 b ready, 2 b unready",
            {"replicas": 3, "readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 3},
        ),
        (
            "0 b ready, 1 b ready, 2 b ready",
            {
                "replicas": 3,
                "readyReplicas": 3,
                "availableReplicas": 3,
                "currentReplicas": 3,
                "updatedReplicas": 3,
                "currentRevision": "web-b",
            },
        ),
    ],
)
def test_status_counts_pods(pods: str, status: Object) -> None:
    assert stateful_set_status(view(stateful_set(), pods), collision_count=0) == {
        "observedGeneration": 2,
        "collisionCount": 0,
        "replicas": 0,
        "availableReplicas": 0,
        "currentRevision": "web-a",
        "updateRevision": "web-b",
        **status,
    }


def test_current_revision_stays_with_on_delete() -> None:
    found = view(stateful_set(**ON_DELETE), "0 b ready, 1 b ready, 2 b ready")
    status = stateful_set_status(found, collision_count=0)
    assert (status["currentRevision"], status.get("currentReplicas")) == ("web-a", None)


def test_young_pods_are_ready_and_not_available() -> None:
    found = view(stateful_set(1, minReadySeconds=5), "0 b young")
    status = stateful_set_status(found, collision_count=0)
    assert (status["readyReplicas"], status["availableReplicas"]) == (1, 0)


def test_status_is_written_only_if_something_changed() -> None:
    status = stateful_set_status(view(stateful_set(), "0 a ready"), collision_count=0)
    assert not is_status_outdated(status, status)
    assert not is_status_outdated(status, {**status, "collisionCount": 1})
    assert is_status_outdated(status, {**status, "observedGeneration": 3})
    assert is_status_outdated(status, {**status, "readyReplicas": 0})
