"""Whatever happens to wires, servers and processes, two candidates never lead at a time.

And when the fault is over one of them leads, with as few changes of hands as it explains. Each
candidate has a wire of its own to a real API server.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from typing import Any

import pytest
from tests.support.leader_election import NAMESPACE, Candidate, Election, election, unchanged_for

from hotmap.kube.leaderelection import LeaseTiming
from hotmap.local.apiserver.options import WriteOptions
from hotmap.local.apiserver.routes import ResourcePath

#: The wires are threads, and some candidates processes.
pytestmark = pytest.mark.real_time

#: A loss is seen in a second.
FAST = LeaseTiming(duration=1, renew_deadline=0.7, retry=0.1)
#: A busy machine is not taken for a dead one.
CALM = LeaseTiming(duration=4, renew_deadline=3, retry=0.1)

#: A process that competes as the controller does, and says when it leads.
PROGRAM = """
import asyncio, signal, sys
from hotmap.core.model.objects import ObjectKey
from hotmap.kube.client import Client
from hotmap.kube.config import BearerToken, ClusterConfig
from hotmap.kube.leaderelection import LeaderElector, LeaseTiming

async def lead():
    print("leads", flush=True)
    await asyncio.Event().wait()

async def main():
    port, namespace, identity, duration = sys.argv[1:]
    config = ClusterConfig(f"http://127.0.0.1:{port}", "the test", BearerToken("t"))
    async with Client(config) as client:
        elector = LeaderElector(
            client, ObjectKey("Lease", namespace, "hotmap"), identity=identity,
            timing=LeaseTiming(int(duration), int(duration) * 0.7, 0.2),
        )
        task = asyncio.create_task(elector.run(lead))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await asyncio.wait([task])

asyncio.run(main())
"""


async def process(held: Election, identity: str, *, duration: int) -> asyncio.subprocess.Process:
    """Start a process that competes, and wait until it leads."""
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        str(held.port),
        NAMESPACE,
        identity,
        str(duration),
        stdout=asyncio.subprocess.PIPE,
    )
    assert started.stdout is not None
    async with asyncio.timeout(60):
        assert await started.stdout.readline() == b"leads\n"
    return started


@pytest.mark.parametrize(
    ("how", "duration"),
    # After TERM it does not wait for the end of a time that is far beyond this test's.
    [(signal.SIGKILL, 2), (signal.SIGTERM, 600)],
    ids=["SIGKILL", "SIGTERM"],
)
async def test_standby_takes_over_after_kill(how: signal.Signals, duration: int) -> None:
    """After the duration when it could say nothing, at once when it could."""
    async with election(FAST) as held:
        leader = await process(held, "process", duration=duration)
        try:
            standby = await held.candidate("standby")
            standby.start()
            await held.known_to(standby, holder="process")
            await held.until(lambda: standby.elector.statistics().watching)
            leader.send_signal(how)
            await leader.wait()
            before, reads = await held.spec(), standby.elector.statistics().attempts
            await held.leader(standby)
            reads = standby.elector.statistics().attempts - reads
            after = await held.spec()
        finally:
            if leader.returncode is None:
                leader.kill()
            await leader.wait()
    if how is signal.SIGKILL:
        assert unchanged_for(before, after) >= duration
        assert reads <= held.most_reads(duration)


async def test_dead_connections_keep_the_leader() -> None:
    """A firewall has forgotten them all: the second try opens a new one."""
    async with election(CALM) as held:
        leader, standby = await held.started("a", "b")
        await held.known_to(standby, holder="a")
        for _ in range(2):
            failures = leader.elector.statistics().failures
            leader.wire.half_open()
            await held.fails(leader, after=failures)
            await held.until(lambda: leader.elector.statistics().last_error == "")
        assert held.successions() == ["a"]


async def test_slow_responses_do_not_prevent_leading() -> None:
    """Each request may take half the renew deadline, also one of the two that acquire the Lease."""
    async with election(CALM) as held:
        candidate = await held.candidate("a")
        candidate.wire.delay(CALM.renew_deadline / 6)  # each way
        candidate.start()
        await held.leader(candidate)
        await held.attempts(candidate, more=5)
        assert held.successions() == ["a"]
        assert candidate.elector.statistics().failures == 0


async def test_dead_watch_delays_takeover_by_one_retry() -> None:
    """It looks besides, so a watch that fell silent without a word costs nothing more."""
    async with election(CALM) as held:
        leader, standby = await held.started("a", "b")
        await held.until(lambda: standby.elector.statistics().watching)
        standby.wire.half_open()
        await leader.stop()
        await held.leader(standby)


async def test_leader_that_is_cut_off_stops_before_another_leads() -> None:
    """Both are running; only the wire of one is dead, and holds its last requests back."""
    async with election(FAST) as held:
        first, second = await held.started("a", "b")
        await held.known_to(second, holder="a")
        await held.until(lambda: first.elector.statistics().attempts > 5)
        first.wire.stall()
        await held.leader(second)
        assert first.at_work == 0
        first.wire.heal()
        await held.known_to(first, holder="b")
        assert "could not renew" not in second.elector.statistics().last_error
        assert held.successions()[:2] == ["a", "b"]


async def test_slow_connection_keeps_the_leader() -> None:
    """Answers that take a fifth of the deadline are answers."""
    async with election(CALM) as held:
        leader, standby = await held.started("a", "b")
        await held.known_to(standby, holder="a")
        for candidate in (leader, standby):
            candidate.wire.delay(CALM.renew_deadline / 10)
        looks = leader.elector.statistics().attempts
        await held.until(lambda: leader.elector.statistics().attempts > looks + 4)
        assert held.successions() == ["a"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [(429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable")],
)
async def test_server_errors_keep_the_leader(code: int, reason: str) -> None:
    """As long as a renewal succeeds before the deadline."""
    async with election(CALM) as held:
        leader, standby = await held.started("a", "b")
        await held.known_to(standby, holder="a")
        held.registry.update_failures = [(code, reason)] * 5
        await held.until(lambda: leader.elector.statistics().failures == 5)
        looks = leader.elector.statistics().attempts
        await held.until(lambda: leader.elector.statistics().attempts > looks + 1)
        assert leader.elector.statistics().last_error == ""
        assert held.successions() == ["a"]


async def test_server_restart_keeps_the_leader() -> None:
    """It is away for less than the deadline."""
    async with election(CALM) as held:
        leader, standby = await held.started("a", "b")
        await held.known_to(standby, holder="a")
        await held.stop_server()
        failures = leader.elector.statistics().failures
        await held.until(lambda: leader.elector.statistics().failures > failures)
        await held.start_server()
        looks = leader.elector.statistics().attempts
        await held.until(lambda: leader.elector.statistics().attempts > looks + 3)
        assert held.successions() == ["a"]


async def test_long_outage_has_no_leader_and_then_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Six durations, as 60 s are to 10 s; then one leads, and few lines were logged."""
    async with election(FAST) as held:
        first, second = await held.started("a", "b")
        await held.known_to(second, holder="a")
        await held.stop_server()
        await held.until(lambda: not first.elector.is_leader)
        gone = time.monotonic()
        while time.monotonic() < gone + 6 * FAST.duration:
            assert not (first.elector.is_leader or second.elector.is_leader)
            await asyncio.sleep(0.02)
        statistics = second.elector.statistics()
        assert statistics.last_error
        await held.start_server()
        leader = await held.leader()
        looks = leader.elector.statistics().attempts
        await held.until(lambda: leader.elector.statistics().attempts > looks + 3)
    told = [record for record in caplog.records if record.name == "hotmap.kube.leaderelection"]
    warnings = [item.getMessage() for item in told if item.levelname == "WARNING"]
    assert len(warnings) <= 10, warnings


async def test_claim_without_an_answer_is_released() -> None:
    """The Lease was written, the answer never came, and the candidate is stopped."""
    async with election(CALM) as held:
        candidate = await held.candidate("a")
        written = asyncio.Event()
        create = held.registry.admitted.create

        async def create_and_hang(path: ResourcePath, obj: Any, options: WriteOptions) -> Any:
            await create(path, obj, options)
            written.set()
            await asyncio.Event().wait()

        held.registry.admitted.create = create_and_hang  # type: ignore[method-assign]
        candidate.start()
        await written.wait()
        await candidate.stop()
        assert candidate.elector.statistics().terms == 0
        assert (await held.spec())["holderIdentity"] == ""


async def test_failed_release_does_not_delay_the_shutdown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is tried for half a deadline; then the Lease runs out by itself, as is said."""
    async with election(CALM) as held:
        [leader] = await held.started("a")
        leader.wire.stall()
        async with asyncio.timeout(60):
            await leader.stop()
        assert (await held.spec())["holderIdentity"] == "a"
    assert ", which expires in 4s: no response within 1.5s" in caplog.text


@pytest.mark.parametrize("seed", range(4))
async def test_random_faults_never_give_two_leaders(seed: int) -> None:
    """Wires are cut, stalled and healed, candidates end and come back, the server restarts."""
    dice = random.Random(seed)
    async with election(FAST) as held:
        candidates = await held.started("a", "b", "c")
        for _ in range(12):
            await disturb(held, dice, dice.choice(candidates))
            await asyncio.sleep(dice.uniform(0, 0.5))
        for candidate in candidates:
            candidate.wire.heal()
            if candidate.task is None:
                candidate.start()
        leader = await held.leader()
        assert (await held.spec())["holderIdentity"] == leader.identity
        assert sum(candidate.at_work for candidate in candidates) >= 1


async def disturb(held: Election, dice: random.Random, victim: Candidate) -> None:
    match dice.choice(["cut", "stall", "half open", "slow", "heal", "end", "vanish", "server"]):
        case "cut":
            victim.wire.cut()
        case "stall":
            victim.wire.stall()
        case "half open":
            victim.wire.half_open()
        case "slow":
            victim.wire.delay(dice.uniform(0, 0.3))
        case "heal":
            victim.wire.heal()
        case "end":
            await victim.stop()
            victim.start()
        case "vanish":
            await victim.vanish()
            victim.wire.heal()
            victim.start()
        case "server":
            await held.stop_server()
            await asyncio.sleep(dice.uniform(0, 0.5))
            await held.start_server()
