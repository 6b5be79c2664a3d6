"""Fingerprints are equal exactly when a consumer gets the same content of the same object."""

from __future__ import annotations

import hmac

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.objects import KEY, config_map, secret

from hotmap.core.fingerprint import (
    ABSENT,
    MARK_LENGTH,
    SCHEME,
    FingerprintKey,
    combine,
    digest,
    fingerprint_key,
    mark,
    selection,
)
from hotmap.core.model.objects import ConfigMap, Secret
from hotmap.core.model.references import EVERY_KEY, Keys
from hotmap.core.model.source import (
    Source,
    binary_keys,
    changed_keys,
    fingerprint_of,
    missing_keys,
    parse_time,
    source_from_config_map,
    source_from_secret,
    text_keys,
)

OTHER_KEY = fingerprint_key(b"another key")

data_keys = st.text("ab1=;-._", min_size=1, max_size=4)
contents = st.dictionaries(data_keys, st.text("ab12=;", max_size=4), max_size=3)
binaries = st.dictionaries(data_keys, st.binary(max_size=3), max_size=3)
names = st.text("ab-", min_size=1, max_size=3)


def everything(item: ConfigMap | Secret, keys: Keys = EVERY_KEY) -> str:
    """Fingerprint what a set of data keys selects of a ConfigMap or Secret."""
    source = (
        source_from_config_map(item, [KEY])
        if isinstance(item, ConfigMap)
        else source_from_secret(item, [KEY])
    )
    return fingerprint_of(source, [keys], KEY)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        pytest.param(
            config_map(data={"a": "1;b=2"}),
            config_map(data={"a": "1", "b": "2"}),
            id="a separator in a value",
        ),
        pytest.param(
            config_map(data={"a": "1", "b": "2"}),
            config_map(data={"a": "2", "b": "1"}),
            id="swapped",
        ),
        pytest.param(
            config_map(data={"k": "aGk="}),
            config_map(binary={"k": b"hi"}),
            id="base64 of it as text",
        ),
        pytest.param(
            config_map(data={"k": "hi"}), config_map(binary={"k": b"hi"}), id="data and binaryData"
        ),
        pytest.param(config_map(data={"a": ""}), config_map(data={}), id="empty and absent value"),
        pytest.param(
            config_map(data={"a": ""}), config_map(data={"a": "", "b": ""}), id="one empty more"
        ),
        pytest.param(
            config_map("app", {"a": "1"}), config_map("app2", {"a": "1"}), id="another name"
        ),
        pytest.param(
            config_map(data={"a": "1"}),
            config_map(data={"a": "1"}, namespace="other"),
            id="another namespace",
        ),
        pytest.param(
            config_map("x", {"a": "1"}), secret("x", {"a": b"1"}), id="the same in a Secret"
        ),
    ],
)
def test_different_content_differs(first: ConfigMap | Secret, other: ConfigMap | Secret) -> None:
    """What a process could tell apart has another fingerprint, and so has another object."""
    assert everything(first) != everything(other)


@given(contents, binaries, contents, binaries)
def test_equal_fingerprints_mean_equal_content(
    data: dict[str, str],
    binary: dict[str, bytes],
    other_data: dict[str, str],
    other_binary: dict[str, bytes],
) -> None:
    """The encoding is injective: fingerprints are equal if and only if the content is."""
    first, other = (
        config_map(data=data, binary=binary),
        config_map(data=other_data, binary=other_binary),
    )
    same = (data, binary) == (other_data, other_binary)
    assert (everything(first) == everything(other)) is same


@given(st.tuples(names, names, names, data_keys), st.tuples(names, names, names, data_keys))
def test_marks_depend_on_their_place(
    place: tuple[str, str, str, str], other: tuple[str, str, str, str]
) -> None:
    """One value has another mark under another kind, namespace, name or data key."""

    def at(kind: str, namespace: str, name: str, data_key: str) -> bytes:
        return mark(
            KEY,
            kind=kind,
            namespace=namespace,
            name=name,
            data_key=data_key,
            binary=False,
            value=b"v",
        )

    assert (at(*place) == at(*other)) is (place == other)


@given(st.lists(st.tuples(data_keys, st.booleans(), st.binary(min_size=8, max_size=8)), max_size=4))
def test_selections_ignore_order(marks: list[tuple[str, bool, bytes]]) -> None:
    """A selection is a set of marks; nothing selected is ABSENT."""

    def select(chosen: list[tuple[str, bool, bytes]]) -> str:
        return selection(KEY, kind="ConfigMap", namespace="shop", name="app", marks=chosen)

    assert select(marks) == select(marks[::-1])
    assert (select(marks) == ABSENT) is (marks == [])


@given(
    secret_key=st.binary(min_size=1, max_size=200),
    data_key=st.text(max_size=300),
    is_binary=st.booleans(),
    value=st.binary(max_size=600),
)
def test_mark_is_an_hmac_of_its_encoding(
    secret_key: bytes, data_key: str, is_binary: bool, value: bytes
) -> None:
    """HMAC-SHA-256 of all fields, each after its length."""
    fields = [b"mark", SCHEME.encode(), b"ConfigMap", b"shop", b"app"]
    fields += [b"binaryData" if is_binary else b"data", data_key.encode(), value]
    encoding = b"".join(len(field).to_bytes(8, "big") + field for field in fields)
    expected = hmac.digest(secret_key, encoding, "sha256")[:MARK_LENGTH]
    place = {"kind": "ConfigMap", "namespace": "shop", "name": "app"}
    found = mark(
        FingerprintKey("id", secret_key), **place, data_key=data_key, binary=is_binary, value=value
    )
    assert found == expected


def test_another_key_gives_other_fingerprints() -> None:
    """Without the key no guess can be tested, and texts say which key was used."""
    source = source_from_config_map(config_map(data={"a": "1"}), [KEY, OTHER_KEY])
    under = [fingerprint_of(source, [EVERY_KEY], key) for key in (KEY, OTHER_KEY)]
    assert under[0] != under[1]
    assert KEY.id != OTHER_KEY.id
    assert len(KEY.id) == 4
    assert fingerprint_key(KEY.secret) == KEY


def test_unknown_key_is_not_an_absent_source() -> None:
    """Asking under a fingerprint key that is not held fails instead of inventing a change."""
    source = source_from_config_map(config_map(data={"a": "1"}), [KEY])
    with pytest.raises(KeyError):
        fingerprint_of(source, [EVERY_KEY], OTHER_KEY)


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        pytest.param(None, EVERY_KEY, id="no source"),
        pytest.param({}, EVERY_KEY, id="an empty source"),
        pytest.param({"b": "1"}, Keys(frozenset("a")), id="none of the used data keys"),
        pytest.param({"a": "1"}, Keys(hidden=frozenset("a")), id="only hidden ones"),
    ],
)
def test_missing_source_has_the_absent_fingerprint(data: dict[str, str] | None, keys: Keys) -> None:
    """Whatever gives a consumer nothing is one value."""
    source = None if data is None else source_from_config_map(config_map(data=data), [KEY])
    assert fingerprint_of(source, [keys], KEY) == ABSENT


def test_unused_data_keys_do_not_count() -> None:
    """A fingerprint of some data keys stays when the others change."""
    used = Keys(frozenset(("a", "b")))
    before = config_map(data={"a": "1", "c": "1"})
    after = config_map(data={"a": "1", "c": "2", "d": "3"})
    assert everything(before, used) == everything(after, used)
    assert everything(before, used) != everything(config_map(data={"a": "1", "b": ""}), used)


def test_several_uses_of_one_source_are_one_selection() -> None:
    """Overlapping uses select each data key once."""
    source = source_from_config_map(config_map(data={"a": "1", "b": "2"}), [KEY])
    split = [Keys(frozenset("a")), Keys(frozenset("a")), Keys(frozenset("b"))]
    assert fingerprint_of(source, split, KEY) == fingerprint_of(source, [EVERY_KEY], KEY)


@pytest.fixture(scope="module")
def large_source() -> Source:
    """A source with as many data keys as are read; some begin or end as others do."""
    data = {f"k{number}": str(number) for number in range(4_000)}
    binary = {f"k{number}.k": b"0" for number in range(1_000)}
    return source_from_config_map(config_map(data=data, binary=binary), [KEY])


use_keys = st.builds(
    Keys,
    st.none()
    | st.frozensets(st.sampled_from(["k0", "k1", "0", "k3999", "k7.k", "k9.k", "k1\nk10"])),
    st.frozensets(st.sampled_from(["k0", "k5", "k7.k", "other"])),
    st.booleans(),
)


@given(wanted=st.lists(use_keys, max_size=4))
@settings(max_examples=30)
def test_few_data_keys_of_a_large_source_are_selected_as_all_are(
    large_source: Source, wanted: list[Keys]
) -> None:
    """They are looked up by other means, and several uses are read as one."""
    marks = [
        mark
        for mark in large_source.marks[0]
        if any(entry.select(mark.data_key, binary=mark.binary) for entry in wanted)
    ]
    kind, namespace, name = large_source.key
    expected = selection(KEY, kind=kind, namespace=namespace, name=name, marks=marks)
    assert fingerprint_of(large_source, wanted, KEY) == expected
    for keys in wanted:
        readable = {
            mark.data_key for mark in large_source.marks[0] if keys.binary or not mark.binary
        }
        assert missing_keys(large_source, keys) == tuple(sorted((keys.names or set()) - readable))


def test_secret_is_read_decoded() -> None:
    """A Secret's value counts as the bytes that a process sees."""
    item = secret(data={"pw": b"\x00\xff"})
    place = {"kind": "Secret", "namespace": "shop", "name": "db", "data_key": "pw"}
    (((data_key, binary, value),),) = source_from_secret(item, [KEY]).marks
    assert (data_key, binary) == ("pw", False)
    assert value == mark(KEY, **place, binary=False, value=b"\x00\xff")


@given(st.lists(st.text(max_size=3), max_size=3), st.lists(st.text(max_size=3), max_size=3))
def test_combined_texts_are_distinguished(parts: list[str], others: list[str]) -> None:
    """Combining and digesting keep the borders between texts; combining is bound to a uid."""
    assert (combine(KEY, parts, uid="u") == combine(KEY, others, uid="u")) is (parts == others)
    assert (digest(parts) == digest(others)) is (parts == others)
    assert combine(KEY, parts, uid="u") != combine(KEY, parts, uid="v")


def test_reduced_source_has_no_values() -> None:
    """A reduced source tells identity, bounds and annotations, and no content."""
    said = {"hotmap.dev/ignore": "true", "team": "blue"}
    item = secret(data={"pw": b"hunter2"}, version=7, changed_at=99.9, annotations=said)
    source = source_from_secret(item, [KEY])
    assert (source.uid, source.resource_version, source.changed_at) == ("uid-1", "7", 99.0)
    assert source.annotations == {"hotmap.dev/ignore": "true"}
    assert "hunter2" not in repr(source)


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ({"a": "1"}, {"a": "1"}, set()),
        ({"a": "1"}, {"a": "2"}, {"a"}),
        ({"a": "1"}, {"a": "1", "b": ""}, {"b"}),
        ({"a": "1", "b": "2"}, {"b": "2"}, {"a"}),
        (None, {"a": "1"}, {"a"}),
        ({"a": "1"}, None, {"a"}),
        (None, None, set()),
    ],
)
def test_changed_data_keys_are_named(
    before: dict[str, str] | None, after: dict[str, str] | None, changed: set[str]
) -> None:
    """Added, removed and edited data keys are the change between two states of a source."""
    old, new = (
        None if data is None else source_from_config_map(config_map(data=data), [KEY])
        for data in (before, after)
    )
    assert changed_keys(old, new) == changed


def test_value_that_moves_to_binary_data_changed() -> None:
    """The same bytes in the other map are another value: env reads only one of them."""
    old = source_from_config_map(config_map(data={"k": "hi"}), [KEY])
    new = source_from_config_map(config_map(binary={"k": b"hi"}), [KEY])
    assert changed_keys(old, new) == {"k"}


@pytest.mark.parametrize(
    ("keys", "missing"),
    [
        (EVERY_KEY, ()),
        (Keys(frozenset(("a", "z", "y"))), ("y", "z")),
        (Keys(frozenset("b")), ()),
        (Keys(frozenset("b"), binary=False), ("b",)),
    ],
)
def test_missing_data_keys_are_named(keys: Keys, missing: tuple[str, ...]) -> None:
    """A data key that a use names is missing when it stands nowhere the use looks."""
    source = source_from_config_map(config_map(data={"a": "1"}, binary={"b": b"2"}), [KEY])
    assert missing_keys(source, keys) == missing


def test_data_keys_of_data_and_binary_data_are_distinguished() -> None:
    """Environments read those of `data` alone."""
    source = source_from_config_map(config_map(data={"a": "1"}, binary={"b": b"2"}), [KEY])
    assert (list(text_keys(source)), list(binary_keys(source))) == (["a"], ["b"])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("2026-01-02T03:04:05Z", 1767323045.0),
        ("1970-01-01T00:00:01.987654Z", 1.0),
        ("1970-01-01T00:00:01+01:00", None),
        ("yesterday", None),
        ("xxxx-01-01T00:00:01Z", None),
        ("", None),
        (None, None),
    ],
)
def test_change_times_are_bounded(text: str | None, seconds: float | None) -> None:
    """A timestamp is whole POSIX seconds; what cannot be read is unknown."""
    assert parse_time(text) == seconds


def test_last_write_bounds_the_last_change() -> None:
    """The newest managedFields time of any manager counts, but not of a subresource."""
    item = config_map(data={"a": "1"})
    entries = [
        {"manager": "kubectl", "time": "1970-01-01T00:00:05Z"},
        {"manager": "helm", "time": "1970-01-01T00:00:09Z"},
        {"manager": "status", "time": "1970-01-01T00:00:20Z", "subresource": "status"},
        {"manager": "none"},
    ]
    fields = {"metadata": {"name": "app", "managedFields": entries}}
    assert source_from_config_map(msgspec.convert(fields, ConfigMap), [KEY]).changed_at == 9.0
    unknown = config_map(data={"a": "1"}, changed_at=None)
    assert source_from_config_map(unknown, [KEY]).changed_at is None
    assert source_from_config_map(item, [KEY]).changed_at == 0.0
