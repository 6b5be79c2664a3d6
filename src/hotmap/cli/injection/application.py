"""Reads from a pod template which container is the application, and what it uses."""

from __future__ import annotations

from typing import Any

from hotmap.cli.injection.record import AgentNames, agent_number, is_our_volume
from hotmap.cli.injection.stage_mounts import is_live
from hotmap.cli.injection.validation import validate_pod_template
from hotmap.core.errors import ManifestError

__all__ = [
    "NothingToFollow",
    "choose_application",
    "read_pod_spec",
    "source_variables",
    "volume_of",
]


class NothingToFollow(ManifestError):
    """The pod has nothing that an agent could follow; other pods of the manifest may."""


def read_pod_spec(template: dict[str, Any], name: str, agents: AgentNames) -> dict[str, Any]:
    """Return the pod spec of a template that injection can edit.

    `agents` are the names of the agent to add; those before it are in the pod already.

    Raises:
        ManifestError: the template is invalid, or uses a name of injection.
    """
    validate_pod_template(template, name)
    spec: dict[str, Any] = template["spec"]
    everyone = [*spec["containers"], *(spec.get("initContainers") or ())]
    before = [AgentNames(number) for number in range(1, agents.number)]
    names = [
        item["name"]
        for item in everyone
        if (number := agent_number(item)) is not None and number >= agents.number
    ]
    names += [
        volume["name"]
        for volume in spec.get("volumes") or ()
        if is_our_volume(volume) and not any(each.has_volume(volume) for each in before)
    ]
    if names:
        raise ManifestError(
            f"{name} already has {names[0]}, a name that injection uses; rename it, or "
            "remove it if an older version added it"
        )
    return spec


def choose_application(spec: dict[str, Any], wanted: str, name: str) -> dict[str, Any]:
    """Return the container to watch: the one that is `wanted`, or the only one that uses sources.

    Raises:
        NothingToFollow: there is no such container, or none uses a source.
        ManifestError: there are several.
    """
    containers: dict[str, dict[str, Any]] = {
        container["name"]: container
        for container in spec["containers"]
        if agent_number(container) is None
    }
    if wanted:
        if wanted not in containers:
            raise NothingToFollow(
                f"{name} has no container {wanted}; its containers are {', '.join(containers)}"
            )
        return containers[wanted]
    if len(containers) == 1:
        return next(iter(containers.values()))
    using = [container for container in containers.values() if _uses_sources(spec, container)]
    if len(using) == 1:
        return using[0]
    if not using:
        raise NothingToFollow(
            f"{name}: no container uses a ConfigMap or Secret, so there is nothing to follow"
        )
    raise ManifestError(
        f"{name} has {len(containers)} containers ({', '.join(containers)}); choose "
        "one with --container"
    )


def _uses_sources(spec: dict[str, Any], container: dict[str, Any]) -> bool:
    live = any(is_live(volume_of(spec, mount)) for mount in container.get("volumeMounts") or ())
    return live or bool(container.get("envFrom") or source_variables(container, ()))


def volume_of(spec: dict[str, Any], mount: dict[str, Any]) -> dict[str, Any]:
    """Return the volume of a mount; {} if there is none."""
    volumes = spec.get("volumes") or ()
    return next((volume for volume in volumes if volume.get("name") == mount.get("name")), {})


def source_variables(container: dict[str, Any], taken: tuple[int, ...]) -> list[str]:
    """Name the variables that come from a data key, except those that were removed."""
    return [
        f"variable {variable['name']}"
        for index, variable in enumerate(container.get("env") or ())
        if index not in taken
        and any(
            kind in (variable.get("valueFrom") or {})
            for kind in ("configMapKeyRef", "secretKeyRef")
        )
    ]
