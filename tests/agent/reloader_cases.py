"""The same command lines for prometheus-config-reloader and for hotmap in its place.

`python -m tests.agent.reloader_cases PROGRAM` runs them with the original program and records what
it did in reloader_cases.json; tests/agent/test_recorded_reloader.py compares hotmap with that. The
program is built by Go, in a module that requires github.com/prometheus-operator/prometheus-operator
v0.93.0:

    go get github.com/prometheus-operator/prometheus-operator/cmd/prometheus-config-reloader@v0.93.0
    go build github.com/prometheus-operator/prometheus-operator/cmd/prometheus-config-reloader
"""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.agent.agents import TIMEOUT, Volume, eventually, free_port, run_program, webhook

__all__ = ["CASES", "RECORDED", "Case", "run"]

RECORDED = Path(__file__).with_name("reloader_cases.json")

#: Seconds in which nothing more has to happen, where that is what a case shows.
_QUIET = 1.5


class Case(NamedTuple):
    """A configuration file and flags; `edits` are made one after the other."""

    config: bytes | None
    flags: tuple[str, ...] = ()
    edits: tuple[bytes, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    #: Statuses that the endpoint answers first; 200 afterwards.
    statuses: tuple[int, ...] = ()


_RENDER = ("--config-file={config}", "--config-envsubst-file={output}")
_ONCE = (*_RENDER, "--watch-interval=0")
_WATCH = (*_RENDER, "--delay-interval=50ms", "--retry-interval=100ms")
_VALUES = (("A", "one"), ("B", "two words"), ("EMPTY", ""), ("POD_NAME", "prometheus-main-3"))

CASES = {
    "renders once": Case(b"a: $(A)\nb: $(B)\n", _ONCE, environment=_VALUES),
    "renders an empty variable": Case(b"a: [$(EMPTY)]\n", _ONCE, environment=_VALUES),
    "keeps other dollars": Case(
        b"a: $A ${A} $$(A) $( A) $(A $(1A) $() $(A-B) $(A)$(B)\n", _ONCE, environment=_VALUES
    ),
    "sets the ordinal": Case(b"o: $(STATEFULSET_ORDINAL_NUMBER)\n", _ONCE, environment=_VALUES),
    "decompresses": Case(gzip.compress(b"a: $(A)\n"), _ONCE, environment=_VALUES),
    "takes an empty file": Case(b"", _ONCE),
    "reloads at the start and after an edit": Case(
        b"a: 1\n", _WATCH, (b"a: 2\n",), environment=_VALUES
    ),
    "does not reload for the same content": Case(b"a: 1\n", _WATCH, (b"a: 1\n",)),
    "repeats a failed reload": Case(b"a: 1\n", _WATCH, statuses=(500, 503)),
    "serves metrics": Case(b"a: 1\n", (*_WATCH, "--listen-address=127.0.0.1:{port}")),
    "rejects an unknown flag": Case(b"a: 1\n", ("--config-fil={config}",)),
    "rejects an invalid duration": Case(b"a: 1\n", (*_RENDER, "--watch-interval=often")),
    "rejects an invalid method": Case(b"a: 1\n", (*_RENDER, "--reload-method=call")),
    "prints its version": Case(None, ("--version",)),
}


def run(command: Sequence[str], case: Case, folder: Path) -> dict[str, Any]:
    """Run a program on a case; returns what can be seen of it from outside."""
    volume = Volume(folder / "config")
    output, port = folder / "output", free_port()
    if case.config is not None:
        volume.publish({"prometheus.yaml": case.config})
    statuses = list(case.statuses)

    def answer() -> None:
        endpoint.status = statuses.pop(0) if statuses else 200

    with webhook(called=answer) as endpoint:
        places = {"config": f"{volume}/prometheus.yaml", "output": output, "port": port}
        flags = [flag.format(**places) for flag in case.flags]
        url = [f"--reload-url={endpoint.url}"] if case.config is not None else []
        with run_program(
            [*command, *flags, *url],
            env={**os.environ, **dict(case.environment)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            return _observe(process, case, volume, endpoint, port, output)


def _observe(
    process: subprocess.Popen[bytes],
    case: Case,
    volume: Volume,
    endpoint: Any,
    port: int,
    output: Path,
) -> dict[str, Any]:
    if "--delay-interval=50ms" not in case.flags:
        status = process.wait(TIMEOUT)
        text = output.read_text() if output.exists() else None
        mode = f"{output.stat().st_mode & 0o777:04o}" if output.exists() else None
        # Go's flag parser ends with 1, ours with 2: both mean that nothing was started.
        return {"succeeded": status == 0, "output": text, "mode": mode, "calls": _calls(endpoint)}
    first = len(case.statuses) + 1
    eventually(lambda: len(endpoint.calls) >= first, "the first reload")
    for number, edit in enumerate(case.edits, start=1):
        if edit == case.config:
            time.sleep(_QUIET)  # what is swapped before a reload was answered may be read by it
            volume.swap()
        else:
            volume.publish({"prometheus.yaml": edit})
        if edit != case.config:
            eventually(lambda n=number: len(endpoint.calls) >= first + n, "a reload")
    time.sleep(_QUIET)
    found = {"output": output.read_text(), "calls": _calls(endpoint)}
    if any("{port}" in flag for flag in case.flags):
        found["metrics"] = _metrics(port)
    process.terminate()
    return found | {"succeeded": process.wait(TIMEOUT) == 0}


def _calls(endpoint: Any) -> list[str]:
    return [f"{call[0]} {call[1]}" for call in endpoint.calls]


def _metrics(port: int) -> list[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        text = page.read().decode()
    names = re.findall(r"^# TYPE (reloader_\w+ \w+)$", text, re.MULTILINE)
    return sorted(names)


def main() -> None:
    """Record what the original program does."""
    found = {}
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            found[name] = run([sys.argv[1]], case, Path(folder))
    RECORDED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
