"""Durations are parsed as Go's time.ParseDuration parses them."""

from __future__ import annotations

import pytest

from hotmap.core.duration import InvalidDuration, parse_duration, parse_signed_duration

DURATIONS = [
    ("0", 0.0),
    ("0s", 0.0),
    ("+0", 0.0),
    ("-0", 0.0),
    ("5s", 5.0),
    ("30m", 1800.0),
    ("1h30m", 5400.0),
    ("1h15m30.918273645s", 4530.918273645),
    ("1.5h", 5400.0),
    (".5s", 0.5),
    ("5.s", 5.0),
    ("+2m", 120.0),
    ("100ms", 0.1),
    ("500ms", 0.5),
    ("1.5s", 1.5),
    ("2m30s", 150.0),
    ("1h", 3600.0),
    ("1h1ms", 3600.001),
    ("12µs", 12e-6),
    ("12μs", 12e-6),
    ("12us", 12e-6),
    ("3ns", 3e-9),
    ("2m1h", 3720.0),
]

NOT_DURATIONS = [
    *("", "3", "5", "-", "+", "--1s", "s", ".", ".s", "1..5s", "1.2.3s", "1d", "1h 2m", "1s "),
    *(" 1s", "5S", "1e3s", "1h-2m", "1,5s", "1s2", "inf", "nan", "٣s", "5 x", "1smh"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "seconds"), DURATIONS)
def test_duration_is_parsed_as_go_parses_it(text: str, seconds: float) -> None:
    """Fractions, each unit, several units in any order; 0 needs no unit."""
    assert parse_signed_duration(text) == pytest.approx(seconds)
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", NOT_DURATIONS)
def test_invalid_duration_is_rejected(text: str) -> None:
    """The message has the text and says what was expected."""
    message = f'invalid duration "{text}": expected a number with a unit, such as 500ms or 5s'
    for parse in (parse_duration, parse_signed_duration):
        with pytest.raises(InvalidDuration) as caught:
            parse(text)
        assert str(caught.value) == message


def test_negative_duration_is_parsed_only_where_go_programs_read_it() -> None:
    """hotmap's own durations are not negative."""
    assert parse_signed_duration("-1.5h") == -5400.0
    with pytest.raises(InvalidDuration, match=r'^invalid duration "-1s": must not be negative$'):
        parse_duration("-1s")


def test_duration_longer_than_gos_is_rejected() -> None:
    """time.Duration has 63 bits of nanoseconds."""
    with pytest.raises(InvalidDuration, match="must not exceed 292 years"):
        parse_signed_duration("3000000h")


def test_invalid_duration_with_a_newline_stays_on_one_line() -> None:
    """Text is quoted as Go quotes it."""
    with pytest.raises(InvalidDuration) as caught:
        parse_duration('5\n"s')
    assert str(caught.value).startswith(r'invalid duration "5\n\"s": ')
