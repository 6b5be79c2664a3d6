"""docs/reference/cli.md shows the flags as the program declares them."""

from __future__ import annotations

import re

from docs.cli_reference import PAGE, commands, render


def test_cli_reference_is_up_to_date() -> None:
    """Otherwise run `make docs`."""
    assert render(PAGE.read_text()) == PAGE.read_text()


def test_cli_reference_has_every_command() -> None:
    """One generated part for each."""
    parts = re.findall(r"<!-- flags of (.+?) -->", PAGE.read_text())
    assert sorted(parts) == sorted(name for name, _ in commands())
