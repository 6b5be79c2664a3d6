"""SIGKILL of the agent or of the application in any state: no change is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.agent.agents import Agent, Volume, agent, eventually, reader, tick, webhook
from tests.agent.states import STATES, Scene, standing
from tests.support.processes import children_of, with_modules

#: Minutes of waiting or of processor time, too much after each edit.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", STATES)
def test_agent_killed_in_any_state_loses_nothing(tmp_path: Path, name: str) -> None:
    """Started again it loads the newest content: once, unless it was killed in the act itself."""
    with standing(tmp_path, name) as (scene, running):
        before = scene.loads().count("two")
        running.process.kill()
        running.process.wait()
        scene.release()
        with agent(tmp_path, *scene.flags()) as successor:
            successor.reaches("loaded")
            assert scene.loads()[-1] == "two"
            again = name == "confirming"  # it had acted, and the effect is unknown
            assert scene.loads().count("two") == (before + 1 if again else 1)
            assert not children_of(successor.pid)


def test_agent_killed_without_directory_loses_nothing(
    tmp_path: Path,
) -> None:
    """What appears while no agent is there is loaded by the next one."""
    place = tmp_path / "volume"
    with webhook() as endpoint:
        flags = ("--dir", place, "--url", endpoint.url)
        with agent(tmp_path, *flags) as running:
            running.reaches("waiting")
            running.process.kill()
            running.process.wait()
        Volume(place, text="one")
        with agent(tmp_path, *flags) as running:
            running.reaches("loaded")
            assert len(endpoint.calls) == 1


#: Ends the process by KILL before the n-th call that changes a file or starts a process.
KILL_AT = """
import os, signal, sys
left = int(os.environ["KILL_AT"])
def counted(name):
    real = getattr(os, name)
    def call(*arguments, **options):
        global left
        changes = name != "open" or arguments[1] & os.O_CREAT
        if name == "write" and arguments[0] == 2: changes = False
        if changes and os.getpid() == ours:
            left -= 1
            if left == 0:
                with open(os.environ["KILLED_AT"], "w") as file: file.write(name)
                os.kill(ours, signal.SIGKILL)
        return real(*arguments, **options)
    setattr(os, name, call)
if "agent" in sys.argv or "agent" in sys.orig_argv:
    ours = os.getpid()
    for name in ("open", "mkdir", "rename", "symlink", "unlink", "remove", "rmdir", "write",
                 "chmod", "fchmod", "utime", "fork"):
        counted(name)
"""


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(5, id="each fifth call"),
        pytest.param(1, id="each call", marks=pytest.mark.slow),
    ],
)
def test_agent_killed_at_any_system_call_loses_nothing(tmp_path: Path, step: int) -> None:
    """Killed before the first call that changes something, and before later ones to the end.

    Whatever was reached, the stage holds one whole revision, and the next agent loads the newest.
    """
    (tmp_path / "sitecustomize.py").write_text(KILL_AT)
    number, names = 1, set()
    while name := _killed_at(number, tmp_path / str(number), tmp_path):
        names.add(name)
        number += step
    assert number > 20, "stage, state, copies and children take more calls than that"
    if step == 1:
        assert {"fork", "mkdir", "open", "rename", "symlink"} <= names


def _killed_at(number: int, folder: Path, path: Path) -> str:
    """Kill an agent before its n-th call and name it; "" when it made less of them to the end."""
    folder.mkdir()
    volume, stage = Volume(folder / "volume", a="1", b="1"), folder / "stage"
    flags = (
        *("--dir", volume, "--stage", stage, "--state", folder / "state", "--settle", "0"),
        *("--check", "grep -q . {dir}/a", "--work-dir", folder, "--exec"),
        f"sh -c 'cat {stage}/a {stage}/b >> {folder}/loads; echo >> {folder}/loads'",
    )
    with agent(folder, *flags) as running:
        running.reaches("told")
        running.end()
    volume.write(a="2", b="2")
    variables = {"KILL_AT": str(number), "KILLED_AT": str(folder / "killed-at")}
    environment = with_modules(path, **variables)
    with agent(folder, *flags, env=environment) as running:
        killed = _is_killed(running) or running.end() == -signal.SIGKILL
    assert killed == (folder / "killed-at").exists()
    shown = (stage / "a").read_text() + (stage / "b").read_text()
    assert shown in ("11", "22"), f"torn at step {number}"
    with agent(folder, *flags) as running:
        running.reaches("told")
        loads = (folder / "loads").read_text().split()
        assert loads[0] == "11"
        assert loads[-1] == "22"
        assert set(loads) == {"11", "22"}
        assert (stage / "a").read_text() + (stage / "b").read_text() == "22"
        running.end()
    return (folder / "killed-at").read_text() if killed else ""


def _is_killed(running: Agent) -> bool:
    """Wait until an agent was killed (True) or has run its command for everything (False)."""

    def check() -> str:
        if running.process.poll() == -signal.SIGKILL:
            return "killed"
        try:
            return "told" if running.status().get("state") == "told" else ""
        except AssertionError:
            return "killed"

    return bool(eventually(check) == "killed")


def test_children_of_a_killed_agent_have_no_effect(tmp_path: Path) -> None:
    """An agent that comes back while its predecessor's command still runs repeats the attempt."""
    volume = Volume(tmp_path / "volume", text="one")
    command = f"sh -c 'sleep 0.2; echo x >> {tmp_path}/done'"
    flags = ("--dir", volume, "--state", tmp_path / "state", "--exec", command)
    with agent(tmp_path, *flags) as running:
        eventually(lambda: children_of(running.pid))
        running.process.kill()
        running.process.wait()
    with agent(tmp_path, *flags) as running:
        running.reaches("told")
        eventually((tmp_path / "done").exists)


def test_restarted_process_has_loaded_the_content(tmp_path: Path) -> None:
    """While it is down the rule is failing; the new process reads the content at its start."""
    volume = Volume(tmp_path / "volume", text="one")
    pidfile = f"pidfile:{tmp_path}/loaded.pid"
    with reader(volume.path / "text", tmp_path) as process:
        flags = ("--dir", volume, "--signal", "HUP", "--process", pidfile)
        with agent(tmp_path, *flags) as running:
            running.reaches("told")
            process.end()
            process.pidfile.unlink()
            volume.write(text="two")
            running.reaches("failing")
            tick()
            with reader(volume.path / "text", tmp_path) as successor:
                running.reaches("loaded")
                assert successor.loads[-1] == "two"
                assert running.rule()["loads"] == 1, "the new process was signalled"


#: States that there are between a swap and the signal, and after it.
BESIDE_A_PROCESS = [
    name for name, state in STATES.items() if not state.hang and name not in ("acting", "retrying")
]


class Signalled(Scene):
    """The same with a process that gets a signal instead of a command and an endpoint."""

    def flags(self) -> tuple[str, ...]:
        given = list(super().flags())
        for flag in ("--exec", "--url", "--retry-first", "--retry-max"):
            place = given.index(flag)
            del given[place : place + 2]
        target = f"pidfile:{self.folder}/loaded.pid"
        return (*given, "--signal", "HUP", "--process", target)

    def loads(self) -> list[str]:
        return [line.split()[1] for line in (self.folder / "loaded").read_text().splitlines()]


@pytest.mark.parametrize("name", BESIDE_A_PROCESS)
def test_process_killed_in_any_state_loads_the_content(tmp_path: Path, name: str) -> None:
    """Its successor ends up with the newest content, by its own start or by a signal."""
    with webhook() as endpoint:
        scene = Signalled(tmp_path, endpoint, STATES[name])
        with (
            reader(scene.volume.path / "text", tmp_path) as process,
            agent(tmp_path, *scene.flags()) as running,
        ):
            running.reaches("loaded")
            scene.reach(running)
            process.end()
            process.pidfile.unlink()
            scene.release()
            if name in ("settling", "refused", "without a verdict"):
                running.process.send_signal(signal.SIGHUP)  # instead of waiting ten minutes
            with reader(scene.volume.path / "text", tmp_path) as successor:
                running.reaches("loaded")
                eventually(lambda: successor.loads[-1] == "two")


@pytest.mark.parametrize("state", ["loaded", "checking", "refused", "calling"])
def test_killed_application_stops_the_agent_in_any_state(tmp_path: Path, state: str) -> None:
    """Whatever the agent is at, the container ends with the application, and with its status."""
    volume = Volume(tmp_path / "volume", text="one")
    with webhook() as endpoint:
        flags = {
            "loaded": (),
            "checking": ("--check", "sh -c 'grep -q one {dir}/text || sleep 600'"),
            "refused": ("--check", "grep -q one {dir}/text"),
            "calling": ("--url", endpoint.url),
        }[state]
        with agent(tmp_path, "--dir", volume, *flags, "--", "sleep", "600") as running:
            pid = running.reaches("loaded")["application"]["pid"]
            if state != "loaded":
                endpoint.hang.clear()
                volume.write(text="two")
                running.reaches("refused" if state == "refused" else "pending")
            os.kill(pid, signal.SIGKILL)
            assert running.process.wait(20) == 128 + signal.SIGKILL
            assert children_of(running.pid) == []


def test_application_killed_during_restart_starts_once(
    tmp_path: Path,
) -> None:
    """It was to end anyway: the next copy starts, and the agent goes on."""
    volume = Volume(tmp_path / "volume", text="one")
    script = f"trap 'touch {tmp_path}/ending' TERM; touch {tmp_path}/ready"
    program = ("sh", "-c", f"{script}; while :; do sleep 0.01; done")
    with agent(tmp_path, "--dir", volume, "--grace", "10m", "--", *program) as running:
        pid = running.reaches("loaded")["application"]["pid"]
        eventually((tmp_path / "ready").exists)
        volume.write(text="two")
        eventually((tmp_path / "ending").exists)
        os.kill(pid, signal.SIGKILL)
        status = running.reaches("loaded")
        assert status["application"]["starts"] == 2
        assert status["application"]["pid"] != pid
        os.kill(status["application"]["pid"], signal.SIGKILL)
        assert running.process.wait(20) == 128 + signal.SIGKILL
