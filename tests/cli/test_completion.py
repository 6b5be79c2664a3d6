"""What a shell is told to complete at the Tab key."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def complete(*words: str) -> list[str]:
    """Ask as bash does, with the cursor after the last word."""
    environment = {
        **os.environ,
        "_HOTMAP_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["hotmap", *words]),
        "COMP_CWORD": str(len(words)),
    }
    code = "import sys; sys.argv[0] = 'hotmap'; from hotmap.__main__ import main; main()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["inject", "-f", "ap"], ["file,ap"]),
        (["preview", "--filename", "ap"], ["file,ap"]),
        (["status", "--kubeconfig", "k"], ["file,k"]),
        (["local", "up", "--dir", "p"], ["dir,p"]),
        (["inject", "--mode", "s"], ["plain,sidecar", "plain,supervisor"]),
        (["st"], ["plain,stamp", "plain,status"]),
        (["status", "--sel"], ["plain,--selector"]),
    ],
)
def test_shell_completes_files_and_directories_itself(
    words: list[str], expected: list[str]
) -> None:
    """Where a flag takes one; hotmap completes commands, flags and choices."""
    assert complete(*words) == expected
