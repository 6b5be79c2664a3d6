"""kill -9 of the agent or of the application, whatever either is doing: nothing is lost."""

from __future__ import annotations

import random
import time
from pathlib import Path

from tests.agent.agents import Volume, agent, eventually, reader, webhook
from tests.support.processes import children_of


def test_a_killed_agent_loses_nothing(tmp_path: Path) -> None:
    """Killed between any two steps and started again, it loads the last content."""
    volume = Volume(tmp_path / "volume", text="0")
    chance = random.Random(7)
    flags = ("--state", tmp_path / "state", "--check", "true", "--settle", "0")
    with webhook() as endpoint:
        for number in range(1, 16):
            with agent(tmp_path, "--dir", volume, *flags, "--url", endpoint.url) as running:
                eventually(running.status)
                volume.write(text=str(number))
                time.sleep(chance.random() * 0.02)  # another moment each time
                running.process.kill()
                running.process.wait()
        before = len(endpoint.calls)
        volume.write(text="last")
        with agent(tmp_path, "--dir", volume, *flags, "--url", endpoint.url) as running:
            running.reaches("loaded")
            assert len(endpoint.calls) == before + 1
            running.end()
        with agent(tmp_path, "--dir", volume, *flags, "--url", endpoint.url) as running:
            running.reaches("loaded")
            assert len(endpoint.calls) == before + 1, "what was confirmed is not loaded again"


def test_children_of_a_killed_agent_do_no_harm(tmp_path: Path) -> None:
    """An agent that comes back while its predecessor's command still runs acts anew."""
    volume = Volume(tmp_path / "volume", text="one")
    command = f"sh -c 'sleep 0.2; echo x >> {tmp_path}/done'"
    flags = ("--dir", volume, "--state", tmp_path / "state", "--exec", command)
    with agent(tmp_path, *flags) as running:
        eventually(lambda: children_of(running.pid))
        running.process.kill()
        running.process.wait()
    with agent(tmp_path, *flags) as running:
        running.reaches("loaded")
        eventually((tmp_path / "done").exists)


def test_an_application_that_was_killed_is_told_when_it_is_back(tmp_path: Path) -> None:
    """While it is away the rule is failing; the new process has the content, or is told."""
    volume = Volume(tmp_path / "volume", text="one")
    pidfile = f"pidfile:{tmp_path}/loaded.pid"
    with reader(volume.path / "text", tmp_path) as process:
        flags = ("--dir", volume, "--signal", "HUP", "--process", pidfile)
        with agent(tmp_path, *flags) as running:
            running.reaches("loaded")
            process.end()
            process.pidfile.unlink()
            volume.write(text="two")
            running.reaches("failing")
            with reader(volume.path / "text", tmp_path) as successor:
                running.reaches("loaded")
                assert successor.loads[-1] == "two"
