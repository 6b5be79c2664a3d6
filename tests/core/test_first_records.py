"""What is recorded of a workload at first sight, before its settle time is over."""

from __future__ import annotations

import pytest
from tests.support.objects import ENV, config_map, deployment, snapshot

from hotmap.core.decide.decide import decide
from hotmap.core.decide.record import Outcome, first_record, next_record
from hotmap.core.decide.snapshot import Snapshot, TemplateChange
from hotmap.core.decide.source_changes import bound_change
from hotmap.core.decide.source_snapshot import ChangeSummary
from hotmap.core.model.objects import ConfigMap
from hotmap.core.model.state import Record
from hotmap.core.policy.policy import Policy

#: A pod spec that reads two ConfigMaps when its container starts.
TWO = ENV + "      envFrom: [{configMapRef: {name: other}}]\n"
WEB, FOLLOWED = deployment(TWO), Policy(opted_in=True, auto=frozenset(("ConfigMap",)))


def app(level: str = "info", *, changed_at: float | None = 100.0) -> ConfigMap:
    return config_map("app", {"LEVEL": level}, changed_at=changed_at)


def other(*, changed_at: float | None = 100.0) -> ConfigMap:
    return config_map("other", {"x": "1"}, changed_at=changed_at)


@pytest.mark.parametrize(
    ("items", "since"),
    [
        pytest.param((app(), other()), 990.0, id="created after both"),
        pytest.param((app(changed_at=988), other()), 990.0, id="just after one of them"),
        pytest.param((app(changed_at=989), other()), 0.0, id="within the margin of one"),
        pytest.param((app(), other(changed_at=995)), 0.0, id="one changed later"),
        pytest.param((app(), other(changed_at=None)), 0.0, id="one changed at an unknown time"),
    ],
)
def test_creation_after_every_change_proves_the_pods(
    items: tuple[ConfigMap, ...], since: float
) -> None:
    created = TemplateChange(990.0, 1, created=True)
    record = first_record(decide(snapshot(WEB, *items, policy=FOLLOWED, template=created)))
    assert record is not None
    assert record.proven_since == since


#: A pod spec that reads one ConfigMap, and another one if it exists.
OPTIONAL = TWO.replace("{name: other}", "{name: other, optional: true}")


@pytest.mark.parametrize(
    ("deleted_at", "since"),
    [
        pytest.param(None, 990.0, id="has never existed"),
        pytest.param(950.0, 990.0, id="deleted long before"),
        pytest.param(989.9, 990.0, id="deleted just before"),
        pytest.param(990.1, 0.0, id="deleted afterwards"),
    ],
)
def test_absent_optional_source_does_not_weaken_the_proof_of_pods(
    deleted_at: float | None, since: float
) -> None:
    who = deployment(OPTIONAL)
    created = TemplateChange(990.0, 1, created=True)
    deleted = ChangeSummary(latest=deleted_at, last=deleted_at)

    def taken(record: Record | None) -> Snapshot:
        found = snapshot(who, app(), record=record, policy=FOLLOWED, template=created)
        sources = (
            s if s.exists else bound_change(s._replace(changes=deleted), None)
            for s in found.sources
        )
        return found._replace(sources=tuple(sources))

    record = first_record(decide(taken(None)))
    assert record is not None
    assert record.proven_since == since
    following = next_record(decide(taken(record)), Outcome(who.generation, "", 991.0))
    assert following is not None
    assert {source.name for source in following.sources} == {"app", "other"}
    assert following.proven_since == since


def test_absent_optional_source_is_said_to_be_missing() -> None:
    taken = snapshot(deployment(OPTIONAL), app(), policy=FOLLOWED)
    assert decide(taken).assessment.reason == (
        "ConfigMap shop/app is new to hotmap: now tracking; "
        "ConfigMap shop/other does not exist, and is not required: now tracking"
    )


def test_optional_source_that_came_and_went_since_the_creation_ends_the_proof() -> None:
    """A pod may have started with it."""
    who = deployment(OPTIONAL)
    created = TemplateChange(990.0, 1, created=True)
    record = first_record(decide(snapshot(who, app(), policy=FOLLOWED, template=created)))
    assert record is not None
    later = snapshot(who, app(), record=record, policy=FOLLOWED, template=created)
    deleted = ChangeSummary(last=990.4, latest=990.4)
    later = later._replace(
        sources=tuple(s if s.exists else s._replace(changes=deleted) for s in later.sources)
    )
    following = next_record(decide(later), Outcome(who.generation, "", 991.0))
    assert following is not None
    assert following.proven_since == 0.0


@pytest.mark.parametrize(
    ("before", "recorded"),
    [
        pytest.param("info", {"app", "other"}, id="the deleted one had this content"),
        pytest.param("debug", set(), id="it had other content"),
    ],
)
def test_successor_of_a_deleted_workload_is_recorded_as_a_whole(
    before: str, recorded: set[str]
) -> None:
    """It may have adopted pods of the deleted one, so its pods are checked first."""
    first = decide(snapshot(WEB, app(before), other(), policy=FOLLOWED))
    predecessor = next_record(first, Outcome(WEB.generation, "", 900.0))
    taken = snapshot(WEB, app(), other(), policy=FOLLOWED, predecessor=predecessor)
    record = first_record(decide(taken))
    assert {source.name for source in (record.sources if record else ())} == recorded
