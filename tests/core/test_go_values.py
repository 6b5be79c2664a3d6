"""Flags and annotations for Reloader are read as Go's libraries read them."""

from __future__ import annotations

import pytest

from hotmap.core.reloader.go_values import parse_bool, parse_duration, split_list, unquote


@pytest.mark.parametrize(
    ("text", "value"),
    [(text, True) for text in ("1", "t", "T", "TRUE", "true", "True")]
    + [(text, False) for text in ("0", "f", "F", "FALSE", "false", "False")],
)
def test_booleans(text: str, value: bool) -> None:
    """strconv.ParseBool's twelve words."""
    assert parse_bool(text) is value


@pytest.mark.parametrize("text", ["", "yes", "on", "tRUE", " true", "2"])
def test_what_is_no_boolean(text: str) -> None:
    """Everything else is refused, and named."""
    with pytest.raises(ValueError, match=f"{text!r} is no boolean"):
        parse_bool(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("+0", 0.0),
        ("-0", 0.0),
        ("5s", 5.0),
        ("30m", 1800.0),
        ("1h30m", 5400.0),
        ("1h15m30.918273645s", 4530.918273645),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("5.s", 5.0),
        ("-1.5h", -5400.0),
        ("+2m", 120.0),
        ("100ms", 0.1),
        ("12µs", 12e-6),
        ("12μs", 12e-6),
        ("12us", 12e-6),
        ("3ns", 3e-9),
        ("2m1h", 3720.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    """time.ParseDuration's syntax: signs, fractions, each unit, in any order."""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "3", "-", "s", ".", ".s", "1d", "1h 2m", "5S", "1e3s", "3000000h", "1h-2m"]
)
def test_what_is_no_duration(text: str) -> None:
    """No unit, an unknown one, nothing, or more than Go's 292 years."""
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("texts", "items"),
    [
        ((), ()),
        (("",), ()),
        (("a",), ("a",)),
        (("a,b",), ("a", "b")),
        (("a", "b,c"), ("a", "b", "c")),
        (("a, b ,",), ("a", "b")),
        (('"a,b"',), ("a", "b")),
        (("'a,b'",), ("a", "b")),
        (('a,"b,c"',), ("a", "b,c")),
        (('"a","b"',), ("a", "b")),
    ],
)
def test_lists(texts: tuple[str, ...], items: tuple[str, ...]) -> None:
    """A flag may be repeated, each time with a comma list; quotes around it are taken off."""
    assert split_list(texts) == items


def test_an_open_quote_is_refused() -> None:
    """A list that does not end is no list."""
    with pytest.raises(ValueError, match="is no comma list"):
        split_list(['a,"b'])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"true"', "true"),
        ("'true'", "true"),
        ("true", "true"),
        ('"true', '"true'),
        ('"', '"'),
        ('""', ""),
        ('"a","b"', '"a","b"'),
        ("", ""),
    ],
)
def test_quotes_that_a_manifest_left(text: str, value: str) -> None:
    """One pair around the whole is taken off; what is quoted in part stays as it is."""
    assert unquote(text) == value
