"""A plan acts only on data keys that are used, and equal facts give equal plans."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.freshness import assess_sources
from tests.support.objects import KEY, config_map, pod, sources, workload

from hotmap.core.decide.assessment import Assessment
from hotmap.core.decide.plan import Plan, make_plan
from hotmap.core.decide.pod_starts import pod_starts
from hotmap.core.decide.record import record_applied
from hotmap.core.decide.revisions import revision_of
from hotmap.core.decide.source_snapshot import take_snapshots
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.consumer_conversion import consumer_from_workload
from hotmap.core.model.objects import ObjectKey, PodTemplate
from hotmap.core.model.state import Record
from hotmap.core.policy.policy import Pause, Policy, Strategy, live_change_needs_rollout

DATA_KEYS = "abcd"
APP = ObjectKey("ConfigMap", "shop", "app")

#: A template takes long to draw.
FEW = settings(max_examples=25)

data_keys = st.sampled_from(DATA_KEYS)
contents = st.dictionaries(data_keys, st.sampled_from("01"))

_env = st.builds(
    lambda key, optional: {
        "name": key.upper(),
        "valueFrom": {"configMapKeyRef": {"name": "app", "key": key, "optional": optional}},
    },
    data_keys,
    st.booleans(),
)
_items = st.lists(data_keys.map(lambda key: {"key": key, "path": key}), min_size=1, max_size=3)


@st.composite
def templates(draw: st.DrawFn) -> PodTemplate:
    """Draw a pod template that uses some data keys of ConfigMap app, in one or more ways."""
    container: dict[str, Any] = {"name": "web", "env": draw(st.lists(_env, max_size=2))}
    volumes = []
    mounts = []
    for name in draw(st.sampled_from(((), ("v",), ("v", "w")))):
        optional = draw(st.booleans())
        volume = {"name": "app", "items": draw(_items), "optional": optional}
        volumes.append({"name": name, "configMap": volume})
        mounts.append({"name": name, "mountPath": f"/{name}"})
        if draw(st.booleans()):
            mounts[-1]["subPath"] = draw(data_keys)
    container["volumeMounts"] = mounts
    place = draw(st.sampled_from(("containers", "initContainers")))
    spec = {"containers": [{"name": "web"}], place: [container], "volumes": volumes}
    return msgspec.convert({"spec": spec}, PodTemplate)


#: Finite, as all durations and times that annotations may have.
seconds = st.floats(0, 1e6)

pauses = st.builds(Pause, period=seconds, paused_at=st.none() | seconds)

policies = st.builds(
    Policy,
    opted_in=st.just(True),
    auto=st.just(True),
    strategy=st.sampled_from(Strategy),
    rereads=st.booleans(),
    catch_up=st.booleans(),
    pause=st.none() | pauses,
)


def consumer_of(template: PodTemplate, generation: int = 1) -> Consumer:
    """Make a Deployment of a drawn template."""
    item = workload(generation=generation)
    spec = msgspec.structs.replace(item.spec, template=template)
    encoded = msgspec.Raw(msgspec.json.encode(spec))
    return consumer_from_workload("Deployment", msgspec.structs.replace(item, encoded_spec=encoded))


def decided(
    who: Consumer,
    policy: Policy,
    record: Record | None,
    data: dict[str, str] | None,
    *,
    version: int = 1,
    started: float = 50,
) -> tuple[Assessment, Plan]:
    """Assess and plan for content that was written at 100 s, with a pod of a known age."""
    held = {} if data is None else sources(config_map(data=data, version=version, changed_at=100))
    snapshots = take_snapshots(who.uses, held, KEY)
    live_needs_rollout = live_change_needs_rollout(who, policy)
    assessment = assess_sources(
        who,
        record,
        snapshots,
        revision=revision_of(snapshots, KEY, uid=who.uid, live_needs_rollout=live_needs_rollout),
        starts=pod_starts(who, [pod(started=started)]),
        policy=policy,
        live_needs_rollout=live_needs_rollout,
    )
    changed = {} if data is None else {APP: frozenset(data)}
    return assessment, make_plan(who, policy, assessment, changed=changed)


def applied_record(who: Consumer, policy: Policy, data: dict[str, str]) -> Record:
    """Make the record of a consumer to which some content was applied."""
    assessment, _ = decided(who, policy._replace(catch_up=False), None, data)
    return record_applied(who, None, assessment.findings, key_id=KEY.id, generation=1)


@FEW
@given(templates(), policies, contents, contents, st.integers(1, 2))
def test_unused_data_key_never_acts(
    template: PodTemplate,
    policy: Policy,
    before: dict[str, str],
    after: dict[str, str],
    generation: int,
) -> None:
    """Edits, additions and removals of data keys that no use selects leave the plan empty."""
    who = consumer_of(template, generation)
    record = applied_record(who, policy, before)
    unused = {
        key for key in DATA_KEYS if not any(use.keys.select(key, binary=False) for use in who.uses)
    }
    used_as_before = {key: value for key, value in before.items() if key not in unused}
    now = used_as_before | {key: value for key, value in after.items() if key in unused}
    _, plan = decided(who, policy, record, now, version=2)
    assert plan.actions == ()


@FEW
@given(templates(), policies, contents, contents, st.integers(1, 2), st.sampled_from((50, 500)))
def test_equal_facts_give_equal_plans(
    template: PodTemplate,
    policy: Policy,
    before: dict[str, str],
    after: dict[str, str],
    generation: int,
    started: float,
) -> None:
    """Nothing but the arguments decides, whatever order they come in."""
    who = consumer_of(template, generation)
    record = applied_record(who, policy, before)
    shuffled = dict(reversed(after.items()))
    decision = decided(who, policy, record, after, version=2, started=started)
    assert decision == decided(who, policy, record, shuffled, version=2, started=started)


@FEW
@given(templates(), policies, contents, contents, st.integers(1, 2))
def test_settled_plan_is_not_made_again(
    template: PodTemplate,
    policy: Policy,
    before: dict[str, str],
    after: dict[str, str],
    generation: int,
) -> None:
    """Once the current content is applied, the same facts give no more actions."""
    who = consumer_of(template, generation)
    record = applied_record(who, policy, before)
    assessment, plan = decided(who, policy, record, after, version=2)
    if plan.settles:
        findings = assessment.findings
        settled = record_applied(who, record, findings, key_id=KEY.id, generation=generation)
        _, again = decided(who, policy, settled, after, version=2)
        assert again.actions == ()


@FEW
@given(templates(), policies, contents)
def test_first_sight_acts_only_to_catch_up(
    template: PodTemplate, policy: Policy, data: dict[str, str]
) -> None:
    """Without a record nothing is done, unless the consumer wants to catch up and is not young."""
    who = consumer_of(template)
    for started in (50, 500):
        _, plan = decided(who, policy, None, data, started=started)
        if started > 102 or not policy.catch_up:
            assert plan.actions == ()


@FEW
@given(templates(), policies, contents)
def test_lost_source_never_rolls(
    template: PodTemplate, policy: Policy, data: dict[str, str]
) -> None:
    """A deletion leaves running pods alone: at most their files are refreshed away."""
    who = consumer_of(template)
    policy = policy._replace(reload_on_delete=False)
    _, plan = decided(who, policy, applied_record(who, policy, data), None)
    assert {action.type.value for action in plan.actions} <= {"nudge", "notify"}
