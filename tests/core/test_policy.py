"""What annotations, the Namespace and flags permit, and what happens to what cannot be read."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.objects import ENV, consumer, cron_job, deployment

from hotmap.core.model.annotations import ANNOTATIONS, IGNORE, MAX_ROLLOUTS
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.patterns import SourcePatterns
from hotmap.core.model.references import EVERY_KEY, Use, UseKind
from hotmap.core.policy.annotations import namespace_problems, read_policy, source_ignored
from hotmap.core.policy.policy import (
    Agent,
    Defaults,
    OnChange,
    Policy,
    Strategy,
    followed_uses,
)


def policy(annotations: dict[str, str] | None = None, **options: Any) -> Policy:
    """Read the policy of a Deployment with annotations of hotmap.dev, named without the domain."""
    annotations = {f"hotmap.dev/{name}": value for name, value in (annotations or {}).items()}
    return read_policy(deployment(annotations=annotations), **options)


def source(text: str) -> ObjectKey:
    """Read `configmap/app` as an object key."""
    kind, _, name = text.partition("/")
    return ObjectKey({"configmap": "ConfigMap", "secret": "Secret"}[kind], "shop", name)


# -- opting in --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "template", "namespace", "flag", "opted_in", "origin"),
    [
        pytest.param(
            None,
            None,
            None,
            "off",
            False,
            "no annotation opts it in, such as hotmap.dev/follow: auto",
            id="nothing said",
        ),
        pytest.param("auto", None, None, "off", True, "hotmap.dev/follow: auto", id="on it"),
        pytest.param(
            None,
            "auto",
            None,
            "off",
            True,
            "hotmap.dev/follow: auto on the pod template",
            id="below",
        ),
        pytest.param(
            None, None, "auto", "off", True, "hotmap.dev/follow: auto on the Namespace", id="above"
        ),
        pytest.param(None, None, None, "auto", True, "the default follow=auto", id="flag"),
        pytest.param("off", "auto", "auto", "auto", False, "hotmap.dev/follow: off", id="its own"),
        pytest.param(
            None,
            "off",
            "auto",
            "auto",
            False,
            "hotmap.dev/follow: off on the pod template",
            id="its template's goes over the Namespace's",
        ),
        pytest.param(
            None,
            None,
            "off",
            "auto",
            False,
            "hotmap.dev/follow: off on the Namespace",
            id="the Namespace's goes over flags",
        ),
    ],
)
def test_opt_in_sources(
    own: str | None,
    template: str | None,
    namespace: str | None,
    flag: str,
    opted_in: bool,
    origin: str,
) -> None:
    """The consumer's word goes over its pod template's, the Namespace's and the flags'."""

    def follow_annotation(value: str | None) -> dict[str, str]:
        return {} if value is None else {"hotmap.dev/follow": value}

    who = deployment(
        annotations=follow_annotation(own), template_annotations=follow_annotation(template)
    )
    read = read_policy(
        who, namespace_annotations=follow_annotation(namespace), defaults=Defaults(follow=flag)
    )
    assert (read.opted_in, read.origin, read.problems) == (opted_in, origin, ())


@pytest.mark.parametrize(
    ("follow", "exclude", "named", "referenced", "followed"),
    [
        pytest.param("auto", "", "configmap/app", True, True, id="auto: referenced"),
        pytest.param("auto", "", "configmap/app", False, False, id="auto: not referenced"),
        pytest.param("off", "", "configmap/app", True, False, id="off"),
        pytest.param("configmap/app", "", "configmap/app", True, True, id="named, referenced"),
        pytest.param("configmap/app", "", "configmap/app", False, True, id="named only"),
        pytest.param("configmap/app", "", "configmap/other", True, False, id="another is not"),
        pytest.param("configmap/app", "", "secret/app", True, False, id="another kind is not"),
        pytest.param("secret/db-*", "", "secret/db-main", False, True, id="glob"),
        pytest.param("secret/db-*", "", "secret/mydb-main", False, False, id="glob, whole name"),
        pytest.param("cm/a, secrets/b", "", "secret/b", True, True, id="a list, short kinds"),
        pytest.param("auto", "configmap/app", "configmap/app", True, False, id="excluded"),
        pytest.param("auto", "secret/*", "configmap/app", True, True, id="another excluded"),
        pytest.param(
            "cm/app", "cm/a*", "configmap/app", True, False, id="exclude goes over follow"
        ),
    ],
)
def test_which_sources_are_followed(
    follow: str, exclude: str, named: str, referenced: bool, followed: bool
) -> None:
    """`follow` chooses sources, `exclude` takes some away."""
    read = policy({"follow": follow, "exclude": exclude})
    assert read.problems == ()
    assert read.follows(source(named), referenced=referenced) is followed


@pytest.mark.parametrize(
    ("annotation", "text", "field", "value"),
    [
        ("strategy", "auto", "strategy", Strategy.AUTO),
        ("strategy", "rollout", "strategy", Strategy.ROLLOUT),
        ("strategy", "nudge", "strategy", Strategy.NUDGE),
        ("strategy", " notify ", "strategy", Strategy.NOTIFY),
        ("rereads", "true", "rereads", True),
        ("rereads", "false", "rereads", False),
        ("rereads", "30s", "rereads", True),
        ("rereads", "30s", "rereads_within", 30.0),
        ("settle", "250ms", "settle", 0.25),
        ("settle", "0", "settle", 0.0),
        ("settle-max", "1m", "settle_max", 60.0),
        ("catch-up", "true", "catch_up", True),
        ("agent", "", "agent", Agent("none")),
        ("agent", "port=80;restart=supervised", "agent", Agent("supervised", True)),
        (
            "agent",
            "container=app;restart=supervised,container=log;restart=term",
            "agent",
            Agent("supervised", True, frozenset(("app", "log")), unnamed=0),
        ),
        ("agent", "restart=all-containers", "agent", Agent("all-containers", restarts_pod=True)),
        ("agent", "restart=none;files=restart", "agent", Agent("none", restarts_for_files=True)),
        (
            "agent",
            "port=1;restart=term,port=2;restart=supervised",
            "agent",
            Agent("term", True, unnamed=2),
        ),
        ("agent", "port=1;restart=supervised,port=2", "agent", Agent("none", True, unnamed=2)),
    ],
)
@pytest.mark.parametrize("place", ["annotations", "template_annotations"])
def test_annotations_are_read_from_workload_or_pod_template(
    annotation: str, text: str, field: str, value: object, place: str
) -> None:
    """Each annotation is read from the consumer or its pod template."""
    metadata: dict[str, Any] = {place: {f"hotmap.dev/{annotation}": text}}
    read = read_policy(deployment(**metadata))
    assert (getattr(read, field), read.problems) == (value, ())


def test_policy_without_annotations_has_the_defaults() -> None:
    """Silence means: not opted in, the least disruptive action, half a second of quiet."""
    assert policy() == Policy(
        opted_in=False,
        excluded=SourcePatterns(kinds=frozenset(("SecretProviderClass",))),
        strategy=Strategy.AUTO,
        rereads=False,
        settle=0.5,
        settle_max=5.0,
        catch_up=False,
        on_change=OnChange.REPORT,
        agent=None,
        origin="no annotation opts it in, such as hotmap.dev/follow: auto",
    )


def test_flags_set_settle_times() -> None:
    """Flags say how long to wait where annotations do not; the bound is never below the time."""
    flags = Defaults(settle=2.0, settle_max=8.0)
    assert policy(defaults=flags)[8:10] == policy({"settle": "2s", "settle-max": "8s"})[8:10]
    assert policy({"settle": "20s"}, defaults=flags).settle_max == 20.0


AGENT_ITEMS = (
    "port=1…65535, container=NAME, files=restart or restart=supervised|all-containers|term|none"
)


@pytest.mark.parametrize(
    ("annotation", "text", "field", "safe", "message"),
    [
        (
            "follow",
            "cofnigmap/app",
            "opted_in",
            False,
            'invalid item "cofnigmap/app": expected configmap/NAME, secret/NAME or spc/NAME; '
            "treating as off",
        ),
        (
            "follow",
            "configmap/App!",
            "opted_in",
            False,
            'invalid item "configmap/App!": expected a name of lowercase letters, '
            'digits, "-" and ".", or a glob with *, ? or [...]; treating as off',
        ),
        (
            "strategy",
            "rolout",
            "strategy",
            Strategy.NOTIFY,
            'invalid value "rolout": expected auto, rollout, nudge or notify; treating as notify',
        ),
        (
            "rereads",
            "yes",
            "rereads",
            False,
            'invalid value "yes": expected true, false or a time such as 30s; treating as false',
        ),
        (
            "catch-up",
            "1",
            "catch_up",
            False,
            'invalid boolean "1": expected true or false; treating as false',
        ),
        (
            "settle",
            "5",
            "settle",
            0.5,
            'invalid duration "5": expected a number with a unit, such as 500ms or 5s; '
            "treating as 0.5s",
        ),
        (
            "settle-max",
            "-1s",
            "settle_max",
            5.0,
            'invalid duration "-1s": must not be negative; treating as 5s',
        ),
        (
            "on-change",
            "now",
            "on_change",
            OnChange.REPORT,
            'invalid value "now": expected run-now, recreate or evict; treating as report only',
        ),
        (
            "on-change",
            "run-now",
            "on_change",
            OnChange.REPORT,
            "run-now only applies to a CronJob, not to a Deployment; treating as report only",
        ),
        (
            "agent",
            "port=0",
            "agent",
            None,
            f'invalid item "port=0": expected {AGENT_ITEMS}; treating as no agent',
        ),
        (
            "agent",
            "restart=now",
            "agent",
            None,
            f'invalid item "restart=now": expected {AGENT_ITEMS}; treating as no agent',
        ),
    ],
)
def test_invalid_value_is_reported_and_read_safely(
    annotation: str, text: str, field: str, safe: object, message: str
) -> None:
    """An invalid value is one problem in words, and takes the safe reading."""
    read = policy({annotation: text})
    assert getattr(read, field) == safe
    (problem,) = read.problems
    assert problem.annotation == f"hotmap.dev/{annotation}"
    assert problem.message == f"annotation hotmap.dev/{annotation}: {message}"


def test_exclude_that_cannot_be_read_excludes_everything() -> None:
    """The workload opted out; a mistake in the list does not change that."""
    read = policy({"follow": "auto", "exclude": "secret/db, app"})
    assert [problem.message for problem in read.problems] == [
        'annotation hotmap.dev/exclude: invalid item "app": expected configmap/NAME, '
        "secret/NAME or spc/NAME; treating as every source"
    ]
    assert not read.follows(source("configmap/app"), referenced=True)
    assert not read.follows(source("secret/db"), referenced=True)


def test_problem_names_its_place() -> None:
    """On the pod template; what the Namespace says is told of the Namespace, once."""
    annotations = {"hotmap.dev/follow": "nope"}
    (problem,) = read_policy(deployment(template_annotations=annotations)).problems
    assert problem.message.startswith(
        "annotation hotmap.dev/follow on the pod template: invalid value"
    )
    inheriting = read_policy(deployment(), namespace_annotations=annotations)
    assert (inheriting.opted_in, inheriting.problems) == (False, ())
    assert inheriting.origin == "hotmap.dev/follow: nope on the Namespace"
    (problem,) = namespace_problems(annotations)
    assert problem.message.startswith(
        'annotation hotmap.dev/follow: invalid value "nope": expected'
    )


@pytest.mark.parametrize(("own", "limit"), [(None, 2), ("3", 3)])
def test_flap_limit_of_the_namespace_is_the_default_of_its_workloads(
    own: str | None, limit: int
) -> None:
    annotations = {} if own is None else {"hotmap.dev/flap-limit": own}
    inherited = {"hotmap.dev/follow": "auto", "hotmap.dev/flap-limit": "2"}
    read = read_policy(deployment(annotations=annotations), namespace_annotations=inherited)
    assert read.flap_limit == limit


MOUNTED_CLASS = """
    containers: [{name: web, volumeMounts: [{name: v, mountPath: /v}]}]
    volumes:
    - name: v
      csi:
        driver: secrets-store.csi.k8s.io
        volumeAttributes: {secretProviderClass: vault}
"""


@pytest.mark.parametrize(
    ("said", "missed"),
    [
        pytest.param({"follow": "auto"}, True, id="it follows every source"),
        pytest.param({"follow": "auto", "exclude": "spc/vault"}, False, id="but this class"),
        pytest.param({"follow": "configmap/app"}, False, id="it follows another source"),
    ],
)
def test_class_that_is_used_and_not_watched_is_a_problem(
    said: dict[str, str], missed: bool
) -> None:
    annotations = {f"hotmap.dev/{name}": value for name, value in said.items()}
    problems = read_policy(deployment(MOUNTED_CLASS, annotations=annotations)).problems
    found = [each.message for each in problems if "are missed" in each.message]
    assert bool(found) is missed
    assert all("changes of SecretProviderClass shop/vault" in message for message in found)


def test_misspelled_annotation_is_seen() -> None:
    """An annotation of our domain that means nothing is a problem; our own marks are none."""
    (problem,) = policy({"folow": "auto", "revision": "k.abc", "target": "1/a/b"}).problems
    assert problem.annotation == "hotmap.dev/folow"
    assert problem.message == (
        "annotation hotmap.dev/folow is unknown; did you mean hotmap.dev/follow?"
    )


def test_annotation_like_no_other_is_answered_with_all() -> None:
    """The annotation of `hotmap stamp` is none of them."""
    (problem,) = policy({"enabled": "true", "content": "k.abc"}).problems
    assert problem.message == (
        "annotation hotmap.dev/enabled is unknown; known on the workload: "
        + ", ".join(name for name in ANNOTATIONS if name not in (IGNORE, MAX_ROLLOUTS))
    )


@pytest.mark.parametrize(
    ("kind", "text", "on_change"),
    [
        ("CronJob", "run-now", OnChange.RUN_NOW),
        ("Job", "recreate", OnChange.RECREATE),
        ("Pod", "evict", OnChange.EVICT),
        ("Pod", "", OnChange.REPORT),
    ],
)
def test_on_change_action_is_requested_by_its_own_value(
    kind: str, text: str, on_change: OnChange
) -> None:
    """An action on a kind without rollouts has to be requested by its own value."""
    annotations = {"hotmap.dev/on-change": text}
    who = (
        cron_job(annotations=annotations)
        if kind == "CronJob"
        else consumer(kind, annotations=annotations)
    )
    assert (read_policy(who).on_change, read_policy(who).problems) == (on_change, ())


@pytest.mark.parametrize(
    ("annotations", "takes"),
    [
        ({}, False),
        ({"rereads": "true"}, True),
        ({"agent": "restart=none"}, True),
        ({"strategy": "nudge"}, True),
        ({"strategy": "notify"}, False),
        ({"strategy": "rollout", "rereads": "true"}, False),
        ({"strategy": "rollout", "agent": ""}, False),
    ],
)
def test_policy_takes_live_changes(annotations: dict[str, str], takes: bool) -> None:
    """A live change needs no new pods if the files are re-read, except with strategy rollout."""
    assert policy(annotations).takes_live_changes() is takes


# -- which uses count -------------------------------------------------------------------------


def followed(annotations: dict[str, str], *existing: str) -> list[str]:
    """List `kind/name place` of the uses that count for a consumer of ConfigMap app."""
    annotations = {f"hotmap.dev/{name}": value for name, value in annotations.items()}
    who = deployment(ENV, annotations=annotations)
    uses = followed_uses(who, read_policy(who), [source(text) for text in existing])
    return [f"{use.source.kind}/{use.source.name} {use.path}" for use in uses]


@pytest.mark.parametrize(
    ("annotations", "uses"),
    [
        pytest.param({}, [], id="not opted in"),
        pytest.param({"follow": "auto"}, ["ConfigMap/app containers[web].env[LEVEL]"], id="auto"),
        pytest.param(
            {"follow": "configmap/app"}, ["ConfigMap/app containers[web].env[LEVEL]"], id="named"
        ),
        pytest.param(
            {"follow": "secret/db"}, ["Secret/db named by annotation"], id="not referenced"
        ),
        pytest.param(
            {"follow": "secret/new"}, ["Secret/new named by annotation"], id="before it exists"
        ),
        pytest.param(
            {"follow": "secret/*"},
            ["Secret/db named by annotation", "Secret/dc named by annotation"],
            id="a glob: those that exist",
        ),
        pytest.param(
            {"follow": "secret/*", "exclude": "secret/db"},
            ["Secret/dc named by annotation"],
            id="without the excluded",
        ),
        pytest.param({"follow": "auto", "exclude": "configmap/app"}, [], id="excluded"),
    ],
)
def test_uses_that_count(annotations: dict[str, str], uses: list[str]) -> None:
    """Referenced sources count by their uses, named ones as a whole."""
    assert followed(annotations, "configmap/app", "secret/db", "secret/dc") == uses


def test_named_source_is_read_in_an_unknown_way() -> None:
    """A source that is named but not referenced is a frozen use of everything, and optional."""
    who = deployment(annotations={"hotmap.dev/follow": "secret/db"})
    (use,) = followed_uses(who, read_policy(who), [])
    assert use == Use(
        source("secret/db"), UseKind.FROZEN, EVERY_KEY, "named by annotation", optional=True
    )


@pytest.mark.parametrize(
    ("annotations", "ignored"),
    [
        ({"hotmap.dev/ignore": "true"}, True),
        ({"hotmap.dev/ignore": "false"}, False),
        ({"reloader.stakater.com/ignore": "true"}, True),
        ({}, False),
        (None, False),
    ],
)
def test_source_can_be_ignored(annotations: dict[str, str] | None, ignored: bool) -> None:
    """A source says itself that it never causes an action."""
    assert source_ignored(annotations) is ignored
