"""Which pods a quota with scopes counts (pkg/quota/v1/evaluator/core/pods.go)."""

from __future__ import annotations

from typing import Any

import pytest

from hotmap.local.apiserver.kinds import built_in_scheme
from hotmap.local.apiserver.kinds.core.pod import PODS
from hotmap.local.quota import counts, is_in_scope

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity(**term: Any) -> dict[str, Any]:
    return {"podAntiAffinity": {_REQUIRED: [{"topologyKey": "zone", **term}]}}


@pytest.mark.parametrize(
    ("spec", "counted"),
    [
        ({}, False),
        ({"affinity": affinity()}, False),
        ({"affinity": affinity(namespaces=["a"])}, True),
        ({"affinity": affinity(namespaceSelector={})}, True),
        (
            {
                "affinity": {
                    "podAffinity": {
                        _PREFERRED: [{"weight": 1, "podAffinityTerm": {"namespaces": ["a"]}}]
                    }
                }
            },
            True,
        ),
    ],
)
def test_quota_of_cross_namespace_affinity_counts_such_pods(
    spec: dict[str, Any], counted: bool
) -> None:
    for scopes in (
        {"scopes": ["CrossNamespacePodAffinity"]},
        {
            "scopeSelector": {
                "matchExpressions": [
                    {"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}
                ]
            }
        },
    ):
        assert is_in_scope({"spec": scopes}, PODS, {"spec": spec}) is counted


@pytest.mark.parametrize(
    ("requests", "best_effort"),
    [({}, True), ({"ephemeral-storage": "1Gi", "a.b/gpu": "1"}, True), ({"cpu": "1"}, False)],
)
def test_best_effort_pods_request_neither_cpu_nor_memory(
    requests: dict[str, str], best_effort: bool
) -> None:
    pod = {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}
    assert is_in_scope({"spec": {"scopes": ["BestEffort"]}}, PODS, pod) is best_effort
    assert is_in_scope({"spec": {"scopes": ["NotBestEffort"]}}, PODS, pod) is not best_effort


@pytest.mark.parametrize(
    "name", ["requests.example.com/gpu", "limits.memory", "cpu", "requests.cpu", "pods"]
)
def test_pods_use_what_they_request(name: str) -> None:
    """The name of an extended resource has dots of its own."""
    assert counts(PODS, name)


def test_storage_is_not_used_by_pods() -> None:
    assert not counts(PODS, "requests.storage")


@pytest.mark.parametrize("name", ["persistentvolumeclaims", "requests.storage"])
@pytest.mark.parametrize("prefix", ["", "gold.storageclass.storage.k8s.io/"])
def test_claims_use_storage_also_by_class(prefix: str, name: str) -> None:
    claims = built_in_scheme().resource("persistentvolumeclaims")
    assert counts(claims, prefix + name)
