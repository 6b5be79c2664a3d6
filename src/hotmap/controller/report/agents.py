"""Queries the agents in pods for the state of their content.

One GET for each agent of a pod, without credentials, many at a time. Whatever listens at a pod's
address may answer, so a request is bounded in every way: one connection to an address that
`core.status.agent_locations` allows, no redirects, no names to resolve, one deadline for all of it,
and a limit for its size. What comes back is read by `read_answer` and shown nowhere as it is.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from hotmap.core.model.objects import Pod
from hotmap.core.status.agent_announcement import AgentAnnouncement
from hotmap.core.status.agent_answers import AgentReport, merge_reports, read_answer
from hotmap.core.status.agent_locations import AgentAddress, agent_addresses
from hotmap.core.status.agent_stages import is_final
from hotmap.core.status.desired import DesiredContent
from hotmap.kube.bounded_dict import put_latest
from hotmap.kube.fair_slots import FairSlots

__all__ = ["AgentClient", "AgentQuery"]

#: Seconds for one request, connecting included.
_TIMEOUT = 1.0

#: Concurrent requests, over all consumers.
_MAX_REQUESTS = 64

#: Bytes of a response: 256 directories take 30 KB.
_MAX_RESPONSE = 64 << 10

#: Cached reports: a pod that has loaded a change is not queried again.
_MAX_REPORTS = 10_000

_CONTENT_LENGTH = re.compile(rb"\r\nContent-Length:[ \t]*(\d{1,9})[ \t]*(?:\r\n|$)", re.IGNORECASE)

_REQUEST = "GET /v1/pod HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"


class AgentQuery(NamedTuple):
    """A pod whose agents are asked, and what their report is compared with."""

    uid: str
    #: Or why they cannot be asked.
    addresses: tuple[AgentAddress, ...] | str
    announcement: AgentAnnouncement


class _Final(NamedTuple):
    """A report that would not change, and what it is about."""

    desired: DesiredContent
    change: int
    report: AgentReport


class AgentClient:
    """Queries agents; an agent that has reported a change as loaded is not queried again."""

    def __init__(self, server: str) -> None:
        """`server` is the API server's URL; if it is a loopback address, pods may have such too."""
        self._loopback = _is_loopback(urlsplit(server).hostname or "")
        # Namespaces take turns: agents of one that do not answer delay no other's.
        self._slots = FairSlots(_MAX_REQUESTS)
        #: By uid of the pod.
        self._final: OrderedDict[str, _Final] = OrderedDict()

    async def ask(
        self, queries: Sequence[AgentQuery], desired: DesiredContent, *, change: int
    ) -> Mapping[str, AgentReport]:
        """Ask the agents of pods how far the desired content is; reports by the uid of the pod.

        `change` differs after each nudge with other content, which may be reverted later. Takes one
        time-out for each 64 pods that do not answer.
        """
        reports: dict[str, AgentReport] = {}
        queue = iter(queries)

        async def ask() -> None:
            for query in queue:
                reports[query.uid] = await self._ask_once(query, desired, change)

        await asyncio.gather(*(ask() for _ in range(min(len(queries), _MAX_REQUESTS))))
        return reports

    async def _ask_once(
        self, query: AgentQuery, desired: DesiredContent, change: int
    ) -> AgentReport:
        """Return the final report of an agent about the same content, or query it."""
        uid = query.uid
        known = self._final.get(uid)
        if known is not None and (known.desired, known.change) == (desired, change):
            self._final.move_to_end(uid)
            return known.report
        report = (await self._ask_pod(query.addresses))._replace(at=query.announcement.now)
        self._final.pop(uid, None)
        if is_final(report, query.announcement):
            put_latest(self._final, uid, _Final(desired, change, report), most=_MAX_REPORTS)
        return report

    def addresses(self, pod: Pod) -> tuple[AgentAddress, ...] | str:
        """Find where the agents of a pod are asked, or say why they cannot be."""
        return agent_addresses(pod, loopback=self._loopback)

    async def _ask_pod(self, addresses: tuple[AgentAddress, ...] | str) -> AgentReport:
        """Ask all agents of a pod."""
        if isinstance(addresses, str):
            return AgentReport(None, addresses)
        if len(addresses) == 1:  # no task of its own for the usual case
            return await self._ask_agent(addresses[0])
        return merge_reports(await asyncio.gather(*map(self._ask_agent, addresses)))

    async def _ask_agent(self, address: AgentAddress) -> AgentReport:
        async with self._slots.use(address.namespace):
            try:
                async with asyncio.timeout(_TIMEOUT):
                    response = await _get(address)
            except TimeoutError:
                report = AgentReport(None, f"its agent did not answer within {_TIMEOUT:g}s")
            except (OSError, EOFError, ValueError):
                report = AgentReport(None, "its agent cannot be reached")
            else:
                report = _read_response(response, address.uid)
        return report


async def _get(address: AgentAddress) -> bytes:
    """Send the request and read what comes back until its end, or more than it may be.

    On the socket itself: a stream costs a third more for a request that is so small. A response
    that tells its length ends there: waiting for the connection's end costs another wake-up.
    """
    is_ipv6 = ":" in address.host
    family = socket.AF_INET6 if is_ipv6 else socket.AF_INET
    loop = asyncio.get_running_loop()
    with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as connection:
        await loop.sock_connect(connection, (address.host, address.port))
        host = f"[{address.host}]" if is_ipv6 else address.host
        await loop.sock_sendall(connection, _REQUEST.format(host=host).encode())
        return await _receive(connection)


async def _receive(connection: socket.socket) -> bytes:
    """Receive a response until its end, or more than it may be.

    Each byte is searched once: a pod may send them one by one.
    """
    loop = asyncio.get_running_loop()
    response, head, wanted = bytearray(), -1, _MAX_RESPONSE + 1
    while len(response) < wanted and (data := await loop.sock_recv(connection, _MAX_RESPONSE)):
        searched = max(0, len(response) - 3)
        response += data
        if head < 0 and (head := response.find(b"\r\n\r\n", searched)) >= 0:
            length = _CONTENT_LENGTH.search(response, 0, head)
            if length is not None:
                wanted = min(wanted, head + 4 + int(length[1]))
    return bytes(response)


def _read_response(response: bytes, uid: str) -> AgentReport:
    head, separator, body = response.partition(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].split(b" ", 2)
    if len(response) > _MAX_RESPONSE or not separator or not words[0].startswith(b"HTTP/1."):
        return AgentReport(None, "its agent's answer cannot be read")
    if words[1:2] == [b"404"]:
        return AgentReport(None, "its agent is too old to be queried; inject it again")
    if words[1:2] != [b"200"]:
        return AgentReport(None, "its agent returned an error")
    return read_answer(body, uid)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
