"""Derives the types of a CEL expression, as far as that needs no type checker.

The package parses and evaluates, but does not check types. Undeclared names are found in
the parsed expression. What an expression gives is seen by evaluating it for a sample that a schema
describes: all fields are there, so one that is missing does not exist. Where samples cannot decide,
as in maps, nothing is said: an expression that Kubernetes takes is never refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.custom.rules import (
    compile_expression,
    escaped_name,
    evaluate,
    syntax_error,
)
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["NOT_BOOL", "NOT_STRING", "constant_type", "rule_type_error", "text_error"]


NOT_BOOL = "cel expression must evaluate to a bool"
NOT_STRING = "messageExpression must evaluate to a string"
_STRING = re.compile(r"""r?("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
_LOOP_VARIABLES = re.compile(r"\.\w+\(\s*([A-Za-z_]\w*)\s*,(?:\s*([A-Za-z_]\w*)\s*,)?")
# Types are values of the language, and stand for themselves.
_TYPES = frozenset(
    (
        *("bool", "bytes", "double", "duration", "dyn", "int", "list", "map", "null", "null_type"),
        *("string", "timestamp", "type", "uint", "google", "net", "optional", "optional_type"),
    )
)
_SAMPLES: dict[str, tuple[Any, Any]] = {
    "integer": (1, 0),
    "number": (1.0, 0.0),
    "boolean": (True, False),
    "string": ("a", "b"),
}
_NAMES = {bool: "bool", int: "int", float: "double", str: "string", bytes: "bytes", list: "list"}


def text_error(text: str, declared: Collection[str]) -> str:
    """Return why an expression cannot be compiled, as upstream does; "" if nothing is known."""
    why = syntax_error(text)
    if "Syntax error: " in why:
        return re.sub(r"^\| ", " | ", why[why.index("ERROR: ") :], flags=re.MULTILINE)
    program = compile_expression(text)
    if program is None:
        return ""
    loops = {name for found in _LOOP_VARIABLES.findall(text) for name in found if name}
    unknown = set(program.variables()) - set(declared) - loops - _TYPES
    bare = _blanked(text)
    found = []
    for name in unknown:
        place = re.search(rf"(?<![\w.]){re.escape(name)}\b", bare)
        if place is None:
            continue
        message = f"undeclared reference to '{name}' (in container '')"
        found.append((place.start(), _at(text, place.start(), message)))
    return "\n".join(message for _, message in sorted(found))


def constant_type(text: str) -> str:
    """Name the type of an expression without variables; "" where it has some, or no value."""
    program = compile_expression(text)
    if program is None or program.variables():
        return ""
    try:
        value = evaluate(program, {})
    except Exception:
        return ""
    return _NAMES.get(type(value), "")


def rule_type_error(
    text: str, schema: JsonObject, *, is_root: bool, is_message: bool = False
) -> str:
    """Return the type error of a schema's rule; "" if none is known.

    A rule is a condition, its message a text.
    """
    wanted, complaint = (str, NOT_STRING) if is_message else (bool, NOT_BOOL)
    program = compile_expression(text)
    if program is None:
        return ""
    for which in (0, 1):
        sample = _sample(schema, which)
        if is_root and isinstance(sample, dict):
            meta = {"name": "a", "generateName": "a", "labels": {}, "annotations": {}}
            sample = {"apiVersion": "a", "kind": "a", "metadata": meta, **sample}
        try:
            value = evaluate(program, {"self": sample, "oldSelf": sample})
        except KeyError as error:
            name = str(error.args[0]) if error.args else ""
            missing = _undefined_field(text, name) if _is_closed(schema) else ""
            if missing:
                return missing
        except Exception:
            continue
        else:
            if type(value) in _NAMES and not isinstance(value, wanted):
                return complaint
    return ""


def _undefined_field(text: str, name: str) -> str:
    bare = _blanked(text)
    # A map that the expression itself writes may lack the key as well.
    place = None if "{" in bare else re.search(rf"\.{re.escape(name)}\b(?!\s*\()", bare)
    if place is None:
        return ""
    message = f"undefined field '{name}'"
    return f"compilation failed: {_at(text, place.start(), message)}"


def _at(text: str, place: int, message: str) -> str:
    """Point at a place of a text as cel-go does."""
    line, begin = text.count("\n", 0, place), text.rfind("\n", 0, place) + 1
    shown, column = text.split("\n")[line], place - begin
    return f"ERROR: <input>:{line + 1}:{column + 1}: {message}\n | {shown}\n | {'.' * column}^"


def _blanked(text: str) -> str:
    """Replace quoted texts by others of the same length."""
    return _STRING.sub(lambda found: "\0" * len(found[0]), text)


def _inner(schema: JsonObject) -> Iterator[JsonObject]:
    yield from (schema.get("properties") or {}).values()
    if isinstance(schema.get("items"), dict):
        yield schema["items"]


def _is_closed(schema: JsonObject) -> bool:
    """Return whether a schema says which fields objects have, at any depth."""
    if schema.get("additionalProperties") or schema.get("x-kubernetes-int-or-string"):
        return False
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return False
    if schema.get("x-kubernetes-embedded-resource"):
        return False
    return all(map(_is_closed, _inner(schema)))


def _sample(schema: JsonObject, which: int) -> Any:
    """Make a value of a schema that has all its fields."""
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties") or {}
        return {escaped_name(name): _sample(part, which) for name, part in properties.items()}
    if kind == "array":
        return [_sample(schema.get("items") or {}, which)]
    values = schema.get("enum")
    if values:
        return values[which % len(values)]
    if kind == "string" and schema.get("format"):
        # What such a text looks like is not known here; its type in the language may be another.
        return None
    return _SAMPLES.get(str(kind), (None, None))[which]
