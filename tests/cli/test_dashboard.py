"""`hotmap dashboard` beside a plane and a controller: the map of real pods, and errors."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.cli.stage import Stage, running_stage

from hotmap.kube.resources import CONFIGMAPS


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with running_stage(tmp_path_factory.mktemp("dashboard")) as stage:
        asyncio.run(stage.create(CONFIGMAPS, metadata={"name": "app"}, data={"LEVEL": "info"}))
        yield stage


@contextmanager
def running_dashboard(kubeconfig: Path, *flags: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start the command; yields the URL that it prints."""
    command = [sys.executable, "-m", "hotmap", "dashboard", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(
        [*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


async def answer(url: str, query: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Ask as the page does, until the answer is as expected."""
    async with aiohttp.ClientSession() as http, asyncio.timeout(60):
        while True:
            async with http.get(f"{url}map?{query}") as response:
                body: dict[str, Any] = await response.json()
            if reached(body):
                return body
            await asyncio.sleep(0.2)


def state_of(body: dict[str, Any], name: str) -> str:
    rows = body["map"]["workloads"] if body["map"] else []
    return next((row["state"] for row in rows if row["name"] == name), "")


async def test_map_follows_an_edit(stage: Stage) -> None:
    """From the source to the pods, with the evidence and the decision."""
    await stage.deployment("web", **{"hotmap.dev/follow": "auto"})
    await stage.deployment("other")
    with running_dashboard(stage.plane.kubeconfig, "--url", stage.url) as (url, process):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{20,}/", url)
        body = await answer(url, "", lambda body: state_of(body, "deployment/web") == "current")
        (row,) = body["map"]["workloads"]
        assert row["sources"] == ["ConfigMap/default/app"]
        assert row["pods"] == {"count": 2, "behind": 0, "text": "2 pods"}
        assert body["map"]["sources"][0]["note"] == "1 of 1 current"
        assert body["scope"] == "namespace default"

        await stage.edit(LEVEL="debug")
        selected = "select=Deployment/default/web"
        body = await answer(
            url, selected, lambda body: body["panel"]["decisions"][0]["actions"] == "rollout"
        )
        assert body["panel"]["decisions"][0]["reason"].startswith("ConfigMap default/app LEVEL")
        body = await answer(url, selected, lambda body: body["panel"]["state"] == "current")
        assert [pod["state"] for pod in body["panel"]["pods"]] == ["current", "current"]
        assert body["panel"]["commands"][0] == (
            "hotmap status deployment/web -n default "
            f"--kubeconfig {stage.plane.kubeconfig} --url {stage.url}"
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == (
            "hotmap: dashboard of namespace default; press Ctrl-C to stop\n"
        )


async def test_absent_controller_is_reported_on_the_page(stage: Stage) -> None:
    """The command goes on, as the controller may come; other machines are warned of."""
    flags = ("--url", "http://127.0.0.1:1", "--address", "0.0.0.0", "-A")
    with running_dashboard(stage.plane.kubeconfig, *flags) as (url, process):
        url = url.replace("0.0.0.0", "127.0.0.1")
        body = await answer(url, "", lambda body: bool(body["problem"]))
        assert body["problem"].startswith("no controller answers at http://127.0.0.1:1")
        assert (body["map"], body["scope"]) == (None, "all namespaces")
        process.send_signal(signal.SIGHUP)
        assert process.wait(timeout=30) == 0
        assert process.stderr is not None
        assert "warning: other machines can connect" in process.stderr.read()


def test_unusable_settings_are_errors(stage: Stage, tmp_path: Path) -> None:
    """Before anything is served: exit status 2 and one sentence."""
    done = stage.hotmap("dashboard", "--kubeconfig", str(tmp_path / "nosuch"), named=False)
    assert (done.status, done.out) == (2, "")
    for address in ("192.0.2.1", "nosuch.invalid"):
        done = stage.hotmap("dashboard", "--address", address)
        assert (done.status, done.out) == (2, "")
        assert re.fullmatch(
            rf"hotmap: cannot listen on {re.escape(address)}:0: [a-z ]+; choose another address "
            r"with --address and --port\n",
            done.err,
        )
