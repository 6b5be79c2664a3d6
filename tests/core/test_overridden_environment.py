"""Of several envFrom, a later one wins: an edit of what it replaces needs no rollout."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
from tests.core.freshness import assess_sources
from tests.support.objects import KEY, config_map, deployment, pod, sources

from hotmap.core.decide.assessment import Assessment, Verdict
from hotmap.core.decide.pod_starts import pod_starts
from hotmap.core.decide.record import record_applied
from hotmap.core.decide.snapshot import take_snapshot
from hotmap.core.decide.source_snapshot import SourceSnapshot
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ConfigMap
from hotmap.core.model.state import Record
from hotmap.core.policy.policy import Policy

DEFAULTS_AND_OVERRIDES = """
    containers:
    - name: web
      envFrom:
      - configMapRef: {name: defaults}
      - configMapRef: {name: overrides, optional: true}
"""

Content = Mapping[str, Mapping[str, str]]


class Workload:
    """A consumer whose record follows each decision, as the controller's does."""

    def __init__(self, spec: str, content: Content) -> None:
        self.consumer: Consumer = deployment(spec)
        self.record: Record | None = None
        self.versions: dict[str, tuple[Mapping[str, str], int]] = {}
        #: Of ConfigMaps that were recreated.
        self.recreated: dict[str, dict[str, Any]] = {}
        self.assess(content)

    def assess(self, content: Content, *, followed: frozenset[str] | None = None) -> Assessment:
        """Decide on some content, and record it as a controller does that has acted."""
        snapshots = self._snapshots(content, followed)
        starts = pod_starts(self.consumer, [pod(started=-1000)])  # before all changes
        assessment = assess_sources(
            self.consumer, self.record, snapshots, now=0, revision="k.new", starts=starts
        )
        self.record = record_applied(
            self.consumer,
            self.record,
            assessment.findings,
            key_id=KEY.id,
            generation=self.consumer.generation,
        )
        return assessment

    def _snapshots(
        self, content: Content, followed: frozenset[str] | None
    ) -> tuple[SourceSnapshot, ...]:
        uses = [u for u in self.consumer.uses if followed is None or u.source.name in followed]
        snapshot = take_snapshot(
            self.consumer,
            Policy(),
            self.record,
            uses=uses,
            sources=sources(*(self._config_map(name, data) for name, data in content.items())),
            keys=[KEY],
            now=0,
        )
        return snapshot.sources

    def _config_map(self, name: str, data: Mapping[str, str]) -> ConfigMap:
        before, version = self.versions.get(name, ({}, 0))
        if before != data:
            version += 1
            self.versions[name] = (dict(data), version)
        options = {"uid": f"uid-{name}", **self.recreated.get(name, {})}
        return config_map(name, data, version=version, **options)


@pytest.fixture
def web() -> Workload:
    """LEVEL of `defaults` is replaced, PORT is not."""
    return Workload(
        DEFAULTS_AND_OVERRIDES,
        {"defaults": {"LEVEL": "info", "PORT": "80"}, "overrides": {"LEVEL": "debug"}},
    )


def test_edit_of_a_replaced_data_key_changes_nothing(web: Workload) -> None:
    edited = {"defaults": {"LEVEL": "warn", "PORT": "80"}, "overrides": {"LEVEL": "debug"}}
    assert web.assess(edited).verdict is Verdict.UP_TO_DATE
    removed = {"defaults": {"PORT": "80"}, "overrides": {"LEVEL": "debug"}}
    assert web.assess(removed).verdict is Verdict.UP_TO_DATE


def test_edit_of_another_data_key_is_a_change(web: Workload) -> None:
    edited = {"defaults": {"LEVEL": "info", "PORT": "81"}, "overrides": {"LEVEL": "debug"}}
    assert web.assess(edited).verdict is Verdict.FROZEN


@pytest.mark.parametrize("edited_before", [False, True])
def test_removal_of_the_replacing_data_key_is_a_change(web: Workload, edited_before: bool) -> None:
    level = "warn" if edited_before else "info"
    defaults = {"LEVEL": level, "PORT": "80"}
    web.assess({"defaults": defaults, "overrides": {"LEVEL": "debug"}})
    assert web.assess({"defaults": defaults, "overrides": {}}).verdict is Verdict.FROZEN
    assert web.assess({"defaults": defaults, "overrides": {}}).verdict is Verdict.UP_TO_DATE
    # From now on the first one counts.
    visible = {"defaults": {"LEVEL": "error", "PORT": "80"}, "overrides": {}}
    assert web.assess(visible).verdict is Verdict.FROZEN


def test_deletion_of_the_replacing_source_makes_an_edit_before_it_a_change(web: Workload) -> None:
    """New containers would have a value that no running one has."""
    defaults = {"LEVEL": "warn", "PORT": "80"}
    both = {"defaults": defaults, "overrides": {"LEVEL": "debug"}}
    assert web.assess(both).verdict is Verdict.UP_TO_DATE
    assert web.assess(both).verdict is Verdict.UP_TO_DATE
    assert web.assess({"defaults": defaults}).verdict is Verdict.FROZEN


@pytest.mark.parametrize("immutable", [False, True])
def test_deletion_of_the_replacing_source_makes_a_recreation_before_it_a_change(
    web: Workload, immutable: bool
) -> None:
    defaults = {"LEVEL": "warn", "PORT": "80"}
    both = {"defaults": defaults, "overrides": {"LEVEL": "debug"}}
    web.recreated["defaults"] = {"uid": "uid-2", "immutable": immutable}
    assert web.assess(both).verdict is Verdict.UP_TO_DATE
    assert web.assess(both).verdict is Verdict.UP_TO_DATE
    assert web.assess({"defaults": defaults}).verdict is Verdict.FROZEN
    assert web.assess({"defaults": defaults}).verdict is Verdict.UP_TO_DATE


def test_deletion_of_the_replacing_source_alone_changes_nothing(web: Workload) -> None:
    """As of any optional source: running containers keep what they read."""
    defaults = {"LEVEL": "info", "PORT": "80"}
    assert web.assess({"defaults": defaults}).verdict is Verdict.UP_TO_DATE
    back = {"defaults": defaults, "overrides": {"LEVEL": "debug"}}
    assert web.assess(back).verdict is Verdict.UP_TO_DATE
    assert web.assess({"defaults": defaults}).verdict is Verdict.UP_TO_DATE
    edited = {"defaults": {"LEVEL": "error", "PORT": "80"}}
    assert web.assess(edited).verdict is Verdict.FROZEN


def test_source_that_is_not_followed_replaces_nothing(web: Workload) -> None:
    """What it has is not watched, so an edit must not count on it; to stop following is none."""
    content = {"defaults": {"LEVEL": "info", "PORT": "80"}, "overrides": {"LEVEL": "debug"}}
    only = frozenset(("defaults",))
    assert web.assess(content, followed=only).verdict is Verdict.UP_TO_DATE
    content["defaults"] = {"LEVEL": "warn", "PORT": "80"}
    assert web.assess(content, followed=only).verdict is Verdict.FROZEN


@pytest.mark.parametrize(
    ("first", "later", "name"),
    [("", "", "A_B"), ("A_", "", "B"), ("", "A_", "A_B"), ("A_", "A_", "B"), ("A", "A_", "_B")],
)
def test_prefixes_are_part_of_the_name_of_a_variable(first: str, later: str, name: str) -> None:
    """`name` is the data key that gives the same variable as the other source's."""
    spec = f"""
    containers:
    - name: web
      envFrom:
      - {{prefix: "{first}", configMapRef: {{name: first}}}}
      - {{prefix: "{later}", configMapRef: {{name: later}}}}
    """
    other = {"": "A_B", "A_": "B"}[later]
    web = Workload(spec, {"first": {name: "1", "X": "1"}, "later": {other: "2"}})
    same = web.assess({"first": {name: "9", "X": "1"}, "later": {other: "2"}})
    assert same.verdict is Verdict.UP_TO_DATE
    changed = web.assess({"first": {name: "9", "X": "2"}, "later": {other: "2"}})
    assert changed.verdict is Verdict.FROZEN


def test_data_key_that_another_container_reads_is_a_change() -> None:
    spec = DEFAULTS_AND_OVERRIDES + "    - {name: log, envFrom: [{configMapRef: {name: defaults}}]}"
    web = Workload(spec, {"defaults": {"LEVEL": "info"}, "overrides": {"LEVEL": "debug"}})
    edited = {"defaults": {"LEVEL": "warn"}, "overrides": {"LEVEL": "debug"}}
    assert web.assess(edited).verdict is Verdict.FROZEN


RANDOM = """
    containers:
    - name: web
      env: [{name: D, value: fixed}]
      envFrom:
      - configMapRef: {name: a}
      - {prefix: P_, configMapRef: {name: b, optional: true}}
      - configMapRef: {name: c, optional: true}
      - configMapRef: {name: a}
      - configMapRef: {name: d}
"""


Environment = dict[str, tuple[str, str]]


def make_environment(content: Content) -> Environment:
    """Map variables to source and value, as the kubelet sets them (makeEnvironmentVariables)."""
    environment: Environment = {}
    for prefix, name in (("", "a"), ("P_", "b"), ("", "c"), ("", "a"), ("", "d")):
        for key, value in content.get(name, {}).items():
            environment[prefix + key] = name, value
    return {**environment, "D": ("", "fixed")}


def values(environment: Environment) -> dict[str, str]:
    return {name: value for name, (_, value) in environment.items()}


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_random_edits_lose_no_change_and_need_no_rollout_without_one(
    seed: int, deletes: bool
) -> None:
    """Compared with the environment that a kubelet would make of the same sources.

    Of an optional source that was deleted, running containers keep what they read.
    """
    chance = random.Random(seed)
    content: dict[str, dict[str, str]] = {"a": {"A": "0"}, "b": {}, "c": {}, "d": {}}
    web = Workload(RANDOM, content)
    running, started_with = make_environment(content), dict(content)
    replaced_edits = 0
    for _ in range(100):
        before = dict(content)
        name = chance.choice("abcd")
        if deletes and name in "bc" and chance.random() < 0.2:
            content.pop(name, None)
        else:
            data = dict(content.get(name, {}))
            key = chance.choice(("A", "B", "D", "P_A", "P_B"))
            data[key] = chance.choice("01")
            if chance.random() < 0.3:
                del data[key]
            content[name] = data
        verdict = web.assess(content).verdict
        if verdict is Verdict.FROZEN:
            assert deletes or make_environment(content) != make_environment(before)
            running, started_with = make_environment(content), dict(content)
            continue
        replaced_edits += content != before
        kept = {**{name: data for name, data in started_with.items() if name in "bc"}, **content}
        assert values(make_environment(kept)) == values(running)
    assert replaced_edits > 5
