"""Draws the README's picture from a run of the demo: `python docs/picture.py docs/demo.svg`."""

from __future__ import annotations

import asyncio
import io
import sys
from pathlib import Path

from rich.console import CONSOLE_SVG_FORMAT, Console

from hotmap.cli.demo.scenario import run_demo


def main(target: Path) -> int:
    """Run the demo and write what it printed as an SVG; nothing is written if it is not true."""
    console = Console(record=True, width=80, highlight=False, file=io.StringIO())
    status = asyncio.run(run_demo(console))
    if status == 0:
        # The reader's own monospace font: a picture that fetches one is blank behind a firewall.
        start = CONSOLE_SVG_FORMAT.index("@font-face")
        end = CONSOLE_SVG_FORMAT.index(".{unique_id}-matrix")
        plain = CONSOLE_SVG_FORMAT[:start] + CONSOLE_SVG_FORMAT[end:]
        plain = plain.replace("Fira Code, monospace", "monospace")
        target.write_text(console.export_svg(title="make demo", code_format=plain))
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
