"""The validation rules that a definition's schemas have, before they are used.

apiextensions-apiserver/pkg/apis/apiextensions/validation: what a rule consists of, and its syntax.
Its types and its cost are not checked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.custom.rules import RULES, syntax_error
from hotmap.local.field_errors import FieldError, invalid_value, required, unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator

JsonObject = dict[str, Any]

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


def compile_errors(schema: JsonObject, path: str) -> Iterator[FieldError]:
    """Find the rules of a schema, at any depth, whose text is not CEL."""
    inner = {
        f"{path}.properties[{name}]": part
        for name, part in (schema.get("properties") or {}).items()
    }
    inner |= {f"{path}.{field}": schema.get(field) for field in ("items", "additionalProperties")}
    for at, part in inner.items():
        if isinstance(part, dict):
            yield from compile_errors(part, at)
    for index, rule in enumerate(schema.get(RULES) or ()):
        for field, prefix in (("rule", ""), ("messageExpression", "messageExpression ")):
            why = _syntax_error(rule.get(field, ""))
            if why:
                shown = {
                    name[0].upper() + name[1:]: rule.get(name, default)
                    for name, default in _GO_FIELDS.items()
                }
                text = f"{prefix}compilation failed: {why}"
                yield invalid_value(f"{path}.{RULES}[{index}].{field}", shown, text)


def _syntax_error(text: str) -> str:
    """Return what is wrong, as upstream shows it; what only this parser does not know is not."""
    why = syntax_error(text) if text else ""
    if "Syntax error: " not in why:
        return ""
    return re.sub(r"^\| ", " | ", why[why.index("ERROR: ") :], flags=re.MULTILINE)
