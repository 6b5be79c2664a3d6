"""Health by parts: /healthz, /livez, /readyz, and the paths of single checks below them.

apiserver/pkg/server/healthz. The checks have upstream's names and order. What the plane has of its
own is checked: the store, and whether the server stops. All other parts are started with the
server, or have no counterpart here, and are healthy for as long as it answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hotmap.core.text import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from multidict import MultiMapping

__all__ = ["HealthAnswer", "HealthChecks", "health_paths"]

_HOOKS = (
    "start-apiserver-admission-initializer",
    "generic-apiserver-start-informers",
    "priority-and-fairness-config-consumer",
    "priority-and-fairness-filter",
    "storage-object-count-tracker-hook",
    "start-apiextensions-informers",
    "start-apiextensions-controllers",
    "crd-informer-synced",
    "start-system-namespaces-controller",
    "peer-endpoint-reconciler-controller",
    "start-cluster-authentication-info-controller",
    "start-kube-apiserver-identity-lease-controller",
    "start-kube-apiserver-identity-lease-garbage-collector",
    "storage-readiness",
    "start-legacy-token-tracking-controller",
    "start-service-ip-repair-controllers",
    "rbac/bootstrap-roles",
    "scheduling/bootstrap-system-priority-classes",
    "priority-and-fairness-config-producer",
    "bootstrap-controller",
    "start-kubernetes-service-cidr-controller",
    "aggregator-reload-proxy-client-cert",
    "start-kube-aggregator-informers",
    "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller",
    "apiservice-registration-controller",
    "apiservice-discovery-controller",
    "kube-apiserver-autoregistration",
    "apiservice-openapi-controller",
    "apiservice-openapiv3-controller",
)
_ETCD, _ETCD_READINESS, _SHUTDOWN = "etcd", "etcd-readiness", "shutdown"
_STARTED = (
    *(f"poststarthook/{hook}" for hook in _HOOKS[:-2]),
    "autoregister-completion",
    *(f"poststarthook/{hook}" for hook in _HOOKS[-2:]),
)
_ALIVE = ("ping", "log", "loopback-serving-certificate", _ETCD, *_STARTED)
_READY = ("ping", "log", _ETCD, _ETCD_READINESS, "informer-sync", *_STARTED, _SHUTDOWN)
#: Endpoint → the names of its checks.
_CHECKS: dict[str, tuple[str, ...]] = {"healthz": _ALIVE, "livez": _ALIVE, "readyz": _READY}


class HealthAnswer(NamedTuple):
    """What a request for health is answered with: plain text."""

    text: str
    status: int = 200


def health_paths() -> list[str]:
    """Return the paths of all checks."""
    return [
        path
        for endpoint, checks in _CHECKS.items()
        for path in (f"/{endpoint}", *(f"/{endpoint}/{check}" for check in checks))
    ]


class HealthChecks:
    """The checks of one server; each part returns its problem, or "" for none."""

    def __init__(self, *, store: Callable[[], str], shutdown: Callable[[], str]) -> None:
        self._parts = {_ETCD: store, _ETCD_READINESS: store, _SHUTDOWN: shutdown}

    def answer(self, path: str, query: MultiMapping[str]) -> HealthAnswer | None:
        """Answer a request, None where the path is that of no check."""
        endpoint, slash, name = path.removeprefix("/").partition("/")
        checks = _CHECKS.get(endpoint)
        if checks is None or (slash and name not in checks):
            return None
        return self._single(name) if slash else self._all(endpoint, checks, query)

    def results(self) -> Iterator[tuple[str, str, bool]]:
        """Return each endpoint with each of its checks and whether that is healthy."""
        for endpoint in ("healthz", "readyz"):
            for name in _CHECKS[endpoint]:
                yield endpoint, name, not self._error(name)

    def _single(self, name: str) -> HealthAnswer:
        error = self._error(name)
        if error:
            return HealthAnswer(f"internal server error: {error}\n", 500)
        return HealthAnswer("ok")

    def _all(self, endpoint: str, checks: Sequence[str], query: MultiMapping[str]) -> HealthAnswer:
        excluded = set(query.getall("exclude", []))
        lines, failed = [], False
        for name in checks:
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok\n")
            elif self._error(name):
                failed = True
                # The reason may concern those who may read more than this path.
                lines.append(f"[-]{name} failed: reason withheld\n")
            else:
                lines.append(f"[+]{name} ok\n")
        unknown = ",".join(map(quote, sorted(excluded.difference(checks))))
        if unknown:
            why = "warn: some health checks cannot be excluded: no matches for"
            lines.append(f"{why} {unknown}\n")
        if failed:
            return HealthAnswer(f"{''.join(lines)}{endpoint} check failed\n", 500)
        if "verbose" not in query:
            return HealthAnswer("ok")
        return HealthAnswer(f"{''.join(lines)}{endpoint} check passed\n")

    def _error(self, name: str) -> str:
        part = self._parts.get(name)
        return "" if part is None else part()
