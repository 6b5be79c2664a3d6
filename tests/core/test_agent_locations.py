"""Where the agents of a pod are asked, and the commands that show their output."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hotmap.core.model.objects import Pod
from hotmap.core.status.agent_locations import (
    AgentAddress,
    agent_addresses,
    agent_container,
)

UID = "uid-of-web-1"


def a_pod(address: str = "10.0.0.7", agent: str | None = "port=9533;restart=none") -> Pod:
    annotations = {} if agent is None else {"hotmap.dev/agent": agent}
    metadata = {"name": "web-1", "namespace": "shop", "uid": UID, "annotations": annotations}
    return msgspec.convert({"metadata": metadata, "status": {"podIP": address}}, Pod)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.1.0.5", "::1", "0.0.0.0", "::", "169.254.169.254", "fe80::1", "fe80::1%eth0",
     "224.0.0.1", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "fd00:ec2::254"],
)  # fmt: skip
def test_agent_is_asked_at_addresses_of_pods_only(address: str) -> None:
    """Never this machine, its link, or a cloud's metadata service: they trust who asks."""
    assert isinstance(agent_addresses(a_pod(address), loopback=False), str)


@pytest.mark.parametrize("address", ["10.0.0.7", "fd00::7", "192.168.1.4", "203.0.113.9"])
def test_agent_is_asked_at_its_annotated_port(address: str) -> None:
    assert agent_addresses(a_pod(address), loopback=False) == (
        AgentAddress(address, 9533, UID, "shop"),
    )


def test_each_agent_of_a_pod_is_asked() -> None:
    """In the order of the annotation."""
    found = agent_addresses(a_pod(agent="port=9533;restart=none, port=81"), loopback=False)
    assert found == (
        AgentAddress("10.0.0.7", 9533, UID, "shop"),
        AgentAddress("10.0.0.7", 81, UID, "shop"),
    )


def test_loopback_addresses_are_for_local_control_planes() -> None:
    assert agent_addresses(a_pod("127.1.0.5"), loopback=True) == (
        AgentAddress("127.1.0.5", 9533, UID, "shop"),
    )
    assert isinstance(agent_addresses(a_pod("169.254.1.1"), loopback=True), str)


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        pytest.param(a_pod(agent=None), "it has no agent", id="no annotation"),
        pytest.param(a_pod(agent="restart=none"), "its agent serves no port (--listen none)",
                     id="no port"),
        pytest.param(a_pod(agent="port=0"), "the port of its agent is invalid", id="port 0"),
        pytest.param(a_pod(agent="port=x"), "the port of its agent is invalid", id="no number"),
        pytest.param(a_pod(agent="port=1,restart=none"),
                     "its agent serves no port (--listen none)", id="no port of the second"),
        pytest.param(a_pod(agent="port=1," * 17), "it has too many agents", id="17 agents"),
        pytest.param(a_pod(""), "it has no address yet", id="no address"),
        pytest.param(a_pod("example.com"), "it has no address yet", id="a name"),
    ],
)  # fmt: skip
def test_pod_whose_agent_cannot_be_asked_says_why(found: Pod, problem: str) -> None:
    assert agent_addresses(found, loopback=False) == problem


@pytest.mark.parametrize(
    ("spec", "which"),
    [
        pytest.param({"initContainers": [{"name": "hotmap-agent", "restartPolicy": "Always"}]},
                     "-c hotmap-agent", id="native sidecar"),
        pytest.param({"containers": [{"name": "app"}, {"name": "hotmap-agent"}]},
                     "-c hotmap-agent", id="sidecar"),
        pytest.param({"initContainers": [{"name": "hotmap-agent"}],
                      "containers": [{"name": "app",
                                      "command": ["python3", "/hotmap/bin/agent.pyz"]}]},
                     "-c app", id="supervisor"),
        pytest.param({"containers": [{"name": "app"}]}, "--all-containers", id="of its own"),
    ],
)  # fmt: skip
def test_log_command_names_the_container_of_the_agent(spec: dict[str, Any], which: str) -> None:
    assert agent_container(pod_of(spec)).log_command == f"kubectl logs -n shop web-1 {which}"


def pod_of(spec: dict[str, Any]) -> Pod:
    metadata = {"name": "web-1", "namespace": "shop"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)


@pytest.mark.parametrize(
    ("container", "command"),
    [
        pytest.param({"name": "hotmap-agent",
                      "args": ["agent", "--dir", "/a", "--socket", "/hotmap/run/agent.sock"]},
                     "-c hotmap-agent -- hotmap agent status --socket /hotmap/run/agent.sock",
                     id="sidecar"),
        pytest.param({"name": "app",
                      "command": ["python3", "/hotmap/bin/agent.pyz", "--socket=/run/a b"]},
                     "-c app -- python3 /hotmap/bin/agent.pyz status '--socket=/run/a b'",
                     id="supervisor"),
        pytest.param({"name": "reload", "command": ["/usr/bin/hotmap", "agent"]},
                     "-c reload -- /usr/bin/hotmap agent status", id="its default socket"),
    ],
)  # fmt: skip
def test_output_command_shows_what_the_check_printed(
    container: dict[str, Any], command: str
) -> None:
    """The agent's log does not have it, since it may quote content."""
    found = agent_container(pod_of({"containers": [{"name": "other"}, container]}))
    assert found.output_command == f"kubectl exec -n shop web-1 {command}"


def test_output_command_is_that_of_the_log_where_the_agent_is_not_known() -> None:
    """An agent of its own, or several: each log says where the output is."""
    agents = [{"name": f"hotmap-agent-{number}", "args": ["agent"]} for number in (2, 3)]
    for containers in ([{"name": "app"}], agents):
        found = agent_container(pod_of({"containers": containers}))
        assert found.output_command == found.log_command


def test_output_command_cannot_be_extended_by_a_pod() -> None:
    """A user copies it into a shell, and whoever makes pods chooses their arguments."""
    args = ["agent", "--socket", "/run/x; rm -rf /\x1b[2J"]
    found = agent_container(pod_of({"containers": [{"name": "hotmap-agent", "args": args}]}))
    assert found.output_command.endswith("hotmap agent status --socket '/run/x; rm -rf /\\x1b[2J'")
