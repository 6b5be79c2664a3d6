"""Resource quantities are read exactly and written canonically."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotmap.local.quantity import canonical_quantity, format_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", "0"), ("250m", "0.25"), ("1", "1"), ("1.5", "1.5"), (".5", "0.5"), ("1Ki", "1024"),
        ("1.5Gi", "1610612736"), ("1e3", "1000"), ("1E", "1000000000000000000"), ("5n", "5e-9"),
        ("-1k", "-1000"), ("1E2", "100"),
    ],
)  # fmt: skip
def test_quantity_is_read(text: str, amount: str) -> None:
    assert parse_quantity(text) == Decimal(amount)


@pytest.mark.parametrize("text", ["", "x", "1x", "1 Gi", "Gi", "1ki", "--1", "1e"])
def test_invalid_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a resource quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("amount", "binary", "text"),
    [
        ("0.25", False, "250m"), ("1000", False, "1k"), ("1500", False, "1500"), ("0", True, "0"),
        ("1024", True, "1Ki"), ("1536", True, "1536"), ("1610612736", True, "1536Mi"),
        ("0.5", True, "500m"), ("600", True, "600"),
    ],
)  # fmt: skip
def test_quantity_is_written_in_canonical_form(amount: str, binary: bool, text: str) -> None:
    assert format_quantity(Decimal(amount), binary=binary) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1000m", "1"), ("0.5", "500m"), ("1024Mi", "1Gi"), (".5Gi", "512Mi"), ("1.5Ki", "1536"),
        ("1e3", "1e3"), ("1.5e3", "1500"), ("12e1", "120"), ("1e21", "1e21"), ("1E", "1E"),
        ("1000k", "1M"), ("0Gi", "0"), ("1023Ki", "1023Ki"), ("100m", "100m"),
    ],
)  # fmt: skip
def test_quantity_keeps_its_notation(text: str, canonical: str) -> None:
    assert canonical_quantity(text) == canonical


@given(st.integers(0, 10**15), st.booleans())
def test_written_quantity_is_read_again(millis: int, binary: bool) -> None:
    amount = Decimal(millis) / 1000
    assert parse_quantity(format_quantity(amount, binary=binary)) == amount


@pytest.mark.parametrize("text", ["1e999999999999", "-1E+99999999", "1e-999999999999"])
def test_exponent_of_any_size_is_read(text: str) -> None:
    """A huge one takes no longer than another, and is not an internal error."""
    assert len(canonical_quantity(text)) < 2000
