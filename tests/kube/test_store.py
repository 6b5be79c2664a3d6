"""The store: objects by key and by index, and listeners that hear each change once."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotmap.core.model.objects import ObjectKey
from hotmap.kube.store import Store, UnreadableObject

A = ObjectKey("ConfigMap", "default", "a")
B = ObjectKey("ConfigMap", "default", "b")
C = ObjectKey("ConfigMap", "other", "c")

Change = tuple[ObjectKey, str | None, str | None]


@pytest.fixture
def store() -> Store[str]:
    """A store of words, found by each of their letters."""
    return Store({"letter": lambda word: word})


@pytest.fixture
def record_changes(store: Store[str]) -> list[Change]:
    changes: list[Change] = []
    store.subscribe(lambda key, old, new: changes.append((key, old, new)))
    return changes


def test_listeners_get_old_and_new(store: Store[str], record_changes: list[Change]) -> None:
    """Created, changed, deleted; what is equal or unknown is not a change."""
    store.put(A, "x")
    store.put(A, "x")
    store.put(A, "y")
    store.remove(A)
    store.remove(A)
    assert record_changes == [(A, None, "x"), (A, "x", "y"), (A, "y", None)]


def test_complete_list_deletes_what_it_does_not_have(
    store: Store[str], record_changes: list[Change]
) -> None:
    """What was deleted without a watch is reported as if it had just been deleted."""
    store.put(A, "x")
    store.put(B, "y")
    record_changes.clear()
    assert not store.synced.is_set()
    store.put(C, "z")
    store.retain({B, C}, resource_version="7")
    assert sorted(record_changes) == [(A, "x", None), (C, None, "z")]
    assert store.synced.is_set()
    assert store.statistics() == (2, True, 4, "7")


def test_unreadable_object_is_left_out_until_it_can_be_read(
    store: Store[str], record_changes: list[Change]
) -> None:
    """Nothing says that it was deleted, and nothing that it is unreadable once it is not."""
    store.put(A, "x")
    store.put_unreadable(A, UnreadableObject("uid", "too large"))
    assert (store.get(A), list(store.unreadable)) == (None, [A])
    store.put(A, "y")
    assert (store.get(A), list(store.unreadable)) == ("y", [])
    store.put_unreadable(A, UnreadableObject("uid", "too large"))
    store.remove(A)
    assert (store.get(A), list(store.unreadable)) == (None, [])
    assert record_changes == [
        (A, None, "x"),
        (A, "x", None),
        (A, None, "y"),
        (A, "y", None),
    ]


def test_listeners_see_the_store_after_the_change(store: Store[str]) -> None:
    """Index and content already agree with what a listener is told."""
    seen = []
    store.subscribe(
        lambda key, old, new: seen.append(
            (store.get(key), store.by_index("letter", "default", "x"))
        )
    )
    store.put(A, "x")
    store.remove(A)
    assert seen == [("x", ["x"]), (None, [])]


@pytest.mark.internal_errors
def test_failing_listener_does_not_stop_others(
    store: Store[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Its exception is logged, and the next listener is called."""
    record_changes = []

    def fail(key: ObjectKey, old: str | None, new: str | None) -> None:
        raise LookupError

    store.subscribe(fail)
    store.subscribe(lambda key, old, new: record_changes.append(key))
    store.put(A, "x")
    assert record_changes == [A]
    assert "internal error in an event handler for ConfigMap default/a" in caplog.text


def test_unsubscribed_listener_is_not_called(store: Store[str]) -> None:
    """`subscribe` returns the way out, which may be taken twice."""
    record_changes = []
    unsubscribe = store.subscribe(lambda key, old, new: record_changes.append(key))
    unsubscribe()
    unsubscribe()
    store.put(A, "x")
    assert record_changes == []


def test_namespace_is_indexed_when_something_is_first_look_up() -> None:
    """Other namespaces are not, nor is what has the same index values as before."""
    indexed: list[str] = []

    def first(word: str) -> str:
        indexed.append(word)
        return word[:1]

    store: Store[str] = Store(
        {"first": first}, has_same_index_values=lambda old, new: old[:1] == new[:1]
    )

    def look_up(value: str) -> tuple[list[str], list[str]]:
        indexed.clear()
        found = store.by_index("first", "default", value)
        now_indexed = list(indexed)
        indexed.clear()
        return found, now_indexed

    store.put(A, "xa")
    store.put(C, "xc")
    assert indexed == []
    assert look_up("x") == (["xa"], ["xa"])
    store.put(A, "xb")
    store.put(C, "yc")
    assert indexed == []
    assert look_up("x") == (["xb"], [])
    store.put(A, "yb")
    assert indexed == ["yb"]
    assert look_up("x") == ([], [])
    assert look_up("y") == (["yb"], [])
    store.remove(A)
    assert look_up("y") == ([], [])
    store.put(A, "yb")  # the first object of a namespace, which has no index again
    assert look_up("y") == (["yb"], ["yb"])


def test_index_values_that_cannot_be_computed_change_nothing() -> None:
    """The object stays as it was, in the store and in the index."""

    def length_from_number(word: str) -> tuple[int]:
        return (int(word),)

    store: Store[str] = Store({"letter": lambda word: word, "number": length_from_number})
    store.put(A, "1")
    assert store.by_index("number", "default", 1) == ["1"]
    with pytest.raises(ValueError, match="invalid literal"):
        store.put(A, "x")
    assert store.by_index("letter", "default", "1") == ["1"]
    assert store.by_index("letter", "default", "x") == []


CHANGES = st.tuples(st.sampled_from([A, B, C]), st.none() | st.text(alphabet="xyz", max_size=3))


@given(st.lists(CHANGES), st.lists(CHANGES))
def test_index_finds_exactly_what_it_should(
    before: list[tuple[ObjectKey, str | None]], after: list[tuple[ObjectKey, str | None]]
) -> None:
    """After any changes, each value leads to the objects that have it, and to no other."""
    store: Store[str] = Store({"letter": lambda word: word})
    model: dict[ObjectKey, str] = {}
    for changes in (before, after):
        for key, word in changes:
            if word is None:
                store.remove(key)
                model.pop(key, None)
            else:
                store.put(key, word)
                model[key] = word
        assert {key: store.get(key) for key in store} == model
        assert len(store) == len(model)
        for namespace, letter in product(["default", "other"], "xyz"):
            expected = {
                key for key, word in model.items() if key.namespace == namespace and letter in word
            }
            keys = store.keys_by_index("letter", namespace, letter)
            assert (len(keys), set(keys)) == (len(expected), expected)
            words = store.by_index("letter", namespace, letter)
            assert sorted(words) == sorted(model[key] for key in expected)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.booleans())))
def test_objects_are_listed_by_namespace(changes: list[tuple[str, str, bool]]) -> None:
    """After any changes a namespace has its own objects, in the order in which they were added."""
    store: Store[str] = Store()
    model: dict[ObjectKey, str] = {}
    for namespace, name, is_added in changes:
        key = ObjectKey("ConfigMap", namespace, name)
        if is_added:
            store.put(key, name)
            model.setdefault(key, name)
        else:
            store.remove(key)
            model.pop(key, None)
    for namespace in "abc":
        expected = [key for key in model if key.namespace == namespace]
        assert store.keys(namespace) == expected
        assert store.values(namespace) == [model[key] for key in expected]
    assert sorted(store.keys()) == sorted(model)
    assert sorted(store.values()) == sorted(model.values())


def test_index_keeps_many_objects_under_one_value_in_their_order(store: Store[str]) -> None:
    """From one to many and back to none: each is found once, in the order of its coming."""
    keys = [ObjectKey("ConfigMap", "default", f"{number:02}") for number in range(20)]
    for number, key in enumerate(keys):
        store.put(key, "x")
        store.put(key, "xy")  # it stays where it is
        assert store.keys_by_index("letter", "default", "x") == keys[: number + 1]
    for key in keys[::2]:
        store.remove(key)
    assert store.keys_by_index("letter", "default", "x") == keys[1::2]
    for key in keys[1::2]:
        store.put(key, "z")
    assert store.keys_by_index("letter", "default", "x") == []
    assert store.keys_by_index("letter", "default", "z") == keys[1::2]
