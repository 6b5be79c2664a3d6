"""However `hotmap local up` ends, no process, mount or directory of it is left.

What a killed one could not remove is removed by the next start. Where objects are kept, they and
the certificates stay, and nothing else.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.walkthroughs.backend import JsonObject, until
from tests.walkthroughs.leftovers import adopting, mounts_below
from tests.walkthroughs.local import LocalBackend, Plane, running_plane
from tests.walkthroughs.steps import running_pod

from hotmap.core.errors import NotFound
from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import NAMESPACES

#: Minutes of waiting or of processor time, too much after each edit.
pytestmark = pytest.mark.slow

# It takes no TERM, has a child in a session of its own, and mounts of every kind.
STUBBORN = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {LEVEL: info}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {password: none}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: stubborn}
spec:
  selector: {matchLabels: {app: stubborn}}
  template:
    metadata: {labels: {app: stubborn}}
    spec:
      containers:
      - name: stubborn
        image: hotmap.test/busybox:1
        command: [sh, -c, "trap '' TERM INT HUP; setsid sleep 3600 & while :; do sleep 1; done"]
        volumeMounts:
        - {name: settings, mountPath: /etc/settings}
        - {name: settings, mountPath: /etc/level, subPath: LEVEL}
        - {name: password, mountPath: /etc/password}
        - {name: work, mountPath: /work}
      volumes:
      - name: settings
        configMap: {name: settings}
      - name: password
        secret: {secretName: password}
      - name: work
        emptyDir: {medium: Memory}
"""


async def run_stubborn(plane: Plane, namespace: str = "stubborn") -> None:
    async with LocalBackend(plane, namespace, sync_limit=100.0) as backend:
        await backend.create(STUBBORN)
        await running_pod(backend, "stubborn")


def state_directory(tmp_path: Path) -> Path:
    return tmp_path / "hotmap" / "local"


def assert_only_kept_remains(directory: Path, *, keep: bool) -> None:
    """Nothing of a run remains, except kept objects, certificates and logs of containers."""
    if keep:
        assert {path.name for path in directory.iterdir()} == {"logs", "store", "pki"}
    else:
        assert not directory.exists()
    assert mounts_below(directory) == []


@pytest.mark.parametrize("keep", [False, True], ids=["in memory", "kept"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_local_plane_stops_cleanly(
    number: signal.Signals, keep: bool, tmp_path: Path
) -> None:
    """With a pod that does not want to end, its status is 0 and nothing remains."""
    directory = state_directory(tmp_path)
    with adopting() as orphans:
        with running_plane(directory, keep=keep) as plane:
            await run_stubborn(plane)
            assert plane.stop(number) == 0
        assert orphans() == []
    assert_only_kept_remains(directory, keep=keep)
    log = plane.log.read_text()
    # Where other users cannot enter the directory of the interpreter, it says so.
    told = [line for line in log.splitlines() if not line.startswith("warning: other users")]
    assert len(told) == 1, log
    assert log.startswith("ready in ")


async def test_next_start_cleans_up_after_a_killed_one(tmp_path: Path) -> None:
    """Processes and mounts end with it; the next one begins again in the same directory."""
    directory = state_directory(tmp_path)
    with adopting() as orphans:
        with running_plane(directory, keep=False) as plane:
            await run_stubborn(plane)
            plane.stop(signal.SIGKILL)
        assert orphans() == []
        assert mounts_below(directory) == []
        assert list((directory / "pods").iterdir()) != []
        with running_plane(directory, keep=False) as plane:
            assert list((directory / "pods").iterdir()) == []
            await run_stubborn(plane)
            assert plane.stop(signal.SIGTERM) == 0
        assert orphans() == []
    assert_only_kept_remains(directory, keep=False)


async def test_next_start_keeps_only_the_objects_of_a_killed_one(tmp_path: Path) -> None:
    """Files of its pods are gone; their deletion, which it had begun, comes to its end."""
    directory = state_directory(tmp_path)
    with adopting() as orphans:
        with running_plane(directory) as plane:
            await run_stubborn(plane, "before")
            plane.stop(signal.SIGKILL)
        assert orphans() == []
        assert mounts_below(directory) == []
        left_over = list((directory / "pods").iterdir())
        assert left_over != []
        for pod in left_over:
            (pod / "left over").touch()
        with running_plane(directory) as plane:
            assert list(directory.rglob("left over")) == []
            async with Client(load_kubeconfig(str(plane.kubeconfig))) as client:
                await until(lambda: _is_gone(client, "before"), "the namespace is gone")
            assert list((directory / "pods").iterdir()) == []
            await run_stubborn(plane, "after")
            assert plane.stop(signal.SIGTERM) == 0
        assert orphans() == []
    assert_only_kept_remains(directory, keep=True)


async def _is_gone(client: Client, namespace: str) -> bool | None:
    try:
        await client.get(NAMESPACES, None, namespace, type=JsonObject)
    except NotFound:
        return True
    return None
