"""Reloader's annotations are read into the same Policy."""

from __future__ import annotations

import pytest
from tests.support.objects import ENV, deployment

from hotmap.core.objects import ObjectKey
from hotmap.core.policy import Policy, followed_uses, read_policy

AUTO = "reloader.stakater.com/auto"
CONFIG_MAPS = "configmap.reloader.stakater.com/reload"
SECRETS = "secret.reloader.stakater.com/reload"


def follows(policy: Policy, name: str, kind: str = "ConfigMap") -> bool:
    """Tell whether a source that is not referenced is followed."""
    return policy.follows(ObjectKey(kind, "shop", name), referenced=False)


@pytest.mark.parametrize("place", ["annotations", "template_annotations"])
def test_auto(place: str) -> None:
    """`auto` follows what is referenced, on the consumer or its pod template."""
    policy = read_policy(deployment(ENV, **{place: {AUTO: "true"}}))
    assert (policy.opted_in, policy.auto, policy.problems) == (True, True, ())
    suffix = " on the pod template" if place == "template_annotations" else ""
    assert policy.origin == f"{AUTO}: true{suffix}"


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_what_go_reads_as_true(text: str) -> None:
    """Booleans are what Go's strconv.ParseBool accepts."""
    assert read_policy(deployment(annotations={AUTO: text})).auto


@pytest.mark.parametrize(("text", "problems"), [("false", 0), ("0", 0), ("yes", 1)])
def test_what_is_not_true(text: str, problems: int) -> None:
    """Anything else is false, and said so when it is no boolean."""
    policy = read_policy(deployment(annotations={AUTO: text}))
    assert (policy.opted_in, len(policy.problems)) == (False, problems)
    for problem in policy.problems:
        assert problem.message == f"annotation {AUTO}: 'yes' is no boolean; taken as false"


@pytest.mark.parametrize(
    ("text", "name", "matches"),
    [
        ("app", "app", True),
        ("app", "myapp", False),
        ("app", "app2", False),
        ("app,db", "db", True),
        (" app , db ", "app", True),
        ("app-.*", "app-1", True),
        ("a|b", "b", True),
        ("a|b", "bc", False),
        ("a|b", "ab", False),
        ("(app|db)-v[0-9]+", "db-v12", True),
        ("a.p", "axp", True),
        ("", "app", False),
    ],
)
def test_names_are_anchored_expressions(text: str, name: str, matches: bool) -> None:
    """Each list item matches whole names, also with alternatives in it."""
    assert follows(read_policy(deployment(annotations={CONFIG_MAPS: text})), name) is matches


def test_each_kind_has_its_annotation() -> None:
    """One annotation names ConfigMaps, the other Secrets."""
    policy = read_policy(deployment(annotations={CONFIG_MAPS: "app", SECRETS: "db"}))
    assert [follows(policy, "app"), follows(policy, "db")] == [True, False]
    assert [follows(policy, "app", "Secret"), follows(policy, "db", "Secret")] == [False, True]
    assert policy.origin == f"{CONFIG_MAPS}: app, {SECRETS}: db"


def test_an_invalid_expression_costs_only_itself() -> None:
    """An expression that RE2 refuses is a problem; the others in the list still count."""
    policy = read_policy(deployment(annotations={CONFIG_MAPS: "app,(,db"}))
    assert [follows(policy, name) for name in ("app", "db", "x")] == [True, True, False]
    (problem,) = policy.problems
    assert problem.annotation == CONFIG_MAPS
    assert problem.message == (
        f"annotation {CONFIG_MAPS}: '(' is no regular expression (missing ): (); "
        "the others in the list still count"
    )


def test_an_item_cannot_break_out_of_its_anchors() -> None:
    """Half an expression at each end is refused, not completed by what would stand around it."""
    policy = read_policy(deployment(annotations={CONFIG_MAPS: "a)|(b"}))
    assert not follows(policy, "abc")
    assert len(policy.problems) == 1


def test_a_hostile_expression_takes_linear_time() -> None:
    """What makes a backtracking engine run for ever is matched at once."""
    policy = read_policy(deployment(annotations={CONFIG_MAPS: "(a*)*b"}))
    assert not follows(policy, "a" * 5000)


def test_our_own_word_goes_first() -> None:
    """Where hotmap.dev/follow stands, Reloader's annotations are not asked."""
    said = {AUTO: "true", "hotmap.dev/follow": "off"}
    assert not read_policy(deployment(annotations=said)).opted_in


def test_a_plain_name_is_known_before_it_exists() -> None:
    """A name without expression signs is followed although no such source is there yet."""
    who = deployment(annotations={CONFIG_MAPS: "app,db-.*"})
    uses = followed_uses(who, read_policy(who), [])
    assert [use.source.name for use in uses] == ["app"]
