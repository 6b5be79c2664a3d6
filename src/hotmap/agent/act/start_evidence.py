"""Whether a process has read content at its start, so that nothing is to be done.

    certain    it started after this agent had read the content, or after a volume was written that
               was never updated: a kubelet mounts volumes before it starts containers
    probable   it is younger than the last update, as far as the wall clock tells
    no         it is older, so it is told

Only the first counts as loaded. The wall clock may have been set between an update and the start of
the agent (docs/decisions/0013-time-since-boot.md); a process that is restarted for that possibility
would be restarted each time that the agent is, so the second is reported and nothing is done.
"""

from __future__ import annotations

from hotmap.agent.process.process_table import (
    START_PRECISION,
    ProcessError,
    find,
    has_memory_of_parent,
    seconds_after,
    started_at,
)
from hotmap.agent.settings.settings import FROZEN
from hotmap.core.value import Value
from hotmap.volume.content_age import content_age

__all__ = ["StartEvidence", "find_start_evidence"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotmap.agent.decide.facts import StartAttempt
    from hotmap.agent.process.application import Application
    from hotmap.agent.settings.settings import Rule


class StartEvidence(Value):
    """That a process has read the content at its start; doubt: why that is not certain, or ""."""

    doubt: str = ""


def find_start_evidence(
    command: StartAttempt, application: Application, places: Iterable[str], *, published: bool
) -> StartEvidence | None:
    """Find out whether the rule's process has read its content at its start; None if it is told.

    places: the directories in which the process reads it
    published: the agent itself writes them

    Raises:
        ProcessError: a process that would be restarted is not found.
    """
    if command.doubted_since is not None:
        if _is_older(command, command.doubted_since, application):
            return StartEvidence()
    elif _is_younger(command):
        return StartEvidence()
    if not command.at_start or not _needs_start(command.rule):
        return None
    return _compare_with_files(command.rule, places, published=published)


def _is_younger(command: StartAttempt) -> bool:
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
    try:
        processes = [find(target) for target in targets]
    except ProcessError:
        return False
    if signals_one and has_memory_of_parent(processes[0].pid):
        return False  # a needless signal does no harm; a restart does
    return all(started_at(process) > command.desired_since for process in processes)


def _is_older(command: StartAttempt, doubted_since: float, application: Application) -> bool:
    """Whether the rule's process has run since before other content was visible."""
    actions = [action for action in command.rule.actions if action.kind != "none"]
    targets = {
        "child" if action.restart_mode == "supervised" else action.target for action in actions
    }
    if len(targets) != 1 or any(action.kind not in ("signal", "restart") for action in actions):
        return False
    (target,) = targets
    try:
        process = application.process() if target == "child" else find(target)
    except ProcessError:
        return False
    return process is not None and started_at(process) + START_PRECISION < doubted_since


def _needs_start(rule: Rule) -> bool:
    """Whether only another start of its process makes it load what the rule is about."""
    return rule.read_at_start or any(action.kind == "restart" for action in rule.actions)


def _targets(rule: Rule) -> list[str]:
    return list(dict.fromkeys(action.target for action in rule.actions if action.target))


def _compare_with_files(
    rule: Rule, places: Iterable[str], *, published: bool
) -> StartEvidence | None:
    """Compare the start of the rule's processes with the last update of its directories."""
    processes = [find(target) for target in _targets(rule)]
    doubt = ""
    for place in places:
        age = content_age(place)
        if not processes:
            # Which processes read the files is not known, so the files alone have to tell.
            if published or age is None or not age.is_first:
                who = "the application has"
                if any(action.restart_mode == "all-containers" for action in rule.actions):
                    who = "all containers have"
                doubt = doubt or (
                    f"{place} was written before the agent started, and it is not known whether "
                    f"{who} started since"
                )
            continue
        if age is None:
            return None
        is_first = age.is_first and not published
        # Where the kubelet's order is known, a process just has to be not older.
        # The time of the file is rounded down as well, by no more than that.
        least = -START_PRECISION if is_first else START_PRECISION
        if any(seconds_after(process, age.written) <= least for process in processes):
            return None
        if not age.is_first:
            doubt = doubt or (
                f"process {processes[0].pid} started after the last update of {place} by the wall "
                "clock, which may have been set since"
            )
    return StartEvidence(doubt)
