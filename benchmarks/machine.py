"""What the kernel says of this machine and of processes: load, memory, processor time.

Linux only, by /proc.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from benchmarks.figures import Sample

__all__ = ["cpu_seconds", "peak_mb", "resident_mb", "sample"]

_PROC = Path("/proc")


def sample() -> Sample:
    """Describe this machine as it is now."""
    return Sample(
        cores=len(os.sched_getaffinity(0)),
        processor=_processor(),
        load=os.getloadavg()[0],
        speed=min(_import_seconds() for _ in range(3)),
        python=_interpreter(),
        kernel=platform.release(),
        date=time.strftime("%Y-%m-%d %H:%M"),
    )


def _interpreter() -> str:
    """Name the version, and whether it is built by Debian, as that in the images is."""
    by_debian = "deb_system" in sysconfig.get_scheme_names()
    return platform.python_version() + (" of Debian" if by_debian else "")


def _import_seconds() -> float:
    """Time a bare interpreter that imports asyncio, as a measure of how fast this machine is."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-c", "import asyncio"], check=True)
    return time.perf_counter() - began


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process in MB (10⁶ bytes)."""
    return _status_mb(pid, "VmRSS:")


def peak_mb(pid: int) -> float:
    """Return the most that a process has ever had resident, in MB (10⁶ bytes)."""
    return _status_mb(pid, "VmHWM:")


def _status_mb(pid: int, name: str) -> float:
    for line in (_PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024 / 1e6
    raise ProcessLookupError(f"process {pid} has no memory any more")


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process and its living descendants have used so far."""
    return sum(_own_cpu_seconds(item) for item in (pid, *_descendants(pid)))


def _own_cpu_seconds(pid: int) -> float:
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return 0.0
    # proc(5): the name in parentheses may hold anything; utime and stime are fields 14 and 15.
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for children in (_PROC / str(pid) / "task").glob("*/children"):
        try:
            direct = [int(child) for child in children.read_text().split()]
        except OSError:
            continue
        for child in direct:
            found += [child, *_descendants(child)]
    return found


def _processor() -> str:
    for line in (_PROC / "cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return ""
