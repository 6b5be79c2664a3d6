"""`hotmap local get-raw`: a record of a local control plane's store, byte for byte."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from hotmap.core.errors import NotFound, SettingsError, Unreachable
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.transport import Request, Transport
from hotmap.local.state import default_directory

__all__ = ["print_stored_value"]

_TIMEOUT = 10.0


def print_stored_value(directory: str | None, key: str) -> int:
    """Print key and value as `etcdctl get` does; returns the exit status, 1 for a missing key.

    Raises:
        SettingsError: no control plane runs in the directory.
    """
    state = Path(directory) if directory else default_directory()
    try:
        value = asyncio.run(_fetch(state / "kubeconfig", key))
    except NotFound:
        print(f"hotmap: key {key} not found", file=sys.stderr)
        return 1
    sys.stdout.buffer.write(key.encode() + b"\n" + value + b"\n")
    return 0


async def _fetch(kubeconfig: Path, key: str) -> bytes:
    if not kubeconfig.exists():
        raise SettingsError(
            f"no local control plane runs in {kubeconfig.parent}; start one with 'hotmap local up'"
        )
    config = load_kubeconfig(str(kubeconfig))
    transport = Transport(config, user_agent="hotmap", connect_timeout=_TIMEOUT)
    await transport.open()
    try:
        path = f"/debug/store/{key.removeprefix('/')}"
        return await transport.read(Request("GET", path), timeout=_TIMEOUT)
    except Unreachable:
        raise SettingsError(
            f"the local control plane in {kubeconfig.parent} does not answer; start it again"
        ) from None
    finally:
        await transport.close()
