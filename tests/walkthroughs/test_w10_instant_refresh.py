"""W10: mounted files are refreshed at once, by hand or by hotmap's controller.

That without either they follow after the sync period is shown by W5.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.inotify import watching
from tests.walkthroughs.backend import Backend, until
from tests.walkthroughs.steps import Pod, listing, running_pod, wait_until_shown

MANIFESTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: test}
data: {mount.info: before, aa: "1"}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations: {hotmap.dev/follow: auto, hotmap.dev/rereads: "true"}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: hotmap.test/busybox:1
        command: [sleep, "3600"]
        volumeMounts: [{name: test, mountPath: /etc/cm}]
      volumes:
      - name: test
        configMap: {name: test}
"""
#: pkg/volume/util/atomic_writer.go: the time in UTC, a random number.
REVISION = re.compile(r"\.\.\d{4}(_\d\d){5}\.\d+")


async def edit(backend: Backend) -> None:
    """Change one data key, add one and drop one."""
    data = {"mount.info": "after", "bb": "2", "aa": None}
    await backend.patch("ConfigMap", "test", {"data": data}, type="merge")


async def nudge(backend: Backend, pod: Pod) -> None:
    """Annotate a pod, whatever with."""
    annotations = {"example.com/refresh": "1"}
    await backend.patch("Pod", pod.name, {"metadata": {"annotations": annotations}})


async def gone(directory: Path) -> None:
    """Wait until a revision is removed, which is the last thing that a refresh does."""

    async def check() -> bool | None:
        return None if directory.exists() else True

    await until(check, f"{directory} is removed")


async def test_annotation_of_pod_brings_files(backend: Backend) -> None:
    """Long before the sync period is over, in the same pod; only `..data` has moved."""
    await backend.create(MANIFESTS)
    pod = await running_pod(backend, "web")
    before = await listing(backend, pod, "/etc/cm")
    old = before["..data"].target
    assert set(before) == {"aa", "mount.info", "..data", old}
    assert before["aa"].target == "..data/aa"
    assert REVISION.fullmatch(old)

    await backend.patch("ConfigMap", "test", {"data": {"mount.info": "after"}})
    await nudge(backend, pod)
    await wait_until_shown(backend, pod, "/etc/cm/mount.info", "after")
    await gone(await backend.volume(pod.name, "test") / old)

    after = await listing(backend, pod, "/etc/cm")
    new = after["..data"].target
    assert set(after) == {"aa", "mount.info", "..data", new}
    assert REVISION.fullmatch(new)
    assert (after["aa"], after["mount.info"]) == (before["aa"], before["mount.info"])
    assert await running_pod(backend, "web") == pod


async def test_directory_watch_reports_one_refresh_in_order(backend: Backend) -> None:
    """The order of one refresh, in which a data key changes, one is new and one is dropped."""
    await backend.create(MANIFESTS)
    pod = await running_pod(backend, "web")
    volume = await backend.volume(pod.name, "test")
    old = (volume / "..data").readlink()
    with watching(volume) as events:
        await edit(backend)
        await nudge(backend, pod)
        await gone(volume / old)
        seen = events.read()
    new = str((volume / "..data").readlink())
    assert seen == [
        ("CREATE|ISDIR", new),
        ("ATTRIB|ISDIR", new),
        ("CREATE", "..data_tmp"),
        ("MOVED_FROM", "..data_tmp"),
        ("MOVED_TO", "..data"),
        ("CREATE", "bb"),
        ("DELETE", "aa"),
        ("DELETE|ISDIR", str(old)),
    ]


async def test_hotmap_annotates_the_pod_by_itself(backend: Backend) -> None:
    """The files are there long before the sync period is over, and nothing was restarted."""
    await backend.create(MANIFESTS)
    pod = await running_pod(backend, "web")
    async with backend.running_controller():
        await edit(backend)
        await wait_until_shown(backend, pod, "/etc/cm/mount.info", "after")
    found = await backend.get("Pod", pod.name)
    assert "hotmap.dev/target" in found["metadata"]["annotations"]
    assert await running_pod(backend, "web") == pod
    assert await backend.history("web") == [1]
