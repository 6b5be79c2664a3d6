"""The agent as one file, in an image with nothing but Python."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.agent.agents import Volume

from hotmap import __version__
from hotmap.agent.build import build


def test_zipapp_runs_without_the_package(tmp_path: Path) -> None:
    """Isolated from all installed packages it checks, publishes and ends."""
    program, volume = tmp_path / "agent.pyz", Volume(tmp_path / "volume", text="good")
    build(str(program))
    flags = ("--dir", volume.path, "--stage", tmp_path / "stage", "--once", "--listen", "none")
    done = subprocess.run(
        [sys.executable, "-I", "-S", program, *flags, "--check", "grep -q good {dir}/text"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "stage" / "text").read_text() == "good"


def test_zipapp_is_reproducible(tmp_path: Path) -> None:
    """The file depends on the sources and the Python alone, so it can be pinned by its digest."""
    build(str(tmp_path / "here"))
    for seed in ("0", "1"):
        subprocess.run(
            [sys.executable, "-m", "hotmap.agent.build", tmp_path / seed],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
        )
    assert len({(tmp_path / name).read_bytes() for name in ("here", "0", "1")}) == 1
    assert (tmp_path / "here").stat().st_mode & 0o777 == 0o755


def test_zipapp_uses_compiled_modules_of_its_own_python_only(
    tmp_path: Path,
) -> None:
    """A Python of another version rejects the compiled modules and compiles the sources itself."""
    fits, strange = tmp_path / "fits.pyz", tmp_path / "strange.pyz"
    build(str(fits))
    with zipfile.ZipFile(fits) as archive, zipfile.ZipFile(strange, "w") as other:
        for name in archive.namelist():
            data = archive.read(name)
            other.writestr(name, b"\xff\xff\r\n" + data[4:] if name.endswith(".pyc") else data)
    check = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from hotmap.agent import agent, main\n"
        "print(agent.__spec__.loader.get_filename(agent.__name__),"
        " agent.Agent.run.__code__.co_filename)"
    )
    shown = {}
    for program in (fits, strange):
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", check, program],
            capture_output=True,
            text=True,
            check=True,
        )
        shown[program] = done.stdout.split()
        done = subprocess.run(
            [sys.executable, "-I", "-S", program, "--version"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert __version__ in done.stdout
    # Code that was compiled when the file was built has the name it was compiled under.
    assert shown[fits] == [f"{fits}/hotmap/agent/agent.pyc", "hotmap/agent/agent.py"]
    assert shown[strange] == [f"{strange}/hotmap/agent/agent.py"] * 2


def test_zipapp_may_be_named_hotmap(tmp_path: Path) -> None:
    """As the entry point of an image, which gets what `hotmap inject` writes: agent and flags."""
    program = tmp_path / "hotmap"
    build(str(program))
    for words in (["agent", "--version"], ["--version"]):
        done = subprocess.run([program, *words], capture_output=True, text=True, check=True)
        assert __version__ in done.stdout


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, check=False
    )


def test_copy_writes_the_zipapp(tmp_path: Path) -> None:
    """`agent copy FILE` writes it from the package, and the copy copies itself."""
    first, second = tmp_path / "first.pyz", tmp_path / "second.pyz"
    assert run("-m", "hotmap", "agent", "copy", first).returncode == 0
    assert run("-I", "-S", first, "copy", second).returncode == 0
    assert first.read_bytes() == second.read_bytes()
    assert second.stat().st_mode & 0o777 == 0o755
    assert "hotmap agent" in run("-I", "-S", second, "--version").stdout


def test_copy_reports_an_unwritable_path(tmp_path: Path) -> None:
    """One sentence with the file."""
    done = run("-m", "hotmap", "agent", "copy", tmp_path / "no" / "agent.pyz")
    problem = f"cannot write {tmp_path}/no/agent.pyz: no such file or directory"
    assert (done.returncode, done.stderr) == (1, f"hotmap agent: {problem}\n")
    done = run("-m", "hotmap", "agent", "copy")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "hotmap agent: copy requires one argument: the file to write\n"


def test_older_python_is_rejected(tmp_path: Path) -> None:
    """An image may have any; the sentence says which is needed."""
    program = tmp_path / "agent.pyz"
    build(str(program))
    pretend = (
        "import runpy, sys; sys.version_info = (3, 9); sys.version = '3.9.1 (x)';"
        f"runpy.run_path({str(program)!r}, run_name='__main__')"
    )
    done = run("-c", pretend)
    assert done.returncode == 1
    assert done.stderr == "hotmap agent needs Python 3.11 or newer; this is 3.9.1\n"
