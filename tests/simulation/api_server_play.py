"""Plays many histories on one API server at the same time, in several processes.

    python -m tests.simulation.api_server_play KUBECONFIG NAMESPACE AT_ONCE SEED...

plays histories in one namespace with one controller, AT_ONCE at a time, and writes a line of JSON
for each. `play_histories` starts several of these processes.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from tests.simulation.api_server_histories import ApiServerHistory, Deployments, SharedCluster
from tests.simulation.controller import State
from tests.simulation.histories import HistoryResult, broken_promise, report
from tests.simulation.kubelets import Kubelets, join_node
from tests.simulation.shared_controller import HistoryLog, SharedController

from hotmap.core.errors import AlreadyExists, HotmapError
from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import CONFIGMAPS, DEPLOYMENTS, NAMESPACES, PODS, REPLICASETS

__all__ = ["PlayedHistory", "play_histories"]

#: Requests of the histories of one namespace at the same time.
_REQUESTS = 16

#: Seconds until the controller has adopted what there is at the beginning.
_ADOPTED = 120.0

#: Seconds between the starts of the processes, so that their rollouts do not coincide.
_STAGGER = 15.0


class PlayedHistory(msgspec.Struct):
    """How one history ended, for the other process."""

    seed: int
    state: str = ""
    reason: str = ""
    #: Which promise it breaks, with its log; "" for none.
    broken: str = ""
    #: Why it could not be played; "" if it was.
    failure: str = ""


class _Slot(NamedTuple):
    seed: int
    history: ApiServerHistory


class _Play:
    """The histories of one namespace."""

    def __init__(self, cluster: SharedCluster, shared: SharedController, log: HistoryLog) -> None:
        self._cluster, self._shared, self._log = cluster, shared, log
        self._limit = asyncio.Semaphore(_REQUESTS)

    async def play(self, seeds: Sequence[int]) -> list[PlayedHistory]:
        """Play them from the first object to the verdict, and leave nothing behind."""
        chance = random.Random(seeds[0])
        self._shared.events.clear()
        self._log.lines.clear()
        failed: dict[int, PlayedHistory] = {}
        slots = [
            _Slot(seed, ApiServerHistory(seed, self._cluster, self._shared, self._log.lines[seed]))
            for seed in seeds
        ]

        async def all_of(step: Iterable[tuple[int, Awaitable[Any]]]) -> dict[int, Any]:
            names, steps = zip(*step, strict=True) if slots else ((), ())
            found = await asyncio.gather(*steps, return_exceptions=True)
            for seed, result in zip(names, found, strict=True):
                if isinstance(result, (HotmapError, TimeoutError, KeyError)):
                    failed[seed] = PlayedHistory(seed, failure=repr(result))
                elif isinstance(result, BaseException):
                    raise result
            slots[:] = [slot for slot in slots if slot.seed not in failed]
            return dict(zip(names, found, strict=True))

        if chance.random() < 0.5:
            await self._shared.start()
        await all_of((seed, self._limited(history.set_up())) for seed, history in slots)
        await all_of((seed, history.wait_until_ready()) for seed, history in slots)
        await self._shared.start()
        await self._adopted([history for _, history in slots])
        await asyncio.sleep(chance.choice((0.0, 2.0)))
        ended = asyncio.Event()
        disturbing = asyncio.create_task(self._shared.disturb(ended))
        await all_of((seed, history.disturb()) for seed, history in slots)
        ended.set()
        await disturbing
        await all_of((seed, history.complete()) for seed, history in slots)
        await self._shared.start()
        results = await all_of((seed, history.judge()) for seed, history in slots)
        await self._clean(stops=chance.random() < 0.5)
        return [
            *failed.values(),
            *(_played(seed, results[seed]) for seed, _ in slots),
        ]

    async def _limited(self, work: Awaitable[Any]) -> Any:
        async with self._limit:
            return await work

    async def _adopted(self, histories: Sequence[ApiServerHistory]) -> None:
        """Wait until everything is recorded: changes before that are unknown."""
        async with asyncio.timeout(_ADOPTED):
            while not (  # noqa: ASYNC110  nothing reports it
                all(history.is_adopted() for history in histories) and self._shared.is_written()
            ):
                await asyncio.sleep(0.5)

    async def _clean(self, *, stops: bool) -> None:
        if stops:
            await self._shared.stop(crash=False)
        for resource in (DEPLOYMENTS, REPLICASETS, PODS, CONFIGMAPS):
            selector = "metadata.name!=kube-root-ca.crt" if resource is CONFIGMAPS else ""
            await self._cluster.client.request(
                "DELETE",
                resource.path(self._cluster.namespace),
                params={"gracePeriodSeconds": "0", "fieldSelector": selector},
                attempts=4,
                idempotent=True,
            )


def _played(seed: int, result: HistoryResult) -> PlayedHistory:
    broken = report(seed, result) if broken_promise(result) else ""
    return PlayedHistory(seed, result.state.value, result.reason, broken)


async def _play_namespace(
    kubeconfig: str, namespace: str, at_once: int, seeds: Sequence[int]
) -> None:
    config = load_kubeconfig(kubeconfig)
    log = HistoryLog()
    logger = logging.getLogger("hotmap.controller")
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logging.getLogger("hotmap.kube").setLevel(logging.CRITICAL)  # connections are cut on purpose
    states: Counter[str] = Counter()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(config, user_agent="history"))
        await _create_namespace(client, namespace)
        kubelets = Kubelets(client, namespace, random.Random(seeds[0]))
        deployments = Deployments(client, namespace)
        for work in (kubelets.run(), deployments.run()):
            stack.callback(asyncio.create_task(work).cancel)
        shared = SharedController(config, namespace, random.Random(seeds[0]))
        stack.push_async_callback(shared.stop, crash=False)
        play = _Play(SharedCluster(client, namespace, kubelets, deployments), shared, log)
        for first in range(0, len(seeds), at_once):
            began = time.monotonic()
            for history in await play.play(seeds[first : first + at_once]):
                states[history.state or "not played"] += 1
                if history.state != State.CURRENT.value:
                    sys.stderr.write(
                        f"{history.seed}: {history.state} {history.reason}{history.failure}\n"
                    )
                sys.stdout.buffer.write(msgspec.json.encode(history) + b"\n")
            sys.stdout.flush()
            sys.stderr.write(
                f"{namespace}: {states.total()} of {len(seeds)}, {dict(states)}, the last"
                f" {at_once} in {time.monotonic() - began:.0f} s\n"
            )


async def _create_namespace(client: Client, namespace: str) -> None:
    try:
        await client.create(NAMESPACES, None, {"metadata": {"name": namespace}}, type=msgspec.Raw)
    except AlreadyExists:
        return


async def play_histories(
    kubeconfig: Path, seeds: range, *, at_once: int, processes: int
) -> list[PlayedHistory]:
    """Play histories on an API server, up to `at_once` of them in each of some processes.

    Raises:
        RuntimeError: a process ended before its histories did.
    """
    shares = [share for first in range(processes) if (share := seeds[first::processes])]
    config = load_kubeconfig(str(kubeconfig))
    async with Client(config, user_agent="history") as client, join_node(client):
        played = await asyncio.gather(
            *(
                _play_share(kubeconfig, number, at_once, share)
                for number, share in enumerate(shares)
            )
        )
    return [history for share in played for history in share]


async def _play_share(
    kubeconfig: Path, number: int, at_once: int, seeds: Sequence[int]
) -> list[PlayedHistory]:
    await asyncio.sleep(number * _STAGGER)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        __name__,
        str(kubeconfig),
        f"histories-{seeds[0]}",
        str(at_once),
        *map(str, seeds),
        stdout=asyncio.subprocess.PIPE,
        limit=64 << 20,
    )
    assert process.stdout is not None
    try:
        played = [msgspec.json.decode(line, type=PlayedHistory) async for line in process.stdout]
        if await process.wait():
            raise RuntimeError(f"the process of histories {seeds[0]} … ended with an error")
    finally:
        if process.returncode is None:
            process.kill()
    return played


if __name__ == "__main__":
    asyncio.run(
        _play_namespace(sys.argv[1], sys.argv[2], int(sys.argv[3]), [*map(int, sys.argv[4:])])
    )
