"""Why a container has no log; pure.

kubernetes: pkg/kubelet/kubelet_pods.go, validateContainerLogStatus.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.kubelet.restart_policy import all_containers

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["no_log"]


def no_log(
    pod: Mapping[str, Any], name: str, container: str, *, waiting: str = "", previous: bool = False
) -> str:
    """Say by the status of a pod why a container of it has no log, or no previous one.

    `waiting` is why it does not run, where that is known already.
    """
    if pod and container not in _names(pod["spec"]):
        return f"container {container} is not valid for pod {name}"
    state = _status(pod, container)
    last = (state.get("lastState") or {}).get("terminated")
    shown = f'container "{container}" in pod "{name}"'
    if previous and not (last or {}).get("containerID"):
        return f"previous terminated {shown} not found"
    known = state.get("state") or {}
    ended = last if previous else known.get("terminated") or last
    if "running" in known and not previous:
        ended = {"containerID": state.get("containerID", "")}
    if ended is not None:
        # It ran under an earlier kubelet, and its log was not kept.
        return f"unable to retrieve container logs for {ended.get('containerID', '')}"
    reason = waiting or (known.get("waiting") or {}).get("reason") or _idle(pod)
    return f"{shown} is waiting to start: {reason}"


def _status(pod: Mapping[str, Any], container: str) -> Mapping[str, Any]:
    status = pod.get("status") or {}
    for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for found in status.get(field) or ():
            if found["name"] == container:
                return dict(found)
    return {}


def _names(spec: Mapping[str, Any]) -> set[str]:
    return {container["name"] for container in all_containers(spec)}


def _idle(pod: Mapping[str, Any]) -> str:
    """Return why a container waits that has no status yet."""
    return "PodInitializing" if pod.get("spec", {}).get("initContainers") else "ContainerCreating"
