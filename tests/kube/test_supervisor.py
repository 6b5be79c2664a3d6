"""The supervisor: a background task that ends unexpectedly is seen, counted and started again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.support.polling import wait_until

from hotmap.core.errors import Unreachable
from hotmap.kube.supervisor import SupervisedTasks, Supervisor


@pytest.fixture
def supervisor() -> Supervisor:
    return Supervisor(pause_first=0.01, pause_last=0.02, steady_after=0.2)


@pytest.fixture
async def tasks(supervisor: Supervisor) -> AsyncIterator[SupervisedTasks]:
    tasks = supervisor.tasks()
    yield tasks
    await tasks.stop()


class Work:
    """Fails a few times, then runs forever."""

    def __init__(self, failures: int, error: BaseException | None = None) -> None:
        self.left = failures
        self.error = error
        self.runs = 0

    async def __call__(self) -> None:
        self.runs += 1
        if self.left:
            self.left -= 1
            if self.error is not None:
                raise self.error
            return
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    "error",
    [RecursionError("geheim"), asyncio.CancelledError(), None],
    ids=["exception", "cancelled itself", "return"],
)
async def test_supervisor_restarts_a_task_that_ends(
    supervisor: Supervisor,
    tasks: SupervisedTasks,
    caplog: pytest.LogCaptureFixture,
    error: BaseException | None,
) -> None:
    """However it ended; the log says so without quoting the exception."""
    work = Work(2, error)
    tasks.start("watch configmaps", work)
    await wait_until(lambda: work.runs == 3)
    assert supervisor.restarts == {"watch configmaps": 2}
    assert "task 'watch configmaps' ended unexpectedly" in caplog.text
    assert "geheim" not in caplog.text


async def test_supervisor_reports_a_task_until_it_runs_steadily(
    supervisor: Supervisor, tasks: SupervisedTasks
) -> None:
    """Failing at once, still failing right after the restart, and well again some time later."""
    failed = asyncio.Event()

    async def work() -> None:
        if not failed.is_set():
            failed.set()
            raise Unreachable("the server is gone")
        await asyncio.Event().wait()

    assert supervisor.failing() == {}
    tasks.start("records", work)
    await failed.wait()
    await wait_until(supervisor.failing)
    assert supervisor.failing() == {"records": "Unreachable: the server is gone"}
    await wait_until(lambda: not supervisor.failing())


async def test_supervisor_accepts_a_return_where_it_is_allowed(
    supervisor: Supervisor, tasks: SupervisedTasks
) -> None:
    """Work that is done is not a failure."""
    tasks.start("worker", Work(1), may_return=True)
    await tasks.wait(timeout=60)
    assert len(tasks) == 0
    assert supervisor.restarts == {}


async def test_supervisor_stops_a_task_that_waits_for_its_restart(supervisor: Supervisor) -> None:
    """Nothing is left of it, and it is not called failing any more."""
    tasks = Supervisor(pause_first=60, pause_last=60).tasks()
    work = Work(1, ValueError())
    tasks.start("worker", work)
    await wait_until(lambda: work.runs == 1)
    async with asyncio.timeout(60):
        await tasks.stop()
    assert len(tasks) == 0
    assert supervisor.failing() == {}
