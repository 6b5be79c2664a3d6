"""The PersistentVolumeClaims of a StatefulSet's pods: names, labels and owners."""

from __future__ import annotations

from typing import Any

import pytest

from hotmap.local.controllers.statefulset.claims import (
    are_claims_stale,
    claim_owners,
    has_conflicting_controller,
    is_owned_by_policy,
    new_claims,
)

Object = dict[str, Any]

SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "uid-of-web"}
REFERENCE = {**SET, "controller": True, "blockOwnerDeletion": True}
POD = {"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "uid-of-web-0"}
POD_REFERENCE = {**POD, "controller": True, "blockOwnerDeletion": True}
OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "uid-of-other"}

RETAIN, DELETE = "Retain", "Delete"


def stateful_set(when_scaled: str, when_deleted: str, *, replicas: int = 1) -> Object:
    return {
        "metadata": {"namespace": "default", "name": "web", "uid": "uid-of-web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "volumeClaimTemplates": [
                {"metadata": {"name": "data", "labels": {"tier": "db"}}, "spec": {"size": 1}}
            ],
            "persistentVolumeClaimRetentionPolicy": {
                "whenScaled": when_scaled,
                "whenDeleted": when_deleted,
            },
        },
    }


def pod(uid: str | None = "uid-of-web-0") -> Object:
    return {"metadata": {"namespace": "default", "name": "web-0", **({"uid": uid} if uid else {})}}


def claim(*owners: Object) -> Object:
    return {"metadata": {"name": "data-web-0", "ownerReferences": list(owners)}}


def kinds(owners: list[Object]) -> list[str]:
    return [owner["kind"] for owner in owners]


def test_claims_are_named_after_template_and_pod() -> None:
    (made,) = new_claims(stateful_set(RETAIN, RETAIN), pod())
    assert made == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-web-0", "labels": {"tier": "db", "app": "web"}},
        "spec": {"size": 1},
    }


@pytest.mark.parametrize(
    ("when_scaled", "when_deleted", "of_replica", "of_scaled_away"),
    [
        (RETAIN, RETAIN, [], []),
        (RETAIN, DELETE, ["StatefulSet"], ["StatefulSet"]),
        (DELETE, RETAIN, [], ["Pod"]),
        (DELETE, DELETE, ["StatefulSet"], ["Pod"]),
    ],
)
@pytest.mark.parametrize("present", [(), (REFERENCE,), (POD_REFERENCE,)])
def test_retention_policy_says_who_owns_a_claim(
    when_scaled: str,
    when_deleted: str,
    of_replica: list[str],
    of_scaled_away: list[str],
    present: tuple[Object, ...],
) -> None:
    for replicas, expected in ((1, of_replica), (0, of_scaled_away)):
        owner, found = stateful_set(when_scaled, when_deleted, replicas=replicas), claim(*present)
        wanted = claim_owners(found, owner, pod(), set_reference=REFERENCE)
        assert kinds(wanted) == expected
        assert is_owned_by_policy(found, owner, pod()) == (kinds(list(present)) == expected)
        assert is_owned_by_policy(claim(*wanted), owner, pod())


def test_other_owners_of_a_claim_are_kept() -> None:
    owner = stateful_set(RETAIN, DELETE)
    assert claim_owners(claim(OTHER), owner, pod(), set_reference=REFERENCE) == [OTHER, REFERENCE]


def test_owner_that_is_not_a_controller_is_replaced() -> None:
    owner = stateful_set(RETAIN, DELETE)
    assert not is_owned_by_policy(claim(SET), owner, pod())
    assert claim_owners(claim(SET), owner, pod(), set_reference=REFERENCE) == [REFERENCE]


def test_claim_of_another_controller_is_left_to_it() -> None:
    owner, other = stateful_set(RETAIN, DELETE), {**OTHER, "controller": True}
    assert has_conflicting_controller(claim(other), owner, pod())
    assert is_owned_by_policy(claim(other), owner, pod())
    assert not is_owned_by_policy(claim(other, REFERENCE), owner, pod())
    found = claim(other, REFERENCE)
    assert claim_owners(found, owner, pod(), set_reference=REFERENCE) == [other]
    # Without a policy it does not matter who has it.
    assert not has_conflicting_controller(claim(other), stateful_set(RETAIN, RETAIN), pod())


@pytest.mark.parametrize("earlier", [{**REFERENCE, "uid": "old"}, {**POD_REFERENCE, "uid": "old"}])
def test_claim_of_an_earlier_set_or_pod_is_left_alone(earlier: Object) -> None:
    owner = stateful_set(DELETE, DELETE)
    assert is_owned_by_policy(claim(earlier), owner, pod())
    assert has_conflicting_controller(claim(earlier), owner, pod())


def test_claim_of_an_earlier_pod_delays_the_next() -> None:
    claims = {"data-web-0": claim(POD_REFERENCE)}
    assert are_claims_stale(stateful_set(DELETE, RETAIN), pod(uid=None), claims)
    assert not are_claims_stale(stateful_set(RETAIN, DELETE), pod(uid=None), claims)
    assert not are_claims_stale(stateful_set(DELETE, RETAIN), pod(uid=None), {})
