"""Steps that several walkthroughs share, in terms of a backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.walkthroughs.backend import TIMEOUT, Backend, JsonObject, until

__all__ = [
    "Entry",
    "Pod",
    "finished_log",
    "listing",
    "replaced",
    "restarted",
    "running_pod",
    "running_pods",
    "variable",
    "wait_until_shown",
]


class Pod(NamedTuple):
    """A pod that runs."""

    name: str
    uid: str
    restarts: int


class Entry(NamedTuple):
    """A name in a directory; `target` is "" for what is not a link."""

    inode: int
    target: str


async def finished_log(backend: Backend, pod: str) -> str:
    """Wait until a pod has succeeded; return what it printed."""

    async def check() -> bool | None:
        phase = (await backend.get("Pod", pod))["status"].get("phase")
        assert phase != "Failed", await backend.logs(pod)
        return phase == "Succeeded" or None

    await until(check, f"pod {pod} has succeeded")
    return await backend.logs(pod)


async def running_pods(backend: Backend, app: str) -> list[Pod] | None:
    """List the pods of an application; None while one of them starts or ends."""
    found = await backend.find("Pod", selector=f"app={app}")
    pods = [_running(pod) for pod in found]
    return [pod for pod in pods if pod] if pods and all(pods) else None


async def running_pod(backend: Backend, app: str) -> Pod:
    """Wait until an application has exactly one pod, and it is ready."""
    return await _one_pod(backend, app, lambda pod: True, "one pod that runs")


async def replaced(backend: Backend, app: str, old: Pod) -> Pod:
    """Wait until another pod runs in the place of an application's only one."""
    return await _one_pod(
        backend, app, lambda pod: pod.uid != old.uid, f"another pod than {old.name}"
    )


async def restarted(backend: Backend, app: str, old: Pod) -> None:
    """Wait until the container of an application's only pod runs once more."""
    wanted = old._replace(restarts=old.restarts + 1)
    await _one_pod(backend, app, lambda pod: pod == wanted, f"a restart in {old.name}")


async def _one_pod(backend: Backend, app: str, is_meant: Callable[[Pod], bool], told: str) -> Pod:
    async def check() -> Pod | None:
        pods = await running_pods(backend, app)
        return pods[0] if pods and len(pods) == 1 and is_meant(pods[0]) else None

    return await until(check, f"{app} has {told}")


def _running(pod: JsonObject) -> Pod | None:
    statuses = pod["status"].get("containerStatuses", [])
    ready = statuses and all(status["ready"] for status in statuses)
    if not ready or "deletionTimestamp" in pod["metadata"]:
        return None
    restarts = sum(status["restartCount"] for status in statuses)
    return Pod(pod["metadata"]["name"], pod["metadata"]["uid"], restarts)


async def variable(backend: Backend, pod: Pod, name: str) -> str:
    """Read a variable of a pod's environment as `kubectl exec … env` shows it."""
    lines = (await backend.exec(pod.name, "env")).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)[name]


async def wait_until_shown(
    backend: Backend, pod: Pod, file: str, text: str, *, within: float = TIMEOUT
) -> None:
    """Wait until a file in a pod holds a text."""

    async def check() -> bool | None:
        return await backend.exec(pod.name, "cat", file) == text or None

    await until(check, f"{file} in {pod.name} says {text!r}", within=within)


async def listing(backend: Backend, pod: Pod, directory: str) -> dict[str, Entry]:
    """List a directory in a pod, hidden names included, as `ls -lai` shows it."""
    script = 'cd "$0" && for f in * ..?*; do echo "$f $(stat -c %i "$f") $(readlink "$f")"; done'
    entries = {}
    for line in (await backend.exec(pod.name, "sh", "-c", script, directory)).splitlines():
        name, inode, target = line.split(" ", 2)
        entries[name] = Entry(int(inode), target)
    return entries
