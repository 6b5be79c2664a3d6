"""Resource quantities such as 250m, 1Gi or 1e3 (apimachinery/pkg/api/resource)."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal

__all__ = [
    "canonical_quantity",
    "format_quantity",
    "is_binary",
    "parse_quantity",
    "quantity_or_zero",
]

_QUANTITY = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([KMGTPE]i)|[eE]([+-]?\d+)|([numkMGTPE]))?", re.ASCII
)
_BINARY = {f"{unit}i": 1024**power for power, unit in enumerate("KMGTPE", 1)}
_UNITS = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_DECIMAL = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal("1e3"),
    "M": Decimal("1e6"), "G": Decimal("1e9"), "T": Decimal("1e12"), "P": Decimal("1e15"),
    "E": Decimal("1e18"),
}  # fmt: skip


#: A larger exponent counts as this one: no resource has so much, and writing it takes long.
_LARGEST_EXPONENT = 999


def parse_quantity(text: str) -> Decimal:
    """Read a quantity, exactly.

    Raises:
        ValueError: it is none.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" is not a resource quantity')
    number, binary, exponent, decimal = match.groups()
    amount = Decimal(number)
    if binary:
        return amount * Decimal(_BINARY[binary])
    if decimal:
        return amount * _DECIMAL[decimal]
    if exponent:
        return amount.scaleb(max(-_LARGEST_EXPONENT, min(int(exponent), _LARGEST_EXPONENT)))
    return amount


def quantity_or_zero(text: object) -> Decimal:
    """Read a quantity; zero for an invalid one, which other checks report."""
    try:
        return parse_quantity(str(text))
    except ValueError:
        return Decimal(0)


def canonical_quantity(text: str) -> str:
    """Write a quantity as Go does once it has read it; the notation is kept (quantity.go).

    Raises:
        ValueError: it is none.
    """
    amount = parse_quantity(text)
    if text[-1].isdigit() and "e" in text.lower():
        nanos, power = _shortened(amount)
        return f"{nanos}e{power}" if power else str(nanos)
    return format_quantity(amount, binary=is_binary(text))


def is_binary(text: str) -> bool:
    """Return whether a quantity has a binary unit."""
    return text.endswith("i")


def format_quantity(amount: Decimal, *, binary: bool) -> str:
    """Write a quantity in its canonical form: no fraction, the largest unit that allows it."""
    if binary and amount == amount.to_integral_value() and abs(amount) >= 1024:
        whole, unit = int(amount), ""
        for name in _BINARY:
            if whole % 1024:
                break
            whole, unit = whole // 1024, name
        return f"{whole}{unit}"
    number, power = _shortened(amount, largest=18)
    return f"{number}{_UNITS[power // 3 + 3]}"


def _shortened(amount: Decimal, *, largest: int = 999) -> tuple[int, int]:
    """Split an amount into a whole number and a power of ten, a multiple of three up to a bound."""
    if not amount:
        return 0, 0
    number, power = int((amount * 10**9).to_integral_value(ROUND_CEILING)), -9
    while number % 1000 == 0 and power < largest:
        number, power = number // 1000, power + 3
    return number, power
