"""Whatever JSON arrives, the answer is an object or a failure with a reason, never a crash."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.local.apiserver.api import Api, configmap, deployment, pod
from tests.local.apiserver.test_certificate_requests import request as certificate_request

from hotmap.core.errors import ApiError
from hotmap.local.access import SYSTEM
from hotmap.local.apiserver.authentication import Access, Authenticator
from hotmap.local.apiserver.authorization import AllowAll
from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.custom.definition import DEFINITIONS
from hotmap.local.apiserver.custom.kind import custom_kind
from hotmap.local.apiserver.handlers import answer
from hotmap.local.apiserver.kinds import BUILT_IN
from hotmap.local.apiserver.kinds.reviews import REVIEWS
from hotmap.local.apiserver.registry import Registry
from hotmap.local.apiserver.requests import Request
from hotmap.local.apiserver.routes import ResourcePath
from hotmap.local.apiserver.tables import table
from hotmap.local.store import MVCCStore
from hotmap.local.tokens import Tokens

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.text("aZ_/.", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "a", "key", "$patch", "f:x"]), inner, max_size=3)
    ),
    max_leaves=6,
)

FULL_POD_SPEC = {
    "containers": [
        {
            "name": "c",
            "image": "x",
            "command": ["a"],
            "ports": [{"containerPort": 80}],
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k"}}},
                {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            ],
            "envFrom": [{"secretRef": {"name": "s"}}],
            "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a"}],
            "readinessProbe": {"httpGet": {"port": 80}},
            "resources": {"limits": {"cpu": "1"}},
        }
    ],
    "volumes": [
        {"name": "v", "configMap": {"name": "a", "items": [{"key": "k", "path": "p"}]}},
        {"name": "s", "secret": {"secretName": "s"}},
        {
            "name": "d",
            "downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "metadata.name"}}]},
        },
        {
            "name": "p",
            "projected": {
                "sources": [
                    {"configMap": {"name": "a"}},
                    {"serviceAccountToken": {"path": "t"}},
                    {"downwardAPI": {"items": []}},
                ]
            },
        },
        {"name": "h", "hostPath": {"path": "/"}},
    ],
    "imagePullSecrets": [{"name": "r"}],
    "tolerations": [{"key": "t"}],
}
DEFINITION: dict[str, Any] = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"], "categories": ["all"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
                },
                "additionalPrinterColumns": [
                    {"name": "N", "type": "integer", "jsonPath": ".spec.n", "priority": 0}
                ],
                "selectableFields": [{"jsonPath": ".spec.a"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "a": {
                                        "type": "string",
                                        "enum": ["x", "y"],
                                        "pattern": "^x",
                                        "maxLength": 3,
                                        "format": "date-time",
                                        "nullable": True,
                                    },
                                    "n": {"type": "integer", "default": 1, "maximum": 9},
                                    "c": {
                                        "type": "array",
                                        "maxItems": 3,
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["k"],
                                        "items": {
                                            "type": "object",
                                            "required": ["k"],
                                            "properties": {"k": {"type": "string"}},
                                        },
                                    },
                                    "m": {
                                        "type": "object",
                                        "additionalProperties": {"type": "string"},
                                    },
                                },
                                "oneOf": [{"required": ["a"]}],
                                "not": {"required": ["z"]},
                            }
                        },
                    }
                },
            }
        ],
    },
}
OBJECTS: dict[str, dict[str, Any]] = {
    "configmaps": configmap("x", {"a": "b"}, k="v") | {"binaryData": {"b": "eA=="}},
    "secrets": {"metadata": {"name": "x"}, "data": {"a": "eA=="}, "type": "Opaque"},
    "pods": pod("x") | {"spec": FULL_POD_SPEC},
    "deployments": deployment(
        "x", FULL_POD_SPEC, replicas=2, strategy={"rollingUpdate": {"maxSurge": 1}}
    ),
    "events": {"metadata": {"name": "x"}, "involvedObject": {"namespace": "default"}},
    "services": {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}]}},
    "namespaces": {"metadata": {"name": "x"}, "spec": {"finalizers": []}},
}
_ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}
OBJECTS |= {
    "rolebindings": {"metadata": {"name": "x"}, "roleRef": _ROLE},
    "clusterrolebindings": {"metadata": {"name": "x"}, "roleRef": _ROLE},
    "persistentvolumes": {
        "metadata": {"name": "x"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/x"},
        },
    },
    "persistentvolumeclaims": {
        "metadata": {"name": "x"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    },
    "replicationcontrollers": {
        "metadata": {"name": "x"},
        "spec": {
            "selector": {"app": "x"},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": FULL_POD_SPEC},
        },
    },
    "horizontalpodautoscalers": {
        "metadata": {"name": "x"},
        "spec": {
            "maxReplicas": 2,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        },
    },
    "ingresses": {
        "metadata": {"name": "x"},
        "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}},
    },
    "storageclasses": {"metadata": {"name": "x"}, "provisioner": "example.com/p"},
    "validatingadmissionpolicies": {
        "metadata": {"name": "x"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["*"],
                        "resources": ["pods"],
                    }
                ]
            },
            "validations": [{"expression": "true"}],
        },
    },
    "validatingadmissionpolicybindings": {
        "metadata": {"name": "x"},
        "spec": {"policyName": "x", "validationActions": ["Deny"]},
    },
}
for plural in ("replicasets", "statefulsets", "daemonsets"):
    OBJECTS[plural] = deployment("x")
OBJECTS["jobs"] = deployment("x", {**FULL_POD_SPEC, "restartPolicy": "Never"})
del OBJECTS["jobs"]["spec"]["selector"]
OBJECTS["cronjobs"] = {
    "metadata": {"name": "x"},
    "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": OBJECTS["jobs"]["spec"]}},
}
OBJECTS["podtemplates"] = {"metadata": {"name": "x"}, "template": {"spec": FULL_POD_SPEC}}
OBJECTS["endpointslices"] = {"metadata": {"name": "x"}, "addressType": "IPv4", "endpoints": []}
OBJECTS["ingressclasses"] = {"metadata": {"name": "x"}, "spec": {"controller": "example.com/c"}}
OBJECTS["volumeattributesclasses"] = {
    "metadata": {"name": "x"},
    "driverName": "d",
    "parameters": {"a": "b"},
}
OBJECTS["runtimeclasses"] = {"metadata": {"name": "x"}, "handler": "h"}
OBJECTS["controllerrevisions"] = {"metadata": {"name": "x"}, "data": {"a": "b"}, "revision": 1}
OBJECTS["certificatesigningrequests"] = certificate_request("x")
for obj in OBJECTS.values():
    obj["metadata"] |= {
        "labels": {"l": "1"},
        "annotations": {"a": "1"},
        "finalizers": ["example.com/f"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
        "managedFields": [{"manager": "m", "operation": "Update", "fieldsV1": {"f:data": {}}}],
    }
for kind in BUILT_IN:
    if kind in REVIEWS:
        continue
    if kind is DEFINITIONS:
        OBJECTS[kind.plural] = DEFINITION
    OBJECTS.setdefault(kind.plural, {"metadata": {"name": "x"}, "spec": {}, "status": {}})
# Questions, which are answered and not stored.
QUESTIONS: dict[str, dict[str, Any]] = {
    "subjectaccessreviews": {
        "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"},
        "user": "jane",
        "groups": ["g"],
        "extra": {"a": ["b"]},
    },
    "selfsubjectaccessreviews": {"nonResourceAttributes": {"verb": "get", "path": "/"}},
    "selfsubjectrulesreviews": {"namespace": "default"},
    "tokenreviews": {"token": "t", "audiences": ["a"]},
    "selfsubjectreviews": {},
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Name every place inside a JSON value."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += places(inner, (*path, index))
    return found


@st.composite
def broken_objects(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A good object with any JSON in the place of one or two of its parts."""
    plural = draw(st.sampled_from(sorted(OBJECTS)))
    obj = deepcopy(OBJECTS[plural])
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(places(obj)))
        parent: Any = obj
        for part in path[:-1]:
            parent = parent[part]
        parent[path[-1]] = draw(JSON)
        if not isinstance(obj.get("metadata"), dict):
            break
    return plural, obj


@pytest.mark.parametrize("plural", sorted(OBJECTS))
async def test_object_is_valid_before_it_is_broken(plural: str) -> None:
    registry = Registry(MVCCStore())
    await create_system_namespaces(registry)
    assert await registry.create(plural, namespace_of(plural), OBJECTS[plural], manager="t")


def use_definition(definition: dict[str, Any]) -> None:
    """What is accepted as a definition gives a kind, whose objects can be checked and shown."""
    if not any(version.get("served") for version in definition["spec"]["versions"]):
        return
    kind = custom_kind(definition)
    values: list[Any] = [None, {}, [], "x", 1, {"a": {"b": [1, "x", None]}, "c": [{"k": 1}]}]
    for value in values:
        obj = {"kind": "Thing", "apiVersion": "x/v1", "metadata": {"name": "a"}, "spec": value}
        strategy = kind.strategy
        strategy.decode(kind.group_version_kind, obj)
        strategy.default(obj)
        strategy.validate(obj)
        assert msgspec.json.encode(table(kind, [obj], now=0, include="None"))
    assert msgspec.json.encode(kind.strategy.openapi_schema())


def namespace_of(plural: str) -> str | None:
    return "default" if plural not in ("namespaces", "nodes") else None


@settings(max_examples=40, deadline=None)
@given(broken_objects())
def test_create_with_malformed_body_succeeds_or_is_refused(
    broken: tuple[str, dict[str, Any]],
) -> None:
    """A create succeeds or raises an ApiError; what was created can be read and changed."""
    plural, obj = broken
    namespace = namespace_of(plural)

    async def run() -> None:
        registry = Registry(MVCCStore())
        await create_system_namespaces(registry)
        try:
            made = await registry.create(plural, namespace, obj, manager="t")
        except ApiError as error:
            assert 400 <= error.code <= 500
            return
        if plural == "customresourcedefinitions":
            use_definition(made)
        name = made["metadata"]["name"]
        assert await registry.get(plural, namespace, name) == made
        label = {"metadata": {"labels": {"again": "1"}}}
        await registry.patch(plural, namespace, name, label, kind="strategic", manager="u")

    asyncio.run(run())


@st.composite
def broken_questions(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    plural = draw(st.sampled_from(sorted(QUESTIONS)))
    obj = deepcopy({"metadata": {"name": "x"}, "spec": QUESTIONS[plural]})
    path = draw(st.sampled_from(places(obj)))
    parent: Any = obj
    for part in path[:-1]:
        parent = parent[part]
    parent[path[-1]] = draw(JSON)
    return plural, obj


@settings(max_examples=40, deadline=None)
@given(broken_questions())
def test_review_with_malformed_body_is_answered_or_refused(
    broken: tuple[str, dict[str, Any]],
) -> None:
    """A review is answered or refused, whatever it asks."""
    plural, obj = broken

    async def run() -> None:
        registry = Registry(MVCCStore())
        access = Access(Authenticator(Tokens(), registry.reader), AllowAll())
        path = ResourcePath(registry.scheme.resource(plural), None)
        request = Request({}, body=msgspec.json.encode(obj), user=SYSTEM, access=access)
        try:
            answered = await answer(registry, "create", path, request)
        except ApiError as error:
            assert 400 <= error.code < 500
        else:
            assert answered.status == 201

    asyncio.run(run())


@settings(max_examples=30, deadline=None)
@given(broken_objects(), st.sampled_from(["merge", "strategic"]), st.sampled_from(["", "status"]))
def test_patch_with_malformed_body_succeeds_or_is_refused(
    broken: tuple[str, dict[str, Any]], kind: Any, subresource: str
) -> None:
    """A patch succeeds or raises an ApiError, whatever it makes of a good object."""
    plural, patch = broken
    namespace = namespace_of(plural)
    metadata = patch.get("metadata")
    if isinstance(metadata, dict):
        # What is kept by finalizers cannot be patched any other way than a free one.
        metadata.pop("name", None)

    async def run() -> None:
        registry = Registry(MVCCStore())
        await create_system_namespaces(registry)
        await registry.create(plural, namespace, OBJECTS[plural], manager="t")
        try:
            await registry.patch(
                plural, namespace, "x", patch, kind=kind, subresource=subresource, manager="u"
            )
        except ApiError as error:
            assert 400 <= error.code <= 500

    asyncio.run(run())


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
                "path": st.sampled_from(
                    [("/" + "/".join(map(str, p))) for p in places(OBJECTS["deployments"])]
                ),
            },
            optional={"value": JSON, "from": st.sampled_from(["/spec", "/metadata/labels", ""])},
        ),
        min_size=1,
        max_size=3,
    )
)
def test_json_patch_with_malformed_body_succeeds_or_is_refused(patch: list[dict[str, Any]]) -> None:
    """The same for operations on any place of a Deployment."""

    async def run() -> None:
        registry = Registry(MVCCStore())
        await create_system_namespaces(registry)
        await registry.create("deployments", "default", OBJECTS["deployments"], manager="t")
        try:
            await registry.patch("deployments", "default", "x", patch, kind="json", manager="u")
        except ApiError as error:
            assert 400 <= error.code <= 500

    asyncio.run(run())


async def test_url_of_a_webhook_that_cannot_be_parsed(api: Api) -> None:
    webhook = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://[a"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    reply = await api.post(
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        {"metadata": {"name": "x"}, "webhooks": [webhook]},
    )
    assert reply.status == 422
    assert "webhooks[0].clientConfig.url: Required value: url must be a valid URL" in reply.message


async def test_quota_beyond_the_precision_of_decimals(api: Api) -> None:
    hard = {"pods": "1e30", "services": "9" * 40}
    reply = await api.post(
        "/api/v1/namespaces/default/resourcequotas",
        {"metadata": {"name": "x"}, "spec": {"hard": hard}},
    )
    assert reply.status == 201


async def test_annotations_of_an_autoscaler_that_are_not_metrics(api: Api) -> None:
    prefix = "autoscaling.alpha.kubernetes.io"
    annotations = {f"{prefix}/metrics": "5", f"{prefix}/behavior": "[]"}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    reply = await api.post(
        "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
        {
            "metadata": {"name": "x", "annotations": annotations},
            "spec": {"maxReplicas": 2, "scaleTargetRef": target},
        },
    )
    assert reply.status == 201
