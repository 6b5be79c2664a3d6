"""The built wheel in an empty virtual environment: what works without the extra, and with it."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from tests.support.requires import requires
from tools.release.source_copy import copy_sources

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def run(*command: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command away from the sources, with nothing of this environment."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def build_wheel(folder: Path) -> Path:
    """Build the wheel of the present sources, in a copy of them."""
    sources = copy_sources(ROOT, folder / "sources")
    out = folder / "dist"
    done = run(sys.executable, "-m", "build", "--wheel", "--outdir", out, sources, check=False)
    reason = f"the build's own requirements cannot be installed: {done.stderr[-500:]}"
    requires("package-index", available=done.returncode == 0, reason=reason)
    (wheel,) = out.iterdir()
    return wheel


def install(programs: Path, what: str) -> None:
    constraints = f"--constraint={ROOT / 'constraints.txt'}"
    run(programs / "pip", "install", "--quiet", "--disable-pip-version-check", constraints, what)


def check_without_extra(programs: Path, folder: Path) -> None:
    """Every command starts; what needs the extra says which."""
    for words in (["--version"], ["controller", "--help"], ["agent", "--help"], ["status", "-h"]):
        run(programs / "hotmap", *words)
    run(programs / "kubectl-hotmap", "--version")
    page = "hotmap.dashboard.server; from importlib.resources import files"
    read = "print((files('hotmap.dashboard') / 'static' / 'page.html').read_text())"
    assert "<title>" in run(programs / "python", "-c", f"import {page}; {read}").stdout
    run(programs / "python", "-c", "import hotmap.controller.run, hotmap.kube.client")
    assert "cryptography" not in run(programs / "pip", "list", "--format=freeze").stdout
    run(programs / "hotmap", "agent", "copy", folder / "agent.pyz")
    run(programs / "python", folder / "agent.pyz", "--help")
    for words in (["demo"], ["local", "up"]):
        done = run(programs / "hotmap", *words, check=False)
        assert done.returncode == 2
        assert done.stdout == ""
        assert f"hotmap {' '.join(words)} needs the package cryptography" in done.stderr
        assert "pip install '.[local]'" in done.stderr


def test_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    """What controller and agent need first, then the demo with the extra."""
    wheel = build_wheel(tmp_path)
    venv.create(tmp_path / "environment", with_pip=True)
    programs = tmp_path / "environment" / "bin"
    install(programs, str(wheel))
    check_without_extra(programs, tmp_path)
    install(programs, f"{wheel}[local]")
    done = run(programs / "hotmap", "demo", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
