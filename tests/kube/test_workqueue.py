"""The work queue: each key once, when it is due, and never in two workers at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.clocks import Clock

from hotmap.kube.workqueue import QueueShutDown, WorkQueue


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> WorkQueue[str]:
    """A queue whose retry pauses are the longest that may be drawn."""
    return WorkQueue(clock=clock, uniform=lambda low, high: high)


def due(queue: WorkQueue[str]) -> list[str]:
    """Take everything that is due now, as one worker after the other would."""
    keys = []
    with contextlib.suppress(asyncio.QueueEmpty):
        while True:
            keys.append(queue.get_nowait())
    for key in keys:
        queue.done(key)
    return keys


def test_key_added_twice_is_processed_once(queue: WorkQueue[str]) -> None:
    """Repetition before a worker comes asks for nothing more."""
    queue.add("a")
    queue.add("b")
    queue.add("a")
    assert due(queue) == ["a", "b"]
    assert due(queue) == []


def test_key_added_during_processing_is_processed_again(queue: WorkQueue[str]) -> None:
    """The worker may have read what was before the change; no second worker joins it."""
    queue.add("a")
    assert queue.get_nowait() == "a"
    queue.add("a")
    with pytest.raises(asyncio.QueueEmpty):
        queue.get_nowait()
    queue.done("a")
    assert queue.get_nowait() == "a"


async def test_keys_that_are_due_later_set_no_timer(
    queue: WorkQueue[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit of one source may add thousands of keys at a time; one that is due sooner does."""
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    delays: list[float] = []

    def call_later(delay: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        delays.append(delay)
        return loop.call_at(loop.time() + delay, callback)

    monkeypatch.setattr(loop, "call_later", call_later)
    for number in range(100):
        queue.add_settled(f"{number}", settle=5.0 + number, settle_max=500.0)
    queue.add_after("soon", 2.0)
    assert delays == [5.0, 2.0]
    worker.cancel()


def test_groups_take_turns(clock: Clock) -> None:
    """A thousand keys of one delay no other, and within a group the order stays."""
    queue: WorkQueue[str] = WorkQueue(clock=clock, group=lambda key: key[0])
    for number in range(1000):
        queue.add(f"a{number}")
    queue.add("b0")
    queue.add("b1")
    queue.add("c0")
    assert queue.statistics().ready == 1003
    assert due(queue)[:7] == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]
    assert queue.statistics().ready == 0


def test_group_whose_keys_workers_have_is_passed_over(clock: Clock) -> None:
    """Its keys were added again meanwhile; the turn is the next group's."""
    queue: WorkQueue[str] = WorkQueue(clock=clock, group=lambda key: key[0])
    queue.add("a")
    assert queue.get_nowait() == "a"
    queue.add("a")
    queue.add("b")
    assert queue.get_nowait() == "b"
    with pytest.raises(asyncio.QueueEmpty):
        queue.get_nowait()
    queue.done("a")
    assert queue.get_nowait() == "a"


def test_groups_leave_some_workers_to_those_that_have_none(clock: Clock) -> None:
    """Keys that take long, of one group or of several, do not occupy all of them."""
    queue: WorkQueue[str] = WorkQueue(clock=clock, group=lambda key: key[0], most=3)
    for key in ("a1", "a2", "a3", "b1", "b2"):
        queue.add(key)
    assert [queue.get_nowait() for _ in range(3)] == ["a1", "b1", "a2"]
    with pytest.raises(asyncio.QueueEmpty):
        queue.get_nowait()
    queue.add("c1")
    assert queue.get_nowait() == "c1"
    queue.done("c1")
    with pytest.raises(asyncio.QueueEmpty):
        queue.get_nowait()
    queue.done("a2")
    assert queue.get_nowait() == "b2"
    queue.done("b1")
    assert queue.get_nowait() == "a3"
    assert len(queue) == 0


def test_key_that_no_worker_may_take_does_not_wait_for_one(clock: Clock) -> None:
    """Else one group that is always added again would hold up what waits for a calm queue."""
    queue: WorkQueue[str] = WorkQueue(clock=clock, group=lambda key: key[0], most=1)
    queue.add("a1")
    assert queue.has_ready()
    queue.get_nowait()
    queue.add("a1")
    queue.add("a2")
    assert not queue.has_ready()
    queue.add("b1")
    assert queue.has_ready()


async def test_worker_is_woken_when_its_group_may_have_more() -> None:
    queue: WorkQueue[str] = WorkQueue(group=lambda key: key[0], most=1)
    queue.add("a1")
    assert await queue.get() == "a1"
    queue.add("a2")
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    queue.done("a1")
    async with asyncio.timeout(5):
        assert await waiting == "a2"


def test_settled_key_waits_for_quiet(queue: WorkQueue[str], clock: Clock) -> None:
    """Every further change starts the quiet time again."""
    for _ in range(3):
        queue.add_settled("a", settle=2, settle_max=100)
        clock.now += 1.5
        assert due(queue) == []
    clock.now += 0.5
    assert due(queue) == ["a"]


def test_settle_time_is_bounded(queue: WorkQueue[str], clock: Clock) -> None:
    """A source that never rests is acted on `settle_max` after its first change."""
    for _ in range(9):
        queue.add_settled("a", settle=2, settle_max=10)
        clock.now += 1
        assert due(queue) == []
    queue.add_settled("a", settle=2, settle_max=10)
    clock.now += 1
    assert due(queue) == ["a"]


def test_key_is_pending_until_it_is_processed_or_retried_later(
    queue: WorkQueue[str], clock: Clock
) -> None:
    """Due, settling or with a worker; not while only a retry or a recheck is planned."""
    assert not queue.is_pending("a")
    queue.add_settled("a", settle=2, settle_max=10)
    assert queue.is_pending("a")
    queue.add("a")
    assert queue.is_pending("a")
    assert queue.get_nowait() == "a"
    assert queue.is_pending("a")
    pause = queue.retry("a")
    queue.done("a")
    assert not queue.is_pending("a")
    clock.now += pause
    assert queue.is_pending("a")


def test_settle_time_restarts_after_delivery(queue: WorkQueue[str], clock: Clock) -> None:
    """The bound counts from the first change that was not acted on yet."""
    queue.add_settled("a", settle=2, settle_max=3)
    clock.now += 2
    assert due(queue) == ["a"]
    queue.add_settled("a", settle=2, settle_max=3)
    clock.now += 1.9
    assert due(queue) == []
    clock.now += 0.1
    assert due(queue) == ["a"]


def test_settle_time_that_is_left(queue: WorkQueue[str], clock: Clock) -> None:
    """None where a key waits for something else, or is due."""
    queue.add_after("later", 5)
    queue.add_settled("a", settle=2, settle_max=3)
    clock.now += 1.5
    queue.add_settled("a", settle=2, settle_max=3)
    assert queue.settles_in("a") == 1.5
    assert queue.settles_in("later") is None
    assert queue.settles_in("unknown") is None
    queue.add("a")
    assert queue.settles_in("a") is None


def test_add_ends_the_settle_time(queue: WorkQueue[str]) -> None:
    """Who asks for a key by name does not wait."""
    queue.add_settled("a", settle=2, settle_max=10)
    queue.add("a")
    assert due(queue) == ["a"]


def test_delayed_add_keeps_the_settle_time(queue: WorkQueue[str], clock: Clock) -> None:
    """A retry or a second look during a burst of changes would act on half of it."""
    queue.add_after("a", 0.5)
    queue.add_settled("a", settle=2, settle_max=10)
    queue.add_after("a", 0.1)
    clock.now += 1.9
    assert due(queue) == []
    clock.now += 0.1
    assert due(queue) == ["a"]
    clock.now += 10
    assert due(queue) == []


def test_earliest_of_several_delays_counts(queue: WorkQueue[str], clock: Clock) -> None:
    """A later time neither postpones nor repeats an earlier one."""
    queue.add_after("a", 5)
    queue.add_after("a", 1)
    queue.add_after("a", 3)
    clock.now += 1
    assert due(queue) == ["a"]
    clock.now += 100
    assert due(queue) == []


def test_backoff_grows_until_success(queue: WorkQueue[str], clock: Clock) -> None:
    """From 0.2 s to 5 min, each at most three times the one before; `forget` starts again."""
    pauses = [queue.retry("a") for _ in range(9)]
    assert pauses == pytest.approx([0.6, 1.8, 5.4, 16.2, 48.6, 145.8, 300, 300, 300])
    clock.now += 0.6
    assert due(queue) == ["a"]
    queue.forget("a")
    assert queue.retry("a") == pytest.approx(0.6)


def test_retry_honours_retry_after(queue: WorkQueue[str], clock: Clock) -> None:
    """A Retry-After counts where it is longer, up to the longest pause of ours."""
    assert queue.retry("a", least=0.1) == pytest.approx(0.6)
    assert queue.retry("a", least=30) == 30
    assert queue.retry("a", least=3600) == 300


def test_statistics_count_keys_by_state(queue: WorkQueue[str], clock: Clock) -> None:
    """A key that is due waits for a worker; one with a time to come waits for that."""
    queue.add("a")
    queue.add("b")
    queue.add_after("c", 60)
    queue.get_nowait()
    clock.now += 7
    statistics = queue.statistics()
    assert (statistics.ready, statistics.waiting, statistics.processing) == (1, 1, 1)
    assert (statistics.adds, statistics.delivered) == (3, 1)


async def test_waiting_worker_is_woken_when_its_key_falls_due() -> None:
    """By an add at once, by a delayed add when its time has come."""
    queue: WorkQueue[str] = WorkQueue()
    async with asyncio.timeout(60):
        worker = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        assert await worker == "a"
        queue.done("a")
        queue.add_after("late", 0.05)
        queue.add_after("soon", 0.01)
        assert [await queue.get(), await queue.get()] == ["soon", "late"]


async def test_workers_share_keys() -> None:
    """Every key is worked on, none by two workers at once, and re-added ones once more."""
    queue: WorkQueue[int] = WorkQueue()
    busy: set[int] = set()
    worked: list[int] = []
    half = asyncio.Event()

    async def work() -> None:
        while True:
            key = await queue.get()
            assert key not in busy
            busy.add(key)
            await asyncio.sleep(0)
            busy.remove(key)
            worked.append(key)
            queue.done(key)
            if len(worked) == 30:
                half.set()
            if len(worked) == 60:
                queue.shutdown()

    async with asyncio.timeout(60):
        workers = [asyncio.create_task(work()) for _ in range(5)]
        for key in range(30):
            queue.add(key)
        await half.wait()
        for key in range(30):
            queue.add_after(key, 0.001)
        results = await asyncio.gather(*workers, return_exceptions=True)
    assert sorted(worked) == sorted([*range(30), *range(30)])
    assert all(isinstance(result, QueueShutDown) for result in results)


async def test_cancelled_worker_passes_its_wake_up_on() -> None:
    """The key it was woken for goes to the next worker."""
    queue: WorkQueue[str] = WorkQueue()
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    async with asyncio.timeout(60):
        assert await second == "a"
    assert first.cancelled()


async def test_worker_whose_wait_fails_is_not_woken_any_more() -> None:
    """Else a key would wait for the next one, which may never come."""
    queue: WorkQueue[str] = WorkQueue()
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue._waiters[0].set_exception(RuntimeError("unexpected"))
    with pytest.raises(RuntimeError):
        await first
    queue.add("a")
    async with asyncio.timeout(60):
        assert await second == "a"


async def test_nothing_is_delivered_after_shutdown() -> None:
    """Waiting workers end, later adds are ignored."""
    queue: WorkQueue[str] = WorkQueue()
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.shutdown()
    queue.add("a")
    with pytest.raises(QueueShutDown):
        await worker
    with pytest.raises(QueueShutDown):
        await queue.get()


KEYS = st.sampled_from(["a", "b", "c"])
SECONDS = st.integers(0, 12).map(lambda quarters: quarters / 4)


class QueueAgainstModel(RuleBasedStateMachine):
    """Random operations on a queue and on a dictionary that keeps the rules by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.queue: WorkQueue[str] = WorkQueue(clock=self.clock, uniform=lambda low, high: low)
        #: key → (due, start of the quiet time or None)
        self.model: dict[str, tuple[float, float | None]] = {}
        self.busy: set[str] = set()

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.queue.add(key)
        now = self.clock.now
        if key not in self.model or self.model[key][0] > now:
            self.model[key] = (now, None)

    @rule(key=KEYS, seconds=SECONDS)
    def add_after(self, key: str, seconds: float) -> None:
        self.queue.add_after(key, seconds)
        self.note_after(key, seconds)

    @rule(key=KEYS)
    def retry(self, key: str) -> None:
        self.note_after(key, self.queue.retry(key))

    def note_after(self, key: str, seconds: float) -> None:
        at = self.clock.now + seconds
        if key not in self.model or (self.model[key][1] is None and at < self.model[key][0]):
            self.model[key] = (at, None)

    @rule(key=KEYS, settle=SECONDS, settle_max=SECONDS)
    def add_settled(self, key: str, settle: float, settle_max: float) -> None:
        self.queue.add_settled(key, settle=settle, settle_max=settle_max)
        now = self.clock.now
        old, since = self.model.get(key, (float("inf"), None))
        if old > now:
            since = now if since is None else since
            self.model[key] = (min(now + settle, since + settle_max), since)

    @rule()
    def get(self) -> None:
        now = self.clock.now
        expected = {
            key for key, (at, _) in self.model.items() if at <= now and key not in self.busy
        }
        try:
            key = self.queue.get_nowait()
        except asyncio.QueueEmpty:
            assert not expected
            return
        assert key in expected
        del self.model[key]
        self.busy.add(key)

    @precondition(lambda self: self.busy)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.busy)))
        self.queue.done(key)
        self.busy.remove(key)

    @invariant()
    def counts_agree(self) -> None:
        statistics = self.queue.statistics()
        assert statistics.ready + statistics.waiting == len(self.model)
        assert statistics.processing == len(self.busy)


TestQueueAgainstModel = QueueAgainstModel.TestCase
TestQueueAgainstModel.settings = settings(max_examples=40, deadline=None)
