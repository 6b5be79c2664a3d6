"""`hotmap controller` as a process of its own: started, looked at, and ended in all the bad ways.

Everything that it prints is kept, so that it can be searched for what must not be there.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any, Self

import aiohttp
from tests.support.processes import child_environment
from tests.support.warm_process import WarmProcess

__all__ = ["ENDPOINTS", "TIMEOUT", "ControllerProcess"]

#: Seconds after which a test says what it timed out on.
TIMEOUT = 60.0

#: All that a controller serves.
ENDPOINTS = ("/metrics", "/healthz", "/readyz", "/v1/status")

#: Runs hotmap where the clock is wrong.
_AHEAD = """\
import runpy, time
clock = time.time
time.time = lambda: clock() + {}
runpy.run_module("hotmap", run_name="__main__", alter_sys=True)
"""

#: Runs hotmap as another version of itself.
_RENAMED = """\
import runpy, hotmap
hotmap.__version__ = {!r}
runpy.run_module("hotmap", run_name="__main__", alter_sys=True)
"""

_PORT = re.compile(r"health and status on port (\d+)")
_DEPTH = re.compile(r"^hotmap_queue_depth\{.*\} ([0-9.]+)$", re.MULTILINE)


class ControllerProcess:
    """One process, as an async context manager: started at its begin, gone at its end."""

    def __init__(
        self,
        kubeconfig: Path,
        *flags: str,
        log: Path,
        ahead: float = 0.0,
        version: str = "",
        **environment: str,
    ) -> None:
        """`ahead` is by how many seconds the clock of its machine is; `version` what it claims."""
        self._environment = environment
        #: What is run instead of the command, "" for the command itself.
        self._program = ""
        if ahead:
            self._program = _AHEAD.format(ahead)
        elif version:
            self._program = _RENAMED.format(version)
        self._arguments = (
            *("controller", f"--kubeconfig={kubeconfig}", "--listen=127.0.0.1:0"),
            *("--log-level=debug", "--flap-limit=0"),
            *(() if "--leader-elect" in flags else ("--no-leader-elect",)),
            *flags,
        )
        self._log = log
        self._process: asyncio.subprocess.Process | WarmProcess | None = None
        #: What its endpoints answered whenever they were read.
        self._shown: list[str] = []

    async def __aenter__(self) -> Self:
        env = child_environment(PYTHONUNBUFFERED="1", **self._environment)
        with self._log.open("a") as written:
            if self._program:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-c", self._program, *self._arguments),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=written,
                    stderr=written,
                    cwd="/",
                    env=env,
                )
            else:
                self._process = WarmProcess(
                    self._arguments, env=env, stdout=written, stderr=written
                )
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self.process.returncode is None:
            await self.kill()
        # It retries after an internal error, so a test may pass in spite of one.
        assert "Traceback" not in self.log(), self.log()

    @property
    def process(self) -> asyncio.subprocess.Process | WarmProcess:
        assert self._process is not None
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    # -- what is done to it --------------------------------------------------------------------

    async def ready(self) -> Self:
        """Wait until it acts, or stands by with warm stores."""
        await self.wait_for_output("ready; ")
        return self

    async def kill(self) -> None:
        """End it as a crash does: nothing is written any more."""
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> int:
        """Ask it to end; returns the exit status."""
        await self.get_all_endpoints()
        self.process.terminate()
        async with asyncio.timeout(TIMEOUT):
            return await self.process.wait()

    def pause(self) -> None:
        """Freeze it; its connections stay open."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    # -- what it says --------------------------------------------------------------------------

    def log(self) -> str:
        """Return what it has printed so far."""
        return self._log.read_text()

    async def wait_for_output(self, words: str) -> None:
        """Wait until it has printed some words."""
        deadline = time.monotonic() + TIMEOUT
        while words not in self.log():
            if not self.is_running:
                raise AssertionError(f"it ended before it said {words!r}:\n{self.log()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"it did not say {words!r}:\n{self.log()}")
            await asyncio.sleep(0.02)

    async def get(self, path: str) -> str:
        """Return what one of its endpoints answers, whatever the status."""
        found = _PORT.search(self.log())
        assert found is not None, "it is not ready"
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT)) as http,
            http.get(f"http://127.0.0.1:{found[1]}{path}") as response,
        ):
            text = await response.text()
        self._shown.append(text)
        return text

    async def leads(self) -> bool:
        """Return whether it acts at this moment."""
        return '"leader"' in await self.get("/readyz")

    async def is_idle(self) -> bool:
        """Return whether no consumer is waited for or worked on."""
        depths = _DEPTH.findall(await self.get("/metrics"))
        return bool(depths) and not any(map(float, depths))

    async def get_all_endpoints(self) -> None:
        """Ask all its endpoints, so that their answers are among its outputs."""
        if self.is_running and _PORT.search(self.log()):
            for path in ENDPOINTS:
                await self.get(path)

    def outputs(self) -> list[Any]:
        """Return everything that it has printed and served."""
        return [self.log(), *self._shown]
