"""Installs the Python clients, once per list of versions.

They get a virtual environment of their own in the cache folder, since nothing of hotmap needs them:
`python -m tests.conformance.clients.install`.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cluster import machine

REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def environment() -> Path:
    """Return where the environment is, or will be once installed."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    return machine.cache_folder() / "python-clients" / digest


def python() -> Path:
    """Return the Python of the environment."""
    return environment() / "bin" / "python"


def is_installed() -> bool:
    """Return whether the environment is complete."""
    return (environment() / "installed").exists()


def install() -> None:
    """Make the environment unless it is there."""
    if is_installed():
        return
    folder = environment()
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [str(python()), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--requirement", str(REQUIREMENTS)], check=True)
    (folder / "installed").touch()


if __name__ == "__main__":
    install()
