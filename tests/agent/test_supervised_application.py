"""`hotmap agent … -- PROGRAM`: one instance, restarted when content changes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
from tests.agent.agents import PodFile, Volume, agent, eventually, free_port, webhook
from tests.support.processes import members_of

from hotmap.agent.process.spawn import die_with_parent

#: Writes its environment and its number at each start, then does as it is told.
APPLICATION = """
import json, os, signal, sys, time
folder, manner = sys.argv[1:3]
def note(text):
    with open(folder + "/notes", "a") as file: file.write(text + "\\n")
def end(number, _):
    note(f"{os.getpid()} got {signal.Signals(number).name}")
    if manner == "stubborn": return
    sys.exit(7 if manner == "seven" else 0)
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGUSR1, lambda *_: note(f"{os.getpid()} got SIGUSR1"))
own = {name: text for name, text in os.environ.items() if name[:4] == "APP_"}
note(f"{os.getpid()} started " + json.dumps(own))
if manner == "short": sys.exit(3)
if manner == "crash": os.kill(os.getpid(), signal.SIGSEGV)
if manner == "family" and os.fork() == 0: time.sleep(600)
while True: time.sleep(0.01)
"""


def application(folder: Path, manner: str = "polite", *more: str) -> tuple[str, ...]:
    return ("--", sys.executable, "-S", "-c", APPLICATION, str(folder), manner, *more)


def notes(folder: Path) -> list[str]:
    """What all copies have noted, without their numbers."""
    path = folder / "notes"
    return (
        [line.split(" ", 1)[1] for line in path.read_text().splitlines()] if path.exists() else []
    )


def starts(folder: Path) -> list[str]:
    return [note for note in notes(folder) if note.startswith("started")]


def alive(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_value_that_no_variable_can_hold_is_reported(tmp_path: Path) -> None:
    """A NUL byte: it may be in binaryData, so the rest is used; the value is not shown."""
    volume = Volume(tmp_path / "volume", APP_A="1", APP_KEY="hunter2\0")
    with agent(tmp_path, "--env-from", volume, *application(tmp_path)) as running:
        (problem,) = running.reaches("loaded")["problems"]
        assert problem.endswith("a NUL byte, which no variable can hold: APP_KEY")
        assert problem in running.log
        assert "hunter2" not in running.log
        eventually(lambda: starts(tmp_path))
        volume.write(APP_A="2", APP_KEY="text")
        eventually(lambda: len(starts(tmp_path)) == 2)
        running.reaches("loaded")
        assert running.status()["problems"] == []
    found = [json.loads(note.removeprefix("started ")) for note in starts(tmp_path)]
    assert found == [{"APP_A": "1"}, {"APP_A": "2", "APP_KEY": "text"}]


def test_change_restarts_application_with_new_environment(tmp_path: Path) -> None:
    """What was an envFrom follows the mounted files, inside the same container."""
    volume = Volume(tmp_path / "volume", APP_LEVEL="info")
    with agent(tmp_path, "--env-from", volume, *application(tmp_path)) as running:
        eventually(lambda: starts(tmp_path) == ['started {"APP_LEVEL": "info"}'])
        volume.write(APP_LEVEL="debug")
        eventually(lambda: len(starts(tmp_path)) == 2)
        assert notes(tmp_path) == [
            'started {"APP_LEVEL": "info"}',
            "got SIGTERM",
            'started {"APP_LEVEL": "debug"}',
        ]
        running.reaches("loaded")
        assert running.status()["application"]["starts"] == 2
        assert running.end() == 0


def test_application_that_a_rule_names_gets_no_signal_at_its_start(tmp_path: Path) -> None:
    """It was started with the content; the kernel's time of that may be a tick before it."""
    noted = tmp_path / "notes"
    volume = Volume(tmp_path / "volume", text="1")
    program = tmp_path / "my-server"
    shutil.copy("/bin/sh", program)
    script = f"""
        trap 'echo got USR1 >> {noted}' USR1
        echo started >> {noted}
        while :; do sleep 0.02; done
    """
    rule = ("--dir", volume, "--signal", "USR1", "--process", "name:my-server")
    with agent(tmp_path, *rule, "--", program, "-c", script) as running:
        running.reaches("loaded")
        eventually(lambda: noted.exists() and noted.read_text() == "started\n")
        volume.write(text="2")
        running.reaches("told")
        eventually(lambda: noted.read_text() == "started\ngot USR1\n")


def test_application_starts_after_content_passed(tmp_path: Path) -> None:
    """The first start waits for content that passes its check; bad content later is ignored."""
    volume = Volume(tmp_path / "volume", text="evil")
    flags = ("--dir", volume, "--check", "grep -q good {dir}/text")
    with agent(tmp_path, *flags, *application(tmp_path)) as running:
        running.reaches("refused")
        assert starts(tmp_path) == []
        volume.write(text="good")
        running.reaches("loaded")
        eventually(lambda: len(starts(tmp_path)) == 1)
        volume.write(text="evil")
        running.reaches("refused")
        assert len(starts(tmp_path)) == 1


def test_signal_action_reaches_the_application(tmp_path: Path) -> None:
    """With --signal the running instance is signalled instead of restarted."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = ("--dir", volume, "--signal", "USR1")
    with agent(tmp_path, *flags, *application(tmp_path)) as running:
        eventually(lambda: len(starts(tmp_path)) == 1)
        volume.write(text="two")
        eventually(lambda: "got SIGUSR1" in notes(tmp_path))
        assert len(starts(tmp_path)) == 1
        running.end()


def test_signals_are_forwarded(tmp_path: Path) -> None:
    """What a container's main process may get, the application gets."""
    volume = Volume(tmp_path / "volume", text="one")
    with agent(tmp_path, "--dir", volume, *application(tmp_path)) as running:
        eventually(lambda: len(starts(tmp_path)) == 1)
        running.process.send_signal(signal.SIGUSR1)
        eventually(lambda: "got SIGUSR1" in notes(tmp_path))


@pytest.mark.parametrize(("manner", "status"), [("short", 3), ("crash", 128 + signal.SIGSEGV)])
def test_agent_exits_with_the_application(tmp_path: Path, manner: str, status: int) -> None:
    """Its exit status is the application's, 128+n when a signal ended it."""
    volume = Volume(tmp_path / "volume", text="one")
    with agent(tmp_path, "--dir", volume, *application(tmp_path, manner)) as running:
        assert running.process.wait(20) == status


def test_missing_program_exits_with_127(tmp_path: Path) -> None:
    """As a shell has it."""
    volume = Volume(tmp_path / "volume", text="one")
    with agent(tmp_path, "--dir", volume, "--", "no-such-program") as running:
        assert running.process.wait(20) == 127
        assert "no-such-program: no such program" in running.log


def test_sigterm_is_forwarded_and_status_returned(tmp_path: Path) -> None:
    """TERM ends the application first; the agent then ends with its status."""
    volume = Volume(tmp_path / "volume", text="one")
    with agent(tmp_path, "--dir", volume, *application(tmp_path, "seven")) as running:
        eventually(lambda: len(starts(tmp_path)) == 1)
        assert running.end() == 7
        assert notes(tmp_path)[-1] == "got SIGTERM"


def test_stopped_application_is_continued_to_end(tmp_path: Path) -> None:
    """One that SIGSTOP has stopped could not handle TERM, and would be killed in the end."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = ("--dir", volume, "--grace", "10m")
    with agent(tmp_path, *flags, *application(tmp_path)) as running:

        def suspend(copies: int) -> None:
            eventually(lambda: len(starts(tmp_path)) == copies)
            pid = running.status()["application"]["pid"]
            os.kill(pid, signal.SIGSTOP)
            eventually(lambda: ") T " in Path(f"/proc/{pid}/stat").read_text())

        suspend(1)
        volume.write(text="two")
        suspend(2)
        assert running.end() == 0
    assert notes(tmp_path) == ["started {}", "got SIGTERM"] * 2


def test_application_is_killed_after_the_grace_period(tmp_path: Path) -> None:
    """On a change as at the end: TERM, the grace, KILL; and never two copies."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = ("--dir", volume, "--grace", "200ms")
    with agent(tmp_path, *flags, *application(tmp_path, "stubborn")) as running:
        eventually(lambda: len(starts(tmp_path)) == 1)
        first = running.status()["application"]["pid"]
        volume.write(text="two")
        eventually(lambda: len(starts(tmp_path)) == 2)
        assert not alive(first)
        assert running.end() == 128 + signal.SIGKILL


def test_one_restart_for_several_changes_is_logged_once(tmp_path: Path) -> None:
    """Those that come while the application stops are loaded by the same start."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = ("--dir", volume, "--grace", "1s", "--settle", "0")
    with agent(tmp_path, *flags, *application(tmp_path, "stubborn")) as running:
        eventually(lambda: len(starts(tmp_path)) == 1)
        for number in range(4):
            volume.write(text=f"two {number}")
            time.sleep(0.2)
        eventually(lambda: len(starts(tmp_path)) == 2)
        running.reaches("loaded")
        assert running.status()["application"]["starts"] == 2
        assert running.log.count("application: restarted") == 1
        running.end()


def test_application_in_another_process_group_is_killed(tmp_path: Path) -> None:
    """One that has left the group it was started in ends at the grace period as well."""
    volume, ready = Volume(tmp_path / "volume", text="one"), tmp_path / "ready"
    code = (
        "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "os.setpgid(0, os.getpgid(os.getppid()))\n"
        "open(sys.argv[1], 'a').write('x')\n"
        "time.sleep(600)"
    )
    flags = ("--dir", volume, "--grace", "100ms", "--", sys.executable, "-S", "-c", code, ready)
    with agent(tmp_path, *flags) as running:
        eventually(ready.exists)
        volume.write(text="two")
        eventually(lambda: ready.read_text() == "xx")
        assert running.end() == 128 + signal.SIGKILL
        assert running.log.count("error:") == 0


def test_signal_at_start_reaches_the_application(tmp_path: Path) -> None:
    """Ended the moment it was started, again and again, no copy misses its TERM."""
    volume = Volume(tmp_path / "volume", text="0")
    flags = ("--dir", volume, "--settle", "0", "--grace", "10m")
    with agent(tmp_path, *flags, "--", "sleep", "600") as running:
        running.reaches("loaded")
        for number in range(1, 301):
            volume.write(text=str(number))
        running.reaches("loaded")
        assert running.status()["application"]["starts"] > 2
        running.end()


def test_second_sigterm_kills_at_once(tmp_path: Path) -> None:
    """Who asks twice does not want to wait."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = ("--dir", volume, "--grace", "10m")
    with agent(tmp_path, *flags, *application(tmp_path, "stubborn")) as running:
        eventually(lambda: len(starts(tmp_path)) == 1)
        running.process.terminate()
        eventually(lambda: "got SIGTERM" in notes(tmp_path))
        running.process.terminate()
        assert running.process.wait(20) == 128 + signal.SIGKILL


def test_process_group_is_killed_before_restart(tmp_path: Path) -> None:
    """What the application had started in its group is gone before another copy starts."""
    volume = Volume(tmp_path / "volume", text="one")
    with agent(tmp_path, "--dir", volume, *application(tmp_path, "family")) as running:
        eventually(lambda: len(starts(tmp_path)) == 1)
        first = running.status()["application"]["pid"]
        members = eventually(lambda: members_of(first) if len(members_of(first)) == 2 else None)
        volume.write(text="two")
        eventually(lambda: len(starts(tmp_path)) == 2)
        assert not any(alive(member) for member in members)


def test_application_dies_with_a_killed_agent(tmp_path: Path) -> None:
    """kill -9 of the agent ends the application, so the next start has no second copy."""
    volume = Volume(tmp_path / "volume", text="one")
    with agent(tmp_path, "--dir", volume, *application(tmp_path)) as running:
        eventually(lambda: len(starts(tmp_path)) == 1)
        child = running.status()["application"]["pid"]
        running.process.kill()
        eventually(lambda: not alive(child))


@pytest.mark.parametrize(("is_parent", "status"), [(True, 0), (False, 126)])
def test_child_of_an_agent_that_was_just_killed_ends(is_parent: bool, status: int) -> None:
    """It has another parent by then, whose end the kernel would wait for."""
    parent = os.getpid() if is_parent else 0
    if (pid := os.fork()) == 0:
        try:
            die_with_parent(parent)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == status


def test_orphaned_processes_are_reaped(tmp_path: Path) -> None:
    """Processes whose parents ended become ours, and do not stay as zombies."""
    volume = Volume(tmp_path / "volume", text="one")
    orphan = "setsid sh -c 'sleep 0.05' & echo $! > $0; sleep 0.01; exec sleep 60"
    words = ("--", "sh", "-c", orphan, str(tmp_path / "orphan"))
    with agent(tmp_path, "--dir", volume, *words) as running:
        running.reaches("loaded")
        pid = int(
            eventually(
                lambda: (tmp_path / "orphan").exists() and (tmp_path / "orphan").read_text().strip()
            )
        )
        child = running.status()["application"]["pid"]
        # The shell has become `sleep`, which never waits: its child stays a zombie until
        # the parent ends; then it is ours.
        os.kill(child, signal.SIGKILL)
        assert running.process.wait(20) == 128 + signal.SIGKILL
        eventually(lambda: not Path(f"/proc/{pid}").exists())


def test_environment_follows_kubernetes_rules(tmp_path: Path) -> None:
    """Prefix, order, $(VAR) and names that the container keeps; arguments are expanded, too."""
    first = Volume(tmp_path / "first", A="1", B="1")
    second = Volume(tmp_path / "second", B="2")
    flags = (
        *("--env-from", f"APP_={first}", "--env-from", f"APP_={second}"),
        *("--env", "APP_C=$(APP_A)-$(APP_B)-$$(APP_A)-$(APP_Z)", "--env", "APP_B"),
    )
    words = application(tmp_path, "polite", "$(APP_C)")
    environment = {**os.environ, "APP_B": "own"}
    with agent(tmp_path, *flags, *words, env=environment) as running:
        eventually(lambda: len(starts(tmp_path)) == 1)
        assert starts(tmp_path) == [
            'started {"APP_B": "own", "APP_A": "1", "APP_C": "1-2-$(APP_A)-$(APP_Z)"}'
        ]
        pid = running.status()["application"]["pid"]
        assert Path(f"/proc/{pid}/cmdline").read_text().split("\0")[-2] == "1-2-$(APP_A)-$(APP_Z)"


@pytest.mark.parametrize("way", ["one variable", "all variables", "an argument"])
def test_content_too_large_for_exec_is_refused_before_the_stop(tmp_path: Path, way: str) -> None:
    """The running instance goes on; its name is said, its value is not."""
    volume = Volume(tmp_path / "volume", APP_A="ok")
    words = application(tmp_path, "polite", "$(APP_A)")
    flags = ("--env-from", volume, "--env-from", f"MORE_={volume}")
    with agent(tmp_path, *flags, *words) as running:
        eventually(lambda: starts(tmp_path) == ['started {"APP_A": "ok"}'])
        if way == "all variables":
            volume.write(**{f"APP_{number}": "x" * 100_000 for number in range(40)})
            wanted = "a program can take 2097152"
        else:
            # 131,071 bytes with name and "=" are the most; as an argument it is one too many.
            volume.write(APP_A="x" * (131_071 - 6 if way == "one variable" else 131_072))
            wanted = "MORE_APP_A has" if way == "one variable" else "argument 6 has 131072 bytes"
        error = running.reaches("refused")["check"]["error"]
        assert wanted in error
        assert "xxx" not in error
        assert notes(tmp_path) == ['started {"APP_A": "ok"}']
        volume.write(APP_A="fine")
        eventually(lambda: starts(tmp_path)[-1] == 'started {"APP_A": "fine"}')


def test_largest_variable_that_exec_takes_is_used(tmp_path: Path) -> None:
    """Up to the kernel's own bound nothing is refused."""
    value = "x" * (131_071 - 6)
    volume = Volume(tmp_path / "volume", APP_A=value)
    with agent(tmp_path, "--env-from", volume, *application(tmp_path)):
        eventually(lambda: starts(tmp_path) == [f'started {{"APP_A": "{value}"}}'])


def test_descendant_in_another_session_is_gone_before_the_restart(tmp_path: Path) -> None:
    """A daemon that holds a lock or a port must not meet the next instance, however it detached."""
    volume = Volume(tmp_path / "volume", APP_A="1")
    script = tmp_path / "script"
    script.write_text(
        f"""cd {tmp_path}; ls /proc > seen
        setsid sh -c 'trap "" TERM; echo $$ >> daemons; while :; do sleep 1; done' &
        setsid sh -c 'setsid sleep 600 & echo $! >> daemons'
        echo > before-$APP_A; exec sleep 600"""
    )
    with agent(tmp_path, "--env-from", volume, "--", "sh", script) as running:
        eventually((tmp_path / "before-1").exists)
        eventually(lambda: len((tmp_path / "daemons").read_text().split()) >= 2)
        first = [int(word) for word in (tmp_path / "daemons").read_text().split()]
        assert all(alive(pid) for pid in first)
        volume.write(APP_A="2")
        eventually((tmp_path / "before-2").exists)
        numbers = (tmp_path / "seen").read_text().split()
        assert not [pid for pid in first if str(pid) in numbers]
        assert running.end() == 143


def test_daemon_of_a_command_survives_a_restart(tmp_path: Path) -> None:
    """What a command of a rule leaves running in a session of its own is not the application's."""
    volume = Volume(tmp_path / "volume", APP_A="1")
    rules = tmp_path / "rules.toml"
    pid = tmp_path / "pid"
    # What is still in the command's process group when it exits is killed, so it waits.
    begin = f"setsid sh -c 'echo $$ > {pid}; exec sleep 600' &"
    start = f"[ -s {pid} ] || {{ {begin} until [ -s {pid} ]; do sleep 0.01; done; }}"
    rules.write_text(
        f"""
        [[rule]]
        actions = [{{ exec = ["sh", "-c", "{start}"] }}, {{ restart = "supervised" }}]
        """
    )
    flags = ("--dir", volume, "--rules", rules)
    with agent(tmp_path, *flags, *application(tmp_path)):
        eventually(lambda: len(starts(tmp_path)) == 1)
        volume.write(APP_A="2")
        eventually(lambda: len(starts(tmp_path)) == 2)
        volume.write(APP_A="3")
        eventually(lambda: len(starts(tmp_path)) == 3)
        daemon = int(pid.read_text())
        volume.write(APP_A="4")
        eventually(lambda: len(starts(tmp_path)) == 4)
        assert alive(daemon)
    os.kill(daemon, signal.SIGKILL)


#: Notes its start, and fails with what APP_STATUS says.
FRAGILE = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
status = os.environ["APP_STATUS"]
is_broken = os.path.exists(sys.argv[1] + "/broken")
with open(sys.argv[1] + "/notes", "a") as file: file.write(f"{os.getpid()} started {status}\\n")
if is_broken: sys.exit(9)
if status != "0": sys.exit(int(status))
while True: time.sleep(0.01)
"""


def test_restart_that_fails_is_undone(tmp_path: Path) -> None:
    """The application runs with its previous environment again until the content changes."""
    volume = Volume(tmp_path / "volume", APP_STATUS="0")
    words = ("--", sys.executable, "-S", "-c", FRAGILE, tmp_path)
    with agent(tmp_path, "--env-from", volume, *words) as running:
        eventually(lambda: starts(tmp_path) == ["started 0"])
        volume.write(APP_STATUS="3")
        message = running.reaches("failing")["message"]
        assert "the application exited with status 3 " in message
        assert message.endswith("it was started with its previous environment and arguments")
        eventually(lambda: starts(tmp_path) == ["started 0", "started 3", "started 0"])
        time.sleep(0.5)
        assert starts(tmp_path) == ["started 0", "started 3", "started 0"], "tried once only"
        assert running.status()["application"]["pid"]
        volume.write(APP_STATUS="0", APP_MORE="x")
        running.reaches("loaded")
        eventually(lambda: len(starts(tmp_path)) == 4)
        assert running.end() == 0


def test_restart_that_fails_twice_ends_the_agent(tmp_path: Path) -> None:
    """When the previous environment does not help either, the exit status is the application's."""
    volume = Volume(tmp_path / "volume", APP_STATUS="0")
    flags = ("--env-from", volume, "--", sys.executable, "-S", "-c", FRAGILE, tmp_path)
    with agent(tmp_path, *flags) as running:
        eventually(lambda: starts(tmp_path) == ["started 0"])
        (tmp_path / "broken").touch()
        volume.write(APP_STATUS="3")
        assert running.process.wait(20) == 9
        assert starts(tmp_path) == ["started 0", "started 3", "started 0"]


def test_restart_that_fails_is_undone_after_another_one_that_would_have_failed(
    tmp_path: Path,
) -> None:
    """That one was stopped before it failed, so it does not count as one that ran."""
    volume = Volume(tmp_path / "volume", APP_MODE="good")
    program = (
        f"echo 1 started $APP_MODE >> {tmp_path}/notes; sleep 1; test $APP_MODE = good || exit 3"
    )
    words = ("--", "sh", "-c", f"{program}; exec sleep 600")
    with agent(tmp_path, "--env-from", volume, "--min-uptime", "2s", *words) as running:
        running.reaches("loaded")
        time.sleep(2.5)
        for mode in ("bad-1", "bad-2"):
            volume.write(APP_MODE=mode)
            eventually(lambda mode=mode: starts(tmp_path)[-1] == f"started {mode}")
        assert "with status 3 " in running.reaches("failing")["message"]
        eventually(lambda: starts(tmp_path)[-1] == "started good")


def test_probe_of_the_previous_environment_confirms_no_restart_that_was_undone(
    tmp_path: Path,
) -> None:
    """The application that a probe finds again does not run with the new content."""
    volume = Volume(tmp_path / "volume", APP_MODE="good")
    up = tmp_path / "up"
    program = f"rm -f {up}; sleep 0.1; test $APP_MODE = good || exit 3; touch {up}"
    flags = ("--env-from", volume, "--min-uptime", "2s", "--verify", f"exec test -e {up}")
    with agent(tmp_path, *flags, "--", "sh", "-c", f"{program}; exec sleep 600") as running:
        running.reaches("loaded")
        time.sleep(2.5)
        volume.write(APP_MODE="bad")
        running.reaches("failing")
        eventually(up.exists)
        time.sleep(1)
        assert "with status 3 " in running.reaches("failing")["message"]
        assert running.status()["application"]["starts"] == 3
        running.process.send_signal(signal.SIGHUP)
        eventually(lambda: running.status()["application"]["starts"] == 5)
        time.sleep(1)
        running.reaches("failing")
        volume.write(APP_MODE="good", APP_MORE="x")
        running.reaches("loaded")


def test_failed_restart_holds_back_no_content_that_waits_for_its_own(tmp_path: Path) -> None:
    """It was announced just before the application ended, and its drain endpoint was away."""
    volume, pod = Volume(tmp_path / "volume", APP_MODE="good"), PodFile(tmp_path / "pod")
    pod.annotate("1/aa/f1")
    port = free_port()
    flags = (
        *("--env-from", volume, "--min-uptime", "2s", "--target-file", pod.file),
        *("--restart-on", "frozen", "--drain-url", f"http://127.0.0.1:{port}/"),
    )
    program = "sleep 1; test $APP_MODE = good || exit 3; exec sleep 600"
    with agent(tmp_path, *flags, "--", "sh", "-c", program) as running:
        running.reaches("loaded")
        time.sleep(2.5)
        volume.write(APP_MODE="bad")
        eventually(lambda: running.status()["application"]["starts"] == 2)
        pod.annotate("2/aa/f2")
        eventually(lambda: "refused" in running.rule("frozen")["error"])
        eventually(lambda: running.rule()["state"] == "failing")
        assert "refused" in running.rule("frozen")["error"]
        with webhook(port):
            eventually(lambda: running.rule("frozen")["loads"] == 1, "the announced restart")


def test_splay_delays_restarts_by_a_random_part(tmp_path: Path) -> None:
    """Replicas that get content at the same moment do not restart at the same moment."""
    volume = Volume(tmp_path / "volume", APP_A="1")
    flags = ("--env-from", volume, "--splay", "1h")
    with agent(tmp_path, *flags, *application(tmp_path)) as running:
        eventually(lambda: len(starts(tmp_path)) == 1)
        volume.write(APP_A="2")
        running.reaches("pending")
        time.sleep(0.3)
        assert len(starts(tmp_path)) == 1
        running.process.send_signal(signal.SIGHUP)  # now, please
        eventually(lambda: len(starts(tmp_path)) == 2)
