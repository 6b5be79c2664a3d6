"""What has survived a full garbage collection is not visited by the next."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from tests.support.clocks import Clock

from hotmap.local.garbage_collector import CollectorPauses


@pytest.fixture
def clock() -> Iterator[Clock]:
    clock = Clock(0.0)
    pauses = CollectorPauses(clock=clock)
    gc.callbacks.append(pauses)
    yield clock
    gc.callbacks.remove(pauses)
    gc.unfreeze()


class _Cycle:
    def __init__(self) -> None:
        self.itself = self


def _cycles() -> int:
    return sum(type(obj) is _Cycle for obj in gc.get_objects())


def test_full_collection_sets_survivors_aside(clock: Clock) -> None:
    """Objects that survived are no longer visited; new garbage is still found."""
    kept = _Cycle()
    gc.collect()
    assert kept.itself is kept
    assert _cycles() == 0
    _Cycle()
    assert _cycles() == 1
    gc.collect()
    assert _cycles() == 0


def test_full_collection_visits_everything_now_and_then(clock: Clock) -> None:
    """A cycle that became garbage after it was set aside is freed after ten minutes."""
    kept: list[_Cycle] = [_Cycle()]
    gc.collect()
    kept.clear()
    frozen = gc.get_freeze_count()
    clock.now = 599.0
    gc.collect()
    assert gc.get_freeze_count() >= frozen
    clock.now = 600.0
    gc.collect()
    gc.unfreeze()
    assert _cycles() == 0
