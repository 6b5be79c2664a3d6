"""Functions that Kubernetes adds to CEL (apiserver/pkg/cel/library), as far as rules use them.

A method's receiver is its first argument. Quantities are maps with their value, as the language has
no types of its own for them; URLs, addresses and networks can be checked but not taken apart.
"""

from __future__ import annotations

from decimal import Decimal
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import re2

from hotmap.local.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["FUNCTIONS"]

_Quantity = dict[str, str]
# apiserver: MaxRequestBodyBytes
_MAX_LENGTH = 3 << 20


def _quantity(text: str) -> _Quantity:
    return {"quantity": str(parse_quantity(text))}


def _holds(check: Callable[[str], object]) -> Callable[[str], bool]:
    def function(text: str) -> bool:
        try:
            check(text)
        except ValueError:
            return False
        return True

    return function


def _number(quantity: _Quantity) -> Decimal:
    return Decimal(quantity["quantity"])


def _compare(left: _Quantity, right: _Quantity) -> int:
    return (_number(left) > _number(right)) - (_number(left) < _number(right))


def _url(text: str) -> None:
    parts = urlsplit(text)
    if not parts.scheme and not text.startswith("/"):
        raise ValueError


def _find(text: str, pattern: str) -> str:
    match = re2.search(pattern, text)
    return str(match.group(0)) if match else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match.group(0) for match in re2.finditer(pattern, text)]
    return found if limit < 0 else found[:limit]


def _index_of(value: Any, wanted: Any, start: int = 0) -> int:
    if isinstance(value, str):
        return value.find(wanted, start)
    return value.index(wanted) if wanted in value else -1


def _last_index_of(value: Any, wanted: Any) -> int:
    if isinstance(value, str):
        return value.rfind(wanted)
    return max((i for i, item in enumerate(value) if item == wanted), default=-1)


def _bounded(length: int) -> None:
    """Refuse a text that is longer than any that is stored.

    Raises:
        ValueError: it is.
    """
    if length > _MAX_LENGTH:
        raise ValueError("the result is too long")


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    found = text.count(old) if limit < 0 else min(limit, text.count(old))
    _bounded(len(text) + found * (len(new) - len(old)))
    return text.replace(old, new, limit)


def _join(items: list[str], separator: str = "") -> str:
    _bounded(sum(map(len, items)) + len(separator) * len(items))
    return separator.join(items)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if not separator:
        return list(text)
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _substring(text: str, start: int, end: int | None = None) -> str:
    if not 0 <= start <= len(text) or (end is not None and not start <= end <= len(text)):
        raise ValueError("index out of range")
    return text[start:end]


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "charAt": lambda text, index: text[index : index + 1],
    "compareTo": _compare,
    "find": _find,
    "findAll": _find_all,
    "indexOf": _index_of,
    "isCIDR": _holds(ip_network),
    "isGreaterThan": lambda left, right: _compare(left, right) > 0,
    "isIP": _holds(ip_address),
    "isLessThan": lambda left, right: _compare(left, right) < 0,
    "isQuantity": _holds(parse_quantity),
    "isSorted": lambda items: items == sorted(items),
    "isURL": _holds(_url),
    "join": _join,
    "lastIndexOf": _last_index_of,
    "lowerAscii": lambda text: text.lower(),
    "quantity": _quantity,
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "sum": sum,
    "trim": lambda text: text.strip(),
    "upperAscii": lambda text: text.upper(),
}
