"""The guide to tests on the local control plane: its fixture and its script do what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.local.kubelet.conftest import eventually
from tests.walkthroughs.leftovers import adopting

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "local-tests.md"

USE = """
import asyncio, os, signal
from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import NAMESPACES

async def name_of_namespace(kubeconfig):
    async with Client(load_kubeconfig(kubeconfig)) as client:
        found = await client.get(NAMESPACES, None, "default", type=dict)
        return found["metadata"]["name"]

def test_control_plane_answers(kubeconfig):
    assert asyncio.run(name_of_namespace(kubeconfig)) == "default"
    {last}
"""


def block(language: str) -> str:
    """Read the first block of a language."""
    found = re.search(f"^```{language}\n(.*?)^```$", GUIDE.read_text(), re.M | re.S)
    assert found is not None
    return found[1]


def run_pytest(folder: Path, *, last: str) -> subprocess.CompletedProcess[str]:
    """Run tests that use the fixture of the guide; `last` is the last statement of the test."""
    (folder / "conftest.py").write_text(block("python"))
    (folder / "test_use.py").write_text(USE.replace("{last}", last))
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--basetemp", str(folder / "temp"), str(folder)],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a reader, with this hotmap as a command."""
    command = tmp_path / "hotmap"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m hotmap "$@"\n')
    command.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("last", "status"), [("", 0), ("assert False", 1), ("os.kill(os.getpid(), signal.SIGKILL)", -9)]
)
async def test_control_plane_of_tests_ends_with_them(folder: Path, last: str, status: int) -> None:
    """Whether they pass, fail or are killed."""
    with adopting() as orphans:
        ended = run_pytest(folder, last=last)
        assert ended.returncode == status, ended.stdout + ended.stderr
        await eventually(lambda: orphans() == [])
    assert not (folder / "temp" / "plane0" / "run.json").exists()


def test_script_waits_for_the_control_plane(folder: Path) -> None:
    """kubectl, which only stands in here, has the kubeconfig; nothing but kept files remains."""
    (folder / "kubectl").write_text('#!/bin/sh\ntest -r "$KUBECONFIG" && echo "$1"\n')
    (folder / "kubectl").chmod(0o755)
    ended = subprocess.run(
        ["sh", "-eu", "-c", block("sh")],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
        },
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "apply\nwait\n")
    assert {path.name for path in (folder / "plane").iterdir()} == {"logs", "pki", "store"}
