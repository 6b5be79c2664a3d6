"""The agent's imports, memory and wake-ups."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from tests.agent.agents import Agent, Volume, agent, eventually, webhook
from tests.support.processes import with_modules

#: What no agent needs that signals, runs commands and calls plain HTTP.
TOO_LARGE = (
    "asyncio", "argparse", "base64", "click", "ctypes.util", "dataclasses", "hashlib", "http",
    "inspect", "logging", "msgspec", "pathlib", "random", "shutil", "ssl", "subprocess", "tempfile",
    "threading", "typing", "urllib",
)  # fmt: skip


@pytest.fixture
def imports(tmp_path: Path) -> Path:
    """Let a Python process note its modules at its end."""
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, os, sys\n"
        "atexit.register(lambda: open(os.environ['NOTE'], 'w').write(' '.join(sys.modules)))\n"
    )
    return tmp_path


def test_agent_imports_nothing_large(imports: Path) -> None:
    """With signals, commands and plain HTTP in use, only small modules are loaded."""
    volume, note = Volume(imports / "volume", text="one"), imports / "note"
    with webhook() as endpoint:
        flags = ("--dir", volume, "--url", endpoint.url, "--exec", "true", "--check", "true")
        environment = with_modules(imports, NOTE=str(note))
        with agent(imports, *flags, env=environment) as running:
            running.reaches("loaded")
            running.end()
    loaded = set(note.read_text().split())
    assert "hotmap.agent.agent" in loaded
    assert loaded & set(TOO_LARGE) == set()


#: What only agents with probes, commands, a stage, a state file or announcements need.
OF_FEW_AGENTS = (
    "binascii", "fcntl", "hotmap.agent.act.check_copy", "hotmap.agent.act.probes",
    "hotmap.agent.act.stage", "hotmap.agent.act.worker_probe", "hotmap.core.payload",
    "hotmap.core.payload_digest", "hotmap.volume.atomic_writer", "json",
)  # fmt: skip


def test_agent_imports_only_what_its_flags_need(imports: Path) -> None:
    """One that only sends a signal has 0.3 MB less than one that uses everything."""
    volume, note = Volume(imports / "volume", text="one"), imports / "note"
    environment = with_modules(imports, NOTE=str(note))
    flags = ("--dir", volume, "--signal", "HUP", "--process", "name:hotmap-test-none")
    with agent(imports, *flags, env=environment) as running:
        eventually(lambda: "no process with name" in running.log)
        running.end()
    assert set(note.read_text().split()) & set(OF_FEW_AGENTS) == set()


@pytest.mark.slow
def test_agent_memory_does_not_grow(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """After a thousand more changes it is as large as after some; and within its request.

    A leak shows in each five hundred of them. Once in a while the allocator takes one more arena.
    """
    volume = Volume(tmp_path / "volume", text="0")
    flags = ("--dir", volume, "--settle", "0", "--poll-interval", "50ms")
    sizes = []
    with webhook() as endpoint, agent(tmp_path, *flags, "--url", endpoint.url) as running:
        for number in range(1, 1501):
            calls = len(endpoint.calls)
            volume.write(text=str(number))
            if number % 10 == 0:
                eventually(lambda c=calls: len(endpoint.calls) > c)
            if number % 500 == 0:
                running.reaches("loaded")
                sizes.append(_resident(running))
    growths = [later - earlier for earlier, later in pairwise(sizes)]
    record_property("resident", ", ".join(f"{size / 1e6:.2f} MB" for size in sizes))
    assert min(growths) < 150 << 10, sizes
    assert sum(growths) < 1 << 20, sizes
    assert sizes[-1] <= 24 << 20, "what an injected container requests"


def _resident(running: Agent) -> int:
    text = Path(f"/proc/{running.pid}/status").read_text()
    return int(text.partition("\nVmRSS:")[2].split()[0]) << 10


def test_idle_agent_does_not_wake_up(tmp_path: Path) -> None:
    """Between two checks the process does not wake up at all."""
    volume = Volume(tmp_path / "volume", text="one")
    with agent(tmp_path, "--dir", volume) as running:
        running.reaches("told")
        running.rests()
        before = _switches(running)
        # Ten times as long as any of its own short timers; the check interval is 10 s.
        eventually(lambda c=[0]: c.append(0) or len(c) > 100)
        assert _switches(running) - before <= 1


def _switches(running: Agent) -> int:
    text = Path(f"/proc/{running.pid}/status").read_text()
    return int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
