"""The containers and volumes that are added to a pod, as the API server takes them."""

from __future__ import annotations

from typing import Any, NamedTuple

from hotmap.agent.settings import ALL_CONTAINERS_STATUS
from hotmap.cli.injection.record import (
    AGENT,
    BIN,
    BIN_PATH,
    FIRST,
    POD,
    POD_PATH,
    PROGRAM,
    RUN,
    RUN_PATH,
    STAGE,
    STAGE_PATH,
    VARIABLE,
    protected,
)

__all__ = [
    "RESTART_RULES", "User", "bringing_container", "first_container", "memory_limit",
    "once_container", "pod_volume", "program_mount", "program_volume", "run_mounts", "run_volume",
    "sidecar_container", "stage_mount", "stage_volume",
]  # fmt: skip

#: Kubernetes 1.36: the end of the container with this status restarts all of the pod (KEP-5532).
RESTART_RULES = [
    {
        "action": "RestartAllContainers",
        "exitCodes": {"operator": "In", "values": [ALL_CONTAINERS_STATUS]},
    }
]

#: Resident memory is 14 to 16 MB (docs/agent.md).
_REQUESTED = "24Mi"

#: In MiB. Content lies in memory, too: a source has at most 1, which is read, copied for a check,
#: and kept twice in a stage. A checker is another program, with needs of its own.
_LIMIT, _FOR_EACH, _FOR_CHECKS = 24, 5, 192
_LEAST = 64

#: A start may wait for content that passes: an hour, then the agent is started anew.
_LOOKS_AT_START = 3600


class User(NamedTuple):
    """Whom a container runs as; None: as the image or the pod says."""

    number: int | None
    group: int | None = None


def sidecar_container(
    image: str,
    flags: list[str],
    *,
    native: bool,
    user: User,
    mounts: list[dict[str, Any]],
    record: str,
    port: int,
    gates: bool,
    limit: str,
    restarts_all: bool,
) -> dict[str, Any]:
    """Make the container of an agent that runs as long as the pod does.

    `gates`: the application's container starts only once the first content has passed.
    """
    container: dict[str, Any] = {"name": AGENT, "image": image}
    if native or restarts_all:
        container["restartPolicy"] = "Always"
    if restarts_all:
        container["restartPolicyRules"] = RESTART_RULES
    container["args"] = _arguments(flags)
    container["env"] = _record(record)
    if port:
        container["ports"] = [{"name": "hotmap", "containerPort": port}]
        if native and gates:
            container["startupProbe"] = {
                "httpGet": {"path": "/startupz", "port": port},
                "periodSeconds": 1,
                "failureThreshold": _LOOKS_AT_START,
            }
        container["livenessProbe"] = {"httpGet": {"path": "/healthz", "port": port}}
    return {**container, **_bounds(user, limit), "volumeMounts": mounts}


def once_container(
    image: str,
    flags: list[str],
    *,
    user: User,
    mounts: list[dict[str, Any]],
    record: str,
    limit: str,
) -> dict[str, Any]:
    """Make the init container that checks, publishes and ends."""
    return {
        "name": AGENT,
        "image": image,
        "args": _arguments(flags),
        "env": _record(record),
        **_bounds(user, limit),
        "volumeMounts": mounts,
    }


def first_container(
    image: str, flags: list[str], *, user: User, mounts: list[dict[str, Any]], limit: str
) -> dict[str, Any]:
    """Make the init container that fills the stage where no probe can wait for the sidecar."""
    container = once_container(image, flags, user=user, mounts=mounts, record="", limit=limit)
    del container["env"]
    return {**container, "name": FIRST}


def bringing_container(image: str, *, user: User, record: str) -> dict[str, Any]:
    """Make the init container that copies the agent's program for a supervisor."""
    return {
        "name": AGENT,
        "image": image,
        "args": ["agent", "copy", PROGRAM],
        "env": _record(record),
        **_bounds(user, memory_limit(0, checks=False)),
        "volumeMounts": [{"name": BIN, "mountPath": BIN_PATH}],
    }


def _arguments(flags: list[str]) -> list[str]:
    return ["agent", *(protected(one) for one in flags)]


def _record(record: str) -> list[dict[str, Any]]:
    return [{"name": VARIABLE, "value": record}]


def memory_limit(directories: int, *, checks: bool) -> str:
    """Say how much an agent may need at most that follows so many directories."""
    needed = max(_LIMIT + _FOR_EACH * directories, _LEAST) + (_FOR_CHECKS if checks else 0)
    return f"{needed}Mi"


def _bounds(user: User, limit: str) -> dict[str, Any]:
    """Say resources, and a security context that Pod Security's restricted profile takes."""
    security: dict[str, Any] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if user.number is not None:
        security["runAsUser"] = user.number
        security["runAsNonRoot"] = user.number != 0
    if user.group is not None:
        security["runAsGroup"] = user.group
    return {
        "resources": {
            "requests": {"cpu": "5m", "memory": _REQUESTED},
            "limits": {"memory": limit},
        },
        "securityContext": security,
    }


def run_mounts(*, pod: bool, scratch: bool) -> list[dict[str, Any]]:
    """Mount what an agent writes to; `pod`: the pod's annotations, `scratch`: a /tmp."""
    mounts: list[dict[str, Any]] = []
    if pod:
        mounts.append({"name": POD, "mountPath": POD_PATH, "readOnly": True})
    mounts.append({"name": RUN, "mountPath": RUN_PATH})
    if scratch:
        # Many a checker wants to write: nginx -t makes its pid file.
        mounts.append({"name": RUN, "mountPath": "/tmp", "subPath": "tmp"})
    return mounts


def stage_mount() -> dict[str, Any]:
    """Mount the stage for the agent."""
    return {"name": STAGE, "mountPath": STAGE_PATH}


def pod_volume() -> dict[str, Any]:
    """Make the volume in which the kubelet shows the pod's annotations."""
    annotations = {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}}
    return {"name": POD, "downwardAPI": {"items": [annotations]}}


def run_volume() -> dict[str, Any]:
    """Make the volume for the agent's state and socket; it outlives the container."""
    return {"name": RUN, "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}


def stage_volume(directories: int) -> dict[str, Any]:
    """Make the stage: in memory, as Secrets never lie on a disk; two revisions of each source."""
    size = f"{8 * max(directories, 1)}Mi"
    return {"name": STAGE, "emptyDir": {"medium": "Memory", "sizeLimit": size}}


def program_volume() -> dict[str, Any]:
    """Make the volume for the agent's program."""
    return {"name": BIN, "emptyDir": {"sizeLimit": "8Mi"}}


def program_mount() -> dict[str, Any]:
    """Mount the agent's program where the application's command starts it."""
    return {"name": BIN, "mountPath": BIN_PATH, "readOnly": True}
