"""Count what runs in the reconcile that rolls out one Deployment: functions, files, calls.

Starts a controller against the API server of the tests, edits the ConfigMap of one Deployment, and
follows the task that takes its key until it is done with it. Shows where the path of a change
became longer, which no test does.

    python -m tools.trace_reconcile           the counts, and the functions of each file in order
    python -m tools.trace_reconcile --calls   every call, indented by depth
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

from tests.controller.world import World
from tests.support.control_plane import control_plane

from hotmap.controller.reconcile.reconcile import Reconciler
from hotmap.controller.term import LeaderTerm
from hotmap.kube.client import Client
from hotmap.local.pki import create_pki

#: What decides and what carries it out; the API client is not counted.
_PACKAGES = ("controller/", "core/")


class Call(NamedTuple):
    """One call of a function, by file below `src/hotmap`."""

    file: str
    function: str
    depth: int


class Tracer:
    """Records the calls of one task, from the first call of one function to the end of another."""

    def __init__(self, first: CodeType, last: CodeType) -> None:
        self._first, self._last = first, last
        self._is_over = False
        self._task: asyncio.Task[object] | None = None
        #: Frames under way of the task, for the depth; a coroutine that is resumed counts once.
        self._known: set[int] = set()
        self.calls: list[Call] = []

    def __enter__(self) -> Tracer:
        sys.setprofile(self._on_event)
        return self

    def __exit__(self, *exc_info: object) -> None:
        sys.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename.partition("/src/hotmap/")[2]
        if self._is_over or not file.startswith(_PACKAGES) or not self._is_followed(frame):
            return
        if event != "call":
            self._is_over = event == "return" and frame.f_code is self._last
            return
        function = frame.f_code.co_qualname
        if function.endswith(">") or id(frame) in self._known:
            return  # a lambda or comprehension, or a coroutine that goes on
        if frame.f_code.co_flags & 0x80:  # CO_COROUTINE: the same frame is called at each step
            self._known.add(id(frame))
        self.calls.append(Call(file, function, _depth(frame)))

    def _is_followed(self, frame: FrameType) -> bool:
        try:
            task = asyncio.current_task()
        except RuntimeError:
            return False
        if self._task is None and frame.f_code is self._first:
            self._task = task
        return task is not None and task is self._task


def _depth(frame: FrameType | None) -> int:
    depth = -1
    while frame is not None:
        depth += frame.f_code.co_filename.partition("/src/hotmap/")[2].startswith(_PACKAGES)
        frame = frame.f_back
    return depth


async def trace() -> list[Call]:
    """Return the calls of the reconcile that rolls out one Deployment after an edit."""
    with tempfile.TemporaryDirectory() as folder:
        pki = create_pki(Path(folder))
        async with control_plane(pki) as plane, Client(plane.config()) as client:
            world = World(plane, client)
            await world.config_map(LEVEL="info")
            await world.workload()
            async with world.controller() as controller:
                await world.quiet(controller)
                with Tracer(
                    Reconciler.reconcile.__code__, LeaderTerm._after_work.__code__
                ) as tracer:
                    await world.edit(LEVEL="debug")
                    await world.rollout()
                    await world.quiet(controller)
    return tracer.calls


def main() -> None:
    """Print the calls, by file or in order."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", action="store_true", help="print every call")
    arguments = parser.parse_args()
    calls = asyncio.run(trace())
    functions = Counter((call.file, call.function) for call in calls)
    files = dict.fromkeys(call.file for call in calls)
    moves = sum(before.file != after.file for before, after in pairwise(calls))
    if arguments.calls:
        for call in calls:
            print(f"{'  ' * call.depth}{call.function}  ({call.file})")
    else:
        for file in files:
            print(file)
            for (where, function), count in functions.items():
                if where == file:
                    print(f"    {function}" + (f" × {count}" if count > 1 else ""))
    print(f"{len(functions)} functions in {len(files)} files, {len(calls)} calls, {moves} moves")


if __name__ == "__main__":
    main()
