"""A command whose extra is not installed says how to install it."""

from __future__ import annotations

import pytest

from hotmap.cli import extras
from hotmap.core.errors import SettingsError


def test_missing_extra_names_a_command_that_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """hotmap is on no package index, so its name alone cannot be installed."""
    monkeypatch.setattr(extras, "find_spec", lambda module: None)
    with pytest.raises(SettingsError, match=r"pip install '\.\[local\]'") as error:
        extras.require_extra("local", command="hotmap demo")
    assert str(error.value).startswith("hotmap demo needs the package cryptography")
