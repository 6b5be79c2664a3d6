"""`hotmap status` and `hotmap why`: the controller's status, for people and for scripts."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from hotmap.agent.runtime.standard_streams import print_message
from hotmap.cli.command_options import StatusOptions
from hotmap.cli.durations import read_duration
from hotmap.cli.label_selection import select_by_label
from hotmap.cli.printers import (
    TableForm,
    print_decisions,
    print_names,
    print_proof,
    print_workloads,
)
from hotmap.cli.shared_options import ClusterOptions, ControllerAddress, WorkloadOptions
from hotmap.cli.status_client import StatusClient, connect
from hotmap.cli.status_output import create_console, print_document, read_document
from hotmap.cli.status_response import ControllerAway, StatusUnavailable
from hotmap.cli.wait_progress import WaitProgress, create_wait_progress
from hotmap.cli.workload_names import (
    KIND_WORDS,
    WorkloadName,
    closest,
    find_owner,
    is_kind,
    parse_source_name,
    parse_workload_name,
)
from hotmap.core.errors import SettingsError
from hotmap.core.model.annotations import WATCH_LABEL
from hotmap.core.text import printable

__all__ = [
    "run_status",
    "run_why",
]

#: Exit statuses: everything is current, something is not, or the status is unknown.
_CURRENT, _NOT_CURRENT, _UNKNOWN = 0, 1, 2

#: States in which it is unknown whether pods are current.
_UNKNOWN_STATES = ("unknown", "unverified", "delivered")

#: States that no further waiting changes for the better.
_REACHED = ("current", "delivered")

#: Seconds for which workloads require a user's action before waiting ends: a source that is created
#: together with its workloads may be missing for a moment, and a fix may be on its way.
_FINAL_AFTER = 2.0

#: Seconds for which a controller may be away while its status is waited for: the time for which a
#: Lease of a leader that was killed lasts, and its successor's start.
_AWAY_FOR = 30.0

#: Kinds that a workload owns as a rule, and that are watched only with a label.
_OWNED = ("Pod", "ReplicaSet")

#: The maximum page size (docs/reference/status.md).
_PAGE = "5000"

#: Seconds between two requests while waiting.
_PERIOD = 1.0


def run_status(
    names: Sequence[str],
    workload: WorkloadOptions,
    options: StatusOptions,
    cluster: ClusterOptions,
    address: ControllerAddress,
) -> int:
    """Print the state of workloads; returns the exit status.

    Raises:
        SettingsError: a name or duration is invalid, or the status is unknown
            (StatusUnavailable).
    """
    _reject_conflicts(names, options)
    seconds = read_duration("--wait", options.wait) if options.wait else 0.0
    scope = _Scope(names, workload.namespace, options.all_namespaces, options.selector)
    if options.watch:
        return asyncio.run(_watch(scope, workload.output, cluster, address))
    wait = _Wait(seconds, create_wait_progress(quiet=options.quiet))
    document = asyncio.run(_wait_until_current(scope, wait, cluster, address))
    if options.wait and not document["workloads"]:
        raise StatusUnavailable(f"nothing to wait for: {scope.describe_nothing()}")
    if options.quiet:
        # A script that asks about a namespace with a typing error must not take it for current.
        return _exit_status(document, options.awaited) if document["workloads"] else _UNKNOWN
    _print_status(document, scope, workload.output)
    return _exit_status(document, options.awaited)


def _reject_conflicts(names: Sequence[str], options: StatusOptions) -> None:
    for given, name in (
        (options.all_namespaces, "--all-namespaces"),
        (options.selector, "--selector"),
    ):
        if names and given:
            raise SettingsError(f"{name} cannot be used with NAME")
    for given, name in ((options.wait, "--wait"), (options.quiet, "--quiet")):
        if options.watch and given:
            raise SettingsError(f"--watch cannot be used with {name}")


def _exit_status(document: dict[str, Any], awaited: str) -> int:
    states = {workload["state"] for workload in document["workloads"]} - {"current", awaited}
    if not states:
        return _CURRENT
    return _UNKNOWN if states.issubset(_UNKNOWN_STATES) else _NOT_CURRENT


def run_why(
    text: str, workload: WorkloadOptions, cluster: ClusterOptions, address: ControllerAddress
) -> int:
    """Print the latest decisions on one workload; returns the exit status.

    Raises:
        SettingsError: the name is invalid, or the status is unknown (StatusUnavailable).
    """
    document = asyncio.run(_get_workload(text, workload.namespace, cluster, address))
    if workload.output in ("json", "yaml"):
        print_document(document, workload.output)
        return _CURRENT
    console = create_console(workload.output)
    status = read_document(document)
    if workload.output == "name":
        print_names(console, status)
        return _CURRENT
    for consumer in status.workloads:
        print_decisions(console, consumer, now=status.time)
    return _CURRENT


class _Scope(NamedTuple):
    """The workloads whose status is shown."""

    names: Sequence[str]
    #: "" for the context's own.
    namespace: str
    all_namespaces: bool
    #: A label selector, or "" for all.
    selector: str = ""

    @property
    def is_overview(self) -> bool:
        """Whether each workload gets one line: of a source, there may be many."""
        return not self.names or any(parse_source_name(name, "-") for name in self.names)

    def describe_nothing(self) -> str:
        """Say that none is shown, and why that may be."""
        if self.selector:
            return "no workload that hotmap follows has such labels"
        how = (
            "opt one in with hotmap.dev/follow: auto; 'hotmap why KIND/NAME' shows why one is not "
            "followed"
        )
        if self.namespace and not self.all_namespaces:
            namespace = printable(self.namespace)
            return (
                f'hotmap follows no workload in namespace "{namespace}", or there is no such '
                f"namespace; {how}"
            )
        if self.all_namespaces:
            return f"hotmap follows no workload; {how}"
        return (
            "hotmap follows no workload in the context's namespace; 'hotmap status "
            f"--all-namespaces' shows those of others; {how}"
        )


async def _watch(
    scope: _Scope, output: str, cluster: ClusterOptions, address: ControllerAddress
) -> int:
    """Print the status, then each workload again whose state or reason changes; never ends.

    Raises:
        StatusUnavailable: there was no answer yet; later a controller that is away is waited for.
    """
    shown: dict[str, tuple[str, str]] = {}
    is_away = False
    while True:
        try:
            async with connect(cluster, address) as client:
                while True:
                    document = await _get_status(client, scope, cluster)
                    is_away = False
                    shown = _print_changes(document, shown, scope, output)
                    await asyncio.sleep(_PERIOD)
        except ControllerAway as error:
            if not shown:
                raise
            if not is_away:
                print_message(f"hotmap: {error}; retrying")
            is_away = True
        await asyncio.sleep(_PERIOD)


def _print_changes(
    document: dict[str, Any], shown: dict[str, tuple[str, str]], scope: _Scope, output: str
) -> dict[str, tuple[str, str]]:
    """Print the workloads that differ from what was shown; returns what is shown now."""
    states = {
        _title(workload): (workload["state"], workload["reason"])
        for workload in document["workloads"]
    }
    changed = [
        workload
        for workload in document["workloads"]
        if shown.get(_title(workload)) != states[_title(workload)]
    ]
    if changed or not shown:
        partial = {**document, "workloads": changed}
        _print_status(partial, scope, output, changes=bool(shown))
        sys.stdout.flush()
    return states or {"": ("", "")}


class _Wait:
    """The time of a wait, and since when no controller answers; times of time.monotonic."""

    def __init__(self, seconds: float, progress: WaitProgress) -> None:
        """`seconds` 0: only one answer."""
        self.repeats = seconds > 0
        self.progress = progress
        self.deadline = time.monotonic() + seconds
        self._away_since: float | None = None

    def begin_absence(self, error: ControllerAway) -> None:
        """Note that no controller answers, and report it once.

        Raises:
            ControllerAway: this error, once it has lasted too long.
        """
        now = time.monotonic()
        since = now if self._away_since is None else self._away_since
        if now >= min(self.deadline, since + _AWAY_FOR):
            raise error
        if self._away_since is None:
            self._away_since = since
            print_message(f"hotmap: {error}; retrying")

    def end_absence(self) -> None:
        """Note an answer."""
        self._away_since = None


async def _wait_until_current(
    scope: _Scope, wait: _Wait, cluster: ClusterOptions, address: ControllerAddress
) -> dict[str, Any]:
    """Get the status, again each second until all is current or the time is over.

    A controller that is away, as while it is updated, is waited for.
    """
    while True:
        try:
            async with connect(cluster, address) as client:
                return await _poll_until_current(client, scope, cluster, wait)
        except ControllerAway as error:
            wait.begin_absence(error)
        await asyncio.sleep(_PERIOD)


async def _poll_until_current(
    client: StatusClient, scope: _Scope, cluster: ClusterOptions, wait: _Wait
) -> dict[str, Any]:
    """Get the status until all is current or the time is over.

    Ends as soon as some workloads cannot become current without a user's action; that is confirmed
    by a second query. Nothing counts as current before the controller has compared its sources with
    the API server's, since a recent edit may not have reached it yet.
    """
    final_since: float | None = None
    # For all namespaces, it is worth its requests only once nothing else is left to be done.
    consistent = bool(scope.names) or not scope.all_namespaces
    while True:
        document = await _get_status(client, scope, cluster, consistent=consistent)
        wait.end_absence()
        now = time.monotonic()
        is_reached = bool(document["workloads"]) and all(
            workload["state"] in _REACHED for workload in document["workloads"]
        )
        if is_reached and wait.repeats and not consistent:
            consistent = True
            continue
        if is_reached or now >= wait.deadline:
            return document
        consistent = False
        if not any(workload.get("actionRequired") for workload in document["workloads"]):
            final_since = None
        elif final_since is None:
            final_since = now
        elif now - final_since >= _FINAL_AFTER:
            if await _is_final(client, document):
                return document
            final_since = None
        wait.progress.report(document)
        await asyncio.sleep(min(_PERIOD, wait.deadline - now))


async def _is_final(client: StatusClient, document: dict[str, Any]) -> bool:
    """Return whether a workload still requires an action when its pods are checked again.

    What a document shows may be of an earlier check, before a user has acted.
    """
    for workload in document["workloads"]:
        if workload.get("actionRequired"):
            name = WorkloadName(workload["kind"], workload["namespace"], workload["name"])
            checked = await client.status({"workload": str(name)}, consistent=True)
            if any(each.get("actionRequired") for each in checked["workloads"]):
                return True
    return False


async def _get_status(
    client: StatusClient, scope: _Scope, cluster: ClusterOptions, *, consistent: bool = False
) -> dict[str, Any]:
    namespace = scope.namespace or client.namespace
    if not scope.names:
        query = {} if scope.all_namespaces else {"namespace": namespace}
        document = await client.status({**query, "limit": _PAGE}, consistent=consistent)
        if not scope.selector:
            return document
        kinds = {workload["kind"] for workload in document["workloads"]}
        where = None if scope.all_namespaces else namespace
        selected = await select_by_label(cluster, kinds, where, scope.selector)
        return _only(document, selected)
    documents = [
        await _get_named(client, text, namespace, consistent=consistent) for text in scope.names
    ]
    by_title = {_title(item): item for document in documents for item in document["workloads"]}
    consumers = list(by_title.values())
    for consumer in consumers:
        if consumer["state"] == "unfollowed":
            raise StatusUnavailable(f"{_title(consumer)} is not followed: {consumer['reason']}")
    return {**documents[0], "workloads": consumers, **_count(consumers, documents[0]["counts"])}


async def _get_named(
    client: StatusClient, text: str, namespace: str, *, consistent: bool
) -> dict[str, Any]:
    """Get a workload in full, or the overview of those that follow a source."""
    source = parse_source_name(text, namespace)
    if source is None:
        name = parse_workload_name(text, namespace)
        return await _get_consumer(client, name, text, consistent=consistent)
    query = {"source": str(source), "limit": _PAGE}
    document = await client.status(query, consistent=consistent)
    if not document["workloads"]:
        key = f"{source.kind.lower()}/{source.namespace}/{source.name}"
        # Of these it lists the other workloads, too, with the reason why they are not followed.
        can_preview = source.kind in ("ConfigMap", "Secret")
        see = f"preview {key}" if can_preview else "status --all-namespaces"
        raise StatusUnavailable(
            f'"{text}": hotmap follows no workload that uses {source.kind} {source.namespace}/'
            f"{source.name}; see 'hotmap {see}'"
        )
    return document


async def _get_workload(
    text: str, namespace: str, cluster: ClusterOptions, address: ControllerAddress
) -> dict[str, Any]:
    async with connect(cluster, address) as client:
        name = parse_workload_name(text, namespace or client.namespace)
        return await _get_consumer(client, name, text)


async def _get_consumer(
    client: StatusClient, name: WorkloadName, text: str, *, consistent: bool = False
) -> dict[str, Any]:
    document = await client.status({"workload": str(name)}, consistent=consistent)
    if not document["workloads"]:
        kind = name.kind or "workload"
        raise StatusUnavailable(
            f'"{text}": the controller knows no {kind} {name.namespace}/{name.name}; '
            f"{await _suggest(client, name, text)}see 'hotmap status --all-namespaces'"
        )
    return document


async def _suggest(client: StatusClient, name: WorkloadName, text: str) -> str:
    """Name the workload that was probably meant; "" for none.

    The namespace may be a mistyped kind, if it is part of the text.
    """
    if "/" not in text and is_kind(text):
        return f"write the name after the kind, as in '{text}/NAME'; "
    places = text.split("/")[:-1]
    place = f"{name.namespace}/" if name.namespace in places else ""
    try:
        document = await client.status({"namespace": name.namespace})
        found = {each["name"]: each["kind"].lower() for each in document["workloads"]}
    except StatusUnavailable:  # such as a namespace that the user may not view
        found = {}
    owned = name.kind in _OWNED
    owner = find_owner(name.name, found) if owned or not name.kind else ""
    if meant := (owned and owner) or closest(name.name, found) or owner:
        return f"did you mean '{found[meant]}/{place}{meant}'; "
    if owned:
        return f'a {name.kind} without a workload needs the label {WATCH_LABEL}: "true"; '
    kind = closest(name.namespace, KIND_WORDS) if place and not name.kind else ""
    return f"did you mean '{kind}/{name.name}'; " if kind else ""


def _only(document: dict[str, Any], selected: Collection[tuple[str, str, str]]) -> dict[str, Any]:
    """Return a document with some workloads alone, and their counts."""
    workloads = [
        workload
        for workload in document["workloads"]
        if (workload["kind"], workload["namespace"], workload["name"]) in selected
    ]
    return {**document, "workloads": workloads, **_count(workloads, document["counts"])}


def _count(workloads: Sequence[dict[str, Any]], states: Collection[str]) -> dict[str, Any]:
    """Count workloads by state, and the pods that are not up to date."""
    counts = {state: sum(workload["state"] == state for workload in workloads) for state in states}
    return {"counts": counts, "behind": sum(workload["behind"] for workload in workloads)}


def _print_status(
    document: dict[str, Any], scope: _Scope, output: str, *, changes: bool = False
) -> None:
    """Print a document; `changes`: it has only the workloads that changed since the one before."""
    if output in ("json", "yaml"):
        print_document(document, output, separate=changes)
        return
    status = read_document(document)
    if not status.workloads and not changes:
        print_message(scope.describe_nothing())
        return
    console = create_console(output)
    if output == "name":
        print_names(console, status)
        return
    if scope.is_overview:
        places = {workload.namespace for workload in status.workloads}
        form = TableForm(
            namespaces=scope.all_namespaces or (bool(scope.names) and len(places) > 1),
            wide=output == "wide",
            changes=changes,
        )
        print_workloads(console, status, form)
        return
    for number, consumer in enumerate(status.workloads):
        if number:
            console.print()
        print_proof(console, consumer, now=status.time)


def _title(consumer: dict[str, Any]) -> str:
    return f"{consumer['kind']} {consumer['namespace']}/{consumer['name']}"
