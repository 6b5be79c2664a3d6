"""Whose a pod is, where the selectors of two workloads match it."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.objects import consumer, pod

from hotmap.core.model.consumer import adopted_through, owns_pod
from hotmap.core.model.objects import OwnerReference, Pod


def pod_of(kind: str, name: str, uid: str = "uid-other") -> Pod:
    """Make a pod that a controller owns."""
    owner = OwnerReference(kind=kind, name=name, uid=uid, controller=True)
    made = pod("web-1", started=1.0)
    return msgspec.structs.replace(
        made, metadata=msgspec.structs.replace(made.metadata, owner_references=[owner])
    )


@pytest.mark.parametrize(
    ("kind", "owner", "owned"),
    [
        ("Deployment", ("ReplicaSet", "web-6d4f"), True),
        ("Deployment", ("ReplicaSet", "web-canary-6d4f"), False),
        ("Deployment", ("ReplicaSet", "web"), False),
        ("Deployment", ("StatefulSet", "web-6d4f"), False),
        ("StatefulSet", ("StatefulSet", "web", "uid-web"), True),
        ("StatefulSet", ("StatefulSet", "web", "uid-old"), False),
        ("DaemonSet", ("DaemonSet", "web", "uid-web"), True),
        ("Job", ("Job", "web", "uid-web"), True),
        ("Job", ("ReplicaSet", "web-6d4f"), False),
        ("Rollout", ("ReplicaSet", "web-6d4f"), True),
    ],
)
def test_pod_belongs_to_its_controller(kind: str, owner: tuple[str, ...], owned: bool) -> None:
    """A label that two workloads share makes neither the owner of the other's pods."""
    who = consumer(kind, "containers: [{name: web}]")
    assert owns_pod(who, pod_of(*owner)) is owned


def test_replica_set_of_another_name_may_be_adopted() -> None:
    """Whose it is then says its own reference; only workloads with ReplicaSets adopt any."""
    other = pod_of("ReplicaSet", "old-6d4f", "uid-set")
    spec = "containers: [{name: web}]"
    assert adopted_through(consumer("Deployment", spec), other) == "uid-set"
    assert adopted_through(consumer("Deployment", spec), pod_of("ReplicaSet", "web-6d4f")) == ""
    assert adopted_through(consumer("Deployment", spec), pod_of("StatefulSet", "old")) == ""
    assert adopted_through(consumer("StatefulSet", spec), other) == ""


def test_pod_without_controller_counts() -> None:
    """Its controller is about to adopt it."""
    assert owns_pod(consumer("Deployment", "containers: [{name: web}]"), pod("web-1"))
