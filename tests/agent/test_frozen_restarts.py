"""Restarts in place for frozen uses, after an announcement."""

from __future__ import annotations

import signal
import socket
import sys
import time
from pathlib import Path

import pytest
from tests.agent.agents import (
    PodFile,
    Volume,
    agent,
    eventually,
    free_port,
    run_program,
    webhook,
)

SLEEP = "import time; time.sleep(600)"


def test_supervised_application_is_restarted_once(tmp_path: Path) -> None:
    """First sight adopts; another live part does nothing; another frozen part restarts."""
    volume, pod = Volume(tmp_path / "volume", APP_A="1"), PodFile(tmp_path / "pod")
    pod.annotate("1/aa/f1")
    flags = ("--env-from", volume, "--target-file", pod.file, "--restart-on", "frozen")
    with agent(tmp_path, *flags, "--", "sleep", "600") as running:
        running.reaches("loaded")
        pod.annotate("2/bb/f1")
        eventually(lambda: running.status()["target"]["sequence"] == 2)
        assert running.status()["application"]["starts"] == 1
        pod.annotate("3/bb/f2")
        eventually(lambda: running.status()["application"]["starts"] == 2)
        running.reaches("loaded")


def test_one_restart_for_an_update_and_its_announcement(tmp_path: Path) -> None:
    """The announcement is read at once, the update after its settle time."""
    volume, pod = Volume(tmp_path / "volume", APP_A="1"), PodFile(tmp_path / "pod")
    pod.annotate("1/aa/f1")
    flags = (
        *("--env-from", volume, "--target-file", pod.file, "--restart-on", "frozen"),
        *("--settle", "500ms"),
    )
    with agent(tmp_path, *flags, "--", "sleep", "600") as running:
        running.reaches("loaded")
        volume.write(APP_A="2")
        pod.annotate("2/bb/f2")
        eventually(lambda: running.log.count("application: restarted") == 1)
        running.reaches("loaded")
        eventually(lambda: "content changed" in running.log)
        time.sleep(0.5)
        assert running.status()["application"]["starts"] == 2


@pytest.mark.parametrize("gap", [0.0, 0.01, 0.05])
def test_one_restart_for_an_announcement_and_the_update_after_it(
    tmp_path: Path, gap: float
) -> None:
    """A kubelet writes both volumes in any order."""
    volume, pod = Volume(tmp_path / "volume", APP_A="1"), PodFile(tmp_path / "pod")
    pod.annotate("1/aa/f1")
    flags = (
        *("--env-from", volume, "--target-file", pod.file, "--restart-on", "frozen"),
        *("--settle", "1s"),
    )
    with agent(tmp_path, *flags, "--", "sleep", "600") as running:
        running.reaches("loaded")
        pod.annotate("2/bb/f2")
        time.sleep(gap)
        volume.write(APP_A="2")
        eventually(lambda: running.rule("frozen")["loaded"] == "f2")
        running.reaches("loaded")
        assert running.status()["application"]["starts"] == 2
        pod.annotate("3/cc/f3")
        eventually(lambda: running.rule("frozen")["loaded"] == "f3", "without any update")
        assert running.status()["application"]["starts"] == 3


def test_restart_waits_for_files_that_cannot_be_read(tmp_path: Path) -> None:
    """The application would start without them, and no reading shows that."""
    folder, away, pod = tmp_path / "plain", tmp_path / "away", PodFile(tmp_path / "pod")
    folder.mkdir()
    (folder / "text").write_text("one\n")
    pod.annotate("1/aa/f1")
    flags = (
        *("--dir", folder, "--target-file", pod.file, "--restart-on", "frozen"),
        *("--poll-interval", "50ms"),
    )
    script = f"cat {folder}/text >> {tmp_path}/starts || echo none >> {tmp_path}/starts; sleep 600"

    def starts() -> list[str]:
        path = tmp_path / "starts"
        return path.read_text().split() if path.exists() else []

    with agent(tmp_path, *flags, "--", "sh", "-c", script) as running:
        running.reaches("loaded")
        eventually(lambda: starts() == ["one"])
        folder.rename(away)
        running.reaches("waiting")
        pod.annotate("2/bb/f2")
        eventually(lambda: running.status()["target"]["sequence"] == 2)
        running.rests()
        away.rename(folder)
        eventually(lambda: running.rule("frozen")["loaded"] == "f2")
        running.reaches("loaded")
        eventually(lambda: starts() == ["one", "one"])


def test_agent_exits_to_restart_all_containers(tmp_path: Path) -> None:
    """The agent drains, then ends with the status that the pod's restart rule names; once."""
    volume, pod = Volume(tmp_path / "volume", text="one"), PodFile(tmp_path / "pod")
    pod.annotate("1/aa/f1")
    with webhook() as drain:
        flags = (
            *("--dir", volume, "--target-file", pod.file, "--state", tmp_path / "state"),
            *("--restart-on", "frozen", "--restart", "all-containers", "--drain-url", drain.url),
        )
        with agent(tmp_path, *flags) as running:
            running.reaches("told")
            pod.annotate("2/aa/f2")
            assert running.process.wait(20) == 88
            assert len(drain.calls) == 1
            assert "restart of all containers requested; not confirmed" in running.log
            assert "content loaded" not in running.log
        with agent(tmp_path, *flags) as running:
            running.reaches("told")
            assert running.process.poll() is None, "it started with what was announced"


def test_main_process_of_another_container_is_terminated(tmp_path: Path) -> None:
    """TERM, or KILL after the grace period; its parent starts it again."""
    volume, pod = Volume(tmp_path / "volume", text="one"), PodFile(tmp_path / "pod")
    pod.annotate("1/aa/f1")
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    with run_program([sys.executable, "-S", "-c", deaf, str(tmp_path / "mark")]) as process:
        flags = (
            *("--dir", volume, "--target-file", pod.file, "--restart-on", "frozen"),
            *("--restart", "term", "--process", f"command:{tmp_path}/mark", "--grace", "200ms"),
        )
        with agent(tmp_path, *flags) as running:
            running.reaches("told")
            assert process.poll() is None
            pod.annotate("2/aa/f2")
            assert process.wait(20) == -9
            running.rests()
            assert running.rule("frozen")["state"] == "pending", "nothing has started with it yet"
            successor = [sys.executable, "-S", "-c", SLEEP, str(tmp_path / "mark")]
            with run_program(successor):
                eventually(lambda: running.rule("frozen")["state"] == "loaded")


def test_container_restarted_by_itself_is_not_terminated(tmp_path: Path) -> None:
    """A process that began well after the announcement has the new content; it is not ended."""
    volume, pod = Volume(tmp_path / "volume", text="one"), PodFile(tmp_path / "pod")
    pod.annotate("1/aa/f1")
    flags = (
        *("--dir", volume, "--target-file", pod.file, "--restart-on", "frozen"),
        *("--restart", "term", "--process", f"command:{tmp_path}/mark"),
    )
    with agent(tmp_path, *flags) as running:
        running.reaches("told")
        pod.annotate("2/aa/f2")
        assert "no process with command" in running.reaches("failing")["message"]
        time.sleep(2.5)  # the kubelet may hear of a source this much later than we
        with run_program(
            [sys.executable, "-S", "-c", "import time; time.sleep(60)", str(tmp_path / "mark")]
        ) as process:
            running.reaches("told")
            assert process.poll() is None


def test_announcement_during_agent_downtime_restarts(tmp_path: Path) -> None:
    """With a state file, a frozen change during downtime is not lost."""
    volume, pod = Volume(tmp_path / "volume", text="one"), PodFile(tmp_path / "pod")
    pod.annotate("1/aa/f1")
    flags = (
        *("--dir", volume, "--target-file", pod.file, "--state", tmp_path / "state"),
        *("--restart-on", "frozen", "--restart", "all-containers"),
    )
    with agent(tmp_path, *flags) as running:
        running.reaches("told")
        running.end()
    pod.annotate("2/aa/f2")
    with agent(tmp_path, *flags) as running:
        assert running.process.wait(20) == 88


def test_first_announcement_during_agent_downtime_restarts(tmp_path: Path) -> None:
    """The state file shows that an agent has run before it."""
    volume, pod = Volume(tmp_path / "volume", text="one"), PodFile(tmp_path / "pod")
    flags = (
        *("--dir", volume, "--target-file", pod.file, "--state", tmp_path / "state"),
        *("--restart-on", "frozen", "--restart", "term", "--process", f"command:{tmp_path}/mark"),
    )
    with run_program([sys.executable, "-S", "-c", SLEEP, str(tmp_path / "mark")]) as process:
        with agent(tmp_path, *flags) as running:
            running.reaches("told")
            running.end()
        pod.annotate("1/aa/f1//aa/f1")
        with agent(tmp_path, *flags) as running:
            running.reaches("told")
            eventually(lambda: running.status()["target"]["sequence"] == 1)
            assert process.poll() is None, "only files have changed"
            running.end()
        (tmp_path / "state").unlink()
        pod.annotate(None)
        with agent(tmp_path, *flags) as running:
            running.reaches("told")
            running.end()
        pod.annotate("2/aa/f2//aa/f1")
        with agent(tmp_path, *flags):
            assert process.wait(20) == -15


def test_first_announcement_of_a_pod_restarts(tmp_path: Path) -> None:
    """It says what the pod started with; only a frozen part that is another one restarts."""
    volume, pod = Volume(tmp_path / "volume", APP_A="1"), PodFile(tmp_path / "pod")
    flags = ("--env-from", volume, "--target-file", pod.file, "--restart-on", "frozen")
    with agent(tmp_path, *flags, "--", "sleep", "600") as running:
        running.reaches("loaded")
        pod.annotate("1/bb/f1//aa/f1")
        eventually(lambda: running.status()["target"]["sequence"] == 1)
        assert running.status()["application"]["starts"] == 1
        pod.annotate("2/bb/f2")
        eventually(lambda: running.status()["application"]["starts"] == 2)
    (tmp_path / "second").mkdir()
    pod = PodFile(tmp_path / "second" / "pod")
    flags = ("--env-from", volume, "--target-file", pod.file, "--restart-on", "frozen")
    with agent(tmp_path / "second", *flags, "--", "sleep", "600") as running:
        running.reaches("loaded")
        pod.annotate("1/aa/f2//aa/f1")
        eventually(lambda: running.status()["application"]["starts"] == 2)
        running.reaches("loaded")


@pytest.mark.parametrize("way", ["splay", "drain"])
def test_rules_that_restart_the_application_share_a_restart(tmp_path: Path, way: str) -> None:
    """Each waits for another time, and the first restart is sufficient for both."""
    volume, pod = Volume(tmp_path / "volume", APP_A="1"), PodFile(tmp_path / "pod")
    pod.annotate("1/aa/f1")
    with webhook() as drain:
        flags = (
            *("--env-from", volume, "--target-file", pod.file, "--restart-on", "frozen"),
            *(("--splay", "2s") if way == "splay" else ("--drain-url", drain.url)),
        )
        with agent(tmp_path, *flags, "--settle", "200ms", "--", "sleep", "600") as running:
            for number in range(2, 5):
                running.reaches("loaded")
                volume.write(APP_A=str(number))
                pod.annotate(f"{number}/live-{number}/frozen-{number}")
                eventually(lambda n=number: running.rule("frozen")["loaded"] == f"frozen-{n}")
                running.reaches("loaded")
                assert running.status()["application"]["starts"] == number


#: Reports how often it was drained; the one that started with APP_A=1 takes forever.
DRAINED = """
import http.server, os, sys, time

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        if os.environ["APP_A"] == "1":
            time.sleep(600)
        with open(sys.argv[2], "a") as file: file.write("drained\\n")
        self.send_response(200)
        self.end_headers()

class Server(http.server.ThreadingHTTPServer):
    allow_reuse_address = True

Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_no_application_is_drained_that_is_not_restarted(tmp_path: Path) -> None:
    """Another rule restarted it while it drained, and nothing would end the drain of the next."""
    volume, pod = Volume(tmp_path / "volume", APP_A="1"), PodFile(tmp_path / "pod")
    pod.annotate("1/aa/f1")
    port, drained = free_port(), tmp_path / "drained"
    flags = (
        *("--env-from", volume, "--target-file", pod.file, "--restart-on", "frozen"),
        *("--drain-url", f"http://127.0.0.1:{port}/", "--settle", "200ms"),
    )
    command = ("--", sys.executable, "-S", "-c", DRAINED, str(port), str(drained))
    with agent(tmp_path, *flags, *command) as running:
        running.reaches("loaded")
        eventually(lambda: is_listening(port))
        volume.write(APP_A="2")
        pod.annotate("2/bb/f2")
        eventually(lambda: running.rule("frozen")["loaded"] == "f2")
        running.reaches("loaded")
        assert running.status()["application"]["starts"] == 2
        eventually(lambda: is_listening(port))
        assert not drained.exists()
        pod.annotate("3/bb/f3")
        eventually(lambda: running.rule("frozen")["loaded"] == "f3")
        assert drained.exists()
        assert running.status()["application"]["starts"] == 3


def is_listening(port: int) -> bool:
    """Whether a connection is accepted."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def test_restart_waits_for_refused_files_that_are_checked_again(tmp_path: Path) -> None:
    """At SIGHUP; the check before was longer ago than one may take."""
    volume, pod = Volume(tmp_path / "volume", text="one"), PodFile(tmp_path / "pod")
    pod.annotate("1/aa/f1")
    flags = (
        *("--dir", volume, "--target-file", pod.file, "--restart-on", "frozen"),
        *("--check", f"sh -c 'echo >> {tmp_path}/checks; ! grep refused {{dir}}/text'"),
        *("--check-timeout", "500ms"),
    )
    with agent(tmp_path, *flags, "--", "sleep", "600") as running:
        running.reaches("loaded")
        volume.write(text="refused")
        running.reaches("refused")
        pod.annotate("2/bb/f2")
        eventually(lambda: running.status()["target"]["sequence"] == 2)
        time.sleep(0.6)
        running.process.send_signal(signal.SIGHUP)
        eventually(lambda: len((tmp_path / "checks").read_text()) == 3)
        running.reaches("refused")
        assert running.status()["application"]["starts"] == 1
        volume.write(text="two")
        eventually(lambda: running.rule("frozen")["loaded"] == "f2")
        assert running.status()["application"]["starts"] == 2


def test_restart_waits_for_files_whose_check_ends_without_success(tmp_path: Path) -> None:
    """For longer than a check may take: it has passed nothing."""
    volume, pod = Volume(tmp_path / "volume", text="one"), PodFile(tmp_path / "pod")
    pod.annotate("1/aa/f1")
    flags = (
        *("--dir", volume, "--target-file", pod.file, "--restart-on", "frozen"),
        *("--check", "sh -c 'if grep hang {dir}/text; then sleep 60; fi'"),
        *("--check-timeout", "300ms"),
    )
    with agent(tmp_path, *flags, "--", "sleep", "600") as running:
        running.reaches("loaded")
        volume.write(text="hang")
        pod.annotate("2/bb/f2")
        eventually(lambda: running.status()["target"]["sequence"] == 2)
        eventually(lambda: running.status()["check"]["counts"]["error"] >= 2)
        assert running.status()["application"]["starts"] == 1
