"""Flags and annotations for Reloader are read as Go's libraries read them."""

from __future__ import annotations

import pytest

from hotmap.core.reloader.go_values import parse_bool, split_list, unquote


@pytest.mark.parametrize(
    ("text", "value"),
    [(text, True) for text in ("1", "t", "T", "TRUE", "true", "True")]
    + [(text, False) for text in ("0", "f", "F", "FALSE", "false", "False")],
)
def test_booleans_are_read_as_go_does(text: str, value: bool) -> None:
    """strconv.ParseBool's twelve words."""
    assert parse_bool(text) is value


@pytest.mark.parametrize("text", ["", "yes", "on", "tRUE", " true", "2"])
def test_invalid_boolean_is_rejected(text: str) -> None:
    """Everything else is refused, and named."""
    with pytest.raises(ValueError, match=f'^invalid boolean "{text}": expected true or false$'):
        parse_bool(text)


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
def test_repeated_list_flags_are_joined(texts: tuple[str, ...], items: tuple[str, ...]) -> None:
    """A flag may be repeated, each time with a comma list; quotes around it are taken off."""
    assert split_list(texts) == items


def test_open_quote_is_refused() -> None:
    """A list with an unclosed quote is refused."""
    with pytest.raises(ValueError, match=r'^invalid list "a,.*b": unexpected end of data$'):
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
def test_one_pair_of_outer_quotes_is_removed(text: str, value: str) -> None:
    """One pair around the whole is removed; partial quotes stay."""
    assert unquote(text) == value
