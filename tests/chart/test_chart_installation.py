"""The chart on a real Kubernetes: install, test, upgrade under edits, roll back, uninstall."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chart.helm import CHART, helm
from tests.cluster import images
from tests.cluster.cluster import Cluster
from tests.cluster.errors import TestBedError
from tests.cluster.fixtures import real_cluster

__all__ = ["real_cluster"]

pytestmark = pytest.mark.cluster

#: What is edited while the controller is replaced, and how often.
WORKLOADS = 5
EDITS_A_SECOND = 5.0
_PATIENCE = 90.0

_WORKLOAD = """
apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}}}
data: {{edit: "0"}}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  annotations:
    hotmap.dev/follow: auto
    hotmap.dev/flap-limit: "0"
    # A rollout for each edit would be more pods than one node starts.
    hotmap.dev/settle: 3s
    hotmap.dev/settle-max: 15s
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: app
        image: hotmap.test/busybox:1
        command: [sleep, "3600"]
        envFrom: [{{configMapRef: {{name: {name}}}}}]
---
"""


class Release:
    """A release of the chart in a namespace of its own, under the restricted standard."""

    def __init__(self, cluster: Cluster, namespace: str, kubeconfig: Path | None = None) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._kubeconfig = kubeconfig or cluster.kubeconfig

    def helm(self, command: str, *arguments: str, check: bool = True) -> str:
        """Run a helm command on the release `hotmap`."""
        words = (command, "hotmap", *arguments, f"--namespace={self.namespace}")
        return helm(*words, kubeconfig=self._kubeconfig, check=check).stdout

    def install(self, command: str, *values: str) -> str:
        """Install or upgrade with the test bed's image; returns when every pod is ready."""
        repository, _, tag = images.reference("hotmap").rpartition(":")
        return self.helm(
            command,
            str(CHART),
            "--wait",
            "--timeout=2m",
            f"--set=image.repository={repository}",
            f"--set-string=image.tag={tag}",
            *values,
        )

    def test(self) -> None:
        """Run `helm test`, which has to succeed; shows the log of its pod where it does not."""
        done = self.helm("test", check=False)
        assert "Succeeded" in done, self.kubectl("logs", "hotmap-test")

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator in the release's namespace."""
        return self.cluster.kubectl(f"--namespace={self.namespace}", *arguments, stdin=stdin)

    def objects(self, kinds: str, *selector: str) -> list[dict[str, Any]]:
        """List objects of some kinds."""
        found = json.loads(self.kubectl("get", kinds, "--output=json", *selector))
        items: list[dict[str, Any]] = found["items"]
        return items


@contextlib.contextmanager
def _namespace(cluster: Cluster, *, restricted: bool) -> Iterator[str]:
    name = f"helm-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    if restricted:
        level = "pod-security.kubernetes.io/enforce=restricted"
        cluster.kubectl("label", "namespace", name, level)
    try:
        yield name
    finally:
        cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def release(real_cluster: Cluster) -> Iterator[Release]:
    with _namespace(real_cluster, restricted=True) as name:
        release = Release(real_cluster, name)
        try:
            yield release
        finally:
            with contextlib.suppress(AssertionError):
                release.helm("uninstall", "--ignore-not-found", "--wait")


@pytest.fixture
def workloads(real_cluster: Cluster) -> Iterator[Release]:
    """A namespace with workloads that follow a ConfigMap each; their last name is not edited."""
    with _namespace(real_cluster, restricted=False) as name:
        place = Release(real_cluster, name)
        names = [f"app-{number}" for number in range(WORKLOADS + 1)]
        place.kubectl(
            "apply",
            "--filename=-",
            stdin="".join(_WORKLOAD.format(name=name) for name in names),
        )
        yield place


class Editor:
    """Edits the ConfigMaps in turn, from a thread, until it is stopped."""

    def __init__(self, workloads: Release) -> None:
        self._workloads = workloads
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._edit)
        #: The last value of each ConfigMap.
        self.values: dict[str, str] = {}
        self.edits = 0

    def __enter__(self) -> Editor:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        self._thread.join()

    def _edit(self) -> None:
        due = time.monotonic()
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            due += 1 / EDITS_A_SECOND
            self.edits += 1
            name = f"app-{self.edits % WORKLOADS}"
            patch = json.dumps({"data": {"edit": str(self.edits)}})
            self._workloads.kubectl("patch", "configmap", name, f"--patch={patch}")
            self.values[name] = str(self.edits)


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.5)


def _running_values(workloads: Release) -> dict[str, set[str]]:
    """Read the value that the pods of each workload run with."""
    found: dict[str, set[str]] = {}
    for pod in workloads.objects("pods", "--field-selector=status.phase=Running"):
        if "deletionTimestamp" in pod["metadata"]:
            continue
        name = pod["metadata"]["labels"]["app"]
        # A pod may end between the two requests.
        with contextlib.suppress(TestBedError):
            lines = workloads.kubectl("exec", pod["metadata"]["name"], "--", "env").splitlines()
            values = [line.partition("=")[2] for line in lines if line.startswith("edit=")]
            found.setdefault(name, set()).update(values)
    return found


def _wait_for_values(release: Release, workloads: Release, expected: dict[str, set[str]]) -> None:
    """Wait until the pods of each workload run with the expected value, and only with that."""
    deadline = time.monotonic() + _PATIENCE
    while (found := _running_values(workloads)) != expected:
        if time.monotonic() > deadline:
            (pod, *_) = release.objects("pods")
            path = f"/api/v1/namespaces/{release.namespace}/pods/{pod['metadata']['name']}:9533"
            status = f"{path}/proxy/v1/status?namespace={workloads.namespace}"
            sys.stderr.write(release.kubectl("get", f"--raw={status}"))
            sys.stderr.write(workloads.kubectl("get", "pods,deployments", "--output=wide"))
            sys.stderr.write(release.kubectl("logs", "deployment/hotmap", "--tail=-1"))
            pytest.fail(f"the pods run with {found}, expected {expected}")
        time.sleep(0.5)


def test_release_lives_from_install_to_uninstall(
    release: Release, workloads: Release, record_property: Callable[[str, object], None]
) -> None:
    """Ready after install, edits of upgrade and rollback are delivered, uninstall leaves state."""
    began = time.monotonic()
    release.install("install")
    record_property("helm install to ready, s", f"{time.monotonic() - began:.1f}")
    release.test()
    _wait(lambda: len(_running_values(workloads)) == WORKLOADS + 1, "the workloads run")
    untouched = workloads.objects("deployments")[-1]
    assert untouched["metadata"]["name"] == f"app-{WORKLOADS}"

    with Editor(workloads) as editor:
        release.install("upgrade", "--set=enableHA=true,logLevel=debug")
        assert [int(item["spec"]["replicas"]) for item in release.objects("deployments")] == [2]
        release.helm("rollback", "1", "--wait", "--timeout=2m")
        assert [int(item["spec"]["replicas"]) for item in release.objects("deployments")] == [1]
    record_property("edits during upgrade and rollback", editor.edits)
    expected = {name: {value} for name, value in editor.values.items()}
    expected[f"app-{WORKLOADS}"] = {"0"}
    _wait_for_values(release, workloads, expected)
    after = workloads.objects("deployments")[-1]
    assert after["metadata"]["generation"] == untouched["metadata"]["generation"]

    release.helm("uninstall", "--wait")
    # Helm waits for the Deployment and not for its pods, which end within their grace period.
    _wait(lambda: not release.objects("pods"), "the pods have ended")
    left = release.objects("all,secrets,configmaps,roles,rolebindings,serviceaccounts,leases")
    left += release.objects("networkpolicies,poddisruptionbudgets")
    names = {
        (item["kind"], item["metadata"]["name"])
        for item in left
        if item["metadata"]["name"] not in ("kube-root-ca.crt", "default")
        and item["kind"] != "Event"
    }
    state = {
        ("Secret", item["metadata"]["name"])
        for item in release.objects("secrets", "--selector=app.kubernetes.io/managed-by=hotmap")
    }
    assert ("Secret", "hotmap-key") in state
    assert names == {*state, ("Lease", "hotmap-controller")}
    owned = "--selector=app.kubernetes.io/instance=hotmap"
    assert not [
        item
        for item in release.objects("clusterroles,clusterrolebindings", owned)
        if release.namespace in item["metadata"]["name"]
    ]


def test_namespace_administrator_installs_for_one_namespace(
    real_cluster: Cluster, tmp_path: Path
) -> None:
    """Without any permission outside of it: install, test, uninstall."""
    with _namespace(real_cluster, restricted=True) as name:
        real_cluster.kubectl(
            *("create", "rolebinding", "team", "--clusterrole=admin", "--user=team"),
            f"--namespace={name}",
        )
        settings = yaml.safe_load(real_cluster.kubeconfig.read_text())
        for entry in settings["users"]:
            entry["user"]["as"] = "team"
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(settings))
        release = Release(real_cluster, name, kubeconfig)
        release.install("install", "--set=watchGlobally=false")
        release.test()
        release.helm("uninstall", "--wait")
        assert release.objects("deployments,roles,serviceaccounts")[1:] == []
