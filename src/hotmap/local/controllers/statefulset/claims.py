"""The PersistentVolumeClaims of a StatefulSet's pods, and who owns them.

kubernetes: pkg/controller/statefulset/stateful_set_utils.go, isClaimOwnerUpToDate; KEP-1847. By
`persistentVolumeClaimRetentionPolicy`:

| whenScaled | whenDeleted | the claim of a replica | the claim of a pod that is scaled away |
|------------|-------------|------------------------|----------------------------------------|
| Retain     | Retain      | no owner               | no owner                               |
| Retain     | Delete      | the set                | the set                                |
| Delete     | Retain      | no owner               | the pod                                |
| Delete     | Delete      | the set                | the pod                                |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from hotmap.local.controllers.statefulset.identity import (
    claim_name,
    claim_templates,
    ordinal_of,
    replica_range,
)
from hotmap.local.meta import Object, labels_of, owners_of, uid_of, with_metadata

__all__ = [
    "Claims",
    "are_claims_stale",
    "claim_owners",
    "claims_of",
    "has_conflicting_controller",
    "is_owned_by_policy",
    "missing_claims",
    "new_claims",
    "outdated_claims",
]

#: The PersistentVolumeClaims of a namespace by name.
Claims = Mapping[str, Object]

_Policy = Literal["Retain", "Delete"]
_SET = ("apps/v1", "StatefulSet")
_POD = ("v1", "Pod")


class _Retention(NamedTuple):
    when_scaled: _Policy
    when_deleted: _Policy


def new_claims(owner: Object, pod: Object) -> Iterator[Object]:
    """Build the claims of a pod; they carry the labels of the set's selector."""
    ordinal = ordinal_of(pod)
    selected = (owner["spec"].get("selector") or {}).get("matchLabels") or {}
    for template in claim_templates(owner):
        labels = {**labels_of(template), **selected}
        name = claim_name(owner, template, ordinal)
        claim = with_metadata(template, name=name, labels=labels or None)
        yield {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim}


def missing_claims(owner: Object, pod: Object, claims: Claims) -> list[Object]:
    """Return the claims of a pod that do not exist."""
    return [claim for claim in new_claims(owner, pod) if claim["metadata"]["name"] not in claims]


def claims_of(owner: Object, pod: Object, claims: Claims) -> list[Object]:
    """Return the claims of a pod that exist."""
    ordinal = ordinal_of(pod)
    names = [claim_name(owner, template, ordinal) for template in claim_templates(owner)]
    return [claims[name] for name in names if name in claims]


def outdated_claims(owner: Object, pod: Object, claims: Claims) -> list[Object]:
    """Return the claims of a pod whose owners differ from the policy."""
    return [
        claim
        for claim in claims_of(owner, pod, claims)
        if not is_owned_by_policy(claim, owner, pod)
    ]


def are_claims_stale(owner: Object, pod: Object, claims: Claims) -> bool:
    """Return whether an earlier pod of that name owns a claim, which therefore will be deleted.

    Such a claim must be gone before the pod is created again.
    """
    if _retention(owner).when_scaled == "Retain":
        return False
    return any(_has_stale_owner(claim, pod, _POD) for claim in claims_of(owner, pod, claims))


def is_owned_by_policy(claim: Object, owner: Object, pod: Object) -> bool:
    """Return whether a claim's owners are what the policy says; true also if it is not ours.

    A claim that refers to an earlier set or pod of that name, or that another controller has,
    is left alone.
    """
    if _has_stale_owner(claim, owner, _SET) or _has_stale_owner(claim, pod, _POD):
        return True
    owned = (_is_owner(claim, owner), _is_owner(claim, pod))
    if has_conflicting_controller(claim, owner, pod):
        return not any(owned)
    ours = (uid_of(owner), pod["metadata"].get("uid"))
    if any(ref["uid"] in ours and not ref.get("controller") for ref in owners_of(claim)):
        return False
    return owned == _wanted_owners(owner, pod)


def claim_owners(
    claim: Object, owner: Object, pod: Object, *, set_reference: Object
) -> list[Object]:
    """Return the owner references that a claim should have."""
    others = [
        ref
        for ref in owners_of(claim)
        if not _refers_to(ref, owner, _SET) and not _refers_to(ref, pod, _POD)
    ]
    if has_conflicting_controller(claim, owner, pod):
        return others
    set_owns, pod_owns = _wanted_owners(owner, pod)
    if set_owns:
        others.append(set_reference)
    if pod_owns:
        api_version, kind = _POD
        others.append(
            {
                "apiVersion": api_version,
                "kind": kind,
                "name": pod["metadata"]["name"],
                "uid": uid_of(pod),
                "controller": True,
                "blockOwnerDeletion": True,
            }
        )
    return others


def has_conflicting_controller(claim: Object, owner: Object, pod: Object) -> bool:
    """Return whether something else controls a claim for which the set has a policy."""
    if _retention(owner) == ("Retain", "Retain"):
        return False
    for ref in owners_of(claim):
        for ours, kind in ((owner, _SET), (pod, _POD)):
            if _refers_to(ref, ours, kind):
                if ref["uid"] != ours["metadata"].get("uid"):
                    return True
                break
        else:
            if ref.get("controller"):
                return True
    return False


def _retention(owner: Object) -> _Retention:
    policy = owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    return _Retention(policy.get("whenScaled", "Retain"), policy.get("whenDeleted", "Retain"))


def _wanted_owners(owner: Object, pod: Object) -> tuple[bool, bool]:
    """Return whether the set, and whether the pod is to own a claim: the table above."""
    retention = _retention(owner)
    pod_owns = retention.when_scaled == "Delete" and ordinal_of(pod) not in replica_range(owner)
    return retention.when_deleted == "Delete" and not pod_owns, pod_owns


def _is_owner(claim: Object, owner: Object) -> bool:
    uid = owner["metadata"].get("uid")
    return any(ref["uid"] == uid for ref in owners_of(claim))


def _refers_to(reference: Object, owner: Object, kind: tuple[str, str]) -> bool:
    named = (reference.get("apiVersion"), reference.get("kind")) == kind
    return named and reference["name"] == owner["metadata"]["name"]


def _has_stale_owner(claim: Object, owner: Object, kind: tuple[str, str]) -> bool:
    """Return whether a claim refers to something of that name with another uid."""
    references = [ref for ref in owners_of(claim) if _refers_to(ref, owner, kind)]
    return bool(references) and references[0]["uid"] != owner["metadata"].get("uid")
