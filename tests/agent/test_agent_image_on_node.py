"""`hotmap inject` with its default image, on a real node that enforces the restricted standard."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.agent.agents import eventually
from tests.agent.real_node import Pods, agent_status_command, own_namespace
from tests.cluster import images
from tests.cluster.cluster import Cluster
from tests.cluster.errors import TestBedError
from tests.support.injected import injected

from hotmap import __version__

pytestmark = pytest.mark.cluster

#: Answers with the content that it has read, which a POST lets it read again.
SERVER = """
import http.server, pathlib

class Handler(http.server.BaseHTTPRequestHandler):
    content = pathlib.Path("/conf/text").read_bytes()
    def do_GET(self):
        self.answer()
    def do_POST(self):
        Handler.content = pathlib.Path("/conf/text").read_bytes()
        self.answer()
    def answer(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.content)
    def log_message(self, *arguments):
        pass

http.server.HTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
"""
READ = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8080').read().decode())"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "app",
                "image": images.reference("python"),
                "command": ["python3", "-c", SERVER],
                "volumeMounts": [{"name": "conf", "mountPath": "/conf"}],
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
        "volumes": [{"name": "conf", "configMap": {"name": "web"}}],
    },
}


@pytest.fixture
def pods(real_cluster: Cluster) -> Iterator[Pods]:
    with own_namespace(real_cluster, "agent-image") as namespace:
        level = "pod-security.kubernetes.io/enforce=restricted"
        real_cluster.kubectl("label", "namespace", namespace, level)
        yield Pods(real_cluster, namespace)


def test_published_image_reloads_an_application(pods: Pods) -> None:
    """The edit reaches the process without a restart; the agent's container may write nothing."""
    pods.settings("web", text="one")
    pods.apply(injected(json.dumps(POD), "--", "--url", "http://127.0.0.1:8080/-/reload"))
    pods.ready("web")
    status = json.loads(pods("get", "pod", "web", "--output=json"))["status"]
    containers = {
        found["name"]: found
        for key in ("containerStatuses", "initContainerStatuses")
        for found in status.get(key, ())
    }
    assert containers["hotmap-agent"]["image"].endswith(f"/hotmap-agent:{__version__}")

    def served() -> str:
        return pods("exec", "web", "--container=app", "--", "python3", "-c", READ).strip()

    assert served() == "one"
    pods.settings("web", text="two")
    pods.announce("web", "1/two/-")
    eventually(lambda: served() == "two", "the application serves the edit")
    words = agent_status_command("hotmap", "agent")
    said = json.loads(pods("exec", "web", "--container=hotmap-agent", "--", *words))
    assert said["rules"][0]["loads"] >= 1
    after = json.loads(pods("get", "pod", "web", "--output=json"))["status"]
    assert [found["restartCount"] for found in after["containerStatuses"]] == [
        0 for _ in after["containerStatuses"]
    ]
    agent = ("exec", "web", "--container=hotmap-agent", "--")
    with pytest.raises(TestBedError, match=r"no such file|not found"):
        pods(*agent, "sh", "-c", "true")
    with pytest.raises(TestBedError, match="Read-only file system"):
        pods(*agent, "python3", "-c", "open('/written', 'w')")
