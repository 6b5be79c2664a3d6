"""What is recorded of a workload at first sight, before its settle time is over."""

from __future__ import annotations

import pytest
from tests.support.objects import ENV, config_map, deployment, snapshot

from hotmap.core.decide.decide import decide
from hotmap.core.decide.record import Outcome, first_record, next_record
from hotmap.core.decide.snapshot import TemplateChange
from hotmap.core.model.objects import ConfigMap
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
