"""Pod subresources that hold a connection open: log, exec, attach and port-forward.

What their requests mean; `streaming` has the connections.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hotmap.core.errors import BadRequest, api_error
from hotmap.local.apiserver.options import integer
from hotmap.local.apiserver.routes import is_true
from hotmap.local.apiserver.streaming import port_forward, remote_command
from hotmap.local.kubelet_api import LogOptions, StreamOptions

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Mapping

    from aiohttp import web

    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.apiserver.routes import ResourcePath
    from hotmap.local.kubelet_api import KubeletAPI

JsonObject = dict[str, Any]


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


async def serve_connection(
    registry: Registry,
    kubelet: KubeletAPI | None,
    path: ResourcePath,
    request: web.BaseRequest,
) -> web.StreamResponse:
    """Serve exec, attach or port-forward until either end is done.

    Raises:
        NotFound: there is no such pod.
        BadRequest: no upgrade is asked for, no command is given, or the container is not clear.
        ApiError: the container does not run.
        Unavailable: no node runs here.
    """
    if not request.headers.get("Upgrade"):
        raise BadRequest("Upgrade request required")
    pod = await registry.get(registry.scheme.name(path.kind), path.namespace, path.name)
    node, namespace, query = _present(kubelet), path.namespace or "", request.query
    if path.subresource == "portforward":

        async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await node.connect(namespace, path.name, port)

        target = port_forward.Target(f"{path.name}_{namespace}", pod["metadata"]["uid"], connect)
        return await port_forward.serve(request, target, query.getall("ports", []))
    options = StreamOptions(
        *(is_true(query.get(name)) for name in ("stdin", "stdout", "stderr", "tty"))
    )
    container = choose_container(pod, query.get("container", ""))
    if path.subresource == "attach":
        session = await node.attach(namespace, path.name, container, options)
    else:
        command = query.getall("command", [])
        if not command:
            raise BadRequest("you must specify at least one command for the container")
        session = await node.exec(namespace, path.name, container, command, options)
    return await remote_command.serve(request, options, session)


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
