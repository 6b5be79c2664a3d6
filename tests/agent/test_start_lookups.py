"""What the agent looks up about the start of a process, with real processes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.agent.agents import run_program

from hotmap.agent.act.start_lookups import start_lookups
from hotmap.agent.decide.start_evidence import ProcessStart
from hotmap.agent.process.process_table import identify, started_at

#: When the agent says that it has started its application, in seconds since boot.
STARTED = 123.456


@pytest.mark.parametrize("is_application", [True, False])
def test_start_of_the_application_is_exact(tmp_path: Path, is_application: bool) -> None:
    """Of other processes only the kernel's time is known, which is rounded down to a tick."""
    with run_program(["sleep", "600"]) as child:
        (tmp_path / "pid").write_text(str(child.pid))
        process = identify(child.pid)
        assert process is not None
        application: Any = SimpleNamespace(
            process=lambda: process if is_application else None, started_at=STARTED
        )
        lookups = start_lookups(application)
        found = lookups.process(f"pidfile:{tmp_path / 'pid'}")
        own = lookups.application()
    expected = STARTED if is_application else started_at(process)
    assert isinstance(found, ProcessStart)
    assert (found.pid, found.at) == (child.pid, expected)
    assert (own is None) is not is_application
    if own is not None:
        assert own.at == STARTED
