"""The reconciler's input (facts) and output (commands and transitions).

Facts: Snapshot, Unreadable and Target from `watch`; CheckFinished, AttemptFinished,
ApplicationStartFailed, StageAltered, ApplicationExited and ExitRequested from `act`. Commands:
ReadDirectories for `watch`; StartCheck, StartAttempt and StartApplication for `act`; and Exit.
"""

from __future__ import annotations

from hotmap.agent.decide.snapshot import Snapshot
from hotmap.agent.settings.settings import Rule
from hotmap.core.value import Value

__all__ = [
    "ERROR",
    "PASSED",
    "REFUSED",
    "ApplicationExited",
    "ApplicationStartFailed",
    "AttemptFinished",
    "CheckFinished",
    "Exit",
    "ExitRequested",
    "ReadDirectories",
    "StageAltered",
    "StartApplication",
    "StartAttempt",
    "StartCheck",
    "Transition",
    "Unreadable",
]

#: Results of a check: ERROR means that the check itself failed, which says nothing of the content.
PASSED, REFUSED, ERROR = "passed", "refused", "error"


class Unreadable(Value):
    """A directory cannot be read, so it has other content than was read last."""

    directory: str


class CheckFinished(Value):
    """A check ended; result: PASSED (and published), REFUSED or ERROR.

    exit_status: of the command that did not pass; None where none ended by itself
    """

    snapshot: Snapshot
    result: str
    error: str = ""
    exit_status: int | None = None


class AttemptFinished(Value):
    """An attempt ended; error "" means that it succeeded.

    position: the action to start with next time
    at: POSIX seconds
    by_itself: the process had loaded the content at its start, so nothing was done
    doubt: why that is not certain, in a sentence; "" where it is
    is_proven: probes have confirmed it
    """

    rule: str
    error: str
    position: int
    at: float
    by_itself: bool = False
    doubt: str = ""
    is_proven: bool = False


class ApplicationStartFailed(Value):
    """The supervised application could not run with new content; it has its previous one again.

    awaited: rules whose content the application was not restarted for yet, so it is not about them
    """

    error: str
    awaited: tuple[str, ...] = ()


class StageAltered(Value):
    """Another program has changed what is published, after `since`, in seconds since boot."""

    since: float


class ApplicationExited(Value):
    """The supervised application exited and is not to be started again."""

    status: int


class ExitRequested(Value):
    """An action makes the agent exit, with a status that the kubelet has a rule for."""

    status: int


class ReadDirectories(Value):
    """Read the directories, now: content is to be checked that is no longer in memory."""


class StartCheck(Value):
    """Check content and publish it."""

    snapshot: Snapshot


class StartAttempt(Value):
    """Make a rule's process load what changed, starting with the action at `position`.

    changed: files since the last load
    desired_since: since when a process that starts reads the content, in seconds since boot
    doubted_since: the content was loaded before; only a process that started later, in seconds
        since boot, may have read other content since
    at_start: the content is the first that this agent has read, and nothing was done for it yet, so
        the process may have read it at its start
    is_proven: probes have confirmed the last load, or no other content is known to have been there
    mounted_since: since when nothing that is mounted has changed
    was_unreadable: the files could not be read, so a process that started after `doubted_since` may
        have read the same nevertheless
    """

    rule: Rule
    position: int
    changed: tuple[str, ...]
    desired_since: float
    doubted_since: float | None = None
    at_start: bool = False
    is_proven: bool = False
    mounted_since: float = 0.0
    was_unreadable: bool = False


class StartApplication(Value):
    """Start the supervised application for the first time."""


class Exit(Value):
    """Exit with this status."""

    status: int


class Transition(Value):
    """A change of state, as a line of the log; fields are names, digests and numbers."""

    event: str
    message: str
    fields: dict[str, object]
    is_warning: bool = False
