"""Under a real kubelet: nginx with the layout of its published image, and an injected agent.

Root starts it, its workers are the user nginx, it listens on port 80, writes to /run and
/var/cache/nginx, and its own nginx.conf includes /etc/nginx/conf.d, where the ConfigMap is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from tests.agent.agents import eventually
from tests.agent.real_node import Pods, agent_status_command, own_namespace
from tests.cluster import images
from tests.cluster.cluster import Cluster
from tests.cluster.errors import TestBedError

from hotmap.cli.inject import Injection, inject

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def pods(real_cluster: Cluster) -> Iterator[Pods]:
    with own_namespace(real_cluster, "published-nginx") as namespace:
        yield Pods(real_cluster, namespace)


def manifest(name: str, *, read_only: bool) -> str:
    """A pod of this image; with a read-only root it mounts what nginx writes to."""
    container: dict[str, Any] = {
        "name": "nginx",
        "image": images.reference("published-nginx"),
        "volumeMounts": [{"name": "sites", "mountPath": "/etc/nginx/conf.d"}],
    }
    volumes: list[dict[str, Any]] = [{"name": "sites", "configMap": {"name": name}}]
    if read_only:
        container["securityContext"] = {"readOnlyRootFilesystem": True}
        for volume, path in (("run", "/run"), ("cache", "/var/cache/nginx")):
            container["volumeMounts"].append({"name": volume, "mountPath": path})
            volumes.append({"name": volume, "emptyDir": {}})
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container], "volumes": volumes}
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    )


def site(text: str) -> str:
    return f'server {{ listen 80; location / {{ return 200 "{text}\\n"; }} }}\n'


@pytest.mark.parametrize("staged", [False, True], ids=["mounted", "staged"])
@pytest.mark.parametrize("read_only", [False, True], ids=["writable root", "read-only root"])
def test_published_nginx_is_reloaded_and_kept_from_broken_files(
    pods: Pods, read_only: bool, staged: bool
) -> None:
    """The check of the agent runs in its own container, which has a read-only root anyway."""
    name = f"web-{int(read_only)}{int(staged)}"
    pods.settings(name, default__conf=site("one"))
    image = images.reference("hotmap-published-nginx")
    injection = Injection(image, "", ("--for", "nginx-conf.d"), stage=staged)
    text, _ = inject(manifest(name, read_only=read_only), injection, "web.yaml")
    pods.apply(text)

    def served() -> str:
        try:
            words = ("wget", "-q", "-O", "-", "http://127.0.0.1/")
            return pods("exec", name, "--container=nginx", "--", *words).strip()
        except TestBedError:
            return ""  # it is about to start

    def agent() -> dict[str, Any]:
        words = agent_status_command("hotmap", "agent")
        found = pods("exec", name, "--container=hotmap-agent", "--", *words)
        state: dict[str, Any] = json.loads(found) if found.startswith("{") else {}
        return state

    def announcing(shown: Callable[[], bool]) -> Callable[[], bool]:
        def check() -> bool:
            pods.announce(name, f"{int(time.monotonic() * 10)}/{time.monotonic_ns()}/-")
            return shown()

        return check

    pods.ready(name)
    eventually(lambda: served() == "one", "nginx serves")
    eventually(lambda: agent().get("state") == "loaded", "the agent has checked what is there")
    pods.settings(name, default__conf=site("two"))
    eventually(announcing(lambda: served() == "two"), "the edit is served")
    pods.settings(name, default__conf=site("three") + "}")
    eventually(announcing(lambda: agent().get("state") == "refused"), "the check refuses it")
    assert 'unexpected "}"' in agent()["check"]["error"]
    assert served() == "two"
    pods.settings(name, default__conf=site("four"))
    eventually(announcing(lambda: served() == "four"), "the correction is served")
