"""The validation rules that a definition's schemas have, before they are used.

apiextensions-apiserver/pkg/apis/apiextensions/validation: what a rule consists of, and its syntax.
Types are checked as far as `expression_types` can; of the cost, loops alone are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.custom.expression_cost import largest_size, static_cost
from hotmap.local.apiserver.custom.expression_types import (
    NOT_BOOL,
    NOT_STRING,
    rule_type_error,
    text_error,
)
from hotmap.local.apiserver.custom.rules import RULES
from hotmap.local.field_errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARIABLES = ("self", "oldSelf")
# A hundred times the limit of all rules of a schema (StaticEstimatedCRDCostLimit): upstream's
# estimate, which counts more than loops, is beyond that as well.
_FAR_BEYOND_STEPS = 10_000_000_000
_FAR_BEYOND = (
    "exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, "
    "maxProperties, and maxLength where arrays, maps, and strings are declared)"
)
_TOTAL = "estimated rule cost total for entire OpenAPIv3 schema"
_CONTRIBUTED = (
    "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
)
_REASONS = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
# The fields in the order of Go's type, with what it holds where one is not given.
_GO_FIELDS: dict[str, str | None] = {
    "rule": "",
    "message": "",
    "messageExpression": "",
    "reason": None,
    "fieldPath": "",
    "optionalOldSelf": None,
}


def rule_errors(schema: JsonObject, path: str) -> Iterator[FieldError]:
    """Check what the rules of one schema consist of."""
    for index, rule in enumerate(schema.get(RULES) or ()):
        at = f"{path}.{RULES}[{index}]"
        yield from _text_errors(rule, at)
        expression = rule.get("messageExpression", "")
        if expression and not expression.strip():
            why = "messageExpression must be non-empty if specified"
            yield required(f"{at}.messageExpression", why)
        reason = rule.get("reason")
        if reason is not None and reason not in _REASONS:
            yield unsupported(f"{at}.reason", reason, _REASONS)
        field = rule.get("fieldPath", "")
        if field and not field.strip():
            yield invalid_value(f"{at}.fieldPath", field, "must be non-empty if specified")


def _text_errors(rule: JsonObject, path: str) -> Iterator[FieldError]:
    text, message = rule.get("rule", ""), rule.get("message", "")
    if not text.strip():
        yield required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid_value(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield invalid_value(f"{path}.message", message, "must not contain line breaks")
    elif "\n" in text.strip() and not message:
        why = "message must be specified if rule contains line breaks"
        yield required(f"{path}.message", why)


def compile_errors(schema: JsonObject, path: str, *, is_root: bool = True) -> Iterator[FieldError]:
    """Find the rules of a schema, at any depth, whose text is not CEL, or not a condition."""
    inner = {
        f"{path}.properties[{name}]": part
        for name, part in (schema.get("properties") or {}).items()
    }
    inner |= {f"{path}.{field}": schema.get(field) for field in ("items", "additionalProperties")}
    for at, part in inner.items():
        if isinstance(part, dict):
            yield from compile_errors(part, at, is_root=False)
    for index, rule in enumerate(schema.get(RULES) or ()):
        for field, prefix in (("rule", ""), ("messageExpression", "messageExpression ")):
            why = _compile_error(rule.get(field, ""), schema, field, is_root=is_root)
            if why:
                shown = {
                    name[0].upper() + name[1:]: rule.get(name, default)
                    for name, default in _GO_FIELDS.items()
                }
                text = why if why in (NOT_BOOL, NOT_STRING) else f"{prefix}{why}"
                yield invalid_value(f"{path}.{RULES}[{index}].{field}", shown, text)


def _compile_error(text: str, schema: JsonObject, field: str, *, is_root: bool) -> str:
    """Return the error as upstream shows it; "" if only this parser does not know the syntax."""
    if not text.strip():
        return ""
    why = text_error(text, _VARIABLES)
    if why:
        return f"compilation failed: {why}"
    is_message = field == "messageExpression"
    return rule_type_error(text, schema, is_root=is_root, is_message=is_message)


def cost_errors(schema: JsonObject, path: str) -> Iterator[FieldError]:
    """Find the rules of a schema whose cost is far beyond the limit by any estimate."""
    costly = list(_costly_rules(schema, path, 1))
    if costly:
        yield from costly
        yield forbidden_field(path, f"x-kubernetes-validations {_TOTAL} {_FAR_BEYOND}")


def _costly_rules(schema: JsonObject, path: str, cardinality: int) -> Iterator[FieldError]:
    for name, part in (schema.get("properties") or {}).items():
        yield from _costly_rules(part, f"{path}.properties[{name}]", cardinality)
    for field in ("items", "additionalProperties"):
        part = schema.get(field)
        if isinstance(part, dict):
            count = cardinality * largest_size(schema)
            yield from _costly_rules(part, f"{path}.{field}", count)
    for index, rule in enumerate(schema.get(RULES) or ()):
        if cardinality * static_cost(rule.get("rule", ""), schema) > _FAR_BEYOND_STEPS:
            at = f"{path}.{RULES}[{index}].rule"
            yield forbidden_field(at, f"estimated rule cost {_FAR_BEYOND}")
            yield forbidden_field(at, _CONTRIBUTED)
