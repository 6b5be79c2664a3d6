"""How fast does the agent tell a process, and what does it cost while nothing happens?

Volumes are written by the kubelet's protocol. The clock starts before the writer begins, so the
time includes its writing, and stops in the process that is notified. All of it runs on one machine,
and that process is asleep in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from tests.support.certificates import Authority

from benchmarks.agents import (
    Receiver,
    SignalReceiver,
    Volume,
    WebhookReceiver,
    agent,
    agent_process,
    workplace,
)
from benchmarks.bench_agent_faults import measure_faults
from benchmarks.figures import Figure, Table, at_most
from benchmarks.machine import resident_mb
from benchmarks.peers import beside
from benchmarks.scope import Scope, measured
from hotmap.agent.watch.detector import Detector

__all__ = ["run"]


async def run(scope: Scope) -> AsyncIterator[Table]:
    """Measure in a thread: nothing here waits for an event loop."""
    with measured("Agent") as result:
        result.figures = await asyncio.to_thread(_figures, scope)
        result.notes = [
            "Settle time 0; from before the volume is written to the telling.",
            "Resident: the whole process (VmRSS) after all swaps; by TLS, of the child that calls.",
            *beside("latency", "1,000-file volume", "memory", "CPU"),
        ]
    yield result.table()
    with measured("Agent: what is lost, and what is done twice") as result:
        result.figures = await asyncio.to_thread(measure_faults, scope)
        result.notes = [
            "Default pauses (0.25 to 15 s) and time-outs (60 s); settle 0 where none is named.",
            *beside("burst", "identical", "away", "endpoint", "500", "hangs"),
        ]
    yield result.table()


def _figures(scope: Scope) -> list[Figure]:
    return [*_signalled(scope), *_called(scope), *_by_tls(), *_many_files(scope)]


def _signalled(scope: Scope) -> list[Figure]:
    swaps, idle = scope.count(500), scope.count(60)
    with workplace() as place:
        volume = Volume(place / "volume", files=1)
        with SignalReceiver(place) as receiver, agent(place, volume, receiver.flags()) as pid:
            delays = _delays(volume, receiver, swaps)
            resident = resident_mb(pid)
            wakes, cpu = _idle(pid, idle)
    return [
        Figure("swap → signal", delays, "ms", at_most(5)),
        Figure("signals, resident", [resident], "MB", at_most(12.5, "max")),
        Figure(f"wake-ups in {idle} s without a swap", [wakes], "", at_most(idle // 10 + 1, "max")),
        Figure("CPU in that time", [cpu], "ms"),
    ]


def _called(scope: Scope) -> list[Figure]:
    swaps = scope.count(500)
    with workplace() as place:
        volume = Volume(place / "volume", files=1)
        with WebhookReceiver() as receiver, agent(place, volume, receiver.flags()) as pid:
            before = _cpu_ms(pid)
            delays = _delays(volume, receiver, swaps)
            used = (_cpu_ms(pid) - before) / swaps
            resident = resident_mb(pid)
    return [
        Figure("swap → webhook", delays, "ms", at_most(5)),
        Figure("CPU per swap, mean", [used], "ms", at_most(1, "max")),
        Figure("HTTP, resident", [resident], "MB", at_most(12.5, "max")),
    ]


def _by_tls() -> list[Figure]:
    """Look at the child while it waits for an answer, which is when it is largest."""
    authority = Authority("an authority")
    with workplace() as place:
        (place / "ca.pem").write_bytes(authority.pem)
        volume = Volume(place / "volume", files=1)
        with (
            WebhookReceiver(authority.server_context(place, "localhost", "127.0.0.1")) as receiver,
            agent(place, volume, (*receiver.flags(), "--ca", str(place / "ca.pem"))) as pid,
        ):
            receiver.status, calls = None, receiver.calls
            volume.swap()
            while receiver.calls == calls:
                time.sleep(0.001)
            (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            sizes = resident_mb(pid), resident_mb(int(child))
    return [
        Figure("TLS, resident: the agent", [sizes[0]], "MB", at_most(16, "max")),
        Figure("TLS, resident: its child, during a call", [sizes[1]], "MB", at_most(22, "max")),
    ]


def _many_files(scope: Scope) -> list[Figure]:
    swaps = scope.count(50)
    with workplace() as place:
        volume = Volume(place / "volume", files=1000)
        with WebhookReceiver() as receiver, agent(place, volume, receiver.flags()) as pid:
            before = _cpu_ms(pid)
            delays = _delays(volume, receiver, swaps)
            used = (_cpu_ms(pid) - before) / swaps
        writes = [_milliseconds(volume.swap) for _ in range(swaps)]
        reads = _reads(volume, swaps)
        starts = _starts(scope.count(20))
    return [
        Figure("swap → webhook, 1,000 files written", delays, "ms"),
        Figure("the writer alone, without an agent", writes, "ms"),
        Figure("the agent's CPU for such a swap, mean", [used], "ms", at_most(12, "max")),
        Figure("1,000 files read and digested", reads, "ms", at_most(12, "p50") + at_most(30)),
        Figure("start → ready", starts, "ms", at_most(45, "p50") + at_most(80)),
    ]


def _milliseconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e3


def _delays(volume: Volume, receiver: Receiver, swaps: int) -> list[float]:
    """Swap again and again; returns the milliseconds until the receiver was notified."""
    delays = []
    for _ in range(swaps):
        time.sleep(0.02)  # everybody is asleep again
        receiver.clear()
        began = time.perf_counter()
        volume.swap()
        delays.append((receiver.wait() - began) * 1e3)
    return delays


def _idle(pid: int, seconds: int) -> tuple[float, float]:
    """Watch the agent do nothing; returns its wake-ups and its milliseconds of CPU."""
    before, used = _switches(pid), _cpu_ms(pid)
    time.sleep(seconds)
    return _switches(pid) - before, _cpu_ms(pid) - used


def _switches(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def _cpu_ms(pid: int) -> float:
    """Read the processor time of the process alone, finer than in clock ticks."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


def _reads(volume: Volume, times: int) -> list[float]:
    detector = Detector([str(volume.path)], b"0" * 16)
    try:
        return [_milliseconds(detector.read) for _ in range(times)]
    finally:
        detector.close()


def _starts(times: int) -> list[float]:
    with workplace() as place:
        volume = Volume(place / "volume", files=1)
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            with agent_process(place, volume, ()):
                taken.append((time.perf_counter() - began) * 1e3)
        return taken
