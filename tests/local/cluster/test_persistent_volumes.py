"""Pods keep their data in claims: over restarts of pods, and of the control plane."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tests.support.polling import wait_until
from tests.support.requires import requires

from hotmap.core.errors import SettingsError
from hotmap.local.cluster import LocalCluster, PlaneSettings

if TYPE_CHECKING:
    from pathlib import Path

CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
}
MOUNTS = [
    {"name": "data", "mountPath": "/data"},
    {"name": "data", "mountPath": "/part", "subPath": "part"},
    {"name": "data", "mountPath": "/look", "readOnly": True},
]
SCRIPT = """
echo run >> /data/runs
echo part > /part/file
touch /look/no 2>/data/refused || cat /look/part/file > /data/seen
exec sleep 1000
"""


def stateful_set(replicas: int) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", SCRIPT]}
    template = {
        "metadata": {"labels": {"app": "db"}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{**container, "volumeMounts": MOUNTS}],
        },
    }
    return {
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "db"}},
            "template": template,
            "volumeClaimTemplates": [CLAIM],
        },
    }


def has_text(path: Path, text: str) -> bool:
    return path.exists() and text in path.read_text()


async def test_data_of_a_stateful_set_outlives_its_pods_and_the_plane(tmp_path: Path) -> None:
    """Two replicas have a directory each; a deletion of their claims removes it."""
    state = tmp_path / "plane"
    settings = PlaneSettings(keep=True)

    def runs() -> dict[str, int]:
        """Count by claim how often its pod has started."""
        found = (state / "volumes").glob("*/runs")
        return {
            path.parent.name.rpartition("_")[2]: len(path.read_text().split()) for path in found
        }

    cluster = LocalCluster(state, settings=settings)
    try:
        await cluster.start()
    except SettingsError as error:
        requires("namespaces", available=False, reason=str(error))
    try:
        await cluster.registry.create("statefulsets", "default", stateful_set(2), manager="test")
        await wait_until(lambda: runs() == {"data-db-0": 1, "data-db-1": 1})
        await cluster.registry.delete("pods", "default", "db-0", grace_period=0)
        await wait_until(lambda: runs() == {"data-db-0": 2, "data-db-1": 1})
    finally:
        await cluster.stop()
    async with LocalCluster(state, settings=settings) as again:
        await wait_until(lambda: runs() == {"data-db-0": 3, "data-db-1": 2})
        for directory in (state / "volumes").iterdir():
            # Each start of a pod writes them again.
            await wait_until(partial(has_text, directory / "seen", "part\n"))
            await wait_until(partial(has_text, directory / "refused", "Read-only file system"))
        await again.registry.delete("statefulsets", "default", "db")
        for name in ("data-db-0", "data-db-1"):
            await again.registry.delete("persistentvolumeclaims", "default", name)
        await wait_until(lambda: list((state / "volumes").iterdir()) == [])
