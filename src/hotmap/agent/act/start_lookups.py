"""Looks up the starts of processes, and when the content of directories was written."""

from __future__ import annotations

from hotmap.agent.decide.start_evidence import Lookups, ProcessStart, WrittenContent
from hotmap.agent.process.process_table import (
    START_PRECISION,
    ProcessError,
    executed_again_at,
    find,
    find_main,
    has_memory_of_parent,
    latest_since_boot,
    started_at,
)
from hotmap.volume.content_age import content_age

__all__ = ["start_lookups"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.agent.process.application import Application
    from hotmap.agent.process.process_table import Process


def start_lookups(application: Application) -> Lookups:
    """Return what `find_start_evidence` looks up; it may raise OSError or ProcessError."""

    def application_start() -> ProcessStart | None:
        process = application.process()
        return None if process is None else start_of(process)

    def start(search: Callable[[str], Process], target: str) -> ProcessStart | str:
        try:
            return start_of(search(target))
        except ProcessError as error:
            return str(error)

    def start_of(process: Process) -> ProcessStart:
        # The kernel rounds down: the application would seem older than what it was started with.
        is_own = process == application.process()
        at = application.started_at if is_own else started_at(process)
        return ProcessStart(
            process.pid, at, has_memory_of_parent(process.pid), executed_again_at(process)
        )

    return Lookups(
        lambda target: start(find, target),
        lambda target: start(find_main, target),
        application_start, _written, START_PRECISION,
    )  # fmt: skip


def _written(directory: str) -> WrittenContent | None:
    age = content_age(directory)
    return None if age is None else WrittenContent(latest_since_boot(age.written), age.is_first)
