"""Runs a kubelet with one pod until it is ended; prints `running` when the pod runs.

Arguments: the kubelet's directory, and a word that the pod's processes carry in their arguments.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.local.kubelet.conftest import LocalNode

SCRIPT = """
trap '' TERM HUP INT
setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 600; done' {marker} &
while :; do sleep 600; done
"""


async def main(directory: Path, marker: str) -> None:
    node = LocalNode(directory)
    await node.start()
    await node.config_map("app", {"a": "1"})
    await node.run_pod(
        "left",
        SCRIPT.format(marker=marker),
        command=["sh", "-c", SCRIPT.format(marker=marker), marker],
        pod={"volumes": [{"name": "v", "configMap": {"name": "app"}}]},
        volumeMounts=[{"name": "v", "mountPath": "/etc/config"}],
    )
    await node.phase("left", "Running")
    sys.stdout.write("running\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
