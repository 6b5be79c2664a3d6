"""One function for each kind of action: signal, http, exec, touch, restart, none.

Each calls `done` once, with "" or an error in one sentence, at once or from the loop. What can be
given up for newer content returns a function that does so; `done` is not called then.
"""

from __future__ import annotations

import os
import signal

from hotmap.agent.act.http import Response, redirect, send_request
from hotmap.agent.act.http_exchange import Exchange, is_plain
from hotmap.agent.decide.facts import ExitRequested
from hotmap.agent.process.process_table import (
    START_PRECISION,
    Process,
    ProcessError,
    find,
    find_main,
    has_memory_of_parent,
    started_at,
)
from hotmap.agent.process.signals import open_pidfd, send_reload, send_signal
from hotmap.agent.runtime.loop import READ
from hotmap.agent.runtime.program_output import describe_exit_status, mark_output
from hotmap.agent.settings.settings import ALL_CONTAINERS_STATUS, FROZEN
from hotmap.core.errors import os_reason
from hotmap.core.value import Value

__all__ = ["KUBELET_LAG", "ActionContext", "NotNeeded", "TimedOut", "is_restarted", "perform"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotmap.agent.act.call_statistics import CallStatistics
    from hotmap.agent.act.loads import Loads
    from hotmap.agent.decide.facts import AttemptFinished, StartAttempt
    from hotmap.agent.process.application import Application
    from hotmap.agent.process.child_processes import ChildProcesses, Outcome
    from hotmap.agent.runtime.loop import Loop
    from hotmap.agent.settings.settings import Action, Call, Settings

    Done = Callable[[str], None]
    Abandon = Callable[[], None]

#: Seconds by which a container has to be younger than an announcement to have the new content: its
#: kubelet learns of changes by its own watch.
KUBELET_LAG = 2.0

#: Bytes of the list of changed files for a command. A variable can have 128 KiB (linux:
#: MAX_ARG_STRLEN), and the other ones need room as well.
_MAX_CHANGED = 64 << 10

#: Seconds between two searches for a process that is to start again; a kubelet takes at least one.
_SUCCESSOR_INTERVAL = 0.1


class TimedOut(str):
    """Error of an action that may still be under way, since its time limit ended the wait."""

    __slots__ = ()


class NotNeeded(str):
    """No error of an action that did nothing: the process has read the content at its start."""

    __slots__ = ()


class ActionContext(Value):
    """State that all attempts share; `report` takes their results."""

    loop: Loop
    children: ChildProcesses
    application: Application
    settings: Settings
    calls: CallStatistics
    loads: Loads
    report: Callable[[AttemptFinished | ExitRequested], None]


def perform(
    action: Action, attempt: StartAttempt, context: ActionContext, done: Done, *, seconds: float
) -> Abandon | None:
    """Perform one action of an attempt, which may take `seconds`.

    Returns None for what has to end by itself: a second command beside a running one could undo
    what that one does.
    """
    if action.kind == "http":
        return _call(action, context, done, seconds)
    if action.kind == "signal":
        done(_signal(action, attempt, context))
    elif action.kind == "exec":
        _execute(action, attempt, context, done, seconds)
    elif action.kind == "touch":
        done(_touch(action))
    elif action.kind == "restart":
        return _restart(action, attempt, context, done, seconds)
    else:
        done("")
    return None


def _signal(action: Action, attempt: StartAttempt, context: ActionContext) -> str:
    try:
        process = _find(action, context)
        # A process that has just started has read the content. Where a probe has to confirm a
        # load, there has to be one.
        is_younger = started_at(process) > attempt.desired_since
        if is_younger and not attempt.rule.probes and not has_memory_of_parent(process.pid):
            return NotNeeded()
        send_reload(process, action.signal)
    except ProcessError as error:
        return str(error)
    return ""


def _find(action: Action, context: ActionContext) -> Process:
    if action.target != "child":
        found = (find_main if action.kind == "restart" else find)(action.target)
        if found.pid == os.getpid():
            raise ProcessError(
                f"process {found.pid} of {action.target} is the agent itself: set "
                "shareProcessNamespace: true in the pod"
            )
        return found
    process = context.application.process()
    if process is None:
        raise ProcessError("the application is not running")
    return process


def _call(action: Action, context: ActionContext, done: Done, timeout: float) -> Abandon:
    call = action.call
    assert call is not None
    began = context.loop.now()

    def finish(status: int, reason: str, error: str) -> None:
        if not error and status not in call.statuses:
            expected = ", ".join(map(str, call.statuses[:5]))
            returned = f"{call.method} {call.url} returned {status}"
            instead = f"{returned}, expected {expected}"
            words = reason and f"{returned} {reason}, expected {expected}"
            error = mark_output(words, instead)
        context.calls.record(call.url, status, context.loop.now() - began, error)
        done(error)

    return _send(call, context, finish, timeout)


def _send(
    call: Call, context: ActionContext, finish: Callable[[int, str, str], None], timeout: float
) -> Abandon:
    """Send a request, and those that redirects ask for; `finish` gets status, reason and error."""
    late = TimedOut(f"no response from {call.url} within {timeout:g}s")
    current: list[Abandon] = []

    def on_response(response: Response | None, error: str) -> None:
        current.clear()  # it refers to what refers to this function
        if response is None:
            finish(0, "", late if error == late else error)
        elif following := redirect(call, response.status, response.location):
            current.append(_send(following, context, finish, timeout))
        else:
            finish(response.status, response.reason, error)

    def send() -> str:
        response = send_request(call, seconds=timeout, head_only=True)
        return f"{response.status} {response.location}\n{response.reason}"

    def on_sent(outcome: Outcome) -> None:
        head, _, reason = outcome.output.partition("\n")
        status, _, location = head.partition(" ")
        if outcome.timed_out:
            on_response(None, late)
        elif outcome.status or not status.isdecimal():
            on_response(None, outcome.output or f"cannot call {call.url}")
        else:
            on_response(Response(int(status), reason, b"", location), "")

    if is_plain(call):
        current.append(Exchange(context.loop, call, seconds=timeout, done=on_response).abandon)
    else:
        current.append(context.children.run_function(send, seconds=timeout, done=on_sent))

    def abandon() -> None:
        if current:
            current.pop()()

    return abandon


def _execute(
    action: Action, attempt: StartAttempt, context: ActionContext, done: Done, timeout: float
) -> None:
    listed = _fitting(attempt.changed)
    environment = {
        **os.environ,
        "HOTMAP_RULE": attempt.rule.name,
        "HOTMAP_CHANGED": "\n".join(listed),
        "HOTMAP_CHANGED_OMITTED": str(len(attempt.changed) - len(listed)),
        "HOTMAP_DIRECTORIES": "\n".join(context.settings.watch.directories),
    }
    context.children.run_command(
        action.command,
        seconds=timeout,
        environment=environment,
        done=lambda outcome: done(_describe_failure(action.command[0], outcome, timeout)),
    )


def _fitting(paths: Sequence[str]) -> Sequence[str]:
    """Return the first paths that fit into one environment variable."""
    size = 0
    for number, path in enumerate(paths):
        size += len(os.fsencode(path)) + 1
        if size > _MAX_CHANGED:
            return paths[:number]
    return paths


def _describe_failure(name: str, outcome: Outcome, timeout: float) -> str:
    """Describe how a command failed; "" when it did not."""
    if outcome.timed_out:
        return TimedOut(f"{name} timed out after {timeout:g}s and was killed")
    if not outcome.started:
        return f"{name}: {outcome.output}"
    # A shell returns 127 as well, for a program that it does not find.
    if outcome.status == 127 and outcome.output == f"{name}: no such program":
        return f"{name} could not be started: no such program"
    if outcome.status:
        words = f"{name} failed with exit status {outcome.status}: {outcome.output[-500:]}"
        instead = f"{name} failed with {describe_exit_status(outcome.status)}"
        return mark_output(outcome.output and words, instead)
    return ""


def _touch(action: Action) -> str:
    try:
        # Without waiting: it may be a named pipe without a reader.
        flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
        os.close(os.open(action.path, flags, 0o644))
        os.utime(action.path)
    except OSError as error:
        return f"cannot touch {action.path}: {os_reason(error)}"
    return ""


def _restart(
    action: Action, attempt: StartAttempt, context: ActionContext, done: Done, seconds: float
) -> Abandon | None:
    if action.restart_mode == "supervised":
        if is_restarted(attempt, context):
            done("")
            return None
        context.application.restart(lambda: done(""))
        return _do_nothing  # another restart uses newer content for the same start
    if action.restart_mode == "all-containers":
        done("")
        context.report(ExitRequested(ALL_CONTAINERS_STATUS))
    else:
        _terminate(action, attempt, context, done, seconds)
    return None


def is_restarted(attempt: StartAttempt, context: ActionContext) -> bool:
    """Whether another rule has restarted the application since, so that it has the content.

    It has not if other content was mounted meanwhile. A probe that detects a change confirms only a
    restart after it was read.
    """
    since = max(attempt.desired_since, attempt.mounted_since)
    compares = any(probe.compares for probe in attempt.rule.probes)
    return not compares and context.application.is_current(since)


def _do_nothing() -> None:
    """Give up nothing: the restart that is under way goes on."""


def _terminate(
    action: Action, attempt: StartAttempt, context: ActionContext, done: Done, seconds: float
) -> None:
    """Terminate the main process of another container, and wait until its kubelet restarts it.

    A process that started after the change has been restarted already, by itself or by an attempt
    that could not be confirmed. `seconds` is the time that the next one may take to start.
    """
    loop = context.loop
    try:
        process = _find(action, context)
        descriptor = open_pidfd(process)
    except ProcessError as error:
        done(str(error))
        return
    lag = KUBELET_LAG if attempt.rule.name == FROZEN else 0.0
    if started_at(process) > attempt.desired_since + lag:
        os.close(descriptor)
        done("")
        return
    began = loop.now()
    killer = loop.after(context.settings.actions.grace, lambda: _kill(process))

    def finish(error: str) -> None:
        loop.forget(descriptor)
        os.close(descriptor)
        killer.cancel()
        if error:
            done(error)
        else:
            _wait_for_successor(action, context, done, since=began, seconds=seconds)

    loop.watch(descriptor, READ, lambda: finish(""))
    try:
        send_signal(process, signal.SIGTERM)
    except ProcessError as error:
        finish(str(error))


def _wait_for_successor(
    action: Action, context: ActionContext, done: Done, *, since: float, seconds: float
) -> None:
    """Wait until a process that started after the signal has taken the place of another one.

    Only that one has read the content. Children of the previous one may be left for a moment.
    """
    loop = context.loop
    deadline = loop.now() + seconds

    def search() -> None:
        try:
            is_new = started_at(_find(action, context)) + START_PRECISION > since
        except (ProcessError, OSError):
            is_new = False
        if is_new:
            done("")
        elif loop.now() < deadline:
            loop.after(_SUCCESSOR_INTERVAL, search)
        else:
            done(
                f"the process of {action.target} was terminated and has not started again within "
                f"{seconds:g}s"
            )

    search()


def _kill(process: Process) -> None:
    try:
        send_signal(process, signal.SIGKILL)
    except ProcessError:
        return
