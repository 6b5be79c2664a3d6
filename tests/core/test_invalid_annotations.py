"""Every annotation, written wrongly: one sentence says which, what is wrong and how it is taken."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.objects import consumer

from hotmap.core.model.annotations import ANNOTATIONS, FOLLOW, IGNORE, MAX_ROLLOUTS
from hotmap.core.policy.annotations import namespace_problems, read_policy
from hotmap.core.policy.lint import source_problems
from hotmap.core.policy.policy import Defaults, Policy
from hotmap.core.reloader.annotations import EXCLUDES, ROLLOUT_STRATEGY, DialectSettings, Names

NAMES = Names()
#: Written by Reloader, never by people; what it says wrongly is over.
WRITTEN = {NAMES.paused_at}
#: Any value is valid.
FREE = {"hotmap.dev/release"}

#: (annotation, kind of consumer, value, words that follow the annotation and its place)
OF_CONSUMERS = [
    (
        "hotmap.dev/follow",
        "Deployment",
        "yes",
        ': invalid value "yes": expected auto, off or a list such as configmap/app, secret/db-*; '
        "treating as off",
    ),
    (
        "hotmap.dev/follow",
        "Deployment",
        "configmap/",
        ': invalid item "configmap/": expected a name of lowercase letters',
    ),
    (
        "hotmap.dev/follow",
        "Deployment",
        "secret/db-[ab",
        ': invalid item "secret/db-[ab": expected a name of lowercase letters',
    ),
    (
        "hotmap.dev/follow",
        "Deployment",
        "pod/x",
        ': invalid item "pod/x": expected configmap/NAME, secret/NAME or spc/NAME',
    ),
    (
        "hotmap.dev/exclude",
        "Deployment",
        "app",
        ': invalid item "app": expected configmap/NAME, secret/NAME or spc/NAME; '
        "treating as every source",
    ),
    (
        "hotmap.dev/rereads",
        "Deployment",
        "yes",
        ': invalid value "yes": expected true, false or a time such as 30s; treating as false',
    ),
    (
        "hotmap.dev/require-ready",
        "Deployment",
        "no",
        ': invalid boolean "no": expected true or false; treating as true',
    ),
    (
        "hotmap.dev/strategy",
        "Deployment",
        "restart",
        ': invalid value "restart": expected auto, rollout, nudge or notify; treating as notify',
    ),
    (
        "hotmap.dev/settle",
        "Deployment",
        "5",
        ': invalid duration "5": expected a number with a unit, such as 500ms or 5s; '
        "treating as 0.5s",
    ),
    ("hotmap.dev/settle", "Deployment", "", ': invalid duration ""'),
    (
        "hotmap.dev/settle-max",
        "Deployment",
        "-1s",
        ': invalid duration "-1s": must not be negative',
    ),
    (
        "hotmap.dev/catch-up",
        "Deployment",
        "TRUE",
        ': invalid boolean "TRUE": expected true or false; treating as false',
    ),
    (
        "hotmap.dev/on-change",
        "Job",
        "restart",
        ': invalid value "restart": expected run-now, recreate or evict; treating as report only',
    ),
    (
        "hotmap.dev/on-change",
        "Deployment",
        "evict",
        ": evict only applies to a Pod, not to a Deployment; treating as report only",
    ),
    (
        "hotmap.dev/flap-limit",
        "Deployment",
        "-1",
        ': invalid number "-1": expected 0 (no limit) to 100; treating as the default',
    ),
    (
        "hotmap.dev/suspend",
        "Deployment",
        "yes",
        ': invalid boolean "yes": expected true or false; treating as true',
    ),
    (
        "hotmap.dev/agent",
        "Deployment",
        "port=0",
        ': invalid item "port=0": expected port=1…65535, container=NAME, files=restart or ',
    ),
    (
        "hotmap.dev/agent",
        "Deployment",
        "container=",
        ': invalid item "container=": expected port=1…65535, container=NAME, files=restart or ',
    ),
    (
        "hotmap.dev/agent",
        "Deployment",
        "restart=now",
        ': invalid item "restart=now": expected port=1…65535, container=NAME, files=restart or ',
    ),
    (
        IGNORE,
        "Deployment",
        "true",
        " has no effect on a Deployment; it belongs on a ConfigMap or Secret",
    ),
    (
        NAMES.auto,
        "Deployment",
        "yes",
        ': invalid boolean "yes": expected true or false; treating as false',
    ),
    (
        NAMES.config_map_auto,
        "DaemonSet",
        "on",
        ': invalid boolean "on": expected true or false; treating as false',
    ),
    (
        NAMES.secret_auto,
        "StatefulSet",
        "tRUE",
        ': invalid boolean "tRUE": expected true or false; treating as false',
    ),
    (NAMES.config_map, "Deployment", "app,b(", ': invalid regular expression "b("'),
    (NAMES.secret, "Deployment", "[z-a]", ': invalid regular expression "[z-a]"'),
    *(
        (NAMES.secret, "Deployment", f"db,{text}", f': invalid regular expression "{text}": names')
        for text in ("my_app", "shop/app", "app;db", "App", "ünï")
    ),
    (
        NAMES.search,
        "Deployment",
        "1",
        ': invalid boolean "1": expected true or false; treating as false',
    ),
    (
        EXCLUDES["ConfigMap"],
        "Deployment",
        "app,db-.*",
        ': invalid name "db-.*": expected the exact name of an object',
    ),
    (
        EXCLUDES["Secret"],
        "Deployment",
        "A B",
        ': invalid name "A B": expected the exact name of an object',
    ),
    (
        NAMES.pause_period,
        "Deployment",
        "5",
        ': invalid duration "5": expected a number with a unit, such as 500ms or 5s; '
        "treating as none",
    ),
    (
        NAMES.pause_period,
        "Deployment",
        "-5m",
        ': invalid duration "-5m": must not be negative; treating as none',
    ),
    (
        NAMES.pause_period,
        "DaemonSet",
        "5m",
        ": only applies to a Deployment, not to a DaemonSet; ignoring it",
    ),
    (
        ROLLOUT_STRATEGY,
        "Rollout",
        "recreate",
        ': invalid value "recreate": expected rollout or restart; treating as rollout',
    ),
    (
        ROLLOUT_STRATEGY,
        "Deployment",
        "restart",
        ": only applies to a Rollout, not to a Deployment; ignoring it",
    ),
    (
        NAMES.ignore,
        "Deployment",
        "true",
        " has no effect on a Deployment; it belongs on a ConfigMap or Secret",
    ),
    (
        NAMES.match,
        "Deployment",
        "true",
        " has no effect on a Deployment; it belongs on a ConfigMap or Secret",
    ),
    (
        "hotmap.dev/folow",
        "Deployment",
        "auto",
        f" is unknown; did you mean {FOLLOW}?",
    ),
    (
        "hotmap.dev/enabled",
        "Deployment",
        "auto",
        " is unknown; known on the workload: hotmap.dev/follow, ",
    ),
    (
        "configmaps.reloader.stakater.com/reload",
        "Deployment",
        "app",
        f" has no effect: Reloader has no such annotation; did you mean {NAMES.config_map}?",
    ),
    (
        "reloader.stakater.com/atuo",
        "Deployment",
        "true",
        f" has no effect: Reloader has no such annotation; did you mean {NAMES.auto}?",
    ),
    (
        "secretproviderclass.reloader.stakater.com/reload",
        "Deployment",
        "vault",
        " has no effect: SecretProviderClass",
    ),
    (
        "secretproviderclass.reloader.stakater.com/auto",
        "Deployment",
        "true",
        " has no effect: SecretProviderClass",
    ),
    (
        "secretproviderclasses.exclude.reloader.stakater.com/reload",
        "Deployment",
        "vault",
        " has no effect: SecretProviderClass",
    ),
]

#: (annotation, value, words that follow it)
OF_SOURCES = [
    (IGNORE, "yes", ': invalid boolean "yes": expected true or false; treating as false'),
    (NAMES.ignore, "True", ': invalid boolean "True": expected true or false; treating as false'),
    (NAMES.match, "1", ': invalid boolean "1": expected true or false; treating as false'),
    ("hotmap.dev/ignored", "true", f" is unknown; did you mean {IGNORE}?"),
    (
        "hotmap.dev/enabled",
        "true",
        f" is unknown; known on a ConfigMap or Secret: {IGNORE}, {MAX_ROLLOUTS}",
    ),
    (
        MAX_ROLLOUTS,
        "25%",
        ': invalid number "25%": expected 0 (no limit) to 10000; treating as 1',
    ),
    *(
        (name, "true", " has no effect on a Secret; it belongs on the workload")
        for name in (FOLLOW, NAMES.auto)
    ),
]

OF_NAMESPACES = [
    (
        FOLLOW,
        "yes",
        ': invalid value "yes": expected auto, off or a list such as configmap/app, secret/db-*; '
        "treating as off",
    ),
    ("hotmap.dev/strategy", "notify", " has no effect on a Namespace; it belongs on the workload"),
    (IGNORE, "true", " has no effect on a Namespace; it belongs on a ConfigMap or Secret"),
    (
        "hotmap.dev/flap-limit",
        "101",
        ': invalid number "101": expected 0 (no limit) to 100; treating as the default',
    ),
    (
        "hotmap.dev/suspend",
        "until Monday",
        ': invalid boolean "until Monday": expected true or false; treating as true',
    ),
    ("hotmap.dev/release", "now", " has no effect on a Namespace; it belongs on the workload"),
    (
        "hotmap.dev/folow",
        "auto",
        f" is unknown; did you mean {FOLLOW}?",
    ),
    (
        "hotmap.dev/enabled",
        "auto",
        f" is unknown; known on a Namespace: {FOLLOW}, hotmap.dev/flap-limit, {MAX_ROLLOUTS}, "
        "hotmap.dev/suspend",
    ),
    (
        MAX_ROLLOUTS,
        "many",
        ': invalid number "many": expected 0 (no limit) to 10000; treating as 1',
    ),
]


def _policy(kind: str, said: dict[str, str], place: str = "") -> Policy:
    metadata: dict[str, Any] = {"template_annotations" if place else "annotations": said}
    return read_policy(consumer(kind, **metadata))


def test_every_annotation_is_covered() -> None:
    """Each that people write, in both dialects, stands in one of the tables."""
    tried = {row[0] for rows in (OF_CONSUMERS, OF_SOURCES, OF_NAMESPACES) for row in rows}
    everything = {*ANNOTATIONS, *NAMES, *EXCLUDES.values(), ROLLOUT_STRATEGY}
    assert everything - tried - FREE == WRITTEN


@pytest.mark.parametrize("place", ["", " on the pod template"])
@pytest.mark.parametrize(("annotation", "kind", "value", "words"), OF_CONSUMERS)
def test_invalid_workload_annotation_is_a_problem(
    annotation: str, kind: str, value: str, words: str, place: str
) -> None:
    """The same sentence for both placements, and it says which one it is where that is known."""
    (problem,) = _policy(kind, {annotation: value}, place).problems
    assert problem.annotation == annotation
    where = place if words.startswith(":") and "only applies to a Pod" not in words else ""
    assert problem.message.startswith(f"annotation {annotation}{where}{words}")


@pytest.mark.parametrize(("annotation", "value", "words"), OF_SOURCES)
def test_invalid_source_annotation_is_a_problem(annotation: str, value: str, words: str) -> None:
    """The source is not ignored, and not found by those who search."""
    (problem,) = source_problems({annotation: value}, "Secret")
    assert problem.message.startswith(f"annotation {annotation}{words}")


@pytest.mark.parametrize(("annotation", "value", "words"), OF_NAMESPACES)
def test_invalid_namespace_annotation_is_a_problem(annotation: str, value: str, words: str) -> None:
    """Nothing but what to follow can be said for a whole Namespace."""
    (problem,) = namespace_problems({annotation: value})
    assert problem.message.startswith(f"annotation {annotation}{words}")


def test_settle_time_beyond_its_bound_raises_the_bound() -> None:
    """The bound gives way, and says so; where no annotation names it, it gives way in silence."""
    for most in ("1s", "5s"):
        policy = _policy("Deployment", {"hotmap.dev/settle": "10s", "hotmap.dev/settle-max": most})
        (problem,) = policy.problems
        words = (
            f'invalid duration "{most}": must not be shorter than the settle time; treating as 10s'
        )
        assert problem.message == f"annotation hotmap.dev/settle-max: {words}"
        assert (policy.settle, policy.settle_max) == (10, 10)
    said = {"hotmap.dev/settle": "10s", "hotmap.dev/settle-max": "soon"}
    (problem,) = _policy("Deployment", said).problems
    assert "invalid duration" in problem.message
    policy = _policy("Deployment", {"hotmap.dev/settle": "10s"})
    assert (policy.problems, policy.settle_max) == ((), 10)


def test_valid_annotations_have_no_problems() -> None:
    """Values that Reloader takes are taken, with space around them and in any list."""
    said = {
        FOLLOW: " auto ",
        NAMES.config_map: "app, db-.* ,",
        NAMES.pause_period: "1h15m30.918s",
        EXCLUDES["Secret"]: "login, tls-1",
        "hotmap.dev/revision": "k.abc",
        "reloader.stakater.com/last-reloaded-from": "{}",
        NAMES.paused_at: "2026-11-21T20:00:00Z",
    }
    assert _policy("Deployment", said).problems == ()
    assert (
        source_problems({IGNORE: " true ", NAMES.ignore: "false", NAMES.match: ""}, "Secret") == ()
    )
    assert namespace_problems({FOLLOW: "off"}) == ()


def test_name_that_a_flag_has_replaced() -> None:
    """It may be another instance's, so nothing is said of it."""
    renamed = DialectSettings(names=Names(auto="acme.com/auto"))
    found = consumer("Deployment", annotations={NAMES.auto: "perhaps"})
    policy = read_policy(found, defaults=Defaults(dialect=renamed))
    assert (policy.opted_in, policy.problems) == (False, ())


def test_several_problems_are_all_named() -> None:
    """Each is told by itself."""
    said = {FOLLOW: "yes", "hotmap.dev/settle": "soon", "hotmap.dev/folow": "auto"}
    told = [problem.annotation for problem in _policy("Deployment", said).problems]
    assert sorted(told) == sorted(said)
