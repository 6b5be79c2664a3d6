"""Restart policies and rules of containers, and restarts of all containers of a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hotmap.core.errors import BadRequest
from hotmap.local.kubelet.actions import PodActions, Run, compute_pod_actions
from hotmap.local.kubelet.status import compute_phase

if TYPE_CHECKING:
    from tests.local.kubelet.conftest import LocalNode

RUNNING = Run("r", 0, 100.0)
DONE = RUNNING._replace(finished_at=110.0, exit_code=0)
FAILED = RUNNING._replace(finished_at=110.0, exit_code=42)


def rule(action: str = "Restart", operator: str = "In") -> dict[str, Any]:
    codes = {"operator": operator, "values": [42]}
    return {"restartPolicyRules": [{"action": action, "exitCodes": codes}]}


def spec(policy: str, own: dict[str, Any], *, init: bool = False) -> dict[str, Any]:
    container = {"name": "a", **own}
    if init:
        return {
            "restartPolicy": policy,
            "initContainers": [container],
            "containers": [{"name": "b"}],
        }
    return {"restartPolicy": policy, "containers": [container]}


@pytest.mark.parametrize(
    ("pod", "run", "restarts", "phase"),
    [
        (spec("Always", {"restartPolicy": "Never"}), FAILED, False, "Failed"),
        (spec("Always", {"restartPolicy": "Never"}), DONE, False, "Succeeded"),
        (spec("Never", {"restartPolicy": "Always"}), DONE, True, "Running"),
        (spec("Never", {"restartPolicy": "OnFailure"}), FAILED, True, "Running"),
        (spec("Always", {"restartPolicy": "OnFailure"}), DONE, False, "Succeeded"),
        (spec("Never", {"restartPolicy": "Never", **rule()}), FAILED, True, "Running"),
        (spec("Never", {"restartPolicy": "Never", **rule()}), DONE, False, "Succeeded"),
        (
            spec("Never", {"restartPolicy": "Never", **rule(operator="NotIn")}),
            FAILED,
            False,
            "Failed",
        ),
        (spec("Always", {"restartPolicy": "Never"}, init=True), FAILED, False, "Failed"),
        (spec("Never", {"restartPolicy": "OnFailure"}, init=True), FAILED, True, "Pending"),
    ],
)
def test_policy_of_a_container_comes_first(
    pod: dict[str, Any], run: Run, restarts: bool, phase: str
) -> None:
    """Its rules, its policy, and only then the policy of the pod."""
    expected = PodActions(start=("a",)) if restarts else PodActions(finished=True)
    assert compute_pod_actions(pod, {"a": run}) == expected
    assert compute_phase(pod, {"a": run}) == phase


def test_all_containers_are_reset_with_the_cause_last() -> None:
    """In the order of the kubelet, init containers after the others."""
    pod = {
        "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
        "containers": [
            {"name": "a", "restartPolicy": "Always", **rule("RestartAllContainers")},
            {"name": "b"},
            {"name": "new"},
        ],
    }
    runs = {"i": DONE, "s": RUNNING, "a": FAILED, "b": RUNNING}
    assert compute_pod_actions(pod, runs) == PodActions(reset=("b", "i", "s", "a"))
    assert compute_pod_actions(pod, {**runs, "a": DONE}).reset == ()


def states(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    status = pod.get("status", {})
    found = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    return {state["name"]: state for state in found}


def condition(pod: dict[str, Any]) -> str:
    found: dict[str, str] = {
        each["type"]: each["status"] for each in pod.get("status", {}).get("conditions", ())
    }
    return found.get("AllContainersRestarting", "")


async def test_all_containers_start_again(node: LocalNode) -> None:
    """With the pod's volumes, its UID and address; also init containers, and what ignores TERM."""
    stubborn = "trap '' TERM; echo run >> /d/other; while :; do sleep 0.05; done"
    mounts = {"volumeMounts": [{"name": "d", "mountPath": "/d"}]}
    other = {"name": "o", "image": "shell", "command": ["sh", "-c", stubborn], **mounts}
    init = {"name": "i", "image": "shell", "command": ["sh", "-c", "echo run >> /d/init"], **mounts}
    script = "[ -f /d/again ] && exec sleep 600; touch /d/again; sleep 0.2; exit 42"
    causing = {
        "name": "c",
        "image": "shell",
        "command": ["sh", "-c", script],
        "restartPolicy": "Never",
        **rule("RestartAllContainers"),
        **mounts,
    }
    pod = {
        "nodeName": "local",
        "initContainers": [init],
        "containers": [causing, other],
        "volumes": [{"name": "d", "emptyDir": {}}],
    }
    await node.create("pods", {"metadata": {"name": "p"}, "spec": pod})
    before = await node.until("p", lambda pod: condition(pod) == "True")
    restarted = await node.until(
        "p",
        lambda pod: all(
            state["restartCount"] == 1 and (name == "i" or "running" in state["state"])
            for name, state in states(pod).items()
        ),
    )
    assert condition(restarted) == "False"
    assert restarted["status"]["podIP"] == before["status"]["podIP"]
    for state in states(restarted).values():
        assert state["lastState"]["terminated"]["reason"] == "RestartingAllContainers"
        assert state["lastState"]["terminated"]["startedAt"] is None
    assert await node.execute("p", "cat /d/other /d/init") == "run\n" * 4
    with pytest.raises(BadRequest, match="previous terminated container"):
        await node.logs("p", previous=True)


async def test_all_containers_restart_at_most_once_a_second(node: LocalNode) -> None:
    """There is no back-off, and a container that cannot start must not keep the node busy."""
    always = rule("RestartAllContainers", "NotIn")
    await node.run_pod("p", "", command=["/nowhere"], restartPolicy="Always", **always)
    await node.until("p", lambda pod: states(pod)["c"]["restartCount"] >= 2 if states(pod) else 0)
    pod = node.pods.objects["default", "p"]
    assert states(pod)["c"]["restartCount"] < 5


async def test_deleted_pod_ends_whatever_its_containers_policies_say(node: LocalNode) -> None:
    """Nothing of it is started again."""
    await node.run_pod("p", "exec sleep 600", restartPolicy="Always")
    await node.phase("p", "Running")
    await node.registry.delete("pods", "default", "p")
    await node.gone("p")
