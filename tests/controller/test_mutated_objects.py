"""Invalid content of an object affects that object alone.

Real objects are changed at random places, as a tenant would who wants to stop the controller, and
take the way that every object takes: decode, transform, store, snapshot, decision, status. Nothing
may raise, and what is decided on a neighbour stays what it was.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.support.objects import KEY
from tests.support.shards import write_shard

from hotmap.controller.storage.records import Records
from hotmap.controller.watch import observation
from hotmap.controller.watch.changes import ChangeListener
from hotmap.controller.watch.index import Index
from hotmap.controller.watch.observation import Observer, ObserverSettings
from hotmap.controller.watch.transforms import Transforms
from hotmap.core.decide.decide import decide
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.document import decision_document, snapshot_document
from hotmap.core.decide.pod_starts import pod_starts
from hotmap.core.decide.record import Outcome, next_record
from hotmap.core.model.consumer import owns_pod
from hotmap.core.model.objects import (
    ConfigMap,
    CronJob,
    Job,
    ObjectKey,
    Pod,
    Rollout,
    Secret,
    Workload,
)
from hotmap.core.model.source import source_from_config_map, source_from_secret
from hotmap.core.model.state import read_shard
from hotmap.core.policy.policy import Defaults
from hotmap.core.status.desired import desired_content
from hotmap.core.status.observed_pods import observe_pods
from hotmap.core.status.pod_check import conclude_from_pods
from hotmap.kube.decoding import ObjectTooLarge, check_size, decode

NOW = 1_789_000_000.0
AT = "2026-09-10T00:26:40Z"

POD_SPEC = {
    "initContainers": [
        {
            "name": "setup",
            "restartPolicy": "Always",
            "command": ["sh", "-c", "$(A) $$(B) $(C"],
            "envFrom": [{"prefix": "P_", "secretRef": {"name": "login", "optional": True}}],
        }
    ],
    "containers": [
        {
            "name": "web",
            "image": "app:1",
            "args": ["$(LEVEL)"],
            "env": [
                {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "app", "key": "a"}}},
                {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "a"}}},
                {"name": "B", "value": "$(LEVEL)-$(WORD)"},
                {"name": "STAKATER_APP_CONFIGMAP", "value": "0123"},
            ],
            "envFrom": [{"configMapRef": {"name": "app"}}],
            "volumeMounts": [
                {"name": "v", "mountPath": "/v", "subPathExpr": "$(B)/x"},
                {"name": "p", "mountPath": "/p"},
                {"name": "c", "mountPath": "/c", "subPath": "a"},
            ],
        }
    ],
    "volumes": [
        {"name": "v", "configMap": {"name": "app", "items": [{"key": "a", "path": "x/a"}]}},
        {
            "name": "p",
            "projected": {
                "sources": [{"secret": {"name": "login"}}, {"configMap": {"name": "app"}}]
            },
        },
        {"name": "c", "csi": {"driver": "d", "volumeAttributes": {"secretProviderClass": "s"}}},
        {"name": "i", "iscsi": {"secretRef": {"name": "login"}}},
    ],
    "imagePullSecrets": [{"name": "login"}],
}


def metadata(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "generation": 2,
        "creationTimestamp": AT,
        "annotations": {
            "hotmap.dev/follow": "auto",
            "hotmap.dev/settle": "1s",
            "hotmap.dev/exclude": "cm/none-*",
            "hotmap.dev/agent": "port=9533;restart=term",
            "deployment.kubernetes.io/revision": "3",
            "deployment.reloader.stakater.com/paused-at": AT,
        },
        "managedFields": [
            {
                "manager": "kubectl",
                "time": AT,
                "fieldsV1": {"f:spec": {"f:template": {"f:metadata": {"f:annotations": {}}}}},
            },
            {"manager": "hotmap", "subresource": "status", "time": AT, "fieldsV1": {}},
        ],
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": "owner",
                "uid": "u",
                "controller": True,
            }
        ],
        "finalizers": ["example.com/never"],
        **more,
    }


def workload(**spec: Any) -> dict[str, Any]:
    said = {"annotations": {"hotmap.dev/revision": "kH3x.abc.2", "hotmap.dev/rereads": "true"}}
    return {
        "metadata": metadata("web"),
        "spec": {
            "replicas": 2,
            "paused": False,
            "suspend": False,
            "selector": {
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}],
            },
            "template": {"metadata": said, "spec": POD_SPEC},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
            **spec,
        },
        "status": {
            "observedGeneration": 2,
            "replicas": 2,
            "updatedReplicas": 2,
            "updateRevision": "web-1",
            "conditions": [{"type": "Complete", "status": "False"}],
            "active": [{"name": "web-1"}],
            "desiredNumberScheduled": 2,
        },
    }


ROLLOUT = workload(workloadRef={"kind": "Deployment", "name": "web"}, restartAt=AT)
ROLLOUT["status"] |= {"currentPodHash": "x", "stableRS": "x", "workloadObservedGeneration": "2"}
CRON_JOB = workload(jobTemplate={"metadata": {}, "spec": workload()["spec"]}, schedule="@daily")

SOURCE = {
    "metadata": metadata("app"),
    "data": {"a": "MQ==", "b": "Mg=="},
    "binaryData": {"c": "MQ=="},
    "immutable": False,
}

POD = {
    "metadata": {**metadata("web-1"), "labels": {"app": "web", "controller-revision-hash": "x"}},
    "spec": POD_SPEC,
    "status": {
        "phase": "Running",
        "startTime": AT,
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": AT},
            {"type": "Ready", "status": "True", "lastTransitionTime": AT},
        ],
        "containerStatuses": [
            {"name": "web", "ready": True, "state": {"running": {"startedAt": AT}}}
        ],
        "initContainerStatuses": [
            {"name": "setup", "state": {"terminated": {"reason": "Completed", "startedAt": AT}}}
        ],
    },
}

OBJECTS: dict[str, tuple[dict[str, Any], type[Any]]] = {
    **{kind: (workload(), Workload) for kind in ("Deployment", "StatefulSet", "DaemonSet")},
    "ReplicaSet": (workload(), Workload),
    "Job": (workload(), Job),
    "CronJob": (CRON_JOB, CronJob),
    "Rollout": (ROLLOUT, Rollout),
    "Pod": (POD, Pod),
    "ConfigMap": (SOURCE, ConfigMap),
    "Secret": ({**SOURCE, "metadata": metadata("login")}, Secret),
}


#: Stand for values that nest too deeply for Python's own encoder.
DEEP = {"@40": 40, "@3000": 3000, "@9000": 9000}


def encoded(document: Any) -> bytes:
    """Write a document as JSON, as it would come from an API server."""
    text = json.dumps(document)
    for mark, levels in DEEP.items():
        text = text.replace(f'"{mark}"', '{"f:x":[' * levels + "]}" * levels)
    return text.encode()


#: What tenants would write, beside random JSON.
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    2**63,
    -(2**63),
    2**80,
    1e308,
    -0.5,
    "",
    "\x00",
    "\n\x1b[31m",
    "²",
    "\ud800",
    "\u202e",
    "a" * 5000,
    "../" * 300,
    "$(A)" * 50,
    "*" * 70,
    "-",
    "9999-99-99T99:99:99Z",
    "0000-00-00T00:00:00Z",
    "9999-12-31T23:59:59.999999999Z",
    "1e400s",
    "-1h",
    "999999999h",
    [],
    {},
    [None],
    [[]],
    {"": None},
    [{}] * 600,
    [{"name": "web"}] * 2_000,
    {f"k{number}": "" for number in range(500)},
    *DEEP,
]

odd = st.sampled_from(ODD) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


def paths(value: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """List the places of a document."""
    yield prefix
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*prefix, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from paths(inner, (*prefix, number))


@st.composite
def mutations(draw: st.DrawFn) -> tuple[str, list[tuple[tuple[Any, ...], str, Any]]]:
    """Choose a kind, and some changes of an object of it."""
    kind = draw(st.sampled_from(sorted(OBJECTS)))
    places = st.sampled_from([place for place in paths(OBJECTS[kind][0]) if place])
    change = st.tuples(places, st.sampled_from(("set", "add", "double")), odd)
    return kind, draw(st.lists(change, min_size=1, max_size=4))


def mutated(document: Any, changes: list[tuple[tuple[Any, ...], str, Any]]) -> Any:
    """Change a document; a place that an earlier change took away is passed over."""
    document = copy.deepcopy(document)
    for place, how, value in changes:
        parent = document
        try:
            for step in place[:-1]:
                parent = parent[step]
            match how:
                case "set":
                    parent[place[-1]] = value
                case "add" if isinstance(parent, list):
                    parent.append(value)
                case "add":
                    parent["extra" if not isinstance(value, str) else value[:50]] = value
                case "double" if isinstance(parent, list):
                    parent.extend(copy.deepcopy(parent))
        except (KeyError, IndexError, TypeError, AttributeError):
            continue
    return document


class Cluster:
    """The stores of one controller, and the decisions on what is in them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(observation, "loop_time", lambda: NOW)
        self.defaults = Defaults(follow="auto")
        self.index = Index(defaults=self.defaults, clock=lambda: NOW)
        ChangeListener(self.index, clock=lambda: NOW)
        self.records = Records()
        self.observer = Observer(
            index=self.index,
            records=self.records,
            settings=ObserverSettings((KEY,)),
            clock=lambda: NOW,
        )
        for store in (*self.index.sources.values(), *self.index.consumers.values()):
            store.retain((), resource_version="1")  # type: ignore[attr-defined]

    def put(self, kind: str, document: Any) -> ObjectKey | None:
        """Take an object in as a reflector does; None: it is unreadable, or not kept."""
        data = encoded(document)
        try:
            check_size(data)
            item = decode(msgspec.json.Decoder(OBJECTS[kind][1]), data)
        except (msgspec.DecodeError, ObjectTooLarge):
            return None  # unreadable, which is reported for that object
        try:
            value = self._transform(kind)(item)
        except (ValueError, msgspec.DecodeError, RecursionError):
            return None  # no base64, or an invalid spec: reported by the store writer
        if value is None:
            return None
        store: Any = {**self.index.sources, **self.index.consumers}[kind]
        store.put(value.key, value)
        key: ObjectKey = value.key
        # A namespace is indexed when something is looked up in it.
        self.index.candidates_for(ObjectKey("ConfigMap", key.namespace, "app"))
        return key

    def _transform(self, kind: str) -> Callable[[Any], Any]:
        transforms = Transforms(self.defaults)
        if kind == "ConfigMap":
            return lambda item: source_from_config_map(item, [KEY])
        if kind == "Secret":
            return lambda item: source_from_secret(item, [KEY])
        special: dict[str, Callable[[Any], Any]] = {
            "Job": transforms.job,
            "CronJob": transforms.cron_job,
            "Rollout": transforms.rollout,
            "Pod": transforms.pod,
        }
        return special.get(kind) or transforms.workload(kind)

    def decide(self, key: ObjectKey, pods: list[Pod]) -> Decision | None:
        """Decide on a consumer, show that, and keep the record."""
        snapshot = self.observer.snapshot(key)
        if snapshot is None:
            return None
        own = [pod for pod in pods if owns_pod(snapshot.consumer, pod)]
        decision = decide(snapshot, pod_starts(snapshot.consumer, own))
        json.dumps(snapshot_document(snapshot))
        json.dumps(decision_document(decision))
        observed = observe_pods(snapshot.consumer, own)
        conclude_from_pods(snapshot, desired_content(snapshot), observed, now=NOW)
        record = next_record(decision, Outcome(snapshot.consumer.generation, "", NOW))
        if record is not None:
            text = write_shard([record])
            assert read_shard(text) == {record.uid: record}
            self.records.put_in_memory(record)
        return decision


NEIGHBOUR = ObjectKey("Deployment", "other", "web")


def neighbour(cluster: Cluster) -> ObjectKey:
    """Add a consumer in another namespace, with its source."""
    for kind, name in (("ConfigMap", "app"), ("Deployment", "web")):
        document = copy.deepcopy(OBJECTS[kind][0])
        document["metadata"] |= {"namespace": "other", "uid": f"uid-other-{name}"}
        del document["metadata"]["ownerReferences"]
        assert cluster.put(kind, document)
    return NEIGHBOUR


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(mutations(), mutations())
@example(("Deployment", [(("spec", "template", "spec", "volumes"), "set", [None])]), ("Pod", []))
@example(("Rollout", [(("spec", "workloadRef"), "set", {"name": "\ud800"})]), ("Pod", []))
@example(("ConfigMap", [(("data", "a"), "set", None)]), ("Pod", []))
@example(("Secret", [(("data", "a"), "set", "=")]), ("Pod", []))
@example(("ConfigMap", [(("binaryData", "c"), "set", "²")]), ("Pod", []))
@example(("Pod", [(("status", "startTime"), "set", "9999-12-31T23:59:59Z")]), ("Pod", []))
def test_mutated_object_costs_only_itself(
    monkeypatch: pytest.MonkeyPatch,
    mutation: tuple[str, list[tuple[tuple[Any, ...], str, Any]]],
    other: tuple[str, list[tuple[tuple[Any, ...], str, Any]]],
) -> None:
    """Nothing raises, and the neighbour's decision is what it would be alone."""
    quiet = Cluster(monkeypatch)
    alone = quiet.decide(neighbour(quiet), [])
    cluster = Cluster(monkeypatch)
    neighbour(cluster)
    pods = []
    for kind, changes in (("ConfigMap", []), ("Secret", []), ("Deployment", []), mutation, other):
        document = mutated(OBJECTS[kind][0], changes)
        cluster.put(kind, document)
        if kind == "Pod":
            try:
                pods.append(decode(msgspec.json.Decoder(Pod), encoded(document)))
            except (msgspec.DecodeError, ObjectTooLarge):
                continue
        for consumer in list(cluster.index.all_consumers()):
            if consumer.key != NEIGHBOUR:
                cluster.decide(consumer.key, pods)
    beside = cluster.decide(NEIGHBOUR, [])
    assert alone is not None
    assert beside is not None
    assert decision_document(beside) == decision_document(alone)
