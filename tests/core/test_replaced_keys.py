"""What a record keeps of content that is gone when the fingerprint key is replaced."""

from __future__ import annotations

from tests.core.freshness import B_FROZEN, B_LIVE, A, app, applied_record, deployment
from tests.support.objects import ENV, ENV_AND_FILES, KEY

from hotmap.core.decide.assessment import Verdict
from hotmap.core.decide.decide import decide
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.record import Outcome, next_record
from hotmap.core.decide.snapshot import take_snapshot
from hotmap.core.fingerprint import fingerprint_key
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ConfigMap
from hotmap.core.model.source import source_from_config_map
from hotmap.core.model.state import Record
from hotmap.core.policy.policy import Policy

NEW = fingerprint_key(b"a new key for tests")


def decide_with_both_keys(
    who: Consumer, record: Record, item: ConfigMap, changed_at: float | None = None
) -> Decision:
    """Decide on a consumer whose record was made with the older key.

    `changed_at` is when the source was observed to change, if it was.
    """
    source = source_from_config_map(item, [NEW, KEY])
    taken = take_snapshot(
        who,
        Policy(opted_in=True),
        record,
        uses=tuple(who.uses),
        sources={source.key: source},
        keys=[NEW, KEY],
        now=1000,
    )
    if changed_at is not None:
        observed = (each._replace(changed_at=changed_at) for each in taken.sources)
        taken = taken._replace(sources=tuple(observed))
    return decide(taken)


def after(decision: Decision) -> Record:
    record = next_record(decision, Outcome(decision.snapshot.consumer.generation, "", 1000))
    assert record is not None
    return record


def test_record_is_made_with_the_new_key() -> None:
    """Where all that it has is still there."""
    record = applied_record(deployment(ENV), app(A))
    assert after(decide_with_both_keys(deployment(ENV), record, app(A))).key_id == NEW.id


def test_time_of_an_observed_change_is_kept() -> None:
    """The object does not show when a data key was removed."""
    record = applied_record(deployment(ENV), app(A))
    edited = app(B_FROZEN, version=2, changed_at=500)
    decision = decide_with_both_keys(deployment(ENV), record, edited, changed_at=900.0)
    made = after(decision)
    assert (made.key_id, made.sources[0].changed_by) == (NEW.id, 900.0)


def test_content_that_kubelets_serve_is_compared_after_the_key_is_replaced() -> None:
    """An immutable source was recreated with other content, of which nothing was used at first."""
    record = applied_record(deployment(ENV), app(A, immutable=True))
    successor = app(B_LIVE, uid="uid-2", version=2)
    record = after(decide_with_both_keys(deployment(ENV), record, successor))
    assert record.key_id == KEY.id
    uses_more = deployment(ENV_AND_FILES, generation=2)
    assert decide_with_both_keys(uses_more, record, successor).plan.verdict is Verdict.HOLD
