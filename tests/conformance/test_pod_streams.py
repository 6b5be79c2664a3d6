"""The real kubectl and the streams of pods: exec, attach, port-forward, cp and run, as it speaks
them today (WebSockets) and as older ones do (SPDY)."""

from __future__ import annotations

import re
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.conftest import Kubectl

MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: streams}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: server
    image: host
    command: [python3, -c, "import http.server as h, os;
      h.HTTPServer((os.environ['IP'], 18080), h.SimpleHTTPRequestHandler).serve_forever()"]
    workingDir: /srv/streams
    readinessProbe: {tcpSocket: {port: 18080}, periodSeconds: 1}
    env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
  - name: cat
    image: host
    stdin: true
    command: [sh, -c, while read line; do echo got $line; done]
"""


@pytest.fixture(scope="module", params=["websockets", "spdy"])
def environment(request: pytest.FixtureRequest) -> dict[str, str]:
    """What makes kubectl speak today's or the older protocol."""
    enabled = str(request.param == "websockets").lower()
    return {
        "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": enabled,
        "KUBECTL_PORT_FORWARD_WEBSOCKETS": enabled,
    }


@pytest.fixture(scope="module")
def pod(cluster: Kubectl) -> Iterator[Kubectl]:
    """A running pod with a web server and a container that reads."""
    Path(cluster.directory, "streams.yaml").write_text(MANIFEST)
    assert cluster.run("apply", "-f", "streams.yaml").status == 0
    assert cluster.run("wait", "--for=condition=Ready", "pod/streams", "--timeout=60s").status == 0
    yield cluster
    cluster.run("delete", "pod", "streams", "--wait=false")


def test_exec_passes_input_and_exit_code(pod: Kubectl, environment: dict[str, str]) -> None:
    """Input larger than any buffer arrives whole, and its end ends the command."""
    content = "".join(f"{i}\n" for i in range(100_000))
    counted = pod.run(
        "exec", "-i", "streams", "-c", "server", "--", "wc", "-c", input=content, env=environment
    )
    assert (counted.status, counted.output) == (0, f"{len(content)}\n")
    failed = pod.run(
        "exec", "streams", "-c", "server", "--", "sh", "-c", "echo out; exit 3", env=environment
    )
    assert failed.status == 3
    assert failed.output == "out\ncommand terminated with exit code 3\n"


def test_exec_of_missing_program_is_an_internal_error(
    pod: Kubectl, environment: dict[str, str]
) -> None:
    result = pod.run("exec", "streams", "-c", "server", "--", "nope", env=environment)
    assert result.status == 1
    assert re.fullmatch(
        r"error: Internal error occurred: error executing command in container: .*"
        r'exec: "nope": executable file not found in \$PATH\n',
        result.output,
    )


def test_attach_passes_input_and_output(pod: Kubectl, environment: dict[str, str]) -> None:
    """The container goes on when the client leaves."""
    command = ("attach", "-i", "streams", "-c", "cat")
    with pod.start(*command, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("one\n")
        process.stdin.flush()
        assert process.stdout.readline() == "got one\n"
    with pod.start(*command, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("two\n")
        process.stdin.flush()
        assert process.stdout.readline() == "got two\n"


def test_port_forward_reaches_pod(pod: Kubectl, environment: dict[str, str]) -> None:
    """Several connections, one after the other; a refused one is said."""
    command = ("port-forward", "pod/streams", ":18080", ":1")
    with pod.start(*command, env=environment, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        ports: list[str] = []
        while len(ports) < 2:
            match = re.match(r"Forwarding from 127\.0\.0\.1:(\d+)", process.stdout.readline())
            ports += [match[1]] if match else []
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{ports[0]}/", timeout=30) as answer:
                assert "Directory listing" in answer.read().decode()
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            urllib.request.urlopen(f"http://127.0.0.1:{ports[1]}/", timeout=30)
        text = ""
        while "connection refused" not in text:
            line = process.stdout.readline()
            assert line, text
            text += line
        assert "error forwarding port 1 to pod streams_default, uid " in text


def test_cp_copies_both_ways(pod: Kubectl, environment: dict[str, str]) -> None:
    content = bytes(range(256)) * 4_000
    Path(pod.directory, "there").write_bytes(content)
    assert pod.run("cp", "there", "streams:/tmp/file", "-c", "server", env=environment).status == 0
    assert pod.run("cp", "streams:/tmp/file", "back", "-c", "server", env=environment).status == 0
    assert Path(pod.directory, "back").read_bytes() == content


def test_run_attaches_to_new_pod(pod: Kubectl, environment: dict[str, str]) -> None:
    """Its input ends with kubectl's, its exit code is the container's, and it is removed."""
    script = "cat; echo end; exit 4"
    result = pod.run(
        "run", "-i", "--rm", "--image=host", "--restart=Never", "--quiet", "once",
        "--command", "--", "sh", "-c", script,
        input="typed\n", env=environment,
    )  # fmt: skip
    assert result.status == 4
    assert "typed\nend\n" in result.output
    assert "NotFound" in pod.run("get", "pod", "once").output


def test_connections_that_cannot_be_made_are_refused(
    pod: Kubectl, environment: dict[str, str]
) -> None:
    missing = pod.run("exec", "streams", "-c", "nope", "--", "true", env=environment)
    assert missing.status == 1
    assert "container nope is not valid for pod streams" in missing.output or (
        "container not found" in missing.output
    )
    gone = pod.run("port-forward", "pod/gone", "1:1", env=environment)
    assert gone.status == 1
    assert 'pods "gone" not found' in gone.output
