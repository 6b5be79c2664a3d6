"""Whatever others write into an object is read without raising, and shown on one line."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.objects import ENV, KEY, config_map, consumer, deployment, workload

from hotmap.core.decide.rollout_records import distinct_revision
from hotmap.core.model.annotations import ANNOTATIONS, OURS, known_annotations
from hotmap.core.model.consumer_conversion import consumer_from_workload
from hotmap.core.model.objects import ObjectKey, Pod, PodTemplate, Workload
from hotmap.core.model.patterns import LONGEST_VALUE
from hotmap.core.model.source import parse_time, source_from_config_map
from hotmap.core.model.template_uses import find_uses
from hotmap.core.model.uses import uses_of_template
from hotmap.core.patch.nudge import read_target
from hotmap.core.policy.annotations import namespace_problems, read_policy
from hotmap.core.policy.lint import source_problems
from hotmap.core.policy.policy import followed_uses
from hotmap.core.reloader.annotations import (
    EXCLUDES,
    ROLLOUT_STRATEGY,
    DialectSettings,
    Names,
    Writing,
)
from hotmap.core.text import parse_number

NAMES = Names()
KNOWN = (*ANNOTATIONS, *OURS, *NAMES, *EXCLUDES.values(), ROLLOUT_STRATEGY)

#: Texts that have tripped parsers: other scripts' digits, controls, overrides, near misses.
ODD = st.sampled_from(
    [
        *("²", "٣", "9" * 5000, "-1", "1e999", "0x10", "nan", "inf", "١s", "1" * 400 + "h"),
        *("2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "0000-01-01T00:00:00Z", "9999"),
        *("\n", "\x1b[2J", "\u202etxt", "\x00", "$(", "$(A)$(", "$$(", "[", "(", "\\", "a)|(b"),
        *("port=²", "port=" + "9" * 5000, "cm/", "cm/[", "cm/[!", "cm/[z-a]", "secret/*"),
    ]
)
TEXT = ODD | st.text(max_size=40)
#: Also numbers, which random texts hardly ever are; some have too many digits.
NUMBERS = st.integers(0, 10**22).map(str) | TEXT


# -- times -------------------------------------------------------------------------------------


@given(TEXT | st.from_regex(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z", fullmatch=True))
def test_times_are_read_or_unknown(text: str) -> None:
    """Any text, also one that looks like a time."""
    assert parse_time(text) is None or text.endswith("Z")


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1970-01-01T00:10:00Z", 600.0),
        ("2026-11-22T06:36:01Z", 1795329361.0),
        ("2026-11-22T06:36:01.999999Z", 1795329361.0),
        ("2024-02-29T00:00:00Z", 1709164800.0),
        ("2026-13-01T00:00:00Z", None),
        ("2026-02-30T00:00:00Z", None),
        ("2026-11-22T24:00:00Z", None),
        ("0000-01-01T00:00:00Z", None),
        ("2026-11-22T06:36:01+01:00", None),
        ("2026-11-22 06:36:01Z", None),
        ("+026-11-22T06:36:01Z", None),
        ("٢٠٢٦-11-22T06:36:01Z", None),
        ("2026-11-22T06:36:01Z" + " " * 100_000, None),
        ("", None),
        (None, None),
    ],
)
def test_times_are_read_in_kubernetes_format_only(text: str | None, at: float | None) -> None:
    """RFC 3339 in UTC as Kubernetes writes it, cut to seconds, and nothing else."""
    assert parse_time(text) == at


def test_thirteenth_month_does_not_stop_controller() -> None:
    """A paused Deployment with such a time is read as paused since ever."""
    said = {NAMES.paused_at: "2026-13-01T00:00:00Z", NAMES.pause_period: "5m"}
    policy = read_policy(deployment(ENV, paused=True, annotations=said))
    assert policy.pause is not None
    assert (policy.pause.paused_at, policy.pause.period) == (0.0, 300.0)
    (problem,) = policy.problems
    assert problem.message == (
        f'annotation {NAMES.paused_at}: invalid time "2026-13-01T00:00:00Z": expected a time such '
        "as 2026-11-21T20:00:00Z; resuming the Deployment"
    )


# -- annotations -------------------------------------------------------------------------------


@given(
    st.sampled_from(["Deployment", "StatefulSet", "Job", "CronJob", "Pod"]),
    st.dictionaries(st.sampled_from(KNOWN), TEXT, max_size=6),
    st.dictionaries(st.sampled_from(KNOWN), TEXT, max_size=3),
    st.booleans(),
)
def test_annotations_are_parsed_or_reported(
    kind: str, said: dict[str, str], below: dict[str, str], paused: bool
) -> None:
    """Any values make a policy; its words are printable, and its times are bounded."""
    options: dict[str, Any] = {"annotations": said}
    if kind in ("Deployment", "StatefulSet"):
        options |= {"template_annotations": below, "paused": paused}
    who = consumer(kind, ENV, **options)
    policy = read_policy(who, namespace_annotations=below)
    followed_uses(who, policy, [ObjectKey("ConfigMap", "shop", "app")])
    for words in (policy.origin, *(problem.message for problem in policy.problems)):
        assert words.isprintable()
        assert len(words) < 2_000
    assert 0 <= policy.settle <= policy.settle_max <= 24 * 3600
    hash(policy)


@given(st.dictionaries(st.sampled_from(KNOWN) | TEXT, TEXT, max_size=4))
def test_source_and_namespace_annotations_are_parsed_or_reported(said: dict[str, str]) -> None:
    """Any names and values; what is said of them is printable."""
    found = source_problems(known_annotations(said), "Secret") + namespace_problems(said)
    assert all(problem.message.isprintable() for problem in found)


@pytest.mark.parametrize(
    ("annotation", "field"),
    [("hotmap.dev/settle", "settle"), ("hotmap.dev/settle-max", "settle_max")],
)
def test_settle_times_are_bounded(annotation: str, field: str) -> None:
    """A longer time is told, and an hour used: otherwise a change would seem lost forever."""
    policy = read_policy(deployment(ENV, annotations={annotation: "300h"}))
    assert getattr(policy, field) == 3600.0
    (problem,) = policy.problems
    assert problem.message == (
        f'annotation {annotation}: invalid duration "300h": must not exceed 1h; treating as 1h'
    )
    assert read_policy(deployment(ENV, annotations={annotation: "1h"})).problems == ()


def test_pause_periods_are_bounded() -> None:
    """At a day."""
    policy = read_policy(deployment(ENV, annotations={NAMES.pause_period: "300h"}))
    assert policy.settle == policy.settle_max == 24 * 3600.0
    (problem,) = policy.problems
    assert problem.message.endswith("must not exceed 24h; treating as 24h")


def test_only_known_annotations_are_kept() -> None:
    """Of others nothing stays; misspelled names without values and only a few; values are cut."""
    said = {
        "kubectl.kubernetes.io/last-applied-configuration": "x" * 200_000,
        "hotmap.dev/follow": "y" * 200_000,
        "hotmap.dev/strategy": "auto",
        NAMES.auto: "true",
        **{f"hotmap.dev/x{i:03}": "z" * 500 for i in range(400)},
    }
    who = deployment(ENV, annotations=said, template_annotations=said)
    source = source_from_config_map(config_map(annotations=said), [KEY])
    for kept in (who.annotations, who.template_annotations, source.annotations or {}):
        assert kept == {
            "hotmap.dev/follow": "y" * (LONGEST_VALUE + 1),
            "hotmap.dev/strategy": "auto",
            NAMES.auto: "true",
            **{f"hotmap.dev/x{i:03}": "" for i in range(8)},
        }


# -- pod templates -----------------------------------------------------------------------------


def _object(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


SELECTOR = _object(name=TEXT, key=TEXT, optional=st.booleans())
ENTRY = _object(
    name=TEXT,
    value=TEXT,
    valueFrom=_object(configMapKeyRef=SELECTOR, secretKeyRef=SELECTOR),
)
REF = _object(name=TEXT, optional=st.booleans())
IMPORT = _object(prefix=TEXT, configMapRef=REF, secretRef=REF)
MOUNT = _object(name=st.sampled_from("vw"), mountPath=TEXT, subPath=TEXT, subPathExpr=TEXT)
CONTAINER = _object(
    name=TEXT,
    command=st.lists(TEXT, max_size=2),
    args=st.lists(TEXT, max_size=2),
    env=st.lists(ENTRY, max_size=4),
    envFrom=st.lists(IMPORT, max_size=3),
    volumeMounts=st.lists(MOUNT, max_size=3),
    restartPolicy=TEXT,
)
ITEMS = st.lists(_object(key=TEXT, path=TEXT), max_size=3)
PART = _object(name=TEXT, items=ITEMS, optional=st.booleans())
VOLUME = _object(
    name=st.sampled_from("vw"),
    configMap=PART,
    secret=_object(secretName=TEXT, items=ITEMS),
    projected=_object(sources=st.lists(_object(configMap=PART, secret=PART), max_size=3)),
    csi=_object(driver=TEXT, volumeAttributes=st.dictionaries(TEXT, TEXT, max_size=2)),
)
SPEC = _object(
    containers=st.lists(CONTAINER, max_size=2),
    initContainers=st.lists(CONTAINER, max_size=1),
    volumes=st.lists(VOLUME, max_size=2),
    imagePullSecrets=st.lists(REF, max_size=2),
)


@given(SPEC, st.sampled_from(Writing))
def test_pod_templates_are_read(spec: dict[str, Any], writing: Writing) -> None:
    """Any names, paths and expressions; the words about their uses are printable and short."""
    body = {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
        "spec": {
            "template": {"metadata": {"annotations": {"hotmap.dev/agent": "port=1"}}, "spec": spec}
        },
    }
    item = msgspec.json.decode(msgspec.json.encode(body), type=Workload)
    who = consumer_from_workload("Deployment", item, DialectSettings(writing=writing))
    for use in who.uses:
        shown = (str(use.source), use.path, use.container, *(use.keys.names or ()))
        assert all(text.isprintable() for text in shown)
        assert len(use.path) < 2_000


@given(SPEC, SPEC)
def test_uses_that_are_found_later_are_the_same(
    spec: dict[str, Any], other: dict[str, Any]
) -> None:
    """In whatever order they are asked for; their sources are found by hash before and after."""
    template = msgspec.convert({"spec": spec}, PodTemplate)
    found = find_uses(template, "shop")
    asked = uses_of_template(template, "shop", compress=True)
    later = uses_of_template(template, "shop")
    named = asked.source_hashes()
    assert asked == later
    assert asked.sources() == {use.source for use in found}
    assert asked.source_hashes() == set(map(hash, asked.sources())) <= named
    assert tuple(asked) == found
    assert asked == later
    assert later == asked
    assert tuple(later) == found
    another = uses_of_template(msgspec.convert({"spec": other}, PodTemplate), "shop")
    if asked == another:
        assert tuple(another) == found


def test_line_feed_in_mount_path_stays_on_its_line() -> None:
    """What a template says cannot forge a log line or reach a terminal as an escape sequence."""
    spec = r"""
        containers:
        - name: web
          volumeMounts: [{name: v, mountPath: "/etc/app\n2026-11-22 rolled out \e[2J"}]
        volumes: [{name: v, configMap: {name: "app\n\u202etxt"}}]
    """
    (use,) = deployment(spec).uses
    assert use.path == (r"volumes[v] at containers[web]:/etc/app\n2026-11-22 rolled out \x1b[2J")
    assert str(use.source) == r"ConfigMap shop/app\n\u202etxt"


# -- numbers ------------------------------------------------------------------------------------


@given(NUMBERS)
def test_targets_of_pods_are_read_or_unknown(text: str) -> None:
    """Whatever stands in the annotation that a nudge writes."""
    for value in (text, f"{text}/a/b"):
        told = {"metadata": {"annotations": {"hotmap.dev/target": value}}}
        target = read_target(msgspec.convert(told, Pod))
        number = parse_number(value.split("/")[0])
        assert target is None or str(target).startswith(f"{number}/")


@given(NUMBERS)
def test_revision_serials_are_parsed_or_restart(text: str) -> None:
    """Anybody may write the revision of a template."""
    revision = distinct_revision("k.f", None, previous=f"k.f.{text}")
    number = parse_number(text.split(".")[0])
    assert revision == f"k.f.{(number or 0) + 1}"


@pytest.mark.parametrize(
    ("previous", "expected"),
    [
        ("k.f.7", "k.f.8"),
        ("k.f.7.9", "k.f.8"),
        ("k.f.9999999999999999999", "k.f.10000000000000000000"),
        ("k.f.10000000000000000000", "k.f.1"),
        ("k.f.-1", "k.f.1"),
        ("k.f.²", "k.f.1"),
        ("k.f.", "k.f.1"),
        ("k.f", "k.f.1"),
        ("", "k.f.1"),
    ],
)
def test_revision_serial_is_above_the_one_of_the_template(previous: str, expected: str) -> None:
    assert distinct_revision("k.f", None, previous=previous) == expected


@given(TEXT)
def test_revisions_of_templates_are_cut(text: str) -> None:
    """Anybody may write the annotation by which a template's changes are counted."""
    item = workload(ENV, annotations={"deployment.kubernetes.io/revision": text * 50})
    assert len(consumer_from_workload("Deployment", item).template_version) <= 41
