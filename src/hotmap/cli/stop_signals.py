"""The signals that end a command in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from functools import partial

__all__ = ["on_stop_signal"]


def on_stop_signal(stop: Callable[[signal.Signals], object]) -> None:
    """Have the running event loop call `stop` at SIGINT, SIGTERM and SIGHUP.

    A closed terminal ends a command as Ctrl-C does, except where nohup has excluded that.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, partial(stop, number))
