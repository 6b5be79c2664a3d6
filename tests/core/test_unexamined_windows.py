"""What changed while no controller watched is kept with the record until pods were examined.

Only the controller that listed the sources after that time knows of it; should it end before it has
decided, the next one knows nothing but the record.
"""

from __future__ import annotations

import msgspec
import pytest
from tests.core.freshness import A, app, applied_record
from tests.support.objects import ENV, KEY, deployment, pod, sources

from hotmap.core.decide.decide import decide
from hotmap.core.decide.decision import Decision
from hotmap.core.decide.plan import ActionType
from hotmap.core.decide.pod_starts import pod_starts
from hotmap.core.decide.record import Outcome, merge_windows, next_record, with_windows
from hotmap.core.decide.snapshot import Snapshot, take_snapshot
from hotmap.core.decide.source_changes import (
    SourceHistory,
    WatchGap,
    add_changes,
)
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.state import Record, Window, records_by_source
from hotmap.core.policy.policy import Policy

GAP = WatchGap(400.0, 500.0)
WINDOW = Window(400.0, 451.0)


def snapshot(
    who: Consumer, record: Record, data: dict[str, str] | None = None, *, now: float = 510.0
) -> Snapshot:
    """Take the snapshot of a consumer whose source was written while no controller watched."""
    found = sources(app(A if data is None else data, version=7, changed_at=450.0))
    taken = take_snapshot(
        who,
        Policy(opted_in=True, settle=5.0, settle_max=5.0),
        record,
        uses=tuple(who.uses),
        sources=found,
        keys=[KEY],
        now=now,
    )
    known, history = records_by_source(record), SourceHistory(gap=GAP)
    return taken._replace(
        sources=tuple(
            add_changes(source, known.get(source.source.kind_and_name), history, is_known=True)
            for source in taken.sources
        )
    )


def after(decision: Decision) -> Record:
    consumer = decision.snapshot.consumer
    made = next_record(decision, Outcome(consumer.generation, consumer.revision, 510.0))
    assert made is not None
    return made


def test_window_is_kept_while_the_own_rollout_of_the_consumer_is_waited_for() -> None:
    """A crash of the controller in that minute loses nothing."""
    who = deployment(ENV, rolling=True)
    record = after(decide(snapshot(who, applied_record(who, app()))))
    assert record.windows == (WINDOW,)
    assert after(decide(snapshot(who, record))).windows == (WINDOW,)


def test_kept_window_replaces_a_pod_that_started_in_it() -> None:
    """The next controller has listed the same version, and examines the pods all the same."""
    who = deployment(ENV)
    kept = msgspec.structs.replace(applied_record(who, app(version=7)), windows=(WINDOW,))
    taken = snapshot(who, kept)
    assert taken.sources[0].changes.window is None
    assert decide(taken).needs_pod_starts
    decision = decide(taken, pod_starts(who, [pod("web-0", started=430.0)]))
    assert [action.type for action in decision.plan.actions] == [ActionType.ROLLOUT]


def test_kept_window_is_dropped_once_it_was_examined() -> None:
    """Every pod started before it or after it."""
    who = deployment(ENV)
    kept = msgspec.structs.replace(applied_record(who, app(version=7)), windows=(WINDOW,))
    starts = pod_starts(who, [pod("web-0", started=300.0), pod("web-1", started=490.0)])
    assert after(decide(snapshot(who, kept), starts)).windows == ()


def test_window_is_kept_while_a_source_is_held() -> None:
    """New pods could not start; once they can, those that started in it are replaced."""
    who = deployment(ENV)
    decision = decide(snapshot(who, applied_record(who, app()), {"other": "1"}))
    assert decision.plan.settles
    # A removal moved no time, so it may have come until the source was listed.
    assert after(decision).windows == (Window(400.0, 500.0),)


def test_window_is_kept_while_a_change_settles() -> None:
    """The change may be taken back before it is carried out."""
    who = deployment(ENV)
    record = applied_record(who, app())
    decision = decide(snapshot(who, record, {"LEVEL": "debug"}, now=452.0))
    assert decision.starts_new_pods
    assert with_windows(record, decision).windows == (WINDOW,)


@pytest.mark.parametrize(
    ("windows", "merged"),
    [
        ([], []),
        ([(1, 2), (5, 6)], [(1, 2), (5, 6)]),
        ([(5, 6), (1, 2), (2, 3)], [(1, 3), (5, 6)]),
        ([(1, 9), (2, 3)], [(1, 9)]),
        ([(n, n + 0.5) for n in range(10)], [(0, 2.5), *((n, n + 0.5) for n in range(3, 10))]),
    ],
)
def test_windows_are_merged(
    windows: list[tuple[float, float]], merged: list[tuple[float, float]]
) -> None:
    """Overlapping ones become one, and the first ones of too many."""
    assert merge_windows(Window(*window) for window in windows) == tuple(
        Window(*item) for item in merged
    )
