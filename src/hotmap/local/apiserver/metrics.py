"""The metrics of the API server, under upstream's names, in Prometheus' text format.

apiserver/pkg/endpoints/metrics and apiserver/pkg/storage/etcd3/metrics. Requests are counted here;
everything else is read at a scrape.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from hotmap.core.errors import ApiError
from hotmap.local.apiserver.routes import verb_of
from hotmap.local.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.core import Metric
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

    from hotmap.local.apiserver.health import HealthChecks
    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.apiserver.routes import ResourcePath

__all__ = ["CONTENT_TYPE", "RAW", "RequestMetrics", "Requested", "render", "render_health"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"

#: Where stored values are read; the key follows, such as /registry/configmaps/default/app.
RAW = "/debug/store"

_VERBS = {"create": "POST", "update": "PUT"}
_LABELS = frozenset(
    "CONNECT DELETE DELETECOLLECTION GET HEAD LIST OPTIONS PATCH POST PUT WATCH".split()  # noqa: SIM905
)
_READS = ("GET", "HEAD")


class Requested(NamedTuple):
    """What a request asks for, as labels have it."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    scope: str = ""
    component: str = "apiserver"
    dry_run: str = ""

    @classmethod
    def of(cls, method: str, path: ResourcePath, query: Mapping[str, str]) -> Requested:
        """Describe a request for a resource."""
        try:
            verb: str = verb_of(method, path, query)
        except ApiError:
            verb = method
        kind = path.kind
        scope = "resource" if path.name or verb == "create" else "cluster"
        if scope == "cluster" and path.namespace is not None:
            scope = "namespace"
        return cls(
            "CONNECT" if path.subresource in _CONNECTIONS else _verb_label(verb),
            kind.group,
            kind.version,
            kind.plural,
            path.subresource,
            scope,
            dry_run=query.get("dryRun", "") and "All",
        )

    @classmethod
    def of_document(cls, method: str, path: str) -> Requested:
        """Describe a request for no resource; stored values count together, whatever the key."""
        name = RAW if path.startswith(RAW) else f"/{path.strip('/')}"
        return cls(_verb_label(method), subresource=name)


_CONNECTIONS = ("exec", "attach", "portforward", "log", "proxy")


def _verb_label(verb: str) -> str:
    """Return a verb as the label has it; clients may invent others (CleanVerb)."""
    label = _VERBS.get(verb, verb.upper())
    return label if label in _LABELS else "other"


class RequestMetrics:
    """Counts requests, and those that are being answered."""

    def __init__(self) -> None:
        self._total: Counter[tuple[Requested, int]] = Counter()
        self._inflight = Counter({"mutating": 0, "readOnly": 0})
        self._long_running: Counter[Requested] = Counter()

    @contextlib.contextmanager
    def running(self, method: str) -> Iterator[None]:
        """Count a request as in flight."""
        kind = "readOnly" if method in _READS else "mutating"
        self._inflight[kind] += 1
        try:
            yield
        finally:
            self._inflight[kind] -= 1

    @contextlib.contextmanager
    def watching(self, requested: Requested) -> Iterator[None]:
        """Count a watch as long as it is open; it is not a request in flight."""
        self._inflight["readOnly"] -= 1
        self._long_running[requested] += 1
        try:
            yield
        finally:
            self._long_running[requested] -= 1
            self._inflight["readOnly"] += 1

    def finished(self, requested: Requested, code: int) -> None:
        """Count a request that was answered."""
        self._total[requested, code] += 1

    def reset(self) -> None:
        """Reset the counts."""
        self._total.clear()

    def collect(self) -> Iterator[Metric]:
        """Return the families of what is counted here."""
        total = _counter(
            "apiserver_request_total",
            "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, "
            "group, version, resource, scope, component, and HTTP response code.",
            "code",
            *Requested._fields,
        )
        for (requested, code), count in self._total.items():
            total.add_metric([str(code), *requested], count)
        yield total
        inflight = _gauge(
            "apiserver_current_inflight_requests",
            "[STABLE] Maximal number of currently used inflight request limit of this apiserver "
            "per request kind in last second.",
            "request_kind",
        )
        for name, count in self._inflight.items():
            inflight.add_metric([name], count)
        yield inflight
        fields = [field for field in Requested._fields if field != "dry_run"]
        running = _gauge(
            "apiserver_longrunning_requests",
            "[STABLE] Gauge of all active long-running apiserver requests broken out by verb, "
            "group, version, resource, scope and component. Not all requests are tracked this way.",
            *fields,
        )
        for requested, count in self._long_running.items():
            running.add_metric([getattr(requested, field) for field in fields], count)
        yield running


class _Collector:
    def __init__(self, requests: RequestMetrics, registry: Registry) -> None:
        self._requests = requests
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        yield from self._requests.collect()
        yield from _stored_objects(self._registry)
        labels = {
            "major": "major",
            "minor": "minor",
            "git_version": "gitVersion",
            "git_commit": "gitCommit",
            "git_tree_state": "gitTreeState",
            "build_date": "buildDate",
            "go_version": "goVersion",
            "compiler": "compiler",
            "platform": "platform",
        }
        build = _gauge(
            "kubernetes_build_info",
            "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git "
            "commit, git tree state, build date, Go version, and compiler from which Kubernetes "
            "was built, and platform on which it is running.",
            *labels,
        )
        build.add_metric([VERSION[field] for field in labels.values()], 1)
        yield build


def _stored_objects(registry: Registry) -> Iterator[Metric]:
    by_resource = _gauge(
        "apiserver_storage_objects",
        "[STABLE] (Deprecated since 1.34.0) [DEPRECATED, consider using apiserver_resource_objects "
        "instead] Number of stored objects at the time of last check split by kind. In case of a "
        "fetching error, the value will be -1.",
        "resource",
    )
    by_group = _gauge(
        "apiserver_resource_objects",
        "[ALPHA] Number of stored objects at the time of last check split by kind. In case of a "
        "fetching error, the value will be -1.",
        "group",
        "resource",
    )
    for kind in registry.scheme:
        if "list" in kind.verbs:
            # A page of one entry, and how many follow it.
            page = registry.store.range(kind.prefix(None), limit=1)
            count = len(page.entries) + page.remaining
            by_resource.add_metric([kind.resource], count)
            by_group.add_metric([kind.group, kind.plural], count)
    yield by_resource
    yield by_group


def render(requests: RequestMetrics, registry: Registry) -> bytes:
    """Write all metrics, also those of the process."""
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

    found = CollectorRegistry()
    found.register(_Collector(requests, registry))
    ProcessCollector(registry=found)
    return generate_latest(found)


def render_health(health: HealthChecks) -> bytes:
    """Write the results of the health checks (component-base/metrics/prometheus/slis)."""
    from prometheus_client import CollectorRegistry, generate_latest

    class Results:
        def collect(self) -> Iterator[Metric]:
            family = _gauge(
                "kubernetes_healthcheck",
                "[STABLE] This metric records the result of a single healthcheck.",
                "name",
                "type",
            )
            for endpoint, name, healthy in health.results():
                family.add_metric([name, endpoint], healthy)
            yield family

    found = CollectorRegistry()
    found.register(Results())
    return generate_latest(found)


def _counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    from prometheus_client.metrics_core import CounterMetricFamily

    return CounterMetricFamily(name, text, labels=labels)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    from prometheus_client.metrics_core import GaugeMetricFamily

    return GaugeMetricFamily(name, text, labels=labels)
