"""A StatefulSet and a DaemonSet after an edit: a real controller rolls them on the local plane."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cli.stage import Stage, running_stage

from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import CONFIGMAPS, DAEMONSETS, PODS, STATEFULSETS

pytestmark = pytest.mark.slow

CURRENT = 0


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Return a cluster with the ConfigMap `app`, which the tests of this file share in turn."""
    with running_stage(tmp_path_factory.mktemp("ordered")) as stage:
        asyncio.run(stage.create(CONFIGMAPS, metadata={"name": "app"}, data={"LEVEL": "info"}))
        yield stage


async def _create(stage: Stage, kind: Any, name: str, **spec: Any) -> None:
    """Create a workload of which a pod with LEVEL=bad never becomes ready."""
    labels = {"app": name}
    reference = {"configMapKeyRef": {"name": "app", "key": "LEVEL"}}
    container = {
        "name": "main",
        "image": "host",
        "command": ["sleep", "3600"],
        "env": [{"name": "LEVEL", "valueFrom": reference}],
        "readinessProbe": {
            "exec": {"command": ["sh", "-c", '[ "$LEVEL" != bad ]']},
            "periodSeconds": 1,
        },
    }
    pod = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    await stage.create(
        kind,
        metadata={"name": name, "annotations": {"hotmap.dev/follow": "auto"}},
        spec={
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            **spec,
        },
    )


async def _get(stage: Stage, kind: Any, name: str) -> dict[str, Any]:
    async with Client(load_kubeconfig(str(stage.plane.kubeconfig))) as client:
        found: dict[str, Any] = await client.get(kind, "default", name, type=dict)
        return found


def _until_status(stage: Stage, workload: str, text: str) -> None:
    deadline = time.monotonic() + 90
    while text not in (shown := stage.hotmap("status", workload)).out:
        assert time.monotonic() < deadline, shown
        time.sleep(0.5)


async def test_stateful_set_and_daemon_set_are_rolled_out(stage: Stage) -> None:
    await _create(stage, STATEFULSETS, "db", replicas=2, serviceName="db")
    await _create(stage, DAEMONSETS, "agent")
    for workload in ("sts/db", "ds/agent"):
        before = stage.hotmap("status", workload, "--wait=90s")
        assert (before.status, before.err) == (CURRENT, "")
    first = (await _get(stage, STATEFULSETS, "db"))["status"]["currentRevision"]

    await stage.edit(LEVEL="debug")
    for workload, name in (
        ("sts/db", "statefulset/db"),
        ("ds/agent", "daemonset/agent"),
    ):
        after = stage.hotmap("status", workload, "--wait=90s")
        assert after.status == CURRENT, after
        assert after.out.startswith(f"{name} in default: current\n")
    status = (await _get(stage, STATEFULSETS, "db"))["status"]
    assert status["currentRevision"] == status["updateRevision"] != first
    assert (status["readyReplicas"], status["updatedReplicas"]) == (2, 2)
    daemons = (await _get(stage, DAEMONSETS, "agent"))["status"]
    assert (daemons["numberReady"], daemons["updatedNumberScheduled"]) == (1, 1)


async def test_stateful_set_that_is_stuck_heals_when_its_pod_is_deleted(stage: Stage) -> None:
    """As on Kubernetes: the good value alone does not replace the pod that is not ready."""
    await stage.edit(LEVEL="info")
    await _create(stage, STATEFULSETS, "cache", replicas=2, serviceName="cache")
    assert stage.hotmap("status", "sts/cache", "--wait=90s").status == CURRENT
    await stage.edit(LEVEL="bad")
    deadline = time.monotonic() + 90
    while (await _get(stage, STATEFULSETS, "cache"))["status"].get("readyReplicas") != 1:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.2)
    await stage.edit(LEVEL="info")
    _until_status(stage, "sts/cache", "stuck")
    shown = stage.hotmap("status", "sts/cache").out
    assert "cache-1" in shown
    async with Client(load_kubeconfig(str(stage.plane.kubeconfig))) as client:
        await client.delete(PODS, "default", "cache-1")
    healed = stage.hotmap("status", "sts/cache", "--wait=90s")
    assert healed.status == CURRENT, healed
