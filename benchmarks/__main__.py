"""`python -m benchmarks`: all benchmarks, or the named ones, as one table per question.

Exit status 0: measured, whatever came out; 1: it could not be measured. Nothing is asserted on
time, neither here nor in the tests.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from tests.cluster.errors import TestBedError

from benchmarks import (
    bench_agent,
    bench_agents,
    bench_cli,
    bench_decode,
    bench_fan_out,
    bench_growth,
    bench_nudge,
    bench_nudge_fan_out,
    bench_outage,
    bench_peers,
    bench_plane_requests,
    bench_plane_start,
    bench_rollout_delay,
    bench_scale,
    bench_takeover,
    bench_tenants,
)
from benchmarks.curves import Curves
from benchmarks.figures import Comparison, Table
from benchmarks.results import merged
from benchmarks.scope import Scope
from hotmap.core.errors import HotmapError

_Result = Table | Comparison | Curves
_Benchmark = Callable[[Scope], AsyncIterator[_Result]]

_BENCHMARKS: dict[str, _Benchmark] = {
    "plane": bench_plane_start.run,
    "requests": bench_plane_requests.run,
    "rollout": bench_rollout_delay.run,
    "nudge": bench_nudge.run,
    "nudge-fan-out": bench_nudge_fan_out.run,
    "decode": bench_decode.run,
    "cli": bench_cli.run,
    "fan-out": bench_fan_out.run,
    "agent": bench_agent.run,
    "agents": bench_agents.run,
    "outage": bench_outage.run,
    "scale": bench_scale.run,
    "takeover": bench_takeover.run,
    "tenants": bench_tenants.run,
    "growth": bench_growth.run,
    "peers": bench_peers.run,
}

#: Those that have something to say about a real Kubernetes.
_ON_A_CLUSTER = ("rollout", "nudge", "fan-out", "takeover")

_RESULTS = Path(__file__).with_name("results.md")

#: Where the pictures of curves are.
_PICTURES = Path(__file__).parents[1] / "docs" / "benchmarks"


def main() -> None:
    """Run what the command line names."""
    arguments = _arguments()
    names = arguments.names or (_ON_A_CLUSTER if arguments.cluster else tuple(_BENCHMARKS))
    scope = Scope(quick=arguments.quick, cluster=arguments.cluster)
    try:
        tables = asyncio.run(_run(names, scope))
    except (HotmapError, TestBedError) as error:
        sys.exit(f"benchmarks: {error}")
    except TimeoutError:
        sys.exit("benchmarks: timed out waiting for what should follow an edit; see `hotmap demo`")
    if arguments.write:
        before = _RESULTS.read_text() if _RESULTS.exists() else ""
        _RESULTS.write_text(merged(before, tables))
        for table in tables:
            if isinstance(table, Curves):
                _PICTURES.mkdir(exist_ok=True)
                for name, text in table.pictures():
                    (_PICTURES / name).write_text(text)
        print(f"written to {_RESULTS}", file=sys.stderr)


async def _run(names: tuple[str, ...], scope: Scope) -> list[_Result]:
    tables: list[_Result] = []
    for name in names:
        print(f"measuring {name} …", file=sys.stderr)
        async for table in _BENCHMARKS[name](scope):
            print(f"\n{table.as_text()}\n", flush=True)
            tables.append(table)
    return tables


def _arguments() -> argparse.Namespace:
    there_are = ", ".join(_BENCHMARKS)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure how fast and how big hotmap is."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {there_are}; default: all")
    parser.add_argument(
        "--cluster", action="store_true", help="measure the real Kubernetes of tests/cluster too"
    )
    parser.add_argument(
        "--quick", action="store_true", help="two samples of everything, to see that it works"
    )
    parser.add_argument("--write", action="store_true", help=f"update {_RESULTS.name}")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in _BENCHMARKS:
            parser.error(f"{name!r} is not a benchmark; there are {there_are}")
    return arguments


if __name__ == "__main__":
    main()
