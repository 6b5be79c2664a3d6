"""Log lines are bounded, whatever a message quotes."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from hotmap.cli.logs import set_up_logging


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """Leave the root logger as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_log_message_is_cut_at_a_kibibyte(
    log_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An annotation may have 256 KiB, and a message may quote it."""
    set_up_logging(log_format)
    logging.getLogger("hotmap.test").warning("invalid value %r", "x" * 250_000)
    line = capsys.readouterr().err
    assert len(line) < 1200
    if log_format == "json":
        assert len(json.loads(line)["message"]) == 1024
