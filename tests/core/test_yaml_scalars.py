"""Scalars of a manifest mean what they mean to kubectl (go.yaml.in/yaml/v2, resolve.go)."""

from __future__ import annotations

from typing import Any

import pytest

from hotmap.core.yaml_scalars import read_scalar


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("22:30", "22:30"),
        ("190:20:30.15", "190:20:30.15"),
        ("2024-01-01", "2024-01-01"),
        ("<<", "<<"),
        ("0o400", 256),
        ("0400", 256),
        ("1_000", 1000),
        ("1e3", 1000),
        ("256.0", 256),
        ("1.5", 1.5),
        ("0x" + "f" * 400, "0x" + "f" * 400),
        ("1e999", "1e999"),
        ("9" * 5000, "9" * 5000),
        ("18446744073709551615", 2**64 - 1),
        ("1" + "0" * 20, 10**20),
        ("y", True),
        ("off", False),
        ("", None),
    ],
)
def test_plain_scalars_are_read_as_go_does(text: str, value: Any) -> None:
    """A number that fits into none of Go's types is a text."""
    found = read_scalar(text, None, plain=True)
    assert (found, type(found)) == (value, type(value))


def test_quotes_and_tags_make_texts() -> None:
    """A tag of YAML's own types has to fit the value."""
    assert read_scalar("1", None, plain=False) == "1"
    assert [read_scalar("1", tag, plain=True) for tag in ("!", "!own")] == ["1", "1"]
    assert read_scalar("aGk=", "tag:yaml.org,2002:binary", plain=True) == "hi"
    with pytest.raises(ValueError, match=r"^yaml: cannot decode !!str `x` as a !!int$"):
        read_scalar("x", "tag:yaml.org,2002:int", plain=True)
