"""What the scalars of a YAML manifest mean to kubectl and the API server.

Both read YAML with sigs.k8s.io/yaml over go.yaml.in/yaml/v2 (resolve.go), which differs from
PyYAML: `y` and `n` are booleans, `0o400` and `1e3` are numbers, and `22:30` is a text, not a number
to the base 60.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from typing import TypeAlias

__all__ = ["MERGE_TAG", "Scalar", "read_scalar"]

#: None, a text, a boolean or a number.
Scalar: TypeAlias = bool | float | str | None

_PREFIX = "tag:yaml.org,2002:"
MERGE_TAG = f"{_PREFIX}merge"
_BINARY = f"{_PREFIX}binary"
_RESOLVED = tuple(_PREFIX + name for name in ("bool", "int", "float", "null"))

_NAMED: dict[str, bool | float | None] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
# Decimals of more digits have more than 64 bits; Python reads some thousands of digits only.
_INT = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]{0,19})")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# encoding/json writes whole numbers below this without an exponent.
_WHOLE = 1e21


def read_scalar(text: str, tag: str | None, *, plain: bool) -> Scalar:
    """Return the value of a scalar; `plain`: it is written without quotes.

    A whole number is an integer, as it is in the JSON that becomes of the manifest.

    Raises:
        ValueError: the text does not have the type that the tag says.
    """
    if tag == _BINARY:
        return _decode_binary(text)
    if tag not in _RESOLVED and (tag is not None or not plain):
        return text
    value = _resolve(text)
    if tag is not None and not _has_type(value, tag):
        wanted = "!!" + tag.removeprefix(_PREFIX)
        raise ValueError(f"yaml: cannot decode {_short_tag(value)} `{text}` as a {wanted}")
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
        return int(value)
    return value


def _resolve(text: str) -> Scalar:
    """Return what a plain scalar means."""
    if text in _NAMED:
        return _NAMED[text]
    if text[0] not in "+-.0123456789":
        return text
    plain = text if text[0] == "." else text.replace("_", "")
    if _INT.fullmatch(plain) and -(1 << 63) <= (whole := _integer(plain)) < 1 << 64:
        return whole
    if _FLOAT.fullmatch(plain) and math.isfinite(number := float(plain)):
        return number
    return text


def _integer(text: str) -> int:
    digits = text.lstrip("+-")
    is_octal = digits[0] == "0" and digits[1:].isdecimal()
    number = int(digits, 8 if is_octal else 0)
    return -number if text[0] == "-" else number


def _has_type(value: object, tag: str) -> bool:
    found = _short_tag(value)
    wanted = "!!" + tag.removeprefix(_PREFIX)
    return found == wanted or (found, wanted) == ("!!int", "!!float")


def _short_tag(value: object) -> str:
    if value is None:
        return "!!null"
    names = {bool: "!!bool", int: "!!int", float: "!!float"}
    return names.get(type(value), "!!str")


def _decode_binary(text: str) -> str:
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode(errors="replace")
    except binascii.Error:
        raise ValueError("yaml: !!binary value contains invalid base64 data") from None
