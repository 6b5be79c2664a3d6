"""What an edit would do, before it is made: the decision that the edit itself gets."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.objects import ENV, ENV_AND_FILES, FILES, KEY, config_map, consumer, with_changes
from tests.support.objects import sources as sources_of

from hotmap.core.decide.assessment import Verdict
from hotmap.core.decide.decide import decide
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.plan import ActionType
from hotmap.core.decide.preview import Edit, preview_edit
from hotmap.core.decide.record import first_record
from hotmap.core.decide.snapshot import Snapshot, take_snapshot
from hotmap.core.decide.source_snapshot import ChangeSummary
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.state import Record
from hotmap.core.policy.policy import Policy, Strategy

A = {"LEVEL": "info", "app.yaml": "a: 1", "unused": "x"}
APP = ObjectKey("ConfigMap", "shop", "app")

FOLLOWED = Policy(opted_in=True)
REREADS = FOLLOWED._replace(rereads=True)
NOTIFIES = FOLLOWED._replace(strategy=Strategy.NOTIFY)

ROLLOUT, NUDGE, NOTIFY = ActionType.ROLLOUT, ActionType.NUDGE, ActionType.NOTIFY
WHOLE = ENV + "      envFrom: [{configMapRef: {name: app}}]\n"
ITEM = FILES.replace("{name: app}}", "{name: app, items: [{key: LEVEL, path: level}]}}")
OPTIONAL = ENV.replace("key: LEVEL", "key: LEVEL, optional: true")


def snapshot(
    who: Consumer,
    policy: Policy,
    record: Record | None,
    data: dict[str, str] | None,
    *,
    now: float = 1000,
    **options: Any,
) -> Snapshot:
    found = sources_of() if data is None else sources_of(config_map("app", data, **options))
    return take_snapshot(
        who, policy, record, uses=tuple(who.uses), sources=found, keys=[KEY], now=now
    )


def decided_edit(who: Consumer, policy: Policy, record: Record, edit: Edit) -> Decision:
    """Make the edit, and decide on it as the controller does that has observed it."""
    kept = {key: value for key, value in A.items() if key not in edit.removed}
    data = kept | dict.fromkeys(A if edit.changed is None else edit.changed, "new")
    after = snapshot(who, policy, record, data, version=2, changed_at=1000.0)
    keys = (edit.changed or frozenset()) | edit.removed
    seen = ChangeSummary(keys=keys, first=1000, last=1000, latest=1000, edited=True)
    return decide(with_changes(after, seen))


def edit(*changed: str, removed: tuple[str, ...] = ()) -> Edit:
    return Edit(APP, frozenset(changed), frozenset(removed))


@pytest.mark.parametrize(
    ("spec", "policy", "made", "actions"),
    [
        pytest.param(ENV, FOLLOWED, edit("LEVEL"), [ROLLOUT], id="a variable"),
        pytest.param(ENV, FOLLOWED, edit("unused"), [], id="a data key that is not used"),
        pytest.param(ENV, FOLLOWED, edit("unused", "LEVEL"), [ROLLOUT], id="both"),
        pytest.param(ENV, FOLLOWED, edit("added"), [], id="a new data key"),
        pytest.param(WHOLE, FOLLOWED, edit("added"), [ROLLOUT], id="a new data key of envFrom"),
        pytest.param(FILES, FOLLOWED, edit("app.yaml"), [ROLLOUT], id="a file"),
        pytest.param(FILES, REREADS, edit("app.yaml"), [NUDGE], id="a file that is re-read"),
        pytest.param(ENV_AND_FILES, REREADS, edit("app.yaml"), [NUDGE], id="one of two uses"),
        pytest.param(ENV_AND_FILES, REREADS, edit("LEVEL"), [ROLLOUT], id="the other of two"),
        pytest.param(ENV, NOTIFIES, edit("LEVEL"), [NOTIFY], id="strategy notify"),
        pytest.param(ENV, FOLLOWED, edit(removed=("LEVEL",)), [], id="a required data key goes"),
        pytest.param(OPTIONAL, FOLLOWED, edit(removed=("LEVEL",)), [ROLLOUT], id="an optional one"),
    ],
)
@pytest.mark.parametrize("kind", ["Deployment", "CronJob"])
def test_preview_is_the_decision_on_the_edit(
    kind: str, spec: str, policy: Policy, made: Edit, actions: list[ActionType]
) -> None:
    """Actions, verdict and words are those of the decision that the edit gets."""
    who = consumer(kind, spec)
    record = first_record(decide(snapshot(who, policy, None, A)))
    assert record is not None
    foreseen = preview_edit(snapshot(who, policy, record, A), made)
    real = decided_edit(who, policy, record, made)
    assert [action.type for action in foreseen.plan.actions] == [
        action.type for action in real.plan.actions
    ]
    assert foreseen.plan.verdict is real.plan.verdict
    assert foreseen.plan.reason == real.plan.reason
    if kind == "Deployment":
        assert [action.type for action in foreseen.plan.actions] == actions


def test_required_data_key_that_goes_is_held() -> None:
    """New pods could not start, so that nothing would be rolled out is what matters."""
    who = consumer("Deployment", ENV)
    record = first_record(decide(snapshot(who, FOLLOWED, None, A)))
    foreseen = preview_edit(snapshot(who, FOLLOWED, record, A), edit(removed=("LEVEL",)))
    assert foreseen.plan.warning
    assert "lacks LEVEL, which is not optional" in foreseen.plan.reason


@pytest.mark.parametrize(
    ("options", "generation"),
    [({"rolling": True}, 7), ({"rolling": True}, 1), ({}, 7)],
    ids=["a rollout of another template", "our own rollout", "another template"],
)
def test_rollouts_in_progress_change_nothing(options: dict[str, Any], generation: int) -> None:
    """Pods that start now start before an edit that is yet to be made."""
    record = first_record(decide(snapshot(consumer("Deployment", ENV), FOLLOWED, None, A)))
    who = consumer("Deployment", ENV, generation=generation, **options)
    foreseen = preview_edit(snapshot(who, FOLLOWED, record, A), edit("LEVEL"))
    assert [action.type for action in foreseen.plan.actions] == [ROLLOUT]


def test_workload_without_a_record_is_foreseen() -> None:
    """It will have one by the time of the edit."""
    who = consumer("Deployment", ENV)
    foreseen = preview_edit(snapshot(who, FOLLOWED, None, A), edit("LEVEL"))
    assert [action.type for action in foreseen.plan.actions] == [ROLLOUT]


def test_preview_without_data_keys_counts_all_that_are_used() -> None:
    """Without names of data keys, whatever is used counts as edited."""
    who = consumer("Deployment", ENV)
    record = first_record(decide(snapshot(who, FOLLOWED, None, A)))
    foreseen = preview_edit(snapshot(who, FOLLOWED, record, A), Edit(APP))
    assert [action.type for action in foreseen.plan.actions] == [ROLLOUT]


def test_source_of_another_workload_changes_nothing() -> None:
    """As for a source that is ignored: the snapshot does not have it."""
    who = consumer("Deployment", ENV)
    record = first_record(decide(snapshot(who, FOLLOWED, None, A)))
    other = edit("LEVEL")._replace(source=APP._replace(name="other"))
    assert preview_edit(snapshot(who, FOLLOWED, record, A), other).plan.actions == ()


@pytest.mark.parametrize("rolling", [False, True], ids=["complete", "in progress"])
@pytest.mark.parametrize("spec", [ENV, OPTIONAL], ids=["required", "optional"])
def test_creation_of_a_source_depends_on_the_pods(spec: str, rolling: bool) -> None:
    """Containers may wait for it, or have started without it."""
    who = consumer("Deployment", spec, rolling=rolling)
    foreseen = preview_edit(snapshot(who, FOLLOWED, None, None), edit("LEVEL"))
    assert foreseen.plan.verdict is Verdict.CHECK_PODS
    assert "was created: checking when its pods started" in foreseen.plan.reason


def test_data_keys_of_binary_data_are_not_in_an_environment() -> None:
    """Only files have them."""
    made = edit("blob")._replace(binary=frozenset(("blob",)))
    actions = {}
    for spec in (WHOLE, FILES):
        who = consumer("Deployment", spec)
        record = first_record(decide(snapshot(who, FOLLOWED, None, A)))
        plan = preview_edit(snapshot(who, FOLLOWED, record, A), made).plan
        actions[spec] = [action.type for action in plan.actions]
    assert actions == {WHOLE: [], FILES: [ROLLOUT]}


@pytest.mark.parametrize(
    ("spec", "before", "expected"),
    [
        pytest.param(ENV, (), (Verdict.HOLD, []), id="a required variable goes"),
        pytest.param(OPTIONAL, (), (Verdict.FROZEN, [ROLLOUT]), id="an optional one goes"),
        pytest.param(FILES, (), (Verdict.FROZEN, [ROLLOUT]), id="a file stays"),
        pytest.param(ITEM, (), (Verdict.FROZEN, [ROLLOUT]), id="a file of this data key stays"),
        pytest.param(ENV, ("LEVEL",), (Verdict.FROZEN, [ROLLOUT]), id="a variable comes"),
    ],
)
def test_data_key_that_moves_to_binary_data_leaves_the_environment(
    spec: str, before: tuple[str, ...], expected: tuple[Verdict, list[ActionType]]
) -> None:
    who = consumer("Deployment", spec)
    record = first_record(decide(snapshot(who, FOLLOWED, None, A)))
    made = edit("LEVEL")._replace(moved=frozenset(("LEVEL",)), binary=frozenset(before))
    foreseen = preview_edit(snapshot(who, FOLLOWED, record, A), made)
    actions = [action.type for action in foreseen.plan.actions]
    assert (foreseen.plan.verdict, actions) == expected


def test_edit_of_an_immutable_source_is_held() -> None:
    """The API server refuses it, and a recreated source may not reach new pods."""
    who = consumer("Deployment", ENV)
    record = first_record(decide(snapshot(who, FOLLOWED, None, A, immutable=True)))
    plan = preview_edit(snapshot(who, FOLLOWED, record, A, immutable=True), edit("LEVEL")).plan
    assert plan.warning
    assert plan.actions == ()
    assert plan.reason.startswith("ConfigMap shop/app is immutable: an edit is refused")
