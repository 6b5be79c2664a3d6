"""Where the agents of a pod are: their addresses, and their container for commands that users run.

Anyone who controls a pod chooses the addresses that it reports, so only the pod's own address is
queried.
"""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from hotmap.core.model.agent_containers import command_words, running_containers, runs_agent
from hotmap.core.model.agent_program import agent_program
from hotmap.core.model.annotations import AGENT
from hotmap.core.model.objects import Pod
from hotmap.core.text import parse_number, printable

__all__ = ["AgentAddress", "AgentContainer", "agent_addresses", "agent_container"]

#: The addresses of cloud metadata services, which serve credentials.
_METADATA_SERVICES = (ipaddress.ip_address("fd00:ec2::254"),)

#: The maximum number of agents in one pod; the annotation could name any number.
_MAX_AGENTS = 16


class AgentAddress(NamedTuple):
    """Where an agent is queried."""

    host: str
    port: int
    #: The pod's uid, which the answer must contain, and its namespace.
    uid: str
    namespace: str


def agent_addresses(pod: Pod, *, loopback: bool) -> tuple[AgentAddress, ...] | str:
    """Find where the agents of a pod are asked, or say why one cannot be.

    Only the pod IP that the kubelet reports is queried, never a loopback or link-local address,
    where other services may trust local requests. `loopback` permits loopback addresses, which the
    pods of a local control plane have.
    """
    value = (pod.metadata.annotations or {}).get(AGENT)
    if value is None:
        return "it has no agent"
    agents = value.split(",", _MAX_AGENTS)
    if len(agents) > _MAX_AGENTS:
        return "it has too many agents"
    ports = []
    for agent in agents:
        found = [part.strip()[5:] for part in agent.split(";") if part.strip().startswith("port=")]
        if not found:
            return "its agent serves no port (--listen none)"
        port = parse_number(found[0])
        if port is None or not 0 < port < 65536:
            return "the port of its agent is invalid"
        ports.append(port)
    try:
        address = ipaddress.ip_address(pod.status.pod_ip)
    except ValueError:
        return "it has no address yet"
    if not _may_be_asked(address, loopback=loopback):
        return f"agents are not queried at its address {address}"
    metadata = pod.metadata
    return tuple(
        AgentAddress(str(address), port, metadata.uid, metadata.namespace) for port in ports
    )


def _may_be_asked(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, *, loopback: bool
) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id or address in _METADATA_SERVICES:
            return False
        address = address.ipv4_mapped or address
    if address.is_loopback:
        return loopback
    return not (address.is_link_local or address.is_multicast or address.is_unspecified)


class AgentContainer(NamedTuple):
    """The container of a pod in which its agent runs, for the commands that a user needs."""

    namespace: str
    pod: str
    #: "" if there is none that is known, or more than one.
    name: str = ""
    #: Its command and arguments.
    words: tuple[str, ...] = ()

    @property
    def log_command(self) -> str:
        """The command that shows the agent's log."""
        which = f"-c {self.name}" if self.name else "--all-containers"
        return f"kubectl logs -n {self.namespace} {self.pod} {which}"

    @property
    def output_command(self) -> str:
        """The command that shows the output of the agent's check, which its log does not have.

        That of the log where the agent's command is not known.
        """
        program = agent_program(self.words)
        if not self.name or not program:
            return self.log_command
        words = [*program, "status", *_socket_flag(self.words)]
        command = printable(shlex.join(words))
        return f"kubectl exec -n {self.namespace} {self.pod} -c {self.name} -- {command}"


def _socket_flag(words: Sequence[str]) -> list[str]:
    for word, value in pairwise([*words, ""]):
        if word == "--socket":
            return [word, value]
        if word.startswith("--socket="):
            return [word]
    return []


def agent_container(pod: Pod) -> AgentContainer:
    """Find the container in which the agent of a pod runs."""
    namespace, name = pod.metadata.namespace, pod.metadata.name
    found = [each for each in running_containers(pod.spec) if runs_agent(each)]
    if len(found) != 1:
        return AgentContainer(namespace, name)
    return AgentContainer(namespace, name, found[0].name, tuple(command_words(found[0])))
