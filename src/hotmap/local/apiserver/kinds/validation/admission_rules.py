"""What may be wrong with the writes that webhooks and admission policies are asked about.

pkg/apis/admissionregistration/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.selector_validation import selector_errors
from hotmap.local.field_errors import (
    FieldError,
    choice_errors,
    duplicate,
    invalid_value,
    required,
    unsupported,
)
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")

# What each list of a rule is called in the error for "*" beside other values.
_OTHERS = {
    "operations": "operations",
    "apiGroups": "API groups",
    "apiVersions": "API versions",
}


def match_errors(match: JsonObject, path: str) -> Iterator[FieldError]:
    """Check which writes a policy or its binding is for (validateMatchResources)."""
    if "matchPolicy" in match:
        yield from choice_errors(match, path, "matchPolicy", ("Equivalent", "Exact"))
    for field in ("namespaceSelector", "objectSelector"):
        yield from selector_errors(match.get(field), f"{path}.{field}")
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(field) or ()):
            at = f"{path}.{field}[{index}]"
            names: list[Any] = rule.get("resourceNames") or []
            for number, name in enumerate(names):
                if name in names[:number]:
                    yield duplicate(f"{at}.resourceNames[{number}]", name)
            yield from asked_errors(rule, at)


def asked_errors(rule: JsonObject, path: str) -> Iterator[FieldError]:
    """Check what a webhook or a policy is asked about (validateRuleWithOperations)."""
    for field, called in _OTHERS.items():
        values, at = rule.get(field) or [], f"{path}.{field}"
        if not values:
            yield required(at)
        if len(values) > 1 and "*" in values:
            yield invalid_value(at, values, f"if '*' is present, must not specify other {called}")
        for index, value in enumerate(values):
            if field == "operations" and value not in _OPERATIONS:
                yield unsupported(f"{at}[{index}]", value, _OPERATIONS)
            if field == "apiVersions" and not value:
                yield required(f"{at}[{index}]")
    yield from _resources_errors(rule.get("resources") or [], f"{path}.resources")
    if "scope" in rule:
        yield from choice_errors(rule, path, "scope", ("*", "Cluster", "Namespaced"))


def _resources_errors(resources: list[str], path: str) -> Iterator[FieldError]:
    if not resources:
        yield required(path)
    for index, text in enumerate(resources):
        at, (name, slash, part) = f"{path}[{index}]", text.partition("/")
        if not text:
            yield required(at)
        for wider in (f"{name}/*", f"*/{part}") if slash else ():
            if wider in resources[:index]:
                yield invalid_value(at, text, f"if '{wider}' is present, must not specify {text}")
    if len(resources) > 1 and "*/*" in resources:
        why = "if '*/*' is present, must not specify other resources"
        yield invalid_value(path, resources, why)
    if "*" in resources and any(text != "*" and "/" not in text for text in resources):
        why = "if '*' is present, must not specify other resources without subresources"
        yield invalid_value(path, resources, why)
