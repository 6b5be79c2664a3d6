"""Which pod of a StatefulSet is which: ordinals, names, labels and volumes.

kubernetes: pkg/controller/statefulset/stateful_set_utils.go.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hotmap.local.controllers.history import REVISION_LABEL
from hotmap.local.controllers.pod_control import pod_from_template
from hotmap.local.meta import Object, labels_of, with_metadata

__all__ = [
    "claim_name",
    "claim_templates",
    "has_identity",
    "has_storage",
    "is_member",
    "ordinal_of",
    "pod_name",
    "replica_range",
    "revision_of",
    "stateful_pod",
    "with_identity",
]

_POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_NAME = re.compile(r"(.*)-([0-9]+)", re.DOTALL)
# Ordinals are 32-bit integers of Go; a greater number is none.
_MAX_ORDINAL = 2**31 - 1


def ordinal_of(pod: Object) -> int:
    """Return the number at the end of a pod's name, -1 without one."""
    return _parent_and_ordinal(pod)[1]


def is_member(owner: Object, pod: Object) -> bool:
    """Return whether a pod has the name of one of this set's; only those are adopted."""
    name: str = owner["metadata"]["name"]
    return _parent_and_ordinal(pod)[0] == name


def replica_range(owner: Object) -> range:
    """Return the ordinals that a set asks for."""
    spec = owner["spec"]
    start = (spec.get("ordinals") or {}).get("start") or 0
    replicas = spec.get("replicas")
    return range(start, start + (1 if replicas is None else replicas))


def pod_name(owner: Object, ordinal: int) -> str:
    return f"{owner['metadata']['name']}-{ordinal}"


def claim_templates(owner: Object) -> Sequence[Object]:
    return owner["spec"].get("volumeClaimTemplates") or ()


def claim_name(owner: Object, template: Object, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{owner['metadata']['name']}-{ordinal}"


def revision_of(pod: Object) -> str:
    """Return the name of the revision that a pod was made of, "" where no label says it."""
    return labels_of(pod).get(REVISION_LABEL, "")


def stateful_pod(
    owner: Object, template: Object, ordinal: int, *, revision: str, reference: Object
) -> Object:
    """Build the pod of an ordinal from a template, which is that of the revision."""
    pod = pod_from_template(owner, template, reference)
    name = pod_name(owner, ordinal)
    labels = {**labels_of(pod), **_identity_labels(name, ordinal), REVISION_LABEL: revision}
    pod = with_metadata(pod, name=name, labels=labels)
    spec = {**pod["spec"], "hostname": name}
    if owner["spec"].get("serviceName"):
        spec["subdomain"] = owner["spec"]["serviceName"]
    return {**pod, "spec": _with_storage(owner, spec, ordinal)}


def has_identity(owner: Object, pod: Object) -> bool:
    """Return whether a pod has the name and the label of its ordinal."""
    ordinal = ordinal_of(pod)
    name = pod["metadata"]["name"]
    return (
        ordinal >= 0
        and name == pod_name(owner, ordinal)
        and labels_of(pod).get(_POD_NAME_LABEL) == name
    )


def has_storage(owner: Object, pod: Object) -> bool:
    """Return whether a pod's volumes are those that the claim templates ask for."""
    ordinal = ordinal_of(pod)
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    return ordinal >= 0 and all(
        _claimed_by(volumes.get(template["metadata"]["name"]))
        == claim_name(owner, template, ordinal)
        for template in claim_templates(owner)
    )


def with_identity(owner: Object, pod: Object) -> Object:
    """Return a pod with the labels of its ordinal, and with the volumes of its claims."""
    ordinal = ordinal_of(pod)
    labels = {**labels_of(pod), **_identity_labels(pod_name(owner, ordinal), ordinal)}
    pod = with_metadata(pod, labels=labels)
    if has_storage(owner, pod):
        return pod
    return {**pod, "spec": _with_storage(owner, pod["spec"], ordinal)}


def _parent_and_ordinal(pod: Object) -> tuple[str, int]:
    match = _NAME.fullmatch(pod["metadata"]["name"])
    if match is None:
        return "", -1
    ordinal = int(match[2])
    return match[1], ordinal if ordinal <= _MAX_ORDINAL else -1


def _identity_labels(name: str, ordinal: int) -> dict[str, str]:
    return {_POD_NAME_LABEL: name, _INDEX_LABEL: str(ordinal)}


def _with_storage(owner: Object, spec: Object, ordinal: int) -> Object:
    """Put the volumes of the claims before the others; one of the same name is replaced."""
    templates = claim_templates(owner)
    if not templates:
        return spec
    claimed = [
        {
            "name": template["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": claim_name(owner, template, ordinal)},
        }
        for template in templates
    ]
    names = {volume["name"] for volume in claimed}
    others = [volume for volume in spec.get("volumes") or () if volume["name"] not in names]
    return {**spec, "volumes": [*claimed, *others]}


def _claimed_by(volume: Object | None) -> str:
    source = (volume or {}).get("persistentVolumeClaim") or {}
    name: str = source.get("claimName", "")
    return name
