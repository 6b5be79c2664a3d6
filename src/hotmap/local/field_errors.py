"""Field errors: path, reason and upstream's text.

kubernetes: apimachinery/pkg/util/validation/field/errors.go.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

IMMUTABLE = "field is immutable"
NOT_NEGATIVE = "must be greater than or equal to 0"
PORT_RANGE = "must be between 1 and 65535, inclusive"


class FieldError(NamedTuple):
    """One thing wrong with one field; `text` is what upstream prints after the path."""

    reason: Literal[
        "FieldValueRequired",
        "FieldValueInvalid",
        "FieldValueNotSupported",
        "FieldValueForbidden",
        "FieldValueTooLong",
        "FieldValueDuplicate",
        "FieldValueNotFound",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    ]
    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def required(path: str, detail: str = "") -> FieldError:
    """Build the error for a missing field."""
    return FieldError("FieldValueRequired", path, _detailed("Required value", detail))


def invalid_value(path: str, value: object, detail: str) -> FieldError:
    """Build the error for an invalid value; never pass a value of a Secret."""
    return FieldError(
        "FieldValueInvalid", path, _detailed(f"Invalid value: {_shown(value)}", detail)
    )


def unsupported(path: str, value: object, supported: Iterable[str]) -> FieldError:
    """Build the error for a value that is not one of the supported ones."""
    known = ", ".join(f'"{name}"' for name in supported)
    text = f"Unsupported value: {_shown(value)}: supported values: {known}"
    return FieldError("FieldValueNotSupported", path, text)


def forbidden_field(path: str, detail: str) -> FieldError:
    """Build the error for a field that may not be set or changed."""
    return FieldError("FieldValueForbidden", path, _detailed("Forbidden", detail))


def too_long(path: str, limit: int) -> FieldError:
    """Build the error for a value of more than `limit` bytes."""
    text = f"Too long: may not be more than {limit} bytes"
    return FieldError("FieldValueTooLong", path, text)


def too_many(path: str, count: int, limit: int) -> FieldError:
    """Build the error for a list of more than `limit` items."""
    text = f"Too many: {count}: must have at most {limit} items"
    return FieldError("FieldValueTooMany", path, text)


def duplicate(path: str, value: object) -> FieldError:
    """Build the error for a value that occurs twice in a list of unique ones."""
    return FieldError("FieldValueDuplicate", path, f"Duplicate value: {_shown(value)}")


def not_found_value(path: str, value: object) -> FieldError:
    """Build the error for a reference to something that does not exist."""
    return FieldError("FieldValueNotFound", path, f"Not found: {_shown(value)}")


def _detailed(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text


# What JSON escapes otherwise than Go, which shows a text by itself as a Go string.
_ESCAPE = re.compile(r"\\(?:\\|u00([01][0-9a-f]))")
_GO_ESCAPES = {"07": r"\a", "0b": r"\v"}


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, str):
        return _ESCAPE.sub(_go_escape, text)
    # As Go writes JSON that may be part of HTML.
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def _go_escape(found: re.Match[str]) -> str:
    return _GO_ESCAPES.get(found[1], rf"\x{found[1]}") if found[1] else found[0]


def rule_errors(path: str, value: str, rule: Callable[[str], list[str]]) -> list[FieldError]:
    """Check one field by a rule that returns the reasons why a text is invalid."""
    return [invalid_value(path, value, why) for why in rule(value)]


def name_errors(
    name: str, path: str, rule: Callable[[str], list[str]], missing: str = ""
) -> list[FieldError]:
    """Check a name that must be given; `missing` says why."""
    return rule_errors(path, name, rule) if name else [required(path, missing)]


def choice_errors(
    obj: Mapping[str, Any], path: str, field: str, known: tuple[str, ...]
) -> list[FieldError]:
    """Check a field with a default that must be one of a few texts."""
    if obj[field] in known:
        return []
    return [unsupported(f"{path}.{field}", obj[field], known)]
