"""A local plane and a controller as processes, and hotmap as a person calls it there."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.warm_process import WarmProcess, run_warm
from tests.walkthroughs.local import Plane, running_plane

from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import CONFIGMAPS, DEPLOYMENTS


class Result(NamedTuple):
    status: int
    out: str
    err: str


class Stage(NamedTuple):
    """A plane, a controller that follows it, and the way to call hotmap."""

    plane: Plane
    url: str

    def hotmap(self, *arguments: str, named: bool = True, columns: str = "80") -> Result:
        """Run a command with COLUMNS, or without; `named` names the controller's address."""
        where = ["--url", self.url] if named else []
        env = {
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(self.plane.kubeconfig),
            **({"COLUMNS": columns} if columns else {}),
        }
        status, out, problems = run_warm(*arguments, *where, env=env)
        assert b"Traceback" not in problems
        return Result(status, out.decode(), problems.decode())

    async def create(self, kind: Any, **body: Any) -> None:
        async with Client(load_kubeconfig(str(self.plane.kubeconfig))) as client:
            await client.create(kind, "default", body, type=dict)

    async def edit(self, **data: str) -> None:
        async with Client(load_kubeconfig(str(self.plane.kubeconfig))) as client:
            await client.patch(CONFIGMAPS, "default", "app", {"data": data}, type=dict)

    async def deployment(self, name: str, **annotations: str) -> None:
        labels = {"app": name}
        reference = {"configMapKeyRef": {"name": "app", "key": "LEVEL"}}
        container = {
            "name": "main",
            "image": "host",
            "command": ["sleep", "3600"],
            "env": [{"name": "LEVEL", "valueFrom": reference}],
        }
        spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
        await self.create(
            DEPLOYMENTS,
            metadata={"name": name, "annotations": annotations},
            spec={
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        )


@contextmanager
def running_stage(directory: Path, *flags: str, authorization: str = "allow") -> Iterator[Stage]:
    """Run a plane with an authorization mode, and a controller with these flags."""
    log = directory / "controller.log"
    options = ("--authorization", authorization)
    with running_plane(directory / "plane", *options) as plane, log.open("w") as written:
        command = ["controller", "--kubeconfig", str(plane.kubeconfig), "--listen=127.0.0.1:0"]
        env = {"PATH": os.environ["PATH"]}
        controller = WarmProcess([*command, *flags], env=env, stdout=written, stderr=written)
        try:
            yield Stage(plane, f"http://127.0.0.1:{_port(controller, log)}")
        finally:
            controller.terminate()
            controller.join()


def _port(controller: WarmProcess, log: Path) -> str:
    while controller.returncode is None:
        if found := re.search(r"status on port (\d+)", log.read_text()):
            return found[1]
        time.sleep(0.02)
    raise AssertionError(log.read_text())
