"""A consumer's uses are found when they are read, kept packed, and the same each time."""

from __future__ import annotations

from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.objects import deployment, template

from hotmap.core.model.limits import LimitExceeded
from hotmap.core.model.objects import ObjectKey, PodTemplate
from hotmap.core.model.references import Keys, Use, UseKind
from hotmap.core.model.template_uses import find_uses
from hotmap.core.model.uses import pack_uses, uses_of_template
from hotmap.core.policy.annotations import read_policy

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


SPEC = """
    containers: [{name: web, envFrom: [{configMapRef: {name: app}}]}]
    volumes: [{name: unmounted, secret: {secretName: db}}]
"""
APP, DB = ObjectKey("ConfigMap", "shop", "app"), ObjectKey("Secret", "shop", "db")


@pytest.mark.parametrize("compress", [False, True])
def test_uses_are_found_once_and_not_before_they_are_read(
    compress: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Naming the sources does not find them; comparing with an equal pod spec does not either."""
    calls = []

    def count_calls(template: PodTemplate, namespace: str) -> tuple[Use, ...]:
        calls.append(template)
        return find_uses(template, namespace)

    monkeypatch.setattr("hotmap.core.model.uses.find_uses", count_calls)
    uses = uses_of_template(template(SPEC), "shop", compress=compress)
    assert uses == uses_of_template(template(SPEC), "shop", compress=compress)
    assert uses.source_hashes() == {hash(APP), hash(DB)}
    assert not calls
    assert (uses.sources(), len(list(uses)), bool(uses)) == ({APP}, 1, True)
    assert len(calls) == 1
    assert uses.source_hashes() == {hash(APP)}


def test_bound_of_a_small_template_is_known_when_its_uses_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has no uses then; a large one is refused at once."""
    monkeypatch.setattr("hotmap.core.model.limits.MAX_STEPS", 500)
    names = ", ".join(f"{{prefix: p{i}, configMapRef: {{name: app}}}}" for i in range(30))
    env = ", ".join(f"{{name: V{i}, value: x}}" for i in range(30))
    spec = f"containers: [{{name: web, env: [{env}], envFrom: [{names}]}}]"
    uses = uses_of_template(template(spec), "shop")
    assert uses.source_hashes() == {hash(APP)}
    assert "(limit 500)" in uses.over_budget
    assert (list(uses), uses.sources(), uses.source_hashes()) == ([], set(), set())
    with pytest.raises(LimitExceeded):
        uses_of_template(template(spec.replace("name: V", "name: " + "V" * 200)), "shop")


def test_template_that_cannot_be_read_affects_its_own_workload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Policies of all workloads are read together: it is left out like one that is too large."""

    def fail(*_: object) -> NoReturn:
        raise ZeroDivisionError("db-password-1")

    monkeypatch.setattr("hotmap.core.model.uses.find_uses", fail)
    monkeypatch.setattr("hotmap.core.model.uses.named_sources", fail)
    assert uses_of_template(template(SPEC), "shop").source_hashes() == set()
    policy = read_policy(deployment(SPEC, annotations={"hotmap.dev/follow": "auto"}))
    assert not policy.opted_in
    assert policy.origin == (
        "not tracked: it has a pod spec that cannot be read (ZeroDivisionError)"
    )
