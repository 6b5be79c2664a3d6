"""Pod subresources that hold a connection open: log, exec, attach and port-forward.

What their requests mean; `streaming` has the connections.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hotmap.core.errors import BadRequest, api_error
from hotmap.local.apiserver.options import integer
from hotmap.local.apiserver.routes import is_true
from hotmap.local.apiserver.status import invalid
from hotmap.local.apiserver.streaming import port_forward, remote_command
from hotmap.local.field_errors import forbidden_field, invalid_value
from hotmap.local.json_object import JsonObject
from hotmap.local.kubelet_api import LogOptions, StreamOptions
from hotmap.local.scheme import Kind, Names

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Mapping

    from multidict import MultiMapping

    from hotmap.local.access import UserInfo
    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.apiserver.routes import ResourcePath
    from hotmap.local.http_server import web
    from hotmap.local.kubelet_api import KubeletAPI

_STREAMS = ("stdin", "stdout", "stderr", "tty")
_OPTION_KINDS = {
    "exec": "PodExecOptions",
    "attach": "PodAttachOptions",
    "portforward": "PodPortForwardOptions",
}
# What messages call the query of a log.
_LOG_OPTIONS = Kind("", ("v1",), Names("podlogoptions", "PodLogOptions"))


async def open_log(
    registry: Registry,
    kubelet: KubeletAPI | None,
    path: ResourcePath,
    query: Mapping[str, str],
) -> AsyncIterator[bytes] | None:
    """Open the log that a query asks for, None where the pod is on no node yet.

    Raises:
        NotFound: there is no such pod.
        BadRequest: the container is not named, or does not exist.
        Unavailable: no node runs here.
    """
    pod = registry.reader.get(path)
    _check_log_options(path.name, query)
    container = choose_container(pod, query.get("container", ""))
    if not pod["spec"].get("nodeName"):
        return None
    since: float | None = None
    seconds = integer(query, "sinceSeconds")
    if seconds is not None:
        # Earlier times may have no date; no line is as old.
        since = max(0.0, time.time() - seconds)
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
    user: UserInfo,
) -> web.StreamResponse:
    """Serve exec, attach or port-forward until either end is done.

    Raises:
        ApiError: admission refuses the connection.
        NotFound: there is no such pod.
        BadRequest: no upgrade is asked for, no command is given, or the container is not clear.
        ApiError: the container does not run.
        Unavailable: no node runs here.
    """
    if request.query.get("dryRun"):
        raise BadRequest("dryRun is not supported")
    wanted = await registry.admitted.admit_connection(path, _options(path, request.query), user)
    pod = registry.reader.get(path)
    if not pod["spec"].get("nodeName"):
        raise BadRequest(f"pod {path.name} does not have a host assigned")
    if not request.headers.get("Upgrade"):
        raise BadRequest("Upgrade request required")
    node, namespace = _present(kubelet), path.namespace or ""
    if path.subresource == "portforward":

        async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await node.connect(namespace, path.name, port)

        target = port_forward.Target(f"{path.name}_{namespace}", pod["metadata"]["uid"], connect)
        return await port_forward.serve(request, target, request.query.getall("ports", []))
    options = StreamOptions(*(bool(wanted.get(name)) for name in _STREAMS))
    container = choose_container(pod, wanted.get("container", ""))
    if path.subresource == "attach":
        session = await node.attach(namespace, path.name, container, options)
    else:
        command = wanted.get("command") or []
        if not command:
            raise BadRequest("you must specify at least one command for the container")
        session = await node.exec(namespace, path.name, container, command, options)
    return await remote_command.serve(request, options, session)


def _options(path: ResourcePath, query: MultiMapping[str]) -> JsonObject:
    """Return the options of a connection as admission sees them (core/v1: PodExecOptions, …)."""
    kind = _OPTION_KINDS[path.subresource]
    options: JsonObject = {"kind": kind, "apiVersion": "v1"}
    if path.subresource == "portforward":
        ports = [int(port) for port in query.getall("ports", []) if port.isdigit()]
        return {**options, "ports": ports} if ports else options
    options |= {name: True for name in _STREAMS if is_true(query.get(name))}
    if query.get("container"):
        options["container"] = query["container"]
    if path.subresource == "exec":
        options["command"] = query.getall("command", []) or None
    return options


def _check_log_options(name: str, query: Mapping[str, str]) -> None:
    """Refuse numbers that make no sense (ValidatePodLogOptions)."""
    errors = []
    for field, least in (("tailLines", 0), ("sinceSeconds", 1), ("limitBytes", 1)):
        value = integer(query, field)
        if value is not None and value < least:
            why = (
                f"must be greater than or equal to {least}"
                if not least
                else "must be greater than 0"
            )
            errors.append(invalid_value(field, value, why))
    if "sinceSeconds" in query and "sinceTime" in query:
        why = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        errors.append(forbidden_field("", why))
    if errors:
        raise invalid(_LOG_OPTIONS, name, errors)


def choose_container(pod: JsonObject, wanted: str) -> str:
    """Find the container that a request means (pkg/registry/core/pod/strategy.go).

    Raises:
        BadRequest: there is no such container, or there are several and none is named.
    """
    spec, name = pod["spec"], pod["metadata"]["name"]
    containers = [container["name"] for container in spec.get("containers", ())]
    inits = [container["name"] for container in spec.get("initContainers", ())]
    ephemeral = [container["name"] for container in spec.get("ephemeralContainers", ())]
    if wanted:
        if wanted not in containers + inits + ephemeral:
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
