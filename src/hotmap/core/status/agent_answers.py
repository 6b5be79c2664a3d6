"""The answer of an agent about the content of its pod, and the report of all its agents.

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
from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

import msgspec

__all__ = [
    "PROTOCOL",
    "AgentAnswer",
    "AgentDirectory",
    "AgentReport",
    "AgentRestart",
    "AgentState",
    "Evidence",
    "merge_reports",
    "read_answer",
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
    #: The announced fingerprint of the last restart, by this agent or by one before it;
    #: "" where the first announcement was there before the agent.
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


def merge_reports(reports: Sequence[AgentReport]) -> AgentReport:
    """Merge the reports of all agents of a pod into one that holds for each of them.

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
