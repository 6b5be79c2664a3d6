"""Text that others wrote becomes one printable line, and numbers are read without raising."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotmap.core.text import parse_number, printable, quote, quote_short, shorten


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("/etc/app", "/etc/app"),
        ("größe 日本", "größe 日本"),
        ('"C:\\new"', '"C:\\new"'),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\x00b\x7fc", "a\\x00b\\x7fc"),
        ("a\x85b\x9bc", "a\\u0085b\\u009bc"),
        ("a\u2028b\u2029c", "a\\u2028b\\u2029c"),
        ("\u202e\u202atxt\u2066\u2069", "\\u202e\\u202atxt\\u2066\\u2069"),
        ("\ufeffa\u200bb", "\\ufeffa\\u200bb"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_printable_escapes_what_could_forge_a_line(text: str, shown: str) -> None:
    """Controls, separators, overrides and format characters are escaped, other text stays."""
    assert printable(text) == shown


@given(st.text(st.characters(exclude_categories=()), max_size=80))
def test_printable_returns_one_line_that_can_be_encoded(text: str) -> None:
    """Whatever the text holds, also lone surrogates."""
    shown = printable(text)
    assert shown.isprintable()
    shown.encode()
    assert printable(shown) == shown


@given(st.text(max_size=300), st.integers(0, 100))
def test_shorten_keeps_at_most_so_many_characters(text: str, limit: int) -> None:
    """Of a longer text the beginning, and an ellipsis."""
    short = shorten(text, limit)
    assert short == (text if len(text) <= limit else text[:limit] + "…")


def test_quote_short_bounds_the_message() -> None:
    """A megabyte in an annotation is not repeated in the message about it."""
    assert quote_short("x" * 1_000_000) == f'"{"x" * 80}…"'
    assert quote_short('a"\n') == quote('a"\n') == '"a\\"\\n"'


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("42", 42),
        ("007", 7),
        ("9" * 19, int("9" * 19)),
        ("9" * 20, None),
        ("9" * 5000, None),
        ("", None),
        ("-1", None),
        ("+1", None),
        (" 1", None),
        ("1_0", None),
        ("²", None),
        ("٣", None),
        ("1e3", None),
    ],
)
def test_parse_number_takes_ascii_digits_only(text: str, number: int | None) -> None:
    """Other texts that int() accepts, or raises for, are refused."""
    assert parse_number(text) == number


@given(st.text())
def test_parse_number_never_raises(text: str) -> None:
    """Any text is a number or None."""
    assert parse_number(text) is None or text.isdigit()
