"""Draws the README's pictures of the dashboard: `python -m docs.dashboard_pictures docs`.

From a local plane with real pods, after an edit; needs Chromium, and the root of a checkout as the
working directory.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.cli.stage import Stage, running_stage
from tests.dashboard.browser import running_page

from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import CONFIGMAPS, DEPLOYMENTS, NAMESPACES, SECRETS, STATEFULSETS

_SIZE = (1240, 680)


def _workload(name: str, *sources: str, replicas: int = 1, **fields: Any) -> dict[str, Any]:
    """Make a workload that reads LEVEL of each source, written as KIND/NAME, when it starts."""
    variables = []
    for number, source in enumerate(sources):
        kind, _, of = source.partition("/")
        reference = {f"{kind}KeyRef": {"name": of, "key": "LEVEL"}}
        variables.append({"name": f"V{number}", "valueFrom": reference})
    container = {"name": "main", "image": "host", "command": ["sleep", "99999"], "env": variables}
    labels = {"app": name}
    return {
        "metadata": {"name": name, "annotations": {"hotmap.dev/follow": "auto"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
            },
            **fields,
        },
    }


async def _edit_and_draw(stage: Stage, target: Path) -> None:
    async with Client(load_kubeconfig(str(stage.plane.kubeconfig))) as client:

        async def create(kind: Any, body: dict[str, Any], namespace: str = "shop") -> None:
            await client.create(kind, namespace, body, type=dict)

        await create(NAMESPACES, {"metadata": {"name": "shop"}}, "")
        data = {"LEVEL": "info"}
        for name in ("app", "routes"):
            await create(CONFIGMAPS, {"metadata": {"name": name}, "data": data})
        await create(SECRETS, {"metadata": {"name": "db-login"}, "stringData": data})
        config, login = "configMap/app", "secret/db-login"
        await create(DEPLOYMENTS, _workload("web", config, replicas=3))
        await create(DEPLOYMENTS, _workload("checkout", config, login, replicas=2))
        await create(DEPLOYMENTS, _workload("reports", config, login, replicas=2))
        await create(DEPLOYMENTS, _workload("gateway", "configMap/routes", replicas=2))
        on_delete = {"type": "OnDelete"}
        await create(
            STATEFULSETS,
            _workload("db", login, serviceName="db", updateStrategy=on_delete),
        )
        _run(stage, "status", "-n", "shop", "--wait", "60s")
        paused = {"spec": {"paused": True}}
        await client.patch(DEPLOYMENTS, "shop", "reports", paused, type=dict)
        edit = {"data": {"LEVEL": "debug"}}
        await client.patch(CONFIGMAPS, "shop", "app", edit, type=dict)
        changed = {"stringData": {"LEVEL": "other"}}
        await client.patch(SECRETS, "shop", "db-login", changed, type=dict)
        for name in ("web", "checkout"):
            _run(stage, "status", name, "-n", "shop", "--wait", "60s")
    command = [sys.executable, "-m", "hotmap", "dashboard", "-n", "shop", "--url", stage.url]
    command += ["--kubeconfig", str(stage.plane.kubeconfig)]
    with subprocess.Popen(  # noqa: ASYNC220
        command, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            await _draw(process.stdout.readline().strip(), target)
        finally:
            process.send_signal(signal.SIGINT)


def _run(stage: Stage, *arguments: str) -> None:
    done = stage.hotmap(*arguments)
    if done.status != 0:
        raise SystemExit(f"{arguments}: {done}")


async def _draw(url: str, target: Path) -> None:
    selected = "?select=StatefulSet/shop/db"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        async with running_page(Path(folder)) as page:
            for theme in ("light", "dark"):
                await page.resize(*_SIZE, theme=theme)
                await page.open(url + selected)
                await page.wait("document.querySelector('#panel .verdict')")
                await page.wait("document.getElementById('live').innerText === 'updated now'")
                # Without the flags that lead to this plane.
                await page.run(
                    "for (const code of document.querySelectorAll('.command code'))"
                    " code.textContent = code.textContent.split(' --')[0]"
                )
                await page.picture(target / f"dashboard-{theme}.webp")


def main(target: Path) -> int:
    """Write both pictures."""
    with tempfile.TemporaryDirectory() as folder, running_stage(Path(folder)) as stage:
        asyncio.run(_edit_and_draw(stage, target))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
