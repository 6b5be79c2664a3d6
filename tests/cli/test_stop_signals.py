"""What stops a command that runs until a signal."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Stops in order, which takes a moment; ends with the number of calls, and of steps until the end.
PROGRAM = """
import asyncio, os, signal
from hotmap.cli.stop_signals import on_stop_signal

calls, steps = [], []

async def work():
    try:
        await asyncio.sleep(60)
    finally:
        for _ in range(3):
            os.kill(os.getpid(), signal.{later})
            await asyncio.sleep(0.01)
            steps.append("cleaned up")

async def main():
    working = asyncio.create_task(work())
    on_stop_signal(lambda number: (calls.append(number), working.cancel()))
    await asyncio.sleep(0)
    os.kill(os.getpid(), signal.{first})
    os.kill(os.getpid(), signal.{later})  # before the event loop has seen the first one
    await asyncio.wait([working])

asyncio.run(main())
os.kill(os.getpid(), signal.{later})
print(len(calls), len(steps))
"""


@pytest.mark.parametrize(
    ("first", "later"),
    [("SIGINT", "SIGINT"), ("SIGTERM", "SIGTERM"), ("SIGTERM", "SIGHUP"), ("SIGHUP", "SIGINT")],
)
def test_second_signal_interrupts_no_shutdown(first: str, later: str) -> None:
    """Nor does one that arrives when the event loop has ended."""
    program = PROGRAM.format(first=first, later=later)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr, done.returncode) == ("1 3\n", "", 0)
