"""A workload that changes mostly changes its status: what its template says is kept."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.objects import deployment, workload

from hotmap.core.model.consumer import Consumer
from hotmap.core.model.consumer_conversion import consumer_from_workload
from hotmap.core.model.objects import Workload
from hotmap.core.reloader.annotations import DialectSettings, Writing

ENV = """
containers:
- name: web
  env:
  - name: LEVEL
    valueFrom: {configMapKeyRef: {name: %s, key: level}}
"""


def known() -> Consumer:
    return deployment(ENV % "app", generation=4)


def used(consumer: Consumer) -> set[str]:
    return {source.name for source in consumer.uses.sources()}


def test_same_generation_reuses_uses() -> None:
    """Nothing but the generation says so: the template is not looked at."""
    item = workload(
        ENV % "other", generation=4, rolling=True, annotations={"hotmap.dev/follow": "1"}
    )
    again = consumer_from_workload("Deployment", item, known=known())
    assert used(again) == {"app"}
    assert again.rolling
    assert again.annotations == {"hotmap.dev/follow": "1"}


def _with(item: Workload, **metadata: Any) -> Workload:
    changed = msgspec.structs.replace(item.metadata, **metadata)
    return msgspec.structs.replace(item, metadata=changed)


@pytest.mark.parametrize(
    "item",
    [
        workload(ENV % "other", generation=5),
        _with(workload(ENV % "other", generation=4), uid="uid-of-another"),
        workload(ENV % "other", generation=3),
    ],
    ids=["edited", "made again", "an older one"],
)
def test_changed_generation_is_decoded_again(item: Workload) -> None:
    """Another generation, or another object of the name, may use anything."""
    assert used(consumer_from_workload("Deployment", item, known=known())) == {"other"}


def test_objects_without_generation_are_decoded() -> None:
    """A server that does not count says nothing by 0."""
    before = deployment(ENV % "app", generation=0)
    item = workload(ENV % "other", generation=0)
    assert used(consumer_from_workload("Deployment", item, known=before)) == {"other"}


@pytest.mark.parametrize("generation", [3, 5])
def test_reuse_changes_nothing_else(generation: int) -> None:
    """Made with or without what was known, a consumer of the same template is the same."""
    item = workload(ENV % "app", generation=generation, rolling=True, revision="k.x", replicas=3)
    alone = consumer_from_workload("Deployment", item)
    assert consumer_from_workload("Deployment", item, known=known()) == alone


COUNTS = (
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "desiredNumberScheduled",
    "updatedNumberScheduled",
    "currentNumberScheduled",
    "numberMisscheduled",
)
MANAGERS = st.fixed_dictionaries(
    {
        "manager": st.sampled_from(["hotmap", "Reloader", "reloader", "helm"]),
        "time": st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z", "never"]),
        "subresource": st.sampled_from(["", "status"]),
        "fieldsV1": st.sampled_from(
            [
                {"f:spec": {"f:template": {}}},
                {"f:spec": {"f:template": {"f:hotmap.dev/revision": {}}}},
                {"f:status": {}},
            ]
        ),
    }
)
ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        [
            "hotmap.dev/follow",
            "hotmap.dev/agent",
            "hotmap.dev/folow",
            "deployment.kubernetes.io/revision",
            "deprecated.daemonset.template.generation",
            "example.com/note",
        ]
    ),
    st.sampled_from(["1", "2", "auto", "port=9533;restart=none"]),
)
OWNERS = st.lists(
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["Deployment", "App"]), "controller": st.booleans()}
    ),
    max_size=2,
)
#: All that may change of a workload while its generation stays the same.
STATES = st.fixed_dictionaries(
    {
        "status": st.dictionaries(st.sampled_from(COUNTS), st.integers(0, 5))
        | st.sampled_from(
            [
                {"updateRevision": "web-2"},
                {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "quota"}]},
            ]
        ),
        "managedFields": st.lists(MANAGERS, max_size=3),
        "annotations": ANNOTATIONS,
        "ownerReferences": OWNERS,
    }
)
SPECS = st.fixed_dictionaries(
    {
        "replicas": st.sampled_from([None, 0, 3]),
        "paused": st.booleans(),
        "updateStrategy": st.sampled_from(
            [
                {"type": "OnDelete"},
                {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}},
                {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}},
            ]
        ),
        "template": st.sampled_from(
            [
                {"spec": {"volumes": [{"name": "v", "configMap": {"name": "app"}}]}},
                {"metadata": {"annotations": {"hotmap.dev/agent": "port=9533;restart=none"}}},
                {"spec": {"containers": [{"envFrom": [{"configMapRef": {"name": "app"}}]}]}},
                {"spec": {"containers": [{"name": str(i)} for i in range(501)]}},
            ]
        ),
    }
)


def served(spec: dict[str, Any], state: dict[str, Any], version: int) -> Workload:
    """Make a workload of generation 3 as the API server sends it."""
    metadata = {name: value for name, value in state.items() if name != "status"}
    identity = {"name": "web", "namespace": "shop", "uid": "uid-web", "generation": 3}
    return msgspec.json.decode(
        msgspec.json.encode(
            {
                "metadata": {**identity, **metadata, "resourceVersion": str(version)},
                "spec": spec,
                "status": state["status"],
            }
        ),
        type=Workload,
    )


@given(
    st.sampled_from(["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"]),
    SPECS,
    STATES,
    STATES,
    st.sampled_from([Writing.REVISION, Writing.ANNOTATIONS]),
)
def test_unread_spec_changes_nothing(
    kind: str,
    spec: dict[str, Any],
    before: dict[str, Any],
    after: dict[str, Any],
    writing: Writing,
) -> None:
    """Whatever changes with the generation the same: read with or without the spec, it is equal."""
    settings = DialectSettings(writing=writing)
    earlier = consumer_from_workload(kind, served(spec, before, 1), settings)
    item = served(spec, after, 2)
    alone = consumer_from_workload(kind, item, settings)
    assert consumer_from_workload(kind, item, settings, known=earlier) == alone


def test_status_change_leaves_spec_undecoded() -> None:
    """A spec that cannot even be decoded is not looked at."""
    item = msgspec.structs.replace(
        workload(ENV % "app", generation=4, rolling=True), encoded_spec=msgspec.Raw(b'{"paused":1}')
    )
    again = consumer_from_workload("Deployment", item, known=known())
    assert used(again) == {"app"}
    assert again.rolling
    with pytest.raises(msgspec.ValidationError):
        consumer_from_workload("Deployment", item)
