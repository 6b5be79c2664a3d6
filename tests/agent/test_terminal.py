"""`hotmap agent … -- PROGRAM` in a terminal: what is typed goes to the application."""

from __future__ import annotations

import os
import pty
import select
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.agent.agents import TIMEOUT, Volume


class Terminal:
    """A terminal with a process that leads its session, as in `kubectl exec -it`."""

    def __init__(self, *command: str) -> None:
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:
            os.execvp(command[0], command)
        self._shown = b""

    def types(self, text: bytes) -> None:
        os.write(self._descriptor, text)

    def shows(self, text: bytes) -> None:
        """Wait for a text that comes after those that were waited for before."""
        while text not in self._shown:
            assert select.select([self._descriptor], [], [], TIMEOUT)[0], self._shown
            self._shown += os.read(self._descriptor, 4096)
        self._shown = self._shown.partition(text)[2]

    def wait(self) -> int:
        """Wait for the end of the process."""
        pid, self.pid = self.pid, 0
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def close(self) -> None:
        os.close(self._descriptor)
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


@contextmanager
def terminal(*command: str) -> Iterator[Terminal]:
    found = Terminal(*command)
    try:
        yield found
    finally:
        found.close()


#: Reads lines from a terminal. A handler of Python's would miss a signal just before a read.
LINES = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
print('started', os.environ['APP_VALUE'], flush=True)
for line in sys.stdin: print('read', line.strip(), flush=True)
"""


def agent_around_lines(volume: Volume) -> list[str]:
    flags = ("--listen", "none", "--min-uptime", "0", "--env-from", str(volume))
    words = ["-m", "hotmap", "agent", *flags, "--", sys.executable, "-c", LINES]
    return [sys.executable, *words]


def test_application_reads_the_terminal(tmp_path: Path) -> None:
    """Also after a restart; what is typed to interrupt it goes to it, and its status out."""
    volume = Volume(tmp_path / "volume", APP_VALUE="one")
    with terminal(*agent_around_lines(volume)) as screen:
        screen.shows(b"started one")
        screen.types(b"first\n")
        screen.shows(b"read first")
        volume.write(APP_VALUE="two")
        screen.shows(b"started two")
        screen.types(b"second\n")
        screen.shows(b"read second")
        screen.types(b"\x03")  # what a terminal sends for Ctrl-C
        assert screen.wait() == 130


def test_stop_from_the_terminal_stops_the_job_of_a_shell(tmp_path: Path) -> None:
    """Ctrl-Z gives the shell its terminal back, and fg the application; a change waits for it."""
    volume = Volume(tmp_path / "volume", APP_VALUE="one")
    with terminal("bash", "--norc", "--noprofile", "-i") as screen:
        screen.types(f"PS1='ready> '; {shlex.join(agent_around_lines(volume))}\n".encode())
        screen.shows(b"started one")
        for word in (b"first", b"second"):
            screen.types(b"\x1a")
            screen.shows(b"Stopped")
            screen.shows(b"ready> ")
            screen.types(b"fg\n" + word + b"\n")
            screen.shows(b"read " + word)
        screen.types(b"\x1a")
        screen.shows(b"ready> ")
        volume.write(APP_VALUE="two")
        screen.types(b"fg\n")
        screen.shows(b"started two")
        screen.types(b"third\n")
        screen.shows(b"read third")
        screen.types(b"\x03")
        screen.shows(b"ready> ")
        screen.types(b"exit $?\n")
        assert screen.wait() == 130


def test_application_that_reads_in_the_background_is_continued_by_the_shell(tmp_path: Path) -> None:
    """Reading the terminal there stops it; if the agent went on, `fg` would continue neither."""
    volume = Volume(tmp_path / "volume", APP_VALUE="one")
    with terminal("bash", "--norc", "--noprofile", "-i") as screen:
        words = shlex.join(agent_around_lines(volume))
        screen.types(f"PS1='ready> '; set -b; {words}\n".encode())
        screen.shows(b"started one")
        screen.types(b"\x1a")
        screen.shows(b"Stopped")
        screen.shows(b"ready> ")
        screen.types(b"bg\n")
        screen.shows(b"Stopped")
        volume.write(APP_VALUE="two")
        screen.types(b"fg\n")
        screen.shows(b"started two")
        screen.types(b"first\n")
        screen.shows(b"read first")
        screen.types(b"\x03")
        screen.shows(b"ready> ")


def test_terminal_that_only_the_application_may_write_to_does_not_stop_the_agent(
    tmp_path: Path,
) -> None:
    """`stty tostop`: the kernel stops other processes that write, and the agent has a log."""
    volume = Volume(tmp_path / "volume", APP_VALUE="one")
    with terminal("bash", "--norc", "--noprofile", "-i") as screen:
        words = shlex.join(agent_around_lines(volume))
        screen.types(f"PS1='ready> '; stty tostop; {words}\n".encode())
        screen.shows(b"application: started")
        volume.write(APP_VALUE="two")
        screen.shows(b"started two")
        screen.types(b"first\n")
        screen.shows(b"read first")
        screen.types(b"\x03")
        screen.shows(b"ready> ")


def test_stop_from_the_terminal_is_undone_where_no_shell_is(tmp_path: Path) -> None:
    """In a container nobody could continue the application."""
    volume = Volume(tmp_path / "volume", APP_VALUE="one")
    with terminal(*agent_around_lines(volume)) as screen:
        screen.shows(b"started one")
        screen.types(b"\x1a")
        time.sleep(0.2)
        screen.types(b"first\n")
        screen.shows(b"read first")
