"""Under a real kubelet: each way to restart in place for frozen uses, and the rollout beside.

The application keeps a diary outside of its pod, with a line for each start, with what it started
with, and for each call to drain. Nothing is asserted of the times that are noted; what they were
stands in docs/agent.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.agent.real_node import SECONDS, Pods, agent_status_command, own_namespace
from tests.cluster import images
from tests.cluster.cluster import Cluster
from tests.cluster.errors import TestBedError
from tests.support.injected import injected
from tests.support.polling import poll_until

from hotmap.cli.inject import default_image

pytestmark = pytest.mark.cluster

#: pytest's `record_property`.
Note = Callable[[str, object], None]

#: Writes what it was started with, in its environment and by subPath, and drains on request.
APPLICATION = """
import http.server, os, pathlib, signal, sys, time

def write(event):
    with open("/diary/" + os.environ["DIARY"], "a") as diary:
        diary.write(f"{event} {time.time():.3f}\\n")

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        write("drained " + os.environ["VERSION"])
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass

signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
file = pathlib.Path("/file/VERSION")
write(f"started {os.environ['VERSION']} {file.read_text() if file.exists() else '-'}")
http.server.HTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
"""
DRAIN = "--drain-url=http://127.0.0.1:8080/drain"


class Event(NamedTuple):
    """A line of the diary; `at` is the application's own clock, which is this machine's."""

    what: str
    at: float


class Node(Pods):
    """A namespace of the cluster, and the diaries of its pods."""

    def __init__(self, cluster: Cluster, namespace: str, diaries: Path) -> None:
        super().__init__(cluster, namespace)
        self._diaries = diaries

    def set_version(self, name: str, version: str) -> None:
        """Write the ConfigMap that a pod of that name uses."""
        self.settings(name, VERSION=version)

    def pod(self, name: str, command: list[str], **container: Any) -> dict[str, Any]:
        """Make a Pod that mounts the ConfigMap of its name at /conf, and keeps a diary."""
        mounts = [
            {"name": "conf", "mountPath": "/conf"},
            {"name": "diary", "mountPath": "/diary"},
            *container.pop("volumeMounts", ()),
        ]
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
                        "image": images.reference("python"),
                        "command": command,
                        "env": [{"name": "DIARY", "value": name}],
                        "volumeMounts": mounts,
                        **container,
                    }
                ],
                "volumes": [
                    {"name": "conf", "configMap": {"name": name}},
                    {"name": "diary", "hostPath": {"path": str(self._diaries)}},
                ],
            },
        }

    def frozen(self, name: str) -> dict[str, Any]:
        """Make a Pod that uses the ConfigMap in both ways that are fixed when it starts."""
        return self.pod(
            name,
            ["python3", "-c", APPLICATION],
            envFrom=[{"configMapRef": {"name": name}}],
            volumeMounts=[{"name": "conf", "mountPath": "/file/VERSION", "subPath": "VERSION"}],
        )

    def diary(self, name: str) -> list[Event]:
        path = self._diaries / name
        lines = path.read_text().splitlines() if path.exists() else []
        return [Event(what, float(at)) for what, _, at in (line.rpartition(" ") for line in lines)]

    def wrote(self, name: str, what: str) -> Event:
        """Wait for a line of the diary."""

        def check() -> Event | None:
            return next((event for event in self.diary(name) if event.what == what), None)

        event: Event = poll_until(
            check, f"{name} wrote {what!r}; there is {self.diary(name)}", within=SECONDS
        )
        return event

    def knows(self, name: str, sequence: int) -> None:
        """Wait until the agent has seen an announcement, and there is nothing left to do."""
        status = agent_status_command("hotmap", "agent")

        def check() -> bool:
            try:
                said = self("exec", name, "--container=hotmap-agent", "--", *status)
            except TestBedError:
                return False  # the container is about to start
            found = json.loads(said) if said.startswith("{") else {}
            return bool(found.get("target", {}).get("sequence") == sequence)

        poll_until(check, f"the agent of {name} knows announcement {sequence}", within=SECONDS)


@pytest.fixture(scope="module")
def node(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    diaries = tmp_path_factory.mktemp("diaries")
    diaries.chmod(0o777)
    with own_namespace(real_cluster, "restarts") as namespace:
        yield Node(real_cluster, namespace, diaries)


def in_order(node: Node, name: str) -> list[str]:
    return [event.what for event in node.diary(name)]


def test_supervised_application_gets_a_new_environment(node: Node, record_property: Note) -> None:
    """What was an envFrom follows the mounted files; the container does not even restart.

    The agent is one file here, which an init container writes beside an application whose image
    has nothing but Python.
    """
    node.set_version("supervised", "one")
    agent = ["python3", "/hotmap/agent.pyz", "--env-from", "/conf", "--env", "DIARY"]
    mount = {"name": "hotmap", "mountPath": "/hotmap"}
    manifest = node.pod(
        "supervised", [*agent, "--", "python3", "-c", APPLICATION], volumeMounts=[mount]
    )
    manifest["spec"]["initContainers"] = [
        {
            "name": "hotmap-agent",
            "image": default_image(),
            "args": ["agent", "copy", "/hotmap/agent.pyz"],
            "volumeMounts": [mount],
        }
    ]
    manifest["spec"]["volumes"].append({"name": "hotmap", "emptyDir": {}})
    node.apply(manifest)
    node.wrote("supervised", "started one -")
    life = node.life("supervised")
    for number, version in enumerate(("two", "three"), start=1):
        began = time.time()
        node.set_version("supervised", version)
        # As a controller does: a sync may outrun the kubelet's own watch, so once more.
        node.announce("supervised", f"{2 * number}/{version}/-")
        time.sleep(0.5)
        node.announce("supervised", f"{2 * number + 1}/{version}/-")
        took = node.wrote("supervised", f"started {version} -").at - began
        record_property("edit → new environment", f"{took:.2f} s")
    assert node.life("supervised") == life
    found = json.loads(node("get", "pod", "supervised", "--output=json"))
    assert [status["restartCount"] for status in found["status"]["containerStatuses"]] == [0]


@pytest.mark.parametrize("way", ["all-containers", "term"])
def test_restart_in_place_keeps_the_pod(node: Node, record_property: Note, way: str) -> None:
    """Twice in a row: drained first, then new environment and subPath files; same UID and IP.

    The kubelet restarts a container that ended soon again after a back-off, 10 s at first; when
    all containers restart there is none.
    """
    target = ("--process", "command:/diary/") if way == "term" else ()
    node.set_version(way, "one")
    flags = ("--restart-on", "frozen", "--restart", way, *target, DRAIN)
    node.apply(injected(json.dumps(node.frozen(way)), "--", *flags))
    node.wrote(way, "started one one")
    life = node.life(way)
    node.announce(way, "1/-/one")
    node.knows(way, 1)
    for number, version in enumerate(("two", "three"), start=2):
        node.set_version(way, version)
        began = time.time()
        node.announce(way, f"{number}/-/{version}")
        took = node.wrote(way, f"started {version} {version}").at - began
        record_property(f"announcement → new environment, {way}", f"{took:.2f} s")
        node.knows(way, number)
    assert node.life(way) == life
    assert in_order(node, way) == [
        "started one one",
        *("drained one", "started two two"),
        *("drained two", "started three three"),
    ]


def test_rollout_replaces_the_pod(node: Node, record_property: Note) -> None:
    """What all of the above are held against: the same edit by a new pod."""
    node.set_version("rolled", "one")
    labels = {"app": "rolled"}
    spec = node.frozen("rolled")["spec"]
    node.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "rolled"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
    )
    node.wrote("rolled", "started one one")
    for version in ("two", "three"):
        node.set_version("rolled", version)
        began = time.time()
        node("rollout", "restart", "deployment/rolled")
        took = node.wrote("rolled", f"started {version} {version}").at - began
        record_property("patch → new environment, rollout", f"{took:.2f} s")
        node("rollout", "status", "deployment/rolled", f"--timeout={SECONDS:.0f}s")
        record_property("patch → old pod replaced", f"{time.time() - began:.2f} s")
