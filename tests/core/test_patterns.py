"""Lists of source names are matched in linear time, within bounds, whatever stands in them."""

from __future__ import annotations

import time
from collections.abc import Callable
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.objects import ENV, deployment

from hotmap.core.model import patterns
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.patterns import (
    MAX_ITEMS,
    NO_SOURCES,
    SourcePatterns,
    glob_patterns,
    merge_patterns,
    name_patterns,
)
from hotmap.core.policy.annotations import read_policy
from hotmap.core.policy.policy import Policy, followed_uses
from hotmap.core.reloader.annotations import EXCLUDES, Names

NAMES = Names()
#: As many ConfigMaps as a large namespace has.
SOURCES = [ObjectKey("ConfigMap", "shop", f"team-{i % 20}-config-{i}") for i in range(2_000)]


def config_map(name: str) -> ObjectKey:
    return ObjectKey("ConfigMap", "shop", name)


@given(
    st.text(st.sampled_from("ab1-.*?[]!"), min_size=1, max_size=12),
    st.text(st.sampled_from("ab1-."), max_size=8),
)
def test_globs_match_as_fnmatch_does(glob: str, name: str) -> None:
    """Every glob that the list takes, with classes; those that are refused match no name."""
    try:
        found = glob_patterns(f"cm/{glob}").covers(config_map(name))
    except ValueError:
        found = False
    assert found is fnmatchcase(name, glob)


@pytest.mark.parametrize("glob", ["[", "app-[ab", "a!b", "]", "*]", "[]"])
def test_globs_that_can_match_no_name_are_refused(glob: str) -> None:
    with pytest.raises(ValueError, match="expected a name of lowercase letters"):
        glob_patterns(f"cm/{glob}")


@pytest.mark.parametrize("glob", ["app-[ab]", "app-[!ab]*", "[]a]", "app-?"])
def test_globs_with_closed_brackets_are_read(glob: str) -> None:
    assert glob_patterns(f"cm/{glob}")


@given(st.text(max_size=200))
def test_glob_lists_are_read_or_refused(text: str) -> None:
    """Any text is a list, or a ValueError that names the item on one line."""
    try:
        found = glob_patterns(text)
    except ValueError as error:
        assert str(error).isprintable()
    else:
        found.covers(config_map("app"))


@given(st.lists(st.text(max_size=40), max_size=5))
def test_expressions_are_matched_or_refused(items: list[str]) -> None:
    """Any texts are expressions, or told; what is told is in the list."""
    found, refused = name_patterns("ConfigMap", items)
    found.covers(config_map("app"))
    assert {item for item, _ in refused} <= set(items)


@pytest.mark.parametrize(
    ("items", "name", "covered"),
    [
        ([r"\Qa.b", r"c.*"], "a.b", True),
        ([r"\Qa.b", r"c.*"], "cd", True),
        (["(?P<n>a.)", "(?P<n>b.)"], "bx", True),
        (["(?i)A.*", "b.*"], "ab", True),
        (["(?i)a.*", "B.*"], "bb", False),
        (["a|b", "c.+"], "cx", True),
        (["a|b", "c.+"], "bc", False),
    ],
)
def test_expressions_do_not_influence_one_another(
    items: list[str], name: str, covered: bool
) -> None:
    """Combined they match what each matches by itself: quotes, flags and groups end with it."""
    assert name_patterns("ConfigMap", items)[0].covers(config_map(name)) is covered


def test_merged_patterns_cover_what_any_of_them_covers() -> None:
    """Kinds, names and expressions of both."""
    globs = glob_patterns("cm/a*, cm/exact")
    both = merge_patterns(NO_SOURCES, globs, SourcePatterns(kinds=frozenset(("Secret",))))
    for source in (config_map("ab"), config_map("exact"), ObjectKey("Secret", "shop", "x")):
        assert both.covers(source)
    assert not both.covers(config_map("b"))
    assert not NO_SOURCES
    assert merge_patterns() == NO_SOURCES


HOSTILE = [
    pytest.param("hotmap.dev/follow", ",".join(f"cm/a*{i}" for i in range(31_258)), id="globs"),
    pytest.param("hotmap.dev/follow", ",".join(["cm/a*b"] * 600), id="short globs"),
    pytest.param("hotmap.dev/follow", "cm/" + "*a" * 2_000, id="stars"),
    pytest.param("hotmap.dev/follow", "cm/" + "[a-z]" * 199, id="classes"),
    pytest.param("hotmap.dev/exclude", "x" * 250_000, id="one long item"),
    pytest.param(
        NAMES.config_map,
        ",".join(r"\pL{900}" + chr(97 + i % 26) * (1 + i // 26) for i in range(300)),
        id="letter classes",
    ),
    pytest.param(
        NAMES.config_map,
        ",".join(rf"(((a?){{9}}){{10}}){{{i}}}" for i in range(1, 300)),
        id="nested",
    ),
    pytest.param(NAMES.config_map, ",".join(f"(a*)*b{i}" for i in range(300)), id="backtracking"),
    pytest.param(NAMES.config_map, "|".join(f"a.*b{i}" for i in range(500)), id="alternatives"),
    pytest.param(NAMES.config_map, ",".join(["("] * 2_000), id="invalid ones"),
    pytest.param(NAMES.config_map, "(" * 4_000, id="brackets"),
    pytest.param(EXCLUDES["ConfigMap"], ",".join(f"n{i}" for i in range(30_000)), id="excludes"),
    pytest.param(NAMES.auto, "t" * 256_000, id="a long boolean"),
    pytest.param("hotmap.dev/settle", "1s" * 128_000, id="a long duration"),
    pytest.param("hotmap.dev/agent", "port=1;" * 30_000, id="a long agent"),
]


def measured(consumer: Consumer, note: Callable[[str, object], None]) -> tuple[Policy, int]:
    """Read a policy and match 2,000 names; note the costs, return how many patterns compile."""
    patterns.check_expression.cache_clear()
    patterns._matcher.cache_clear()
    start = time.process_time()
    policy = read_policy(consumer)
    read = time.process_time() - start
    followed_uses(consumer, policy, SOURCES)
    matched = time.process_time() - start - read
    compiled = patterns.check_expression.cache_info().currsize
    note("costs", f"read {read * 1e3:.1f} ms, matched {matched * 1e3:.1f} ms")
    return policy, compiled


@pytest.mark.parametrize(("annotation", "value"), HOSTILE)
def test_hostile_annotations_compile_few_patterns(
    annotation: str, value: str, record_property: Callable[[str, object], None]
) -> None:
    """At most 64 of a list, in one combined expression; problems are few and short."""
    said = {"hotmap.dev/follow": "cm/app-*", annotation: value}
    if annotation.startswith("configmap."):
        del said["hotmap.dev/follow"]
    policy, compiled = measured(deployment(ENV, annotations=said), record_property)
    assert compiled <= MAX_ITEMS + 1
    assert patterns._matcher.cache_info().currsize <= 1
    sizes = [
        patterns.check_expression(text).size
        for _, texts in (*policy.named.expressions, *policy.excluded.expressions)
        for text in texts
    ]
    assert sum(sizes) <= 1_000
    assert len(policy.problems) <= 4
    assert all(len(problem.message) < 400 for problem in policy.problems)
    assert all(problem.message.isprintable() for problem in policy.problems)
    assert len(policy.origin) < 400


def test_largest_list_is_matched_by_one_expression(
    record_property: Callable[[str, object], None],
) -> None:
    """64 globs, as long as 4 KiB allows."""
    globs = ",".join(f"cm/team-{i}-[a-z]*" for i in range(MAX_ITEMS))
    policy, compiled = measured(
        deployment(ENV, annotations={"hotmap.dev/follow": globs}), record_property
    )
    assert policy.problems == ()
    assert policy.follows(config_map("team-63-config"), referenced=False)
    assert not policy.follows(config_map("team-64-config"), referenced=False)
    assert (compiled, patterns._matcher.cache_info().currsize) == (MAX_ITEMS, 1)


def test_large_program_is_given_up_while_it_is_compiled() -> None:
    """RE2 ends at its memory bound: an item of nine characters may become megabytes."""
    patterns.check_expression.cache_clear()
    assert patterns.check_expression(r"\pL{900}x").reason == "pattern too large - compile failed"
    assert patterns.check_expression("a{300}").reason == "pattern too large"


def test_failures_are_not_compiled_again() -> None:
    """The same annotation on another workload costs nothing."""
    patterns.check_expression.cache_clear()
    said = {NAMES.config_map: r"\pL{900}x"}
    for _ in range(3):
        (problem,) = read_policy(deployment(ENV, annotations=said)).problems
        assert "pattern too large" in problem.message
    assert patterns.check_expression.cache_info().misses == 1


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (
            "hotmap.dev/follow",
            ",".join(["cm/a"] * 65),
            "the list has 65 items (limit 64); treating as off",
        ),
        (
            "hotmap.dev/follow",
            "cm/" + "a" * 5_000,
            "the value is longer than 4,096 characters; treating as off",
        ),
        ("hotmap.dev/follow", "cm/" + "?" * 300, "the patterns are too complex; treating as off"),
        (
            "hotmap.dev/exclude",
            ",".join(["cm/a"] * 65),
            "the list has 65 items (limit 64); treating as every source",
        ),
        (
            NAMES.config_map,
            ",".join(["a"] * 65),
            "the list has 65 items (limit 64); ignoring the items beyond",
        ),
        (
            EXCLUDES["ConfigMap"],
            ",".join(["a"] * 65),
            "the list has 65 items (limit 64); excluding every ConfigMap",
        ),
    ],
)
def test_list_beyond_its_bounds_is_reported(annotation: str, value: str, message: str) -> None:
    """One sentence with the bound and what is done instead."""
    (problem,) = read_policy(deployment(ENV, annotations={annotation: value})).problems
    assert problem.message == f"annotation {annotation}: {message}"


def test_list_of_excludes_beyond_its_bounds_excludes_everything() -> None:
    """Whichever source was meant, it causes no rollout."""
    said = {NAMES.auto: "true", EXCLUDES["ConfigMap"]: ",".join(f"n{i}" for i in range(65))}
    policy = read_policy(deployment(ENV, annotations=said))
    assert not policy.follows(config_map("other"), referenced=True)
    assert policy.follows(ObjectKey("Secret", "shop", "db"), referenced=True)
