"""results.md: one section per table, each with the machine and the date of its last run.

A run of some benchmarks replaces their sections and leaves the others as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from benchmarks.curves import Curves
from benchmarks.figures import Comparison, Table

__all__ = ["merged"]

_HEAD = """# Results

Written by `python -m benchmarks --write` (with `--cluster` for the real Kubernetes of
`tests/cluster`). Absolute times are of the machine in each section, whose cores were shared
and whose speed varies: how long an interpreter takes to start and to import asyncio stands beside
each; p50 and p99 are nearest ranks, so with fewer than 100 samples p99 is the maximum.

Python of Debian is what the images contain; `make bench PYTHON=/usr/bin/python3 VENV=build/bench`
measures with it. It is built with profile-guided optimization: starting, and reading objects, take
0.8 of the processor time that they take with a build without.
"""


def merged(document: str, tables: Sequence[Table | Comparison | Curves]) -> str:
    """Return the document with the sections of `tables` replaced or added at the end."""
    sections = dict(re.findall(r"^(## .+)\n((?:(?!##? ).*\n?)*)", document, flags=re.MULTILINE))
    for table in tables:
        heading, _, body = table.as_markdown().partition("\n")
        sections[heading] = f"{body}\n"
    return "\n".join([_HEAD, *(f"{head}\n{body.rstrip()}\n" for head, body in sections.items())])
