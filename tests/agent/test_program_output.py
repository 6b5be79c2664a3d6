"""What checkers and commands write may quote Secrets: where it is shown, and in which form."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest
from tests.agent.agents import Agent, Volume, agent, eventually, free_port, webhook

from hotmap.agent.report.status_text import format_status
from hotmap.agent.runtime.program_output import mark_output, omit_output, reveal_output

SECRET = "hunter2"

#: A checker, and a command, that quote what they read: with colors, a bell and a cursor movement.
QUOTES = r"""sh -c 'printf "bad \033[31m%s\033[0m\a\r\n" $(cat "$0"); exit 1' """


def status_by_tcp(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=20) as response:
        body: bytes = response.read()
        return body.decode()


def fail_with_output(running: Agent, kind: str) -> str:
    """Wait until the program has failed, and return its message from the unix socket."""
    eventually(lambda: running.status().get("state") in ("refused", "failing"))
    status = running.status()
    return str(status["check"]["error"] if kind == "check" else status["message"])


@pytest.mark.parametrize("kind", ["check", "exec"])
def test_program_output_is_shown_on_the_unix_socket_only(tmp_path: Path, kind: str) -> None:
    """Log and TCP port say that it failed and where the words are."""
    volume, port = Volume(tmp_path / "volume", text=SECRET), free_port()
    place = "{dir}/text" if kind == "check" else f"{volume}/text"
    flags = ("--dir", volume, f"--{kind}", QUOTES + place, "--listen", f"127.0.0.1:{port}")
    with agent(tmp_path, *flags) as running:
        assert SECRET in fail_with_output(running, kind)
        by_tcp = status_by_tcp(port)
        assert SECRET not in by_tcp
        assert "failed with exit status 1; its output is shown by 'hotmap agent status'" in by_tcp
        assert SECRET not in running.log
        assert "failed with exit status 1; its output is shown by" in running.log
        running.end()
        assert SECRET not in running.log


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such-program", "no-such-program could not be started: no such program"),
        ("sh -c 'echo missing; exit 127'", "sh failed with exit status 127: missing"),
    ],
    ids=["no program", "a shell's"],
)
def test_exit_status_127_of_a_shell_is_not_that_of_a_missing_program(
    tmp_path: Path, command: str, message: str
) -> None:
    """A shell returns it for a program that it does not find, which its output names."""
    volume = Volume(tmp_path / "volume", text="one")
    with agent(tmp_path, "--dir", volume, "--exec", command) as running:
        assert running.reaches("failing")["message"] == f"default: {message}"


@pytest.mark.parametrize(
    ("text", "mode", "reason", "logged"),
    [
        ("#!/bin/sh", 0o644, " cannot be started: permission denied", "may not be executed"),
        ("#!/no/sh", 0o755, ": its interpreter does not exist", "was not found"),
    ],
    ids=["not executable", "no interpreter"],
)
def test_script_that_cannot_be_started_is_reported(
    tmp_path: Path, text: str, mode: int, reason: str, logged: str
) -> None:
    """The log says as much as an exit status does."""
    volume, script = Volume(tmp_path / "volume", text="one"), tmp_path / "script"
    script.write_text(text)
    script.chmod(mode)
    with agent(tmp_path, "--dir", volume, "--exec", script) as running:
        assert running.reaches("failing")["message"].endswith(f"{script}{reason}")
        assert f"(a program {logged}); its output is shown by" in running.log


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_log_checker_output_logs_it_without_control_characters(
    tmp_path: Path, log_format: str
) -> None:
    """ESC, CR and BEL become visible; the TCP port stays without the words."""
    volume, port = Volume(tmp_path / "volume", text=SECRET), free_port()
    flags = ("--log-checker-output", "--log-format", log_format, "--listen", f"127.0.0.1:{port}")
    with agent(tmp_path, "--dir", volume, "--check", QUOTES + "{dir}/text", *flags) as running:
        message = fail_with_output(running, "check")
        assert r"bad \x1b[31mhunter2\x1b[0m\a" in message
        eventually(lambda: SECRET in running.log)
        assert SECRET not in status_by_tcp(port)
        running.end()
        assert not set(running.log) & set("\x1b\r\a\x0e\x0f\x10")


def test_reason_of_a_response_is_not_logged(tmp_path: Path) -> None:
    """The status code is; the endpoint chooses the words after it."""
    volume = Volume(tmp_path / "volume", text="one")
    with webhook() as endpoint:
        endpoint.status = 418
        with agent(tmp_path, "--dir", volume, "--url", endpoint.url) as running:
            assert "returned 418 I'm a Teapot" in running.reaches("failing")["message"]
            eventually(lambda: "returned 418" in running.log)
            assert "Teapot" not in running.log


def test_file_names_with_control_characters_are_escaped_in_the_log(tmp_path: Path) -> None:
    """A line feed in a name would forge a line, an escape sequence would reach a terminal."""
    folder = tmp_path / "a\x1b[2J\rb"
    folder.mkdir()
    (folder / "text").write_text("one")
    with agent(tmp_path / "run", "--dir", folder) as running:
        running.reaches("told")
        shown = format_status(running.status())
        running.end()
        for text in (running.log, shown):
            assert "\x1b" not in text and "\r" not in text
            assert r"a\x1b[2J\rb" in text


@pytest.mark.parametrize("flag", ["--exec", "--check"])
def test_failure_that_prints_the_time_is_logged_once(tmp_path: Path, flag: str) -> None:
    """Without its output, the line would be the same at each attempt; new content is another."""
    volume = Volume(tmp_path / "volume", text="one")
    with agent(tmp_path, "--dir", volume, flag, "sh -c 'date +%N; exit 126'") as running:
        for number, text in enumerate(("one", "two"), start=1):
            volume.write(text=text)
            eventually(lambda number=number: running.log.count("with exit status 126") == number)
            outputs = {running.status()["message"]}
            eventually(lambda outputs=outputs: len(outputs | {running.status()["message"]}) > 1)
            assert running.log.count("with exit status 126") == number


def test_marked_output_is_resolved_in_any_message() -> None:
    """Around other text, twice, and with the marks in the output itself."""
    marked = mark_output("one\x0e\ttwo\r\nthree", "failed")
    message = f"rule: {marked}, {mark_output('', 'none')}"
    assert reveal_output(message) == "rule: one\\x0e two\nthree, none"
    assert omit_output(message).startswith("rule: failed; its output is shown by ")
    assert omit_output(message).endswith(", none")
    assert omit_output("plain") == reveal_output("plain") == "plain"
