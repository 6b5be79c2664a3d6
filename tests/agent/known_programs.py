"""Runs known programs themselves, for tests of the agent beside them."""

from __future__ import annotations

import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.agent.agents import TIMEOUT, Agent
from tests.support.requires import requires

from hotmap.agent.process.process_table import ProcessError, find
from hotmap.agent.settings.known_programs import KNOWN_PROGRAMS


@contextmanager
def program(name: str, folder: Path, *command: object, **options: object) -> Iterator[int]:
    """Run a program for the length of a block; gives its process number."""
    words = [str(word) for word in command]
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, **options)  # type: ignore[call-overload]
    try:
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def needs(*names: str, path: str = "") -> None:
    """Skip where a program of the entry is not installed."""
    for name in names:
        requires(
            names[0],
            available=shutil.which(name, path=path or None) is not None,
            reason=f"{name} is not installed (tests/agent/install_programs.sh)",
        )


def served(port: int) -> str:
    """Ask a web server; "" while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
            return str(answer.read().decode().strip())
    except urllib.error.HTTPError as error:
        return str(error.read().decode().strip())
    except OSError:
        return ""


def refuses(running: Agent, *words: str) -> None:
    """Assert that the current content is refused, with the output of the checker."""
    error = running.reaches("refused")["check"]["error"]
    assert all(word in error for word in words), error


def own_target(entry: str, pid: int, folder: Path) -> tuple[str, ...]:
    """Name the process by a pid file, since the machine may run others of its name.

    The entry's own way, by name, has to find it too, alone or among those.
    """
    try:
        assert find(KNOWN_PROGRAMS[entry].process).pid == pid
    except ProcessError as error:
        assert str(pid) in str(error)
    pidfile = folder / "program.pid"
    pidfile.write_text(str(pid))
    flags = ["--for", entry, "--process", f"pidfile:{pidfile}"]
    for probe in KNOWN_PROGRAMS[entry].verify:
        flags += ["--verify", probe.replace(KNOWN_PROGRAMS[entry].process, f"pidfile:{pidfile}")]
    return ("--signal", KNOWN_PROGRAMS[entry].signal, *flags)
