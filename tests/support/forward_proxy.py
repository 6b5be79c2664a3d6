"""A forward proxy as a process: `python -m tests.support.forward_proxy`.

HTTP CONNECT, over TLS with --tls, or SOCKS5 with --socks. Prints its port, then a line for each
tunnel that it opens. Every name leads to this machine, so that a test can use any.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import ipaddress
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


class RunningProxy:
    """A proxy while it runs."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        assert process.stdout is not None
        self.port = int(process.stdout.readline())
        self._log = log

    def tunnels(self) -> list[str]:
        """List the addresses that it was asked for, in order."""
        return self._log.read_text().split()


@contextmanager
def running_proxy(directory: Path, *flags: str) -> Iterator[RunningProxy]:
    """Run a proxy with these flags for the length of a block."""
    log = directory / "tunnels"
    log.touch()
    command = (sys.executable, "-m", "tests.support.forward_proxy", "--log", str(log), *flags)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield RunningProxy(process, log)
        finally:
            process.kill()


class _Proxy:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self._log = Path(arguments.log)
        self._user: str = arguments.user
        self._socks: bool = arguments.socks

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError):
            await (self._serve_socks if self._socks else self._serve_connect)(reader, writer)
        writer.close()

    async def _serve_connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = head.split(" ", 2)
        wanted = base64.b64encode(self._user.encode()).decode()
        if self._user and f"Proxy-Authorization: Basic {wanted}\r\n" not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        elif method != "CONNECT":
            writer.write(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")
        else:
            await self._tunnel(target, b"HTTP/1.1 200 OK\r\n\r\n", reader, writer)

    async def _serve_socks(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        method = 2 if self._user else 0
        if method not in methods:
            writer.write(b"\x05\xff")
            return
        writer.write(bytes((5, method)))
        if self._user:
            await reader.readexactly(1)
            given = [await reader.readexactly((await reader.readexactly(1))[0]) for _ in range(2)]
            accepted = b":".join(given).decode() == self._user
            writer.write(b"\x01\x00" if accepted else b"\x01\x01")
            if not accepted:
                return
        _, _, _, kind = await reader.readexactly(4)
        if kind == 3:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        else:
            packed = await reader.readexactly(4 if kind == 1 else 16)
            host = str(ipaddress.ip_address(packed))
        port = int.from_bytes(await reader.readexactly(2))
        refusal = b"\x05\x04\x00\x01" + bytes(6)
        if host == "refused.test":
            writer.write(refusal)
            return
        granted = b"\x05\x00\x00\x01" + bytes(6)
        await self._tunnel(f"{host}:{port}", granted, reader, writer)

    async def _tunnel(
        self,
        target: str,
        answer: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        with self._log.open("a") as log:
            log.write(f"{target}\n")
        there = await asyncio.open_connection("127.0.0.1", int(target.rpartition(":")[2]))
        writer.write(answer)
        await asyncio.gather(_pipe(reader, there[1]), _pipe(there[0], writer))


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", required=True)
    parser.add_argument("--tls", nargs=2, metavar=("CERTIFICATE", "KEY"))
    parser.add_argument("--socks", action="store_true")
    parser.add_argument("--user", default="", help="USER:PASSWORD")
    given = parser.parse_args(arguments)
    context = None
    if given.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*given.tls)
    server = await asyncio.start_server(_Proxy(given).serve, "127.0.0.1", 0, ssl=context)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
