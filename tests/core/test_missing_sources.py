"""Sources and data keys that are gone, or appear while pods run."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.freshness import (
    B_FROZEN,
    OPTIONAL_BOTH,
    OPTIONAL_ENV,
    OPTIONAL_FILES,
    REQUIRED,
    TWO,
    A,
    app,
    applied_record,
    assess_change,
    deployment,
    record_after,
)
from tests.support.objects import (
    ENV,
    ENV_AND_FILES,
    FILES,
    KEY,
    config_map,
    consumer,
    pod,
    snapshot,
    template,
)

from hotmap.core.decide.assessment import Verdict
from hotmap.core.decide.decide import decide
from hotmap.core.decide.evidence import PodStart, find_pods_started_within
from hotmap.core.decide.plan import ActionType
from hotmap.core.decide.pod_starts import pod_starts
from hotmap.core.decide.record import Outcome, next_record
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.decide.source_changes import SourceHistory, WatchGap, add_changes
from hotmap.core.decide.source_snapshot import ChangeSummary, take_snapshots
from hotmap.core.model.objects import ConfigMap
from hotmap.core.model.state import PodCheck, Record, Window
from hotmap.core.policy.policy import Policy
from hotmap.core.status.desired import desired_content


@pytest.mark.parametrize("spec", REQUIRED)
def test_deleted_source_changes_nothing(spec: str) -> None:
    """Running pods keep what they have, and its return with the same content is none either."""
    who = deployment(spec)
    before = applied_record(who, app())
    gone = assess_change(who, before, [])
    assert gone.verdict is Verdict.UP_TO_DATE
    record = record_after(who, before, gone)
    assert assess_change(who, record, [app(uid="uid-2")]).verdict is Verdict.UP_TO_DATE


def test_deleted_source_that_returns_with_other_content_is_a_change() -> None:
    """The record of a source outlives the source."""
    who = deployment()
    record = record_after(who, applied_record(who, app()), assess_change(who, [app()], []))
    assert assess_change(who, record, [app(B_FROZEN, uid="uid-2")]).verdict is Verdict.FROZEN


@pytest.mark.parametrize(
    ("spec", "live_needs_rollout", "verdict"),
    [
        pytest.param(OPTIONAL_ENV, False, Verdict.UP_TO_DATE, id="environments stay"),
        pytest.param(OPTIONAL_FILES, False, Verdict.LIVE, id="files go away"),
        pytest.param(OPTIONAL_BOTH, False, Verdict.LIVE, id="both"),
        pytest.param(OPTIONAL_FILES, True, Verdict.UP_TO_DATE, id="files that are not re-read"),
    ],
)
def test_deleted_optional_source_is_a_live_change(
    spec: str, live_needs_rollout: bool, verdict: Verdict
) -> None:
    """Its files go away, which is a live change; what was read at start stays."""
    assert (
        assess_change(deployment(spec), [app()], [], live_needs_rollout=live_needs_rollout).verdict
        is verdict
    )


@pytest.mark.parametrize(
    ("spec", "live_needs_rollout", "data", "verdict"),
    [
        pytest.param(OPTIONAL_ENV, False, A, Verdict.UP_TO_DATE, id="environment, the same"),
        pytest.param(OPTIONAL_ENV, False, B_FROZEN, Verdict.FROZEN, id="environment, other"),
        pytest.param(OPTIONAL_FILES, False, A, Verdict.LIVE, id="files come back"),
        pytest.param(OPTIONAL_FILES, True, A, Verdict.UP_TO_DATE, id="not noticed"),
        pytest.param(OPTIONAL_BOTH, False, A, Verdict.LIVE, id="both, the same"),
        pytest.param(OPTIONAL_BOTH, False, B_FROZEN, Verdict.FROZEN, id="both, other"),
    ],
)
def test_deleted_optional_source_returns(
    spec: str, live_needs_rollout: bool, data: dict[str, str], verdict: Verdict
) -> None:
    """What running containers still hold is not a change; what they lost is one."""
    who = deployment(spec)
    before = applied_record(who, app())
    record = record_after(
        who, before, assess_change(who, before, [], live_needs_rollout=live_needs_rollout)
    )
    now = [app(data, uid="uid-2")]
    assert assess_change(who, record, now, live_needs_rollout=live_needs_rollout).verdict is verdict


def test_source_is_required_if_any_use_requires_it() -> None:
    """A pod does not start without it, although another use could."""
    spec = ENV + "      envFrom: [{configMapRef: {name: app, optional: true}}]\n"
    for used, required in ((spec, True), (OPTIONAL_ENV, False), (ENV, True)):
        (source,) = take_snapshots(deployment(used).uses, {}, KEY)
        assert source.required is required


def test_new_pods_are_without_a_deleted_optional_source() -> None:
    """A rollout for another source takes the environment away, so its return is a change."""
    spec = (
        OPTIONAL_ENV
        + """
      envFrom: [{configMapRef: {name: other}}]
    """
    )
    who = deployment(spec)
    other = config_map("other", {"k": "w"}, version=2)
    before = applied_record(who, app(), config_map("other", {"k": "v"}))
    rolled = assess_change(who, before, [other])
    assert rolled.verdict is Verdict.FROZEN
    record = record_after(who, before, rolled)
    assert assess_change(who, record, [other]).verdict is Verdict.UP_TO_DATE
    now = [other, app(uid="uid-2", changed_at=500)]
    assert assess_change(who, record, now, started=[100.0]).verdict is Verdict.FROZEN


def test_unobserved_deletion_of_a_source_that_is_used_otherwise_is_remembered() -> None:
    """Pods of the other template may have read it before: no controller saw the deletion."""
    before = applied_record(deployment(OPTIONAL_FILES), app())
    who = deployment(OPTIONAL_BOTH, generation=2)
    found = assess_change(who, before, [])
    assert found.verdict is Verdict.ADOPT
    record = record_after(who, before, found, generation=2)
    gone = add_changes(
        take_snapshots(who.uses, {}, KEY)[0],
        record.sources[0],
        SourceHistory(gap=WatchGap(400.0, 500.0)),
        is_known=True,
    )
    desired = desired_content(snapshot(who, record=record)._replace(sources=(gone,)))
    ((_, change),) = desired.start_changes
    assert change.at == 500.0


@pytest.mark.parametrize(
    ("spec", "verdict"),
    [
        pytest.param(ENV, Verdict.FROZEN, id="the container should have waited for it"),
        pytest.param(FILES, Verdict.FROZEN, id="the pod should have waited for its volume"),
        pytest.param(OPTIONAL_ENV, Verdict.FROZEN, id="optional: it runs without"),
        pytest.param(OPTIONAL_FILES, Verdict.LIVE, id="optional files appear"),
        pytest.param(
            ENV + "    - {name: b, envFrom: [{configMapRef: {name: app, optional: true}}]}\n",
            Verdict.FROZEN,
            id="one container waited, its neighbour ran without",
        ),
        pytest.param(
            FILES.replace(
                "- name: web\n",
                "- name: web\n      envFrom: [{configMapRef: {name: app, optional: true}}]\n",
            ),
            Verdict.FROZEN,
            id="the whole pod should have waited for the volume",
        ),
    ],
)
def test_source_appears_while_pods_run(spec: str, verdict: Verdict) -> None:
    """What runs without a source has a change, whether or not it was to wait for the source."""
    now = [app(changed_at=500)]
    assert assess_change(deployment(spec), [], now, started=[100.0]).verdict is verdict


@pytest.mark.parametrize("spec", [ENV, FILES], ids=["env", "files"])
@pytest.mark.parametrize("started", [None, 500.0, 501.0, 900.0])
def test_source_appears_and_containers_start_with_it(spec: str, started: float | None) -> None:
    """What waited for a source starts with it, within the second of its creation or later."""
    now = [app(changed_at=500)]
    assert assess_change(deployment(spec), [], now).verdict is Verdict.CHECK_PODS
    assert assess_change(deployment(spec), [], now, started=[started]).verdict is Verdict.ADOPT


def test_source_appears_while_the_pods_that_wait_for_it_replace_others() -> None:
    """Those of an earlier template have started before, and are replaced without a second rollout.

    As when a Deployment is applied some seconds before an operator makes the Secret that it names.
    """
    who, now = deployment(rolling=True), [app(changed_at=500)]
    found = assess_change(who, [], now, started=[100.0, None], waited=59.0)
    assert (found.verdict, found.findings[0].recheck_in) == (Verdict.WAIT, 1.0)
    slow = assess_change(who, [], now, started=[100.0, None], waited=60.0)
    assert slow.verdict is Verdict.FROZEN
    done = assess_change(deployment(), [], now, started=[501.0, 502.0], waited=5.0)
    assert done.verdict is Verdict.ADOPT


def test_source_appears_with_the_correction_of_a_rollout_that_fails() -> None:
    """New pods are needed anyway, so the created source delays nothing."""
    spec = TWO.replace("{name: other}", "{name: other, optional: true}")
    who, created = deployment(spec, rolling=True), config_map("other", A)
    assert assess_change(who, [app()], [app(), created]).verdict is Verdict.WAIT
    corrected = assess_change(who, [app()], [app(B_FROZEN), created])
    assert corrected.verdict is Verdict.FROZEN
    record = record_after(who, applied_record(who, app()), corrected)
    assert assess_change(who, record, [app(B_FROZEN), created]).verdict is Verdict.UP_TO_DATE


READ_BY_INIT = """
    initContainers: [{name: setup, envFrom: [{configMapRef: {name: app}}]}]
    containers: [{name: web}]
"""
MOUNTED_BY_INIT = """
    initContainers: [{name: setup, volumeMounts: [{name: v, mountPath: /v}]}]
    containers: [{name: web}]
    volumes: [{name: v, configMap: {name: app}}]
"""


@pytest.mark.parametrize("spec", [READ_BY_INIT, MOUNTED_BY_INIT], ids=["env", "files"])
@pytest.mark.parametrize(
    ("started", "ended", "verdict"),
    [
        pytest.param({"setup": None}, None, Verdict.ADOPT, id="it waits"),
        pytest.param(None, {"setup": 501.0}, Verdict.ADOPT, id="it has waited"),
        pytest.param(None, {"setup": 450.0}, Verdict.FROZEN, id="it had another one"),
        pytest.param(None, None, Verdict.FROZEN, id="it is not known"),
    ],
)
def test_source_appears_and_an_init_container_starts_with_it(
    spec: str,
    started: dict[str, float | None] | None,
    ended: dict[str, float] | None,
    verdict: Verdict,
) -> None:
    """The pod was acknowledged long before; its init container has waited all the same."""
    who = deployment(spec)
    waiting = pod("web-1", started=400.0, containers={}, restartable=started, ended=ended)
    waiting = msgspec.structs.replace(waiting, spec=template(spec).spec)
    found = assess_change(who, [], [app(changed_at=500)], starts=pod_starts(who, [waiting]))
    assert found.verdict is verdict


@pytest.mark.parametrize(
    ("spec", "found"), [(READ_BY_INIT, ()), (MOUNTED_BY_INIT, ("web-1",))], ids=["env", "files"]
)
def test_init_container_that_has_not_started_may_have_files_of_a_window(
    spec: str, found: tuple[str, ...]
) -> None:
    """Its volumes were written before its image was pulled, and its environment is not read yet."""
    waiting = pod("web-1", started=400.0, containers={}, restartable={"setup": None})
    waiting = msgspec.structs.replace(waiting, spec=template(spec).spec)
    starts = pod_starts(deployment(spec), [waiting])
    assert find_pods_started_within(starts, [Window(500.0, 510.0)]) == found


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        pytest.param(True, Verdict.FROZEN, id="a creation is a change"),
        pytest.param(False, Verdict.UP_TO_DATE, id="creations are ignored"),
    ],
)
def test_source_appears_before_the_start_of_a_container_is_reported(
    counts: bool, verdict: Verdict
) -> None:
    """It seemed to start with the source; once its pods are checked, it is known to be older."""
    who, created = deployment(OPTIONAL_ENV), app(changed_at=1000)
    policy = Policy(opted_in=True, reload_on_create=counts)

    def taken(record: Record, now: float) -> Snapshot:
        found = snapshot(who, created, record=record, policy=policy, now=now)
        seen = ChangeSummary(first=1000.0, last=1000.0, latest=1000.0, edited=True)
        return found._replace(sources=(found.sources[0]._replace(changes=seen, edited=True),))

    first = decide(taken(applied_record(who), 1001.0), [PodStart("web-1", None, "")])
    assert first.assessment.verdict is Verdict.ADOPT
    record = next_record(first, Outcome(1, "", 1001.0))
    assert record is not None
    record = msgspec.structs.replace(record, pods_checked=PodCheck.LATENT)
    started = pod_starts(who, [pod("web-1", started=999.0)])
    assert decide(taken(record, 1060.0), started).assessment.verdict is verdict


@pytest.mark.parametrize("uid", ["uid-1", "uid-2"], ids=["reverted", "recreated"])
def test_source_that_came_back_leaves_what_was_read_at_start_as_old_as_it_is(uid: str) -> None:
    """Pods that ran all the time have it, though their files were other ones for a while."""
    who, policy = deployment(ENV_AND_FILES), Policy(opted_in=True, rereads=True)
    before = msgspec.structs.replace(applied_record(who, app()).sources[0], changed_by=100.0)
    record = msgspec.structs.replace(applied_record(who, app()), sources=(before,))
    again = app(uid=uid, version=7, changed_at=999)
    taken = snapshot(who, again, record=record, policy=policy, now=1100.0)
    gone = ChangeSummary(first=990.0, last=999.0, latest=999.0, window=Window(990.0, 999.0))
    source = taken.sources[0]._replace(changes=gone, changed_at=999.0, edited=True)
    starts = pod_starts(who, [pod("web-1", started=500.0)])
    decision = decide(taken._replace(sources=(source,)), starts)
    assert all(action.type is ActionType.NUDGE for action in decision.plan.actions)
    following = next_record(decision, Outcome(1, "", 1100.0))
    assert following is not None
    later = snapshot(who, again, record=following, policy=policy, now=1101.0).sources[0]
    bounded = add_changes(later, following.sources[0], SourceHistory(), is_known=True)
    assert (bounded.changed_at, bounded.at_start.changed_at) == (999.0, 100.0)


@pytest.mark.parametrize(
    ("window", "verdict"),
    [
        pytest.param(None, Verdict.UP_TO_DATE, id="it was away for a moment"),
        pytest.param(Window(990.0, 999.0), Verdict.LIVE, id="it had other content in between"),
    ],
)
def test_files_of_a_recreated_source_are_refreshed_after_other_content(
    window: Window | None, verdict: Verdict
) -> None:
    """Kubelets may have written that; the files of a required source stay while it is away."""
    who, policy = deployment(FILES), Policy(opted_in=True, rereads=True)
    again = app(uid="uid-2", version=7, changed_at=999)
    taken = snapshot(who, again, record=applied_record(who, app()), policy=policy, now=1100.0)
    changes = ChangeSummary(first=990.0, last=999.0, latest=999.0, window=window)
    source = taken.sources[0]._replace(changes=changes)
    decision = decide(taken._replace(sources=(source,)), pod_starts(who, [pod(started=500.0)]))
    assert decision.assessment.verdict is verdict


@pytest.mark.parametrize(
    ("kind", "spec", "verdict"),
    [
        pytest.param("Deployment", OPTIONAL_FILES, Verdict.LIVE, id="files are updated"),
        pytest.param("Deployment", OPTIONAL_ENV, Verdict.CHECK_PODS, id="pods may be without it"),
        pytest.param("CronJob", OPTIONAL_ENV, Verdict.FROZEN, id="the last run was without it"),
        pytest.param("CronJob", ENV, Verdict.CHECK_PODS, id="a run may wait for it"),
    ],
)
def test_source_appears_and_pods_are_looked_at_where_they_tell(
    kind: str, spec: str, verdict: Verdict
) -> None:
    who = consumer(kind, spec)
    assert assess_change(who, applied_record(who), [app()]).verdict is verdict


def test_source_appears_before_pods_start() -> None:
    """Pods that certainly started after its creation have it, though it is optional."""
    now = [app(changed_at=500)]
    who = deployment(OPTIONAL_ENV)
    assert assess_change(who, [], now, started=[502.0]).verdict is Verdict.ADOPT
    assert assess_change(who, [], now, started=[501.0]).verdict is Verdict.FROZEN


@pytest.mark.parametrize(
    ("spec", "data", "verdict"),
    [
        pytest.param(ENV, {}, Verdict.HOLD, id="env"),
        pytest.param(ENV_AND_FILES, {"LEVEL": "info"}, Verdict.HOLD, id="an item of a volume"),
        pytest.param(OPTIONAL_ENV, {}, Verdict.FROZEN, id="optional: new pods are without it"),
        pytest.param(FILES, {}, Verdict.LIVE, id="a file of a whole volume"),
    ],
)
def test_data_key_is_lost(spec: str, data: dict[str, str], verdict: Verdict) -> None:
    """A data key that new pods could not start without holds the consumer back."""
    assert assess_change(deployment(spec), [app()], [app(data, version=2)]).verdict is verdict


def test_lost_data_key_is_named() -> None:
    """The hold says what is missing and what would happen."""
    assert assess_change(deployment(), [app()], [app({})]).reason == (
        "ConfigMap shop/app lacks LEVEL, which is not optional: new pods could not start"
    )


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        pytest.param(
            [config_map("other", {"k": "w"}, version=2)],
            "ConfigMap shop/app does not exist and is not optional: new pods could not start",
            id="a source is gone",
        ),
        pytest.param(
            [app({}), config_map("other", {"k": "w"}, version=2)],
            "ConfigMap shop/app lacks LEVEL, which is not optional: new pods could not start",
            id="a data key is gone",
        ),
    ],
)
def test_rollout_is_held_when_pods_could_not_start(now: list[ConfigMap], reason: str) -> None:
    """A change waits while something else would keep new pods from starting, and is kept."""
    who = deployment(TWO)
    before = applied_record(who, app(), config_map("other", {"k": "v"}))
    held = assess_change(who, before, now)
    assert (held.verdict, held.reason) == (Verdict.HOLD, reason)
    record = record_after(who, before, held)
    assert record == before
    whole = [app(), config_map("other", {"k": "w"}, version=2)]
    assert assess_change(who, record, whole).verdict is Verdict.FROZEN


def test_hold_keeps_the_record_of_other_sources() -> None:
    """A source that is first seen during a hold is known from then on."""
    who = deployment(TWO, generation=2)
    before = applied_record(deployment(ENV), app(immutable=True))
    held_app = app(B_FROZEN, uid="uid-2", immutable=True)
    first = assess_change(who, before, [held_app, config_map("other", {"k": "v"})], started=[1.0])
    assert first.verdict is Verdict.HOLD
    record = record_after(who, before, first, generation=2)
    assert {source.name for source in record.sources} == {"app", "other"}
    assert record.generation == before.generation
    edited = [held_app, config_map("other", {"k": "w"}, version=2)]
    assert assess_change(who, record, edited, started=[1]).verdict is Verdict.FROZEN


def test_hold_outlives_a_rollout_for_another_source() -> None:
    """The rollout for one source does not count as asking for the one that is held back."""
    who = deployment(TWO)
    before = applied_record(who, app(immutable=True), config_map("other", {"k": "v"}))
    now = [app(B_FROZEN, uid="uid-2", immutable=True), config_map("other", {"k": "w"}, version=2)]
    rolled = assess_change(who, before, now)
    assert rolled.verdict is Verdict.FROZEN
    assert assess_change(who, record_after(who, before, rolled), now).verdict is Verdict.HOLD
