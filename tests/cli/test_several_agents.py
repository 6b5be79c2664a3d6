"""Two applications of one pod have an agent each."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from hotmap.cli.inject import Injection, inject
from hotmap.core.errors import ManifestError

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop  # two programs
spec:
  template:
    spec:
      securityContext: {runAsUser: 1000}
      containers:
      - name: web
        image: nginx:1.27
        volumeMounts:
        - {name: web, mountPath: /etc/web}
      - name: worker
        image: worker:1
        command: [worker]
        envFrom:
        - configMapRef: {name: worker}   # all of it
        volumeMounts:
        - {name: worker, mountPath: /etc/worker, subPath: conf.d}
      volumes:
      - {name: web, configMap: {name: web}}
      - name: worker
        configMap:
          name: worker
          items: [{key: a, path: conf.d/a}]
"""

WEB = Injection("hotmap:1", "web", ("--url", "http://127.0.0.1/-/reload"), stage=True)
WORKER = Injection("hotmap:1", "worker", (), "supervisor", stage=True)
SIDECAR = Injection(
    "hotmap:1", "worker", ("--signal", "HUP", "--process", "name:worker"), "sidecar", stage=True
)


def injected(text: str, *injections: Injection) -> str:
    for injection in injections:
        text, _ = inject(text, injection, "app.yaml")
    return text


def removed(text: str) -> str:
    return inject(text, None, "app.yaml")[0]


def template_of(text: str) -> dict[str, Any]:
    template: dict[str, Any] = yaml.safe_load(text)["spec"]["template"]
    return template


PAIRS = [(WEB, WORKER), (WORKER, WEB), (WEB, SIDECAR)]


def test_each_application_has_its_own_agent() -> None:
    """Own containers, volumes and ports; the annotation names both."""
    template = template_of(injected(MANIFEST, WEB, WORKER))
    spec = template["spec"]
    assert [each["name"] for each in spec["initContainers"]] == ["hotmap-agent", "hotmap-agent-2"]
    names = [each["name"] for each in spec["volumes"]]
    assert len(names) == len(set(names))
    assert {"hotmap-run", "hotmap-run-2", "hotmap-stage", "hotmap-stage-2", "hotmap-bin-2",
            "hotmap-env-2-0", "hotmap-source-2-0"} <= set(names)  # fmt: skip
    assert template["metadata"]["annotations"]["hotmap.dev/agent"] == (
        "port=9533;container=web;restart=none,port=9534;container=worker;restart=none;files=restart"
    )
    web, worker = spec["containers"]
    assert worker["command"][-2:] == ["--", "worker"]
    assert worker["command"][worker["command"].index("--listen") + 1] == ":9534"
    assert {each["name"] for each in worker["volumeMounts"]} == {
        "hotmap-stage-2", "hotmap-source-2-0", "hotmap-pod-2", "hotmap-run-2", "hotmap-bin-2",
        "hotmap-env-2-0",
    }  # fmt: skip
    assert [each["name"] for each in web["volumeMounts"]] == ["hotmap-stage"]


@pytest.mark.parametrize("pair", PAIRS)
def test_removal_restores_the_text(pair: tuple[Injection, Injection]) -> None:
    """Both agents go, whichever came first."""
    assert removed(injected(MANIFEST, *pair)) == MANIFEST


@pytest.mark.parametrize("pair", PAIRS)
def test_second_run_changes_nothing(pair: tuple[Injection, Injection]) -> None:
    """The agent of a container is replaced in its place, also below another one."""
    once = injected(MANIFEST, *pair)
    assert injected(once, pair[0]) == once
    assert injected(once, pair[1]) == once
    assert injected(once, *pair) == once


def test_other_flags_replace_the_agent_of_their_container_only() -> None:
    """As if it had been injected with them at first."""
    other = WEB._replace(flags=("--url", "http://127.0.0.1/other"))
    assert injected(MANIFEST, WEB, WORKER, other) == injected(MANIFEST, other, WORKER)


def test_compact_json_is_restored() -> None:
    """The record of the second agent contains that of the first."""
    text = json.dumps(yaml.safe_load(MANIFEST), separators=(",", ":"))
    once = injected(text, WEB, WORKER)
    assert injected(once, WEB) == once
    assert removed(once) == text


def test_container_has_to_be_named_where_there_are_several_agents() -> None:
    """It is not clear which one is to be replaced."""
    both = injected(MANIFEST, WEB, SIDECAR)
    with pytest.raises(ManifestError, match="has agents for the containers web, worker; choose"):
        injected(both, WEB._replace(container=""))


def test_port_of_another_agent_is_refused() -> None:
    """Where it was asked for; otherwise the next one is taken."""
    given = SIDECAR._replace(flags=(*SIDECAR.flags, "--listen", ":9533"))
    with pytest.raises(ManifestError, match="port 9533 is that of another agent in the pod"):
        injected(MANIFEST, WEB, given)


def test_reserved_names_of_users_are_refused() -> None:
    """A container that only looks like an agent."""
    text = MANIFEST.replace("name: worker\n        image", "name: hotmap-agent-2\n        image")
    with pytest.raises(ManifestError, match="already has hotmap-agent-2"):
        injected(text, WEB)


def test_record_of_another_version_is_refused() -> None:
    """It may have other fields; removing works nevertheless."""
    once = injected(MANIFEST, WEB, WORKER)
    older = once.replace(',"worker",[],"supervisor",true,false,null,false]', ',"worker",[]]')
    assert older != once
    with pytest.raises(ManifestError, match="another version of hotmap injected a later agent"):
        injected(older, WEB)
    assert removed(older) == MANIFEST
