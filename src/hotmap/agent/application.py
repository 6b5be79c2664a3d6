"""The supervised application as rules see it: what it is started with, and its restarts."""

from __future__ import annotations

import os
import signal

from hotmap.agent.environment import expand, make_environment
from hotmap.agent.supervise import Supervisor, take_orphans

__all__ = ["Application"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hotmap.agent.children import Children
    from hotmap.agent.detect import Snapshot
    from hotmap.agent.log import Log
    from hotmap.agent.loop import Loop
    from hotmap.agent.processes import Process
    from hotmap.agent.settings import Settings

#: Signals that a supervised application gets as we get them.
_FORWARDED = (
    signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT,
    signal.SIGTSTP,
)  # fmt: skip


class Application:
    """One program around which the agent stands; where none is given, nothing ever runs."""

    def __init__(
        self,
        loop: Loop,
        children: Children,
        log: Log,
        settings: Settings,
        *,
        ended: Callable[[int], None],
    ) -> None:
        """Prepare it; `ended` gets the exit status when it is over for good."""
        self._loop = loop
        self._log = log
        self._settings = settings
        self._supervisor = Supervisor(loop, children, grace=settings.grace, ended=ended)
        #: Contents of the directories that its environment is made of.
        self._contents: dict[str, dict[str, bytes]] = {}

    def begin(self) -> None:
        """Take a main process's duties on, where there is an application."""
        if not self._settings.application:
            return
        self._loop.on_signals(_FORWARDED, self._supervisor.forward)
        if not take_orphans():
            self._log.warning("start", "what the application orphans is not ours to reap")

    @property
    def wanted(self) -> bool:
        """Whether there is a program to run."""
        return bool(self._settings.application)

    @property
    def running(self) -> bool:
        """Whether a copy exists, also one that is being stopped."""
        return self._supervisor.running

    def process(self) -> Process | None:
        """Name the present copy; None while there is none."""
        return self._supervisor.process()

    def take(self, snapshot: Snapshot) -> None:
        """Take what its next start's environment is made of."""
        self._contents = {
            one.directory: snapshot.contents[one.directory] for one in self._settings.env_from
        }

    def start(self) -> None:
        """Start it for the first time."""
        self._supervisor.start(*self._call())
        self._log.info("application", "started", pid=self._supervisor.pid)

    def restart(self, done: Callable[[], None]) -> None:
        """Stop it and start it with what is there now; then call `done`."""

        def started() -> None:
            self._log.info("application", "started anew", pid=self._supervisor.pid)
            done()

        self._supervisor.restart(*self._call(), started)

    def end(self) -> None:
        """Stop it for good; a second call kills it."""
        self._supervisor.end()

    def forward(self, number: int) -> None:
        """Pass a signal on to it."""
        self._supervisor.forward(number)

    def status(self) -> dict[str, Any]:
        """Describe it as JSON values."""
        return {"pid": self._supervisor.pid, "starts": self._supervisor.starts}

    def _call(self) -> tuple[list[str], dict[str, str]]:
        environment = make_environment(
            os.environ, self._contents, self._settings.env_from, self._settings.env
        )
        return [expand(word, environment) for word in self._settings.application], environment
