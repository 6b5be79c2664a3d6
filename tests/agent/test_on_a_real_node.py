"""Under a real kubelet: each way to restart in place for frozen uses, and the rollout beside."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from tests.agent.agents import eventually
from tests.cluster import images
from tests.cluster.cluster import Cluster
from tests.cluster.errors import TestBedError

from hotmap.cli.inject import Injection, inject

pytestmark = pytest.mark.cluster

#: pytest notes figures with it, for --junitxml: seconds from the announcement to the new output.
Took = Callable[[str, object], None]

NAMESPACE = "agent-tests"
SECONDS = 90.0
AGENT = images.reference("hotmap")


class Pods:
    """The shared cluster, and one namespace in it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        return self._cluster.kubectl(
            f"--namespace={NAMESPACE}", *arguments, stdin=stdin, seconds=SECONDS
        )

    def apply(self, manifest: dict[str, Any] | str) -> None:
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        self("apply", "--filename=-", stdin=text)

    def settings(self, name: str, **data: str) -> None:
        self.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name},
                "data": {key.replace("__", "."): text for key, text in data.items()},
            }
        )

    def ready(self, name: str) -> None:
        self("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")

    def announce(self, name: str, target: str) -> None:
        """Write what a controller would: the kubelet then syncs the pod at once."""
        self("annotate", "--overwrite", f"pod/{name}", f"hotmap.dev/target={target}")

    def identity(self, name: str) -> tuple[str, str]:
        pod = json.loads(self("get", "pod", name, "--output=json"))
        return pod["metadata"]["uid"], pod["status"]["podIP"]

    def version(self, name: str) -> str:
        """Read what the application printed last; an agent around it logs to the same place."""
        lines = self("logs", name, "--container=app", "--tail=8").splitlines()
        found = [line.partition("=")[2] for line in lines if line.startswith("VERSION=")]
        return found[-1] if found else ""

    def status(self, name: str, container: str = "hotmap-agent") -> dict[str, Any]:
        words = ("python3", "-m", "hotmap", "agent", "status", "--json")
        socket = ("--socket", "/hotmap/run/agent.sock")
        try:
            text = self(
                *("exec", name, f"--container={container}", "--", "sh", "-c"),
                " ".join([*words, *socket]) + " || true",
            )
        except TestBedError:
            return {}  # the container is about to start
        found: dict[str, Any] = json.loads(text) if text.startswith("{") else {}
        return found


@pytest.fixture(scope="module")
def pods(real_cluster: Cluster) -> Iterator[Pods]:
    real_cluster.kubectl("create", "namespace", NAMESPACE)
    yield Pods(real_cluster)
    real_cluster.kubectl(
        "delete", "namespace", NAMESPACE, f"--timeout={SECONDS:.0f}s", seconds=SECONDS + 10
    )


def pod(name: str, image: str, command: list[str], **container: Any) -> dict[str, Any]:
    """Make a Pod that mounts the ConfigMap of its name at /conf."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "securityContext": {"runAsUser": 1000},
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "app",
                    "image": images.reference(image),
                    "command": command,
                    "volumeMounts": [{"name": "conf", "mountPath": "/conf"}],
                    **container,
                }
            ],
            "volumes": [{"name": "conf", "configMap": {"name": name}}],
        },
    }


def injected(manifest: dict[str, Any], *flags: str) -> dict[str, Any]:
    """Add the agent to a Pod as `hotmap inject` does."""
    text, _ = inject(yaml.safe_dump(manifest), Injection(AGENT, "", flags), "pod")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


#: Prints its environment at its start, and ends when it is told to.
SHOW = ["sh", "-c", "trap 'exit 0' TERM; echo VERSION=$VERSION; while :; do sleep 0.05; done"]


def await_files(pods: Pods, name: str, version: str) -> None:
    """Wait for a version that comes by files, announced again every two seconds.

    As a controller does it: a pod sync may outrun the kubelet's own watch of the source, and
    leave the old files until the next one.
    """
    announced = time.monotonic()

    def shown() -> bool:
        nonlocal announced
        if time.monotonic() - announced > 2:
            announced = time.monotonic()
            pods.announce(name, f"{int(announced)}/{version}/-")
        return pods.version(name) == version

    pods.announce(name, f"{int(announced)}/{version}/-")
    eventually(shown, f"VERSION={version} in {name}")


def await_version(pods: Pods, name: str, version: str) -> None:
    def shown() -> bool:
        try:
            return pods.version(name) == version
        except TestBedError:
            return False  # the container is about to start

    eventually(shown, f"VERSION={version} in {name}")


def test_a_supervised_application_gets_its_environment_anew(
    pods: Pods, record_property: Took
) -> None:
    """What was an envFrom follows the mounted files: same pod, same container, new environment."""
    pods.settings("supervised", VERSION="one")
    agent = ["python3", "-m", "hotmap", "agent", "--env-from", "/conf", "--grace", "5s", "--"]
    pods.apply(pod("supervised", "hotmap", [*agent, *SHOW]))
    await_version(pods, "supervised", "one")
    identity = pods.identity("supervised")
    for version in ("two", "three", "four"):
        pods.settings("supervised", VERSION=version)
        began = time.monotonic()
        await_files(pods, "supervised", version)
        record_property("seconds", f"{time.monotonic() - began:.2f}")
    assert pods.identity("supervised") == identity


def test_all_containers_restart_in_the_same_pod(pods: Pods, record_property: Took) -> None:
    """The agent's own exit status restarts every container: new environment, same UID and IP."""
    pods.settings("whole", VERSION="one")
    source = [{"configMapRef": {"name": "whole"}}]
    manifest = injected(
        pod("whole", "busybox", SHOW, envFrom=source),
        *("--restart-on", "frozen", "--restart", "all-containers"),
    )
    pods.apply(manifest)
    pods.ready("whole")
    await_version(pods, "whole", "one")
    identity = pods.identity("whole")
    pods.announce("whole", "1/-/one")
    eventually(lambda: pods.status("whole").get("target", {}).get("sequence") == 1)
    for number, version in enumerate(("two", "three", "four"), start=2):
        pods.settings("whole", VERSION=version)
        began = time.monotonic()
        pods.announce("whole", f"{number}/-/{version}")
        await_version(pods, "whole", version)
        record_property("seconds", f"{time.monotonic() - began:.2f}")
        eventually(lambda n=number: pods.status("whole").get("target", {}).get("sequence") == n)
    assert pods.identity("whole") == identity


def test_term_restarts_one_container(pods: Pods, record_property: Took) -> None:
    """Ending the main process makes the kubelet start the container again, with its back-off."""
    pods.settings("ended", VERSION="one")
    source = [{"configMapRef": {"name": "ended"}}]
    manifest = injected(
        pod("ended", "busybox", SHOW, envFrom=source),
        *("--restart-on", "frozen", "--restart", "term", "--process", "command:echo VERSION="),
    )
    pods.apply(manifest)
    pods.ready("ended")
    await_version(pods, "ended", "one")
    identity = pods.identity("ended")
    pods.announce("ended", "1/-/one")
    eventually(lambda: pods.status("ended").get("target", {}).get("sequence") == 1)
    pods.settings("ended", VERSION="two")
    began = time.monotonic()
    pods.announce("ended", "2/-/two")
    await_version(pods, "ended", "two")
    record_property("seconds", f"{time.monotonic() - began:.2f}")
    assert pods.identity("ended") == identity


def test_a_rollout_replaces_the_pod(pods: Pods, record_property: Took) -> None:
    """What all of the above are held against: the same edit by new pods."""
    pods.settings("rolled", VERSION="one")
    template = pod("rolled", "busybox", SHOW, envFrom=[{"configMapRef": {"name": "rolled"}}])
    labels = {"app": "rolled"}
    pods.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "rolled"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
            },
        }
    )

    def output() -> str:
        try:
            return pods("logs", "--selector=app=rolled", "--container=app", "--tail=1")
        except TestBedError:
            return ""  # the container is about to start

    eventually(lambda: "VERSION=one" in output())
    pods.settings("rolled", VERSION="two")
    began = time.monotonic()
    pods("rollout", "restart", "deployment/rolled")
    eventually(lambda: "VERSION=two" in output())
    record_property("seconds", f"{time.monotonic() - began:.2f}")
    pods("rollout", "status", "deployment/rolled", "--timeout=60s")
    record_property("complete", f"{time.monotonic() - began:.2f}")
