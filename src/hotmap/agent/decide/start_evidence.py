"""Whether a process has read content at its start, so that nothing is to be done.

    certain    it started after this agent had read the content, or after a volume was written that
               was never updated: a kubelet mounts volumes before it starts containers
    probable   it is younger than the last update, as far as the wall clock tells
    no         it is older, so it is told

Content that the process had loaded before, and that is visible again after other content, is
probable as well where it started so shortly before the other content that it may have read that.

Only the first counts as loaded. The wall clock may have been set between an update and the start of
the agent (docs/decisions/0013-time-since-boot.md); a process that is restarted for that possibility
would be restarted each time that the agent is, so the second is reported and nothing is done.

All times are in seconds since boot.
"""

from __future__ import annotations

from hotmap.agent.settings.settings import FROZEN
from hotmap.core.value import Value

__all__ = ["Lookups", "ProcessStart", "StartEvidence", "WrittenContent", "find_start_evidence"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hotmap.agent.decide.facts import StartAttempt
    from hotmap.agent.settings.settings import Rule


class ProcessStart(Value):
    """When a process started; it may be rounded down.

    has_memory_of_parent: it is a fork, and may have what its parent has read
    executed_again_at: when it was seen to have executed a program since the look before; 0 if never
    """

    pid: int
    at: float
    has_memory_of_parent: bool = False
    executed_again_at: float = 0.0

    @property
    def latest(self) -> float:
        """When it may have begun to read its files last."""
        return max(self.at, self.executed_again_at)


class WrittenContent(Value):
    """When the content of a directory was written, by the wall clock; it may be rounded down.

    is_first: nothing else was ever there
    """

    at: float
    is_first: bool


class Lookups(Value):
    """What is looked up where it is needed.

    process, main: the process that a target names, or why there is not exactly one: the one that
        reads the content, and the one that a container ends with, which may be a shell that runs
        the other one, several times in turn
    application: the supervised application while it runs
    written: the last update of a directory; None where that is not known
    precision: by how many seconds the times of processes and files are rounded down, at most
    """

    process: Callable[[str], ProcessStart | str]
    main: Callable[[str], ProcessStart | str]
    application: Callable[[], ProcessStart | None]
    written: Callable[[str], WrittenContent | None]
    precision: float


class StartEvidence(Value):
    """That a process has read the content at its start.

    doubt: why that is not certain, in a sentence; "" where it is
    error: why a process that would be restarted is not found; "" where it is
    """

    doubt: str = ""
    error: str = ""


def find_start_evidence(
    command: StartAttempt,
    lookups: Lookups,
    places: Iterable[str],
    *,
    published: bool,
    reads_for: float = 0.0,
) -> StartEvidence | None:
    """Find out whether the rule's process has read its content at its start; None: act on it.

    places: the directories in which the process reads it
    published: the agent itself writes them
    reads_for: seconds that a process may take to read its files after its start
    """
    if command.doubted_since is not None:
        process = _find_process(command, lookups)
        if process is not None and process.latest + lookups.precision < command.doubted_since:
            return StartEvidence(_doubt_reading(command, command.doubted_since, process, reads_for))
        if process is not None and command.was_unreadable:
            return StartEvidence(
                f"process {process.pid} started while the files could not be read, and may have "
                "read others"
            )
    elif _is_younger(command, lookups):
        return StartEvidence()
    if not command.at_start or not _needs_start(command.rule):
        return None
    return _compare_with_files(command.rule, lookups, places, published=published)


def _is_younger(command: StartAttempt, lookups: Lookups) -> bool:
    """Whether the rule's processes started after its content was there, so they have read it.

    Both times are since boot: when the agent had read the content (with a stage, had published
    it), and when the kernel started the process. The content before the agent's first read is
    unknown.
    """
    rule, targets = command.rule, _targets(command.rule)
    kinds = {action.kind for action in rule.actions} - {"none"}
    signals_one = kinds == {"signal"} and len(targets) == 1
    # What is done beside a restart may have to be done for each other content.
    restarts = _needs_start(rule) and (command.at_start or kinds == {"restart"})
    if rule.name == FROZEN or not targets or not (signals_one or restarts):
        return False
    if "child" in targets:
        return False  # content of the application is adopted when it is started
    if signals_one and not command.at_start and _only_compares(rule):
        return False  # it may end by the content, as the one before it did: its probes show that
    for target in targets:
        process = (lookups.process if signals_one else lookups.main)(target)
        if isinstance(process, str) or process.at <= command.desired_since:
            return False
        if signals_one and process.has_memory_of_parent:
            return False  # a needless signal does no harm; a restart does
    return True


def _find_process(command: StartAttempt, lookups: Lookups) -> ProcessStart | None:
    """Find the rule's process, if there is exactly one and nothing else is to be done."""
    actions = [action for action in command.rule.actions if action.kind != "none"]
    targets = {
        "child" if action.restart_mode == "supervised" else action.target for action in actions
    }
    if len(targets) != 1 or any(action.kind not in ("signal", "restart") for action in actions):
        return None
    (target,) = targets
    process = lookups.application() if target == "child" else lookups.process(target)
    return None if isinstance(process, str) else process


def _doubt_reading(
    command: StartAttempt, doubted_since: float, process: ProcessStart, reads_for: float
) -> str:
    """Return why a process may have read other content late, if no probe has confirmed its start.

    It is not restarted for that: most have read their files by then. Where it gets a signal, the
    time until it has read is part of `doubted_since`.
    """
    age = doubted_since - process.latest
    if not _needs_start(command.rule) or command.is_proven or age >= reads_for:
        return ""
    return (
        f"process {process.pid} started {age:.1f}s before other content was mounted, and may have "
        "read that"
    )


def _needs_start(rule: Rule) -> bool:
    """Whether only another start of its process makes it load what the rule is about."""
    return rule.read_at_start or any(action.kind == "restart" for action in rule.actions)


def _only_compares(rule: Rule) -> bool:
    """Whether there are probes, and none that confirms anything without an action."""
    return rule.probes != () and all(probe.compares for probe in rule.probes)


def _targets(rule: Rule) -> list[str]:
    return list(dict.fromkeys(action.target for action in rule.actions if action.target))


def _compare_with_files(
    rule: Rule, lookups: Lookups, places: Iterable[str], *, published: bool
) -> StartEvidence | None:
    """Compare the start of the rule's processes with the last update of its directories."""
    processes = []
    for target in _targets(rule):
        process = lookups.main(target)
        if isinstance(process, str):
            return StartEvidence(error=process)
        processes.append(process)
    doubt = ""
    for place in places:
        written = lookups.written(place)
        if not processes:
            # Which processes read the files is not known, so the files alone have to show it.
            if published or written is None or not written.is_first:
                who = "the application has"
                if any(action.restart_mode == "all-containers" for action in rule.actions):
                    who = "all containers have"
                doubt = doubt or (
                    f"{place} was written before the agent started, and it is not known whether "
                    f"{who} started since"
                )
            continue
        if written is None:
            return None
        is_first = written.is_first and not published
        # Where the kubelet's order is known, a process just has to be not older.
        # The time of the file is rounded down as well, by no more than that.
        least = -lookups.precision if is_first else lookups.precision
        if any(process.at - written.at <= least for process in processes):
            return None
        if not written.is_first:
            doubt = doubt or (
                f"process {processes[0].pid} started after the last update of {place} by the wall "
                "clock, which may have been set since"
            )
    return StartEvidence(doubt)
