"""On a real kubelet: pods restart in place one after the other, as their budget permits.

Three pods read a variable at their start; all their containers restart for another value. The
kube-controller-manager counts for the PodDisruptionBudget.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.cluster import images
from tests.cluster.cluster import Cluster
from tests.walkthroughs.backend import controller_process
from tests.walkthroughs.cluster import ClusterBackend

from hotmap.cli.inject import Injection, default_image, inject

pytestmark = pytest.mark.cluster

_NAMESPACE, _REPLICAS = "wave", 3

#: Serves what it was started with, after a second.
_APPLICATION = """
import http.server, os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
time.sleep(1)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("", 8080), Handler).serve_forever()
"""


def _deployment() -> dict[str, Any]:
    labels = {"app": "web"}
    container = {
        "name": "app",
        "image": images.reference("python"),
        "command": ["python3", "-c", _APPLICATION],
        "envFrom": [{"configMapRef": {"name": "web"}}],
        "readinessProbe": {
            "httpGet": {"path": "/", "port": 8080},
            "periodSeconds": 1,
            "failureThreshold": 1,
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "annotations": {"hotmap.dev/follow": "auto"}},
        "spec": {
            "replicas": _REPLICAS,
            # Three at once, were it not for the budget.
            "strategy": {"rollingUpdate": {"maxUnavailable": _REPLICAS}},
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "securityContext": {"runAsUser": 1000},
                    "terminationGracePeriodSeconds": 1,
                    "containers": [container],
                },
            },
        },
    }


def _config_map(text: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "web"},
        "data": {"TEXT": text},
    }


_BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web"},
    "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
}


class Namespace:
    """The namespace of the test; a call is a kubectl command there."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        return self._cluster.kubectl(f"--namespace={_NAMESPACE}", *arguments, stdin=stdin)

    def apply(self, manifest: dict[str, Any] | str) -> None:
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        self("apply", "--filename=-", stdin=text)

    def pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self("get", "pods", "--output=json"))["items"]
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


@pytest.fixture
def namespace(real_cluster: Cluster) -> Iterator[Namespace]:
    real_cluster.kubectl("create", "namespace", _NAMESPACE)
    yield Namespace(real_cluster)
    real_cluster.kubectl("delete", "namespace", _NAMESPACE, "--wait=false")


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def _started(pod: dict[str, Any]) -> str:
    """Return when the container started; "" while it does not run."""
    statuses = pod["status"].get("containerStatuses") or ()
    running = [
        status["state"].get("running") or {} for status in statuses if status["name"] == "app"
    ]
    return str(running[0].get("startedAt", "")) if running else ""


def _until(check: Callable[[], bool], what: str, seconds: float = 240.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"timed out waiting until {what}"
        time.sleep(0.2)


async def test_pods_restart_as_their_budget_permits(
    namespace: Namespace, real_cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    """The pods stay, each restarts, and no more than one is ever not Ready."""
    namespace.apply(_config_map("one"))
    namespace.apply(_BUDGET)
    flags = ("--restart-on", "frozen", "--restart", "all-containers")
    namespace.apply(
        inject(json.dumps(_deployment()), Injection(default_image(), "", flags), "-")[0]
    )
    _until(
        lambda: len(pods := namespace.pods()) == _REPLICAS and all(map(_is_ready, pods)),
        "all pods are Ready",
    )
    before = {pod["metadata"]["uid"]: _started(pod) for pod in namespace.pods()}
    async with controller_process(ClusterBackend(real_cluster, _NAMESPACE)):
        began = time.monotonic()
        namespace.apply(_config_map("two"))
        seen: list[int] = []

        def all_restarted() -> bool:
            pods = namespace.pods()
            seen.append(sum(not _is_ready(pod) for pod in pods))
            started = {pod["metadata"]["uid"]: _started(pod) for pod in pods}
            assert started.keys() == before.keys(), "a pod was replaced"
            later = [at > before[uid] for uid, at in started.items()]
            return all(later) and all(map(_is_ready, pods))

        _until(all_restarted, "all pods have restarted")
        record_property("three pods restarted one by one", f"{time.monotonic() - began:.0f} s")
    assert max(seen) == 1
