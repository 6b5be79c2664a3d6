"""The pods of a DaemonSet: what is added to its template, and which node a pod is for.

kubernetes: pkg/controller/daemon/util/daemonset_util.go.
"""

from __future__ import annotations

from hotmap.local.controllers.history import REVISION_LABEL
from hotmap.local.controllers.node_affinity import required_node_terms
from hotmap.local.controllers.pod_control import pod_from_template
from hotmap.local.meta import Object, annotations_of, labels_of, with_metadata

__all__ = ["daemon_pod", "daemon_tolerations", "is_updated", "target_node"]

_GENERATION = "deprecated.daemonset.template.generation"
_GENERATION_LABEL = "pod-template-generation"
_NODE_NAME = "metadata.name"

# The taints of nodes that keep no daemon pod away and remove none.
_TOLERATED = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
_TOLERATED_BY_HOST_NETWORK = ("network-unavailable", "NoSchedule")


def daemon_pod(owner: Object, node: str, *, revision_hash: str, reference: Object) -> Object:
    """Build the pod of a node, which only that node fits."""
    pod = pod_from_template(owner, owner["spec"]["template"], reference)
    labels = {**labels_of(pod), REVISION_LABEL: revision_hash}
    generation = _template_generation(owner)
    if generation is not None:
        labels[_GENERATION_LABEL] = generation
    pod = with_metadata(pod, labels=labels)
    spec = pod["spec"]
    changes = {"tolerations": daemon_tolerations(spec), "affinity": _with_node(spec, node)}
    return {**pod, "spec": {**spec, **changes}}


def daemon_tolerations(spec: Object) -> list[Object]:
    """Return the tolerations of a pod spec and those that all daemon pods have."""
    added = [*_TOLERATED, *([_TOLERATED_BY_HOST_NETWORK] if spec.get("hostNetwork") else [])]
    tolerations = list(spec.get("tolerations") or [])
    for name, effect in added:
        wanted = {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
        for index, present in enumerate(tolerations):
            if {**present, "tolerationSeconds": None} == {**wanted, "tolerationSeconds": None}:
                tolerations[index] = wanted
                break
        else:
            tolerations.append(wanted)
    return tolerations


def target_node(pod: Object) -> str | None:
    """Return the node that a pod is on, or that it is for while it waits; None if it names none."""
    if pod["spec"].get("nodeName"):
        name: str = pod["spec"]["nodeName"]
        return name
    for term in required_node_terms(pod["spec"]) or ():
        for field in term.get("matchFields") or ():
            if field["key"] == _NODE_NAME and field["operator"] == "In":
                values: list[str] = field.get("values") or []
                return values[0] if len(values) == 1 else None
    return None


def is_updated(owner: Object, pod: Object, revision_hash: str) -> bool:
    """Return whether a pod is of the latest template, by its hash or by its generation."""
    labels, generation = labels_of(pod), _template_generation(owner)
    return labels.get(REVISION_LABEL) == revision_hash or (
        generation is not None and labels.get(_GENERATION_LABEL) == generation
    )


def _template_generation(owner: Object) -> str | None:
    text = annotations_of(owner).get(_GENERATION, "")
    try:
        return str(int(text))
    except ValueError:
        return None


def _with_node(spec: Object, node: str) -> Object:
    """Return an affinity in which the required terms are replaced by the node's name."""
    affinity = spec.get("affinity") or {}
    terms = [{"matchFields": [{"key": _NODE_NAME, "operator": "In", "values": [node]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {**affinity, "nodeAffinity": {**(affinity.get("nodeAffinity") or {}), **required}}
