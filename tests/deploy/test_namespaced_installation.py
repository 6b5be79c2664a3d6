"""deploy/namespaced on a real Kubernetes: no right outside of the namespace, no ClusterRole."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.cluster.cluster import Cluster
from tests.deploy.installation import Installation, installed, refusals
from tests.walkthroughs.backend import until
from tests.walkthroughs.cluster import ClusterBackend
from tests.walkthroughs.manifests import CONFIG, ENVIRONMENT
from tests.walkthroughs.steps import replaced, running_pod, variable

pytestmark = pytest.mark.cluster

FOLLOW = {"metadata": {"annotations": {"hotmap.dev/follow": "auto"}}}


@pytest.fixture(scope="module")
def namespaced(
    real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """Installed by a user who is `admin` of one namespace and nothing else."""
    namespace = f"team-{uuid.uuid4().hex[:8]}"
    real_cluster.kubectl("create", "namespace", namespace)
    try:
        real_cluster.kubectl(
            *("create", "rolebinding", "team", "--clusterrole=admin", "--user=team"),
            f"--namespace={namespace}",
        )
        kubeconfig = as_user(real_cluster, "team", tmp_path_factory.mktemp("team") / "kubeconfig")
        with installed(
            real_cluster,
            "namespaced.yaml",
            namespace=namespace,
            section="Install for one namespace",
            removal=1,
            kubeconfig=kubeconfig,
        ) as installation:
            yield installation
        left = ("get", "secrets,leases,roles,deployments,serviceaccounts", "--output=name")
        assert "hotmap" not in installation.kubectl(*left)
    finally:
        real_cluster.kubectl("delete", "namespace", namespace, "--wait=false")


def as_user(cluster: Cluster, user: str, path: Path) -> Path:
    """Write a kubeconfig that impersonates another user."""
    settings = yaml.safe_load(cluster.kubeconfig.read_text())
    for entry in settings["users"]:
        entry["user"]["as"] = user
    path.write_text(yaml.safe_dump(settings))
    return path


def test_namespaced_controller_has_no_cluster_role(namespaced: Installation) -> None:
    """Its ServiceAccount is bound to Roles of its namespace alone, and it is ready."""
    bindings = json.loads(
        namespaced.kubectl(
            *("get", "clusterrolebindings,rolebindings", "--all-namespaces", "--output=json")
        )
    )["items"]
    bound = {
        (binding["kind"], binding["metadata"]["namespace"], binding["roleRef"]["kind"])
        for binding in bindings
        for subject in binding.get("subjects", [])
        if (subject["kind"], subject["name"]) == ("ServiceAccount", "hotmap")
    }
    assert bound == {("RoleBinding", namespaced.namespace, "Role")}
    (ready,) = [json.loads(answer) for answer in namespaced.ask("readyz")]
    assert ready == {
        "ready": True,
        "role": "leader",
        "notSynced": [],
        "refused": {},
        "problems": [],
    }


async def test_edit_in_namespace_alone_is_delivered(namespaced: Installation) -> None:
    """The same edit in a namespace beside it rolls nothing, and nothing was asked there.

    Without the right to write Events the next edit is delivered as well, and the metrics show it.
    """
    inside = ClusterBackend(namespaced.cluster, namespaced.namespace)
    async with ClusterBackend(namespaced.cluster, f"{inside.namespace}-beside") as beside:
        for backend in (inside, beside):
            await backend.create(CONFIG + ENVIRONMENT)
            await backend.patch("Deployment", "my-nginx", FOLLOW)
        first = await running_pod(inside, "my-nginx")
        for backend in (beside, inside):
            await backend.patch("ConfigMap", "env-config", {"data": {"log_level": "DEBUG"}})
        second = await replaced(inside, "my-nginx", first)
        assert await variable(inside, second, "log_level") == "DEBUG"
        assert await beside.history("my-nginx") == [1]
    assert namespaced.restarts() == 0
    assert [refusals(metrics) for metrics in namespaced.ask("metrics")] == [[]]

    rules = (await inside.get("Role", "hotmap"))["rules"]
    others = [rule for rule in rules if rule["resources"] != ["events"]]
    assert len(others) == len(rules) - 1
    await inside.patch("Role", "hotmap", {"rules": others}, type="merge")
    await inside.patch("ConfigMap", "env-config", {"data": {"log_level": "TRACE"}})
    third = await replaced(inside, "my-nginx", second)
    assert await variable(inside, third, "log_level") == "TRACE"

    async def noticed() -> bool | None:
        return any(refusals(metrics) for metrics in namespaced.ask("metrics")) or None

    await until(noticed, "a 403 in the metrics")
