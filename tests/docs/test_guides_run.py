"""A guide's commands do what it says, as they stand there: by kubectl, on the local plane."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.agents import eventually, free_port
from tests.cluster.build import Programs
from tests.support.requires import requires
from tests.walkthroughs.local import Plane, running_plane

pytestmark = pytest.mark.cluster  # for its kubectl

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "reload-in-the-pod.md"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with running_plane(tmp_path_factory.mktemp("guide") / "plane") as plane:
        yield plane


def blocks(language: str) -> list[str]:
    """Read the guide's blocks of a language."""
    return re.findall(f"^```{language}\n(.*?)^```$", GUIDE.read_text(), re.M | re.S)


def test_nginx_is_reloaded_in_its_pod(plane: Plane, tmp_path: Path) -> None:
    """The edit is served, the broken one is refused and said to be."""
    kubectl = Programs().path("kubectl")
    requires("cluster", available=kubectl.exists(), reason="kubectl is not built")
    port = free_port()
    environment = {
        "PATH": f"{kubectl.parent}:{os.environ['PATH']}",
        "KUBECONFIG": str(plane.kubeconfig),
        "KUBECACHEDIR": str(tmp_path / "kubectl"),
    }
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "web.yaml").write_text(blocks("yaml")[0].replace("8080", str(port)))

    def run(commands: str) -> str:
        return subprocess.run(
            ["sh", "-eu", "-c", commands.replace("8080", str(port))],
            env=environment,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    up, controller, install, edit, breakage = blocks("sh")
    assert up == ".venv/bin/hotmap local up\n"
    with subprocess.Popen(
        [*controller.split(), "--listen=none"],
        env=environment,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            assert any("ready" in line for line in process.stderr)
            run(install)
            # A person takes longer than this to type the next command.
            assert any("is new to hotmap" in line for line in process.stderr)
            act, _, look = edit.partition("sleep 1\n")
            assert run(act) == "configmap/web patched\n"
            eventually(lambda: re.match(r"two(.*\n)+web-\S+ +2/2 +Running +0 ", run(look)))
            act, _, look = breakage.partition("sleep 1\n")
            assert run(act) == "configmap/web patched\n"
            eventually(lambda: re.match(r"rejected: (.*\n)+exit status 1\n", run(look)))
        finally:
            process.terminate()
