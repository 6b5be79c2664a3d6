"""`hotmap status` on a real Kubernetes by a user who may view one namespace and nothing else.

The command finds the controller's Service, and its token goes there through the API server's proxy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.deploy.installation import Installation
from tests.walkthroughs.backend import Backend

pytestmark = pytest.mark.cluster

CURRENT, NOT_CURRENT, CANNOT_TELL = 0, 1, 2

WORKLOAD = """
apiVersion: v1
kind: ConfigMap
metadata: {name: app}
data: {LEVEL: "0"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {hotmap.dev/follow: auto}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: hotmap.test/busybox:1
        command: [sleep, "3600"]
        env: [{name: LEVEL, valueFrom: {configMapKeyRef: {name: app, key: LEVEL}}}]
"""


class Developer:
    """A service account with the ClusterRole view in one namespace."""

    def __init__(self, base: Installation, namespace: str, directory: Path) -> None:
        self._cluster = base.cluster
        self.namespace = namespace
        self._kubeconfig = directory / "developer.kubeconfig"
        where = f"--namespace={namespace}"
        self._cluster.kubectl(where, "create", "serviceaccount", "dev")
        bound = ("--clusterrole=view", f"--serviceaccount={namespace}:dev")
        self._cluster.kubectl(where, "create", "rolebinding", "dev", *bound)
        token = self._cluster.kubectl(where, "create", "token", "dev").strip()
        content = yaml.safe_load(Path(self._cluster.kubeconfig).read_text())
        context = content["contexts"][0]["context"]
        content["users"] = [{"name": "dev", "user": {"token": token}}]
        content["contexts"] = [
            {"name": "dev", "context": {**context, "user": "dev", "namespace": namespace}}
        ]
        content["current-context"] = "dev"
        self._kubeconfig.write_text(yaml.safe_dump(content))

    def hotmap(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "hotmap", *arguments, f"--kubeconfig={self._kubeconfig}"],
            env={"PATH": os.environ["PATH"], "COLUMNS": "80"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


async def test_developer_waits_for_his_edit(
    base: Installation, backend: Backend, tmp_path: Path
) -> None:
    """Right after each edit, exit status 0 means that every process has it."""
    await backend.create(WORKLOAD)
    developer = Developer(base, backend.namespace, tmp_path)
    first = developer.hotmap("status", "web", "--wait=2m")
    assert (first.returncode, first.stderr) == (CURRENT, "")
    where = f"--namespace={backend.namespace}"
    for level in ("1", "2", "3"):
        data = json.dumps({"data": {"LEVEL": level}})
        base.cluster.kubectl(where, "patch", "configmap", "app", "--patch", data)
        done = developer.hotmap("status", "deploy/web", "--wait=2m")
        assert done.returncode == CURRENT, done
        listed = base.cluster.kubectl(where, "get", "pods", "--output=json")
        pods = [pod["metadata"] for pod in json.loads(listed)["items"]]
        (name,) = [pod["name"] for pod in pods if "deletionTimestamp" not in pod]
        shown = base.cluster.kubectl(where, "exec", name, "--", "sh", "-c", "echo $LEVEL")
        assert shown.strip() == level, done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 80
    overview = developer.hotmap("status")
    assert "deployment/web" in overview.stdout
    assert "LEVEL changed" in developer.hotmap("why", "web").stdout


async def test_developer_is_told_which_permission_is_missing(
    base: Installation, backend: Backend, tmp_path: Path
) -> None:
    """One sentence, for another namespace and where none has workloads for him."""
    developer = Developer(base, backend.namespace, tmp_path)
    for arguments, where in (
        (("--namespace=kube-system",), "in namespace kube-system"),
        (("web", "--namespace=kube-system"), "in namespace kube-system"),
        (("--all-namespaces",), "in any namespace with followed workloads"),
    ):
        refused = developer.hotmap("status", *arguments)
        assert refused.returncode == CANNOT_TELL
        who = f"system:serviceaccount:{backend.namespace}:dev"
        assert f"{who} may not get workloads.hotmap.dev {where}" in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
