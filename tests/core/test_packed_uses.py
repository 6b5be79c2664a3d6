"""A consumer's uses are kept packed, and are the same when they are read again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.references import Keys, Use, UseKind
from hotmap.core.model.uses import pack_uses

NAMES = st.text(max_size=8)
SOURCES = st.builds(ObjectKey, st.sampled_from(["ConfigMap", "Secret"]), NAMES, NAMES)
KEYS = st.builds(
    Keys, st.none() | st.frozensets(NAMES, max_size=4), st.frozensets(NAMES), st.booleans()
)
USES = st.builds(
    Use, SOURCES, st.sampled_from(UseKind), KEYS, NAMES, st.booleans(), st.booleans(), NAMES
)


@given(st.lists(USES, max_size=6))
def test_packed_uses_are_unpacked(uses: list[Use]) -> None:
    """Every use comes back as it was, in its order, as often as it is read."""
    packed = pack_uses(uses)
    assert list(packed) == uses
    assert list(packed) == uses
    assert bool(packed) == bool(uses)


@given(st.lists(USES, max_size=6))
def test_sources_of_uses_are_named(uses: list[Use]) -> None:
    """The sources are those of the uses, each once."""
    assert pack_uses(uses).sources() == {use.source for use in uses}


@given(st.lists(NAMES, max_size=8, unique=True))
def test_equal_uses_are_equal_whatever_the_order_of_their_sets(names: list[str]) -> None:
    """Sets that were filled in another order walk in another order, and are the same set."""
    source = ObjectKey("Secret", "shop", "db")

    def packed(order: list[str]) -> object:
        return pack_uses(
            [Use(source, UseKind.LIVE, Keys(frozenset(order), frozenset(order)), "at")]
        )

    assert packed(names) == packed(names[::-1])


@given(USES, USES)
def test_other_uses_are_not_equal(first: Use, other: Use) -> None:
    """A difference anywhere makes a difference."""
    assert (pack_uses([first]) == pack_uses([other])) == (first == other)
