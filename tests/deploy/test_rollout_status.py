"""`hotmap status` on a real Kubernetes: StatefulSets that wait, and one that is stuck.

The controller is a pod with the rights of its roles; the command finds it there by itself and asks
through the API server's proxy.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest
from tests.deploy.installation import Installation
from tests.walkthroughs.backend import Backend, until

pytestmark = pytest.mark.cluster

#: A rollout is looked at when it has not gone on for 30 s, and again after a minute.
TIMEOUT = 150.0

#: A StatefulSet whose pods run with the value "bad" and do not get ready.
DATABASE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: app}
data: {LEVEL: info}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, annotations: {hotmap.dev/follow: auto}}
spec:
  replicas: 2
  serviceName: db
  updateStrategy: {type: STRATEGY}
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: hotmap.test/busybox:1
        command: [sleep, "3600"]
        readinessProbe: {periodSeconds: 1, exec: {command: [sh, -c, 'test "$LEVEL" != bad']}}
        env: [{name: LEVEL, valueFrom: {configMapKeyRef: {name: app, key: LEVEL}}}]
"""


def status(base: Installation, backend: Backend, *arguments: str) -> tuple[int, str]:
    """Run `hotmap status` as administrator; returns the exit status and what it printed."""
    where = (f"--kubeconfig={backend.kubeconfig}", f"--namespace={backend.namespace}")
    done = subprocess.run(
        [sys.executable, "-m", "hotmap", "status", *where, *arguments],
        env={"PATH": os.environ["PATH"], "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == "", done.stderr
    return done.returncode, done.stdout


async def reason(base: Installation, backend: Backend, pattern: str) -> dict[str, Any]:
    """Wait until the overview gives db a reason; returns its document."""

    async def given() -> dict[str, Any] | None:
        _, said = status(base, backend, "--output=json")
        found = json.loads(said)["workloads"]
        return found[0] if found and re.search(pattern, found[0]["reason"]) else None

    return await until(given, f"db: {pattern}", within=TIMEOUT)


async def edit(backend: Backend, level: str) -> None:
    await backend.patch("ConfigMap", "app", {"data": {"LEVEL": level}}, type="merge")


async def pods_started(base: Installation, backend: Backend) -> None:
    code, said = status(base, backend, "sts/db", "--wait=2m")
    assert code == 0, said


async def test_on_delete_waits_for_its_pods(backend: Backend, base: Installation) -> None:
    """Two pods wait to be deleted; each that is counts as new, and then all is current."""
    await backend.create(DATABASE.replace("STRATEGY", "OnDelete"))
    base.cluster.kubectl(
        f"--namespace={backend.namespace}", "wait", "pod/db-0", "--for=create", "--timeout=60s"
    )
    await pods_started(base, backend)
    await edit(backend, "debug")
    await reason(base, backend, "^waiting for 2 pods: OnDelete")
    assert status(base, backend, "--quiet") == (1, "")
    code, shown = status(base, backend, "db")
    assert code == 1
    assert len(re.findall(r"^db-\d +yes +- +unknown +started", shown, re.M)) == 2

    base.cluster.kubectl(f"--namespace={backend.namespace}", "delete", "pod", "db-1")
    await reason(base, backend, "^waiting for 1 pod: OnDelete")
    base.cluster.kubectl(f"--namespace={backend.namespace}", "delete", "pod", "db-0")
    await pods_started(base, backend)


async def test_stuck_stateful_set_names_pod_to_delete(backend: Backend, base: Installation) -> None:
    """A bad value is taken back and changes nothing: what is said to help, helps."""
    await backend.create(DATABASE.replace("STRATEGY", "RollingUpdate"))
    base.cluster.kubectl(
        f"--namespace={backend.namespace}", "wait", "pod/db-1", "--for=create", "--timeout=60s"
    )
    await pods_started(base, backend)
    await edit(backend, "bad")
    await reason(base, backend, "^waiting for 1 pod: db-1 is not ready$")
    await edit(backend, "info")
    stuck = await reason(base, backend, "; delete pod db-1$")
    assert (stuck["state"], stuck["behind"]) == ("stuck", 2)
    events = json.loads(
        base.cluster.kubectl(
            f"--namespace={backend.namespace}",
            *("get", "events", "--field-selector=reason=Stuck", "--output=json"),
        )
    )
    assert [event["message"] for event in events["items"]] == [stuck["reason"]]

    base.cluster.kubectl(f"--namespace={backend.namespace}", "delete", "pod", "db-1")
    # To wait ends at once while the state is stuck, which it is until the new pod is ready.
    await reason(base, backend, "^(?!.*delete pod db-1)")
    await pods_started(base, backend)
