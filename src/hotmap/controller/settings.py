"""The controller's own settings, as flags give them."""

from __future__ import annotations

from typing import NamedTuple

from hotmap.controller.report.pod_checks import PodCheckSettings
from hotmap.controller.report.webhooks import WebhookSettings
from hotmap.core.decide.flap_breaker import LIMIT
from hotmap.core.policy.policy import DEFAULTS, Defaults

__all__ = ["DEFAULT_NAMESPACE", "Settings"]

#: Where the key and the records lie when nothing else is said and we are not in a pod.
DEFAULT_NAMESPACE = "hotmap"


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
    #: When pods are looked at after the fact.
    looks: PodCheckSettings = PodCheckSettings()
    #: Our name among the replicas that compete for the Lease; "" when this is the only one.
    identity: str = ""
    #: Decide and compare with a running Reloader, and write nothing.
    shadow: bool = False
    #: Wait for an API server that does not answer at the start, instead of giving up at once.
    patient: bool = False
    #: Where metrics, health and status are served; port 0 picks a free one, None serves nothing.
    listen: tuple[str, int] | None = ("127.0.0.1", 9533)

    def serves(self, namespace: str) -> bool:
        """Tell whether the objects of a namespace are watched."""
        if self.watch_namespaces:
            return namespace in self.watch_namespaces
        return namespace not in self.ignored_namespaces
