"""Injected manifests under a real kubelet: an environment from files, and a stage."""

from __future__ import annotations

import contextlib
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

from hotmap.cli.inject import Injection, default_image, inject

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def pods(real_cluster: Cluster) -> Iterator[Pods]:
    with own_namespace(real_cluster, "injected") as namespace:
        yield Pods(real_cluster, namespace)


def injected(text: str, *flags: str, mode: str, stage: bool = False) -> str:
    """Add the agent, and see that it could be taken out again."""
    found, _ = inject(text, Injection(default_image(), "", flags, mode, stage), "manifest.yaml")
    assert inject(found, None, "manifest.yaml")[0] == text
    return found


def nudging(pods: Pods, pod: str, shown: Callable[[], bool], what: str) -> None:
    """Wait for something, and announce every two seconds, as a controller does."""
    announced = 0.0

    def check() -> bool:
        nonlocal announced
        if time.monotonic() - announced > 2:
            announced = time.monotonic()
            pods.announce(pod, f"{int(announced * 10)}/{what.encode().hex()}/-")
        try:
            return shown()
        except TestBedError:
            return False  # a container is about to start

    eventually(check, what)


SUPERVISED = f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: follows}}
spec:
  selector: {{matchLabels: {{app: follows}}}}
  template:
    metadata:
      labels: {{app: follows}}
    spec:
      terminationGracePeriodSeconds: 5
      securityContext: {{runAsUser: 1000}}
      containers:
      - name: app
        image: {images.reference("python")}
        command: [sh, -c]
        args:
        - |
          trap 'exit 0' TERM
          echo "STARTED $VERSION $DB_HOST $GREETING $0"
          while :; do sleep 0.05; done
        - "$(VERSION)-$$(VERSION)"
        envFrom:
        - configMapRef: {{name: follows}}     # all of it
        - prefix: DB_
          configMapRef: {{name: follows-db}}
        env:
        - name: GREETING
          value: hello-$(VERSION)
"""


def test_supervised_environment_follows_configmaps(
    pods: Pods, record_property: Callable[[str, object], None]
) -> None:
    """Edits reach the process of an ordinary Deployment in the same pod and container."""
    pods.settings("follows", VERSION="one")
    pods.settings("follows-db", HOST="here")
    pods.apply(injected(SUPERVISED, "--grace", "2s", mode="supervisor"))
    pods("rollout", "status", "deployment/follows", "--timeout=60s")

    def pod() -> dict[str, Any]:
        (found,) = json.loads(pods("get", "pods", "--selector=app=follows", "--output=json"))[
            "items"
        ]
        pod: dict[str, Any] = found
        return pod

    def starts() -> list[str]:
        lines = pods("logs", name, "--container=app").splitlines()
        return [line for line in lines if line.startswith("STARTED")]

    name = pod()["metadata"]["name"]
    uid = pod()["metadata"]["uid"]
    eventually(lambda: starts() == ["STARTED one here hello-one one-$(VERSION)"])
    pods.settings("follows", VERSION="two")
    began = time.monotonic()
    nudging(pods, name, lambda: len(starts()) == 2, "the second environment")
    record_property("seconds", f"{time.monotonic() - began:.2f}")
    pods.settings("follows-db", HOST="there")
    nudging(pods, name, lambda: len(starts()) == 3, "the third environment")
    assert starts()[1:] == [
        "STARTED two here hello-two two-$(VERSION)",
        "STARTED two there hello-two two-$(VERSION)",
    ]
    after = pod()
    assert after["metadata"]["uid"] == uid
    assert [status["restartCount"] for status in after["status"]["containerStatuses"]] == [0]


STAGED = yaml.safe_dump(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "staged"},
        "spec": {
            "securityContext": {"runAsUser": 1000},
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "app",
                    "image": images.reference("busybox"),
                    "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.05; done"],
                    "volumeMounts": [
                        {"name": "conf", "mountPath": "/conf"},
                        {"name": "parts", "mountPath": "/parts", "subPath": "d"},
                    ],
                }
            ],
            "volumes": [
                {"name": "conf", "configMap": {"name": "staged"}},
                {
                    "name": "parts",
                    "configMap": {"name": "parts", "items": [{"key": "a", "path": "d/a"}]},
                },
            ],
        },
    }
)


@pytest.mark.parametrize("mode", ["native-sidecar", "sidecar", "supervisor"])
def test_stage_shows_only_checked_content(pods: Pods, mode: str) -> None:
    """The application starts with good content only, and never sees any other.

    Also after its own restart while the source is bad; and a `subPath` folder is live.
    """
    name = f"staged-{mode}"
    text = STAGED.replace("staged", name).replace("name: parts", f"name: {name}-parts")
    if mode == "supervisor":
        text = text.replace(images.reference("busybox"), images.reference("python"))
    pods.settings(name, text="bad zero")
    pods.settings(f"{name}-parts", a="part one")
    check = "python3 -c 'import sys; sys.exit(\"good\" not in open(sys.argv[1]).read())' {dir}/text"
    flags = ("--check", check, "--touch", "/hotmap/run/loaded")
    pods.apply(injected(text, *flags, mode=mode, stage=True))
    holder = "app" if mode == "supervisor" else "hotmap-agent"

    def seen(path: str) -> str:
        return pods("exec", name, "--container=app", "--", "cat", path)

    def status() -> dict[str, Any]:
        agent = (
            ["python3", "/hotmap/bin/agent.pyz"] if mode == "supervisor" else ["hotmap", "agent"]
        )
        words = agent_status_command(*agent)
        found = pods("exec", name, f"--container={holder}", "--", *words)
        state: dict[str, Any] = json.loads(found) if found.startswith("{") else {}
        return state

    def containers() -> dict[str, Any]:
        found = json.loads(pods("get", "pod", name, "--output=json"))["status"]
        both = [*found.get("containerStatuses", ()), *found.get("initContainerStatuses", ())]
        return {item["name"]: item for item in both}

    def refused_first() -> bool:
        try:
            return "refused" in pods("logs", name, "--container=hotmap-agent-first")
        except TestBedError:
            return False  # it is about to start

    if mode == "sidecar":
        eventually(refused_first)
    else:
        eventually(lambda: "running" in containers().get(holder, {}).get("state", {}))
        eventually(lambda: status().get("state") == "refused")
    if mode != "supervisor":
        assert "running" not in containers()["app"]["state"]
    pods.settings(name, text="good one")
    nudging(pods, name, lambda: seen("/conf/text") == "good one", "the first good content")
    pods.ready(name)
    # Nothing confirms that a file was touched; a start with the content does.
    reloaded = "loaded" if mode == "supervisor" else "told"
    eventually(lambda: status().get("state") == reloaded)

    pods.settings(name, text="bad two")
    nudging(pods, name, lambda: status().get("state") == "refused", "the refusal")
    assert seen("/conf/text") == "good one"
    if mode != "supervisor":
        with contextlib.suppress(TestBedError):  # the shell may end with its container
            pods("exec", name, "--container=app", "--", "sh", "-c", "kill 1")
        eventually(lambda: containers()["app"]["restartCount"] == 1)
        eventually(lambda: "running" in containers()["app"]["state"])
        assert seen("/conf/text") == "good one"

    pods.settings(name, text="good three")
    pods.settings(f"{name}-parts", a="part two")
    nudging(pods, name, lambda: seen("/parts/a") == "part two", "the edit below a subPath")
    nudging(pods, name, lambda: seen("/conf/text") == "good three", "the last good content")


FROZEN = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: frozen}}
spec:
  securityContext: {{runAsUser: 1000}}
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: {images.reference("busybox")}
    command:
    - sh
    - -c
    - trap 'exit 0' TERM; echo STARTED $VERSION; while :; do sleep 0.05; done
    envFrom: [{{configMapRef: {{name: frozen}}}}]
"""


@pytest.mark.parametrize("way", ["all-containers", "term"])
def test_environment_change_restarts_the_container(pods: Pods, way: str) -> None:
    """A pod that mounts nothing gets its new environment in place, when that is announced."""
    name = f"frozen-{way}"
    flags = ["--restart-on", "frozen", "--restart", way]
    if way == "term":
        flags += ["--process", "command:echo STARTED"]
    pods.settings(name, VERSION="one")
    text = FROZEN.replace("name: frozen", f"name: {name}")
    pods.apply(injected(text, *flags, mode="native-sidecar"))
    pods.ready(name)

    def identity() -> tuple[str, str]:
        found = json.loads(pods("get", "pod", name, "--output=json"))
        return found["metadata"]["uid"], found["status"]["podIP"]

    def last() -> str:
        try:
            return pods("logs", name, "--container=app", "--tail=1").strip()
        except TestBedError:
            return ""  # the container is about to start

    def announced() -> bool:
        return "INFO    announced" in pods("logs", name, "--container=hotmap-agent")

    before = identity()
    eventually(lambda: last() == "STARTED one")
    pods.announce(name, "1/-/one")
    eventually(announced)
    pods.settings(name, VERSION="two")
    pods.announce(name, "2/-/two")
    eventually(lambda: last() == "STARTED two")
    assert identity() == before
