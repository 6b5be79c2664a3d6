"""Writes the flags of every command into docs/reference/cli.md, from their declarations.

    .venv/bin/python docs/cli_reference.py

Only the parts between `<!-- flags of … -->` and `<!-- end -->` are written.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from hotmap.cli.main import hotmap
from hotmap.cli.options import HotmapOption

__all__ = ["PAGE", "commands", "render"]

PAGE = Path(__file__).parent / "reference" / "cli.md"

_PART = re.compile(r"(<!-- flags of (?P<name>[a-z -]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def commands(
    group: click.Group = hotmap, path: str = "hotmap"
) -> Iterator[tuple[str, click.Command]]:
    """List every command with its full name."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def render(text: str) -> str:
    """Replace the generated parts of the page."""
    known = dict(commands())

    def part(found: re.Match[str]) -> str:
        name = found["name"]
        return f"{found[1]}\n{_flags(name, known[name])}\n{found[3]}"

    return _PART.sub(part, text)


def _flags(name: str, command: click.Command) -> str:
    sections: dict[str, list[click.Option]] = {}
    arguments = []
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            title = parameter.flag.section if isinstance(parameter, HotmapOption) else "Options"
            sections.setdefault(title, []).append(parameter)
        elif isinstance(parameter, click.Argument):
            arguments.append(parameter.make_metavar(click.Context(command)))
    help_text = inspect.cleandoc(command.help or "")
    parts = [f"    {' '.join([name, '[OPTIONS]', *arguments])}", help_text]
    if command.epilog:
        parts.append(f"```sh\n{command.epilog.strip()}\n```")
    for title, options in sections.items():
        if title != "Options":
            parts.append(f"### {title}")
        parts.append(_table(options))
    return "\n\n".join(parts) + "\n"


def _table(options: list[click.Option]) -> str:
    compat = any(
        isinstance(option, HotmapOption) and option.flag.compat_default for option in options
    )
    heads = ["flag", "default", *(["with `--reloader-compat`"] if compat else []), "meaning"]
    rows = [heads, ["---"] * len(heads)]
    for option in options:
        default, other = "", ""
        if isinstance(option, HotmapOption):
            default, other = option.default_text, option.flag.compat_default
        cells = [_names(option), default, *([other] if compat else []), option.help or ""]
        rows.append([cell.replace("|", "\\|") for cell in cells])
    return "\n".join(f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in row)}|" for row in rows)


def _names(option: click.Option) -> str:
    value = "" if option.is_flag else f" {option.metavar or option.name}"
    if isinstance(option, HotmapOption) and option.flag.bare_value:
        value = f" [{option.metavar}]"
    long = [name for name in option.opts if name.startswith("--")]
    short = [name for name in option.opts if not name.startswith("--")]
    names = [f"{name}{value}" for name in long] + short + list(option.secondary_opts)
    return ", ".join(f"`{name}`" for name in names)


def main() -> None:
    """Write the page."""
    PAGE.write_text(render(PAGE.read_text()))


if __name__ == "__main__":
    main()
