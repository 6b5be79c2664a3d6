"""`python -m benchmarks`: all benchmarks, or the named ones, as one table per question.

Exit status 0: measured, whatever came out. Nothing is asserted on time here or in the tests.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from benchmarks import (
    bench_cli,
    bench_decode,
    bench_fan_out,
    bench_nudge,
    bench_plane_start,
    bench_rollout_delay,
)
from benchmarks.figures import Table
from benchmarks.results import merged
from benchmarks.scope import Scope

_Benchmark = Callable[[Scope], AsyncIterator[Table]]

_BENCHMARKS: dict[str, _Benchmark] = {
    "plane": bench_plane_start.run,
    "rollout": bench_rollout_delay.run,
    "nudge": bench_nudge.run,
    "decode": bench_decode.run,
    "cli": bench_cli.run,
    "fan-out": bench_fan_out.run,
}

#: Those that have something to say about a real Kubernetes.
_ON_A_CLUSTER = ("rollout", "nudge", "fan-out")

_RESULTS = Path(__file__).with_name("results.md")


def main() -> None:
    """Run what the command line names."""
    arguments = _parser().parse_args()
    names = arguments.names or (_ON_A_CLUSTER if arguments.cluster else tuple(_BENCHMARKS))
    scope = Scope(quick=arguments.quick, cluster=arguments.cluster)
    tables = asyncio.run(_run(names, scope))
    if arguments.write:
        before = _RESULTS.read_text() if _RESULTS.exists() else ""
        _RESULTS.write_text(merged(before, tables))
        print(f"written to {_RESULTS}", file=sys.stderr)


async def _run(names: tuple[str, ...], scope: Scope) -> list[Table]:
    tables = []
    for name in names:
        print(f"measuring {name} …", file=sys.stderr)
        async for table in _BENCHMARKS[name](scope):
            print(f"\n{table.as_text()}\n", flush=True)
            tables.append(table)
    return tables


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        choices=[*_BENCHMARKS, []],
        metavar="NAME",
        help=f"which benchmarks: {', '.join(_BENCHMARKS)}; default: all",
    )
    parser.add_argument(
        "--cluster", action="store_true", help="measure on the real Kubernetes of tests/cluster too"
    )
    parser.add_argument(
        "--quick", action="store_true", help="two samples of everything, to see that it works"
    )
    parser.add_argument("--write", action="store_true", help=f"update {_RESULTS.name}")
    return parser


if __name__ == "__main__":
    main()
