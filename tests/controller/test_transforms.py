"""Which objects the watches keep as consumers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from hotmap.controller.watch.transforms import Transforms, is_left_out
from hotmap.core.model.objects import CronJob, Job, ObjectMeta, Pod, Rollout, Workload
from hotmap.core.policy.policy import Defaults

TRANSFORMS = Transforms(Defaults())
#: The type and the transform of each kind.
KINDS: Mapping[str, tuple[type[Any], Callable[..., Any]]] = {
    **{
        kind: (Workload, TRANSFORMS.workload(kind))
        for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
    },
    "Rollout": (Rollout, TRANSFORMS.rollout),
    "CronJob": (CronJob, TRANSFORMS.cron_job),
    "Job": (Job, TRANSFORMS.job),
    "Pod": (Pod, TRANSFORMS.pod),
}


def is_kept(kind: str, **metadata: Any) -> bool:
    """Return whether an object is kept; what its metadata shows alone agrees with that."""
    decoded, transform = KINDS[kind]
    fields = {"name": "web", "namespace": "shop", "uid": "u", **metadata}
    kept = transform(msgspec.convert({"metadata": fields}, decoded)) is not None
    assert is_left_out(kind, msgspec.convert(fields, ObjectMeta)) == (not kept)
    return kept


@pytest.mark.parametrize("kind", KINDS)
def test_object_that_is_being_deleted_is_not_a_consumer(kind: str) -> None:
    """Its controller replaces no pods of it any more, and a finalizer may keep it for good."""
    assert is_kept(kind)
    assert not is_kept(kind, deletionTimestamp="2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("kind", "version", "owner"),
    [
        ("Job", "batch/v1", "CronJob"),
        ("ReplicaSet", "apps/v1", "Deployment"),
        ("ReplicaSet", "argoproj.io/v1alpha1", "Rollout"),
        ("Pod", "apps/v1", "ReplicaSet"),
        ("Pod", "apps/v1", "StatefulSet"),
        ("Pod", "apps/v1", "DaemonSet"),
        ("Pod", "batch/v1", "Job"),
        ("Pod", "v1", "ReplicationController"),
        ("Pod", "v1", "Node"),
    ],
)
def test_object_that_a_workload_manages_is_not_a_consumer(
    kind: str, version: str, owner: str
) -> None:
    reference = {"apiVersion": version, "kind": owner, "name": "web", "uid": "o"}
    assert is_kept(kind, ownerReferences=[reference])
    managed = {**reference, "controller": True}
    assert not is_kept(kind, ownerReferences=[managed])
    assert is_kept(kind, ownerReferences=[{**managed, "apiVersion": "example.org/v1"}])
