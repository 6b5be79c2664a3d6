"""Content that is refused is neither loaded nor published, and is reported."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.agent.agents import Volume, agent, eventually, reader, tick, webhook
from tests.support.volumes import visible

from hotmap.agent.report.status_text import format_status
from hotmap.core.payload import PayloadFile
from hotmap.volume.atomic_writer import AtomicWriter

#: A checker as programs have it: it wants a file that says "good".
CHECK = "grep -q good {dir}/text"


def test_refused_content_triggers_nothing(tmp_path: Path) -> None:
    """The old content stays loaded; status, metrics, log and readiness show what is wrong."""
    volume = Volume(tmp_path / "volume", text="good 1")
    with webhook() as endpoint:
        flags = ("--dir", volume, "--url", endpoint.url, "--check", CHECK)
        with agent(tmp_path, *flags) as running:
            loaded = running.reaches("loaded")["rules"][0]["loaded"]
            volume.write(text="evil")
            status = running.reaches("refused")
            assert status["check"]["state"] == "refused"
            assert status["rules"][0]["loaded"] == loaded
            assert "hotmap_agent_check_passed 0" in running.get("/metrics")[1]
            assert running.get("/readyz")[0] == 200, "the last good content still works"
            volume.write(text="good 2")
            running.reaches("loaded")
            assert len(endpoint.calls) == 2
            assert "hotmap_agent_check_passed 1" in running.get("/metrics")[1]


def test_check_output_names_the_mounted_path(tmp_path: Path) -> None:
    """A person reads the checker's own words, with the path that they know."""
    volume = Volume(tmp_path / "volume", text="evil")
    check = "sh -c 'echo no good: {dir}/text; exit 1'"
    with agent(tmp_path, "--dir", volume, "--check", check) as running:
        assert running.reaches("refused")["check"]["error"] == f"no good: {volume}/text"


def test_check_output_names_the_mounted_path_of_many(tmp_path: Path) -> None:
    """The copy of the eleventh has a name that begins with that of the second."""
    volumes = [Volume(tmp_path / f"v{number}", text="x") for number in range(1, 12)]
    check = "sh -c 'echo no good: {dir2}/text {dir11}/text; exit 1'"
    flags = [word for volume in volumes for word in ("--dir", volume)]
    with agent(tmp_path, *flags, "--check", check) as running:
        error = running.reaches("refused")["check"]["error"]
        assert error == f"no good: {tmp_path}/v2/text {tmp_path}/v11/text"


def test_check_output_is_printed_once_by_status(tmp_path: Path) -> None:
    """At the top, with its own lines; every other fact has a line that fits a terminal."""
    volume = Volume(tmp_path / "volume", text="evil")
    check = "sh -c 'echo first; echo second; exit 1'"
    with agent(tmp_path, "--dir", volume, "--check", check) as running:
        status = running.reaches("refused")
        title, *told = format_status(status).splitlines()
        assert title == f"refused: {status['message']}"
        assert told[:2] == ["  check refused: first", "    second"]
        assert "first" not in "".join(told[2:])
        assert told[2] == f"  {volume}: projected, detected by inotify"
        assert told[3].startswith("    projected ")
        assert told[4].startswith("    loaded    -")


def test_output_of_an_action_is_shown_with_its_rule(tmp_path: Path) -> None:
    """The directories that the rule is about do not repeat it."""
    volume = Volume(tmp_path / "volume", text="one")
    with agent(tmp_path, "--dir", volume, "--exec", "sh -c 'echo first; exit 1'") as running:
        _, *told = format_status(running.reaches("failing")).splitlines()
        assert sum("first" in line for line in told) == 1


def test_check_output_is_limited_to_its_end(tmp_path: Path) -> None:
    """A checker that writes a book fills neither memory nor status; its last words count."""
    volume = Volume(tmp_path / "volume", text="evil")
    check = "sh -c 'yes line | head -c 10000000; echo; echo the reason; exit 1'"
    with agent(tmp_path, "--dir", volume, "--check", check) as running:
        error = running.reaches("refused")["check"]["error"]
        assert error.endswith("the reason")
        assert len(error) <= 4096
        size = next(
            int(line.split()[1])
            for line in Path(f"/proc/{running.pid}/status").read_text().splitlines()
            if line.startswith("VmHWM:")
        )
        assert size < 24 << 10, "KiB, at its largest: 10 MB were never kept"


def test_check_runs_on_a_copy_of_all_directories(tmp_path: Path) -> None:
    """{dir}, {dir2} … are copies of one consistent reading, and are gone afterwards."""
    first, second = Volume(tmp_path / "a", x="1"), Volume(tmp_path / "b", y="2")
    work = tmp_path / "work"
    work.mkdir()
    check = "sh -c 'cat {dir}/x {dir2}/y > " + str(tmp_path / "seen") + "; ls -d {dir}'"
    flags = ("--dir", first, "--dir", second, "--check", check, "--work-dir", work)
    with agent(tmp_path, *flags) as running:
        running.reaches("told")
        assert (tmp_path / "seen").read_text() == "12"
        running.end()
    assert list(work.iterdir()) == []


@pytest.mark.parametrize(
    ("end", "state"),
    [
        ("exit 126", "waiting"),
        ("exit 127", "waiting"),
        ("exit 137", "waiting"),
        ("kill -KILL $$", "waiting"),
        ("exit 128", "refused"),
        ("exit 255", "refused"),
    ],
)
def test_exit_status_that_says_nothing_of_a_signal_refuses(
    tmp_path: Path, end: str, state: str
) -> None:
    """sshd and php end with 255 where they refuse content, git with 128; no signal does."""
    volume = Volume(tmp_path / "volume", text="one")
    with agent(tmp_path, "--dir", volume, "--check", f"sh -c '{end}'") as running:
        running.reaches(state)


def test_check_timeout_is_not_a_refusal(tmp_path: Path) -> None:
    """It is killed and asked again; once it answers, the content is loaded."""
    volume, quick = Volume(tmp_path / "volume", text="one"), tmp_path / "quick"
    check = f"sh -c 'test -e {quick} || sleep 60'"
    flags = ("--dir", volume, "--check", check, "--check-timeout", "500ms")
    with agent(tmp_path, *flags) as running:
        eventually(lambda: "timed out after 0.5s" in running.message)
        quick.touch()
        running.reaches("told")


def test_missing_checker_is_reported(tmp_path: Path) -> None:
    """Nothing is loaded unchecked; the sentence names the program."""
    volume = Volume(tmp_path / "volume", text="one")
    with agent(tmp_path, "--dir", volume, "--check", "no-such-program {dir}") as running:
        eventually(lambda: "no-such-program: no such program" in running.message)
        assert running.status()["rules"][0]["loaded"] is None


@pytest.mark.parametrize(
    ("flags", "bad", "words"),
    [
        (("--max-size", "4"), {"text": "12345"}, "text has 5 bytes, the maximum is 4"),
        (("--syntax", "*.json=json"), {"a__json": '{"key": hunter2}'}, "line 1, column 9"),
    ],
    ids=["large", "json"],
)
def test_built_in_checks(
    tmp_path: Path, flags: tuple[str, str], bad: dict[str, str], words: str
) -> None:
    """Size, emptiness and syntax are checked by the agent itself; no value is quoted."""
    volume = Volume(tmp_path / "volume", text="1", a__json="{}")
    with agent(tmp_path, "--dir", volume, *flags) as running:
        running.reaches("told")
        volume.write(**bad)
        assert words in running.reaches("refused")["check"]["error"]
        assert "hunter2" not in running.log + running.get("/status")[1]


def test_stage_has_only_content_that_passed(tmp_path: Path) -> None:
    """The application reads the stage, which has good content or none; never bad, never half."""
    volume, stage = Volume(tmp_path / "volume", text="evil"), tmp_path / "stage"
    flags = ("--dir", volume, "--stage", stage, "--check", CHECK)
    with agent(tmp_path, *flags) as running:
        running.reaches("refused")
        assert running.get("/startupz")[0] == 503
        assert not (stage / "text").exists()
        volume.write(text="good", more="x")
        running.reaches("told")
        assert visible(stage) == {"text": b"good", "more": b"x"}
        volume.write(text="evil")
        running.reaches("refused")
        assert visible(stage) == {"text": b"good", "more": b"x"}


def test_stage_survives_a_kill(tmp_path: Path) -> None:
    """An agent that is killed and comes back to bad content leaves the good one published."""
    volume, stage = Volume(tmp_path / "volume", text="good"), tmp_path / "stage"
    flags = ("--dir", volume, "--stage", stage, "--check", CHECK)
    with agent(tmp_path, *flags) as running:
        running.reaches("told")
        running.process.kill()
    volume.write(text="evil")
    with agent(tmp_path, *flags) as running:
        running.reaches("refused")
        assert visible(stage) == {"text": b"good"}
        volume.write(text="good again")
        running.reaches("told")
        assert visible(stage) == {"text": b"good again"}


#: Notes what it reads when it starts.
READER = """
import sys, time
with open(sys.argv[1] + "/text") as file: text = file.read()
with open(sys.argv[2], "a") as file: file.write(text + "\\n")
time.sleep(600)
"""


def read_by(notes: Path) -> list[str]:
    return notes.read_text().splitlines() if notes.exists() else []


@pytest.mark.parametrize("has_state", [False, True], ids=["no state file", "state file"])
@pytest.mark.parametrize("then", ["good again", "good"])
def test_application_starts_from_the_stage_while_other_content_is_refused(
    tmp_path: Path, then: str, has_state: bool
) -> None:
    """Its container starts again, as after an end of the application."""
    volume, stage, notes = (
        Volume(tmp_path / "volume", text="good"),
        tmp_path / "stage",
        tmp_path / "n",
    )
    state = ("--state", tmp_path / "state") if has_state else ()
    flags = ("--dir", volume, "--stage", stage, "--check", CHECK, *state)
    flags += ("--", sys.executable, "-S", "-c", READER, stage, notes)
    with agent(tmp_path, *flags) as running:
        running.reaches("loaded")
        eventually(lambda: read_by(notes) == ["good"])
    volume.write(text="evil")
    with agent(tmp_path, *flags) as running:
        running.reaches("refused")
        eventually(lambda: read_by(notes) == ["good", "good"])
        assert running.get("/startupz")[0] == 200
        assert running.get("/readyz")[0] == 503
        assert "starting with the content that was published last" in running.log
        volume.write(text=then)
        running.reaches("loaded")
        eventually(lambda: read_by(notes) == ["good", "good", then])


@pytest.mark.parametrize("filled", [True, False], ids=["variables of files", "an empty stage"])
def test_application_that_cannot_start_from_the_stage_waits(tmp_path: Path, filled: bool) -> None:
    """Variables are not published, so those that passed last are not known."""
    volume, stage, notes = (
        Volume(tmp_path / "volume", text="evil"),
        tmp_path / "stage",
        tmp_path / "n",
    )
    variables: tuple[object, ...] = ()
    if filled:
        Volume(stage, text="good")
        variables = ("--env-from", volume)
    flags = ("--dir", volume, "--stage", stage, "--check", CHECK, *variables)
    program = ("--", sys.executable, "-S", "-c", READER, stage, notes)
    with agent(tmp_path, *flags, *program) as running:
        running.reaches("refused")
        time.sleep(0.3)
        assert read_by(notes) == []
        assert running.get("/startupz")[0] == 503


@pytest.mark.parametrize(
    "command",
    [
        "rm stage/text",
        "rm -r stage/..?* stage/*",
        "rm stage/..data/text",
        "rm stage/..data",
        "echo evil >stage/text",
        "sed -i s/good/evil/ stage/text",
        "mv stage/text stage/other",
    ],
)
def test_altered_stage_is_published_again(tmp_path: Path, command: str) -> None:
    """At the next poll; no endpoint is called, since what is mounted has not changed."""
    volume, stage = Volume(tmp_path / "volume", text="good", more="x"), tmp_path / "stage"
    flags = ("--dir", volume, "--stage", stage, "--check", CHECK, "--poll-interval", "50ms")
    with webhook() as endpoint, agent(tmp_path, *flags, "--url", endpoint.url) as running:
        running.reaches("loaded")
        subprocess.run(["sh", "-ec", command], cwd=tmp_path, check=True)
        what = "another program has changed published files: they are published again"
        eventually(lambda: what in running.log)
        running.reaches("loaded")
        assert visible(stage)["text"] == b"good"
        assert visible(stage)["more"] == b"x"
        volume.write(text="good too", more="x")
        eventually(lambda: len(endpoint.calls) == 2)
        assert (stage / "text").read_bytes() == b"good too"
        time.sleep(0.2)
        assert running.log.count(what) == 1


def test_other_files_and_owners_of_a_stage_are_left(tmp_path: Path) -> None:
    """An application may add files of its own and change owners at each start."""
    volume, stage = Volume(tmp_path / "volume", text="good"), tmp_path / "stage"
    flags = ("--dir", volume, "--stage", stage, "--poll-interval", "50ms")
    with agent(tmp_path, *flags) as running:
        running.reaches("told")
        (stage / "own").write_text("x")
        (stage / "text").chmod(0o640)
        time.sleep(0.2)
        assert "another program" not in running.log
        assert (stage / "own").exists()


def test_process_that_read_an_altered_stage_is_told_again(tmp_path: Path) -> None:
    """It started meanwhile; one that has run all the time is left alone."""
    volume, stage = Volume(tmp_path / "volume", text="good"), tmp_path / "stage"
    flags = ("--dir", volume, "--stage", stage, "--check", CHECK, "--signal", "HUP")
    process = ("--process", f"pidfile:{tmp_path}/loaded.pid")
    # After that, it has read its files.
    with agent(tmp_path, *flags, *process, "--verify-timeout", "1ms") as running:
        eventually((stage / "text").exists)
        with reader(stage / "text", tmp_path) as first:
            eventually(lambda: running.get("/readyz")[0] == 200)
            tick()
            running.process.send_signal(signal.SIGHUP)  # polls at once
            eventually(lambda: running.log.count("(SIGHUP)") == 1)
            running.rests()
            loads = list(first.loads)
            (stage / "text").write_text("evil")
            running.process.send_signal(signal.SIGHUP)
            eventually(lambda: running.log.count("process still has it") == 1)
            assert visible(stage)["text"] == b"good"
            assert first.loads == loads
            (stage / "text").write_text("evil")
            first.pidfile.unlink()
            with reader(stage / "text", tmp_path) as second:
                running.process.send_signal(signal.SIGHUP)
                eventually(lambda: second.loads[-2:] == ["evil", "good"])


def test_altered_stage_is_published_once_content_passes(tmp_path: Path) -> None:
    """Refused content is mounted; then the content that passed before it returns."""
    volume, stage = Volume(tmp_path / "volume", text="good"), tmp_path / "stage"
    flags = ("--dir", volume, "--stage", stage, "--check", CHECK, "--poll-interval", "50ms")
    with agent(tmp_path, *flags) as running:
        running.reaches("told")
        volume.write(text="bad")
        running.reaches("refused")
        (stage / "text").unlink()
        eventually(lambda: "they stay changed until content passes its check" in running.log)
        assert running.status()["state"] == "refused"
        volume.write(text="good")
        running.reaches("told")
        assert visible(stage) == {"text": b"good"}


def test_stage_has_a_subdirectory_for_each_of_several(tmp_path: Path) -> None:
    """With more than one directory the stage has one folder for each, by its name."""
    first, second = Volume(tmp_path / "conf", x="1"), Volume(tmp_path / "certs", y="2")
    stage = tmp_path / "stage"
    with agent(tmp_path, "--dir", first, "--dir", second, "--stage", stage) as running:
        running.reaches("told")
        assert visible(stage / "conf") == {"x": b"1"}
        assert visible(stage / "certs") == {"y": b"2"}


@pytest.mark.parametrize(("text", "status"), [("good", 0), ("evil", 1)])
def test_once_checks_publishes_and_exits(tmp_path: Path, text: str, status: int) -> None:
    """As an init container: 0 when the stage is filled, 1 when the check failed."""
    volume, stage = Volume(tmp_path / "volume", text=text), tmp_path / "stage"
    with agent(tmp_path, "--dir", volume, "--stage", stage, "--check", CHECK, "--once") as running:
        assert running.process.wait(20) == status
    assert (stage / "text").exists() == (status == 0)


def test_once_ends_where_there_is_nothing_to_check(tmp_path: Path) -> None:
    """An init container that waits forever shows no error."""
    flags = ("--dir", tmp_path / "missing", "--once", "--check-timeout", "300ms")
    with agent(tmp_path, *flags) as running:
        assert running.process.wait(20) == 1
        assert f"nothing to check after 0.3s: {tmp_path}/missing does not exist" in running.log


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (
            ("--check", "no-such-program {dir}"),
            "no-such-program ended with exit status 127 (a program was not found)",
        ),
        (("--check", "sleep 600"), "check timed out after 0.3s"),
        (("--stage", "/proc/stage"), "cannot write /proc/stage"),
    ],
)
def test_once_ends_where_nothing_can_be_checked(
    tmp_path: Path, flags: tuple[str, ...], reason: str
) -> None:
    """What may be temporary is repeated until then; each reason is logged once."""
    volume = Volume(tmp_path / "volume", text="good")
    with agent(tmp_path, "--dir", volume, "--once", "--check-timeout", "300ms", *flags) as running:
        assert running.process.wait(20) == 1
        first, last = (line for line in running.log.splitlines() if reason in line)
        assert "WARNING check: " in first
        assert "WARNING done: not checked after 0.3s: " in last


def test_once_waits_for_a_directory_that_appears(tmp_path: Path) -> None:
    """Another container may mount or create it."""
    with agent(tmp_path, "--dir", tmp_path / "volume", "--once") as running:
        running.reaches("waiting")
        Volume(tmp_path / "volume", text="one")
        assert running.process.wait(20) == 0


def test_unwritable_stage_is_retried(tmp_path: Path) -> None:
    """Content that is not published triggers no action."""
    volume, place = Volume(tmp_path / "volume", text="one"), tmp_path / "place"
    place.write_text("a file")
    with webhook() as endpoint:
        flags = ("--dir", volume, "--stage", place / "stage", "--url", endpoint.url)
        with agent(tmp_path, *flags) as running:
            eventually(lambda: "cannot write" in running.message)
            assert "not a directory; --stage has to be a directory that" in running.message
            assert "Errno" not in running.log
            assert endpoint.calls == []
            place.unlink()
            running.reaches("loaded")


#: A stage full of numbers that agree, read by another process all the time.
_NUMBERS = [f"file-{number}" for number in range(20)]


def test_kill_leaves_a_consistent_stage(tmp_path: Path) -> None:
    """Killed at any moment of publishing, the agent leaves one whole revision, old or new."""
    volume, stage = Volume(tmp_path / "volume"), tmp_path / "stage"
    volume.publish(dict.fromkeys(_NUMBERS, b"0"))
    for round_ in range(1, 16):
        with agent(tmp_path, "--dir", volume, "--stage", stage, "--settle", "0") as running:
            running.reaches("told")
            volume.publish(dict.fromkeys(_NUMBERS, str(round_).encode()))
            time.sleep(round_ * 0.0003)  # another moment each time
            os.kill(running.pid, signal.SIGKILL)
        values = {(stage / "..data" / name).read_bytes() for name in _NUMBERS}
        assert len(values) == 1, values
    with agent(tmp_path, "--dir", volume, "--stage", stage) as running:
        running.reaches("told")
        assert set(visible(stage).values()) == {b"15"}


def test_checker_that_may_not_bind_a_port_refuses_nothing(tmp_path: Path) -> None:
    """`nginx -t` binds port 80, which the agent may not: trouble, repeated, and no refusal."""
    volume = Volume(tmp_path / "volume", text="good")
    words = "nginx: [emerg] bind() to 0.0.0.0:80 failed (13: Permission denied)"
    check = f"sh -c 'echo \"{words}\"; exit 1'"
    with agent(tmp_path, "--dir", volume, "--check", check) as running:
        eventually(lambda: running.status().get("check", {}).get("counts", {}).get("error", 0) > 1)
        status = running.reaches("waiting")  # between two checks
        assert status["check"]["counts"]["refused"] == 0
        assert "it may not bind a port below 1024 here" in status["message"]


@pytest.mark.parametrize("times", [1, 2])
def test_process_that_restarted_with_refused_content_is_reloaded_again(
    tmp_path: Path, times: int
) -> None:
    """A loaded, B refused, the process restarts and reads B, B is taken back to A: A is loaded.

    Also where B was refused before, so that it is not checked again.
    """
    volume = Volume(tmp_path / "volume", text="good A")
    source = volume.path / "text"
    flags = ("--dir", volume, "--signal", "HUP", "--check", CHECK)
    with reader(source, tmp_path) as first:
        process = ("--process", f"pidfile:{first.pidfile}")
        with agent(tmp_path, *flags, *process) as running:
            running.reaches("told")
            for _ in range(times - 1):
                volume.write(text="evil B")
                running.reaches("refused")
                volume.write(text="good A")
                running.reaches("told")
            volume.write(text="evil B")
            running.reaches("refused")
            first.end()
            first.pidfile.unlink()
            with reader(source, tmp_path) as second:
                assert second.loads[-1] == "evil B"
                volume.write(text="good A")
                eventually(lambda: second.loads[-1] == "good A")
                running.reaches("told")


def test_process_that_kept_running_is_not_reloaded_again(tmp_path: Path) -> None:
    """It has not read what was refused, so nothing has to be loaded."""
    volume = Volume(tmp_path / "volume", text="good A")
    flags = ("--dir", volume, "--signal", "HUP", "--check", CHECK)
    with reader(volume.path / "text", tmp_path) as process:
        # After that, it has read its files.
        target = ("--process", f"pidfile:{process.pidfile}", "--verify-timeout", "1ms")
        with agent(tmp_path, *flags, *target) as running:
            running.reaches("told")
            loads = eventually(lambda: process.loads if len(process.loads) == 2 else [])
            # It looks for changes before it answers. Otherwise what follows may have been there
            # when it sent the signal, or until the verify timeout was over.
            time.sleep(0.01)
            running.status()
            running.rests()
            volume.write(text="evil B")
            running.reaches("refused")
            volume.write(text="good A")
            running.reaches("told")
            time.sleep(0.2)
            assert process.loads == loads, running.log


def test_stage_keeps_modes_and_groups(tmp_path: Path) -> None:
    """A private key stays private, and the application's group can read what it could before."""
    secret, config = tmp_path / "secret", tmp_path / "config"
    files = {
        secret: {"tls.key": 0o400, "tls.crt": 0o444},
        config: {"conf": 0o644, "run.sh": 0o755, "shared": 0o640},
    }
    for folder, modes in files.items():
        folder.mkdir()
        payload = {name: PayloadFile(name.encode(), mode) for name, mode in modes.items()}
        AtomicWriter(str(folder)).write(payload)
    if os.geteuid() == 0:
        os.chown(config / "shared", -1, 4711)
    stage = tmp_path / "stage"
    flags = ("--dir", secret, "--dir", config, "--stage", stage)
    with agent(tmp_path / "agent", *flags) as running:
        running.reaches("told")
        for folder, modes in files.items():
            for name, mode in modes.items():
                assert (stage / folder.name / name).stat().st_mode & 0o777 == mode, name
        shared = (stage / "config" / "shared").stat()
        assert shared.st_gid == (config / "shared").stat().st_gid
    with agent(tmp_path / "agent", *flags, "--stage-mode", "0600") as running:
        running.reaches("told")
        AtomicWriter(str(config)).write({"conf": PayloadFile(b"new", 0o644)})
        eventually(lambda: (stage / "config" / "conf").read_text() == "new")
        assert (stage / "config" / "conf").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("umask", [0o077, 0o000])
def test_umask_of_the_agent_closes_no_published_directory(tmp_path: Path, umask: int) -> None:
    """Nor opens one for writers: the application may be another user."""
    volume, other = tmp_path / "volume", Volume(tmp_path / "other", text="one")
    volume.mkdir()
    AtomicWriter(str(volume)).write({"sub/text": PayloadFile(b"one", 0o644)})
    stage = tmp_path / "stage"
    flags = ("--dir", volume, "--dir", other, "--stage", stage)
    with agent(tmp_path / "agent", *flags, umask=umask) as running:
        running.reaches("told")
        for place in ("volume", "volume/sub", "other", "other/..data"):
            assert (stage / place).stat().st_mode & 0o777 == 0o755, place


def token(number: int) -> str:
    """Make a token as the API server issues it for a pod."""
    claims = {"exp": number, "kubernetes.io": {"namespace": "default", "pod": {"name": "web"}}}
    parts = ({"alg": "RS256"}, claims, {"signature": number})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return b".".join(encoded).decode()


def test_rotated_service_account_token_restarts_no_application(tmp_path: Path) -> None:
    """It is published at once; a change beside it restarts the application as always."""
    volume, stage = Volume(tmp_path / "volume", token=token(1), conf="one"), tmp_path / "stage"
    flags = ("--dir", volume, "--stage", stage, "--check", "grep -q . {dir}/token")
    with agent(tmp_path, *flags, "--", "sleep", "600") as running:
        running.reaches("loaded")
        for number in range(2, 5):
            volume.write(token=token(number), conf="one")
            eventually(lambda number=number: (stage / "token").read_text() == token(number))
            running.reaches("loaded")
        assert running.status()["application"]["starts"] == 1
        volume.write(token=token(5), conf="two")
        eventually(lambda: running.status()["application"]["starts"] == 2)
        volume.write(token="eyJ.not.a token", conf="two")
        eventually(lambda: running.status()["application"]["starts"] == 3)
