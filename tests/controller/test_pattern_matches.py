"""Name patterns of one namespace do not delay others, and are matched in the end."""

from __future__ import annotations

import pytest

from hotmap.controller.watch import pattern_matches
from hotmap.controller.watch.pattern_matches import PatternMatches
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.patterns import NO_SOURCES, SourcePatterns, glob_patterns


class Clocks:
    """A namespace's time, and the processor's: each look at it costs a millisecond."""

    def __init__(self) -> None:
        self.now = 0.0
        self.used = 0.0

    def spent(self) -> float:
        self.used += 0.001
        return self.used


def sources(count: int) -> list[ObjectKey]:
    return [ObjectKey("ConfigMap", "shop", f"app-{number}") for number in range(count)]


def matches(clocks: Clocks) -> PatternMatches:
    return PatternMatches(clock=lambda: clocks.now, spent=clocks.spent)


def test_few_names_are_matched_at_once() -> None:
    """Expressions become the names that they match."""
    found = matches(Clocks()).resolve(glob_patterns("cm/app-[02], cm/x"), "shop", sources(3))
    names = {("ConfigMap", name) for name in ("app-0", "app-2", "x")}
    assert found == SourcePatterns(names=frozenset(names))


def test_many_names_are_matched_in_turns() -> None:
    """A slice may be ahead of the share; then twenty times as long as one took is waited for."""
    clocks = Clocks()
    found = matches(clocks)
    patterns = glob_patterns("cm/*")
    turns = 0
    while (resolved := found.resolve(patterns, "shop", sources(100))) is None:
        turns += 1
        assert found.wait("shop") <= 0.3
        assert found.resolve(patterns, "shop", sources(100)) is None, "it is not its turn"
        clocks.now += found.wait("shop") + 0.001
    assert turns >= 9
    assert len(resolved.names) == 100


def test_large_namespace_is_matched_in_the_end() -> None:
    """What earlier turns have found is kept, however many names there are."""
    clocks = Clocks()
    found = matches(clocks)
    patterns, many = glob_patterns("cm/*"), sources(12_000)
    for _ in range(2_000):
        if found.resolve(patterns, "shop", many) is not None:
            break
        clocks.now += found.wait("shop") + 0.001
    before = clocks.used
    assert found.resolve(patterns, "shop", many) is not None
    assert clocks.used == before, "matched again"


def test_many_short_matches_use_up_the_share() -> None:
    """Each of a thousand lists costs little; all together they get no more than one long one."""
    clocks = Clocks()
    found = matches(clocks)
    lists = [glob_patterns(f"cm/app-{number}*") for number in range(1_000)]
    source = sources(1)[0]
    for _ in range(10):
        for patterns in lists:
            found.may_cover(patterns, source)
        clocks.now += 0.1
    assert clocks.used < 0.01 + 0.01 + 0.05 * clocks.now + 0.01 * 10


def test_lists_of_one_namespace_displace_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of another namespace stays known."""
    monkeypatch.setattr(pattern_matches, "_RESULTS", 50)
    clocks = Clocks()
    found = matches(clocks)
    own, other = glob_patterns("cm/app-*"), ObjectKey("ConfigMap", "other", "app-1")
    found.resolve(own, "other", [other])
    for number in range(100):
        clocks.now += 1
        found.resolve(glob_patterns(f"cm/app-{number}*"), "shop", sources(2))
    before = clocks.used
    assert found.may_cover(own, other)
    assert clocks.used == before


def test_other_namespace_does_not_wait() -> None:
    """Each has its own share."""
    clocks = Clocks()
    found = matches(clocks)
    assert found.resolve(glob_patterns("cm/*"), "shop", sources(100)) is None
    assert found.wait("other") == 0
    own = [ObjectKey("ConfigMap", "other", "app-1")]
    assert found.resolve(glob_patterns("cm/*"), "other", own) is not None


def test_names_that_are_known_cost_nothing() -> None:
    """Only what is new is tried."""
    clocks = Clocks()
    found = matches(clocks)
    patterns = glob_patterns("cm/app-*")
    found.resolve(patterns, "shop", sources(3))
    clocks.now += 1
    before = clocks.used
    assert found.resolve(patterns, "shop", sources(3)) is not None
    assert clocks.used == before


def test_source_may_be_covered_while_it_is_not_its_turn() -> None:
    """`may_cover` may return True needlessly, but never misses a match."""
    found = matches(Clocks())
    patterns = glob_patterns("cm/none-*")
    found.resolve(glob_patterns("cm/*"), "shop", sources(100))
    assert found.may_cover(patterns, sources(1)[0])


def test_plain_names_need_no_turn() -> None:
    """A set tells."""
    found = matches(Clocks())
    found.resolve(glob_patterns("cm/*"), "shop", sources(100))
    plain = glob_patterns("cm/app-1")
    assert found.resolve(plain, "shop", sources(3)) == plain
    assert found.may_cover(plain, sources(2)[1])
    assert not found.may_cover(NO_SOURCES, sources(1)[0])
