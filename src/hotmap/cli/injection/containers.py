"""The containers that are added to a pod, as the API server takes them."""

from __future__ import annotations

from typing import Any, NamedTuple

from hotmap.agent.settings.settings import ALL_CONTAINERS_STATUS
from hotmap.cli.injection.record import (
    BIN_PATH,
    PROGRAM,
    VARIABLE,
    AgentNames,
    escape_references,
)

__all__ = [
    "RESTART_RULES", "AgentContainer", "User", "copy_container", "first_container", "memory_limit",
    "once_container", "sidecar_container",
]  # fmt: skip

#: Kubernetes 1.36: the exit of the container with this status restarts the whole pod (KEP-5532).
RESTART_RULES = [
    {
        "action": "RestartAllContainers",
        "exitCodes": {"operator": "In", "values": [ALL_CONTAINERS_STATUS]},
    }
]

#: Resident memory is 13 MB (docs/agent.md).
_REQUEST = "24Mi"

#: In MiB. Content is in memory too: a source has at most 1 MiB, which is read, copied for a check,
#: and kept twice in a stage. A checker is another program with needs of its own.
_BASE, _PER_SOURCE, _CHECKER = 24, 5, 192
_MINIMUM = 64

#: Startup may wait for content that passes the check: after an hour the agent is restarted.
_STARTUP_FAILURES = 3600


class User(NamedTuple):
    """The user that a container runs as; None: as the image or the pod says."""

    number: int | None
    group: int | None = None


class AgentContainer(NamedTuple):
    """What all containers of an agent have in common."""

    image: str
    user: User
    mounts: list[dict[str, Any]]
    #: The memory limit, such as `64Mi`.
    limit: str
    #: The record of the injection; "" for a container that does not carry it.
    record: str = ""
    #: Capabilities that its checker needs.
    capabilities: tuple[str, ...] = ()
    names: AgentNames = AgentNames()

    def manifest(self, arguments: list[str]) -> dict[str, Any]:
        """Make the container."""
        container: dict[str, Any] = {"name": self.names.container, "image": self.image}
        container["args"] = [escape_references(argument) for argument in arguments]
        if self.record:
            container["env"] = [{"name": VARIABLE, "value": self.record}]
        return {**container, **self._bounds(), "volumeMounts": self.mounts}

    def _bounds(self) -> dict[str, Any]:
        """Return resources, and a security context that the restricted profile allows."""
        security: dict[str, Any] = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        if self.capabilities:
            security["capabilities"]["add"] = list(self.capabilities)
        if self.user.number is not None:
            security["runAsUser"] = self.user.number
            security["runAsNonRoot"] = self.user.number != 0
        if self.user.group is not None:
            security["runAsGroup"] = self.user.group
        return {
            "resources": {
                "requests": {"cpu": "5m", "memory": _REQUEST},
                "limits": {"memory": self.limit},
            },
            "securityContext": security,
        }


def sidecar_container(
    agent: AgentContainer,
    flags: list[str],
    *,
    native: bool,
    port: int,
    gates: bool,
    restarts_all: bool,
) -> dict[str, Any]:
    """Make the container of an agent that runs as long as the pod does.

    `gates`: the application's container starts only once the first content has passed. `port` is 0
    for an agent that does not listen.
    """
    container: dict[str, Any] = {"name": agent.names.container, "image": agent.image}
    if native or restarts_all:
        container["restartPolicy"] = "Always"
    if restarts_all:
        container["restartPolicyRules"] = RESTART_RULES
    manifest = agent.manifest(["agent", *flags])
    for key in ("args", "env"):
        container[key] = manifest[key]
    if port:
        container["ports"] = [{"name": agent.names.port, "containerPort": port}]
        if native and gates:
            container["startupProbe"] = {
                "httpGet": {"path": "/startupz", "port": port},
                "periodSeconds": 1,
                "failureThreshold": _STARTUP_FAILURES,
            }
        container["livenessProbe"] = {"httpGet": {"path": "/healthz", "port": port}}
    return {**container, **manifest}


def once_container(agent: AgentContainer, flags: list[str]) -> dict[str, Any]:
    """Make the init container that checks, publishes and ends."""
    return agent.manifest(["agent", *flags])


def first_container(agent: AgentContainer, flags: list[str]) -> dict[str, Any]:
    """Make the init container that fills the stage where no probe can wait for the sidecar."""
    return {**once_container(agent, flags), "name": agent.names.first}


def copy_container(agent: AgentContainer) -> dict[str, Any]:
    """Make the init container that copies the agent's program for a supervisor."""
    limit = memory_limit(0, checks=False)
    mounts = [{"name": agent.names.bin, "mountPath": BIN_PATH}]
    return agent._replace(mounts=mounts, limit=limit).manifest(["agent", "copy", PROGRAM])


def memory_limit(sources: int, *, checks: bool) -> str:
    """Return the memory limit of an agent that follows this number of ConfigMaps and Secrets."""
    needed = max(_BASE + _PER_SOURCE * sources, _MINIMUM) + (_CHECKER if checks else 0)
    return f"{needed}Mi"
