"""Replays snapshots that are kept as files, and writes what is decided on them.

`python -m tests.core.decisions` writes `data/decisions/output` again; read the difference before
you commit it, since each line of it is a decision that a user would see change.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hotmap.core.decide.decide import decide
from hotmap.core.decide.document import decision_document, read_snapshot, read_starts

FOLDER = Path(__file__).parent / "data" / "decisions"


def read_case(name: str) -> dict[str, Any]:
    """Read the input of a case: a snapshot, and the pods' starts where they were listed."""
    case: dict[str, Any] = json.loads((FOLDER / "input" / f"{name}.json").read_text())
    return case


def replay(case: dict[str, Any]) -> dict[str, Any]:
    """Decide on a case."""
    starts = read_starts(case["starts"]) if "starts" in case else None
    return decision_document(decide(read_snapshot(case["snapshot"]), starts))


def names(folder: str) -> set[str]:
    """Name the cases that have a file in a folder."""
    return {path.stem for path in (FOLDER / folder).glob("*.json")}


def main() -> None:
    """Write what is decided on each case."""
    for name in names("output") - names("input"):
        (FOLDER / "output" / f"{name}.json").unlink()
    for name in sorted(names("input")):
        text = json.dumps(replay(read_case(name)), indent=1, ensure_ascii=False)
        (FOLDER / "output" / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
