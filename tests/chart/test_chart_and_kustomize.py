"""The chart installs what the kustomizations install: one source, two ways."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from tests.chart.helm import CHART, ROOT, Objects, render_objects
from tools.generate_chart_rules import RULES, rendered_rules

MANIFESTS = ROOT / "deploy" / "manifests"
#: Labels that only a release of Helm has.
_HELM_LABELS = (
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
)


def kustomized(variant: str) -> Objects:
    text = (MANIFESTS / f"{variant}.yaml").read_text()
    documents = yaml.safe_load_all(text)
    return {(document["kind"], document["metadata"]["name"]): document for document in documents}


def comparable(objects: Objects, namespace: str) -> Objects:
    """Return objects without Helm's labels, and without what an empty namespace means."""
    found = copy.deepcopy(objects)
    for item in found.values():
        if item["metadata"].get("namespace") == namespace:
            del item["metadata"]["namespace"]
        for subject in item.get("subjects", ()):
            if subject.get("namespace") == namespace:
                del subject["namespace"]
        _without_helm_labels(item)
    deployment = found["Deployment", "hotmap"]["spec"]["template"]["spec"]["containers"][0]
    # Kubernetes' own default for an image that has a tag.
    assert deployment.pop("imagePullPolicy", "IfNotPresent") == "IfNotPresent"
    return found


def _without_helm_labels(value: Any) -> None:
    if isinstance(value, dict):
        for label in _HELM_LABELS:
            value.pop(label, None)
        for part in value.values():
            _without_helm_labels(part)
    elif isinstance(value, list):
        for part in value:
            _without_helm_labels(part)


def test_rules_are_those_of_the_kustomizations() -> None:
    """Who changes a role in deploy/ runs tools/generate_chart_rules.py."""
    assert {path.name: path.read_text() for path in RULES.iterdir()} == rendered_rules()


@pytest.mark.parametrize(
    ("variant", "values"),
    [
        ("base", []),
        ("ha", ["--set=enableHA=true"]),
        ("namespaced", ["--set=watchGlobally=false"]),
    ],
)
def test_chart_renders_what_kustomize_renders(variant: str, values: list[str]) -> None:
    """Object for object; the namespace is created by `helm install --create-namespace`."""
    expected = kustomized(variant)
    expected.pop(("Namespace", "hotmap"), None)
    assert comparable(render_objects(*values), "hotmap") == comparable(expected, "hotmap")


def test_chart_without_status_lacks_its_objects_and_port() -> None:
    """What deploy/base/status.yaml adds, and nothing else."""
    found = comparable(render_objects("--set=status.enabled=false"), "hotmap")
    expected = comparable(kustomized("base"), "hotmap")
    added = {
        (item["kind"], item["metadata"]["name"])
        for item in yaml.safe_load_all((ROOT / "deploy" / "base" / "status.yaml").read_text())
    }
    for key in (*added, ("Namespace", "hotmap")):
        del expected[key]
    (container,) = expected["Deployment", "hotmap"]["spec"]["template"]["spec"]["containers"]
    container["args"].remove("--status-listen=:9534")
    container["ports"] = [port for port in container["ports"] if port["name"] != "status"]
    del expected["NetworkPolicy", "hotmap"]["spec"]["ingress"][1]
    assert found == expected


def test_agents_policy_is_that_of_deploy() -> None:
    """One in each isolated namespace, which lets this release in."""
    found = render_objects("--set=agents.namespaces={shop}")
    policy = found["NetworkPolicy", "hotmap-agents"]
    assert policy["metadata"]["namespace"] == "shop"
    expected = yaml.safe_load((ROOT / "deploy" / "agents" / "networkpolicy.yaml").read_text())
    peer = policy["spec"]["ingress"][0]["from"][0]
    assert peer["podSelector"]["matchLabels"].pop("app.kubernetes.io/instance") == "hotmap"
    assert policy["spec"] == expected["spec"]


@pytest.mark.parametrize(
    ("component", "value"),
    [("jobs", "permissions.jobs"), ("evict", "permissions.evict")],
)
@pytest.mark.parametrize("scope", ["true", "false"])
def test_permission_adds_the_rules_of_its_component(component: str, value: str, scope: str) -> None:
    """At the end of the role of the release, and nothing else changes."""
    role = ("ClusterRole" if scope == "true" else "Role", "hotmap")
    plain = render_objects(f"--set=watchGlobally={scope}")
    found = render_objects(f"--set=watchGlobally={scope},{value}=true")
    added = yaml.safe_load((CHART / "files" / "rules" / f"{component}.yaml").read_text())
    plain[role]["rules"] += added
    assert found == plain


@pytest.mark.parametrize("scope", ["true", "false"])
def test_reloaders_defaults_add_what_its_component_adds(scope: str) -> None:
    """The rules of the meta-info ConfigMap and the variables that ask for it."""
    plain = render_objects(f"--set=watchGlobally={scope}")
    found = render_objects(f"--set=watchGlobally={scope},reloaderCompat=true")
    role = ("Role", "hotmap-own")
    added = yaml.safe_load((CHART / "files" / "rules" / "reloader.yaml").read_text())
    assert found[role]["rules"] == plain[role]["rules"] + added
    path = ROOT / "deploy" / "components" / "reloader" / "kustomization.yaml"
    _, deployment = yaml.safe_load(path.read_text())["patches"]
    operations = yaml.safe_load(deployment["patch"])
    (container,) = found["Deployment", "hotmap"]["spec"]["template"]["spec"]["containers"]
    assert container["env"][2:] == [operation["value"] for operation in operations]


@pytest.mark.parametrize("scope", ["true", "false"])
def test_csi_integration_adds_the_rule_of_its_component_and_its_flag(scope: str) -> None:
    """The permissions are on kinds that another product brings."""
    role = ("ClusterRole" if scope == "true" else "Role", "hotmap")
    plain = render_objects(f"--set=watchGlobally={scope}")
    found = render_objects(f"--set=watchGlobally={scope},enableCSIIntegration=true")
    plain[role]["rules"] += yaml.safe_load((CHART / "files" / "rules" / "csi.yaml").read_text())
    flag = "--enable-csi-integration=true"
    arguments = [
        objects["Deployment", "hotmap"]["spec"]["template"]["spec"]["containers"][0]["args"]
        for objects in (plain, found)
    ]
    assert set(arguments[1]) - set(arguments[0]) == {flag}
    arguments[1].remove(flag)
    assert found == plain


def test_namespaced_rollouts_add_the_rule_of_their_component() -> None:
    """An administrator of a namespace cannot always grant it, so it is not there by default."""
    role = ("Role", "hotmap")
    plain = render_objects("--set=watchGlobally=false")
    found = render_objects("--set=watchGlobally=false,isArgoRollouts=true")
    added = yaml.safe_load((CHART / "files" / "rules" / "argo-rollouts.yaml").read_text())
    assert found[role]["rules"] == plain[role]["rules"] + added
