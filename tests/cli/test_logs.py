"""Log lines are bounded, whatever a message quotes."""

from __future__ import annotations

import json
import logging

import pytest

from hotmap.cli.logs import set_up_logging


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
