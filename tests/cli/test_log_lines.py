"""Log lines: RFC 3339 time, level, message and fields, as text or as JSON; nothing is obeyed."""

from __future__ import annotations

import asyncio
import json
import logging
import pathlib
import re
import socket

import pytest

from hotmap.cli.logs import set_up_logging

FIELDS = {"workload": "Deployment shop/web", "change": "k1.abc"}


def logged(capsys: pytest.CaptureFixture[str], log_format: str, message: str, **fields: str) -> str:
    set_up_logging(log_format)
    logging.getLogger("hotmap.test").warning(message, extra=fields)
    return capsys.readouterr().err


def test_text_line_has_date_level_workload_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    """One readable line, the workload first and the other fields behind the message."""
    line = logged(capsys, "text", "rolling out", source="ConfigMap shop/app", **FIELDS)
    time, rest = line.split(" ", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time)
    assert rest == (
        'WARNING Deployment shop/web: rolling out source="ConfigMap shop/app" change=k1.abc\n'
    )


def test_text_line_names_a_source_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Most messages begin with it; in JSON it is a field of its own anyway."""
    message, source = "ConfigMap shop/app LEVEL changed", "ConfigMap shop/app"
    assert logged(capsys, "text", message, source=source, **FIELDS).endswith(
        "WARNING Deployment shop/web: ConfigMap shop/app LEVEL changed change=k1.abc\n"
    )
    assert json.loads(logged(capsys, "json", message, source=source))["source"] == source


def test_json_line_has_fields(capsys: pytest.CaptureFixture[str]) -> None:
    """For machines: the same, and the logger."""
    line = json.loads(logged(capsys, "json", "rolling out", source="ConfigMap shop/app", **FIELDS))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line == {
        "level": "warning",
        "logger": "hotmap.test",
        "message": "rolling out",
        "source": "ConfigMap shop/app",
        **FIELDS,
    }


def test_json_line_has_no_empty_fields(capsys: pytest.CaptureFixture[str]) -> None:
    """A field that a line is not about is left out."""
    line = json.loads(logged(capsys, "json", "shutting down"))
    assert set(line) == {"time", "level", "logger", "message"}


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_control_characters_are_escaped(
    capsys: pytest.CaptureFixture[str], log_format: str
) -> None:
    """Text of others starts no line of its own and moves no cursor."""
    message = "refused: a\x1b[2Jb\r\nc\x9bd\u2028"
    line = logged(capsys, log_format, message, workload="Deployment shop/\x1bweb")
    assert line.count("\n") == 1
    assert line.rstrip("\n").isprintable()
    shown = json.loads(line)["message"] if log_format == "json" else line
    assert "a\\x1b[2Jb\\r\\nc\\u009bd\\u2028" in shown


@pytest.mark.internal_errors
def test_traceback_has_no_messages(capsys: pytest.CaptureFixture[str]) -> None:
    """They may quote what was being read, such as a value of a Secret; only places are shown."""
    set_up_logging("text")
    try:
        try:
            raise KeyError("hunter2\x1b")
        except KeyError as error:
            raise ValueError("hunter2") from error
    except ValueError:
        logging.getLogger("hotmap.test").exception("internal error")
    shown = capsys.readouterr().err
    assert shown.index("KeyError\n") < shown.index("ValueError\n")
    assert shown.count("test_log_lines.py") == 2
    assert "\x1b" not in shown
    for line in shown.splitlines():
        assert "hunter2" not in line or "raise" in line, "which is our own source"


@pytest.mark.internal_errors
def test_reason_of_a_system_call_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """It is the kernel's."""
    set_up_logging("text")
    try:
        pathlib.Path("/proc/self/nothing/here").read_text()
    except OSError:
        logging.getLogger("hotmap.test").exception("internal error")
    assert "FileNotFoundError: No such file or directory\n" in capsys.readouterr().err


async def test_writes_to_a_lost_connection_are_not_logged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """asyncio warns of each from the fifth on, until it has closed the connection."""
    set_up_logging("text")
    ours, other = socket.socketpair()
    other.close()
    _, writer = await asyncio.open_connection(sock=ours)
    for _ in range(10):
        writer.write(b"x")
    writer.transport.abort()
    logging.getLogger("asyncio").warning("another warning")
    assert [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()] == [
        "WARNING another warning"
    ]
