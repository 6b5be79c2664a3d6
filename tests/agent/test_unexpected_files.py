"""Directories where files should be, files where directories should be: one sentence each.

The agent stays up, and goes on with what does not need them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.agent.agents import PodFile, Volume, agent, eventually, free_port, webhook
from tests.agent.test_settings import complaint
from tests.support.certificates import Authority
from tests.support.requires import requires

from hotmap.agent.report.status_text import format_status


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--token", "cannot read {place}: it is not a regular file"),
        ("--credentials", "cannot read {place}: it is not a regular file"),
        ("--ca", "cannot read {place}: "),
    ],
)
def test_directory_as_call_file_is_reported(tmp_path: Path, flag: str, words: str) -> None:
    """The rule fails in words, the call is not made without it, and it is made once it is there."""
    authority = Authority("an authority")
    volume, place = Volume(tmp_path / "volume", text="one"), tmp_path / "place"
    place.mkdir()
    tls = authority.server_context(tmp_path, "localhost", "127.0.0.1") if flag == "--ca" else None
    with webhook(tls=tls) as endpoint:
        flags = ("--dir", volume, "--url", endpoint.url, flag, place)
        with agent(tmp_path, *flags) as running:
            message = running.reaches("failing")["message"]
            assert words.format(place=place) in message
            assert "\n" not in message
            assert endpoint.calls == []
            place.rmdir()
            place.write_bytes(authority.pem if flag == "--ca" else b"admin:hunter2\n")
            running.reaches("loaded")
            sent = endpoint.calls[0][2].get("Authorization", "")
            assert (
                sent
                == {
                    "--token": "Bearer admin:hunter2",
                    "--credentials": "Basic YWRtaW46aHVudGVyMg==",
                    "--ca": "",
                }[flag]
            )
            assert "hunter2" not in running.log + running.get("/status")[1]


def test_pipe_as_token_does_not_block_the_agent(tmp_path: Path) -> None:
    """Opening it would wait for a writer, and the call is made on the loop."""
    volume, place = Volume(tmp_path / "volume", text="one"), tmp_path / "pipe"
    os.mkfifo(place)
    with webhook() as endpoint:
        flags = ("--dir", volume, "--url", endpoint.url, "--token", place)
        with agent(tmp_path, *flags) as running:
            assert "it is not a regular file" in running.reaches("failing")["message"]
            assert endpoint.calls == []


def test_credentials_are_read_for_each_call(tmp_path: Path) -> None:
    """A rotated password is used at the next call, without a restart."""
    volume, pair = Volume(tmp_path / "volume", text="one"), tmp_path / "pair"
    pair.write_text("admin:first\n")
    with webhook() as endpoint:
        flags = ("--dir", volume, "--url", endpoint.url, "--credentials", pair)
        with agent(tmp_path, *flags) as running:
            running.reaches("loaded")
            pair.write_text("admin:second\n")
            volume.write(text="two")
            eventually(lambda: len(endpoint.calls) == 2)
        sent = [headers["Authorization"] for _, _, headers, _ in endpoint.calls]
    assert sent == ["Basic YWRtaW46Zmlyc3Q=", "Basic YWRtaW46c2Vjb25k"]


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--state", "cannot write {place}: is a directory"),
        ("--socket", "cannot listen on socket {place}: address already in use"),
        (
            "--target-file",
            "cannot read {place}: is a directory; it must be a file of a",
        ),
    ],
)
def test_directory_as_agent_file_is_reported_once(tmp_path: Path, flag: str, words: str) -> None:
    """Said once in the log and for as long as it lasts in the status; content is loaded."""
    volume, place = Volume(tmp_path / "volume", text="one"), tmp_path / "place"
    words = words.format(place=place)
    place.mkdir()
    port = free_port()
    flags = ("--dir", volume, "--touch", tmp_path / "touched", "--listen", f"127.0.0.1:{port}")
    with agent(tmp_path, *flags, flag, place, "--poll-interval", "20ms") as running:
        eventually((tmp_path / "touched").exists)
        if flag != "--socket":
            eventually(
                lambda: [problem for problem in running.status()["problems"] if words in problem]
            )
            assert running.reaches("told")
        eventually(lambda: words in running.log)
        passes = len(running.log)
        volume.write(text="two")
        eventually(lambda: running.log.count("told: reload sent; not confirmed") == 2)
        assert running.log.count(words) == 1
        assert len(running.log) < passes + 1000
    assert place.is_dir()
    left = [path.name for path in tmp_path.glob("place.*")]
    assert left in ([], ["place.lock"]), "no draft of a state is left behind"


def test_file_at_the_socket_path_is_kept(tmp_path: Path) -> None:
    """A mistyped path does not delete a file."""
    volume, precious = Volume(tmp_path / "volume", text="one"), tmp_path / "precious"
    precious.write_text("precious")
    flags = ("--dir", volume, "--socket", precious, "--touch", tmp_path / "touched")
    with agent(tmp_path, *flags) as running:
        eventually((tmp_path / "touched").exists)
        assert f"cannot listen on socket {precious}: address already in use" in running.log
        running.end()
    assert precious.read_text() == "precious"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ("--signal", "HUP", "--process", "pidfile:PLACE"),
            "cannot read pid file {place}: is a directory",
        ),
        (("--touch", "PLACE"), "cannot touch {place}: is a directory"),
        (("--exec", "PLACE"), "permission denied"),
        (("--verify", "log PLACE x"), "cannot read {place}: is a directory"),
    ],
)
def test_directory_as_action_target_is_reported(
    tmp_path: Path, flags: tuple[str, ...], words: str
) -> None:
    """The rule is failing, in one sentence that names the place, and is tried again."""
    volume, place = Volume(tmp_path / "volume", text="one"), tmp_path / "place"
    place.mkdir()
    given = [word.replace("PLACE", str(place)) for word in flags]
    with agent(tmp_path, "--dir", volume, *given, "--verify-timeout", "50ms") as running:
        expected = words.format(place=place)
        # On a busy machine the first attempts may end by the time limit of the probe.
        eventually(lambda: expected in running.message.replace("Permission", "permission"))
        message = running.reaches("failing")["message"]
        assert str(place) in message
        assert "\n" not in message
        eventually(lambda: running.rule()["consecutive_failures"] > 1)


def test_pipe_as_pid_file_is_reported(tmp_path: Path) -> None:
    """It has no writer, and the agent does not wait for one."""
    volume, place = Volume(tmp_path / "volume", text="one"), tmp_path / "place"
    os.mkfifo(place)
    flags = ("--dir", volume, "--signal", "HUP", "--process", f"pidfile:{place}")
    with agent(tmp_path, *flags) as running:
        message = running.reaches("failing")["message"]
        assert message == f"default: pid file {place} contains no process number"
        assert running.end() == 0


def test_pipe_as_touched_file_is_reported(tmp_path: Path) -> None:
    """It has no reader, and the agent does not wait for one."""
    volume, place = Volume(tmp_path / "volume", text="one"), tmp_path / "place"
    os.mkfifo(place)
    with agent(tmp_path, "--dir", volume, "--touch", place) as running:
        message = running.reaches("failing")["message"]
        assert message == f"default: cannot touch {place}: no such device or address"
        assert running.end() == 0


@pytest.mark.parametrize("remains", ["true", "mkdir /proc/1"], ids=["hidepid=2", "hidepid=1"])
def test_processes_that_are_not_shown_are_explained(tmp_path: Path, remains: str) -> None:
    """Of a /proc without the processes of others the reason is not that there are none."""
    requires("root", available=os.geteuid() == 0, reason="mounts need root")
    volume = Volume(tmp_path / "volume", text="one")
    script = f'mount -t tmpfs none /proc && {remains} && exec "$@"'
    alone = ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh")
    flags = ("--dir", volume, "--signal", "HUP", "--process", "name:app")
    with agent(tmp_path, *flags, before=alone) as running:
        message = running.reaches("failing")["message"]
        assert message.endswith("found: /proc does not show all processes to user 0")


def test_file_as_stage_or_work_directory_is_reported(tmp_path: Path) -> None:
    """Content that could not be published or checked triggers no action."""
    volume, place = Volume(tmp_path / "volume", text="one"), tmp_path / "place"
    place.write_text("")
    flags = ("--dir", volume, "--touch", tmp_path / "touched")
    with agent(tmp_path / "1", *flags, "--stage", place) as running:
        assert f"cannot write {tmp_path}" in running.reaches("waiting")["message"]
    with agent(tmp_path / "2", *flags, "--check", "true", "--work-dir", place) as running:
        message = running.reaches("waiting")["message"]
        assert message.startswith(f"cannot write a copy to check in {place}: not a directory; set")
    assert not (tmp_path / "touched").exists()


@pytest.fixture
def mounts() -> None:
    requires("root", available=os.geteuid() == 0, reason="mounts need root")


def with_mount(options: str, place: str) -> tuple[str, ...]:
    """Run what follows with a file system in memory at a place."""
    script = f'mount -t tmpfs -o {options} none {place} && exec "$@"'
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh")


@pytest.mark.usefixtures("mounts")
def test_copy_to_check_is_made_where_there_is_space(tmp_path: Path) -> None:
    """Memory is tried first; content that does not fit there is checked in /tmp."""
    volume = Volume(tmp_path / "volume", text="x" * 100_000)
    flags = ("--dir", volume, "--check", "grep -q x {dir}/text", "--touch", tmp_path / "touched")
    with agent(tmp_path, *flags, before=with_mount("size=16k", "/dev/shm")) as running:
        running.reaches("told")
        volume.write(text="y" * 100_000)
        running.reaches("refused")
        volume.write(text="x")
        running.reaches("told")


@pytest.mark.usefixtures("mounts")
def test_full_file_systems_are_named(tmp_path: Path) -> None:
    """The message says which place is full, and what to do; less content passes later."""
    place, volume = tmp_path / "place", Volume(tmp_path / "volume", text="x" * 100_000)
    place.mkdir()
    full, flags = with_mount("size=16k", str(place)), ("--dir", volume)
    with agent(
        tmp_path / "1", *flags, "--check", "true", "--work-dir", place, before=full
    ) as running:
        assert running.reaches("waiting")["message"] == (
            f"cannot write a copy to check in {place}: no space left on device; set --work-dir to "
            "a directory with enough space that the agent may write, such as an emptyDir"
        )
    with agent(tmp_path / "2", *flags, "--stage", place, before=full) as running:
        assert running.reaches("waiting")["message"] == (
            f"cannot write {place}: no space left on device; --stage takes the size of the "
            "content twice while it is published"
        )
        volume.write(text="x")
        running.reaches("told")


def test_directory_as_rules_file_is_reported(tmp_path: Path) -> None:
    """Refused before anything is watched."""
    words = f"--rules: cannot read {tmp_path}: is a directory"
    assert complaint("--dir", "/etc/app", "--rules", str(tmp_path)) == words


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["agent", "--rules", "/dev/zero"], "--rules: /dev/zero is larger than 1 MiB"),
        (
            ["prometheus-config-reloader", "--config-file=x", "--web-config-file=/dev/zero"],
            "--web-config-file: /dev/zero: larger than 1 MiB",
        ),
    ],
)
def test_endless_settings_are_refused(command: list[str], words: str) -> None:
    """Before they take more memory than a container of an agent has."""
    limited = ["sh", "-c", 'ulimit -v 500000 && exec "$@"', "sh"]
    found = subprocess.run(
        [*limited, sys.executable, "-m", "hotmap", *command],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert found.returncode == 2
    assert found.stderr.rstrip().endswith(words)
    assert len(found.stderr.splitlines()) == 1


def test_missing_target_file_is_reported_until_it_exists(tmp_path: Path) -> None:
    """Without the downwardAPI volume nothing can be announced: a person has to know."""
    volume = Volume(tmp_path / "volume", text="one")
    file = tmp_path / "pod" / "annotations"
    flags = ("--dir", volume, "--target-file", file, "--poll-interval", "20ms")
    with agent(tmp_path, *flags) as running:
        (problem,) = running.reaches("told")["problems"]
        assert problem.startswith(
            f"cannot read {file}: no such file or directory; it must be a file"
        )
        assert f"\n  problem: {problem}\n" in format_status(running.status())
        PodFile(tmp_path / "pod").annotate("1/aa/f1")
        eventually(lambda: running.status()["problems"] == [])
        assert running.status()["target"]["sequence"] == 1


def test_pipe_as_target_file_does_not_block_the_agent(tmp_path: Path) -> None:
    """Changes of the directories are acted upon all the same."""
    volume, pipe = Volume(tmp_path / "volume", text="one"), tmp_path / "annotations"
    os.mkfifo(pipe)
    with agent(tmp_path, "--dir", volume, "--target-file", pipe) as running:
        (problem,) = running.reaches("told")["problems"]
        assert problem.startswith(f"{pipe} is not a regular file; it must be a file of a")
        assert running.end() == 0


def test_links_in_a_revision_are_ignored(tmp_path: Path) -> None:
    """No writer of such volumes makes links, pipes or devices, so they are not content."""
    volume = Volume(tmp_path / "volume", text="one")
    (tmp_path / "outside").write_text("outside")
    revision = volume.path / (volume.path / "..data").readlink()
    (revision / "escape").symlink_to(tmp_path / "outside")
    os.mkfifo(revision / "pipe")
    with agent(tmp_path, "--dir", volume, "--stage", tmp_path / "stage") as running:
        running.reaches("told")
        shown = {path.name for path in (tmp_path / "stage").iterdir() if path.name[:2] != ".."}
        assert shown == {"text"}


def test_json_log_has_one_line_per_transition(tmp_path: Path) -> None:
    """With time, level, event and message; digests and names, and never content."""
    volume = Volume(tmp_path / "volume", password="hunter2-good")
    flags = ("--dir", volume, "--check", "grep -q good {dir}/password", "--exec", "true")
    with agent(tmp_path, *flags, "--log-format", "json") as running:
        running.reaches("told")
        volume.write(password="hunter2-evil")
        running.reaches("refused")
        volume.write(password="hunter2-good again")
        running.reaches("told")
        running.end()
    lines = [json.loads(line) for line in running.log.splitlines()]
    assert [item["event"] for item in lines] == [
        *("started", "changed", "told", "changed", "refused", "changed", "told", "stopping"),
    ]
    assert all({"time", "level", "event", "message"} <= item.keys() for item in lines)
    assert [item["level"] for item in lines].count("warning") == 1
    assert "hunter2" not in running.log


def test_closed_standard_streams_are_not_reused(tmp_path: Path) -> None:
    """A file that got their numbers would receive log lines: the loop takes bytes for signals."""
    volume, started = Volume(tmp_path / "volume", text="one"), tmp_path / "started"
    closed = ("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh")
    words = ("--dir", volume, "--state", tmp_path / "state", "--exec", "cat", "--")
    program = ("sh", "-c", f"echo x >> {started}; exec sleep 600")
    with agent(tmp_path, *words, *program, before=closed) as running:
        eventually(started.exists)
        volume.write(text="two")
        running.reaches("told")
        streams = [Path(f"/proc/{running.pid}/fd/{number}").readlink() for number in range(3)]
        assert streams == [Path("/dev/null")] * 3
        assert running.status()["application"]["starts"] == 1
        assert started.read_text() == "x\n"
