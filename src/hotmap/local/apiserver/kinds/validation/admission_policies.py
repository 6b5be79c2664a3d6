"""What may be wrong with admission policies, their bindings, and conditions in CEL.

pkg/apis/admissionregistration/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.custom.expression_types import constant_type, text_error
from hotmap.local.apiserver.kinds.validation.admission_rules import match_errors
from hotmap.local.apiserver.selector_validation import selector_errors
from hotmap.local.field_errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_ACTIONS = ("Audit", "Deny", "Warn")
_POLICY_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
# What conditions and policies see of a write (apiserver/pkg/admission/plugin/cel).
_SEEN = ("object", "oldObject", "request", "authorizer", "namespaceObject")
_ANY = ("bool", "int", "double", "string", "bytes", "list")


def admission_policy_errors(policy: JsonObject) -> Iterator[FieldError]:
    """Check a ValidatingAdmissionPolicy."""
    spec = policy.get("spec") or {}
    if spec.get("failurePolicy") not in ("Fail", "Ignore"):
        yield unsupported("spec.failurePolicy", spec.get("failurePolicy"), ("Fail", "Ignore"))
    if spec.get("paramKind") is not None:
        for field in ("apiVersion", "kind"):
            if not spec["paramKind"].get(field):
                yield required(f"spec.paramKind.{field}")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        yield required("spec.matchConstraints")
    elif not constraints.get("resourceRules"):
        yield required("spec.matchConstraints.resourceRules")
    yield from match_errors(constraints or {}, "spec.matchConstraints")
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        why = "validations or auditAnnotations must contain at least one item"
        yield required("spec.validations", why)
        yield required("spec.auditAnnotations", why)
    yield from _expression_errors(spec)


def condition_errors(conditions: Any, path: str) -> Iterator[FieldError]:
    """Check the match conditions of a webhook or a policy."""
    for index, condition in enumerate(conditions or ()):
        text = str(condition.get("expression", ""))
        if text.strip():
            yield from _text_errors(text, f"{path}[{index}].expression", _SEEN, ("bool",))


def _text_errors(
    text: str, path: str, declared: Collection[str], types: tuple[str, ...]
) -> Iterator[FieldError]:
    why = text_error(text, declared)
    if why:
        yield invalid_value(path, text, f"compilation failed: {why}")
        return
    found = constant_type(text)
    if found and found not in types:
        wanted = types[0] if len(types) == 1 else f"one of [{' '.join(types)}]"
        yield invalid_value(path, text, f"must evaluate to {wanted} but got {found}")


def _expression_errors(spec: JsonObject) -> Iterator[FieldError]:
    declared = (*_SEEN, "variables", *(("params",) if spec.get("paramKind") else ()))
    for field in ("matchConditions", "variables", "validations"):
        for index, item in enumerate(spec.get(field) or ()):
            path = f"spec.{field}[{index}]"
            if field != "validations" and not item.get("name"):
                yield required(f"{path}.name")
            text = str(item.get("expression", ""))
            if not text.strip():
                yield required(f"{path}.expression", "expression is not specified")
            elif field == "variables":
                yield from _text_errors(text, f"{path}.expression", declared, _ANY)
            else:
                yield from _text_errors(text, f"{path}.expression", declared, ("bool",))
            message = str(item.get("messageExpression", ""))
            if message.strip() and field == "validations":
                at = f"{path}.messageExpression"
                yield from _text_errors(message, at, declared, ("string",))
            reason = item.get("reason")
            if reason and reason not in _POLICY_REASONS:
                yield unsupported(f"{path}.reason", reason, _POLICY_REASONS)
    for index, annotation in enumerate(spec.get("auditAnnotations") or ()):
        text = str(annotation.get("valueExpression", ""))
        if text.strip():
            at = f"spec.auditAnnotations[{index}].valueExpression"
            yield from _text_errors(text, at, declared, ("string", "null_type"))


def policy_binding_errors(binding: JsonObject) -> Iterator[FieldError]:
    """Check a ValidatingAdmissionPolicyBinding."""
    spec = binding.get("spec") or {}
    if not spec.get("policyName"):
        yield required("spec.policyName")
    reference = spec.get("paramRef")
    if reference is not None:
        if reference.get("name") and reference.get("selector") is not None:
            yield forbidden_field("spec.paramRef.name", "name and selector are mutually exclusive")
        if not reference.get("name") and reference.get("selector") is None:
            yield required("spec.paramRef", "one of name or selector must be specified")
        if reference.get("parameterNotFoundAction") not in ("Allow", "Deny"):
            yield required("spec.paramRef.parameterNotFoundAction")
        yield from selector_errors(reference.get("selector"), "spec.paramRef.selector")
    yield from match_errors(spec.get("matchResources") or {}, "spec.matchResources")
    actions = spec.get("validationActions") or ()
    if not actions:
        yield required("spec.validationActions", "at least one validation action is required")
    for action in actions:
        if action not in _ACTIONS:
            yield unsupported("spec.validationActions", action, _ACTIONS)
    if "Deny" in actions and "Warn" in actions:
        why = (
            "must not contain both Deny and Warn (repeating the same validation failure "
            "information in the API response and headers serves no purpose)"
        )
        yield invalid_value("spec.validationActions", list(actions), why)
