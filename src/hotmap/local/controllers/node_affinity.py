"""Which nodes a pod asks for, by `nodeSelector` and required node affinity.

kubernetes: component-helpers/scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hotmap.local.meta import Object, labels_of

__all__ = ["matches_node_affinity", "matches_node_terms", "required_node_terms"]


def matches_node_affinity(pod_spec: Object, node: Object) -> bool:
    """Return whether a pod may be on a node, as far as the pod says where it wants to be."""
    wanted = pod_spec.get("nodeSelector") or {}
    if not wanted.items() <= labels_of(node).items():
        return False
    terms = required_node_terms(pod_spec)
    return terms is None or matches_node_terms(terms, node)


def matches_node_terms(terms: Iterable[Object], node: Object) -> bool:
    """Return whether a node meets one of several terms."""
    return any(_matches_term(term, node) for term in terms)


def required_node_terms(pod_spec: Object) -> list[Object] | None:
    """Return the terms of required node affinity; None where there is none."""
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required.get("nodeSelectorTerms") or []


def _matches_term(term: Object, node: Object) -> bool:
    """Return whether a node meets all of a term; an empty term matches no node."""
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    names = {"metadata.name": node["metadata"]["name"]}
    return all(_matches(expression, labels_of(node)) for expression in expressions) and all(
        _matches(field, names) for field in fields
    )


def _matches(requirement: Object, values: Mapping[str, str]) -> bool:
    value, wanted = values.get(requirement["key"]), requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return _compares(requirement["operator"], value, wanted)


def _compares(operator: str, value: str | None, bounds: list[str]) -> bool:
    try:
        number, bound = int(value or ""), int(bounds[0])
    except (ValueError, IndexError):
        return False
    return number > bound if operator == "Gt" else operator == "Lt" and number < bound
