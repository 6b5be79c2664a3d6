"""`hotmap inject`: the agent comes into a manifest and goes again, and nothing else moves."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import yaml

from hotmap.agent.settings.flags import parse_arguments
from hotmap.agent.settings.loader import load_settings
from hotmap.cli.inject import Injection, inject
from hotmap.core.errors import ManifestError

MANIFEST = """\
# The web tier.
apiVersion: v1
kind: ConfigMap
metadata: {name: web}   # keep me
data:
    odd:   "indent"
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web  # a name
spec:
  replicas: 2
  template:
    metadata:
      labels: {app: web}
    spec:
      securityContext:
        runAsUser: 1000
      containers:
      - name: nginx   # the server
        image: "nginx:1.27"
        volumeMounts:
        - {name: conf, mountPath: /etc/nginx}
        - name: conf
          mountPath: /one
          subPath: x
        - {name: tokens, mountPath: /tokens}
        - {name: cache, mountPath: /cache}
      # volumes come last
      volumes:
      - name: conf
        configMap:
          name: web
      - name: tokens
        projected:
          sources:
          - serviceAccountToken: {path: token}
      - name: cache
        emptyDir: {}
"""

NGINX = Injection("hotmap:1", "", ("--for", "nginx"))


def injected(text: str, injection: Injection = NGINX) -> str:
    return inject(text, injection, "app.yaml")[0]


def removed(text: str) -> str:
    return inject(text, None, "app.yaml")[0]


def pod(text: str) -> dict[str, Any]:
    """Return the pod template of the manifest's only workload."""
    documents = [item for item in yaml.safe_load_all(text) if item["kind"] != "ConfigMap"]
    template: dict[str, Any] = documents[0]["spec"]["template"]
    return template


def agent_of(text: str) -> dict[str, Any]:
    containers: list[dict[str, Any]] = pod(text)["spec"]["initContainers"]
    return containers[-1]


def test_injection_only_adds_lines() -> None:
    """Comments, quotes, order and other documents stay as they are, to the byte."""
    before, after = MANIFEST.splitlines(), injected(MANIFEST).splitlines()
    remaining = iter(after)
    assert all(line in remaining for line in before)


def test_injection_is_idempotent() -> None:
    """Injecting an injected manifest changes nothing."""
    assert injected(injected(MANIFEST)) == injected(MANIFEST)


def test_removal_restores_the_original() -> None:
    """Everything that was added is taken out, and only that."""
    assert removed(injected(MANIFEST)) == MANIFEST
    assert removed(MANIFEST) == MANIFEST


def test_removal_keeps_existing_fields() -> None:
    """shareProcessNamespace and annotations of their own are theirs."""
    own = MANIFEST.replace(
        "      securityContext:", "      shareProcessNamespace: true\n      securityContext:"
    )
    own = own.replace("      labels:", "      annotations: {a: b}\n      labels:")
    assert removed(injected(own)) == own


def test_injection_watches_live_mounts() -> None:
    """ConfigMaps and Secrets mounted as directories are; subPath, tokens and emptyDirs are not."""
    container = agent_of(injected(MANIFEST))
    settings = load_settings(parse_arguments(container["args"][1:]))
    assert settings.watch.directories == ("/etc/nginx",)
    assert settings.watch.target_file == "/hotmap/pod/annotations"
    paths = [mount["mountPath"] for mount in container["volumeMounts"]]
    of_nginx_check = ["/run", "/var/cache/nginx", "/var/lib/nginx", "/var/log/nginx"]
    assert paths == ["/etc/nginx", "/hotmap/pod", "/hotmap/run", "/tmp", *of_nginx_check]


def test_agent_container_is_restricted() -> None:
    """It fits Pod Security's restricted profile, as the user that the application runs as."""
    container = agent_of(injected(MANIFEST))
    assert container["restartPolicy"] == "Always"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        "runAsUser": 1000,
        "runAsNonRoot": True,
    }


def test_process_namespace_is_shared_only_for_signals() -> None:
    """A webhook needs no shared process namespace; a signal does."""
    assert pod(injected(MANIFEST))["spec"]["shareProcessNamespace"] is True
    webhook = Injection("hotmap:1", "", ("--url", "http://127.0.0.1:9090/-/reload"))
    assert "shareProcessNamespace" not in pod(injected(MANIFEST, webhook))["spec"]


def test_signal_without_run_as_user_is_noted() -> None:
    """Where the application does not say its user, a note does."""
    without = MANIFEST.replace("      securityContext:\n        runAsUser: 1000\n", "")
    (note,) = inject(without, NGINX, "app.yaml")[1]
    assert "Deployment/web: container nginx has no runAsUser" in note


def test_restart_all_containers_adds_the_rule() -> None:
    """The kubelet restarts the pod's containers when the agent ends with its own status."""
    flags = ("--restart-on", "frozen", "--restart", "all-containers")
    text = injected(MANIFEST, Injection("hotmap:1", "", flags))
    assert agent_of(text)["restartPolicyRules"] == [
        {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}
    ]
    annotations = pod(text)["metadata"]["annotations"]
    assert annotations["hotmap.dev/agent"] == "port=9533;container=nginx;restart=all-containers"


def test_injection_keeps_list_indentation() -> None:
    """A manifest whose lists are indented below their key stays so."""
    indented = """\
kind: Pod
metadata:
  name: web
spec:
  containers:
    - name: app
      volumeMounts:
        - name: conf
          mountPath: /conf
  volumes:
    - name: conf
      secret:
        secretName: web
"""
    assert removed(injected(indented)) == indented


@pytest.mark.parametrize(
    ("text", "injection", "words"),
    [
        ("kind: Service\n", NGINX, "no pod template found"),
        ("a: [\n", NGINX, "app.yaml: invalid YAML at line 2"),
        ("kind: Pod\nspec: {}\n", NGINX, "Pod: the pod template has no containers"),
        (MANIFEST, NGINX._replace(container="app"),
         "has no container app; its containers are nginx"),
        (MANIFEST.replace("{name: conf, mountPath: /etc/nginx}", "{name: cache, mountPath: /b}"),
         NGINX, "mounts no ConfigMap or Secret as a directory"),
    ],
    ids=["no pods", "no yaml", "no containers", "no such container", "nothing live"],
)  # fmt: skip
def test_invalid_injection_is_an_error(text: str, injection: Injection, words: str) -> None:
    """One sentence that names file, object or container."""
    with pytest.raises(ManifestError) as caught:
        injected(text, injection)
    assert words in str(caught.value)


def test_inject_command_writes_the_manifest(tmp_path: Any) -> None:
    """From a file or standard input to standard output; wrong agent flags are status 2."""
    command = [sys.executable, "-m", "hotmap", "inject", "--image", "hotmap:1", "-f"]
    done = subprocess.run(
        [*command, "-", "--for", "nginx"],
        input=MANIFEST,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == injected(MANIFEST)
    done = subprocess.run(
        [*command, "-", "--", "--settle", "soon"],
        input=MANIFEST,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert '--settle: invalid duration "soon"' in done.stderr
