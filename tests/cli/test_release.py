"""`hotmap release`, beside a plane and a controller that are processes of their own."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.stage import Stage, running_stage

from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import CONFIGMAPS, DEPLOYMENTS

RELEASED = "deployment.apps/web released: rollouts until now no longer count\n"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Return a cluster whose controller holds the first return to earlier content."""
    directory = tmp_path_factory.mktemp("release")
    with running_stage(directory, "--flap-limit=1", authorization="rbac") as stage:
        asyncio.run(stage.create(CONFIGMAPS, metadata={"name": "app"}, data={"LEVEL": "info"}))
        asyncio.run(stage.deployment("web", **{"hotmap.dev/follow": "auto"}))
        yield stage


async def test_release_rolls_out_what_is_held(stage: Stage) -> None:
    """Without it the workload would stay on old content for ten minutes."""
    assert stage.hotmap("status", "web", "--wait=60s").status == 0
    await stage.edit(LEVEL="debug")
    await asyncio.sleep(1)
    assert stage.hotmap("status", "web", "--wait=60s").status == 0
    await stage.edit(LEVEL="info")
    await asyncio.sleep(2)
    held = stage.hotmap("status", "web")
    assert held.status == 1
    assert re.search(r"rollout\s+suppressed\s+since", held.out)
    assert "hotmap release deployment/web -n default" in " ".join(held.out.split())

    done = stage.hotmap("release", "deploy/web", named=False)
    assert done == (0, RELEASED, "")
    after = stage.hotmap("status", "web", "--wait=60s")
    assert after.status == 0, after
    async with Client(load_kubeconfig(str(stage.plane.kubeconfig))) as client:
        web = await client.get(DEPLOYMENTS, "default", "web", type=dict)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",
        web["metadata"]["annotations"]["hotmap.dev/release"],
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nosuch", '"nosuch": there is no workload default/nosuch'),
        ("sts/web", '"sts/web": there is no StatefulSet default/web'),
        ("a/b/c/d", 'invalid workload name "a/b/c/d"'),
    ],
)
def test_release_of_unknown_workload_is_an_error(stage: Stage, name: str, words: str) -> None:
    """One sentence, exit status 2."""
    done = stage.hotmap("release", name, named=False)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"hotmap: {words}")
    assert done.err.count("\n") == 1


def test_release_finds_a_workload_without_its_kind(stage: Stage) -> None:
    """As status does."""
    assert stage.hotmap("release", "web", named=False).out == RELEASED


async def kubeconfig_of(stage: Stage, name: str, *rules: dict[str, list[str]]) -> str:
    """Create a ServiceAccount with a Role; returns its kubeconfig."""
    group = "rbac.authorization.k8s.io"
    metadata = {"metadata": {"name": name}}
    account = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    role = {"apiGroup": group, "kind": "Role", "name": name}
    core, rbac = "/api/v1/namespaces/default", f"/apis/{group}/v1/namespaces/default"
    answer = b""
    async with Client(load_kubeconfig(str(stage.plane.kubeconfig))) as client:
        for path, body in (
            (f"{core}/serviceaccounts", metadata),
            (f"{rbac}/roles", {**metadata, "rules": rules}),
            (f"{rbac}/rolebindings", {**metadata, "roleRef": role, "subjects": [account]}),
            (f"{core}/serviceaccounts/{name}/token", {"spec": {}}),
        ):
            answer = await client.request("POST", path, body=json.dumps(body).encode())
    text = stage.plane.kubeconfig.read_text()
    return re.sub("token: .*", f"token: {json.loads(answer)['status']['token']}", text)


async def test_kinds_that_a_user_may_not_read_do_not_prevent_a_release(
    stage: Stage, tmp_path: Path
) -> None:
    """Such as Argo Rollouts, which the roles of Kubernetes do not include."""
    rule = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "patch"]}
    kubeconfig = tmp_path / "developer"
    kubeconfig.write_text(await kubeconfig_of(stage, "developer", rule))
    call = ("release", "--kubeconfig", str(kubeconfig))
    assert stage.hotmap(*call, "web", named=False) == (0, RELEASED, "")
    assert stage.hotmap(*call, "nosuch", named=False) == (
        2,
        "",
        'hotmap: "nosuch": there is no workload default/nosuch among the kinds that you may read: '
        "Deployment, Rollout\n",
    )

    done = stage.hotmap(*call, "sts/web", named=False)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith('hotmap: statefulsets.apps "web" is forbidden: User ')
