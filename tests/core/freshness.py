"""Consumers, contents and assessments for tests of the freshness rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
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

from hotmap.core.decide.assessment import Assessment, OtherUse
from hotmap.core.decide.evidence import PodStart
from hotmap.core.decide.freshness import assess
from hotmap.core.decide.plan import make_plan
from hotmap.core.decide.pod_starts import pod_starts
from hotmap.core.decide.record import record_applied
from hotmap.core.decide.revisions import revision_of
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.decide.source_snapshot import ChangeSummary, SourceSnapshot, take_snapshots
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ConfigMap, ObjectKey
from hotmap.core.model.state import Record
from hotmap.core.policy.policy import Policy
from hotmap.core.target import Target

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


_POLICY, _UNCHANGED = Policy(), ChangeSummary()


def app(data: dict[str, str] = A, **options: Any) -> ConfigMap:
    """Make the ConfigMap `app`."""
    return config_map("app", data, **options)


def assess_sources(
    who: Consumer,
    record: Record | None,
    snapshots: Sequence[SourceSnapshot],
    *,
    now: float = 1000,
    revision: str = "",
    starts: Sequence[PodStart] | None = None,
    others: Mapping[ObjectKey, OtherUse | None] = MappingProxyType({}),
    policy: Policy = _POLICY,
    **known: Any,
) -> Assessment:
    """Assess a consumer with these sources; `known` are other fields of its snapshot."""
    target = Target(1, "", "")
    snapshot = Snapshot(
        who,
        policy,
        record,
        KEY.id,
        tuple(snapshots),
        revision,
        revision,
        "",
        "",
        target,
        None,
        now,
        **known,
    )
    return assess(snapshot, starts, others)


def applied_record(who: Consumer, *items: ConfigMap) -> Record:
    """Make the record of a consumer to which these sources were last applied."""
    snapshots = take_snapshots(who.uses, sources(*items), KEY)
    first = assess_sources(who, None, snapshots, now=0)
    return record_applied(who, None, first.findings, key_id=KEY.id, generation=1)


def assess_change(
    who: Consumer,
    before: Sequence[ConfigMap] | Record | None,
    now: Sequence[ConfigMap],
    *,
    started: Sequence[float | None] | None = None,
    changes: ChangeSummary = _UNCHANGED,
    **known: Any,
) -> Assessment:
    """Assess a consumer to which `before` was applied (None: no record) and that finds `now`.

    `started` are the starts of its pods; None says that they were not checked. No other pods use
    the sources, unless `others` says so. `changes` is what was observed of each source.
    """
    record = (
        before if isinstance(before, Record) or before is None else applied_record(who, *before)
    )
    taken = take_snapshots(who.uses, sources(*now), KEY)
    snapshots = [source._replace(changes=changes) for source in taken]
    live_needs_rollout = known.get("live_needs_rollout", False)
    if started is not None:
        pods = [pod(f"web-{number}", started=at) for number, at in enumerate(started)]
        known["starts"] = pod_starts(who, pods)
    known.setdefault("others", dict.fromkeys(each.source for each in snapshots))
    revision = revision_of(snapshots, KEY, uid=who.uid, live_needs_rollout=live_needs_rollout)
    return assess_sources(who, record, snapshots, revision=revision, **known)


def record_after(
    who: Consumer, record: Record | None, assessment: Assessment, generation: int = 1
) -> Record:
    """Make the record after a judgement that settles."""
    assert make_plan(who, Policy(), assessment, changed={}).settles
    return record_applied(who, record, assessment.findings, key_id=KEY.id, generation=generation)


def deployment(spec: str = ENV, **options: Any) -> Consumer:
    """Make a Deployment whose record vouches for its generation 1."""
    return consumer("Deployment", spec, **options)
