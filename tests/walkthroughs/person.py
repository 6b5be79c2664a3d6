"""A user at a terminal with next to nothing: an empty home and a minimal environment."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from tests.support.requires import requires

import hotmap

__all__ = ["Person", "nobody", "yourself"]

_NOBODY = 65534
#: The interpreter of a virtual environment may lie that other users may not read.
_PYTHON_OF_ALL = "/usr/bin/python3"


class Person:
    """A user who may write to a directory of their own and nowhere else."""

    def __init__(
        self, directory: Path, python: str, environment: dict[str, str], **identity: Any
    ) -> None:
        self.directory = directory
        self._command = [python, "-B", "-m", "hotmap"]
        self._identity = identity
        for name in ("home", "tmp"):
            (directory / name).mkdir()
            if identity:
                os.chown(directory / name, identity["user"], identity["group"])
        self._environment = environment | {
            "PATH": os.defpath,
            "HOME": str(directory / "home"),
            "TMPDIR": str(directory / "tmp"),
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the hotmap command."""
        return subprocess.Popen(
            [*self._command, *arguments],
            env=self._environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **self._identity,
        )

    def files(self) -> list[Path]:
        """List what lies in the person's directories."""
        return [path for name in ("home", "tmp") for path in (self.directory / name).rglob("*")]


def yourself(directory: Path) -> Person:
    """Return the user who runs the tests."""
    return Person(directory, sys.executable, {})


def nobody(directory: Path) -> Person:
    """Return a user without rights, also where the tests run as root."""
    if os.geteuid() != 0:
        return yourself(directory)
    identity: dict[str, Any] = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
    places = (str(Path(hotmap.__file__).parents[1]), sysconfig.get_path("purelib"))
    environment = {"PYTHONPATH": os.pathsep.join(places)}
    # Compiled modules of the tests' environment are of its Python, which may be another version.
    tried = subprocess.run(
        [_PYTHON_OF_ALL, "-B", "-c", "import hotmap.cli.demo.cluster"],
        check=False,
        env=environment,
        cwd="/",
        capture_output=True,
        **identity,
    )
    problem = tried.stderr.decode()
    requires("python-for-nobody", available=tried.returncode == 0, reason=problem)
    return Person(directory, _PYTHON_OF_ALL, environment, **identity)
