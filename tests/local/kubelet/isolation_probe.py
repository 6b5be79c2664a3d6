"""Runs containers and prints what they saw as JSON, for tests that need another user.

Standard library and `hotmap.local.kubelet.runtime` only: another user may have no more than a
copy of the sources and the system's Python. Arguments: a directory that it may write to.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from pathlib import Path
from typing import Any

from hotmap.core.errors import SettingsError
from hotmap.local.kubelet.runtime import Runtime, StartFailed

SCRIPT = """
echo "config=$(cat /etc/hotmap-test/app/config)"
echo "deep=$(cat /opt/hotmap-test/deep/er/f)"
echo "one=$(cat /etc/hotmap-test.conf)"
echo "through-link=$(cat /hotmap-link/f)"
echo "write-ro=$(echo x 2>/dev/null > /etc/hotmap-test/app/config && echo yes || echo no)"
echo "write-rw=$(echo x 2>/dev/null > /opt/hotmap-test/deep/er/new && echo yes || echo no)"
echo "write-tmp=$(echo x 2>/dev/null > /tmp/hotmap-test-file && echo yes || echo no)"
echo x 2>/dev/null > /etc/hotmap-test-file
rm -f /etc/passwd 2>/dev/null
echo "hostname=$(hostname)"
echo "processes=$(ls /proc | grep -c '^[0-9]')"
echo "null=$(echo x > /dev/null && echo yes)"
echo "host-root=$(ls -d /.host 2>/dev/null)"
"""


def spec(*argv: str, mounts: list[Any] | None = None, processes: str = "", **ids: int) -> Any:
    return {
        "argv": list(argv),
        "env": {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        "cwd": "/",
        "hostname": "pod-1",
        "mounts": mounts or [],
        "processes": processes,
        **ids,
    }


async def look_around(runtime: Runtime, directory: Path) -> dict[str, str]:
    volume, file = directory / "volume", directory / "one"
    volume.mkdir()
    (volume / "config").write_text("from the volume")
    (volume / "f").write_text("from the directory")
    file.write_text("one file")
    mounts = [
        {"source": str(volume), "target": "/etc/hotmap-test/app", "read_only": True},
        {"source": str(volume), "target": "/opt/hotmap-test/deep/er", "read_only": False},
        {"source": str(file), "target": "/etc/hotmap-test.conf", "read_only": True},
        {"source": str(volume), "target": "/hotmap-link", "read_only": True},
    ]
    output: list[bytes] = []
    process = await runtime.run(
        spec("sh", "-c", SCRIPT, mounts=mounts), lambda _, data: output.append(data)
    )
    code = await process.wait()
    lines = b"".join(output).decode().splitlines()
    return {"code": str(code), **dict(line.split("=", 1) for line in lines if "=" in line)}


async def kill_with_descendants(runtime: Runtime) -> dict[str, object]:
    """A container whose process forks one that leaves its session, killed; and one of an exec."""
    quiet = asyncio.Event()
    process = await runtime.run(
        spec("sh", "-c", "setsid sleep 600 & echo up; wait"), lambda *_: quiet.set()
    )
    await quiet.wait()
    command = await runtime.execute(process, spec("sleep", "600"), lambda *_: None)
    process.signal(15)
    ignored = process.running
    process.signal(9)
    codes = [await process.wait(), await command.wait()]
    return {"term-ignored-by-process-1": ignored, "codes": codes}


async def share_processes(runtime: Runtime) -> dict[str, object]:
    """Two containers in one PID namespace; what the first has started ends with it."""
    count = "grep -lsx sleep /proc/[0-9]*/comm | wc -l"
    first = await runtime.run(
        spec("sh", "-c", "setsid sleep 600 & wait", processes="pod"), lambda *_: None
    )
    told: list[bytes] = []
    ready = asyncio.Event()

    def hear(_: str, data: bytes) -> None:
        told.append(data)
        ready.set()

    script = f"until [ $({count}) = 1 ]; do sleep 0.01; done; cat /proc/1/comm; exec sleep 600"
    second = await runtime.run(spec("sh", "-c", script, processes="pod"), hear)
    async with asyncio.timeout(60):
        await ready.wait()
        first.signal(9)
        code = await first.wait()
        gone = f"until [ $({count}) = 1 ]; do sleep 0.01; done"  # the second's own is left
        looked = await runtime.execute(second, spec("sh", "-c", gone), lambda *_: None)
        left = await looked.wait()
    return {"process 1": b"".join(told).decode(), "codes": [code, left], "up": second.running}


async def failures(runtime: Runtime) -> list[str]:
    texts = []
    missing = [{"source": "/nowhere/at/all", "target": "/x", "read_only": True}]
    for wrong in (
        spec("no-such-program"),
        spec("/etc/passwd"),
        spec("true", mounts=missing),
        spec("true", user=-1),
    ):
        try:
            await runtime.run(wrong, lambda *_: None)
        except StartFailed as error:
            texts.append(str(error))
    return texts


async def run_as_other_users(runtime: Runtime) -> list[str]:
    """Run containers as other users and groups; return how each of them sees itself."""
    output: list[bytes] = []
    ids: tuple[dict[str, Any], ...] = (
        {"user": 65532},
        {"user": 65532, "group": 65531},
        {"group": 65531},
    )
    for each in ids:
        wanted = spec("sh", "-c", "echo $(id -u) $(id -g)", **each)
        process = await runtime.run(wanted, lambda _, data: output.append(data))
        await process.wait()
    return b"".join(output).decode().splitlines()


async def look_at_each_other(runtime: Runtime) -> list[str]:
    """Return what a container and an exec see of another container of the same user."""
    seen: list[bytes] = []
    ids: dict[str, Any] = {"user": 65532, "group": 65532}
    first = await runtime.run(spec("sleep", "600", processes="u", **ids), lambda *_: None)
    script = "for process in /proc/[0-9]*; do readlink $process/exe; done | grep sleep"
    look = spec("sh", "-c", script, processes="u", **ids)
    beside = await runtime.run(look, lambda _, data: seen.append(data))
    await beside.wait()
    command = await runtime.execute(first, look, lambda _, data: seen.append(data))
    await command.wait()
    first.signal(9)
    await first.wait()
    return b"".join(seen).decode().splitlines()


async def run_as_many_users(runtime: Runtime) -> list[str]:
    """Run containers as one user after another; return how each of them sees itself, or why not."""
    seen: list[str] = []
    for user in (1, 2, 1, 0):
        try:
            process = await runtime.run(
                spec("id", "-u", user=user), lambda _, data: seen.append(data.decode().strip())
            )
            await process.wait()
        except StartFailed as error:
            seen.append(str(error))
    return seen


async def run_without_free_descriptors(runtime: Runtime) -> dict[str, object]:
    """Start a container while the zygote can open no file; return why it failed, and what is left.

    The zygote is process 1 of its PID namespace, below the process that the runtime has started.
    """
    first = await runtime.run(spec("sleep", "600"), lambda *_: None)
    assert runtime._zygote is not None
    outer = runtime._zygote.pid
    zygote = int(Path(f"/proc/{outer}/task/{outer}/children").read_text().split()[0])
    used = {int(file.name) for file in Path(f"/proc/{zygote}/fd").iterdir()}
    free = next(number for number in range(len(used) + 1) if number not in used)
    limits = resource.prlimit(zygote, resource.RLIMIT_NOFILE)
    resource.prlimit(zygote, resource.RLIMIT_NOFILE, (free, limits[1]))
    why = ""
    try:
        await runtime.run(spec("true"), lambda *_: None)
    except StartFailed as error:
        why = str(error)
    resource.prlimit(zygote, resource.RLIMIT_NOFILE, limits)
    later = await runtime.run(spec("true"), lambda *_: None)
    return {"why": why, "first runs": first.running, "code": await later.wait()}


async def main(directory: Path, *, only: str) -> None:
    runtime = Runtime(directory / "sandbox")
    try:
        await runtime.start()
    except SettingsError as error:
        sys.stdout.write(json.dumps({"refused": str(error)}))
        return
    try:
        result: dict[str, object]
        if only == "--only-users":
            result = {"users": await run_as_many_users(runtime)}
        elif only == "--only-descriptors":
            result = await run_without_free_descriptors(runtime)
        else:
            result = {
                "root": runtime.root,
                "rootless": runtime.rootless,
                "seen": await look_around(runtime, directory),
                "killed": await kill_with_descendants(runtime),
                "shared": await share_processes(runtime),
                "failures": await failures(runtime),
                "users": await run_as_other_users(runtime),
                "each other": await look_at_each_other(runtime),
            }
    finally:
        await runtime.close()
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), only="".join(sys.argv[2:])))
