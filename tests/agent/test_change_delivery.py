"""Changed files reach the process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.agent.agents import Volume, agent, eventually, reader, run_program, tick, webhook

import hotmap.agent.main as agent_main
from hotmap.agent.process import signals
from hotmap.agent.process.process_table import ProcessError, identify, started_at


def test_signal_is_sent_after_an_update(tmp_path: Path) -> None:
    """The signal is sent once the new files are there, and only then."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = ("--dir", volume, "--signal", "HUP", "--process", f"pidfile:{tmp_path}/loaded.pid")
    with agent(tmp_path, *flags) as running:
        running.reaches("failing")
        tick()
        with reader(volume.path / "text", tmp_path) as process:
            running.reaches("loaded")
            assert process.loads == ["one"], "it had read the content at its own start"
            volume.write(text="two")
            eventually(lambda: process.loads == ["one", "two"])
            running.reaches("told")
            assert process.loads == ["one", "two"]


def test_process_older_than_the_agent_is_signalled_once(tmp_path: Path) -> None:
    """What it has read is unknown, so it gets one signal and no more."""
    volume = Volume(tmp_path / "volume", text="one")
    with reader(volume.path / "text", tmp_path) as process:
        flags = ("--dir", volume, "--signal", "HUP", "--process", f"pidfile:{process.pidfile}")
        with agent(tmp_path, *flags) as running:
            running.reaches("told")
            eventually(lambda: process.loads == ["one", "one"])
            assert running.rule()["loads"] == 1


#: A daemon that goes to the background once a file exists, long after it has read its content.
_DAEMON = """
import os, signal, sys, time
source, output, go = sys.argv[1:]
def load(*_):
    with open(source) as file: text = file.read()
    with open(output, "a") as file: file.write(text + "\\n")
signal.signal(signal.SIGHUP, load)
load()
while not os.path.exists(go): time.sleep(0.01)
if os.fork(): os._exit(0)
os.setsid()
with open(output + ".new", "w") as file: file.write(str(os.getpid()))
os.rename(output + ".new", output + ".pid")
while True: time.sleep(0.01)
"""


def test_daemon_that_has_read_older_content_before_its_fork_is_signalled(tmp_path: Path) -> None:
    """The process is younger than the content, and has the memory of one that is not."""
    volume, output, go = Volume(tmp_path / "volume", text="one"), tmp_path / "out", tmp_path / "go"
    pidfile = Path(f"{output}.pid")
    flags = ("--dir", volume, "--signal", "HUP", "--process", f"pidfile:{pidfile}")
    with agent(tmp_path, *flags) as running:
        running.reaches("failing")
        words = (str(volume.path / "text"), str(output), str(go))
        process = subprocess.Popen([sys.executable, "-S", "-c", _DAEMON, *words])
        eventually(lambda: output.exists() and output.read_text() == "one\n")
        volume.write(text="two")
        eventually(lambda: running.log.count("content changed") == 2)
        tick()
        go.touch()
        assert process.wait(60) == 0
        eventually(pidfile.exists)
        try:
            running.reaches("told")
            eventually(lambda: output.read_text() == "one\ntwo\n")
        finally:
            os.kill(int(pidfile.read_text()), signal.SIGKILL)


def test_starting_process_is_not_killed_by_a_signal(tmp_path: Path) -> None:
    """HUP ends a program that has not set its handler yet; the agent waits until it has."""
    volume, ready = Volume(tmp_path / "volume", text="one"), tmp_path / "ready"
    slow = (
        "import os, signal, sys, time\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
        "signal.signal(signal.SIGHUP, lambda *_: sys.exit(9))\n"
        "while True: time.sleep(0.01)\n"
    )
    with run_program([sys.executable, "-S", "-c", slow, str(ready)]) as process:
        flags = ("--dir", volume, "--signal", "HUP", "--process", f"command:{ready}")
        with agent(tmp_path, *flags) as running:
            message = running.reaches("failing")["message"]
            assert "has just started and may not handle HUP yet" in message
            assert process.poll() is None
            ready.touch()
            assert process.wait(20) == 9
            running.reaches("told")


#: Programs about to set a handler: one that does, and two that wait for the signal instead.
_BEFORE = "import signal, sys, threading, time\n"
_NEVER = "print(flush=True)\ntime.sleep(60)\n"
_CAUGHT = "signal.signal(signal.SIGHUP, lambda *_: None)\nprint(flush=True)\ntime.sleep(60)\n"
_WAITED = (
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])\n"
    "print(flush=True)\nwhile True: signal.sigwait([signal.SIGHUP])\n"
)
_THREAD_WAITS = (
    "wait = lambda: [signal.sigwait([signal.SIGHUP]) for _ in range(9)]\n"
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])\n"
    "threading.Thread(target=wait, daemon=True).start()\nprint(flush=True)\ntime.sleep(60)\n"
)
#: As libraries start helpers before the program has set its handlers.
_HELPER_BLOCKS = (
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])\n"
    "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])\n"
) + _NEVER


@pytest.mark.parametrize(
    ("program", "age", "is_sent"),
    [
        (_NEVER, 0, False),
        # A loaded node with a cold disk: gunicorn had no handler after five seconds.
        (_NEVER, 55, False),
        (_NEVER, 61, True),
        (_HELPER_BLOCKS, 0, False),
        (_CAUGHT, 0, True),
        (_WAITED, 0, True),
        (_THREAD_WAITS, 0, True),
    ],
)
def test_reload_signal_waits_for_a_handler_for_a_minute(
    monkeypatch: pytest.MonkeyPatch, program: str, age: float, *, is_sent: bool
) -> None:
    """What would kill a program is not sent, unless it has had time to set a handler."""
    with run_program(
        [sys.executable, "-S", "-c", _BEFORE + program], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = identify(process.pid)
        assert found is not None
        now = started_at(found) + age
        monkeypatch.setattr(signals, "since_boot", lambda: now)

        def send() -> bool:
            try:
                signals.send_reload(found, signal.SIGHUP)
            except ProcessError as error:
                assert "may not handle HUP yet" in str(error)
                return False
            return True

        if is_sent:
            eventually(send)
        else:
            assert not send()
        assert (process.wait(10) == -signal.SIGHUP) if age > 60 else (process.poll() is None)


@pytest.mark.parametrize(("program", "is_sent"), [(_NEVER, False), (_WAITED, True)])
def test_signal_that_a_program_ignores_is_not_a_load(program: str, *, is_sent: bool) -> None:
    """Under nohup, or while it executes itself again: the kernel drops the signal."""
    ignores = "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    words = [sys.executable, "-S", "-c", _BEFORE + ignores + program]
    with run_program(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = identify(process.pid)
        assert found is not None
        wchan = Path(f"/proc/{process.pid}/wchan")
        eventually(lambda: wchan.read_text() not in ("", "0"), "sleep")
        if is_sent:
            signals.send_reload(found, signal.SIGHUP)
        else:
            with pytest.raises(ProcessError, match="ignores HUP, so it would load nothing"):
                signals.send_reload(found, signal.SIGHUP)


#: Executes itself again at the signal, and sets its handler once a file is there.
_EXECUTES = """
import os, signal, sys, time
def execute(*_):
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
    os.execv(sys.executable, [sys.executable, "-S", *sys.orig_argv[2:-1], "again"])
while sys.argv[1] == "again" and not os.path.exists("go"): time.sleep(0.01)
signal.signal(signal.SIGHUP, execute)
print(sys.argv[1], flush=True)
time.sleep(60)
"""


def test_program_that_executes_itself_again_gets_no_signal_meanwhile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Celery does at HUP: its handlers are gone for seconds; the process is as old as before."""
    command = [sys.executable, "-S", "-c", _EXECUTES, "first"]
    with run_program(command, stdout=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"first\n"
        found = identify(process.pid)
        assert found is not None
        monkeypatch.setattr(signals, "since_boot", lambda: started_at(found) + 100)
        signals.send_reload(found, signal.SIGHUP)
        cmdline = Path(f"/proc/{process.pid}/cmdline")
        eventually(lambda: cmdline.read_bytes().endswith(b"\0again\0"))
        with pytest.raises(ProcessError, match="may not handle HUP yet"):
            signals.send_reload(found, signal.SIGHUP)
        (tmp_path / "go").touch()
        assert process.stdout.readline() == b"again\n"
        signals.send_reload(found, signal.SIGHUP)
        assert process.stdout.readline() == b"again\n"
        assert process.poll() is None


def test_last_of_many_updates_is_loaded(tmp_path: Path) -> None:
    """1,000 swaps are 1,000 loads or fewer; the last content is loaded, and none is torn."""
    volume = Volume(tmp_path / "volume", text="0")
    with reader(volume.path / "text", tmp_path) as process:
        flags = ("--dir", volume, "--signal", "HUP", "--process", f"pidfile:{process.pidfile}")
        with agent(tmp_path, *flags, "--settle", "0") as running:
            running.reaches("told")
            for number in range(1, 1001):
                volume.write(text=str(number))
            eventually(lambda: process.loads[-1] == "1000")
            running.reaches("told")
            numbers = [int(text) for text in process.loads]
            assert numbers == sorted(numbers)
            assert running.rule()["loads"] <= 1000


def test_identical_content_triggers_nothing(tmp_path: Path) -> None:
    """Ten updates with the same bytes trigger no call."""
    volume = Volume(tmp_path / "volume", text="same")
    with webhook() as endpoint, agent(tmp_path, "--dir", volume, "--url", endpoint.url) as running:
        running.reaches("loaded")
        assert len(endpoint.calls) == 1
        for number in range(1, 11):
            volume.swap()
            eventually(lambda n=number: running.status()["detector"]["updates"] >= n)
        volume.write(text="other")
        eventually(lambda: len(endpoint.calls) > 1)
        running.reaches("loaded")
        assert len(endpoint.calls) == 2


def test_changes_within_the_settle_time_are_one(tmp_path: Path) -> None:
    """Two directories that change one after the other are loaded together, once."""
    first, second = Volume(tmp_path / "a", x="1"), Volume(tmp_path / "b", y="1")
    with webhook() as endpoint:
        flags = ("--dir", first, "--dir", second, "--url", endpoint.url, "--settle", "300ms")
        with agent(tmp_path, *flags) as running:
            running.reaches("loaded")
            first.write(x="2")
            second.write(y="2")
            eventually(lambda: len(endpoint.calls) == 2)
            running.reaches("loaded")
            assert running.rule()["loads"] == 2


def test_change_during_agent_downtime_is_loaded(tmp_path: Path) -> None:
    """With a state file, a start loads what changed meanwhile, and nothing else."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = ("--dir", volume, "--state", tmp_path / "state")
    with webhook() as endpoint:
        with agent(tmp_path, *flags, "--url", endpoint.url) as running:
            running.reaches("loaded")
            assert running.end() == 0
        with agent(tmp_path, *flags, "--url", endpoint.url) as running:
            running.reaches("loaded")
            assert len(endpoint.calls) == 1, "nothing had changed"
            running.end()
        volume.write(text="two")
        with agent(tmp_path, *flags, "--url", endpoint.url) as running:
            running.reaches("loaded")
            assert len(endpoint.calls) == 2


def test_process_restarted_during_agent_downtime_is_signalled(tmp_path: Path) -> None:
    """Meanwhile it read other content, which was reverted before the agent ran again."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = (
        *("--dir", volume, "--state", tmp_path / "state"),
        *("--signal", "HUP", "--process", f"pidfile:{tmp_path}/loaded.pid"),
    )
    with reader(volume.path / "text", tmp_path), agent(tmp_path, *flags) as running:
        running.reaches("told")
        running.end()
        tick()
        volume.write(text="two")
    (tmp_path / "loaded.pid").unlink()
    with reader(volume.path / "text", tmp_path) as process:
        eventually(lambda: process.loads[-1] == "two")
        volume.write(text="one")
        with agent(tmp_path, *flags) as running:
            eventually(lambda: process.loads[-1] == "one")
            running.reaches("told")
        loads = len(process.loads)
        tick()
        with agent(tmp_path, *flags) as running:
            running.reaches("told")
            assert len(process.loads) == loads, "it has run since before the state was written"


def test_exec_gets_the_changed_files(tmp_path: Path) -> None:
    """A command runs without a shell, with the changed files in its environment."""
    volume = Volume(tmp_path / "volume", a="1", b="1")
    script = tmp_path / "script"
    script.write_text(f'#!/bin/sh\necho "$HOTMAP_CHANGED" >> {tmp_path}/seen\n')
    script.chmod(0o755)
    with agent(tmp_path, "--dir", volume, "--exec", script) as running:
        running.reaches("told")
        volume.write(a="1", b="2")
        seen = tmp_path / "seen"
        eventually(lambda: seen.read_text().splitlines()[2:] == [f"{volume}/b"])


def test_exec_runs_with_more_changed_files_than_a_variable_can_hold(tmp_path: Path) -> None:
    """The list ends where the kernel would refuse to start the command, and the rest is counted."""
    volume = Volume(tmp_path / "volume")
    names = [f"{number:03}-{'x' * 240}" for number in range(600)]
    volume.publish(dict.fromkeys(names, b"1"))
    script = tmp_path / "script"
    script.write_text(
        f'#!/bin/sh\necho "$HOTMAP_CHANGED" > {tmp_path}/listed\n'
        f"echo $HOTMAP_CHANGED_OMITTED > {tmp_path}/omitted\n"
    )
    script.chmod(0o755)
    with agent(tmp_path, "--dir", volume, "--exec", script) as running:
        running.reaches("told")
        listed = (tmp_path / "listed").read_text().splitlines()
        assert listed == [f"{volume}/{name}" for name in names[: len(listed)]]
        assert 0 < len(listed) < len(names)
        assert int((tmp_path / "omitted").read_text()) == len(names) - len(listed)
        volume.publish(dict.fromkeys(names, b"1") | {names[0]: b"2"})
        running.reaches("told")
        eventually(lambda: (tmp_path / "listed").read_text() == f"{volume}/{names[0]}\n")
        eventually(lambda: (tmp_path / "omitted").read_text() == "0\n")


def test_actions_run_in_order_and_successful_ones_once(tmp_path: Path) -> None:
    """When the second action fails, the first is not repeated for the same content."""
    volume = Volume(tmp_path / "volume", text="one")
    rules = tmp_path / "rules.toml"
    with webhook() as endpoint:
        endpoint.status = 500
        rules.write_text(
            f"""
            [[rule]]
            name = "all"
            actions = [
              {{ exec = ["sh", "-c", "echo x >> {tmp_path}/first"] }},
              {{ http = "{endpoint.url}", method = "PUT", status = "204" }},
              {{ touch = "{tmp_path}/third" }},
            ]
            """
        )
        with agent(tmp_path, "--dir", volume, "--rules", rules) as running:
            eventually(lambda: len(endpoint.calls) > 2)
            assert not (tmp_path / "third").exists()
            endpoint.status = 204
            running.reaches("loaded")
            assert (tmp_path / "third").exists()
            assert (tmp_path / "first").read_text() == "x\n"
            assert endpoint.calls[0][0] == "PUT"


def test_rule_reacts_to_its_own_files_only(tmp_path: Path) -> None:
    """A change of one file moves only the rules that name it."""
    volume = Volume(tmp_path / "volume", tls__crt="1", app__conf="1")
    rules = tmp_path / "rules.toml"
    rules.write_text(
        f"""
        [[rule]]
        name = "certificates"
        files = ["tls.*"]
        actions = [{{ exec = ["sh", "-c", "echo x >> {tmp_path}/certificates"] }}]
        [[rule]]
        name = "configuration"
        files = ["*.conf"]
        actions = [{{ exec = ["sh", "-c", "echo x >> {tmp_path}/configuration"] }}]
        """
    )
    with agent(tmp_path, "--dir", volume, "--rules", rules) as running:
        running.reaches("told")
        volume.write(tls__crt="2", app__conf="1")
        eventually(lambda: (tmp_path / "certificates").read_text() == "x\nx\n")
        running.reaches("told")
        assert (tmp_path / "configuration").read_text() == "x\n"


def test_process_is_found_by_command_line(tmp_path: Path) -> None:
    """A signal finds its process by a part of the command line, wherever the agent runs."""
    volume = Volume(tmp_path / "volume", text="one")
    with reader(volume.path / "text", tmp_path) as process:
        flags = ("--signal", "SIGHUP", "--process", f"command:{process.output}")
        with agent(tmp_path, "--dir", volume, *flags) as running:
            running.reaches("told")
            volume.write(text="two")
            eventually(lambda: process.loads[-1] == "two")


def test_response_confirms_no_signal_to_another_process(tmp_path: Path) -> None:
    """An endpoint that answers says nothing of a process that was sent a signal."""
    volume = Volume(tmp_path / "volume", text="one")
    with reader(volume.path / "text", tmp_path) as process, webhook() as endpoint:
        flags = ("--signal", "HUP", "--process", f"pidfile:{process.pidfile}")
        with agent(tmp_path, "--dir", volume, *flags, "--url", endpoint.url) as running:
            running.reaches("told")
            volume.write(text="two")
            eventually(lambda: len(endpoint.calls) == 2)
            running.reaches("told")


def test_missing_process_is_reported_and_retried(tmp_path: Path) -> None:
    """While the process is missing, the rule is failing; it is signalled when it exists."""
    volume = Volume(tmp_path / "volume", text="one")
    flags = ("--signal", "HUP", "--process", f"pidfile:{tmp_path}/loaded.pid")
    with agent(tmp_path, "--dir", volume, *flags) as running:
        assert "loaded.pid does not exist" in running.reaches("failing")["message"]
        time.sleep(0.05)  # the kernel counts starts in hundredths of a second
        with reader(volume.path / "text", tmp_path):
            running.reaches("loaded")


def test_reused_process_number_is_not_signalled(tmp_path: Path) -> None:
    """A pid file that is older than the process it names is another process's."""
    volume = Volume(tmp_path / "volume", text="one")
    pidfile = tmp_path / "pid"
    with run_program(["sleep", "60"]) as bystander:
        pidfile.write_text(str(bystander.pid))
        os.utime(pidfile, (1.0, 1.0))
        flags = ("--signal", "TERM", "--process", f"pidfile:{pidfile}")
        with agent(tmp_path, "--dir", volume, *flags) as running:
            assert "names an earlier process" in running.reaches("failing")["message"]
            assert bystander.poll() is None


def test_sighup_checks_at_once(tmp_path: Path) -> None:
    """SIGHUP to the agent drops pauses and asks for another verdict on refused content."""
    volume = Volume(tmp_path / "volume", text="one")
    allowed = tmp_path / "allowed"
    flags = ("--check", f"test -e {allowed}", "--url")
    with webhook() as endpoint, agent(tmp_path, "--dir", volume, *flags, endpoint.url) as running:
        running.reaches("refused")
        allowed.touch()
        running.process.send_signal(signal.SIGHUP)
        running.reaches("loaded")


def test_status_command_prints_the_state(tmp_path: Path) -> None:
    """`hotmap agent status` ends with 0 when all is loaded and 1 when it is not."""
    volume = Volume(tmp_path / "volume", text="one")

    def status() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "hotmap", "agent", "status", "--socket"]
        return subprocess.run(
            [*command, tmp_path / "agent.sock"], capture_output=True, text=True, check=False
        )

    with agent(tmp_path, "--dir", volume, "--not-empty", "text") as running:
        running.reaches("told")
        done = status()
        assert (done.returncode, done.stdout.splitlines()[0]) == (0, "told")
        volume.write(text="")
        running.reaches("refused")
        done = status()
        assert done.returncode == 1
        assert "text is empty" in done.stdout
    assert status().returncode == 1


def test_status_command_finds_the_socket_of_an_injected_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without flags, as in `kubectl exec POD -c hotmap-agent -- hotmap agent status`."""
    sockets = (str(tmp_path / "nowhere.sock"), str(tmp_path / "agent.sock"))
    monkeypatch.setattr(agent_main, "SOCKETS", sockets)
    volume = Volume(tmp_path / "volume", text="one")
    with agent(tmp_path, "--dir", volume) as running:
        running.reaches("told")
        assert agent_main.main(["status"]) == 0
    assert capsys.readouterr().out.startswith("told\n")
    assert agent_main.main(["status"]) == 1
    assert capsys.readouterr().err == (
        f"hotmap agent: there is no socket of an agent at {sockets[0]} or {sockets[1]}; "
        "name it with --socket\n"
    )


def test_checker_is_not_taken_for_the_application(tmp_path: Path) -> None:
    """It is the same program, and starts after the content is there."""
    volume, program = Volume(tmp_path / "volume", text="one"), tmp_path / "hotmap-test-program"
    shutil.copy("/bin/sleep", program)
    flags = (
        *("--dir", volume, "--stage", tmp_path / "stage", "--check", f"{program} 0.5"),
        *("--signal", "HUP", "--process", f"name:{program.name[:15]}", "--retry-max", "50ms"),
    )
    with agent(tmp_path, *flags) as running:
        assert "no process with name" in running.reaches("failing")["message"]
        volume.write(text="two")
        eventually(lambda: running.status()["check"]["counts"]["passed"] == 2)
        assert "no process with name" in running.reaches("failing")["message"]
        assert "adopted" not in running.log


def test_agent_in_a_pid_file_is_reported(tmp_path: Path) -> None:
    """Without a shared process namespace, the application's number is that of the agent."""
    volume = Volume(tmp_path / "volume", text="one")
    pidfile = tmp_path / "pid"
    flags = ("--dir", volume, "--signal", "HUP", "--process", f"pidfile:{pidfile}")
    with agent(tmp_path, *flags) as running:
        pidfile.write_text(str(running.pid))
        eventually(lambda: "is the agent itself" in running.message)
        assert running.rule()["loads"] == 0
