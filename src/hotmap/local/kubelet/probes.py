"""Probes and lifecycle hooks of containers.

kubernetes: pkg/probe/{exec,tcp}, pkg/kubelet/prober/worker.go, pkg/kubelet/lifecycle. `sync`
acts on the results.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from hotmap.core.errors import HotmapError
from hotmap.core.expansion import expand
from hotmap.local.kubelet import http_probe
from hotmap.local.kubelet.actions import RELIST_PERIOD
from hotmap.local.kubelet.grpc_health import check_health

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from hotmap.local.kubelet.http_probe import Purpose

#: Bytes of a probe's output that are shown (kubernetes: pkg/probe, maxProbeMessageLength is 1024).
MAX_MESSAGE = 1024

#: The name of each kind of probe in Events.
ProbeKind = Literal["Startup", "Readiness", "Liveness"]


class Execute(Protocol):
    """Runs a command in the container; returns its exit code and output."""

    async def __call__(self, command: Sequence[str]) -> tuple[int, bytes]: ...


class Target(NamedTuple):
    """The probed container: its definition, the pod's address, a way to run commands."""

    container: Mapping[str, Any]
    address: str
    execute: Execute


class Schedule(NamedTuple):
    """The times of a probe in seconds, and how many equal results count."""

    initial_delay: float
    period: float
    timeout: float
    success_threshold: int
    failure_threshold: int


class Answer(NamedTuple):
    """The result of a probe; `decisive` once its threshold of equal results is reached."""

    good: bool
    decisive: bool
    message: str


def schedule_of(probe: Mapping[str, Any]) -> Schedule:
    """Read a probe's times, with Kubernetes' defaults (pkg/apis/core/v1/defaults.go)."""
    return Schedule(
        initial_delay=probe.get("initialDelaySeconds", 0),
        period=probe.get("periodSeconds", 10),
        timeout=probe.get("timeoutSeconds", 1),
        success_threshold=probe.get("successThreshold", 1),
        failure_threshold=probe.get("failureThreshold", 3),
    )


async def answers(
    probe: Mapping[str, Any], target: Target, *, kind: ProbeKind
) -> AsyncIterator[Answer]:
    """Probe without end, and yield every result.

    A container is asked at once only whether it is ready. The other probes begin a period after its
    start, so that an application that needs seconds to listen is not killed (kubernetes:
    pkg/kubelet/prober, where `UpdatePodStatus` triggers readiness probes alone). A kubelet asks
    when it notices the start, at most a relist later: an application that was not listening yet is
    asked again then, instead of being unready for a whole period.
    """
    schedule = schedule_of(probe)
    wait = 0 if kind == "Readiness" else schedule.period
    await asyncio.sleep(max(schedule.initial_delay, wait))
    in_a_row, last = 0, None
    again = min(schedule.period, RELIST_PERIOD) if kind == "Readiness" else schedule.period
    while True:
        failure = await ask(probe, target, timeout=schedule.timeout)
        good = failure is None
        in_a_row, last = (in_a_row + 1 if good is last else 1), good
        threshold = schedule.success_threshold if good else schedule.failure_threshold
        yield Answer(good, in_a_row >= threshold, failure or "")
        await asyncio.sleep(schedule.period if good else again)
        again = schedule.period


async def ask(
    handler: Mapping[str, Any],
    target: Target,
    *,
    timeout: float | None,
    purpose: Purpose = "probe",
) -> str | None:
    """Carry out one probe or hook; return None when it succeeds, else the failure.

    The failure of a command is its output, which may be empty (kubernetes: pkg/probe/exec).
    """
    try:
        async with asyncio.timeout(timeout):
            return await _ask(handler, target, purpose)
    except TimeoutError:
        return _timed_out(handler, target, f"{timeout:g}s")
    except (HotmapError, OSError, ValueError) as error:
        return str(error)


def _timed_out(handler: Mapping[str, Any], target: Target, timeout: str) -> str:
    if "httpGet" in handler:
        why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return f'Get "{_url(handler["httpGet"], target)}": {why}'
    if "sleep" in handler:
        return f"the hook slept longer than {timeout}"
    if "tcpSocket" in handler:
        return f"dial tcp {_address(handler['tcpSocket'], target)}: i/o timeout"
    if "grpc" in handler:
        return f"timeout: health rpc did not complete within {timeout}"
    # cri-client: remote_runtime.go
    return f'command timed out: "{" ".join(handler["exec"]["command"])}" timed out after {timeout}'


async def _ask(handler: Mapping[str, Any], target: Target, purpose: Purpose) -> str | None:
    if "exec" in handler:
        return await _ask_command(handler["exec"], target)
    if "httpGet" in handler:
        return await _ask_http(handler["httpGet"], target, purpose)
    if "tcpSocket" in handler:
        return await _ask_tcp(handler["tcpSocket"], target)
    if "sleep" in handler:
        await asyncio.sleep(handler["sleep"]["seconds"])
        return None
    if "grpc" in handler:
        return await _ask_grpc(handler["grpc"], target)
    return "only exec, httpGet, tcpSocket, grpc and sleep are supported by this node"


async def _ask_command(action: Mapping[str, Any], target: Target) -> str | None:
    # Probes expand literal values only (kubernetes: ExpandContainerCommandOnlyStatic).
    literal = {
        entry["name"]: entry["value"]
        for entry in target.container.get("env") or ()
        if entry.get("value")
    }
    code, output = await target.execute([expand(word, literal.get) for word in action["command"]])
    if code == 0:
        return None
    return output[:MAX_MESSAGE].decode(errors="replace")


async def _ask_http(action: Mapping[str, Any], target: Target, purpose: Purpose) -> str | None:
    headers = [(each["name"], each["value"]) for each in action.get("httpHeaders") or ()]
    status = await http_probe.get(_url(action, target), headers, purpose=purpose)
    # Any answer is good for a hook (kubernetes: pkg/kubelet/lifecycle/handlers.go).
    if purpose == "lifecycle" or HTTPStatus.OK <= status < HTTPStatus.BAD_REQUEST:
        return None
    return f"HTTP probe failed with statuscode: {status}"


def _url(action: Mapping[str, Any], target: Target) -> str:
    scheme = (action.get("scheme") or "HTTP").lower()
    return f"{scheme}://{_address(action, target)}/{(action.get('path') or '').removeprefix('/')}"


def _address(action: Mapping[str, Any], target: Target) -> str:
    return f"{action.get('host') or target.address}:{_port(action['port'], target.container)}"


async def _ask_tcp(action: Mapping[str, Any], target: Target) -> str | None:
    host = action.get("host") or target.address
    _, writer = await http_probe.connect(host, _port(action["port"], target.container))
    writer.close()
    return None


async def _ask_grpc(action: Mapping[str, Any], target: Target) -> str | None:
    authority = f"{target.address}:{action['port']}"
    try:
        reader, writer = await http_probe.connect(target.address, action["port"])
    except OSError as error:
        return f'error: failed to connect service at "{authority}": {error}'
    try:
        service = action.get("service") or ""
        await check_health(reader, writer, authority=authority, service=service)
    finally:
        writer.close()
    return None


def _port(wanted: int | str, container: Mapping[str, Any]) -> int:
    if isinstance(wanted, int):
        return wanted
    for port in container.get("ports") or ():
        if port.get("name") == wanted:
            return int(port["containerPort"])
    raise ValueError(f"couldn't find port {wanted} in container {container['name']}")
