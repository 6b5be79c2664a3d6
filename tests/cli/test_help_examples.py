"""The examples in the help of commands are command lines that the commands take."""

from __future__ import annotations

import shlex

import click
import pytest
from click.testing import CliRunner
from docs.cli_reference import commands

from hotmap.cli.main import hotmap

#: Commands that a newcomer runs first; the agent prints its help itself.
_MAIN = {
    "hotmap status",
    "hotmap why",
    "hotmap inject",
    "hotmap stamp",
    "hotmap controller",
    "hotmap local up",
}

EXAMPLES = [
    (name, line)
    for name, command in commands()
    for line in (command.epilog or "").strip().splitlines()
]


def test_main_commands_have_examples() -> None:
    """Two or more each."""
    names = [name for name, _ in EXAMPLES]
    assert {name for name in names if names.count(name) > 1} >= _MAIN


@pytest.mark.parametrize(("name", "line"), EXAMPLES)
def test_example_is_parsed(name: str, line: str) -> None:
    """By its own command, which may be a part of a pipe: each flag exists, and takes that value."""
    part = next(part for part in line.split(" | ") if part.startswith(name))
    words = shlex.split(part.split(" > ")[0], comments=True)
    path = name.split()
    assert words[: len(path)] == path
    command: click.Command = hotmap
    for part in path[1:]:
        assert isinstance(command, click.Group)
        command = command.commands[part]
    context = command.make_context(name, words[len(path) :])
    assert context.params


@pytest.mark.parametrize(("name", "line"), EXAMPLES)
def test_example_fits_into_a_terminal(name: str, line: str) -> None:
    """The help indents it by two characters."""
    assert len(line.strip()) + 2 <= 80, name


def test_help_does_not_wrap_examples() -> None:
    """Each is one line, also on a narrow terminal, so that it can be copied."""
    shown = CliRunner().invoke(hotmap, ["inject", "--help"], terminal_width=40).output
    lines = [line.strip() for line in shown.splitlines()]
    assert [line for name, line in EXAMPLES if name == "hotmap inject" and line in lines] == [
        line for name, line in EXAMPLES if name == "hotmap inject"
    ]
