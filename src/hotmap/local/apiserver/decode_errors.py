"""What Go's decoders say about bodies that they cannot read.

encoding/json: scanner.go; sigs.k8s.io/yaml, whose parser is a translation of libyaml.
"""

from __future__ import annotations

import calendar
import re
from datetime import datetime, timedelta

__all__ = [
    "canonical_time",
    "json_error",
    "json_type",
    "summarize",
    "time_error",
    "unsigned_error",
    "wrong_type",
    "yaml_error",
]

_END = "unexpected end of JSON input"
_SPACE = b" \t\r\n"
# strconv.Quote
_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
}
_ESCAPES |= {"\\": r"\\"}
_LITERALS = {b"t": b"true", b"f": b"false", b"n": b"null"}
_STRING = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*')
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_STRUCT = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; '
    r'Kind string "json:\"kind,omitempty\"" }'
)
# Bytes of a body that a message shows (rest.go: transformDecodeError).
_SHOWN = 30


def summarize(body: bytes) -> str:
    """Show the beginning of a body (rest.go: summarizeData)."""
    if not body:
        return "<empty>"
    shown = body[:_SHOWN]
    text = shown.decode(errors="replace") if body.startswith(b"{") else shown.hex()
    return f"{text} ..." if len(body) > _SHOWN else text


def json_type(value: object) -> str:
    """Name the type of a decoded value as encoding/json does."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def wrong_type(value: object, wanted: str = _STRUCT) -> str:
    """Say that a body is JSON, but of another type."""
    return f"json: cannot unmarshal {json_type(value)} into Go value of type {wanted}"


def yaml_error(error: Exception) -> str:
    """Describe an error of YAML that PyYAML raised."""
    import yaml

    if not isinstance(error, yaml.MarkedYAMLError):
        return "yaml: control characters are not allowed"
    mark = error.context_mark if error.context_mark and error.context_mark.line else None
    mark = mark or error.problem_mark
    line = mark.line if mark is not None else 0
    if line and isinstance(error, yaml.scanner.ScannerError):
        line += 1
    where = f"line {line}: " if line else ""
    return f"yaml: {where}{error.problem}"


_DIGITS = re.compile("[0-9]+")
_UINT64_DIGITS, _UINT64 = 20, 1 << 64


def unsigned_error(text: str) -> str:
    """Return why a text is not an unsigned number of 64 bits (strconv.ParseUint); "" if it is."""
    why = ""
    if _DIGITS.fullmatch(text) is None:
        why = "invalid syntax"
    elif len(text.lstrip("0")) > _UINT64_DIGITS or int(text) >= _UINT64:
        why = "value out of range"
    return why and f'strconv.ParseUint: parsing "{text}": {why}'


# The parts of a time as Go's layout writes them, with their greatest values.
_TIME = (
    ("2006", r"\d{4}", 9999), ("-", "-", 0), ("01", r"\d\d", 12), ("-", "-", 0),
    ("02", r"\d\d", 99), ("T", "T", 0), ("15", r"\d\d?", 23), (":", ":", 0),
    ("04", r"\d\d", 59), (":", ":", 0), ("05", r"\d\d", 59),
)  # fmt: skip
_NAMES = {"01": "month", "15": "hour", "04": "minute", "05": "second"}
_FRACTION, _MICRO_FRACTION = re.compile(r"([.,]\d+)?"), re.compile(r"[.,]\d{6}")
_ZONE = re.compile(r"Z|[+-](\d\d):(\d\d)")


def time_error(text: str, *, micro: bool = False) -> str:
    """Return why a text is not a time of RFC 3339 (time.Parse), "" where it is one.

    A time with `micro` has exactly six digits after the second (metav1.MicroTime).
    """
    layout = f"2006-01-02T15:04:05{'.000000' if micro else ''}Z07:00"
    shown = f'parsing time "{text}"'

    def missing(at: int, name: str) -> str:
        return f'{shown} as "{layout}": cannot parse "{text[at:]}" as "{name}"'

    at = 0
    for name, pattern, greatest in _TIME:
        match = re.compile(pattern, re.ASCII).match(text, at)
        if match is None:
            return missing(at, name)
        if greatest and (int(match[0]) > greatest or (name == "01" and match[0] == "00")):
            return f"{shown}: {_NAMES[name]} out of range"
        at = match.end()
    fraction = (_MICRO_FRACTION if micro else _FRACTION).match(text, at)
    if fraction is None:
        return missing(at, ".000000")
    zone = _ZONE.match(text, fraction.end())
    if zone is None:
        return missing(fraction.end(), "Z07:00")
    for name, digits, greatest in (("hour", zone[1], 24), ("minute", zone[2], 60)):
        if int(digits or 0) > greatest:
            return f"{shown}: time zone offset {name} out of range"
    if text[zone.end() :]:
        return f'{shown}: extra text: "{text[zone.end() :]}"'
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    # Go has a year 0, which is a leap year as 2000.
    if not 1 <= day <= calendar.monthrange(year or 2000, month)[1]:
        return f"{shown}: day out of range"
    return ""


def canonical_time(text: str, *, micro: bool) -> str:
    """Write a time as Go does after it was read: in UTC, with six digits or none of a second."""
    if not text.endswith("Z"):
        text = _in_utc(text)
    if micro or len(text) == len("2006-01-02T15:04:05Z"):
        return text.replace(",", ".")
    date, _, clock = text.removesuffix("Z").partition("T")
    hour, minute, second = re.split("[.,]", clock)[0].split(":")
    return f"{date}T{hour:0>2}:{minute}:{second}Z"


def _in_utc(text: str) -> str:
    """Move a time with an offset to UTC; one that leaves the calendar stays as it is."""
    main, sign, hours, minutes = text[:-6], text[-6], text[-5:-3], text[-2:]
    clock, _, fraction = main.replace(",", ".").partition(".")
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    try:
        local = datetime.strptime(clock, "%Y-%m-%dT%H:%M:%S")
        moved = local - offset if sign == "+" else local + offset
    except (ValueError, OverflowError):
        return text
    return moved.isoformat() + (f".{fraction}" if fraction else "") + "Z"


class _SyntaxError(Exception):
    pass


def json_error(body: bytes) -> str:
    """Describe a syntax error of JSON, "" where Go finds none."""
    try:
        at = _scan(body)
    except _SyntaxError as error:
        return str(error)
    at = _skip(body, at)
    if at < len(body):
        return f"invalid character {_shown(body, at)} after top-level value"
    return ""


def _shown(body: bytes, at: int) -> str:
    char = body[at : at + 1].decode("latin-1")
    if char == "'":
        return r"'\''"
    if char == '"':
        return "'\"'"
    if char in _ESCAPES:
        return f"'{_ESCAPES[char]}'"
    if not char.isprintable():
        return f"'\\x{ord(char):02x}'" if char < "\x80" else f"'\\u{ord(char):04x}'"
    return f"'{char}'"


def _fail(body: bytes, at: int, where: str) -> _SyntaxError:
    if at >= len(body):
        return _SyntaxError(_END)
    return _SyntaxError(f"invalid character {_shown(body, at)} {where}")


def _skip(body: bytes, at: int) -> int:
    while at < len(body) and body[at] in _SPACE:
        at += 1
    return at


def _scan(body: bytes) -> int:
    """Read one value; return where it ends."""
    closing: list[bytes] = []
    at = _skip(body, 0)
    while True:
        char = body[at : at + 1]
        if char in (b"{", b"["):
            closing.append(b"}" if char == b"{" else b"]")
            at = _skip(body, at + 1)
            if body[at : at + 1] != closing[-1]:
                at = _key(body, at) if closing[-1] == b"}" else at
                continue
        else:
            at = _scalar(body, at)
            if not closing:
                return at
        at, is_next = _after_value(body, at, closing)
        if not is_next:
            return at


def _after_value(body: bytes, at: int, closing: list[bytes]) -> tuple[int, bool]:
    """Continue after a value; return whether another one begins."""
    while closing:
        at = _skip(body, at)
        char = body[at : at + 1]
        if char == closing[-1]:
            closing.pop()
            at += 1
            continue
        if char != b",":
            where = "after object key:value pair" if closing[-1] == b"}" else "after array element"
            raise _fail(body, at, where)
        at = _skip(body, at + 1)
        return (_key(body, at) if closing[-1] == b"}" else at), True
    return at, False


def _key(body: bytes, at: int) -> int:
    if body[at : at + 1] != b'"':
        raise _fail(body, at, "looking for beginning of object key string")
    at = _skip(body, _string(body, at))
    if body[at : at + 1] != b":":
        raise _fail(body, at, "after object key")
    return _skip(body, at + 1)


def _string(body: bytes, at: int) -> int:
    match = _STRING.match(body, at)
    assert match is not None
    end = match.end()
    if body[end : end + 1] == b'"':
        return end + 1
    if body[end : end + 1] == b"\\":
        if body[end + 1 : end + 2] == b"u":
            wrong = end + 2
            while wrong < end + 6 and body[wrong : wrong + 1] in b"0123456789abcdefABCDEF":
                wrong += 1
            raise _fail(body, wrong, r"in \u hexadecimal character escape")
        raise _fail(body, end + 1, "in string escape code")
    raise _fail(body, end, "in string literal")


def _scalar(body: bytes, at: int) -> int:
    char = body[at : at + 1]
    if char == b'"':
        return _string(body, at)
    literal = _LITERALS.get(char)
    if literal is not None:
        for index, wanted in enumerate(literal):
            if body[at + index : at + index + 1] != bytes((wanted,)):
                text = f"in literal {literal.decode()} (expecting '{chr(wanted)}')"
                raise _fail(body, at + index, text)
        return at + len(literal)
    match = _NUMBER.match(body, at)
    if match is None:
        if char == b"-":
            raise _fail(body, at + 1, "in numeric literal")
        raise _fail(body, at, "looking for beginning of value")
    end = match.end()
    if body[end : end + 1] == b"." and b"." not in match[0]:
        raise _fail(body, end + 1, "after decimal point in numeric literal")
    if body[end : end + 1] in (b"e", b"E"):
        raise _fail(body, end + 1, "in exponent of numeric literal")
    return end
