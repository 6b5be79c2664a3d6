"""Validation rules in CEL: `x-kubernetes-validations` of schemas.

apiextensions-apiserver/pkg/apiserver/schema/cel. The language is that of the package
`common-expression-language`, an extra of this one; without it no rule is evaluated. What Kubernetes
adds to the language is in `cel_functions`.
"""

from __future__ import annotations

import importlib
import logging
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from hotmap.core.duration import parse_duration
from hotmap.local.apiserver.custom.cel_functions import FUNCTIONS
from hotmap.local.apiserver.custom.expression_cost import Budget, exceeds_limit
from hotmap.local.field_errors import FieldError, invalid_value
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "compile_expression",
    "escaped_name",
    "evaluate",
    "has_rules",
    "rule_errors",
    "syntax_error",
]


_log = logging.getLogger(__name__)

RULES = "x-kubernetes-validations"
#: Names that an expression cannot spell are escaped (cel-go/common: reserved words of CEL).
_RESERVED = (
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function",
    "if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
)  # fmt: skip
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_REASONS = {
    "FieldValueForbidden": "Forbidden",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
}
_MISSING = object()
_BUDGET_SPENT = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


def rule_errors(obj: JsonObject, old: JsonObject | None, schema: JsonObject) -> list[FieldError]:
    """Find the rules of a schema that an object breaks; `old` is what it was before."""
    if _cel() is None:
        return []
    before = _MISSING if old is None else old
    found: list[FieldError] = []
    try:
        # What was found before stays, so the list is not made at once.
        found.extend(_errors(obj, before, schema, "", Budget()))
    except _BudgetSpentError as spent:
        found.append(spent.error)
    return found


class _BudgetSpentError(Exception):
    """The rules of a write took too long; `error` says so."""

    def __init__(self, error: FieldError) -> None:
        super().__init__()
        self.error = error


def _inner_schemas(schema: JsonObject) -> Iterator[JsonObject]:
    yield from (schema.get("properties") or {}).values()
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield schema[name]


def has_rules(schema: JsonObject) -> bool:
    """Return whether a schema has rules anywhere."""
    return RULES in schema or any(map(has_rules, _inner_schemas(schema)))


def _errors(
    value: Any, old: Any, schema: JsonObject, path: str, budget: Budget
) -> Iterator[FieldError]:
    if value is None:
        return
    for rule in schema.get(RULES) or ():
        if budget.is_spent():
            raise _BudgetSpentError(_invalid(path, schema, _BUDGET_SPENT))
        yield from _broken(rule, value, old, schema, path)
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        additional = schema.get("additionalProperties")
        for name, inner in value.items():
            inner_schema = properties.get(name, additional)
            if isinstance(inner_schema, dict):
                before = old.get(name, _MISSING) if isinstance(old, dict) else _MISSING
                at = f"{path}.{name}" if name in properties else f"{path}[{name}]"
                yield from _errors(inner, before, inner_schema, at.lstrip("."), budget)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, inner in enumerate(value):
            before = _counterpart(inner, old, schema)
            yield from _errors(inner, before, schema["items"], f"{path}[{index}]", budget)


def _counterpart(item: Any, old: Any, schema: JsonObject) -> Any:
    """Find what an item of a list was before; _MISSING if it was not there, or no keys show it."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if not keys or not isinstance(old, list) or not isinstance(item, dict):
        return _MISSING
    for before in old:
        if isinstance(before, dict) and all(before.get(key) == item.get(key) for key in keys):
            return before
    return _MISSING


def _broken(
    rule: JsonObject, value: Any, old: Any, schema: JsonObject, path: str
) -> Iterator[FieldError]:
    """Evaluate one rule; nothing if it holds or cannot be evaluated here."""
    program = compile_expression(rule["rule"])
    if program is None:
        return
    variables = {"self": _typed(value, schema)}
    if "oldSelf" in program.variables():
        if old is _MISSING or rule.get("optionalOldSelf"):
            # A rule on changes says nothing of what is new; optional values are not supported.
            return
        variables["oldSelf"] = _typed(old, schema)
    shown = (rule.get("message") or rule["rule"]).strip()
    if exceeds_limit(rule["rule"], value):
        text = "no further validation rules will be run due to call cost exceeds limit for rule"
        yield _invalid(path, schema, f"{text}: {shown}")
        return
    try:
        holds = evaluate(program, variables)
    except Exception as error:
        yield _invalid(path, schema, f"{error} evaluating rule: {shown}")
        return
    if holds is True:
        return
    at = f"{path}{rule.get('fieldPath', '')}".lstrip(".")
    detail = _message(rule, variables)
    yield _failure(rule.get("reason", ""), at, value, schema, detail)


def _failure(reason: str, path: str, value: Any, schema: JsonObject, detail: str) -> FieldError:
    if reason in _REASONS:
        return FieldError(reason, path, f"{_REASONS[reason]}: {detail}")  # type: ignore[arg-type]
    if schema.get("type") in ("object", "array"):
        return FieldError("FieldValueInvalid", path, f"Invalid value: {detail}")
    return invalid_value(path, value, detail)


def _invalid(path: str, schema: JsonObject, detail: str) -> FieldError:
    return invalid_value(path, schema.get("type", ""), detail)


def _message(rule: JsonObject, variables: JsonObject) -> str:
    program = compile_expression(rule.get("messageExpression") or "")
    if program is not None and not exceeds_limit(rule["messageExpression"], variables):
        try:
            text = evaluate(program, variables)
        except Exception as error:
            _log.debug("message expression %s: %s", rule["messageExpression"], error)
        else:
            if isinstance(text, str) and text.strip() and "\n" not in text:
                return text
    return (rule.get("message") or f"failed rule: {rule['rule'].strip()}").strip()


@cache
def _cel() -> Any:
    """Return the package, None without it; its import takes 0.1 s that only rules need."""
    try:
        return importlib.import_module("cel")
    except ImportError:  # pragma: no cover - the extra is there wherever tests run
        return None


@lru_cache(maxsize=4096)
def syntax_error(text: str) -> str:
    """Return why an expression cannot be compiled; "" if it can, or without a CEL library."""
    if _cel() is None:
        return ""
    try:
        _cel().compile(text)
    except ValueError as error:
        return str(error)
    return ""


@lru_cache(maxsize=4096)
def compile_expression(text: str) -> Any:
    """Compile an expression; None where this package cannot."""
    if _cel() is None or not text.strip():
        return None
    try:
        program = _cel().compile(text)
    except ValueError as error:
        _log.warning("a validation rule is not evaluated: %s: %s", text, str(error)[:200])
        return None
    unknown = {name for name in program.functions() if name.isidentifier()} - _known_functions()
    if unknown:
        names = ", ".join(sorted(unknown))
        _log.warning("a validation rule is not evaluated: %s: no function %s", text, names)
        return None
    return program


@lru_cache(maxsize=1)
def _known_functions() -> frozenset[str]:
    built_in = (
        "size contains startsWith endsWith matches string int uint double bytes bool type dyn has "
        "duration timestamp min max getFullYear getMonth getDate getDayOfMonth getDayOfYear "
        "getDayOfWeek getHours getMinutes getSeconds getMilliseconds all exists exists_one map "
        "filter"
    )
    return frozenset((*built_in.split(" "), *FUNCTIONS))


def evaluate(program: Any, variables: JsonObject) -> Any:
    """Evaluate a compiled expression; raises what the package raises."""
    return program.execute(_context(variables))


def _context(variables: JsonObject) -> Any:
    context = _cel().Context()
    for name, function in FUNCTIONS.items():
        context.add_function(name, function)
    for name, value in variables.items():
        context.add_variable(name, value)
    return context


def _typed(value: Any, schema: JsonObject) -> Any:
    """Turn JSON into values of the language, by the types and formats of a schema."""
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        additional = schema.get("additionalProperties")
        other = additional if isinstance(additional, dict) else {}
        return {
            (escaped_name(name) if name in properties else name): _typed(
                inner, properties.get(name, other)
            )
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_typed(inner, schema.get("items") or {}) for inner in value]
    match schema.get("type"), schema.get("format"):
        case "number", _ if isinstance(value, int):
            return float(value)
        case "string", "duration":
            return timedelta(seconds=parse_duration(value))
        case "string", "date-time":
            return datetime.fromisoformat(value)
    return value


def escaped_name(name: str) -> str:
    """Return how expressions spell a field."""
    if name in _RESERVED:
        return f"__{name}__"
    for text, escape in _ESCAPES:
        name = name.replace(text, escape)
    return name
