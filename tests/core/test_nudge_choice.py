"""Which pods are nudged: those that were last told of other content, or may have had it since."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from tests.core.freshness import app, applied_record
from tests.support.calls import count_calls
from tests.support.objects import FILES, deployment, pod, snapshot, timestamp

from hotmap.core.decide.nudge_choice import (
    choose_new,
    spread_over_nodes,
    was_just_nudged,
    with_content_before,
)
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.decide.source_snapshot import ChangeSummary
from hotmap.core.model.consumer import FIELD_MANAGER
from hotmap.core.model.objects import ManagedFields, Pod
from hotmap.core.model.state import Window
from hotmap.core.target import TARGET, Target

#: When the files were last edited, POSIX seconds.
EDITED = 1000.0


def taken(*, returned_at: float | None = None) -> Snapshot:
    """Take a snapshot after an edit; or after one that was reverted at a time."""
    who = deployment(FILES)
    before = app({"LEVEL": "info"}, changed_at=0)
    if returned_at is None:
        now, changes = app({"LEVEL": "debug"}, version=2, changed_at=EDITED), ChangeSummary()
    else:
        now = app({"LEVEL": "info"}, version=3, changed_at=returned_at)
        changes = ChangeSummary(first=EDITED, window=Window(EDITED, returned_at))
    found = snapshot(who, now, record=applied_record(who, before))
    return found._replace(sources=(found.sources[0]._replace(changes=changes),))


def nudged(target: Target | None, at: float, *, created: float = 100.0) -> Pod:
    """Make a pod that was last told of a target at a time; None: of nothing."""
    made = pod(started=created)
    if target is None:
        return made
    entry = ManagedFields(manager=FIELD_MANAGER, time=timestamp(at))
    metadata = msgspec.structs.replace(
        made.metadata, annotations={TARGET: str(target)}, managed_fields=[entry]
    )
    return msgspec.structs.replace(made, metadata=metadata)


OTHER = Target(3, "other", "-")


@pytest.mark.parametrize(
    ("told", "at", "is_first", "chosen"),
    [
        pytest.param("nothing", 0, False, True, id="of nothing, so it has what is recorded"),
        pytest.param("applied", 900, False, True, id="of the content before"),
        pytest.param("other", 1001, False, True, id="of content that is not recorded"),
        pytest.param("desired", 1001, False, False, id="of the desired content"),
        pytest.param("desired", 900, False, False, id="in this term, before the last change"),
        pytest.param("desired", 900, True, True, id="by a leader before, before that change"),
        pytest.param("desired", 1000, True, False, id="by a leader before, perhaps after it"),
    ],
)
def test_pods_are_chosen_by_what_they_were_told(
    told: str, at: float, is_first: bool, chosen: bool
) -> None:
    found = taken()
    targets = {"applied": found.recorded_target, "desired": found.target, "other": OTHER}
    item = nudged(targets.get(told), at)
    result = choose_new([item], found, found.target, is_first=is_first)
    assert result == ({item.metadata.uid} if chosen else set())


@pytest.mark.parametrize(
    ("item", "chosen"),
    [
        pytest.param(nudged(None, 0, created=900), True, id="created before the edit"),
        pytest.param(nudged(None, 0, created=1005), True, id="created before the revert"),
        pytest.param(nudged(None, 0, created=1011), True, id="created perhaps before the revert"),
        pytest.param(nudged(None, 0, created=1012), False, id="created after it"),
        pytest.param(pod(created=1013), True, id="not acknowledged by its kubelet yet"),
        pytest.param(nudged(Target(1, "", ""), 1005), True, id="told before the revert"),
        pytest.param(nudged(Target(1, "", ""), 1013), False, id="told after it"),
    ],
)
def test_pods_that_may_have_files_of_a_reverted_edit_are_chosen(item: Pod, chosen: bool) -> None:
    """They were told of the content that has returned, or started with it."""
    found = taken(returned_at=1010.0)
    if told := item.metadata.annotations:
        told[TARGET] = str(found.target)
    assert bool(choose_new([item], found, found.target, is_first=False)) is chosen


def test_reverted_edit_of_a_source_without_files_needs_no_nudge() -> None:
    """What a container has read at its start is not updated."""
    found = taken(returned_at=1010.0)
    at_start = found.sources[0]._replace(live="")
    told = nudged(found.target, 1005)
    assert not choose_new([told], found._replace(sources=(at_start,)), found.target, is_first=False)


def test_pods_after_many_reverted_edits_are_chosen_quickly() -> None:
    """Whatever holds for all pods is computed once: a namespace must not take the event loop."""
    found = taken(returned_at=1010.0)
    assert found.record is not None
    (source,), (recorded,) = found.sources, found.record.sources
    names = [f"app-{number}" for number in range(100)]
    found = found._replace(
        sources=tuple(source._replace(source=source.source._replace(name=name)) for name in names),
        record=msgspec.structs.replace(
            found.record, sources=tuple(msgspec.structs.replace(recorded, name=n) for n in names)
        ),
    )
    pods = [nudged(found.target, 1005) for _ in range(100)]
    assert count_calls(lambda: choose_new(pods, found, found.target, is_first=True)) < 20_000


@pytest.mark.parametrize(
    ("at", "recent"), [(991.0, True), (990.0, False)], ids=["9 s ago", "10 s ago"]
)
def test_second_nudge_of_a_pod_may_be_missing(at: float, recent: bool) -> None:
    assert was_just_nudged(nudged(OTHER, at), 1000.0) is recent
    assert not was_just_nudged(nudged(None, at), 1000.0)


def test_each_nudge_names_what_the_pod_started_with() -> None:
    """It is that of the record at the first nudge, and of the nudge before at each later one."""
    desired, recorded = Target(0, "new", "-"), Target(0, "old", "-")
    first = with_content_before(desired, None, recorded)
    assert (first.live, first.live_before) == ("new", "old")
    second = with_content_before(desired._replace(live="newer"), first, desired)
    assert (second.live, second.live_before) == ("newer", "old")
    assert with_content_before(desired, None, None) == desired


def test_neighbours_in_the_order_are_on_different_nodes() -> None:
    """Ten pods on one node and two on another: each node has every second turn at first."""
    nodes = ["a"] * 10 + ["b"] * 2
    pods = []
    for number, node in enumerate(nodes):
        made = pod(f"web-{number}")
        pods.append(
            msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, node_name=node))
        )
    order = [item.spec.node_name for item in spread_over_nodes(pods)]
    assert Counter(order) == Counter(nodes)
    assert sorted(order[:4]) == ["a", "a", "b", "b"]
    assert order[0] != order[1]
