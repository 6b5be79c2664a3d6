"""Affinities and topology spread constraints of pods (pkg/apis/core/validation/validation.go)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.selector_validation import selector_errors
from hotmap.local.field_errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import label_name_errors, label_value_errors, qualified_name_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_POSITIVE = "must be greater than zero"
_EMPTY = "can not be empty"
_WEIGHT = "must be in the range 1-100"
_OPERATOR = "not a valid selector operator"
# What a requirement's values must be, by its operator.
_NUMBER_OF_VALUES = {
    "In": "some",
    "NotIn": "some",
    "Exists": "none",
    "DoesNotExist": "none",
    "Gt": "single",
    "Lt": "single",
}


def affinity_errors(spec: JsonObject, path: str) -> Iterator[FieldError]:
    """Find the errors in the scheduling constraints of a pod or a template."""
    affinity, at = spec.get("affinity") or {}, f"{path}.affinity"
    yield from _node_affinity_errors(affinity.get("nodeAffinity") or {}, f"{at}.nodeAffinity")
    for field in ("podAffinity", "podAntiAffinity"):
        yield from _pod_affinity_errors(affinity.get(field) or {}, f"{at}.{field}")
    constraints = spec.get("topologySpreadConstraints") or ()
    yield from _spread_errors(constraints, f"{path}.topologySpreadConstraints")


def _node_affinity_errors(affinity: JsonObject, path: str) -> Iterator[FieldError]:
    wanted = affinity.get(_REQUIRED)
    if wanted is not None:
        yield from node_selector_errors(wanted, f"{path}.{_REQUIRED}")
    for index, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        at = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight_errors(weighted, at)
        term = weighted.get("preference") or {}
        yield from _node_term_errors(term, f"{at}.preference", check_values=False)


def node_selector_errors(selector: JsonObject, path: str) -> Iterator[FieldError]:
    """Check a NodeSelector (ValidateNodeSelector)."""
    terms, at = selector.get("nodeSelectorTerms") or (), f"{path}.nodeSelectorTerms"
    if not terms:
        yield required(at, "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from _node_term_errors(term, f"{at}[{index}]", check_values=True)


def _weight_errors(weighted: JsonObject, path: str) -> Iterator[FieldError]:
    weight = weighted.get("weight", 0)
    if not 1 <= weight <= 100:
        yield invalid_value(f"{path}.weight", weight, _WEIGHT)


def _node_term_errors(term: JsonObject, path: str, *, check_values: bool) -> Iterator[FieldError]:
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        at = f"{path}.matchExpressions[{index}]"
        yield from _requirement_errors(requirement, at)
        values = requirement.get("values") or () if check_values else ()
        for number, value in enumerate(values):
            for why in label_value_errors(value):
                yield invalid_value(f"{at}.values[{number}]", value, why)
    for index, requirement in enumerate(term.get("matchFields") or ()):
        yield from _field_requirement_errors(requirement, f"{path}.matchFields[{index}]")


def _requirement_errors(requirement: JsonObject, path: str) -> Iterator[FieldError]:
    operator, count = requirement.get("operator", ""), len(requirement.get("values") or ())
    allowed = _NUMBER_OF_VALUES.get(operator)
    if allowed is None:
        yield invalid_value(f"{path}.operator", operator, _OPERATOR)
    elif allowed == "some" and not count:
        yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif allowed == "none" and count:
        why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield forbidden_field(f"{path}.values", why)
    elif allowed == "single" and count != 1:
        why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        yield required(f"{path}.values", why)
    key = requirement.get("key", "")
    for why in qualified_name_errors(key):
        yield invalid_value(f"{path}.key", key, why)


def _field_requirement_errors(requirement: JsonObject, path: str) -> Iterator[FieldError]:
    operator, key = requirement.get("operator", ""), requirement.get("key", "")
    if operator not in ("In", "NotIn"):
        yield invalid_value(f"{path}.operator", operator, _OPERATOR)
    elif len(requirement.get("values") or ()) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", why)
    if key != "metadata.name":
        yield invalid_value(f"{path}.key", key, "not a valid field selector key")


def _pod_affinity_errors(affinity: JsonObject, path: str) -> Iterator[FieldError]:
    for index, term in enumerate(affinity.get(_REQUIRED) or ()):
        yield from _pod_term_errors(term, f"{path}.{_REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        at = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight_errors(weighted, at)
        yield from _pod_term_errors(weighted.get("podAffinityTerm") or {}, f"{at}.podAffinityTerm")


def _pod_term_errors(term: JsonObject, path: str) -> Iterator[FieldError]:
    for field in ("labelSelector", "namespaceSelector"):
        yield from selector_errors(term.get(field), f"{path}.{field}")
    for name in term.get("namespaces") or ():
        for why in label_name_errors(name):
            yield invalid_value(f"{path}.namespace", name, why)
    yield from _label_key_errors(term, path)
    key = term.get("topologyKey", "")
    if not key:
        yield required(f"{path}.topologyKey", _EMPTY)
    for why in qualified_name_errors(key):
        yield invalid_value(f"{path}.topologyKey", key, why)


def _label_key_errors(term: JsonObject, path: str) -> Iterator[FieldError]:
    """Check the label keys that join a selector (ValidateMatchLabelKeysAndMismatchLabelKeys)."""
    selector, matching = term.get("labelSelector"), term.get("matchLabelKeys") or []
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        keys, at = term.get(field) or (), f"{path}.{field}"
        if keys and selector is None:
            yield forbidden_field(at, "must not be specified when labelSelector is not set")
            continue
        for index, key in enumerate(keys):
            for why in qualified_name_errors(key):
                yield invalid_value(f"{at}[{index}]", key, why)
    seen = set((selector or {}).get("matchLabels") or ())
    for expression in (selector or {}).get("matchExpressions") or ():
        key = expression.get("key", "")
        if key in matching and key in seen:
            why = "exists in both matchLabelKeys and labelSelector"
            yield invalid_value(f"{path}[{matching.index(key)}]", key, why)
        seen.add(key)
    for index, key in enumerate(matching):
        if key in (term.get("mismatchLabelKeys") or ()):
            why = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid_value(f"{path}.matchLabelKeys[{index}]", key, why)


def add_label_keys(spec: JsonObject, labels: JsonObject) -> None:
    """Let the selectors of a new pod select by its own labels, in place (mutatePodAffinity)."""
    affinity = spec.get("affinity") or {}
    for field in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(field) or {}
        for term in terms.get(_REQUIRED) or ():
            _add_label_keys(term, labels)
        for weighted in terms.get(_PREFERRED) or ():
            _add_label_keys(weighted.get("podAffinityTerm") or {}, labels)
    for constraint in spec.get("topologySpreadConstraints") or ():
        _add_label_keys(constraint, labels)


def _add_label_keys(term: JsonObject, labels: JsonObject) -> None:
    selector = term.get("labelSelector")
    if selector is None:
        return
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(field) or ():
            if key in labels:
                added = {"key": key, "operator": operator, "values": [labels[key]]}
                selector.setdefault("matchExpressions", []).append(added)


def _spread_errors(constraints: Any, path: str) -> Iterator[FieldError]:
    left = Counter((c.get("topologyKey", ""), c.get("whenUnsatisfiable", "")) for c in constraints)
    for index, constraint in enumerate(constraints):
        at = f"{path}[{index}]"
        skew, key = constraint.get("maxSkew", 0), constraint.get("topologyKey", "")
        action = constraint.get("whenUnsatisfiable", "")
        if skew <= 0:
            yield invalid_value(f"{at}.maxSkew", skew, _POSITIVE)
        if not key:
            yield required(f"{at}.topologyKey", _EMPTY)
        if action not in _ACTIONS:
            yield unsupported(f"{at}.whenUnsatisfiable", action, _ACTIONS)
        left[key, action] -= 1
        if left[key, action] > 0:
            field = "{topologyKey, whenUnsatisfiable}"
            yield duplicate(f"{at}.{field}", f"{{{key}, {action}}}")
        yield from _domain_errors(constraint, at, action)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(field)
            if policy not in (None, "Honor", "Ignore"):
                yield unsupported(f"{at}.{field}", policy, ("Honor", "Ignore"))
        keys = {field: constraint.get(field) for field in ("labelSelector", "matchLabelKeys")}
        yield from _label_key_errors(keys, at)
        yield from selector_errors(constraint.get("labelSelector"), f"{at}.labelSelector")


def _domain_errors(constraint: JsonObject, path: str, action: str) -> Iterator[FieldError]:
    domains = constraint.get("minDomains")
    if domains is None:
        return
    if domains <= 0:
        yield invalid_value(f"{path}.minDomains", domains, _POSITIVE)
    if action != _ACTIONS[0]:
        why = f"can only use minDomains if whenUnsatisfiable={_ACTIONS[0]}, not {action}"
        yield invalid_value(f"{path}.minDomains", domains, why)
