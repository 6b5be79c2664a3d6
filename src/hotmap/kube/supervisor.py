"""Supervises background tasks: one that ends unexpectedly is logged, counted and restarted.

An asyncio task that raises is silent until it is awaited, and a task that is meant to run forever
never is. So all such tasks are started and stopped here.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from hotmap.core.errors import HotmapError
from hotmap.kube.loop_clock import loop_time
from hotmap.kube.retry import Backoff

__all__ = ["SupervisedTasks", "Supervisor"]

#: Seconds before a task that ended is started again, at first and at most.
PAUSE_FIRST: Final = 1.0
PAUSE_LAST: Final = 60.0

#: Seconds that a restarted task has to run to count as working again: longer than one period of a
#: liveness probe, so that the probe sees it.
STEADY_AFTER: Final = 15.0

#: Innermost frames of a traceback that are logged; a recursion has a thousand alike.
_FRAMES: Final = 5

_log = logging.getLogger(__name__)


class Supervisor:
    """Counts and reports the failures of all background tasks of one process.

    `pause_first` and `pause_last` bound the pause before a restart, `steady_after` is how long a
    restarted task counts as failing; all in seconds.
    """

    def __init__(
        self,
        *,
        pause_first: float = PAUSE_FIRST,
        pause_last: float = PAUSE_LAST,
        steady_after: float = STEADY_AFTER,
    ) -> None:
        self._pauses = pause_first, pause_last
        self._steady_after = steady_after
        self._restarts: Counter[str] = Counter()
        #: Tasks that ended unexpectedly: the problem, and since when they run again, or None.
        self._failures: dict[asyncio.Task[None], tuple[str, str, float | None]] = {}

    def tasks(self) -> SupervisedTasks:
        """Create a set of tasks that are started and stopped together."""
        return SupervisedTasks(self)

    @property
    def restarts(self) -> Mapping[str, int]:
        """How often a task ended unexpectedly, by its name."""
        return self._restarts

    def failing(self) -> dict[str, str]:
        """Return name and problem of the tasks that have not run steadily since they failed."""
        now = loop_time()
        for task, (_, _, running_since) in tuple(self._failures.items()):
            if running_since is not None and now - running_since >= self._steady_after:
                del self._failures[task]
        return {name: problem for name, problem, _ in self._failures.values()}

    async def run(
        self, name: str, work: Callable[[], Awaitable[object]], *, may_return: bool
    ) -> None:
        """Await `work`, again and again unless it `may_return`; see SupervisedTasks.start."""
        task = asyncio.current_task()
        assert task is not None
        backoff = Backoff(*self._pauses)
        try:
            while True:
                started = loop_time()
                problem, frames = await self._attempt(task, work)
                if not problem and may_return:
                    return
                if loop_time() - started >= self._steady_after:
                    backoff.reset()
                pause = backoff.next()
                self._restarts[name] += 1
                self._failures[task] = name, problem or "returned", None
                _log.error(
                    "task %r ended unexpectedly: %s: restarting in %.1fs%s",
                    name,
                    problem or "it returned",
                    pause,
                    frames,
                )
                await asyncio.sleep(pause)
                self._failures[task] = name, problem or "returned", loop_time()
        finally:
            self._failures.pop(task, None)

    async def _attempt(
        self, task: asyncio.Task[None], work: Callable[[], Awaitable[object]]
    ) -> tuple[str, str]:
        """Await `work` once; returns the problem, "" for none, and where it was raised."""
        try:
            await work()
        except asyncio.CancelledError:
            if task.cancelling():
                raise
            return "cancelled itself", ""
        except HotmapError as error:
            return f"{type(error).__name__}: {error}", ""
        except Exception as error:
            # Not its text: an exception may quote the data that caused it.
            frames = traceback.format_tb(error.__traceback__)[-_FRAMES:]
            return type(error).__name__, "\n" + "".join(frames).rstrip()
        return "", ""


class SupervisedTasks:
    """Background tasks of one part, from their start to their common end."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Count the tasks that have not ended."""
        return len(self._tasks)

    def start(
        self, name: str, work: Callable[[], Awaitable[object]], *, may_return: bool = False
    ) -> None:
        """Run `work` in the background until `stop`, and again whenever it ends before that.

        `name` is shown in logs, in /healthz and as a metric's label: so use few different values.
        With `may_return` a return is a success; otherwise it is a failure like an exception.
        """
        task = asyncio.get_running_loop().create_task(
            self._supervisor.run(name, work, may_return=may_return), name=name
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait(self, *, timeout: float) -> None:
        """Wait until all tasks have returned, for `timeout` seconds at most."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=timeout)

    async def stop(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
