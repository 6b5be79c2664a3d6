"""Prints documents of the status: as JSON, as YAML, or as tables on a console."""

from __future__ import annotations

import json
import sys
from typing import Any, TypeVar

from rich.console import Console

from hotmap.cli.status_response import convert_document
from hotmap.cli.terminal import OutputConsole, width_from_environment
from hotmap.core.status.status_document import StatusDocument
from hotmap.core.text import printable

__all__ = [
    "create_console",
    "print_document",
    "read_document",
    "read_printable",
]

T = TypeVar("T")

#: Columns of a wide table, which no terminal has.
_WIDEST = 10_000


def read_document(document: dict[str, Any]) -> StatusDocument:
    """Read what tables print of a status document; see `read_printable`."""
    return read_printable(document, StatusDocument)


def read_printable(document: dict[str, Any], type_: type[T]) -> T:
    """Read what tables print of a document, with escaped texts."""
    return convert_document(_escape_texts(document), type_)


def _escape_texts(value: Any) -> Any:
    """Escape control characters: a reason can quote text of others, and terminals obey it."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_escape_texts(item) for item in value]
    if isinstance(value, dict):
        return {name: _escape_texts(item) for name, item in value.items()}
    return value


def print_document(document: dict[str, Any], output: str, *, separate: bool = False) -> None:
    """Print a document as `json` or `yaml`; `separate`: it follows another one."""
    if output == "json":
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    import yaml  # costs 15 ms, which the other formats do not need

    sys.stdout.write("---\n" if separate else "")
    yaml.safe_dump(document, sys.stdout, sort_keys=False, allow_unicode=True)


def create_console(output: str) -> Console:
    """Create a console; only on a terminal, and not with `--output wide`, are lines wrapped.

    So that grep finds whole lines, as of kubectl. COLUMNS in the environment is a terminal's width.
    """
    wrapped = output != "wide" and (sys.stdout.isatty() or width_from_environment() is not None)
    return OutputConsole(width=None if wrapped else _WIDEST)
