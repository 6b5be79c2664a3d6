"""Reads the earlier runs of containers from a pod's status when a kubelet starts; pure.

Nothing outlives a kubelet here (see `zygote`), so its start is to pods what the reboot of a node
is: what ran has ended without a known exit code, volumes in memory and empty directories are new,
and init containers run again (kuberuntime_manager.go, computePodActions with a new sandbox).
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from hotmap.local.kubelet.actions import Run
from hotmap.local.kubelet.restart_policy import policy_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["EarlierRun", "earlier_runs"]

#: What containerd says of a container that a reboot has ended (cri/server/restart.go).
_UNKNOWN_CODE, _UNKNOWN = 255, "Unknown"
_SCHEME = "hotmap://"


class EarlierRun(NamedTuple):
    """The last run of a container under an earlier kubelet."""

    run: Run
    #: Whether the restart policy keeps the container from being run again.
    is_final: bool


def earlier_runs(pod: Mapping[str, Any], *, now: float) -> dict[str, EarlierRun]:
    """Read the last run of each container that ever ran from a pod's status; `now` is POSIX."""
    spec = pod["spec"]
    is_run_once = spec.get("restartPolicy", "Always") == "Never"
    regular = {container["name"]: container for container in spec["containers"]}
    ephemeral = {container["name"] for container in spec.get("ephemeralContainers") or ()}
    found: dict[str, EarlierRun] = {}
    for status in _statuses(pod.get("status") or {}):
        run = _last_run(status, now)
        if run is not None:
            container = regular.get(status["name"])
            is_done = (
                container is not None
                and policy_of(spec, container) == "OnFailure"
                and run.succeeded
            )
            is_final = is_run_once or is_done or status["name"] in ephemeral
            found[status["name"]] = EarlierRun(run, is_final=is_final)
    return found


def _statuses(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for field in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        yield from status.get(field) or ()


def _last_run(status: Mapping[str, Any], now: float) -> Run | None:
    state, restarts = status.get("state") or {}, status.get("restartCount", 0)
    running = state.get("running")
    if running is not None:
        return Run(
            str(status.get("containerID", "")).removeprefix(_SCHEME),
            restarts,
            _seconds(running.get("startedAt"), now),
            ready=False,
            finished_at=now,
            exit_code=_UNKNOWN_CODE,
            reason=_UNKNOWN,
            is_earlier=True,
        )
    ended = state.get("terminated") or (status.get("lastState") or {}).get("terminated")
    if ended is None:
        return None
    return Run(
        str(ended.get("containerID", "")).removeprefix(_SCHEME),
        restarts,
        _seconds(ended.get("startedAt"), now),
        ready=False,
        finished_at=_seconds(ended.get("finishedAt"), now),
        exit_code=ended.get("exitCode", 0),
        reason=ended.get("reason", ""),
        message=ended.get("message", ""),
        is_earlier=True,
    )


def _seconds(text: str | None, default: float) -> float:
    try:
        return datetime.fromisoformat(text).timestamp() if text else default
    except ValueError:
        return default
