"""A source becomes files in a volume as the kubelet makes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotmap.core.errors import InvalidPayload
from hotmap.core.payload import (
    Item,
    Payload,
    PayloadFile,
    configmap_payload,
    downward_map,
    merge_payloads,
    secret_payload,
)

DATA = {"a": "1", "b": "2"}
BINARY = {"logo": b"\x89PNG\xff", "b": b"\x00"}


def text(payload: Payload) -> dict[str, str]:
    """Show a payload as a table shows it: `mode content` by path."""
    return {path: f"{file.mode:o} {file.data.decode('latin-1')}" for path, file in payload.items()}


@pytest.mark.parametrize(
    ("items", "default_mode", "expected"),
    [
        pytest.param(None, 0o644, {"a": "644 1", "b": "644 2"}, id="no items: every data key"),
        pytest.param([], 0o644, {"a": "644 1", "b": "644 2"}, id="empty items: every data key"),
        pytest.param(None, 0o400, {"a": "400 1", "b": "400 2"}, id="defaultMode is every mode"),
        pytest.param([Item("a", "a")], 0o644, {"a": "644 1"}, id="items: only those"),
        pytest.param([Item("a", "x/y/z")], 0o644, {"x/y/z": "644 1"}, id="a path may be nested"),
        pytest.param(
            [Item("a", "x", 0o600), Item("b", "y")],
            0o444,
            {"x": "600 1", "y": "444 2"},
            id="an item's mode goes over defaultMode",
        ),
        pytest.param(
            [Item("a", "x", 0)], 0o644, {"x": "0 1"}, id="mode 0 is a mode, not an absence"
        ),
        pytest.param(
            [Item("a", "x"), Item("a", "y")],
            0o644,
            {"x": "644 1", "y": "644 1"},
            id="one key twice",
        ),
        pytest.param(
            [Item("a", "x", 0o600), Item("b", "x")], 0o644, {"x": "644 2"}, id="one path: last wins"
        ),
    ],
)
def test_data_keys_become_files(
    items: list[Item] | None, default_mode: int, expected: dict[str, str]
) -> None:
    """ConfigMap and Secret project the same files from the same entries."""
    as_configmap = configmap_payload("app", DATA, {}, items=items, default_mode=default_mode)
    as_bytes = {key: value.encode() for key, value in DATA.items()}
    as_secret = secret_payload("app", as_bytes, items=items, default_mode=default_mode)
    assert text(as_configmap) == expected
    assert as_secret == as_configmap


def test_binary_data_is_projected_after_data() -> None:
    """Without items a key in both maps has the bytes of binaryData, which is written second."""
    payload = configmap_payload("app", DATA, BINARY)
    assert {path: file.data for path, file in payload.items()} == {
        "a": b"1",
        "b": b"\x00",
        "logo": b"\x89PNG\xff",
    }


def test_items_look_in_data_before_binary_data() -> None:
    """With items a key in both maps has the text of data, which is looked up first."""
    payload = configmap_payload("app", DATA, BINARY, items=[Item("b", "x"), Item("logo", "y")])
    assert {path: file.data for path, file in payload.items()} == {"x": b"2", "y": b"\x89PNG\xff"}


def test_text_is_utf8_and_nothing_is_added() -> None:
    """A value is written byte for byte: no newline, no byte-order mark, no conversion."""
    payload = configmap_payload("app", {"k": "grüß\r\n\0"}, {})
    assert payload == {"k": PayloadFile(b"gr\xc3\xbc\xc3\x9f\r\n\0", 0o644)}


def test_missing_configmap_key_is_refused() -> None:
    """A listed key that a ConfigMap lacks fails the volume in Kubernetes' words."""
    items = [Item("a", "a"), Item("nope", "x")]
    with pytest.raises(InvalidPayload) as raised:
        configmap_payload("app", DATA, {}, items=items)
    assert str(raised.value) == "configmap references non-existent config key: nope"
    assert raised.value.__notes__ == ['ConfigMap "app"']


def test_missing_secret_key_is_refused() -> None:
    """A listed key that a Secret lacks fails the volume in Kubernetes' words."""
    with pytest.raises(InvalidPayload) as raised:
        secret_payload("db", {"user": b"u"}, items=[Item("nope", "x")])
    assert str(raised.value) == "references non-existent secret key: nope"
    assert raised.value.__notes__ == ['Secret "db"']


def test_optional_source_skips_missing_keys() -> None:
    """An optional source projects what is there and says nothing of what is not."""
    items = [Item("a", "x"), Item("nope", "y")]
    assert text(configmap_payload("app", DATA, {}, items=items, optional=True)) == {"x": "644 1"}
    assert secret_payload("db", {}, items=items, optional=True) == {}


def test_empty_source_is_an_empty_volume() -> None:
    """A source without entries projects no file, which is not an error."""
    assert configmap_payload("app", {}, {}) == {}
    assert secret_payload("db", {}) == {}


def test_later_projected_source_wins() -> None:
    """On one path the later source of a projected volume has the last word."""
    first = configmap_payload("one", {"a": "1", "b": "1"}, {})
    second = secret_payload("two", {"b": b"2"}, default_mode=0o400)
    assert text(merge_payloads([first, second])) == {"a": "644 1", "b": "400 2"}
    assert text(merge_payloads([second, first])) == {"a": "644 1", "b": "644 1"}
    assert merge_payloads([]) == {}


PAYLOADS = st.dictionaries(
    st.text("abc/", min_size=1, max_size=3), st.builds(PayloadFile, st.binary(), st.just(0o644))
)


@given(PAYLOADS, PAYLOADS, PAYLOADS)
def test_merging_is_associative(first: Payload, two: Payload, three: Payload) -> None:
    """Sources may be merged in any grouping; only their order counts."""
    assert merge_payloads([first, two, three]) == merge_payloads(
        [merge_payloads([first, two]), three]
    )
    assert merge_payloads([first, two, three]) == first | two | three


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ("plain", '"plain"'),
        ("", '""'),
        ('say "hi"', r'"say \"hi\""'),
        ("back\\slash", r'"back\\slash"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\0\x1f\x7f", r'"\x00\x1f\x7f"'),
        ("it's", '"it\'s"'),
        ("grüß 世界 😀", '"grüß 世界 😀"'),
        ("\x80\xa0\xad", r'"\u0080\u00a0\u00ad"'),
        ("\u200b\u2028\ufeff", r'"\u200b\u2028\ufeff"'),
        ("\U000e0001", r'"\U000e0001"'),
        ("\ufffd", '"\ufffd"'),
    ],
)
def test_downward_values_are_quoted_as_go_does(value: str, quoted: str) -> None:
    """Values look as Go's %q prints them: letters stay, what cannot be seen is escaped."""
    assert downward_map({"k": value}) == f"k={quoted}"


def test_downward_map_is_sorted_lines_without_a_last_newline() -> None:
    """A map prints one line per key, in key order, and ends without a newline."""
    assert downward_map({"tier": "web", "app": "shop", "a.b/c": "1"}) == (
        'a.b/c="1"\napp="shop"\ntier="web"'
    )
    assert downward_map({}) == ""


@given(st.dictionaries(st.text("abcxyz./-", min_size=1), st.text()))
def test_downward_api_lines_have_one_value_each(values: dict[str, str]) -> None:
    """No value can break out of its line, so there are as many lines as keys."""
    printed = downward_map(values)
    assert len(printed.splitlines()) == len(values)
    assert all(line.endswith('"') for line in printed.splitlines())
