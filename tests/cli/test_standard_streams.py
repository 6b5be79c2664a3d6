"""What a command does where a standard stream is full, closed, or has no reader."""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from tests.agent.agents import eventually

#: The call itself is wrong; or its output could not be written.
WRONG, FAILED = 2, 1

WORKLOAD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {containers: [{name: main, image: web}]}}}
"""

#: Command lines that print a text, by all ways in which hotmap does so.
PRINTING = (
    ("--help",),
    ("agent", "--help"),
    ("agent", "--help-verify"),
    ("configmap-reload", "--help"),
    ("stamp", "--filename", "-"),
)


def run_with_output(words: tuple[str, ...], output: Any, *, buffered: str, **streams: Any) -> Any:
    """Run hotmap with a standard output; Python reports errors of some only without a buffer."""
    return subprocess.run(
        [sys.executable, "-m", "hotmap", *words],
        stdout=output,
        input=WORKLOAD,
        text=True,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": buffered},
        **streams,
    )


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_full_disk_is_an_error(words: tuple[str, ...], buffered: str) -> None:
    """A full disk is said in a sentence; that a reader has seen enough is not a verdict: 141."""
    program = words[0] if words[0] == "configmap-reload" else "hotmap"
    program = "hotmap agent" if words[0] == "agent" else program
    expected = f"{program}: cannot write to standard output: no space left on device\n"
    with Path("/dev/full").open("w") as full:
        done = run_with_output(words, full, buffered=buffered, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (FAILED, expected)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as broken:
        done = run_with_output(words, broken, buffered=buffered, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_closed_output_is_an_error(words: tuple[str, ...]) -> None:
    """As of `hotmap agent --help >&-`."""
    closed = {"stderr": subprocess.PIPE, "preexec_fn": lambda: os.close(1)}
    done = run_with_output(words, None, buffered="", **closed)
    assert done.returncode == FAILED
    assert done.stderr.endswith(": cannot write to standard output: bad file descriptor\n")


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_disk_that_becomes_full_is_an_error(
    words: tuple[str, ...], buffered: str, tmp_path: Path
) -> None:
    """Where a part was written: half of the manifests must not be a success."""
    with (tmp_path / "output").open("w") as output:
        done = run_with_output(
            words, output, buffered=buffered, stderr=subprocess.PIPE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
        )  # fmt: skip
    assert (tmp_path / "output").stat().st_size == 100
    assert done.returncode == FAILED
    assert done.stderr.endswith("cannot write to standard output: file too large\n")


@pytest.mark.parametrize("words", [("stats",), ("inject", "-f", "nosuch"), ("agent", "--x"), ()])
def test_exit_status_does_not_depend_on_standard_error(words: tuple[str, ...]) -> None:
    """A mistyped command line is one, also where its message cannot be written."""
    with Path("/dev/full").open("w") as full:
        done = run_with_output(words, subprocess.PIPE, buffered="", stderr=full)
    assert (done.returncode, done.stdout) == (WRONG, "")


@pytest.mark.parametrize("words", [("agent", "--help"), ("status", "--help")], ids=" ".join)
def test_characters_that_the_locale_lacks_are_escaped(words: tuple[str, ...]) -> None:
    """The help of the agent has a "…", which is in neither ASCII nor Latin-1."""
    done = subprocess.run(
        [sys.executable, "-m", "hotmap", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: hotmap ")


def bytes_waiting(pipe: int) -> int:
    """Return the number of unread bytes in a pipe."""
    held = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
    return int.from_bytes(held, sys.byteorder)


def test_pipes_that_do_not_block_are_waited_for() -> None:
    """Node.js sets its children's pipes so: half of the manifests must not be taken for all."""
    half = WORKLOAD + "# " + "x" * 50_000 + "\n"
    input_reader, input_writer = os.pipe()
    output_reader, output_writer = os.pipe()
    os.set_blocking(input_reader, False)
    os.set_blocking(output_writer, False)
    with subprocess.Popen(
        [sys.executable, "-m", "hotmap", "stamp", "--filename", "-"],
        stdin=input_reader, stdout=output_writer, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        os.close(output_writer)
        os.write(input_writer, half.encode())
        eventually(lambda: bytes_waiting(input_writer) == 0)
        os.write(input_writer, b"---\n" + half.encode())
        os.close(input_writer)
        eventually(lambda: bytes_waiting(output_reader) > 60_000 or process.poll() is not None)
        with os.fdopen(output_reader) as output:
            assert output.read() == f"{half}---\n{half}"
        _, problems = process.communicate()
    os.close(input_reader)
    assert (process.returncode, problems) == (0, "")
