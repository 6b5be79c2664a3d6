"""GET /v1/pod: what the controller reads of an agent, through its own reader."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.agent.agents import Agent, PodFile, Volume, agent, eventually, reader, webhook
from tests.agent.test_announcements import announced

from hotmap.agent.report import pod_document
from hotmap.agent.settings.settings import ALL_CONTAINERS_STATUS
from hotmap.core.status import agent_answers
from hotmap.core.status.agent_answers import AgentAnswer, AgentState, Evidence, read_answer

UID = "4b3c9f6e-1d8e-4a57-9c2a-6a0f5f1f7a11"


def pod_of(folder: Path) -> PodFile:
    """A downwardAPI volume as injection makes it: annotations, and the uid beside them."""
    pod = PodFile(folder / "pod")
    (folder / "pod" / "uid").write_text(f"{UID}\n")
    return pod


def read(running: Agent) -> AgentAnswer:
    status, body = running.get("/v1/pod")
    assert status == 200
    report = read_answer(body.encode(), UID)
    assert report.answer is not None, (report.problem, body)
    return report.answer


def reaches(running: Agent, state: AgentState) -> AgentAnswer:
    def check() -> AgentAnswer | None:
        try:
            answer = read(running)
        except (FileNotFoundError, ConnectionError, IndexError):
            return None
        return answer if answer.worst is state else None

    found: AgentAnswer = eventually(check, f"the pod is {state.value}")
    return found


def test_controller_and_agent_speak_the_same_protocol() -> None:
    assert pod_document.PROTOCOL == agent_answers.PROTOCOL


def test_document_follows_an_edit(tmp_path: Path) -> None:
    """Announced, waiting for its files, loaded; the digest is shown once it is announced."""
    volume, pod = Volume(tmp_path / "volume", text="one"), pod_of(tmp_path)
    with reader(tmp_path / "volume" / "text", tmp_path) as process:
        flags = (
            *("--dir", volume, "--target-file", pod.file, "--signal", "HUP"),
            *("--process", f"pidfile:{process.pidfile}"),
        )
        with agent(tmp_path, *flags) as running:
            first = reaches(running, AgentState.TOLD)
            assert (first.live, first.directories[0].payload) == ("", "")
            pod.annotate(f"1/bb/f1/{announced({'text': 'two'})}/aa/f1")
            second = reaches(running, AgentState.WAITING)
            assert second.live == "bb"
            volume.write(text="two")
            third = reaches(running, AgentState.TOLD)
            (directory,) = third.directories
            assert directory.evidence is Evidence.EXACT
            assert directory.payload == announced({"text": "two"})
            assert directory.age is not None
            assert directory.age < 20
            eventually(lambda: process.loads[-1] == "two")


#: Lets inotify show no event, as in a sandbox whose kernel does not see what a kubelet writes.
NO_EVENTS = """
import hotmap.volume.watcher as watcher
watcher._Inotify.read = lambda self: iter(())
"""


def without_events(folder: Path) -> dict[str, str]:
    """The environment of an agent that sees updates by polls alone."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(NO_EVENTS)
    path = filter(None, (str(folder), os.environ.get("PYTHONPATH")))
    return {**os.environ, "PYTHONPATH": ":".join(path)}


def test_files_that_were_replaced_since_the_last_poll_are_not_loaded(tmp_path: Path) -> None:
    """The agent looks before it answers; an update is as old as it is, not as its reading."""
    volume, pod = Volume(tmp_path / "volume", text="one"), pod_of(tmp_path)
    with webhook() as endpoint:
        flags = (
            *("--dir", volume, "--target-file", pod.file, "--url", endpoint.url),
            *("--poll-interval", "1h"),
        )
        with agent(tmp_path, *flags, env=without_events(tmp_path / "site")) as running:
            reaches(running, AgentState.LOADED)
            volume.write(text="two")
            written = time.monotonic()
            time.sleep(0.5)
            assert read(running).worst is not AgentState.LOADED
            (directory,) = reaches(running, AgentState.LOADED).directories
            assert directory.age is not None
            assert directory.age > 0.4
            assert directory.age < time.monotonic() - written + 1
            assert len(endpoint.calls) == 2


def test_announcement_between_two_polls_is_read_before_the_files(tmp_path: Path) -> None:
    """So that the order of both is evidence."""
    volume, pod = Volume(tmp_path / "volume", text="one"), pod_of(tmp_path)
    flags = ("--dir", volume, "--target-file", pod.file, "--poll-interval", "1h")
    with agent(tmp_path, *flags, env=without_events(tmp_path / "site")) as running:
        reaches(running, AgentState.TOLD)
        pod.annotate("1/bb/f1//aa/f1")
        volume.write(text="two")
        answer = reaches(running, AgentState.TOLD)
        assert (answer.live, answer.directories[0].evidence) == ("bb", Evidence.ORDER)


def test_refusal_shows_the_exit_status_and_no_words(tmp_path: Path) -> None:
    """The output of the checker may quote content; it stays in the pod."""
    volume, pod = Volume(tmp_path / "volume", text="good"), pod_of(tmp_path)
    check = "sh -c 'cat {dir}/text; grep -q good {dir}/text || exit 3'"
    flags = ("--dir", volume, "--target-file", pod.file, "--check", check)
    with agent(tmp_path, *flags) as running:
        reaches(running, AgentState.TOLD)
        volume.write(text="hunter2")
        answer = reaches(running, AgentState.REFUSED)
        assert answer.exit_status == 3
        assert "hunter2" not in running.get("/v1/pod")[1]
        volume.write(text="good again")
        assert reaches(running, AgentState.TOLD).exit_status is None


def test_missing_checker_is_distinguished_from_a_refusal(tmp_path: Path) -> None:
    volume, pod = Volume(tmp_path / "volume", text="one"), pod_of(tmp_path)
    flags = ("--dir", volume, "--target-file", pod.file, "--check", "no-such-checker {dir}")
    with agent(tmp_path, *flags) as running:
        assert reaches(running, AgentState.CHECK_FAILED).exit_status == 127


def test_failed_load_is_shown_until_it_succeeds(tmp_path: Path) -> None:
    volume, pod, gate = Volume(tmp_path / "volume", text="one"), pod_of(tmp_path), tmp_path / "gate"
    gate.touch()
    flags = ("--dir", volume, "--target-file", pod.file, "--exec", f"test -e {gate}")
    with agent(tmp_path, *flags) as running:
        reaches(running, AgentState.TOLD)
        gate.unlink()
        volume.write(text="two")
        reaches(running, AgentState.FAILED)
        gate.touch()
        reaches(running, AgentState.TOLD)


def test_confirmed_load_is_distinguished_from_an_order(tmp_path: Path) -> None:
    """A probe confirms; a signal alone does not. A supervised application shows by its start."""
    volume, pod = Volume(tmp_path / "volume", text="one"), pod_of(tmp_path)
    loaded = (
        f"{sys.executable} -c \"import shutil; shutil.copy('{volume}/text', '{tmp_path}/now')\""
    )
    flags = (
        *("--dir", volume, "--target-file", pod.file, "--exec", loaded),
        *("--verify", f"file {tmp_path}/now"),
    )
    with agent(tmp_path, *flags) as running:
        reaches(running, AgentState.LOADED)
    (tmp_path / "supervised").mkdir()
    words = ("--dir", volume, "--target-file", pod.file, "--", "sleep", "600")
    with agent(tmp_path / "supervised", *words) as running:
        reaches(running, AgentState.LOADED)


def test_secret_digest_is_never_shown(tmp_path: Path) -> None:
    """Only digests that were announced are, and none is announced for a Secret."""
    secret, pod = Volume(tmp_path / "secret", password="hunter2"), pod_of(tmp_path)
    with agent(tmp_path, "--dir", secret, "--target-file", pod.file) as running:
        reaches(running, AgentState.TOLD)
        pod.annotate("1/bb/f1//aa/f1")
        reaches(running, AgentState.WAITING)
        secret.write(password="hunter3")
        (directory,) = reaches(running, AgentState.TOLD).directories
        assert (directory.evidence, directory.payload) == (Evidence.ORDER, "")
        assert announced({"password": "hunter3"}) not in running.get("/v1/pod")[1]


def test_change_of_a_file_that_no_rule_is_about_is_not_loaded(tmp_path: Path) -> None:
    """Nothing makes the process load it, until it is as it was when the pod started."""
    volume, pod = Volume(tmp_path / "volume", users__acl="one", tls__crt="one"), pod_of(tmp_path)
    rules = tmp_path / "rules.toml"
    with webhook() as endpoint:
        rules.write_text(
            "[[rule]]\nname = 'users'\nfiles = ['*.acl']\n"
            f"actions = [{{ http = '{endpoint.url}' }}]\n"
        )
        flags = ("--dir", volume, "--target-file", pod.file, "--rules", rules)
        with agent(tmp_path, *flags) as running:
            reaches(running, AgentState.LOADED)
            volume.write(users__acl="two", tls__crt="one")
            eventually(lambda: len(endpoint.calls) == 2)
            reaches(running, AgentState.LOADED)
            volume.write(users__acl="two", tls__crt="two")
            reaches(running, AgentState.TOLD)
            status = running.status()
            assert (status["state"], "no rule covers them" in status["message"]) == ("told", True)
            assert running.rule("users")["state"] == "loaded"
            volume.write(users__acl="two", tls__crt="one")
            reaches(running, AgentState.LOADED)
            assert len(endpoint.calls) == 2


def test_restart_for_frozen_content_is_shown(tmp_path: Path) -> None:
    """It has failed, and what the pod started with was not restarted for."""
    volume, pod = Volume(tmp_path / "volume", APP_A="1"), pod_of(tmp_path)
    flags = (
        *("--dir", volume, "--target-file", pod.file, "--restart-on", "frozen"),
        *("--restart", "term", "--process", f"pidfile:{tmp_path}/none"),
    )
    with agent(tmp_path, *flags) as running:
        reaches(running, AgentState.TOLD)
        pod.annotate("1/aa/f2//aa/f1")
        eventually(lambda: read(running).restart.state is AgentState.FAILED)
        assert read(running).restart.fingerprint == ""


def test_content_that_was_announced_before_the_agent_is_not_a_restart(tmp_path: Path) -> None:
    """The containers may be older than the announcement, and may have been restarted before it."""
    volume, pod = Volume(tmp_path / "volume", APP_A="1"), pod_of(tmp_path)
    pod.annotate("1/aa/f2//aa/f1")
    flags = (
        *("--dir", volume, "--target-file", pod.file, "--restart-on", "frozen"),
        *("--restart", "term", "--process", f"pidfile:{tmp_path}/none"),
    )
    with agent(tmp_path, *flags) as running:
        reaches(running, AgentState.TOLD)
        found = read(running).restart
        assert (found.state, found.fingerprint) == (AgentState.LOADED, "")


@pytest.mark.parametrize("restarted", [False, True])
def test_next_agent_reports_a_restart_only_if_there_was_one(
    tmp_path: Path, restarted: bool
) -> None:
    """Not for content that the first agent took for what the containers had started with."""
    volume, pod = Volume(tmp_path / "volume", APP_A="1"), pod_of(tmp_path)
    pod.annotate("1/aa/f1")
    flags = (
        *("--dir", volume, "--target-file", pod.file, "--restart-on", "frozen"),
        *("--restart", "all-containers", "--state", tmp_path / "state"),
    )
    with agent(tmp_path, *flags) as first:
        reaches(first, AgentState.TOLD)
        if restarted:
            pod.annotate("2/aa/f2")
            assert first.process.wait(60) == ALL_CONTAINERS_STATUS
        first.end()
    for _ in range(2):
        with agent(tmp_path, *flags) as running:
            reaches(running, AgentState.TOLD)
            found = read(running).restart
            assert (found.state, found.fingerprint) == (
                AgentState.LOADED,
                "f2" if restarted else "",
            )
            running.end()


def test_pending_time_counts_while_a_check_has_not_passed(tmp_path: Path) -> None:
    """Of the directory and of its rule: neither has loaded the current content."""
    volume, pod = Volume(tmp_path / "volume", text="good"), pod_of(tmp_path)
    flags = ("--dir", volume, "--target-file", pod.file, "--check", "grep -q good {dir}/text")
    with agent(tmp_path, *flags) as running:
        reaches(running, AgentState.TOLD)
        volume.write(text="bad")
        reaches(running, AgentState.REFUSED)
        time.sleep(0.05)
        metrics = running.get("/metrics")[1]
        values = {
            line.split()[0]: float(line.split()[1])
            for line in metrics.splitlines()
            if line.startswith(("hotmap_agent_pending", "hotmap_agent_loaded", "hotmap_agent_dir"))
        }
        assert values['hotmap_agent_pending_seconds{rule="default"}'] >= 0.05
        assert values['hotmap_agent_loaded{rule="default"}'] == 0
        assert values[f'hotmap_agent_directory_pending_seconds{{directory="{volume}"}}'] >= 0.05
        assert running.rule()["pending_seconds"] >= 0.05
        volume.write(text="good again")
        reaches(running, AgentState.TOLD)
        assert running.rule()["pending_seconds"] == 0
        assert 'hotmap_agent_told{rule="default"} 1' in running.get("/metrics")[1]


#: Prints what the pod document says at each turn of an agent's loop, before the agent has recorded
#: what has happened in it: until the application has failed to start with the second content.
EACH_TURN = """
import json, sys
from hotmap.agent.agent import Agent
from hotmap.agent.runtime.loop import Loop
from hotmap.agent.settings.flags import parse_arguments
from hotmap.agent.settings.loader import load_settings
from hotmap.core.payload import PayloadFile
from hotmap.volume.atomic_writer import AtomicWriter

agent = Agent(load_settings(parse_arguments(sys.argv[2:])), loop := Loop())
agent._start()
agent._step()
state, is_written = "", False
while state != "failed":
    loop.turn()
    state = json.loads(agent.reporter.respond("/v1/pod")[2])["directories"][0]["state"]
    print(state if is_written else "")
    agent._step()
    if state == "loaded" and not is_written:
        is_written = AtomicWriter(sys.argv[1]).write({"APP_A": PayloadFile(b"bad", 0o644)})
agent._executor.stop(9)
agent._executor.close()
"""


def test_restart_that_was_undone_is_not_loaded_before_the_agent_has_recorded_it(
    tmp_path: Path,
) -> None:
    """A request may be answered in the turn of the loop in which the application exits."""
    Volume(tmp_path / "volume", APP_A="0")
    volume = str(tmp_path / "volume")
    flags = ("--env-from", volume, "--listen", "none", "--poll-interval", "50ms")
    words = ("--", "sh", "-c", "sleep 0.1; test $APP_A != bad || exit 1; exec sleep 600")
    done = subprocess.run(
        [sys.executable, "-c", EACH_TURN, volume, *flags, *words],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    states = done.stdout.split()
    assert states[-1] == "failed"
    assert "loaded" not in states[states.index("restarting") :]


def test_restart_that_may_be_undone_is_not_loaded(tmp_path: Path) -> None:
    """An application that exits soon after its restart is started with what it had before."""
    volume, pod = Volume(tmp_path / "volume", APP_A="0"), pod_of(tmp_path)
    flags = ("--env-from", volume, "--target-file", pod.file, "--min-uptime", "600ms")
    words = ("--", "sh", "-c", "sleep 0.1; test $APP_A != bad || exit 1; exec sleep 600")
    with agent(tmp_path, *flags, *words) as running:
        reaches(running, AgentState.LOADED)
        time.sleep(0.8)
        volume.write(APP_A="1")
        reaches(running, AgentState.RESTARTING)
        reaches(running, AgentState.LOADED)
        found: set[AgentState] = set()

        def failed() -> bool:
            found.add(read(running).worst)
            return AgentState.FAILED in found

        seen = running.status()["application"]["starts"]
        volume.write(APP_A="bad")
        eventually(lambda: running.status()["application"]["starts"] > seen)
        eventually(failed)
        assert AgentState.LOADED not in found


def test_announced_restart_that_may_be_undone_is_not_loaded(tmp_path: Path) -> None:
    """The controller would restart the next pods, which cannot start with the content either."""
    volume, pod = Volume(tmp_path / "volume", mode="good"), pod_of(tmp_path)
    flags = (
        *("--env-from", volume, "--min-uptime", "2s"),
        *("--target-file", pod.file, "--restart-on", "frozen"),
    )
    words = ("--", "sh", "-c", "sleep 0.1; test $mode != bad || exit 1; exec sleep 600")
    pod.annotate("1/aa/f1")
    with agent(tmp_path, *flags, *words) as running:
        eventually(lambda: running.status().get("state") in ("loaded", "told"))
        eventually(lambda: read(running).frozen == "f1")
        time.sleep(2.2)
        volume.write(mode="bad")
        pod.annotate("2/bb/f2")
        eventually(lambda: read(running).frozen == "f2")
        found: set[AgentState] = set()

        def failed() -> bool:
            found.add(read(running).restart.state)
            return AgentState.FAILED in found

        eventually(failed)
        assert AgentState.LOADED not in found
