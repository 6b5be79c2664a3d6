"""Which containers run again after an end, by the policies of pod and container; pure.

kubernetes: pkg/api/v1/pod/util.go (ContainerShouldRestart), KEP-753 (sidecars), KEP-5307 (policies
of containers) and KEP-5532 (restart of all containers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "all_containers",
    "has_rule_for_all",
    "is_sidecar",
    "policy_of",
    "restarts_all",
    "should_restart",
    "without_restarts",
]

_RESTART_ALL = "RestartAllContainers"


def all_containers(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the containers of a pod of all kinds, in the order of their starts."""
    fields = ("initContainers", "containers", "ephemeralContainers")
    return [container for field in fields for container in spec.get(field) or ()]


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Return whether an init container is a native sidecar."""
    return container.get("restartPolicy") == "Always"


def policy_of(spec: Mapping[str, Any], container: Mapping[str, Any]) -> str:
    """Return the restart policy of a container: its own, or that of its pod."""
    policy: str = container.get("restartPolicy") or spec.get("restartPolicy", "Always")
    return policy


def should_restart(
    spec: Mapping[str, Any], container: Mapping[str, Any], exit_code: int | None
) -> bool:
    """Return whether a container that has ended is run again; an init container: that failed."""
    if _matching_action(container, exit_code):
        return True
    policy = policy_of(spec, container)
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def restarts_all(container: Mapping[str, Any], exit_code: int | None) -> bool:
    """Return whether this end of a container restarts all containers of its pod."""
    return exit_code is not None and _matching_action(container, exit_code) == _RESTART_ALL


def has_rule_for_all(spec: Mapping[str, Any]) -> bool:
    """Return whether an end of a container of the pod may restart all of them."""
    return any(
        rule.get("action") == _RESTART_ALL
        for container in [*(spec.get("initContainers") or ()), *spec["containers"]]
        for rule in container.get("restartPolicyRules") or ()
    )


def without_restarts(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the specification of a pod that ends, of which nothing is restarted any more."""
    return {
        **spec,
        "restartPolicy": "Never",
        "containers": [_without_own_policy(c) for c in spec["containers"]],
        "initContainers": [
            c if is_sidecar(c) else _without_own_policy(c) for c in spec.get("initContainers") or ()
        ],
    }


def _without_own_policy(container: Mapping[str, Any]) -> dict[str, Any]:
    own = ("restartPolicy", "restartPolicyRules")
    return {key: value for key, value in container.items() if key not in own}


def _matching_action(container: Mapping[str, Any], exit_code: int | None) -> str:
    """Return the action of the first rule that is for an exit code, "" if there is none."""
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        is_listed = exit_code in (codes.get("values") or ())
        operator = codes.get("operator")
        if (operator == "In" and is_listed) or (operator == "NotIn" and not is_listed):
            action: str = rule["action"]
            return action
    return ""
