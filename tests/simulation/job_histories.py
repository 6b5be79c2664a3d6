"""Random histories of a CronJob and a Job that ask for new runs, against the whole controller.

The history plays users, the controllers of Jobs, and pods that read a value some time after their
Job was created.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from functools import partial

from tests.controller.stored_jobs import jobs
from tests.controller.world import FOLLOW, NAMESPACE, Object, World
from tests.simulation.controller_histories import CONVERGED, ControllerHistory, play_history

from hotmap.core.errors import NotFound

__all__ = ["play_job_history"]

#: Events of a history, and how often each happens beside the others.
_EVENTS = {
    "edit": 8,
    "revert": 2,
    "suspend": 3,
    "clean": 2,
    "refuse": 3,
    "delay": 2,
    "restart": 4,
    "cut_off": 3,
}


class _JobHistory(ControllerHistory):
    events = _EVENTS
    most_events = 14

    def __init__(self, world: World, chance: random.Random) -> None:
        super().__init__(world, chance)
        self._policy = chance.choice(("Allow", "Forbid", "Replace"))
        self._value = self._before = "0"
        #: What the pods of each Job have read, by uid; and when each Job is to end.
        self._read: dict[str, str] = {}
        self._due: dict[str, float] = {}

    # -- the controllers of Jobs -----------------------------------------------------------------

    async def _play_others(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            for job in await jobs(self._world):
                with suppress(NotFound):
                    await self._serve_job(job)

    async def _serve_job(self, job: Object) -> None:
        """Start its pod, complete it, or let it go."""
        world, metadata = self._world, job["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        after = self._due.setdefault(uid, self._now() + self._chance.choice((0.0, 0.3, 1.0)))
        if self._now() < after:
            return
        if metadata.get("deletionTimestamp"):
            await world.end_deletion("jobs", name)
            self._note(f"{name} is gone")
        elif uid not in self._read:
            self._read[uid] = self._value
            self._note(f"{name} has read {self._value}")
            self._due[uid] = self._now() + self._chance.choice((0.5, 3.0, 10.0))
        elif not job["status"].get("conditions"):
            ended = [{"type": "Complete", "status": "True"}]
            await world.merge_status("Job", name, {"conditions": ended})
            self._note(f"{name} is complete")

    # -- events ----------------------------------------------------------------------------------

    async def _set_up(self) -> None:
        world = self._world
        await world.config_map(LEVEL=self._value)
        run_now, recreate = ({**FOLLOW, "hotmap.dev/on-change": how} for how in _HOW)
        await world.cron_job(annotations=run_now, concurrencyPolicy=self._policy)
        await world.job(annotations=recreate)

    async def _is_adopted(self) -> bool:
        return len(await self._world.recorded()) == len(_HOW)

    async def _edit(self) -> None:
        await self._set_value(str(self._chance.randrange(100)))

    async def _revert(self) -> None:
        await self._set_value(self._before)

    async def _set_value(self, value: str) -> None:
        self._before, self._value = self._value, value
        self._note(f"the value is {value}")
        await self._world.edit(LEVEL=value)

    async def _suspend(self) -> None:
        found = await self._world.get("CronJob", "report")
        suspended = not found["spec"].get("suspend", False)
        await self._world.merge("CronJob", "report", {"spec": {"suspend": suspended}})

    async def _clean(self) -> None:
        """Delete runs that have ended, as a history limit does."""
        for job in await jobs(self._world):
            if job["status"].get("conditions") and job["metadata"]["name"] != "load":
                await self._world.registry.delete("jobs", NAMESPACE, job["metadata"]["name"])

    async def _refuse(self) -> None:
        verb, times = self._chance.choice(("create", "delete")), self._chance.choice((1, 3))
        code = self._chance.choice((409, 429, 500))
        self._world.plane.fail(verb, "jobs.batch", code=code, times=times)

    async def _delay(self) -> None:
        verb = self._chance.choice(("create", "delete"))
        late = self._world.plane.fail(verb, "jobs.batch", times=1)
        late.delay = self._chance.choice((2.0, 20.0))

    # -- the end ---------------------------------------------------------------------------------

    async def _end(self) -> str:
        """Let everything go on: each has run with the last content in the end, once."""
        world = self._world
        world.plane.failures.clear()
        await world.merge("CronJob", "report", {"spec": {"suspend": False}})
        for process in self._processes:
            await process.start()
        await asyncio.sleep(60.0)  # runs in progress end, and a leader is there
        earlier = {job["metadata"]["uid"] for job in await jobs(world)}
        self._note("ends")
        await self._set_value("last")
        late = partial(self._late, earlier)
        try:
            await world.until(late, "everything has run", within=CONVERGED)
        except AssertionError:
            return f"{sorted(await self._names_with('last', earlier))} have run, and no others"
        await asyncio.sleep(60.0)
        made = [job for job in await jobs(world) if job["metadata"]["uid"] not in earlier]
        if len(made) != len(_HOW):
            return f"there are {len(made)} new Jobs, not one of each"
        return ""

    async def _late(self, earlier: set[str]) -> bool:
        return len(await self._names_with("last", earlier)) >= len(_HOW)

    async def _names_with(self, value: str, earlier: set[str]) -> set[str]:
        """Name the new Jobs whose pods have read a value."""
        return {
            job["metadata"]["name"]
            for job in await jobs(self._world)
            if (uid := job["metadata"]["uid"]) not in earlier and self._read.get(uid) == value
        }


#: How the CronJob, and how the Job, gets a change.
_HOW = ("run-now", "recreate")


def play_job_history(seed: int) -> tuple[str, list[str]]:
    """Play one history; returns the promise that it breaks, "" for none, and what happened."""
    return play_history(_JobHistory, seed)
