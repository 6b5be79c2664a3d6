"""`hotmap release`, beside a plane and a controller that are processes of their own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest
from tests.cli.stage import Stage, running_stage

from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import CONFIGMAPS, DEPLOYMENTS

RELEASED = "deployment.apps/web released: rollouts until now no longer count\n"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Return a cluster whose controller holds the first return to earlier content."""
    with running_stage(tmp_path_factory.mktemp("release"), "--flap-limit=1") as stage:
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
