"""The signals that end a command in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from types import FrameType

__all__ = ["on_stop_signal"]


def on_stop_signal(stop: Callable[[signal.Signals], object]) -> None:
    """Have the running event loop call `stop` at the first SIGINT, SIGTERM or SIGHUP.

    Later ones have no effect until the process ends. They are usual: `timeout` and a closed
    terminal signal the process and its group, and people press Ctrl-C twice. A second one must not
    interrupt what the first one began, such as the release of a Lease.

    A closed terminal ends a command as Ctrl-C does, except where nohup has excluded that.
    """
    loop = asyncio.get_running_loop()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)

    def on_first(number: signal.Signals) -> None:
        if signal.getsignal(number) is _do_nothing:
            return  # two came at once
        for each in numbers:
            # The loop's own end with the loop, and SIG_IGN would be inherited by children.
            loop.remove_signal_handler(each)
            signal.signal(each, _do_nothing)
        stop(number)

    for number in numbers:
        loop.add_signal_handler(number, on_first, number)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass
