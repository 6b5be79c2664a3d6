"""The poll loop's own bookkeeping."""

from __future__ import annotations

import gc
import os
import signal
import threading

from hotmap.agent.runtime.loop import READ, Loop, Timer


def test_loop_drops_cancelled_timers_before_their_time() -> None:
    """A thousand deadlines that were all cancelled are not kept for the minute they had."""
    loop = Loop()
    kept = [loop.after(60, lambda: None) for _ in range(3)]
    for _ in range(1000):
        loop.after(60, lambda: None).cancel()
    gc.collect()
    left = [each for each in gc.get_referrers(Timer) if isinstance(each, Timer)]
    assert set(kept) <= set(left)
    assert len(left) < 50


def test_loop_fires_timers_in_order_after_others_were_cancelled() -> None:
    """Dropping cancelled timers neither loses nor reorders the rest."""
    now = [0.0]
    loop = Loop(lambda: now[0])
    fired: list[int] = []
    timers = [loop.at(number, lambda n=number: fired.append(n)) for number in range(100)]
    for number in range(100):
        if number % 10:
            timers[number].cancel()
            timers[number].cancel()
    now[0] = 200.0
    loop.turn()
    assert fired == list(range(0, 100, 10))


def test_timer_may_be_years_away() -> None:
    """The wait until it is more than one poll can be told; what happens before it is handled."""
    loop = Loop()
    called: list[str] = []
    loop.on_signals([signal.SIGUSR1], lambda _: called.append("signal"))
    loop.after(100 * 365 * 86400, lambda: called.append("timer"))
    sender = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    sender.start()
    try:
        loop.turn()
    finally:
        sender.join()
        loop.close()
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    assert called == ["signal"]


def test_loop_handles_signals_first() -> None:
    """A call that takes its time, or a client that never ends, delays no TERM."""
    loop, calls, before = Loop(), [], signal.getsignal(signal.SIGUSR1)
    reader, writer = os.pipe()
    try:
        loop.watch(reader, READ, lambda: calls.append("pipe"))
        loop.on_signals([signal.SIGUSR1], lambda _: calls.append("signal"))
        os.write(writer, b"x")
        signal.raise_signal(signal.SIGUSR1)
        loop.turn()
        assert calls == ["signal", "pipe"]
    finally:
        loop.close()
        signal.signal(signal.SIGUSR1, before)
        os.close(reader)
        os.close(writer)
