"""Consumers, contents and assessments for tests of the freshness rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.objects import (
    ENV,
    ENV_AND_FILES,
    FILES,
    KEY,
    config_map,
    consumer,
    pod,
    sources,
)

from hotmap.core.decide.assessment import Assessment, Facts
from hotmap.core.decide.freshness import assess
from hotmap.core.decide.plan import make_plan
from hotmap.core.decide.pod_starts import pod_starts
from hotmap.core.decide.record import record_applied
from hotmap.core.decide.revisions import revision_of
from hotmap.core.decide.source_snapshot import take_snapshots
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ConfigMap
from hotmap.core.model.state import Record
from hotmap.core.policy.policy import Policy

A = {"LEVEL": "info", "app.yaml": "a: 1"}
B_FROZEN = A | {"LEVEL": "debug"}
B_LIVE = A | {"app.yaml": "a: 2"}
B_BOTH = B_FROZEN | {"app.yaml": "a: 2"}

REQUIRED = [ENV, FILES, ENV_AND_FILES]

TWO = (
    ENV
    + """
      envFrom: [{configMapRef: {name: other}}]
"""
)

OPTIONAL_ENV = ENV.replace("key: LEVEL", "key: LEVEL, optional: true")
OPTIONAL_FILES = FILES.replace("{name: app}", "{name: app, optional: true}")
OPTIONAL_BOTH = """
    containers:
    - name: web
      envFrom: [{configMapRef: {name: app, optional: true}}]
      volumeMounts: [{name: config, mountPath: /etc/app}]
    volumes: [{name: config, configMap: {name: app, optional: true}}]
"""


def app(data: dict[str, str] = A, **options: Any) -> ConfigMap:
    """Make the ConfigMap `app`."""
    return config_map("app", data, **options)


def applied_record(who: Consumer, *items: ConfigMap) -> Record:
    """Make the record of a consumer to which these sources were last applied."""
    snapshots = take_snapshots(who.uses, sources(*items), KEY)
    first = assess(who, None, snapshots, Facts(now=0, revision=""))
    return record_applied(who, None, first.findings, key_id=KEY.id, generation=1)


def assess_change(
    who: Consumer,
    before: Sequence[ConfigMap] | Record | None,
    now: Sequence[ConfigMap],
    *,
    started: Sequence[float | None] | None = None,
    **facts: Any,
) -> Assessment:
    """Assess a consumer to which `before` was applied (None: no record) and that finds `now`.

    `started` are the starts of its pods; None says that they were not checked. No other pods use
    the sources, unless `others` says so.
    """
    record = (
        before if isinstance(before, Record) or before is None else applied_record(who, *before)
    )
    snapshots = take_snapshots(who.uses, sources(*now), KEY)
    live_needs_rollout = facts.get("live_needs_rollout", False)
    if started is not None:
        pods = [pod(f"web-{number}", started=at) for number, at in enumerate(started)]
        facts["starts"] = pod_starts(who, pods)
    facts.setdefault("others", dict.fromkeys(each.source for each in snapshots))
    revision = revision_of(snapshots, KEY, uid=who.uid, live_needs_rollout=live_needs_rollout)
    return assess(who, record, snapshots, Facts(now=1000, revision=revision, **facts))


def record_after(
    who: Consumer, record: Record | None, assessment: Assessment, generation: int = 1
) -> Record:
    """Make the record after a judgement that settles."""
    assert make_plan(who, Policy(), assessment, changed={}).settles
    return record_applied(who, record, assessment.findings, key_id=KEY.id, generation=generation)


def deployment(spec: str = ENV, **options: Any) -> Consumer:
    """Make a Deployment whose record vouches for its generation 1."""
    return consumer("Deployment", spec, **options)
