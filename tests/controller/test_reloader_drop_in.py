"""The command with Reloader's flags, as a process beside a cluster that Reloader has worked on."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.processes import child_environment
from tests.support.warm_process import WarmProcess
from tests.walkthroughs.local import running_plane

from hotmap.core.errors import Conflict
from hotmap.core.reloader.patch import digest_of
from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import CONFIGMAPS, CRONJOBS, DEPLOYMENTS, JOBS, NAMESPACES

pytestmark = pytest.mark.real_time

Object = dict[str, Any]

DEADLINE = 60.0
VARIABLE = "STAKATER_APP_CONFIGMAP"


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with running_plane(tmp_path_factory.mktemp("drop-in") / "plane") as plane:
        yield plane.kubeconfig


@pytest.fixture
async def client(kubeconfig: Path) -> AsyncIterator[Client]:
    async with Client(load_kubeconfig(str(kubeconfig))) as client:
        yield client


@contextlib.contextmanager
def controller(kubeconfig: Path, log: Path, *flags: str, **environment: str) -> Iterator[None]:
    """Run the command while a block lasts."""
    env = child_environment(KUBECONFIG=str(kubeconfig), **environment)
    with log.open("w") as written:
        process = WarmProcess(["controller", *flags], env=env, stdout=written, stderr=written)
        try:
            yield
        finally:
            process.terminate()
            assert process.join() == 0, log.read_text()


async def wait_for_log_line(log: Path, pattern: str) -> re.Match[str]:
    """Wait until a log line matches."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        if match := re.search(pattern, log.read_text()):
            return match
        await asyncio.sleep(0.02)
    raise AssertionError(f"no line has {pattern!r}: {log.read_text()}")


async def deployment(client: Client, namespace: str, variable: str) -> Object:
    """Create a Deployment that Reloader marked."""
    env = [
        {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "app", "key": "LEVEL"}}},
        {"name": VARIABLE, "value": variable},
    ]
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "annotations": {"reloader.stakater.com/auto": "true"}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "app:1", "env": env}]},
            },
        },
    }
    return await client.create(DEPLOYMENTS, namespace, body, type=Object)


async def variable(client: Client, namespace: str) -> str:
    found = await client.get(DEPLOYMENTS, namespace, "web", type=Object)
    env = found["spec"]["template"]["spec"]["containers"][0]["env"]
    return next(str(entry["value"]) for entry in env if entry["name"] == VARIABLE)


@pytest.mark.parametrize("given_by", ["flag", "environment"])
async def test_reloader_flags_replace_reloader(
    kubeconfig: Path, client: Client, tmp_path: Path, given_by: str
) -> None:
    """Reloader's arguments as they are, quotes included: its variable, its probe, its scope."""
    namespace = f"shop-{given_by}"
    for name in ("hotmap", namespace):
        with contextlib.suppress(Conflict):
            await client.create(NAMESPACES, None, {"metadata": {"name": name}}, type=Object)
    source = {"metadata": {"name": "app"}, "data": {"LEVEL": "info"}}
    await client.create(CONFIGMAPS, namespace, source, type=Object)
    before = await deployment(client, namespace, digest_of([(b"LEVEL", b"info")]))
    scope = {"KUBERNETES_NAMESPACE": namespace} if given_by == "environment" else {}
    flags = [f'--namespaces="{namespace}"'] if given_by == "flag" else []
    log = tmp_path / "log"
    with controller(
        kubeconfig,
        log,
        "--reloader-compat",
        '--is-Argo-Rollouts="false"',
        "--auto-reload-all=false",
        "--enable-pprof",
        '--log-format=""',
        "--listen=127.0.0.1:0",
        "--settle=50ms",
        *flags,
        **scope,
    ):
        port = (await wait_for_log_line(log, r"ready; .* on port (\d+)"))[1]
        assert log.read_text().count("--enable-pprof") == 1
        async with aiohttp.ClientSession() as session:
            for path, text in (("live", "alive"), ("metrics", "hotmap_")):
                async with session.get(f"http://127.0.0.1:{port}/{path}") as answer:
                    assert answer.status == 200
                    assert text in await answer.text()
        assert await variable(client, namespace) == digest_of([(b"LEVEL", b"info")])
        edit = {"data": {"LEVEL": "debug"}}
        await client.patch(CONFIGMAPS, namespace, "app", edit, type=Object)
        deadline = time.monotonic() + DEADLINE
        wanted = digest_of([(b"LEVEL", b"debug")])
        while await variable(client, namespace) != wanted:
            assert time.monotonic() < deadline, log.read_text()
            await asyncio.sleep(0.02)
    after = await client.get(DEPLOYMENTS, namespace, "web", type=Object)
    assert "annotations" not in after["spec"]["template"]["metadata"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def batch(client: Client, namespace: str) -> str:
    """Create a CronJob, a suspended one and a Job that say auto; returns the Job's uid."""
    level = {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "app", "key": "LEVEL"}}}
    containers = [{"name": "main", "image": "app:1", "env": [level]}]
    template = {"spec": {"containers": containers, "restartPolicy": "Never"}}
    wait_for_log_line = {"annotations": {"reloader.stakater.com/auto": "true"}}
    for name, suspend in (("report", False), ("asleep", True)):
        again = {"schedule": "@yearly", "suspend": suspend}
        spec = {**again, "jobTemplate": {"spec": {"template": template}}}
        body = {"metadata": {"name": name, **wait_for_log_line}, "spec": spec}
        await client.create(CRONJOBS, namespace, body, type=Object)
    body = {"metadata": {"name": "load", **wait_for_log_line}, "spec": {"template": template}}
    made = await client.create(JOBS, namespace, body, type=Object)
    uid: str = made["metadata"]["uid"]
    return uid


@pytest.mark.parametrize(
    ("flags", "runs", "recreates"),
    [
        pytest.param(["--reload-strategy=env-vars"], False, False, id="without compat"),
        pytest.param(["--reloader-compat"], True, True, id="compat"),
        pytest.param(
            ["--reloader-compat", "--ignored-workload-types=jobs"], True, False, id="no Jobs"
        ),
        pytest.param(
            ["--reloader-compat", "--ignored-workload-types=cronjobs"],
            False,
            True,
            id="no CronJobs",
        ),
    ],
)
async def test_jobs_and_cron_jobs_follow_flags(
    kubeconfig: Path,
    client: Client,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    flags: list[str],
    runs: bool,
    recreates: bool,
) -> None:
    """Nothing is started without --reloader-compat; and with it, nothing that is suspended."""
    namespace = f"batch-{request.node.callspec.id.lower().replace(' ', '-')}"
    for name in ("hotmap", namespace):
        with contextlib.suppress(Conflict):
            await client.create(NAMESPACES, None, {"metadata": {"name": name}}, type=Object)
    source = {"metadata": {"name": "app"}, "data": {"LEVEL": "info"}}
    await client.create(CONFIGMAPS, namespace, source, type=Object)
    await deployment(client, namespace, digest_of([(b"LEVEL", b"info")]))
    before = await batch(client, namespace)
    own = ("--listen=127.0.0.1:0", "--settle=50ms", f"--namespaces={namespace}")

    async def jobs() -> dict[str, Object]:
        page = await client.list_page(JOBS, namespace, type=Object)
        return {item["metadata"]["name"]: item for item in page.items}

    async def as_wanted() -> bool:
        found = await jobs()
        load = found.pop("load", None)
        renewed = load is not None and load["metadata"]["uid"] != before
        return (bool(found), renewed) == (runs, recreates)

    log = tmp_path / "log"
    with controller(kubeconfig, log, *flags, *own):
        await wait_for_log_line(log, r"ready; ")
        edit = {"data": {"LEVEL": "debug"}}
        await client.patch(CONFIGMAPS, namespace, "app", edit, type=Object)
        deadline = time.monotonic() + DEADLINE
        wanted = digest_of([(b"LEVEL", b"debug")])
        while not (await variable(client, namespace) == wanted and await as_wanted()):
            assert time.monotonic() < deadline, log.read_text()
            await asyncio.sleep(0.02)
    assert await as_wanted()
    found = await jobs()
    assert found.pop("load")["metadata"]["name"] == "load"
    assert [name.startswith("report-") for name in found] == [True] * runs
