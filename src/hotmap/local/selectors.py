"""Label and field selectors: parsing and matching.

The label grammar is that of apimachinery/pkg/labels/selector.go; fields know only `=`, `==`
and `!=` (apimachinery/pkg/fields/selector.go).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hotmap.core.errors import BadRequest
from hotmap.core.text import quote
from hotmap.local.names import label_value_errors, qualified_name_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotmap.local.scheme import Kind
    from hotmap.local.strategy import FieldPath

# Values of labels are not longer.
_INTEGER, _INT64 = re.compile("[-+]?[0-9]{1,63}"), 1 << 63

Operator = Literal["in", "notin", "exists", "!", "gt", "lt"]


class Requirement(NamedTuple):
    """One condition on one label; `values` is empty for existence."""

    label: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a set of labels meets the condition."""
        value = labels.get(self.label)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "in":
                return value in self.values
            case "notin":
                return value is None or value not in self.values
        return _compares(value, self.operator, next(iter(self.values)))


def _compares(value: str | None, operator: str, bound: str) -> bool:
    if value is None or not _is_int64(value):
        return False
    return int(value) > int(bound) if operator == "gt" else int(value) < int(bound)


def _is_int64(text: str) -> bool:
    """Return whether Go's strconv.ParseInt reads a label's value."""
    return _INTEGER.fullmatch(text) is not None and -_INT64 <= int(text) < _INT64


class FieldRequirement(NamedTuple):
    """One condition on one field, given by its path in the object."""

    path: FieldPath
    value: str
    equal: bool

    def matches(self, obj: Mapping[str, Any]) -> bool:
        """Whether an object meets the condition; an absent field reads as empty."""
        return (field_text(obj, self.path) == self.value) is self.equal


class Selector(NamedTuple):
    """The selectors of a list or a watch; empty selects everything."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()

    def matches(self, obj: Mapping[str, Any]) -> bool:
        """Whether an object is selected."""
        if self.labels:
            labels = obj["metadata"].get("labels") or {}
            if not all(requirement.matches(labels) for requirement in self.labels):
                return False
        return all(requirement.matches(obj) for requirement in self.fields)

    def field_value(self, path: FieldPath) -> str | None:
        """The one value that a field must have, if the selector says so."""
        return next((r.value for r in self.fields if r.path == path and r.equal), None)


EVERYTHING = Selector()


# Selectable fields that are false where they are absent (pkg/registry/core/node/strategy.go).
_FLAGS = frozenset({("spec", "unschedulable")})
#: What counts where a field is absent (core/v1/conversion.go: field labels of Event).
_FALLBACKS: Mapping[FieldPath, FieldPath] = {
    ("source", "component"): ("reportingComponent",),
    ("deprecatedSource", "component"): ("reportingController",),
}


def field_text(obj: Mapping[str, Any], path: FieldPath) -> str:
    """Read a field as field selectors see it: text, "" where it is absent."""
    value: Any = obj
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    if value is None and path in _FALLBACKS:
        return field_text(obj, _FALLBACKS[path])
    if value is None:
        return "false" if path in _FLAGS else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def parse_selector(kind: Kind, label_selector: str, field_selector: str) -> Selector:
    """Parse the two query parameters of a list or a watch.

    Raises:
        BadRequest: the grammar is broken, or the kind does not know the field.
    """
    if not label_selector and not field_selector:
        return EVERYTHING
    return Selector(parse_labels(label_selector), parse_fields(kind, field_selector))


_TOKEN = re.compile(r"==|!=|[=!(),<>]|[^\s,()=!<>]+")
_PUNCTUATION = ("=", "==", "!=", "!", "(", ")", ",", "<", ">")


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Parse a label selector such as `app=web,tier in (a, b),!old`.

    Raises:
        BadRequest: the text does not follow the grammar.
    """
    tokens = _tokens(text)
    requirements: list[Requirement] = []
    while tokens:
        if tokens[0] in _PUNCTUATION and tokens[0] != "!":
            if requirements:
                raise BadRequest(f"found '{tokens[0]}', expected: identifier after ','")
            text = f"found '{tokens[0]}', expected: !, identifier, or 'end of string'"
            raise BadRequest(text)
        requirements.append(_requirement(tokens))
        if not tokens:
            break
        if tokens[0] != ",":
            raise BadRequest(f"found '{tokens[0]}', expected: ',' or 'end of string'")
        tokens.pop(0)
        if not tokens:
            raise BadRequest("found '', expected: identifier after ','")
    return tuple(requirements)


def _tokens(text: str) -> list[str]:
    return [token for token in _TOKEN.findall(text) if token]


def _requirement(tokens: list[str]) -> Requirement:
    absent = tokens[0] == "!"
    if absent:
        tokens.pop(0)
    label = _label(tokens)
    if absent or not tokens or tokens[0] == ",":
        return Requirement(label, "!" if absent else "exists")
    operator = tokens.pop(0)
    if operator in ("=", "==", "!="):
        values = frozenset([_value(label, _exact_value(tokens))])
        return Requirement(label, "notin" if operator == "!=" else "in", values)
    if operator in ("in", "notin"):
        return Requirement(label, "in" if operator == "in" else "notin", _values(label, tokens))
    if operator in ("<", ">"):
        bound = _exact_value(tokens)
        errors = _bound_errors(label, bound)
        if errors:
            raise _unparsable(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
        return Requirement(label, "gt" if operator == ">" else "lt", frozenset([bound]))
    raise _unparsable(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")


def _label(tokens: list[str]) -> str:
    label = tokens.pop(0) if tokens else ""
    if not label or label in _PUNCTUATION:
        raise _unparsable(f"found '{label}', expected: identifier")
    if errors := qualified_name_errors(label):
        # Upstream prints no path here either.
        raise _unparsable(f"<nil>: Invalid value: {quote(label)}: {'; '.join(errors)}")
    return label


def _exact_value(tokens: list[str]) -> str:
    """Take the value behind an operator; `a=` selects the empty one."""
    value = "" if not tokens or tokens[0] == "," else tokens.pop(0)
    if value in _PUNCTUATION:
        raise _unparsable(f"found '{value}', expected: identifier")
    return value


def _bound_errors(label: str, bound: str) -> list[str]:
    """Check the value of `<` or `>`, which a label could have, as a label and as a number."""
    errors = []
    if not _is_int64(bound):
        text = "for 'Gt', 'Lt' operators, the value must be an integer"
        errors.append(f"values[0]: Invalid value: {quote(bound)}: {text}")
    return [*errors, *_value_errors(label, bound, 0)]


def _value(label: str, value: str, index: int = 0) -> str:
    for error in _value_errors(label, value, index):
        raise _unparsable(error)
    return value


def _value_errors(label: str, value: str, index: int) -> list[str]:
    errors = label_value_errors(value)
    if not errors:
        return []
    return [f"values[{index}][{label}]: Invalid value: {quote(value)}: {'; '.join(errors)}"]


def _values(label: str, tokens: list[str]) -> frozenset[str]:
    opening = tokens.pop(0) if tokens else ""
    if opening != "(":
        raise _unparsable(f"found '{opening}' expected: '('")
    if not tokens or (tokens[0] in _PUNCTUATION and tokens[0] not in (",", ")")):
        raise _unparsable(
            f"found '{tokens[0] if tokens else ''}', expected: ',', ')' or identifier"
        )
    values: list[str] = []
    current = ""
    while tokens:
        token = tokens.pop(0)
        if token in (",", ")"):
            values.append(_value(label, current, len(values)))
            current = ""
            if token == ")":
                return frozenset(values)
        elif current:
            raise _unparsable(f"found '{token}', expected: ',' or ')'")
        else:
            current = token
    raise _unparsable("found '', expected: ',' or ')'")


def _unparsable(why: str) -> BadRequest:
    return BadRequest(f"unable to parse requirement: {why}")


def parse_fields(kind: Kind, text: str) -> tuple[FieldRequirement, ...]:
    """Parse a field selector such as `metadata.name=web,status.phase!=Failed`.

    Raises:
        BadRequest: the text does not follow the grammar, or the kind has no such field.
    """
    known: dict[str, FieldPath] = {"metadata.name": ("metadata", "name")}
    if kind.namespaced:
        known["metadata.namespace"] = ("metadata", "namespace")
    known.update(kind.strategy.selectable_fields)
    requirements: list[FieldRequirement] = []
    for term in _field_terms(text):
        match = re.match(r"([^=!]*)(!=|==|=)(.*)\Z", term, re.DOTALL)
        if match is None:
            raise BadRequest(f"invalid selector: '{text}'; can't understand '{term}'")
        label, operator, value = match.groups()
        if label not in known:
            raise BadRequest(_unknown_field(kind, label, known))
        escape = re.search(r"(?<!\\)(?:\\\\)*(\\(?:[^\\,=]|\Z))", value)
        if escape is not None:
            raise BadRequest(f"invalid field selector: invalid escape sequence: {escape[1]}")
        if re.search(r"(?<!\\)(?:\\\\)*=", value):
            raise BadRequest(f"invalid field selector: unescaped character in value: {ord('=')}")
        requirements.append(
            FieldRequirement(known[label], re.sub(r"\\(.)", r"\1", value), operator != "!=")
        )
    return tuple(requirements)


def _field_terms(text: str) -> list[str]:
    return [term for term in re.split(r"(?<!\\),", text) if term]


def _unknown_field(kind: Kind, label: str, known: Mapping[str, FieldPath]) -> str:
    if kind.strategy.selectable_fields or not kind.strategy.typed:
        return f"field label not supported: {label}"
    names = ", ".join(f'"{name}"' for name in known)
    return f'"{label}" is not a known field selector: only {names}'


def matches_label_selector(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether labels meet a LabelSelector object (`matchLabels` and `matchExpressions`).

    An empty selector meets everything (apimachinery: LabelSelectorAsSelector).
    """
    return all(r.matches(labels) for r in label_selector_requirements(selector))


_OPERATORS: Mapping[str, Operator] = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
}


def label_selector_requirements(selector: Mapping[str, Any]) -> Sequence[Requirement]:
    """Turn a LabelSelector object into requirements, in the order of its fields."""
    requirements = [
        Requirement(label, "in", frozenset([value]))
        for label, value in (selector.get("matchLabels") or {}).items()
    ]
    requirements.extend(
        Requirement(
            expression["key"],
            _OPERATORS[expression["operator"]],
            frozenset(expression.get("values") or ()),
        )
        for expression in selector.get("matchExpressions") or ()
    )
    return requirements
