"""What `hotmap inject` gives to a checker, and when it refuses one that could not run."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
import yaml
from tests.support.warm_process import run_warm

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      securityContext: {SECURITY}
      containers:
      - name: web
        image: web:1
        command: [serve]
        volumeMounts: [{name: config, mountPath: /etc/web}]
      volumes:
      - {name: config, configMap: {name: web}}
"""


def inject(*arguments: str, security: str = "{runAsUser: 0}") -> tuple[int, str, str]:
    text = WEB.replace("{SECURITY}", security).encode()
    status, out, problems = run_warm("inject", "-f", "-", *arguments, env=os.environ, stdin=text)
    return status, out.decode(), problems.decode()


def agent(text: str) -> dict[str, Any]:
    spec = yaml.safe_load(text)["spec"]["template"]["spec"]
    containers = [*spec["containers"], *spec["initContainers"]]
    (found,) = [container for container in containers if container["name"] == "hotmap-agent"]
    return dict(found)


@pytest.mark.parametrize("security", ["{runAsUser: 0}", "{}"])
def test_nginx_checker_gets_what_the_published_image_needs(security: str) -> None:
    """`nginx -t` writes, changes owners and binds ports; the root filesystem stays read-only."""
    status, text, _ = inject("--for", "nginx", "--image", "x-nginx:1", security=security)
    assert status == 0
    container = agent(text)
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {
        "drop": ["ALL"],
        "add": ["CHOWN", "NET_BIND_SERVICE"],
    }
    paths = {mount["mountPath"]: mount.get("subPath") for mount in container["volumeMounts"]}
    for path in ("/run", "/var/cache/nginx", "/var/lib/nginx", "/var/log/nginx"):
        assert paths[path] == f"checker{path.replace('/', '-')}"


def test_nginx_checker_without_root_gets_no_capability() -> None:
    """It keeps to the restricted profile; a capability would have no effect."""
    _, text, _ = inject("--for", "nginx", "--image", "x:1", security="{runAsUser: 101}")
    assert agent(text)["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("program", ["haproxy", "prometheus"])
def test_other_checkers_write_to_tmp_only(program: str) -> None:
    """`haproxy -c` and `promtool check` write nothing; /tmp is writable anyway."""
    status, text, _ = inject("--for", program, "--image", "x:1")
    assert status == 0
    container = agent(text)
    assert "add" not in container["securityContext"]["capabilities"]
    assert not [
        mount for mount in container["volumeMounts"] if "checker" in mount.get("subPath", "")
    ]


@pytest.mark.parametrize(
    ("arguments", "program"),
    [
        (("--for", "nginx"), "nginx"),
        (("--for", "nginx-conf.d"), "nginx"),
        (("--for", "haproxy"), "haproxy"),
        (("--for", "prometheus"), "promtool"),
        (("--for", "postgres"), "postgres"),
        (("--for", "gunicorn"), "gunicorn"),
        (("--for", "redis"), "redis-cli"),
        (("--", "--check", "/usr/sbin/nginx -t -c {dir}/x"), "nginx"),
        (("--", "--check", "python -m json.tool {dir}/x"), "python"),
        (("--", "--exec", "sh -c true"), "sh"),
        (("--mode", "init", "--for", "nginx"), "nginx"),
        (("--image", "example.com:5000/a/hotmap-agent:7", "--for", "nginx"), "nginx"),
        (("--image", f"hotmap-agent@sha256:{64 * 'a'}", "--for", "nginx"), "nginx"),
        (("--mode", "sidecar", "--for", "nginx"), "nginx"),
    ],
)
def test_program_that_the_image_lacks_is_refused(arguments: tuple[str, ...], program: str) -> None:
    """Otherwise each change would be refused at runtime, with another attempt forever."""
    status, text, words = inject(*arguments)
    assert (status, text) == (2, "")
    assert re.search(
        f"Deployment/web: the agent runs {program}, which the image \\S*hotmap-agent[@:]", words
    )
    assert "set --image to one that has both" in words
    assert "--mode supervisor" in words
    assert words.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("--", "--signal", "HUP", "--process", "name:serve"),
        ("--", "--check", "python3 -m json.tool {dir}/x"),
        ("--mode", "supervisor", "--for", "nginx"),
        ("--image", "hotmap-agent.example.com/hotmap-nginx:7", "--for", "nginx"),
    ],
)
def test_program_that_is_there_is_accepted(arguments: tuple[str, ...]) -> None:
    """Without a checker, with Python's, or in the application's own container."""
    assert inject(*arguments)[0] == 0
