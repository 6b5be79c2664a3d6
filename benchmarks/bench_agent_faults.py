"""What does the agent lose, and what does it do twice, when something else fails?

The same cases as the peers were put through (`peers`). Each has a volume, an endpoint and an agent
of its own; all run at the same time, since most of them wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.agents import TIMEOUT, Volume, WebhookReceiver, agent, agent_process, workplace
from benchmarks.figures import Figure, Target, at_most
from benchmarks.scope import Scope

__all__ = ["measure_faults"]

#: Seconds of the longest pause between attempts, by default.
_LONGEST_PAUSE = 15.0


def measure_faults(scope: Scope) -> list[Figure]:
    """Go through all cases; raises RuntimeError where a change is lost."""
    short, long = scope.count(30), scope.count(90, 3)
    cases: list[Callable[[], Figure]] = [
        lambda: _burst(50, "0", at_most(50, "max")),
        lambda: _burst(50, "100ms", at_most(1, "max")),
        lambda: _identical(10),
        _changed_while_away,
        lambda: _fails("endpoint away", short, WebhookReceiver.close, WebhookReceiver.listen),
        lambda: _fails("endpoint away", long, WebhookReceiver.close, WebhookReceiver.listen),
        lambda: _fails("500 for", short, _refuse, _accept),
        lambda: _hangs(scope.count(10, 1)),
    ]
    with ThreadPoolExecutor(len(cases)) as pool:
        return list(pool.map(lambda case: case(), cases))


def _refuse(receiver: WebhookReceiver) -> None:
    receiver.status = 500


def _accept(receiver: WebhookReceiver) -> None:
    receiver.status = 200


def _burst(swaps: int, settle: str, targets: tuple[Target, ...]) -> Figure:
    """Swap as fast as can be; count the calls until the last content is loaded."""
    with workplace() as place, WebhookReceiver() as receiver:
        volume = Volume(place / "volume", files=1)
        with agent(place, volume, (*receiver.flags(), "--settle", settle)):
            before = receiver.answered
            for _ in range(swaps):
                volume.swap()
            _until_quiet(receiver)
            calls = receiver.answered - before
    name = f"{swaps} swaps in a burst → calls, settle {settle}"
    return Figure(name, [calls], "", targets)


def _identical(swaps: int) -> Figure:
    """Publish the same content again and again, then other content, which is one call."""
    with workplace() as place, WebhookReceiver() as receiver:
        volume = Volume(place / "volume", files=1)
        with agent(place, volume, receiver.flags()):
            # During a call it is not known what the process reads, so a second one would follow.
            _until_quiet(receiver)
            before = receiver.answered
            for _ in range(swaps):
                volume.republish()
                time.sleep(0.05)
            volume.swap()
            _until_quiet(receiver)
            calls = receiver.answered - before - 1
    return Figure(f"{swaps} swaps with identical content → calls", [calls], "", at_most(0, "max"))


def _changed_while_away() -> Figure:
    """End the agent, swap, start it again with the state that it left."""
    with workplace() as place, WebhookReceiver() as receiver:
        volume = Volume(place / "volume", files=1)
        flags = (*receiver.flags(), "--state", str(place / "state"))
        with agent_process(place, volume, flags):
            pass
        volume.swap()
        receiver.clear()
        began = time.perf_counter()
        with agent_process(place, volume, flags):
            taken = receiver.wait() - began
    return Figure("changed while the agent was away: found after its start", [taken * 1e3], "ms")


def _fails(
    name: str,
    seconds: int,
    fail: Callable[[WebhookReceiver], None],
    heal: Callable[[WebhookReceiver], None],
) -> Figure:
    """Let the endpoint fail for some time, with a swap in it; how soon after is it called?"""
    with workplace() as place, WebhookReceiver() as receiver:
        volume = Volume(place / "volume", files=1)
        with agent(place, volume, receiver.flags()):
            fail(receiver)
            volume.swap()
            time.sleep(seconds)
            receiver.clear()
            heal(receiver)
            began = time.perf_counter()
            taken = receiver.wait() - began
    quantity = f"{name} {seconds} s: called again after"
    return Figure(quantity, [taken], "s", at_most(_LONGEST_PAUSE + 0.5, "max"))


def _hangs(timeout: int) -> Figure:
    """Leave one call without an answer; how soon is the next change delivered?"""
    with workplace() as place, WebhookReceiver() as receiver:
        volume = Volume(place / "volume", files=1)
        with agent(place, volume, (*receiver.flags(), "--action-timeout", f"{timeout}s")):
            receiver.status, calls = None, receiver.calls
            volume.swap()
            while receiver.calls == calls:
                time.sleep(0.001)
            receiver.status = 200
            receiver.clear()
            began = time.perf_counter()
            volume.swap()
            taken = receiver.wait() - began
    name = f"endpoint hangs, time-out {timeout} s: the next change is delivered after"
    return Figure(name, [taken], "s", at_most(0.5, "max"))


def _until_quiet(receiver: WebhookReceiver) -> None:
    """Wait until no call has come for a second, which is ten times the settle time."""
    deadline = time.monotonic() + TIMEOUT
    before = -1
    while receiver.answered != before:
        if time.monotonic() > deadline:
            raise RuntimeError("the agent calls and calls; run it by hand to see why")
        before = receiver.answered
        time.sleep(1.0)
