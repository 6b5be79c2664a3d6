"""The controller's settings, from its flags."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from hotmap.controller.addresses import DEFAULT_HOST, DEFAULT_NAMESPACE, DEFAULT_PORT
from hotmap.core.decide.flap_breaker import LIMIT
from hotmap.core.policy.policy import DEFAULTS, Defaults
from hotmap.kube.leaderelection import DEFAULT_TIMING, LeaseTiming

__all__ = [
    "AlertSettings",
    "AlertSink",
    "MetaInfo",
    "PodCheckSettings",
    "ReloaderSurface",
    "Settings",
    "WebhookSettings",
]


class PodCheckSettings(NamedTuple):
    """When pods are checked; times in seconds."""

    #: consumers a second; 0 disables the checks
    rate: float = 5.0
    #: from an adoption or a rollout to the first check
    initial_delay: float = 10.0
    #: from the end of a rollout to the check that confirms it: its pods' status may lag behind
    rollout_delay: float = 3.0
    #: without progress after which a rollout's pods are checked, to report what it waits for
    stalled_after: float = 30.0
    #: without progress after which kubelets have restarted what crashes
    #: (kubernetes: pkg/kubelet, MaxContainerBackOff is 5 minutes)
    retried_after: float = 330.0
    #: between two checks of a consumer that is not current, at first and at most; an hour, so that
    #: 3,000 latent consumers cost less than one LIST a second
    pause: float = 30.0
    max_pause: float = 3600.0
    #: at most while a rollout is in progress or waits for a user
    max_pause_rolling: float = 600.0
    #: at most where agents can be asked: a failure there may end at any time
    max_pause_agents: float = 60.0
    #: from a nudge to the check of pods without agents: by then their kubelets have updated the
    #: files, even if the second nudge was needed
    nudged_delay: float = 6.0
    #: from a nudge to the first question to agents: most have loaded the files by then
    agent_check_delay: float = 1.0


class AlertSink(enum.Enum):
    """What reads the alerts, which decides on their format."""

    SLACK = "slack"
    TEAMS = "teams"
    GCHAT = "gchat"
    #: Anything that takes a line of text.
    RAW = "raw"


class AlertSettings(NamedTuple):
    """Alert receivers."""

    url: str
    sink: AlertSink = AlertSink.RAW
    #: Prefix of each text, such as the name of the cluster.
    info: str = ""
    #: The URL of an HTTP proxy, or "".
    proxy: str = ""


class WebhookSettings(NamedTuple):
    """Settings of webhooks."""

    #: Gets each change of a source; "" for none.
    change_url: str = ""
    #: Seconds of quiet before a change is sent, and their bound.
    settle: float = 0.5
    settle_max: float = 5.0
    #: Whether the creation and the deletion of a source are changes.
    on_create: bool = True
    on_delete: bool = False
    alert: AlertSettings | None = None


class MetaInfo(NamedTuple):
    """Reloader's ConfigMap about itself."""

    namespace: str
    data: Mapping[str, str]


class ReloaderSurface(NamedTuple):
    """What tools for Reloader read of it, besides the workloads."""

    #: Count rollouts by namespace in the metrics with Reloader's names.
    counts_by_namespace: bool = False
    #: None: it is not written.
    meta_info: MetaInfo | None = None


class Settings(NamedTuple):
    """Settings of one controller process."""

    #: The namespace of the controller's own Secrets.
    namespace: str = DEFAULT_NAMESPACE
    #: Watch only these namespaces, without cluster-wide permissions; none watches all.
    watch_namespaces: tuple[str, ...] = ()
    #: If all are watched: exclude these, and those that the label selector does not match.
    ignored_namespaces: tuple[str, ...] = ()
    namespace_selector: str = ""
    #: Watch only the sources whose labels match.
    source_selector: str = ""
    #: Defaults of annotations.
    defaults: Defaults = DEFAULTS
    #: HTTP receivers of changes and rollouts.
    webhooks: WebhookSettings = WebhookSettings()
    #: Number of consumers that are processed in parallel. A rollout is one PATCH of 2–4 ms; 32 keep
    #: a fan-out of 1,000 under 3 s without overloading an API server.
    workers: int = 32
    #: Rollouts of one consumer in a minute, or in ten minutes between the same contents, before
    #: further ones are suppressed; 0 disables this.
    flap_limit: int = LIMIT
    #: Workloads that are rolled out at a time for one source without a limit of its own; 0: any
    #: number.
    rollout_limit: int = 0
    #: When pods are checked after an adoption or a rollout.
    pod_checks: PodCheckSettings = PodCheckSettings()
    #: Identity for leader election; "" disables it.
    identity: str = ""
    #: When the Lease is renewed, given up and acquired.
    lease: LeaseTiming = DEFAULT_TIMING
    #: Without a name: whether a leader that exists is worth a warning.
    warns_of_leader: bool = False
    #: None: nothing of it; metrics have hotmap's names only.
    reloader: ReloaderSurface | None = None
    #: Decide and compare with a running Reloader, and write nothing.
    shadow: bool = False
    #: Wait for an unavailable API server at the start instead of failing at once.
    patient: bool = False
    #: Where metrics, health and status are served; port 0 picks a free one, None serves nothing.
    listen: tuple[str, int] | None = (DEFAULT_HOST, DEFAULT_PORT)
    #: Where users with a token read the status of their namespaces; None: nowhere.
    status_listen: tuple[str, int] | None = None

    def serves(self, namespace: str) -> bool:
        """Return whether the objects of a namespace are watched."""
        if self.watch_namespaces:
            return namespace in self.watch_namespaces
        return namespace not in self.ignored_namespaces
