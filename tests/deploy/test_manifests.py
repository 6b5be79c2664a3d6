"""The rendered manifests are those of the kustomizations, and of this version."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster.cluster import Cluster

import hotmap

DEPLOY = Path(__file__).parents[2] / "deploy"
VARIANTS = ["base", "ha", "namespaced"]
#: Those that add rules to the role for everybody's objects.
COMPONENTS = sorted(
    path.name for path in (DEPLOY / "components").iterdir() if path.name != "reloader"
)


def objects(variant: str) -> dict[tuple[str, str], dict[str, Any]]:
    text = (DEPLOY / "manifests" / f"{variant}.yaml").read_text()
    return {(item["kind"], item["metadata"]["name"]): item for item in yaml.safe_load_all(text)}


@pytest.mark.cluster
@pytest.mark.parametrize("variant", VARIANTS)
def test_manifests_are_what_kubectl_builds_of_the_kustomization(
    real_cluster: Cluster, variant: str
) -> None:
    """Who changes one has to render the other (deploy/README.md)."""
    rendered = real_cluster.kubectl("kustomize", str(DEPLOY / variant))
    assert (DEPLOY / "manifests" / f"{variant}.yaml").read_text() == rendered


@pytest.mark.cluster
@pytest.mark.parametrize(("variant", "kind"), [("base", "ClusterRole"), ("namespaced", "Role")])
@pytest.mark.parametrize("component", COMPONENTS)
def test_component_adds_its_rules_to_role_and_to_nothing_else(
    real_cluster: Cluster, tmp_path: Path, variant: str, kind: str, component: str
) -> None:
    """Whichever installation it is put on; the controller's own Role stays as it is."""
    parts = os.path.relpath(DEPLOY, tmp_path)
    (tmp_path / "kustomization.yaml").write_text(
        f"resources: [{parts}/{variant}]\ncomponents: [{parts}/components/{component}]\n"
    )
    text = real_cluster.kubectl("kustomize", str(tmp_path))
    found = {(item["kind"], item["metadata"]["name"]): item for item in yaml.safe_load_all(text)}
    plain = objects(variant)
    rules = found[kind, "hotmap"].pop("rules")
    before = plain[kind, "hotmap"].pop("rules")
    assert rules[: len(before)] == before
    assert len(rules) > len(before)
    assert found == plain


@pytest.mark.cluster
@pytest.mark.parametrize("variant", VARIANTS)
def test_component_for_tools_of_reloader_changes_its_own_role_and_variables(
    real_cluster: Cluster, tmp_path: Path, variant: str
) -> None:
    """The meta-info ConfigMap is an object of the controller's own."""
    parts = os.path.relpath(DEPLOY, tmp_path)
    (tmp_path / "kustomization.yaml").write_text(
        f"resources: [{parts}/{variant}]\ncomponents: [{parts}/components/reloader]\n"
    )
    text = real_cluster.kubectl("kustomize", str(tmp_path))
    found = {(item["kind"], item["metadata"]["name"]): item for item in yaml.safe_load_all(text)}
    plain = objects(variant)
    rules = found["Role", "hotmap-own"].pop("rules")
    before = plain["Role", "hotmap-own"].pop("rules")
    assert rules[: len(before)] == before
    assert [rule["verbs"] for rule in rules[len(before) :]] == [["get", "update"], ["create"]]
    pods = [item["Deployment", "hotmap"]["spec"]["template"]["spec"] for item in (found, plain)]
    (variables, existing) = (pod["containers"][0].pop("env") for pod in pods)
    assert variables[: len(existing)] == existing
    assert [entry["name"] for entry in variables[len(existing) :]] == [
        "RELOADER_NAMESPACE",
        "RELOADER_DEPLOYMENT_NAME",
    ]
    assert found == plain


@pytest.mark.parametrize("variant", VARIANTS)
def test_image_is_of_this_version_and_of_no_registry(variant: str) -> None:
    """Which registry it comes from is said when it is installed."""
    pod = objects(variant)["Deployment", "hotmap"]["spec"]["template"]["spec"]
    assert [container["image"] for container in pod["containers"]] == [
        f"hotmap:{hotmap.__version__}"
    ]


@pytest.mark.parametrize("variant", ["base", "ha"])
def test_namespaced_objects_are_in_the_included_namespace(variant: str) -> None:
    """So that deleting the namespace, which uninstalling does, leaves nothing behind."""
    cluster_wide = {"Namespace", "ClusterRole", "ClusterRoleBinding"}
    for (kind, _), item in objects(variant).items():
        assert item["metadata"].get("namespace") == (None if kind in cluster_wide else "hotmap")


def test_namespaced_manifests_fit_any_namespace() -> None:
    """It names none, and has nothing that is not in a namespace."""
    found = objects("namespaced")
    assert not [item for item in found.values() if "namespace" in item["metadata"]]
    assert {kind for kind, _ in found} == {
        "Deployment",
        "NetworkPolicy",
        "Role",
        "RoleBinding",
        "ServiceAccount",
    }
    (container,) = found["Deployment", "hotmap"]["spec"]["template"]["spec"]["containers"]
    assert "--watch-namespace=$(POD_NAMESPACE)" in container["args"]


def test_ha_adds_replicas_a_spread_and_a_budget_and_nothing_else() -> None:
    """What one replica may do, two may not exceed."""
    base, ha = objects("base"), objects("ha")
    assert set(ha) - set(base) == {("PodDisruptionBudget", "hotmap")}
    spec = ha["Deployment", "hotmap"]["spec"]
    assert spec.pop("replicas") == 2
    spread = spec["template"]["spec"].pop("topologySpreadConstraints")
    assert [item["whenUnsatisfiable"] for item in spread] == ["ScheduleAnyway"] * 2
    assert base["Deployment", "hotmap"]["spec"].pop("replicas") == 1
    assert {name: ha[name] for name in base} == base
