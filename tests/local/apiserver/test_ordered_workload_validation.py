"""What StatefulSets and DaemonSets may say about updates, claims and ordinals.

The messages are those of a kube-apiserver 1.36; of `maxUnavailable` in a StatefulSet, with the
feature gate MaxUnavailableStatefulSet.
"""

from __future__ import annotations

from typing import Any

import pytest

from hotmap.local.apiserver.kinds.apps.daemonset import DaemonSetStrategy
from hotmap.local.apiserver.kinds.apps.statefulset import StatefulSetStrategy
from hotmap.local.strategy import Strategy

ROLLING = "spec.updateStrategy.rollingUpdate"
PERCENT = "a valid percent string must be a numeric string followed by an ending '%'"
BOTH_ZERO = f"{ROLLING}.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"


def errors(strategy: Strategy, *, mounted: str = "", **spec: Any) -> list[str]:
    """The errors of a workload that is right otherwise, as text."""
    container: dict[str, Any] = {"name": "main", "image": "host"}
    if mounted:
        container["volumeMounts"] = [{"name": mounted, "mountPath": "/data"}]
    workload = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [container], "hostname": "NOT VALID"},
            },
            **spec,
        },
    }
    if isinstance(strategy, DaemonSetStrategy):
        del workload["spec"]["template"]["spec"]["hostname"]
    strategy.default(workload)
    return [str(error) for error in strategy.validate(workload)]


def begins(found: list[str], *expected: str) -> bool:
    return len(found) == len(expected) and all(map(str.startswith, found, expected))


@pytest.mark.parametrize(
    ("rolling", "expected"),
    [
        ({}, ()),
        ({"maxUnavailable": "10%"}, ()),
        ({"maxUnavailable": 0, "maxSurge": "10%"}, ()),
        (
            {"maxUnavailable": "abc"},
            (f'{ROLLING}.maxUnavailable: Invalid value: "abc": {PERCENT}', BOTH_ZERO),
        ),
        (
            {"maxUnavailable": -1},
            (f"{ROLLING}.maxUnavailable: Invalid value: -1: must be greater than or equal to 0",),
        ),
        (
            {"maxUnavailable": "101%"},
            (f'{ROLLING}.maxUnavailable: Invalid value: "101%": must not be greater than 100%',),
        ),
        (
            {"maxUnavailable": 0, "maxSurge": "-5%"},
            (f'{ROLLING}.maxSurge: Invalid value: "-5%": {PERCENT}', BOTH_ZERO),
        ),
        ({"maxUnavailable": "0%"}, (BOTH_ZERO,)),
        (
            {"maxSurge": 1},
            (f"{ROLLING}.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-",),
        ),
    ],
)
def test_daemon_set_updates_within_bounds(
    rolling: dict[str, Any], expected: tuple[str, ...]
) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    assert begins(errors(DaemonSetStrategy(), updateStrategy=strategy), *expected)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ()),
        ({"revisionHistoryLimit": -1}, ()),
        (
            {"ordinals": {"start": -1}},
            ("spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0",),
        ),
        (
            {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Foo"}},
            (
                "spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "
                '"Foo": supported values: "Retain", "Delete"',
            ),
        ),
        (
            {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}},
            (f"{ROLLING}.maxUnavailable: Invalid value: 0: cannot be 0",),
        ),
        (
            {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "101%", "partition": -1}}},
            (
                f"{ROLLING}.partition: Invalid value: -1: must be greater than or equal to 0",
                f'{ROLLING}.maxUnavailable: Invalid value: "101%": must not be greater than 100%',
            ),
        ),
        (
            {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}]},
            (
                "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access",
                "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
            ),
        ),
    ],
)
def test_stateful_set_fields_are_checked(spec: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert begins(errors(StatefulSetStrategy(), **spec), *expected)


def test_stateful_set_mounts_its_claims() -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    strategy = StatefulSetStrategy()
    assert errors(strategy, mounted="data", volumeClaimTemplates=[claim]) == []
    (error,) = errors(strategy, mounted="other", volumeClaimTemplates=[claim])
    assert error.endswith('volumeMounts[0].name: Not found: "other"')


def test_stateful_set_that_keeps_all_revisions_is_warned_of() -> None:
    assert StatefulSetStrategy().warnings({"spec": {"revisionHistoryLimit": -1}}) == [
        "spec.revisionHistoryLimit: a negative value retains all historical revisions; "
        "a value >= 0 is recommended"
    ]
    assert StatefulSetStrategy().warnings({"spec": {"revisionHistoryLimit": 0}}) == []
