"""Status tables for a terminal of 80 columns.

Names are never cut or wrapped, so that they can be copied. Where they leave too little room for
the text of the last column, it stands below each row.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from hotmap.cli.terminal import print_unpadded
from hotmap.core.duration import format_age
from hotmap.core.status.status_document import (
    EditPreview,
    PodSummary,
    PreviewedWorkload,
    StatusDocument,
    WorkloadSummary,
)
from hotmap.core.text import join_names
from hotmap.kube.resources import BY_KIND

__all__ = [
    "TableForm",
    "print_decisions",
    "print_names",
    "print_preview",
    "print_proof",
    "print_workloads",
]

_STYLES = {
    "current": "green",
    "delivered": "cyan",
    "refused": "bold red",
    "waiting": "yellow",
    "unverified": "dim",
    "unfollowed": "dim",
    "paused": "yellow",
    "latent": "yellow",
    "stuck": "bold red",
    "held": "bold red",
    "failed": "bold red",
    "proven": "green",
    "probable": "green",
    "inferred": "cyan",
    "unknown": "yellow",
}


#: Columns below which a text beside the others is one word a line.
_LEAST_TEXT = 24

#: Columns between two cells.
_GAP = 2


class TableForm(NamedTuple):
    """Which columns and lines a table of workloads has."""

    namespaces: bool = False
    wide: bool = False
    #: Without heads and sums: it continues another.
    changes: bool = False


def print_workloads(console: Console, document: StatusDocument, form: TableForm) -> None:
    """Print one line per workload, and the number of workloads in each state.

    With namespaces, a workload is below the others of its namespace, as in kubectl.
    """
    if not document.workloads:
        return
    more = ["BEHIND", "STRATEGY", "REVISION"] if form.wide else []
    heads = [*(["NAMESPACE"] if form.namespaces else []), "WORKLOAD", "STATE", *more, "REASON"]
    rows = []
    workloads = document.workloads
    if form.namespaces:
        workloads = sorted(workloads, key=attrgetter("namespace"))  # otherwise by kind and name
    for consumer in workloads:
        namespace = [Text(consumer.namespace)] if form.namespaces else []
        name = Text(f"{consumer.kind.lower()}/{consumer.name}")
        wide = [str(consumer.behind), consumer.strategy, consumer.revision or "-"]
        texts = map(Text, wide if form.wide else ())
        rows.append([*namespace, name, _styled(consumer.state), *texts, Text(consumer.reason)])
    _print_table(console, heads, rows, show_heads=not form.changes)
    if not form.changes:
        print_unpadded(console, _summary(document))


def print_names(console: Console, document: StatusDocument) -> None:
    """Print the names of workloads as kubectl takes them, one a line."""
    for consumer in document.workloads:
        group = BY_KIND[consumer.kind].group
        kind = f"{consumer.kind.lower()}.{group}" if group else consumer.kind.lower()
        console.print(Text(f"{kind}/{consumer.name}"), soft_wrap=True)


def _summary(document: StatusDocument) -> Text:
    total = sum(document.counts.values())
    states = [f"{count} {state}" for state, count in document.counts.items() if count]
    pods = f"; {_counted(document.behind, 'pod')} not current" if document.behind else ""
    return Text(f"{_counted(total, 'workload')}: {', '.join(states)}{pods}")


def print_proof(console: Console, consumer: WorkloadSummary, *, now: float) -> None:
    """Print the state of one workload, its sources, and the proof for each of its pods."""
    _print_head(console, consumer)
    note = f"{consumer.policy}; strategy {consumer.strategy}"
    if consumer.desired:
        note += f"; desired content {consumer.desired}"
    print_unpadded(console, Padding(Text(note, style="dim"), (0, 0, 0, 2), expand=False))
    if consumer.sources or consumer.unfollowed:
        console.print()
        _print_sources(console, consumer, now)
    console.print()
    if consumer.pods_error:
        console.print(Text(f"cannot list pods: {consumer.pods_error}", style="red"))
    elif not consumer.pods:
        console.print(Text("no pods", style="dim"))
    else:
        _print_pods(console, consumer.pods)
        if consumer.pod_count > len(consumer.pods):
            console.print(
                Text(f"… and {consumer.pod_count - len(consumer.pods)} more", style="dim")
            )


def _print_head(console: Console, consumer: WorkloadSummary) -> None:
    head = Text(f"{consumer.kind.lower()}/{consumer.name} in {consumer.namespace}: ", style="bold")
    console.print(head + _styled(consumer.state), soft_wrap=True)
    print_unpadded(console, Padding(Text(consumer.reason), (0, 0, 0, 2), expand=False))


def _print_sources(console: Console, consumer: WorkloadSummary, now: float) -> None:
    rows = []
    for source in consumer.sources:
        name = Text(f"{source.kind.lower()}/{source.name}")
        changed = _ago(now - source.changed_at) if source.changed_at is not None else "unknown"
        if not source.exists:
            changed = "does not exist" if source.visible else "not visible to hotmap"
        rows.append([name, _read_as(source.read), Text(changed)])
    for left_out in consumer.unfollowed:
        name = Text(f"{left_out.kind.lower()}/{left_out.name}")
        rows.append([name, Text("not followed", style="yellow"), Text("-", style="dim")])
    _print_table(console, ["SOURCE", "READ", "LAST CHANGE"], rows)


def _read_as(read: Sequence[str]) -> Text:
    words = {"start": "at start", "files": "as files"}
    return Text(", ".join(words.get(item, item) for item in read) or "not used")


def _print_pods(console: Console, pods: Sequence[PodSummary]) -> None:
    rows = []
    for pod in pods:
        projected = _styled(pod.projected.confidence) if pod.projected else Text("-", style="dim")
        loaded = _styled(pod.loaded.confidence)
        ready = Text("yes" if pod.ready else "no", style="" if pod.ready else "yellow")
        rows.append([Text(pod.name), ready, projected, loaded, Text(pod.loaded.reason)])
    _print_table(console, ["POD", "READY", "PROJECTED", "LOADED", "EVIDENCE"], rows)


def print_preview(console: Console, preview: EditPreview) -> None:
    """Print an edit, and what it would do to each workload that uses the source."""
    title = f"{preview.kind.lower()}/{preview.name} in {preview.namespace}: "
    console.print(Text(title, style="bold") + Text(_describe_edit(preview)), soft_wrap=True)
    if not preview.workloads:
        if preview.changed or preview.changed is None or preview.removed:
            console.print(Text("no workload in the cluster uses it", style="dim"))
        return
    rows = []
    for workload in preview.workloads:
        name = Text(f"{workload.kind.lower()}/{workload.name}")
        rows.append([name, _action(workload), Text(workload.reason)])
    _print_table(console, ["WORKLOAD", "ACTION", "REASON"], rows)
    rolled_out = sum("rollout" in workload.actions for workload in preview.workloads)
    if 0 < preview.max_concurrent_rollouts < rolled_out:
        limit = f"{rolled_out} rollouts, {preview.max_concurrent_rollouts} at a time"
        console.print(Text(f"{limit} (hotmap.dev/max-concurrent-rollouts)"), soft_wrap=True)


def _describe_edit(preview: EditPreview) -> str:
    changed = "every data key" if preview.changed is None else join_names(preview.changed)
    parts = []
    if preview.creates:
        parts.append("does not exist, and would be created")
    elif changed:
        parts.append(f"an edit of {changed}")
    if preview.removed:
        parts.append(f"the removal of {join_names(preview.removed)}")
    return " and ".join(parts) or "unchanged"


def _action(workload: PreviewedWorkload) -> Text:
    if workload.held:
        return Text("held", style="bold red")
    if workload.actions:
        return Text(", ".join(workload.actions), style="cyan")
    if workload.verdict.startswith("check"):
        return Text("depends", style="yellow")
    return Text("none", style="dim")


def print_decisions(console: Console, consumer: WorkloadSummary, *, now: float) -> None:
    """Print the latest decisions on one workload, newest first."""
    _print_head(console, consumer)
    console.print()
    if not consumer.decisions:
        is_followed = consumer.state != "unfollowed"
        text = (
            "no decisions since the controller started"
            if is_followed
            else "decisions are kept only while a workload is followed"
        )
        console.print(Text(text, style="dim"))
        return
    rows = []
    for decision in consumer.decisions:
        actions = ", ".join(decision.actions) or ("held" if decision.held else "none")
        reason = decision.reason
        if decision.outcome != "done":
            reason += f"; {decision.outcome}"
        if decision.count > 1:
            reason += f" ({decision.count} times since {_clock(decision.first_at, now)})"
        rows.append([Text(_clock(decision.at, now)), Text(actions), Text(reason)])
    _print_table(console, ["TIME", "ACTION", "REASON"], rows)


def _print_table(
    console: Console,
    heads: Sequence[str],
    rows: Sequence[Sequence[Text]],
    *,
    show_heads: bool = True,
) -> None:
    """Print rows; the last text takes the remaining width, or stands below, wrapped at words."""
    lines = [[Text(head, style="dim") for head in heads], *rows]
    widths = [max(cell.cell_len for cell in column) for column in zip(*lines, strict=True)]
    indent = sum(width + _GAP for width in widths[:-1])
    room = console.width - indent
    if room < min(_LEAST_TEXT, widths[-1]):
        _print_stacked(console, lines if show_heads else lines[1:], widths)
        return
    printed: list[Text] = []
    for cells in lines if show_heads else lines[1:]:
        first, *more = cells[-1].wrap(console, room)
        printed.append(_aligned(cells[:-1], widths).append_text(first))
        printed += [Text(" " * indent).append_text(part) for part in more]
    for line in printed:
        line.rstrip()
    if printed:  # in one step: a thousand rows are printed in a third of the time
        console.print(Text("\n").join(printed), soft_wrap=True)


def _print_stacked(
    console: Console, lines: Sequence[Sequence[Text]], widths: Sequence[int]
) -> None:
    """Print each row as one line, which may be wider than the terminal, and its text below."""
    for cells in lines:
        line = _aligned(cells[:-1], widths)
        line.rstrip()
        console.print(line, soft_wrap=True)
        print_unpadded(console, Padding(cells[-1], (0, 0, 0, _GAP), expand=False))


def _aligned(cells: Sequence[Text], widths: Sequence[int]) -> Text:
    """Join cells, each filled up to the width of its column and the gap after it."""
    line = Text()
    for cell, width in zip(cells, widths, strict=False):
        line.append_text(cell).append(" " * (width - cell.cell_len + _GAP))
    return line


def _styled(word: str) -> Text:
    return Text(word, style=_STYLES.get(word, ""))


def _clock(at: float, now: float) -> str:
    """Format a time of today without the date; in the local time zone."""
    local, today = time.localtime(at), time.localtime(now)
    return time.strftime("%H:%M:%S" if local[:3] == today[:3] else "%Y-%m-%d %H:%M:%S", local)


def _ago(seconds: float) -> str:
    return f"{format_age(max(0.0, seconds))} ago"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
