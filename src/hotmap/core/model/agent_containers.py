"""Which containers of a pod run agents, and which run applications."""

from __future__ import annotations

from collections.abc import Iterator

from hotmap.core.model.agent_program import agent_program
from hotmap.core.model.objects import Container, PodSpec

__all__ = ["application_containers", "command_words", "running_containers", "runs_agent"]

#: The agent's container, as injection names it.
_AGENT_CONTAINER = "hotmap-agent"


def running_containers(spec: PodSpec) -> Iterator[Container]:
    """List the containers that run as long as the pod does."""
    yield from spec.containers or ()
    yield from (
        container
        for container in spec.init_containers or ()
        if container.restart_policy == "Always"
    )


def application_containers(spec: PodSpec) -> tuple[str, ...]:
    """Name the containers that run as long as the pod, without those of agents.

    The container of an agent that is the parent process of its application is one of them.
    """
    return tuple(
        container.name
        for container in running_containers(spec)
        if not runs_agent(container) or "--" in command_words(container)
    )


def runs_agent(container: Container) -> bool:
    """Return whether an agent runs in a container, by its name or its command."""
    prefix, _, number = container.name.rpartition("-")
    if container.name == _AGENT_CONTAINER or (prefix == _AGENT_CONTAINER and number.isdecimal()):
        return True
    words = command_words(container)
    if words[:1] == ["agent"] and container.command:
        return False  # the program is another one
    return bool(agent_program(words))


def command_words(container: Container) -> list[str]:
    """Return the command of a container with its arguments."""
    return [*(container.command or ()), *(container.args or ())]
