"""A namespace of the real cluster, for the agent's tests in it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from tests.cluster.cluster import Cluster

__all__ = ["SECONDS", "Pods", "agent_status_command", "own_namespace"]

#: Seconds that anything may take; the kubelet's back-off takes 10 of them.
SECONDS = 60.0


class Pods:
    """The shared cluster, and one namespace in it; a call is a kubectl command there."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        return self._cluster.kubectl(
            f"--namespace={self._namespace}", *arguments, stdin=stdin, seconds=SECONDS + 10
        )

    def apply(self, manifest: dict[str, Any] | str) -> None:
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        self("apply", "--filename=-", stdin=text)

    def settings(self, name: str, **data: str) -> None:
        """Write a ConfigMap; `__` in a data key stands for a dot."""
        named = {key.replace("__", "."): text for key, text in data.items()}
        metadata = {"name": name}
        self.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": named})

    def ready(self, name: str) -> None:
        self("wait", "--for=condition=Ready", f"pod/{name}", f"--timeout={SECONDS:.0f}s")

    def announce(self, name: str, target: str) -> None:
        """Write what a controller would: the kubelet then syncs the pod at once."""
        self("annotate", "--overwrite", f"pod/{name}", f"hotmap.dev/target={target}")

    def life(self, name: str) -> tuple[str, str]:
        """Return a pod's UID and address."""
        found = json.loads(self("get", "pod", name, "--output=json"))
        return found["metadata"]["uid"], found["status"]["podIP"]


def agent_status_command(*agent: str) -> list[str]:
    """Return a command that prints the status and succeeds; the agent's image has no shell."""
    status = (*agent, "status", "--json", "--socket", "/hotmap/run/agent.sock")
    return ["python3", "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *status]


@contextlib.contextmanager
def own_namespace(cluster: Cluster, name: str) -> Iterator[str]:
    """Have a namespace while a block lasts; afterwards its pods end by themselves."""
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")
