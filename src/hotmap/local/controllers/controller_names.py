"""The names of the controllers, and the lists that select some of them.

kube-controller-manager's names and its `--controllers`; here the scheduler is one,
and so is a provisioner.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CONTROLLER_NAMES", "PROVISIONER", "SIGNING", "TOKENS", "select_controllers"]

#: The controller that issues certificates.
SIGNING: Final = "certificatesigningrequest-signing-controller"

#: The controller that fills in Secrets with tokens.
TOKENS: Final = "serviceaccount-token-controller"

#: The one that makes directories for claims; not of kube-controller-manager, but of small clusters.
PROVISIONER: Final = "local-path-provisioner"

CONTROLLER_NAMES: Final = (
    "namespace-controller",
    "serviceaccount-controller",
    TOKENS,
    "clusterrole-aggregation-controller",
    "garbage-collector-controller",
    "deployment-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "cronjob-controller",
    "ttl-after-finished-controller",
    "endpoints-controller",
    "disruption-controller",
    "resourcequota-controller",
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
    "ephemeral-volume-controller",
    PROVISIONER,
    SIGNING,
    "scheduler",
)


def select_controllers(text: str) -> tuple[str, ...]:
    """Return the names of the controllers that a list selects.

    `*` stands for all that the list does not name, `NAME` enables one, `-NAME` disables one.

    Raises:
        ValueError: a name is unknown.
    """
    items = [item.strip() for item in text.split(",") if item.strip()]
    for item in items:
        if item != "*" and item.removeprefix("-") not in CONTROLLER_NAMES:
            known = ", ".join(CONTROLLER_NAMES)
            raise ValueError(f"unknown controller {item.removeprefix('-')!r}; there are {known}")
    return tuple(
        name
        for name in CONTROLLER_NAMES
        if name in items or ("*" in items and f"-{name}" not in items)
    )
