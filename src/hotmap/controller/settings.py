"""The controller's own settings, as flags give them."""

from __future__ import annotations

from typing import NamedTuple

from hotmap.core.decide.flap_breaker import LIMIT
from hotmap.core.policy.policy import DEFAULTS, Defaults

__all__ = [
    "DEFAULT_NAMESPACE",
    "AlertSettings",
    "PodCheckSettings",
    "Settings",
    "WebhookSettings",
]

#: Where the key and the records lie when nothing else is said and we are not in a pod.
DEFAULT_NAMESPACE = "hotmap"


class PodCheckSettings(NamedTuple):
    """When pods are checked; times in seconds."""

    #: consumers a second; 0 disables the checks
    rate: float = 5.0
    #: from an adoption or a rollout to the first check
    initial_delay: float = 10.0
    #: from the end of a rollout to the check that confirms it: its pods' status may lag behind
    rollout_delay: float = 3.0
    #: without progress after which a rollout's pods are checked, to say what it waits for
    stalled_after: float = 30.0
    #: without progress after which kubelets have restarted what crashes
    #: (kubernetes: pkg/kubelet, MaxContainerBackOff is 5 minutes)
    retried_after: float = 330.0
    #: between two checks of a consumer that is not current, at first and at most; an hour, so that
    #: 3,000 latent consumers cost less than one LIST a second
    pause: float = 30.0
    max_pause: float = 3600.0
    #: at most while a rollout goes on, or waits for somebody
    max_pause_rolling: float = 600.0


class AlertSettings(NamedTuple):
    """Where alerts go."""

    url: str
    #: Put before each text: which cluster this is, say.
    info: str = ""
    #: The URL of an HTTP proxy, or "".
    proxy: str = ""


class WebhookSettings(NamedTuple):
    """Which webhooks there are."""

    #: Gets each change of a source; "" for none.
    change_url: str = ""
    #: Seconds of quiet before a change is sent, and their bound.
    settle: float = 0.5
    settle_max: float = 5.0
    #: Whether the creation and the deletion of a source are changes.
    on_create: bool = True
    on_delete: bool = False
    alert: AlertSettings | None = None


class Settings(NamedTuple):
    """What one controller process is told."""

    #: The namespace of the controller's own Secrets.
    namespace: str = DEFAULT_NAMESPACE
    #: Watch these namespaces alone, without any right on the cluster; none watches all.
    watch_namespaces: tuple[str, ...] = ()
    #: Of all namespaces: leave these out, and those whose labels a selector does not match.
    ignored_namespaces: tuple[str, ...] = ()
    namespace_selector: str = ""
    #: Watch only the sources whose labels match.
    source_selector: str = ""
    #: Annotations' defaults.
    defaults: Defaults = DEFAULTS
    #: Who is told of changes and rollouts over HTTP.
    webhooks: WebhookSettings = WebhookSettings()
    #: Consumers that are worked on at once. A rollout is one PATCH of 2–4 ms; 32 keep a fan-out
    #: of 1,000 under 3 s without crowding an API server.
    workers: int = 32
    #: Rollouts of one consumer in ten minutes before it is held; 0 holds nobody.
    flap_limit: int = LIMIT
    #: When pods are checked after an adoption or a rollout.
    pod_checks: PodCheckSettings = PodCheckSettings()
    #: Our name among the replicas that compete for the Lease; "" when this is the only one.
    identity: str = ""
    #: Decide and compare with a running Reloader, and write nothing.
    shadow: bool = False
    #: Wait for an API server that does not answer at the start, instead of giving up at once.
    patient: bool = False
    #: Where metrics, health and status are served; port 0 picks a free one, None serves nothing.
    listen: tuple[str, int] | None = ("127.0.0.1", 9533)

    def serves(self, namespace: str) -> bool:
        """Return whether the objects of a namespace are watched."""
        if self.watch_namespaces:
            return namespace in self.watch_namespaces
        return namespace not in self.ignored_namespaces
