"""What others write where a rollout writes, told apart, and what follows from it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.objects import ENV, timestamp, workload

from hotmap.core.decide.assessment import Verdict
from hotmap.core.decide.conflicts import (
    HELD,
    ConflictKind,
    WriterConflict,
    defer_to,
    find_writer_conflict,
)
from hotmap.core.decide.plan import Action, ActionType, Plan
from hotmap.core.decide.record import record_applied
from hotmap.core.decide.rollout_records import record_reloader_write
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.consumer_conversion import consumer_from_workload
from hotmap.core.model.objects import ManagedFields
from hotmap.core.model.state import ForeignWrites, Record, RetiredRevision

NOW = 5000.0

#: Our fingerprint key is `k`; the record vouches for generation 3.
RECORD = Record("uid-web", "k", 3, revision="k.now", retired=(RetiredRevision("k.old", 900.0),))

REVISION = '{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:hotmap.dev/revision":{}}}}}}'
IMAGE = '{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\\"name\\":\\"web\\"}":{}}}}}}'
VARIABLE = '{"f:spec":{"f:template":{"f:spec":{"k:{\\"name\\":\\"STAKATER_APP_CONFIGMAP\\"}":{}}}}}'
REPLICAS = '{"f:spec":{"f:replicas":{}}}'


def web(
    revision: str = "", *writes: tuple[str, float, str], generation: int = 4, **options: Any
) -> Consumer:
    """Make a Deployment with a revision and writes: (manager, POSIX seconds, fields)."""
    item = workload(ENV, generation=generation, **options)
    annotations = {"hotmap.dev/revision": revision} if revision else {}
    template = msgspec.structs.replace(
        item.spec.template,
        metadata=msgspec.structs.replace(item.spec.template.metadata, annotations=annotations),
    )
    managed = [
        ManagedFields(manager, timestamp(at), "", msgspec.Raw(fields.encode()))
        for manager, at, fields in writes
    ]
    return consumer_from_workload(
        "Deployment",
        msgspec.structs.replace(
            item,
            metadata=msgspec.structs.replace(item.metadata, managed_fields=managed),
            encoded_spec=msgspec.Raw(
                msgspec.json.encode(msgspec.structs.replace(item.spec, template=template))
            ),
        ),
    )


def found(who: Consumer, record: Record | None = RECORD, now: float = NOW) -> WriterConflict | None:
    return find_writer_conflict(who, record, own_keys={"k", "j"}, now=now)


@pytest.mark.parametrize(
    ("who", "kind"),
    [
        pytest.param(web("k.now", ("hotmap", 10, REVISION)), None, id="ours"),
        pytest.param(web("k.now.2", ("hotmap", 10, REVISION)), None, id="ours by another number"),
        pytest.param(web("k.new", ("hotmap", 10, REVISION)), None, id="ours, not recorded yet"),
        pytest.param(web("j.x", ("hotmap", 10, REVISION)), None, id="ours, with an older key"),
        pytest.param(web("k.old", ("kubectl", 10, REVISION)), None, id="an undo"),
        pytest.param(web("k.x", ("kubectl", 10, REVISION)), None, id="an undo to a forgotten one"),
        pytest.param(web("", ("kubectl", 4900, VARIABLE)), None, id="an undo to before hotmap"),
        pytest.param(web("", ("kubectl-edit", 4900, VARIABLE)), ConflictKind.REMOVED, id="an edit"),
        pytest.param(web("", generation=2), None, id="a stale store"),
        pytest.param(web(""), ConflictKind.REMOVED, id="stripped"),
        pytest.param(
            web("", generation=3), ConflictKind.REMOVED, id="stripped, and vouched for since"
        ),
        pytest.param(
            web("k.x", ("argocd", 10, REVISION)), ConflictKind.OVERWRITTEN, id="with our key"
        ),
        pytest.param(web("z.x", ("argocd", 10, REVISION)), ConflictKind.OVERWRITTEN, id="forged"),
        pytest.param(web("k.x"), ConflictKind.OVERWRITTEN, id="by an unnamed writer"),
        pytest.param(
            web("z.x", ("hotmap", 4900, REVISION)), ConflictKind.HOTMAP, id="a foreign key"
        ),
        pytest.param(
            web("fixed", ("hotmap", 4900, REVISION)),
            ConflictKind.OVERWRITTEN,
            id="rewritten at admission",
        ),
        pytest.param(
            web("k.now", ("hotmap", 10, REVISION), ("Reloader", 4900, VARIABLE)),
            ConflictKind.RELOADER,
            id="Reloader's variable",
        ),
        pytest.param(
            web("k.now", ("hotmap", 10, REVISION), ("Reloader", 4300, VARIABLE)),
            None,
            id="Reloader's variable, from long ago",
        ),
        pytest.param(
            web("k.now", ("hotmap", 10, REVISION), ("Reloader", 4900, REPLICAS)),
            None,
            id="something else of Reloader's",
        ),
    ],
)
def test_writer_is_named(who: Consumer, kind: ConflictKind | None) -> None:
    """Foreign writes are told from ours, from an undo, and from what is merely old."""
    seen = found(who)
    assert (seen.kind if seen else None) is kind


def test_reason_names_admission_where_our_write_was_changed() -> None:
    """It is our field manager's all the same, and no other hotmap has to be stopped."""
    seen = found(web("fixed", ("hotmap", 4900, REVISION)))
    assert seen is not None
    assert "overwritten by a mutating admission policy or webhook." in seen.reason
    assert not seen.until


def test_state_at_adoption_is_not_a_conflict() -> None:
    """A lost key, a template restored from elsewhere, a Reloader that is gone: all adopted."""
    who = web("z.x", ("hotmap", 4990, REVISION), ("Reloader", 4995, VARIABLE))
    assert found(who, None) is None
    record = record_applied(who, None, (), key_id="k", generation=4)
    assert found(who, record) is None
    again = web("z.x", ("hotmap", 4990, REVISION), ("Reloader", 4999, VARIABLE))
    assert found(again, record) is not None


def test_own_reloader_style_writes_are_not_a_conflict() -> None:
    """After a change from Reloader's strategy to hotmap's, no Reloader is reported."""
    record = record_reloader_write(RECORD, now=4990.5)
    assert found(web("k.now", ("Reloader", 4991, VARIABLE)), record) is None
    assert found(web("k.now", ("Reloader", 4993, VARIABLE)), record) is not None


@pytest.mark.parametrize(
    ("who", "words"),
    [
        (
            web("", ("helm", 10, IMAGE), ("argocd", 20, IMAGE), ("hpa", 30, REPLICAS)),
            "hotmap.dev/revision was removed from its pod template (argocd last modified it). ",
        ),
        (web(""), "If that was not a rollback, configure GitOps tools to ignore that annotation"),
        (web(""), "hotmap.dev/revision was removed from its pod template. "),
        (web("k.x", ("flux", 20, REVISION)), "in its pod template was overwritten by flux. "),
        (web("k.x"), "in its pod template was overwritten by another client. "),
        (web("z.x", ("hotmap", 4900, REVISION)), "with the fingerprint key z. "),
    ],
)
def test_reason_names_the_other_writer(who: Consumer, words: str) -> None:
    """The field manager is named where managedFields tell it, and what to do in any case."""
    seen = found(who)
    assert seen is not None
    assert words in seen.reason
    assert ("docs/guides/gitops.md" in seen.reason) == (seen.until == 0)


def test_writer_from_before_the_last_rollout_is_not_named() -> None:
    """`kubectl rollout undo` removes the annotation and leaves no trace in managedFields."""
    rollouts = msgspec.structs.replace(RECORD.rollouts, times=(4000.5,), contents=("now",))
    record = msgspec.structs.replace(RECORD, rollouts=rollouts)
    for at, words in (
        (3999, "hotmap.dev/revision was removed from its pod template. "),
        (4000, "hotmap.dev/revision was removed from its pod template (argocd last modified it). "),
    ):
        seen = found(web("", ("argocd", at, IMAGE)), record)
        assert seen is not None
        assert words in seen.reason


@pytest.mark.parametrize(
    ("who", "at"),
    [
        (web("z.x", ("hotmap", 4900, REVISION)), 4900),
        (web("k.now", ("Reloader", 4900, VARIABLE)), 4900),
    ],
)
def test_hold_expires_ten_minutes_after_the_last_foreign_write(who: Consumer, at: float) -> None:
    """Ten minutes after the last write of any other controller, no rollout is suppressed."""
    seen = found(who)
    assert seen is not None
    assert seen.until == at + HELD == at + 600


def test_another_hotmap_is_known_again_when_its_write_was_adopted() -> None:
    """The record then carries the foreign revision, and the hold still stands."""
    who = web("z.x", ("hotmap", 4900, REVISION))
    seen = found(who)
    assert seen is not None
    adopted = msgspec.structs.replace(
        RECORD, revision="z.x", foreign_writes=ForeignWrites(reported=seen.mark)
    )
    assert found(who, adopted) == seen
    assert found(who, adopted, now=4900 + HELD) is None


def test_earlier_foreign_write_is_not_an_undo() -> None:
    """The record remembers what a rollout replaced; a foreign name of it is still foreign."""
    record = msgspec.structs.replace(RECORD, retired=(RetiredRevision("z.x", 4000.0),))
    seen = found(web("z.x", ("argocd", 10, REVISION)), record)
    assert seen is not None
    assert seen.kind is ConflictKind.OVERWRITTEN


def test_each_write_has_its_own_mark() -> None:
    """What is taken back again after the next rollout is told again."""
    later = msgspec.structs.replace(RECORD, revision="k.later")
    first, second = found(web("")), found(web(""), later)
    assert first is not None
    assert second is not None
    assert first.mark != second.mark
    assert first.reason == second.reason


# -- what follows ------------------------------------------------------------------------------

ROLLOUT = Plan(
    Verdict.FROZEN,
    (Action(ActionType.ROLLOUT),),
    "LEVEL changed: rolling out",
    "LEVEL changed",
    settles=True,
)
NUDGE = Plan(Verdict.LIVE, (Action(ActionType.NUDGE),), "files changed: refreshed", settles=True)
NOTHING = Plan(Verdict.UP_TO_DATE, (), "is unchanged", settles=True, confirms=True)
WAITING = Plan(Verdict.WAIT, (), "its rollout runs", requeue_after=1.0)
BRAKED = ROLLOUT._replace(actions=(), settles=False, warning=True, requeue_after=300.0)

REMOVED = WriterConflict(ConflictKind.REMOVED, "it was removed", "removed k.now")
OTHER = WriterConflict(ConflictKind.HOTMAP, "another one rolls it", "hotmap z.x", NOW + 60)


def test_no_writes_no_conflict() -> None:
    """Without interference a plan stays as it is."""
    assert defer_to(ROLLOUT, None, reported=False, now=NOW) is ROLLOUT


def test_removed_revision_is_written_with_next_change() -> None:
    """A change is acted on as ever; where nothing changed, nothing is done but telling."""
    assert defer_to(ROLLOUT, REMOVED, reported=True, now=NOW) is ROLLOUT
    changed = defer_to(ROLLOUT, REMOVED, reported=False, now=NOW)
    assert changed == ROLLOUT._replace(reason="LEVEL changed: rolling out; it was removed")
    quiet = defer_to(NOTHING, REMOVED, reported=False, now=NOW)
    assert quiet == NOTHING._replace(reason="it was removed", confirms=False)
    assert defer_to(NOTHING, REMOVED, reported=True, now=NOW) is NOTHING


def test_rollout_is_left_to_other_writer() -> None:
    """It is held until the other has had its time, reported or not, and then made again."""
    for reported in (False, True):
        held = defer_to(ROLLOUT, OTHER, reported=reported, now=NOW)
        assert held == Plan(
            Verdict.FROZEN,
            (),
            "LEVEL changed: rollout suppressed: another one rolls it",
            "LEVEL changed",
            settles=False,
            warning=True,
            requeue_after=60.0,
        )
    assert defer_to(ROLLOUT, OTHER, reported=True, now=NOW + 60) is ROLLOUT


def test_files_are_nudged_beside_other_writer() -> None:
    """A nudge disrupts no pods, so it is never suppressed."""
    assert defer_to(NUDGE, OTHER, reported=True, now=NOW) is NUDGE
    assert defer_to(WAITING, OTHER, reported=False, now=NOW).requeue_after == 1.0


def test_flap_breaker_names_the_other_writer() -> None:
    """A suppression for too many rollouts names the writer that reverts them."""
    assert defer_to(BRAKED, REMOVED, reported=True, now=NOW).reason.endswith("; it was removed")


def test_reason_of_reloaders_mark_names_both_who_write_it() -> None:
    """Another hotmap with --reloader-compat writes as Reloader; then there is none to look for."""
    seen = found(web("k.now", ("hotmap", 10, REVISION), ("Reloader", 4900, VARIABLE)))
    assert seen is not None
    assert "Reloader also rolls it out, or another hotmap with a strategy of" in seen.reason
