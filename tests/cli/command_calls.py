"""Calls of the command as a process of its own, as a person or a script makes them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from tests.support.warm_process import run_warm

#: The call itself is wrong; or it is right, and did not come out as it should.
WRONG, FAILED = 2, 1
TOKEN = "S3CRET"


def hotmap(*arguments: str, home: Path) -> tuple[int, str]:
    """Run the command to its end; return its status and the only line that it wrote."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    status, out, problems = run_warm(*arguments, env=env)
    text = problems.decode()
    assert out == b""
    assert text.count("\n") == 1, text
    assert TOKEN not in text
    return status, text.rstrip()


def kubeconfig(path: Path, *, user: dict[str, str] | None = None, **cluster: str) -> str:
    """Write a kubeconfig with a cluster of these fields; return its path."""
    content = {
        "current-context": "shop",
        "clusters": [{"name": "shop", "cluster": cluster}],
        "contexts": [{"name": "shop", "context": {"cluster": "shop", "user": "ann"}}],
        "users": [{"name": "ann", "user": user or {"token": TOKEN}}],
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


@contextmanager
def started(*arguments: str, home: Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run the command beside the test; it is gone at the end."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)} | options.pop("env", {})
    with subprocess.Popen(
        [sys.executable, "-m", "hotmap", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
