"""shareProcessNamespace: the containers of a pod see and signal each other's processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.local.kubelet.conftest import eventually
from tests.local.kubelet.test_killed_kubelet import processes_with
from tests.support.polling import wait_until

if TYPE_CHECKING:
    from tests.local.kubelet.conftest import LocalNode

#: Prints the numbers of the processes whose command line begins with the first argument.
FIND = r"""
find() {
    for directory in /proc/[0-9]*; do
        case "$(tr '\0' ' ' < $directory/cmdline)" in "$1"*) echo ${directory#/proc/};; esac
    done
}
"""


def shared(**scripts: str) -> dict[str, Any]:
    """The part of a pod whose containers, by name, run these scripts in one namespace."""
    return {
        "shareProcessNamespace": True,
        "containers": [
            {"name": name, "image": "shell", "command": ["sh", "-c", script]}
            for name, script in scripts.items()
        ],
    }


async def run(node: LocalNode, **scripts: str) -> None:
    first = next(iter(scripts.values()))
    await node.run_pod("pod", first, pod=shared(**scripts))
    await node.phase("pod", "Running")


async def test_container_signals_other_container(node: LocalNode) -> None:
    """Across their roots, by the numbers of the namespace that both are in."""
    server = "trap 'echo told' HUP; echo up; while :; do sleep 0.01; done"
    await run(node, c=server, d="exec sleep 600")
    await wait_until(lambda: has_logged(node, "up"))
    await node.execute("pod", FIND + "kill -HUP $(find 'sh -c trap')", container="d")
    await wait_until(lambda: has_logged(node, "told"))


async def has_logged(node: LocalNode, word: str) -> bool:
    return word in await node.logs("pod")


async def test_containers_keep_separate_roots(node: LocalNode) -> None:
    """To share processes is to share nothing else."""
    await run(node, c="exec sleep 600", d="exec sleep 600")
    await node.execute("pod", "echo mine > /tmp/shared-processes-test")
    assert await node.execute("pod", "ls /tmp", container="d") == await node.execute(
        "pod", "ls /tmp | grep -v shared-processes-test"
    )


async def test_process_1_belongs_to_no_container(node: LocalNode) -> None:
    """It holds no file open, no signal from within ends it, and it reaps what is orphaned."""
    await run(node, c="exec sleep 600", d="exec sleep 600")
    script = "kill -9 1; cat /proc/1/comm; ls /proc/1/fd"
    assert await node.execute("pod", script) == "pause\n"
    await node.execute("pod", "sh -c 'sleep 0.01 & exit'")

    async def reaped() -> bool:
        return " Z " not in await node.execute("pod", "cat /proc/[0-9]*/stat")

    await wait_until(reaped)


async def test_background_processes_end_with_container(node: LocalNode) -> None:
    """Also what left its session; the processes of the other containers stay."""
    await run(node, c="setsid sleep 9137.5 & sleep 9137.5 & exec sleep 600", d="exec sleep 9138.5")
    await eventually(lambda: len(processes_with("9137.5")) == 2)
    (other,) = processes_with("9138.5")
    await node.execute("pod", FIND + "kill -9 $(find 'sleep 600')", container="d")
    # The container is restarted at once, with two of them again.
    await node.until("pod", lambda pod: restarts(pod) == 1)
    await eventually(lambda: len(processes_with("9137.5")) == 2)
    assert processes_with("9138.5") == [other]


def restarts(pod: dict[str, Any]) -> int:
    return sum(status["restartCount"] for status in pod["status"]["containerStatuses"])


async def test_process_namespace_ends_with_pod(node: LocalNode) -> None:
    """Nothing of it runs on."""
    await run(node, c="setsid sleep 9139.5 & exec sleep 9139.5", d="exec sleep 9139.5")
    await eventually(lambda: len(processes_with("9139.5")) == 3)
    await node.registry.delete("pods", "default", "pod")
    await node.gone("pod")
    await eventually(lambda: processes_with("9139.5") == [])
