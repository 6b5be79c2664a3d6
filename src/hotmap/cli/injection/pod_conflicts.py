"""What in a pod conflicts with an agent: refused where it would break the pod, else noted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from hotmap.core.errors import ManifestError

__all__ = [
    "note_low_ports", "note_other_reloaders", "reject_ambiguous_processes", "reject_uses_of_pid_1",
    "reject_windows",
]  # fmt: skip

_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")

#: Commands that send a signal to process 1, and paths of its state.
_SIGNALS_PID_1 = re.compile(r"\bkill\b(\s+(-s\s+\w+|-\w+|--))*(\s+\d+)*?\s+1(?=\s|$|[;&|)'\"\\])")
_READS_PID_1 = re.compile(r"/proc/1/")

#: Images and containers that reload what a volume holds.
_RELOADERS = re.compile(r"config-?map-reload|config-reloader|k8s-sidecar|configmap-auto-reload")

#: Ports that need a capability to be bound, unless the pod lowers the limit.
_FIRST_FREE_PORT = 1024
_PORT_SYSCTL = "net.ipv4.ip_unprivileged_port_start"

#: Checkers that bind the ports of the configuration that they check.
_BINDING_CHECKERS = ("nginx",)


def reject_windows(spec: dict[str, Any], name: str) -> None:
    """Raise ManifestError for a pod of Windows nodes, where the agent cannot run."""
    system = (spec.get("os") or {}).get("name")
    selector = spec.get("nodeSelector") or {}
    labels = [selector.get("kubernetes.io/os"), selector.get("beta.kubernetes.io/os")]
    if "windows" in (system, *labels):
        raise ManifestError(f"{name} runs on Windows nodes, and the agent runs on Linux only")


def reject_ambiguous_processes(spec: dict[str, Any], targets: list[str], name: str) -> None:
    """Raise ManifestError where a name could match processes of other pods: with `hostPID`."""
    for target in targets:
        if spec.get("hostPID") and target.partition(":")[0] in ("name", "command"):
            raise ManifestError(
                f"{name} has hostPID, so {target} may match processes of other pods of the node; "
                "use -- --process pidfile:FILE"
            )


def reject_uses_of_pid_1(spec: dict[str, Any], name: str) -> list[str]:
    """Find what relies on process 1; with shared processes, that is the pause container.

    Returns notes for commands that may; probes and hooks that do are refused, since the pod would
    be restarted again and again, or ended by its own hook.

    Raises:
        ManifestError: a probe or hook signals or reads process 1.
    """
    notes = []
    for container in _running_containers(spec):
        for place, command in _hooks_and_probes(container):
            words = " ".join(map(str, command))
            sends = _SIGNALS_PID_1.search(words) is not None
            if sends or _READS_PID_1.search(words):
                what = "signals" if sends else "reads"
                raise ManifestError(
                    f"{name}: the {place} of container {container['name']} {what} process 1, which "
                    "is another one when the agent shares the pod's processes to send signals; "
                    "reload by -- --url or -- --exec, or set shareProcessNamespace and change it"
                )
        words = json.dumps([container.get("command"), container.get("args")])
        if _SIGNALS_PID_1.search(words) or _READS_PID_1.search(words):
            notes.append(
                f"the command of container {container['name']} names process 1, which is another "
                "one when the agent shares the pod's processes to send signals"
            )
    return notes


def note_low_ports(
    spec: dict[str, Any], application: dict[str, Any], checkers: list[str]
) -> list[str]:
    """Record a checker that cannot bind the application's ports, since the agent may not."""
    checker = next((item for item in checkers if item in _BINDING_CHECKERS), "")
    limit = _first_free_port(spec)
    ports = (item.get("containerPort") for item in application.get("ports") or ())
    low = sorted(port for port in ports if isinstance(port, int) and 0 < port < limit)
    if not (checker and low):
        return []
    return [
        f"container {application['name']} listens on port {low[0]}, which {checker} also binds to "
        f"check content, and the agent has no capability for that: listen on {_FIRST_FREE_PORT} or "
        f"above, or set the sysctl {_PORT_SYSCTL} in the pod's securityContext"
    ]


def _first_free_port(spec: dict[str, Any]) -> int:
    context = spec.get("securityContext")
    sysctls = context.get("sysctls") if isinstance(context, dict) else None
    for sysctl in sysctls if isinstance(sysctls, list) else ():
        if isinstance(sysctl, dict) and sysctl.get("name") == _PORT_SYSCTL:
            value = str(sysctl.get("value"))
            return int(value) if value.isdecimal() else _FIRST_FREE_PORT
    return _FIRST_FREE_PORT


def note_other_reloaders(spec: dict[str, Any], application: dict[str, Any]) -> list[str]:
    """Note containers that reload the application too."""
    return [
        f"container {container['name']} ({container.get('image')}) reloads the application as "
        "well: remove it, or every change is loaded twice"
        for container in _running_containers(spec)
        if container is not application
        and _RELOADERS.search(
            f"{container['name']} {container.get('image')} {container.get('command')}"
        )
    ]


def _running_containers(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from spec["containers"]
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield container


def _hooks_and_probes(container: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    lifecycle = container.get("lifecycle") or {}
    found = [(f"{hook} hook", lifecycle.get(hook)) for hook in ("postStart", "preStop")]
    found += [(probe, container.get(probe)) for probe in _PROBES]
    for place, value in found:
        command = (
            ((value or {}).get("exec") or {}).get("command") if isinstance(value, dict) else ()
        )
        yield place, command if isinstance(command, list) else []
