"""How a status looks on a terminal: tables that fit 80 columns, reasons in whole sentences."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

__all__ = ["Consumer", "Document", "show_consumers", "show_decisions", "show_proof"]

_STYLES = {
    "current": "green",
    "waiting": "yellow",
    "unproven": "dim",
    "unfollowed": "dim",
    "paused": "yellow",
    "latent": "yellow",
    "stuck": "bold red",
    "held": "bold red",
    "failed": "bold red",
    "proven": "green",
    "probably": "green",
    "inferred": "cyan",
    "unknown": "yellow",
}


class _Shape(msgspec.Struct, rename="camel"):
    """A part of the status document (docs/reference/status.md)."""


class Stage(_Shape):
    known: str
    why: str
    revision: str | None = None


class Pod(_Shape):
    name: str
    loaded: Stage
    projected: Stage | None = None


class Source(_Shape):
    kind: str
    name: str
    exists: bool
    read: list[str]
    changed_at: float | None = None


class Decision(_Shape):
    at: float
    verdict: str
    reason: str
    actions: list[str]
    outcome: str


class Consumer(_Shape):
    kind: str
    namespace: str
    name: str
    state: str
    reason: str
    behind: int = 0
    strategy: str = ""
    policy: str = ""
    desired: str | None = None
    sources: list[Source] = []
    pod_count: int = 0
    pods: list[Pod] = []
    pods_error: str = ""
    decisions: list[Decision] = []


class Document(_Shape):
    consumers: list[Consumer]
    counts: dict[str, int]
    behind: int


def show_consumers(console: Console, document: Document, *, namespaces: bool) -> None:
    """Print one line for each workload, and how many there are of each state."""
    if not document.consumers:
        console.print("hotmap follows nothing here; opt a workload in with hotmap.dev/follow: auto")
        return
    heads = [*(["NAMESPACE"] if namespaces else []), "WORKLOAD", "STATE", "REASON"]
    table = _table(heads)
    for one in document.consumers:
        place = [Text(one.namespace)] if namespaces else []
        name = Text(f"{one.kind.lower()}/{one.name}", overflow="fold")
        table.add_row(*place, name, _styled(one.state), Text(one.reason))
    console.print(table)
    console.print(_summary(document))


def _summary(document: Document) -> Text:
    total = sum(document.counts.values())
    states = [f"{count} {state}" for state, count in document.counts.items() if count]
    pods = f"; {_counted(document.behind, 'pod')} behind" if document.behind else ""
    return Text(f"{_counted(total, 'workload')}: {', '.join(states)}{pods}")


def show_proof(console: Console, one: Consumer, *, now: float) -> None:
    """Print how one workload stands, its sources, and what each of its pods holds."""
    _show_head(console, one)
    note = f"{one.policy}; strategy {one.strategy}"
    if one.desired:
        note += f"; desired content {one.desired}"
    console.print(Padding(Text(note, style="dim"), (0, 0, 0, 2), expand=False))
    if one.sources:
        console.print()
        console.print(_sources(one.sources, now))
    console.print()
    if one.pods_error:
        console.print(Text(f"Its pods cannot be listed: {one.pods_error}", style="red"))
    elif not one.pods:
        console.print(Text("no pods", style="dim"))
    else:
        console.print(_pods(one.pods))
        if one.pod_count > len(one.pods):
            console.print(Text(f"… and {one.pod_count - len(one.pods)} more", style="dim"))


def _show_head(console: Console, one: Consumer) -> None:
    head = Text(f"{one.kind.lower()}/{one.name} in {one.namespace}: ", style="bold")
    console.print(head + _styled(one.state))
    console.print(Padding(Text(one.reason), (0, 0, 0, 2), expand=False))


def _sources(sources: Sequence[Source], now: float) -> Table:
    table = _table(["SOURCE", "READ", "LAST CHANGE"])
    for one in sources:
        name = Text(f"{one.kind.lower()}/{one.name}", overflow="fold")
        changed = _ago(now - one.changed_at) if one.changed_at is not None else "not known"
        table.add_row(name, _how(one.read), Text(changed if one.exists else "does not exist"))
    return table


def _how(read: Sequence[str]) -> Text:
    words = {"start": "at start", "files": "as files"}
    return Text(", ".join(words.get(one, one) for one in read) or "not at all")


def _pods(pods: Sequence[Pod]) -> Table:
    table = _table(["POD", "PROJECTED", "LOADED", "BECAUSE"])
    for pod in pods:
        projected = _styled(pod.projected.known) if pod.projected else Text("-", style="dim")
        loaded = _styled(pod.loaded.known)
        table.add_row(Text(pod.name, overflow="fold"), projected, loaded, Text(pod.loaded.why))
    return table


def show_decisions(console: Console, one: Consumer, *, now: float) -> None:
    """Print the latest decisions on one workload, newest first."""
    _show_head(console, one)
    console.print()
    if not one.decisions:
        console.print(Text("nothing was decided on it since the controller started", style="dim"))
        return
    table = _table(["WHEN", "DONE", "WHY"])
    for decision in one.decisions:
        done = ", ".join(decision.actions) or "nothing"
        why = decision.reason
        if decision.outcome != "done":
            why += f"; {decision.outcome}"
        table.add_row(Text(_clock(decision.at, now)), Text(done), Text(why))
    console.print(table)


def _table(heads: Sequence[str]) -> Table:
    """Make a table whose last column takes what is left, in whole words."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in heads[:-1]:
        table.add_column(head, no_wrap=head in ("STATE", "PROJECTED", "LOADED", "WHEN", "DONE"))
    table.add_column(heads[-1], ratio=1)
    return table


def _styled(word: str) -> Text:
    return Text(word, style=_STYLES.get(word, ""))


def _clock(at: float, now: float) -> str:
    """Write a moment of this day as its time, another with its date; the reader's own zone."""
    there, here = time.localtime(at), time.localtime(now)
    return time.strftime("%H:%M:%S" if there[:3] == here[:3] else "%Y-%m-%d %H:%M:%S", there)


def _ago(seconds: float) -> str:
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {name} ago"
    return f"{max(0, int(seconds))} s ago"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
