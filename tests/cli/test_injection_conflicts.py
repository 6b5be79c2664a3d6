"""What in a pod conflicts with an agent: a note, or a refusal with the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from hotmap.cli.inject import Injection, inject
from hotmap.cli.injection.pod_conflicts import reject_uses_of_pid_1
from hotmap.core.errors import ManifestError

NGINX = Injection("hotmap:1", "app", ("--for", "nginx"))
WEBHOOK = Injection("hotmap:1", "app", ("--url", "http://127.0.0.1/-/reload"))


def deployment(container: dict[str, Any] | None = None, **spec: Any) -> str:
    mounts = [{"name": "conf", "mountPath": "/etc/nginx"}]
    app = {"name": "app", "image": "nginx", "volumeMounts": mounts, **(container or {})}
    pod = {
        "securityContext": {"runAsUser": 101},
        "containers": [app, *spec.pop("others", ())],
        "volumes": [{"name": "conf", "configMap": {"name": "web"}}],
        **spec,
    }
    workload = {
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": pod}},
    }
    return yaml.safe_dump(workload, sort_keys=False)


def notes(text: str, injection: Injection = NGINX) -> list[str]:
    return inject(text, injection, "f")[1]


def refusal(text: str, injection: Injection = NGINX) -> str:
    with pytest.raises(ManifestError) as caught:
        inject(text, injection, "f")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def executes(*command: str) -> dict[str, Any]:
    return {"exec": {"command": list(command)}}


@pytest.mark.parametrize(
    "command",
    [
        ("kill", "-QUIT", "1"), ("/bin/sh", "-c", "sleep 5; kill -s QUIT 1"), ("kill", "1"),
        ("sh", "-c", "kill -15 1 && sleep 1"), ("sh", "-c", "kill -- 1"), ("sh", "-c", "kill -1 1"),
    ],
)  # fmt: skip
def test_hook_that_signals_process_1_is_refused(command: tuple[str, ...]) -> None:
    """With shared processes it would end the pause container, that is, the pod."""
    text = deployment({"lifecycle": {"preStop": executes(*command)}})
    message = refusal(text)
    assert "the preStop hook of container app signals process 1" in message
    assert notes(text, WEBHOOK) == []
    assert notes(deployment({"lifecycle": {"preStop": executes(*command)}},
                            shareProcessNamespace=True)) == []  # fmt: skip


@pytest.mark.parametrize(
    "command",
    [("kill", "-1", "5"), ("kill", "-HUP", "11"), ("nginx", "-s", "quit"), ("sleep", "1")],
)
def test_hook_without_process_1_is_taken(command: tuple[str, ...]) -> None:
    """Other numbers, and the signal 1."""
    assert notes(deployment({"lifecycle": {"preStop": executes(*command)}})) == []


def test_probe_of_process_1_is_refused_in_any_container() -> None:
    """It would fail from now on, and its container be restarted."""
    probe = executes("sh", "-c", "grep -q nginx /proc/1/cmdline")
    other = {"name": "other", "image": "x", "livenessProbe": probe}
    message = refusal(deployment(others=[other]))
    assert "the livenessProbe of container other reads process 1" in message


def test_command_with_process_1_is_noted() -> None:
    """It may be a script that does it some time."""
    spec = {"containers": [{"name": "a", "command": ["sh", "-c", "while :; do kill -HUP 1; done"]}]}
    assert "the command of container a names process 1" in reject_uses_of_pid_1(spec, "x")[0]


def test_process_name_with_host_pid_is_refused() -> None:
    """The name may be another pod's; a pid file is not."""
    assert "name:nginx may match processes of other pods" in refusal(deployment(hostPID=True))
    flags = ("--signal", "HUP", "--process", "pidfile:/shared/app.pid")
    mounts = [
        {"name": "conf", "mountPath": "/etc/nginx"},
        {"name": "shared", "mountPath": "/shared"},
    ]
    text = deployment({"volumeMounts": mounts}, hostPID=True)
    assert notes(text, NGINX._replace(flags=flags)) == []


@pytest.mark.parametrize(
    "spec",
    [{"os": {"name": "windows"}}, {"nodeSelector": {"kubernetes.io/os": "windows"}}],
)
def test_windows_pod_is_refused(spec: dict[str, Any]) -> None:
    """The agent runs on Linux."""
    assert "runs on Windows nodes" in refusal(deployment(**spec))


def test_port_below_1024_is_noted_for_a_checker_that_binds_it() -> None:
    """nginx -t binds; the agent has no capability; a sysctl of the pod lowers the limit."""
    low = {"ports": [{"containerPort": 8080}, {"containerPort": 80}]}
    (note,) = notes(deployment(low))
    assert "container app listens on port 80, which nginx also binds to check content" in note
    assert notes(deployment({"ports": [{"containerPort": 8080}]})) == []
    assert notes(deployment(low), WEBHOOK) == []
    sysctls = [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]
    assert notes(deployment(low, securityContext={"runAsUser": 101, "sysctls": sysctls})) == []


@pytest.mark.parametrize(
    "image",
    ["ghcr.io/jimmidyson/configmap-reload:v0.15.0", "quay.io/x/prometheus-config-reloader:v0.93.0",
     "kiwigrid/k8s-sidecar:2.10.1"],
)  # fmt: skip
def test_other_reloader_is_noted(image: str) -> None:
    """Both would reload, whether it is a sidecar or a native one."""
    other = {"name": "reload", "image": image}
    native = {**other, "restartPolicy": "Always"}
    for text in (deployment(others=[other]), deployment(initContainers=[native])):
        (note,) = notes(text, WEBHOOK)
        assert f"container reload ({image}) reloads the application as well" in note
    assert notes(deployment(initContainers=[other]), WEBHOOK) == [], "it ends before"


def test_stage_and_memory_grow_with_the_sources_of_a_volume() -> None:
    """A projected volume of ten ConfigMaps needs room for ten, not for one."""
    sources = [{"configMap": {"name": f"c{number}"}} for number in range(10)]
    volume = {"name": "conf", "projected": {"sources": sources}}
    staged = WEBHOOK._replace(stage=True)
    text, _ = inject(deployment(volumes=[volume]), staged, "f")
    spec = yaml.safe_load(text)["spec"]["template"]["spec"]
    stage = next(item for item in spec["volumes"] if item["name"] == "hotmap-stage")
    assert stage["emptyDir"]["sizeLimit"] == "80Mi"
    assert spec["initContainers"][0]["resources"]["limits"]["memory"] == "74Mi"


def test_stop_signal_of_the_container_is_the_supervisors() -> None:
    """`lifecycle.stopSignal` (Kubernetes 1.33) ends the application in restarts, too."""
    container = {"command": ["nginx"], "lifecycle": {"stopSignal": "SIGQUIT"}}
    injection = Injection("hotmap:1", "app", (), "supervisor")
    text, _ = inject(deployment(container), injection, "f")
    command = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[command.index("--stop-signal") + 1] == "QUIT"
    container["lifecycle"] = {"stopSignal": "SIGKILL"}  # which nothing can forward
    assert "--stop-signal" not in inject(deployment(container), injection, "f")[0]
    container["lifecycle"] = {"stopSignal": "SIGQUIT"}
    given = injection._replace(flags=("--stop-signal", "INT"))
    assert '"QUIT"' not in json.dumps(yaml.safe_load(inject(deployment(container), given, "f")[0]))
