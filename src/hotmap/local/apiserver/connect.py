"""Pod subresources that hold a connection open: log and exec.

Exec speaks the WebSocket subprotocols `v5.channel.k8s.io` and `v4.channel.k8s.io`
(apimachinery/pkg/util/remotecommand/constants.go): the first byte of a message is its channel.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import WSMsgType, web

from hotmap.core.errors import ApiError, BadRequest, api_error
from hotmap.local.apiserver.options import integer
from hotmap.local.apiserver.routes import is_true
from hotmap.local.apiserver.status import failure_status
from hotmap.local.kubelet_api import ExecOptions, LogOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.apiserver.routes import ResourcePath
    from hotmap.local.kubelet_api import ExecSession, KubeletAPI

JsonObject = dict[str, Any]

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE = range(5)
_CLOSE = 255
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")


async def open_log(
    registry: Registry,
    kubelet: KubeletAPI | None,
    path: ResourcePath,
    query: Mapping[str, str],
) -> AsyncIterator[bytes]:
    """Open the log that a query asks for.

    Raises:
        NotFound: there is no such pod.
        BadRequest: the container is not named, or does not exist.
        Unavailable: no node runs here.
    """
    pod = await registry.get(registry.scheme.name(path.kind), path.namespace, path.name)
    container = choose_container(pod, query.get("container", ""))
    since: float | None = None
    seconds = integer(query, "sinceSeconds")
    if seconds is not None:
        since = time.time() - seconds
    elif "sinceTime" in query:
        since = _posix(query["sinceTime"])
    options = LogOptions(
        follow=is_true(query.get("follow")),
        previous=is_true(query.get("previous")),
        timestamps=is_true(query.get("timestamps")),
        tail_lines=integer(query, "tailLines"),
        since=since,
        limit_bytes=integer(query, "limitBytes"),
    )
    return await _present(kubelet).logs(path.namespace or "", path.name, container, options)


async def open_exec(
    registry: Registry,
    kubelet: KubeletAPI | None,
    path: ResourcePath,
    query: Mapping[str, str],
    command: Sequence[str],
) -> ExecSession:
    """Start the command that a query asks for.

    Raises:
        NotFound: there is no such pod.
        BadRequest: no command is given, or the container is not clear.
        Unavailable: no node runs here.
    """
    if not command:
        raise BadRequest("you must specify at least one command for the container")
    pod = await registry.get(registry.scheme.name(path.kind), path.namespace, path.name)
    container = choose_container(pod, query.get("container", ""))
    options = ExecOptions(command, is_true(query.get("stdin")), is_true(query.get("tty")))
    return await _present(kubelet).exec(path.namespace or "", path.name, container, options)


def choose_container(pod: JsonObject, wanted: str) -> str:
    """Find the container that a request means (pkg/registry/core/pod/strategy.go).

    Raises:
        BadRequest: there is no such container, or there are several and none is named.
    """
    spec, name = pod["spec"], pod["metadata"]["name"]
    containers = [container["name"] for container in spec.get("containers", ())]
    inits = [container["name"] for container in spec.get("initContainers", ())]
    if wanted:
        if wanted not in containers + inits:
            raise BadRequest(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(containers) == 1:
        return str(containers[0])
    text = (
        f"a container name must be specified for pod {name}, choose one of: "
        f"[{' '.join(containers)}]"
    )
    if inits:
        text += f" or one of the init containers: [{' '.join(inits)}]"
    raise BadRequest(text)


def _present(kubelet: KubeletAPI | None) -> KubeletAPI:
    if kubelet is None:
        raise api_error(503, "no node runs in this control plane", reason="ServiceUnavailable")
    return kubelet


def _posix(text: str) -> float:
    from datetime import datetime

    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise BadRequest(f"sinceTime: {text!r} is not RFC 3339") from None


async def serve_exec(socket: web.WebSocketResponse, session: ExecSession, protocol: str) -> None:
    """Join a WebSocket and a command until the command ends or the client goes.

    The last message is a Status on the error channel, with the exit code where it is not 0.
    """
    reader = asyncio.create_task(_pass_input(socket, session, protocol))
    try:
        while (output := await session.read()) is not None:
            stream, data = output
            channel = _STDOUT if stream == "stdout" else _STDERR
            await socket.send_bytes(bytes([channel]) + data)
        code = await session.wait()
        await socket.send_bytes(bytes([_ERROR]) + msgspec.json.encode(exit_status(code)))
    except ApiError as error:
        await socket.send_bytes(bytes([_ERROR]) + msgspec.json.encode(failure_status(error)))
    finally:
        reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reader
        await session.close()


async def _pass_input(socket: web.WebSocketResponse, session: ExecSession, protocol: str) -> None:
    async for message in socket:
        if message.type is not WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == _STDIN and data:
            await session.write(data)
        elif channel == _RESIZE:
            size = msgspec.json.decode(data)
            await session.resize(size["Width"], size["Height"])
        elif channel == _CLOSE and protocol == PROTOCOLS[0] and data[:1] == bytes([_STDIN]):
            await session.close_input()
    # The client has disconnected, so the command is ended.
    await session.close()


def exit_status(code: int) -> JsonObject:
    """Say how a command ended (kubelet: remotecommand/exec.go)."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
