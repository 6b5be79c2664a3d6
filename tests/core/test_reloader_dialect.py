"""Reloader's annotations are read into the same Policy."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.objects import ENV, consumer, cron_job, deployment

from hotmap.core.model.objects import ObjectKey
from hotmap.core.policy.annotations import read_policy, source_ignored, source_offered
from hotmap.core.policy.policy import (
    DEFAULTS,
    Defaults,
    OnChange,
    Policy,
    Strategy,
    followed_uses,
)
from hotmap.core.reloader.annotations import DialectSettings, Names

EVERY = "ConfigMap Secret SecretProviderClass"
AUTO = "reloader.stakater.com/auto"
CONFIG_MAPS = "configmap.reloader.stakater.com/reload"
SECRETS = "secret.reloader.stakater.com/reload"
CONFIG_MAP_AUTO = "configmap.reloader.stakater.com/auto"
SECRET_AUTO = "secret.reloader.stakater.com/auto"
CLASS_AUTO = "secretproviderclass.reloader.stakater.com/auto"
SEARCH = "reloader.stakater.com/search"
EXCLUDED_CONFIG_MAPS = "configmaps.exclude.reloader.stakater.com/reload"
EXCLUDED_SECRETS = "secrets.exclude.reloader.stakater.com/reload"
PAUSE = "deployment.reloader.stakater.com/pause-period"

APP = ObjectKey("ConfigMap", "shop", "app")
DB = ObjectKey("Secret", "shop", "db")
VAULT = ObjectKey("SecretProviderClass", "shop", "vault")
EVERYTHING = Defaults(dialect=DialectSettings(auto_reload_all=True))


def follows(policy: Policy, name: str, kind: str = "ConfigMap") -> bool:
    """Return whether a source that is not referenced is followed."""
    return policy.follows(ObjectKey(kind, "shop", name), referenced=False)


@pytest.mark.parametrize("place", ["annotations", "template_annotations"])
def test_auto_selects_sources(place: str) -> None:
    """`auto` follows what is referenced, on the consumer or its pod template."""
    policy = read_policy(deployment(ENV, **{place: {AUTO: "true"}}))
    assert (policy.opted_in, policy.auto, policy.problems) == (True, frozenset(EVERY.split()), ())
    suffix = " on the pod template" if place == "template_annotations" else ""
    assert policy.origin == f"{AUTO}: true{suffix}"


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_boolean_accepts_go_spellings_of_true(text: str) -> None:
    """Booleans are what Go's strconv.ParseBool accepts."""
    assert read_policy(deployment(annotations={AUTO: text})).auto


@pytest.mark.parametrize(("text", "problems"), [("false", 0), ("0", 0), ("yes", 1)])
def test_other_booleans_are_false(text: str, problems: int) -> None:
    """Anything else is false, and said so when it is not a boolean."""
    policy = read_policy(deployment(annotations={AUTO: text}))
    assert (policy.opted_in, len(policy.problems)) == (False, problems)
    for problem in policy.problems:
        assert (
            problem.message == f'annotation {AUTO}: invalid boolean "yes": expected true or false; '
            "treating as false"
        )


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


def test_invalid_expression_costs_only_itself() -> None:
    """An expression that RE2 refuses is a problem; the other items in the list still count."""
    policy = read_policy(deployment(annotations={CONFIG_MAPS: "app,(,db"}))
    assert [follows(policy, name) for name in ("app", "db", "x")] == [True, True, False]
    (problem,) = policy.problems
    assert problem.annotation == CONFIG_MAPS
    assert problem.message == (
        f'annotation {CONFIG_MAPS}: invalid regular expression "(": missing ); '
        "the other items still count"
    )


def test_item_cannot_break_out_of_its_anchors() -> None:
    """Half an expression at each end is refused, not completed by what would stand around it."""
    policy = read_policy(deployment(annotations={CONFIG_MAPS: "a)|(b"}))
    assert not follows(policy, "abc")
    assert len(policy.problems) == 1


def test_hostile_expression_takes_linear_time() -> None:
    """What makes a backtracking engine run forever is matched at once."""
    policy = read_policy(deployment(annotations={CONFIG_MAPS: "(a*)*b"}))
    assert not follows(policy, "a" * 5000)


def test_hotmap_annotations_go_first() -> None:
    """With hotmap.dev/follow, Reloader's annotations are ignored."""
    said = {AUTO: "true", "hotmap.dev/follow": "off"}
    assert not read_policy(deployment(annotations=said)).opted_in


def test_plain_name_is_known_before_it_exists() -> None:
    """A name without expression signs is followed although no such source is there yet."""
    who = deployment(annotations={CONFIG_MAPS: "app,db-.*"})
    uses = followed_uses(who, read_policy(who), [])
    assert [use.source.name for use in uses] == ["app"]


# -- auto, for all and for one kind ------------------------------------------------------------


@pytest.mark.parametrize("everything", [False, True], ids=["", "auto-reload-all"])
@pytest.mark.parametrize(
    ("said", "plainly", "with_flag"),
    [
        pytest.param({}, "", EVERY, id="nothing"),
        pytest.param({AUTO: "true"}, EVERY, EVERY, id="auto"),
        pytest.param({AUTO: "false"}, "", "", id="not auto"),
        pytest.param({AUTO: ""}, "", EVERY, id="empty is not said"),
        pytest.param({AUTO: "yes"}, "", "", id="no boolean is false"),
        pytest.param({CONFIG_MAP_AUTO: "true"}, "ConfigMap", EVERY, id="one kind"),
        pytest.param(
            {CONFIG_MAP_AUTO: "false"}, "", "Secret SecretProviderClass", id="not one kind"
        ),
        pytest.param({AUTO: "false", SECRET_AUTO: "true"}, "Secret", "Secret", id="typed wins"),
        pytest.param({CLASS_AUTO: "true"}, "SecretProviderClass", EVERY, id="classes"),
        pytest.param(
            {AUTO: "true", SECRET_AUTO: "false"},
            EVERY,
            EVERY,
            id="either says yes",
        ),
        pytest.param({SEARCH: "true"}, "", EVERY, id="search"),
    ],
)
def test_which_kinds_are_auto(
    said: dict[str, str], plainly: str, with_flag: str, everything: bool
) -> None:
    """`auto`, or `auto` of the kind, or neither is said and a flag makes everything auto."""
    defaults = EVERYTHING if everything else DEFAULTS
    policy = read_policy(deployment(annotations=said), defaults=defaults)
    assert sorted(policy.auto) == (with_flag if everything else plainly).split()
    assert policy.follows(APP, referenced=True) is ("ConfigMap" in policy.auto)
    assert policy.follows(DB, referenced=True) is ("Secret" in policy.auto)
    assert not policy.follows(VAULT, referenced=True)
    assert not policy.follows(APP, referenced=False)


def test_namespace_annotation_overrides_auto_reload_all() -> None:
    """The flag is a default: a Namespace's own word goes over it."""
    off = {"hotmap.dev/follow": "off"}
    who = deployment(ENV)
    assert read_policy(who, defaults=EVERYTHING).origin == "the default --auto-reload-all"
    assert not read_policy(who, namespace_annotations=off, defaults=EVERYTHING).opted_in


# -- search and match -------------------------------------------------------------------------


@pytest.mark.parametrize("referenced", [True, False])
@pytest.mark.parametrize("offered", [True, False])
@pytest.mark.parametrize(("text", "searches"), [("true", True), ("True", False), ("1", False)])
def test_search_selects_sources(text: str, searches: bool, offered: bool, referenced: bool) -> None:
    """Exactly `true`; then what is referenced and says `match` is followed."""
    policy = read_policy(deployment(annotations={SEARCH: text}))
    followed = policy.follows(APP, referenced=referenced, offered=offered)
    assert followed is (searches and offered and referenced)
    assert len(policy.problems) == int(not searches)


@pytest.mark.parametrize(("text", "offered"), [("true", True), ("True", False), ("false", False)])
def test_match_selects_sources(text: str, offered: bool) -> None:
    """A source offers itself with exactly `true`."""
    assert source_offered({"reloader.stakater.com/match": text}) is offered
    assert not source_offered(None)


def test_offered_source_is_followed_only_by_consumers_that_search() -> None:
    """Another consumer follows the sources that it names."""
    named = read_policy(deployment(annotations={CONFIG_MAPS: "other"}))
    assert named.opted_in
    assert not named.follows(APP, referenced=True, offered=True)


def test_uses_that_a_search_finds() -> None:
    """Of what the template references, only the offered sources count."""
    who = deployment(ENV, annotations={SEARCH: "true"})
    policy = read_policy(who)
    assert followed_uses(who, policy, [], offered=lambda source: False) == ()
    assert followed_uses(who, policy, [], offered=lambda source: True) == tuple(who.uses)


# -- exclusion and ignoring -------------------------------------------------------------------


@pytest.mark.parametrize("place", ["annotations", "template_annotations"])
@pytest.mark.parametrize(
    ("said", "name", "kind", "excluded"),
    [
        ({EXCLUDED_CONFIG_MAPS: "app"}, "app", "ConfigMap", True),
        ({EXCLUDED_CONFIG_MAPS: "a, app ,b"}, "app", "ConfigMap", True),
        ({EXCLUDED_CONFIG_MAPS: "app"}, "app", "Secret", False),
        ({EXCLUDED_SECRETS: "app"}, "app", "Secret", True),
        ({EXCLUDED_CONFIG_MAPS: "ap.*"}, "app", "ConfigMap", False),
        ({EXCLUDED_CONFIG_MAPS: ""}, "app", "ConfigMap", False),
    ],
)
@pytest.mark.parametrize("ask", [{AUTO: "true"}, {CONFIG_MAPS: "app", SECRETS: "app"}])
def test_excluded_sources_are_not_followed(
    ask: dict[str, str], said: dict[str, str], name: str, kind: str, excluded: bool, place: str
) -> None:
    """Exact names, in either place, over everything else that is said."""
    metadata: dict[str, Any] = {"annotations": ask, place: {**ask, **said}}
    policy = read_policy(deployment(**metadata))
    assert policy.follows(ObjectKey(kind, "shop", name), referenced=True) is not excluded


def test_exclusion_applies_with_hotmaps_annotation() -> None:
    """Who follows by hotmap.dev/follow and excludes in Reloader's words means both."""
    said = {"hotmap.dev/follow": "auto", EXCLUDED_CONFIG_MAPS: "app"}
    assert not read_policy(deployment(annotations=said)).follows(APP, referenced=True)


@pytest.mark.parametrize(("text", "ignored"), [("true", True), ("True", False), ("false", False)])
def test_source_is_ignored(text: str, ignored: bool) -> None:
    """Exactly `true`, as Reloader compares it."""
    assert source_ignored({"reloader.stakater.com/ignore": text}) is ignored


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_kinds_of_sources_that_flags_ignore(kind: str) -> None:
    """Nothing of that kind is followed, referenced or named."""
    defaults = Defaults(dialect=DialectSettings(ignored_sources=frozenset((kind,))))
    said = {AUTO: "true", CONFIG_MAPS: ".*", SECRETS: ".*"}
    policy = read_policy(deployment(annotations=said), defaults=defaults)
    for source in (APP, DB):
        assert policy.follows(source, referenced=True) is (source.kind != kind)


def test_kinds_of_workloads_that_flags_ignore() -> None:
    """They are not opted in, and it is said why."""
    defaults = Defaults(dialect=DialectSettings(ignored_workloads=frozenset(("CronJob",))))
    who = cron_job(ENV, annotations={AUTO: "true"})
    policy = read_policy(who, defaults=defaults)
    assert (policy.opted_in, policy.origin) == (False, "flags ignore every CronJob")
    assert read_policy(deployment(annotations={AUTO: "true"}), defaults=defaults).opted_in


# -- the pause period -------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["annotations", "template_annotations"])
@pytest.mark.parametrize(("text", "seconds"), [("5m", 300.0), ("1h30m", 5400.0), ("0", 0.0)])
def test_pause_period_is_the_settle_time(place: str, text: str, seconds: float) -> None:
    """The rollout waits this long from the first change on, in either place."""
    metadata: dict[str, Any] = {place: {PAUSE: text}}
    policy = read_policy(deployment(**metadata))
    assert (policy.settle, policy.settle_max) == (seconds, seconds)
    assert policy.problems == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("5", 'invalid duration "5": '),
        ("", 'invalid duration "": '),
        ("soon", 'invalid duration "soon": '),
        ("-5m", 'invalid duration "-5m": must not be negative'),
    ],
)
def test_pause_period_that_cannot_be_read(text: str, complaint: str) -> None:
    """It is reported, and the ordinary settle time counts; no other workload is concerned."""
    policy = read_policy(deployment(annotations={AUTO: "true", PAUSE: text}))
    assert policy.settle == Policy().settle
    assert policy.opted_in
    (problem,) = policy.problems
    assert problem.annotation == PAUSE
    assert problem.message.startswith(f"annotation {PAUSE}: {complaint}")


def test_pause_period_is_for_deployments() -> None:
    """Other kinds do not have it, which is told."""
    policy = read_policy(consumer("StatefulSet", annotations={PAUSE: "5m"}))
    assert policy.settle == Policy().settle
    (problem,) = policy.problems
    assert problem.message == (
        f"annotation {PAUSE}: only applies to a Deployment, not to a StatefulSet; ignoring it"
    )


def test_settle_annotation_overrides_the_pause_period() -> None:
    """hotmap's word counts where both stand."""
    said = {PAUSE: "5m", "hotmap.dev/settle": "1s"}
    assert read_policy(deployment(annotations=said)).settle == 1.0


# -- other names ------------------------------------------------------------------------------


def test_renamed_annotations_are_read_under_the_new_name_only() -> None:
    """What a flag renames is read under its new name, and under no other."""
    names = Names(auto="acme.com/auto", config_map="acme.com/reload", ignore="acme.com/ignore")
    defaults = Defaults(dialect=DialectSettings(names=names))
    assert not read_policy(deployment(annotations={AUTO: "true"}), defaults=defaults).opted_in
    assert source_ignored({"acme.com/ignore": "true"}, defaults)
    assert not source_ignored({"reloader.stakater.com/ignore": "true"}, defaults)


def test_report_only_kinds() -> None:
    """Where flags allow no more than a report, no annotation asks for more."""
    said = {AUTO: "true", "hotmap.dev/strategy": "rollout"}
    defaults = Defaults(muted="--webhook-url is set")
    policy = read_policy(deployment(annotations=said), defaults=defaults)
    assert (policy.strategy, policy.muted) == (Strategy.NOTIFY, "--webhook-url is set")


@pytest.mark.parametrize(
    ("kind", "text", "restarts", "problems"),
    [
        ("Rollout", "restart", True, 0),
        ("Rollout", "rollout", False, 0),
        ("Rollout", "", False, 0),
        ("Rollout", "Restart", False, 1),
        ("Deployment", "restart", False, 1),
    ],
)
def test_argo_rollout_strategies(kind: str, text: str, restarts: bool, problems: int) -> None:
    """Of Rollouts alone, by their template or by a restart of their pods."""
    policy = read_policy(
        consumer(kind, template_annotations={"reloader.stakater.com/rollout-strategy": text})
    )
    assert (policy.restarts, len(policy.problems)) == (restarts, problems)


@pytest.mark.parametrize(
    ("kind", "said", "expected"),
    [
        ("Job", None, OnChange.RECREATE),
        ("Job", "", OnChange.REPORT),
        ("CronJob", None, OnChange.RUN_NOW),
        ("Deployment", None, OnChange.REPORT),
    ],
)
def test_kinds_without_rollout_are_acted_on_by_flag_or_annotation(
    kind: str, said: str | None, expected: OnChange
) -> None:
    """Flags may say it for Jobs and CronJobs; an annotation goes over them."""
    defaults = Defaults(on_change=frozenset((OnChange.RUN_NOW, OnChange.RECREATE)))
    annotations = {} if said is None else {"hotmap.dev/on-change": said}
    who = (
        cron_job(ENV, annotations=annotations)
        if kind == "CronJob"
        else consumer(kind, ENV, annotations=annotations)
    )
    assert read_policy(who, defaults=defaults).on_change is expected
    assert read_policy(who).on_change is OnChange.REPORT
