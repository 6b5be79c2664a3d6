"""What is recorded of an assessment, and how content is named."""

from __future__ import annotations

import pytest
from tests.core.freshness import (
    B_BOTH,
    B_FROZEN,
    B_LIVE,
    OPTIONAL_BOTH,
    REQUIRED,
    A,
    app,
    applied_record,
    assess_change,
    deployment,
    record_after,
)
from tests.support.objects import (
    ENV_AND_FILES,
    KEY,
    sources,
)

from hotmap.core.decide.assessment import Verdict
from hotmap.core.decide.record import record_applied
from hotmap.core.decide.revisions import desired_target, recorded_target, revision_of
from hotmap.core.decide.source_snapshot import take_snapshots
from hotmap.core.fingerprint import fingerprint_key


@pytest.mark.parametrize("spec", [*REQUIRED, OPTIONAL_BOTH])
@pytest.mark.parametrize("data", [A, B_LIVE, B_FROZEN, B_BOTH])
def test_applied_content_is_fresh(spec: str, data: dict[str, str]) -> None:
    """After an action, judging the same content again finds nothing to do."""
    who = deployment(spec)
    before, now = applied_record(who, app()), [app(data, version=2)]
    record = record_after(who, before, assess_change(who, before, now))
    assert assess_change(who, record, now).verdict is Verdict.UP_TO_DATE


def test_record_under_another_key_is_not_mixed_in() -> None:
    """Fingerprints of two keys never stand in one record; what cannot be carried over goes."""
    who = deployment()
    old = applied_record(who, app())
    other = fingerprint_key(b"another key")
    gone = assess_change(who, old, [])
    record = record_applied(who, old, gone.findings, key_id=other.id, generation=1)
    assert record.key_id == other.id
    assert [source.frozen for source in record.sources] == ["-"]


@pytest.mark.parametrize("spec", [*REQUIRED, OPTIONAL_BOTH])
@pytest.mark.parametrize("data", [A, B_LIVE, B_FROZEN, B_BOTH])
def test_targets_of_applied_and_current_content_are_comparable(
    spec: str, data: dict[str, str]
) -> None:
    """Frozen and live content are announced apart, each equal if it is unchanged."""
    who = deployment(spec)
    snapshots = take_snapshots(who.uses, sources(app(data, version=2)), KEY)
    applied = recorded_target(applied_record(who, app()), snapshots, KEY, uid=who.uid)
    current = desired_target(snapshots, KEY, uid=who.uid)
    (before,) = take_snapshots(who.uses, sources(app()), KEY)
    assert applied is not None
    assert (applied.live == current.live) is (before.live == snapshots[0].live)
    assert (applied.frozen == current.frozen) is (before.frozen == snapshots[0].frozen)


@pytest.mark.parametrize(
    ("first", "other", "same"),
    [
        pytest.param((A, False), (A, False), True, id="equal"),
        pytest.param((A, False), (A | {"x": ""}, False), True, id="an unused data key"),
        pytest.param((A, False), (B_FROZEN, False), False, id="frozen"),
        pytest.param((A, False), (B_LIVE, False), True, id="live does not count"),
        pytest.param((A, True), (B_LIVE, True), False, id="… but where a live change rolls"),
    ],
)
def test_revision_names_content(
    first: tuple[dict[str, str], bool], other: tuple[dict[str, str], bool], same: bool
) -> None:
    """The same content gives the same name, so a revert returns to the earlier ReplicaSet."""

    def revision(data: dict[str, str], live_needs_rollout: bool) -> str:
        snapshots = take_snapshots(deployment(ENV_AND_FILES).uses, sources(app(data)), KEY)
        return revision_of(snapshots, KEY, uid="u", live_needs_rollout=live_needs_rollout)

    assert (revision(*first) == revision(*other)) is same
    assert revision(*first).startswith(f"{KEY.id}.")


def test_revision_is_bound_to_its_consumer() -> None:
    """Two consumers of the same content have different revisions: a clone is not up to date."""
    snapshots = take_snapshots(deployment().uses, sources(app()), KEY)
    revisions = {
        revision_of(snapshots, KEY, uid=uid, live_needs_rollout=False) for uid in ("u", "v")
    }
    assert len(revisions) == 2


def test_image_pull_secrets_are_not_in_snapshots() -> None:
    """A Secret that only pulls images is nothing to be fresh of."""
    who = deployment("{containers: [{name: web}], imagePullSecrets: [{name: registry}]}")
    assert take_snapshots(who.uses, {}, KEY) == ()
