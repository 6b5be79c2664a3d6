"""The report of an agent about the content of its pod, and what the report proves.

The controller requests this document from the status port of an agent (GET /v1/pod):

    {"protocol": 1, "uid": "9d1…", "live": "uY3…", "frozen": "-", "exitStatus": null,
     "directories": [{"state": "loaded", "evidence": "exact", "payload": "Zk…", "age": 3.2}],
     "restart": {"state": "none", "fingerprint": ""}}

    uid                the pod's own, from a downwardAPI volume
    live, frozen       the fingerprints that were announced to the pod; "" before the first time
    directories        one entry for each directory that the agent watches
      state            one of AgentState
      present          with `waiting`: the state of the files that are there
      evidence         how its files were compared with the announcement: `exact` by payload
                       digest, `order` by the order of announcements and updates, `assumed` if
                       that leaves open which update it was, "" if nothing was announced
      payload          the payload digest of its files, if the evidence is exact
      age              seconds since its files changed; null if the agent observed no change
    restart            the state of the restart for content read at start, if the agent does that
    exitStatus         the exit status of a check that failed

The answer comes from inside the pod, so it can be forged by anyone who controls the pod. Therefore
it counts for this pod only, its size and values are limited, only the values above are shown, and
an answer that does not match this schema makes the pod unknown. The output of a check is not part
of it, since it may quote content.
"""

from __future__ import annotations

import enum
import ipaddress
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import inf
from typing import Annotated, NamedTuple

import msgspec

from hotmap.core.decide.evidence import MARGIN
from hotmap.core.decide.restart_wave import RestartProgress
from hotmap.core.model.annotations import AGENT
from hotmap.core.model.objects import Pod
from hotmap.core.status.agent_coverage import running_containers, runs_agent
from hotmap.core.status.agent_program import agent_program
from hotmap.core.status.stage import Confidence, PodState, Stage
from hotmap.core.target import Target
from hotmap.core.text import parse_number, printable

__all__ = [
    "PROTOCOL",
    "AgentAddress",
    "AgentAnnouncement",
    "AgentAnswer",
    "AgentContainer",
    "AgentDirectory",
    "AgentReport",
    "AgentRestart",
    "AgentState",
    "Evidence",
    "agent_addresses",
    "agent_container",
    "agent_stage",
    "is_final",
    "merge_reports",
    "projected_by_agent",
    "read_answer",
    "restart_progress",
    "restart_stage",
]

#: The version of the document. Other versions are not understood and prove nothing.
PROTOCOL = 1


class AgentState(enum.Enum):
    """The state of one directory, or of a restart; best first."""

    #: There is nothing to do.
    NONE = "none"
    #: The process has loaded the files, and a probe or its start confirms that.
    LOADED = "loaded"
    #: The process was told to reload, and nothing can confirm that it did.
    TOLD = "told"
    #: The announced files have not arrived yet.
    WAITING = "waiting"
    SETTLING = "settling"
    CHECKING = "checking"
    LOADING = "loading"
    RESTARTING = "restarting"
    #: The files cannot be read, the check could not run, or the process did not load them.
    UNREADABLE = "unreadable"
    CHECK_FAILED = "check-failed"
    FAILED = "failed"
    #: The check did not pass.
    REFUSED = "refused"


_BEST_FIRST = tuple(AgentState)

#: Seconds by which the controller's and the agent's measurements of a time may differ.
_CLOCKS = 1.0

#: The state of a pod for each state of its agent, with the reason.
_TROUBLE = {
    AgentState.WAITING: (PodState.WAITING, "its files are not updated yet"),
    AgentState.SETTLING: (PodState.SETTLING, "its agent waits until the files are complete"),
    AgentState.CHECKING: (PodState.CHECKING, "its agent is checking the content"),
    AgentState.LOADING: (PodState.LOADING, "its agent is reloading the process"),
    AgentState.RESTARTING: (PodState.RESTARTING, "its agent is restarting the process"),
    AgentState.UNREADABLE: (PodState.FAILED, "its agent cannot read the files"),
    AgentState.CHECK_FAILED: (PodState.FAILED, "the check of its agent could not run"),
    AgentState.FAILED: (PodState.FAILED, "the process did not load the content"),
    AgentState.REFUSED: (PodState.REFUSED, "the content did not pass the check of its agent"),
}


class Evidence(enum.Enum):
    """How the files of a directory were compared with the announcement."""

    EXACT = "exact"
    ORDER = "order"
    ASSUMED = "assumed"
    NONE = ""


_Name = Annotated[str, msgspec.Meta(max_length=128)]


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """Skips unknown fields, which later agents may add."""


class AgentDirectory(_Part, frozen=True):
    """One directory that an agent watches."""

    state: AgentState
    #: With `waiting`: the state of the files that are there.
    present: AgentState | None = None
    evidence: Evidence = Evidence.NONE
    payload: _Name = ""
    #: Seconds since its files changed; None: the agent observed no change.
    age: Annotated[float, msgspec.Meta(ge=0)] | None = None


class AgentRestart(_Part, frozen=True):
    """The state of the restart for content that is read at start."""

    state: AgentState = AgentState.NONE
    #: The announced fingerprint of the last restart, or the first one seen.
    fingerprint: _Name = ""


class AgentAnswer(_Part, frozen=True):
    """The used fields of the document."""

    protocol: int
    uid: _Name
    live: _Name
    frozen: _Name
    directories: Annotated[tuple[AgentDirectory, ...], msgspec.Meta(max_length=256)]
    restart: AgentRestart = AgentRestart()
    exit_status: Annotated[int, msgspec.Meta(ge=0, le=255)] | None = None

    @property
    def worst(self) -> AgentState:
        """The worst state of all directories."""
        states = [directory.state for directory in self.directories]
        return max(states, key=_BEST_FIRST.index, default=AgentState.NONE)

    @property
    def of_present_files(self) -> AgentAnswer:
        """The answer about the files that are there, whether or not others are awaited."""
        return msgspec.structs.replace(
            self,
            directories=tuple(
                msgspec.structs.replace(each, state=each.present or each.state)
                for each in self.directories
            ),
        )


class _Version(msgspec.Struct):
    protocol: int


class AgentReport(NamedTuple):
    """The result of querying an agent."""

    #: None: there is no valid answer.
    answer: AgentAnswer | None
    #: Why there is no answer; "" if there is one.
    problem: str = ""
    #: When it was queried, POSIX seconds of the API server; None: just now. An answer may be kept,
    #: and the ages in it are of that moment.
    at: float | None = None


class AgentAddress(NamedTuple):
    """Where an agent is queried."""

    host: str
    port: int
    #: The pod's uid, which the answer must contain, and its namespace.
    uid: str
    namespace: str


class AgentAnnouncement(NamedTuple):
    """The data that the answer of an agent is compared with."""

    #: The desired target, with the payload digests that the agents of this pod have to find: one
    #: for each directory. And the target of the pod's annotation.
    desired: Target
    nudged: Target | None
    #: The last changes of the sources that payload digests do not cover, one for each directory:
    #: POSIX seconds of the API server, None if unknown.
    order_changes: tuple[float | None, ...]
    #: POSIX seconds of the API server.
    now: float
    #: The number of directories that agents watch at least; 0: unknown.
    directories: int = 0
    #: By when its kubelet has updated the files, since it was nudged with this content: POSIX
    #: seconds of the API server.
    delivered_at: float = inf


_answers = msgspec.json.Decoder(AgentAnswer)
_versions = msgspec.json.Decoder(_Version)


def read_answer(body: bytes, uid: str) -> AgentReport:
    """Read an agent's answer for the pod with this uid."""
    try:
        protocol = _versions.decode(body).protocol
        if protocol != PROTOCOL:
            return AgentReport(None, f"its agent speaks protocol {protocol}, not {PROTOCOL}")
        answer = _answers.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return AgentReport(None, "its agent's answer cannot be read")
    if not answer.uid:
        return AgentReport(None, "its agent does not know the pod's uid; inject it again")
    if answer.uid != uid:
        return AgentReport(None, "another pod answers at its address")
    return AgentReport(answer)


# -- where ---------------------------------------------------------------------------------------

#: The addresses of cloud metadata services, which serve credentials.
_METADATA_SERVICES = (ipaddress.ip_address("fd00:ec2::254"),)

#: The maximum number of agents in one pod; the annotation could name any number.
_MAX_AGENTS = 16


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


def merge_reports(reports: Sequence[AgentReport]) -> AgentReport:
    """Make one report of those of all agents of a pod: what is true of each of them.

    One without an answer is what counts. Fingerprints that differ are as if none was announced.
    """
    answers = [report.answer for report in reports if report.answer is not None]
    if len(answers) < len(reports):
        return next(report for report in reports if report.answer is None)
    if len(answers) == 1:
        return reports[0]
    restarts = sorted((each.restart for each in answers), key=lambda restart: _rank(restart.state))
    worst = max(answers, key=lambda answer: _rank(answer.worst))
    fingerprint = _only(each.restart.fingerprint for each in answers)
    return AgentReport(
        AgentAnswer(
            PROTOCOL,
            answers[0].uid,
            _only(each.live for each in answers),
            _only(each.frozen for each in answers),
            tuple(directory for each in answers for directory in each.directories),
            AgentRestart(restarts[-1].state, fingerprint),
            worst.exit_status,
        ),
        at=min((each.at for each in reports if each.at is not None), default=None),
    )


def _rank(state: AgentState) -> int:
    return _BEST_FIRST.index(state)


def _only(values: Iterable[str]) -> str:
    """Return the value that all have; "" where they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else ""


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
    words = (*(found[0].command or ()), *(found[0].args or ()))
    return AgentContainer(namespace, name, found[0].name, words)


# -- what it proves ------------------------------------------------------------------------------


def is_final(report: AgentReport, announcement: AgentAnnouncement) -> bool:
    """Return whether another query about the same content would return nothing new."""
    answer, nudged = report.answer, announcement.nudged
    if answer is None or answer.live != announcement.desired.live:
        return False
    if nudged is not None and answer.frozen != nudged.frozen:
        return False
    if not agent_stage(report, announcement, synced=_NOT_SYNCED).reached:
        return False  # what is missing may arrive
    best = (AgentState.NONE, AgentState.LOADED, AgentState.TOLD)
    return answer.worst in best and answer.restart.state in best


def agent_stage(report: AgentReport, announcement: AgentAnnouncement, *, synced: Stage) -> Stage:
    """Determine from an agent's report whether the process has loaded the desired files.

    `synced` says by time alone whether the kubelet has updated the files.

    An answer about an earlier announcement proves nothing about this one. If the pod was not
    nudged, as after an adoption, the report counts for the files that are present by time.
    """
    answer, desired = report.answer, announcement.desired
    if answer is None:
        return _unknown(report.problem)
    if report.at is not None:
        announcement = announcement._replace(now=report.at)
    announced = answer.live == desired.live
    if synced.reached or not announced:
        # What it waits for is in none of its directories, or is not desired any more.
        answer = answer.of_present_files
    nudged = announcement.nudged
    if not announced and nudged is not None and nudged.live == desired.live:
        return _waiting("the announcement has not reached its agent yet")
    if answer.worst in _TROUBLE:
        return _trouble(answer.worst, answer)
    if not answer.directories:
        return _unknown("its agent watches no files")
    files = _matched(answer, announcement, synced) if announced else synced
    if not files.reached:
        return files if announced else files._replace(state=PodState.WAITING)
    if answer.worst is AgentState.TOLD:
        reason = "nothing confirms that its process has loaded all files"
        return Stage(Confidence.INFERRED, reason, PodState.TOLD)
    return files


def projected_by_agent(
    report: AgentReport, announcement: AgentAnnouncement, *, synced: Stage
) -> Stage | None:
    """Determine from an agent's report whether the files are present; None: unknown."""
    answer = report.answer
    if answer is None or answer.live != announcement.desired.live:
        return None
    awaits = any(each.state is AgentState.WAITING for each in answer.directories)
    if awaits and not synced.reached:
        return _waiting("its files are not updated yet")
    if report.at is not None:
        announcement = announcement._replace(now=report.at)
    return _matched(answer, announcement, synced)


def _matched(answer: AgentAnswer, announcement: AgentAnnouncement, synced: Stage) -> Stage:
    """Compare the files of a pod with the announcement."""
    if len(answer.directories) < announcement.directories:
        return _waiting("its agent does not watch all directories that its container mounts")
    exact = Counter(each.payload for each in answer.directories if each.evidence is Evidence.EXACT)
    if Counter(announcement.desired.payloads) - exact:
        return _waiting("its agent does not find all announced files in the directories it watches")
    others = [each for each in answer.directories if each.evidence is not Evidence.EXACT]
    if all(at == -inf for at in announcement.order_changes):
        return Stage(Confidence.PROVEN, "its agent has loaded the announced content")
    inferred = Stage(Confidence.INFERRED, "its agent has loaded the files of the announcement")
    # Files of a directory that has no followed source come without an announcement, and may be
    # taken for the announced ones of another.
    known = announcement.directories or len(announcement.order_changes) + len(
        announcement.desired.payloads
    )
    ordered = len(answer.directories) <= known and all(
        other.evidence is Evidence.ORDER for other in others
    )
    if synced.reached or _is_updated(others, announcement, ordered=ordered):
        return inferred
    return _waiting("its files may not be updated yet")


def _is_updated(
    directories: Sequence[AgentDirectory], announcement: AgentAnnouncement, *, ordered: bool
) -> bool:
    """Return whether the last updates of some directories belong to the last changes.

    If announcements and updates arrived in order, an update must not be older than its change.
    Otherwise it may belong to the change before, so it must be clearly younger, or the kubelet must
    have had the time to update the files once more after it. Which directory has which
    source is not known, so the latest updates are compared with the latest changes: kubelets watch
    each source separately, and one may arrive long after another.
    """
    changes = sorted((inf if at is None else at for at in announcement.order_changes), reverse=True)
    updates = sorted(
        (-inf if each.age is None else announcement.now - each.age for each in directories),
        reverse=True,
    )
    is_last = ordered or announcement.now >= announcement.delivered_at
    margin = -_CLOCKS if is_last else MARGIN
    return len(updates) >= len(changes) and all(
        changed == -inf or updated >= changed + margin
        for updated, changed in zip(updates, changes, strict=False)
    )


def restart_stage(report: AgentReport, announcement: AgentAnnouncement) -> Stage | None:
    """Return the state of a restart for content read at start; None: no problem is reported.

    A completed restart shows in the start of the containers, so the report is no proof of it.
    """
    answer, desired = report.answer, announcement.desired
    if answer is None:
        return _unknown(report.problem)
    nudged = announcement.nudged
    if answer.frozen != desired.frozen and nudged is not None and nudged.frozen == desired.frozen:
        return _waiting("the announcement has not reached its agent yet")
    return _trouble(answer.restart.state, answer) if answer.restart.state in _TROUBLE else None


def restart_progress(report: AgentReport, desired: Target) -> RestartProgress | None:
    """Return whether an agent has restarted its process for the desired content; None: unknown."""
    answer = report.answer
    if answer is None:
        return None
    if (answer.live, answer.frozen) != (desired.live, desired.frozen):
        return RestartProgress(loaded=False)
    for state in (answer.restart.state, answer.worst):
        if state in _TROUBLE and _TROUBLE[state][0] in (PodState.FAILED, PodState.REFUSED):
            why = f"did not restart: {_TROUBLE[state][1]}"
            # Of files it may succeed once the process is ready, which has just started.
            is_restart = state is answer.restart.state
            is_retried = _TROUBLE[state][0] is PodState.FAILED and not is_restart
            return RestartProgress(loaded=False, failure=why, retried=is_retried)
    best = (AgentState.NONE, AgentState.LOADED, AgentState.TOLD)
    return RestartProgress(loaded=answer.restart.state in best and answer.worst in best)


_NOT_SYNCED = Stage(Confidence.UNKNOWN, "")


def _trouble(worst: AgentState, answer: AgentAnswer) -> Stage:
    state, reason = _TROUBLE[worst]
    if answer.exit_status is not None and worst in (AgentState.REFUSED, AgentState.CHECK_FAILED):
        reason += f" (exit status {answer.exit_status})"
    # The shell's exit statuses for a program that does not exist or cannot be executed.
    permanent = worst is AgentState.CHECK_FAILED and answer.exit_status in (126, 127)
    return Stage(Confidence.UNKNOWN, reason, state, permanent)


def _waiting(reason: str) -> Stage:
    return Stage(Confidence.UNKNOWN, reason, PodState.WAITING)


def _unknown(reason: str) -> Stage:
    return Stage(Confidence.UNKNOWN, reason, PodState.UNKNOWN)
