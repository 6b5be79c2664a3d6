"""A Chromium without a window, driven by the DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from tests.support.requires import requires

CHROMIUM = shutil.which("chromium") or ""

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)


class Page:
    """One page of the browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        #: What the page has logged and what it failed to load, as Chromium words it.
        self.problems: list[str] = []

    async def send(self, method: str, **parameters: Any) -> Any:
        """Send a command; returns its result."""
        self._number += 1
        number = self._number
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json(timeout=30)
            if message.get("method") == "Log.entryAdded":
                entry = message["params"]["entry"]
                self.problems.append(f"{entry['text']} ({entry.get('url', '')})")
            if message.get("method") == "Runtime.exceptionThrown":
                self.problems.append(json.dumps(message["params"]["exceptionDetails"])[:2000])
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    async def run(self, script: str, *, waits: bool = False) -> Any:
        """Return the value of an expression in the page; `waits`: of a promise."""
        result = await self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=waits
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def wait(self, script: str, seconds: float = 30.0) -> None:
        """Wait until an expression is true."""
        try:
            async with asyncio.timeout(seconds):
                while not await self.run(f"Boolean({script})"):  # noqa: ASYNC110  the page has no event
                    await asyncio.sleep(0.05)
        except TimeoutError:
            text = await self.run("document.body.innerText")
            raise AssertionError(f"never true: {script}\n{text}\n{self.problems}") from None

    async def open(self, url: str) -> None:
        """Open a URL."""
        await self.send("Page.navigate", url=url)

    async def resize(self, width: int, height: int, *, theme: str = "light") -> None:
        """Set the size of the window in CSS pixels, and the theme."""
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": theme}
        await self.send("Emulation.setEmulatedMedia", features=[scheme])

    async def picture(self, target: Path) -> None:
        """Write what the window shows, in the format of the name's end."""
        await self.send("Emulation.setScrollbarsHidden", hidden=True)
        form = target.suffix.removeprefix(".")
        quality = {"quality": 85} if form == "webp" else {}
        result = await self.send("Page.captureScreenshot", format=form, **quality)
        target.write_bytes(base64.b64decode(result["data"]))


@asynccontextmanager
async def running_page(directory: Path) -> AsyncIterator[Page]:
    """Start a browser with a new profile, and yield its page."""
    requires("chromium", available=bool(CHROMIUM), reason="no chromium is installed")
    profile = directory / "profile"
    log = (directory / "chromium.log").open("wb")
    process = await asyncio.create_subprocess_exec(
        CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", "about:blank", stdout=log, stderr=log
    )
    try:
        port = await _read_port(profile / "DevToolsActivePort", process)
        async with aiohttp.ClientSession() as http:
            async with http.get(f"http://127.0.0.1:{port}/json/list") as response:
                pages = await response.json(content_type=None)
            address = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
            async with http.ws_connect(address, max_msg_size=0) as socket:
                page = Page(socket)
                for domain in ("Page", "Log", "Runtime"):
                    await page.send(f"{domain}.enable")
                yield page
    finally:
        process.terminate()
        await process.wait()
        log.close()


async def _read_port(file: Path, process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(60):
        while not file.exists() or not file.read_text():
            assert process.returncode is None, "chromium has ended"
            await asyncio.sleep(0.05)
    return int(file.read_text().split()[0])
