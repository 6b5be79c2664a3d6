"""Decides what the map shows: sources, the workloads that use them, and groups of the others.

Trouble comes first. If there are more workloads than rows, those of a state that do not fit become
one group, and the current ones are always the first to be grouped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hotmap.core.status.status_document import SourceSummary, StatusDocument, WorkloadSummary

__all__ = ["STATES", "View", "build_map", "hide_states", "source_id", "tone_of", "workload_id"]

#: Every state, the one that needs attention first, with its tone: the colour and the weight in
#: which it is drawn.
STATES: Mapping[str, str] = {
    "refused": "bad",
    "held": "bad",
    "stuck": "bad",
    "failed": "bad",
    "latent": "warn",
    "unknown": "warn",
    "paused": "warn",
    "waiting": "busy",
    "unverified": "calm",
    "delivered": "calm",
    "current": "good",
}

_RANKS = {state: rank for rank, state in enumerate(STATES)}

#: Sources that are drawn one by one; a tenant may use hundreds in one workload.
_MOST_SOURCES = 200

#: The row that stands for further sources.
_MORE_SOURCES = "more sources"


class View(NamedTuple):
    """What one page shows of the document."""

    #: Words, each of which a workload, or a source that it uses, must have in its name.
    filter: str = ""
    #: Only these; empty: all.
    states: frozenset[str] = frozenset()
    #: Workloads that are shown one by one.
    rows: int = 40
    #: The selected workload or source, which is shown in any case.
    selected: str = ""


def workload_id(workload: WorkloadSummary) -> str:
    """Return KIND/NAMESPACE/NAME, as the parameter `workload` of the status has it."""
    return f"{workload.kind}/{workload.namespace}/{workload.name}"


def source_id(namespace: str, source: SourceSummary) -> str:
    """Return KIND/NAMESPACE/NAME of a source; a workload uses those of its own namespace."""
    return f"{source.kind}/{namespace}/{source.name}"


def tone_of(state: str) -> str:
    """Return the tone of a state; one that a newer controller has is shown as `unknown` is."""
    return STATES.get(state, STATES["unknown"])


def _worst(states: Iterable[str]) -> str:
    """Return the state that needs attention first."""
    return min(states, key=_rank)


def _rank(state: str) -> int:
    return _RANKS.get(state, _RANKS["unknown"])


def build_map(document: StatusDocument, view: View) -> dict[str, Any]:
    """Decide on rows, groups and sources of the map, each in the order in which it is drawn.

    `found` counts the workloads by state that match the filter, whatever their state.
    """
    matching = [workload for workload in document.workloads if _matches(workload, view.filter)]
    found = Counter(workload.state for workload in matching)
    wanted = [each for each in matching if not view.states or each.state in view.states]
    wanted.sort(key=order_of)
    rows, rest = _split(wanted, view)
    groups = [_group(state, members) for state, members in _by_state(rest)]
    items = [_row(workload) for workload in rows] + groups
    sources = _sources(items, document.workloads)
    return {
        "total": len(document.workloads),
        "found": [
            {"state": state, "tone": tone_of(state), "count": found[state]}
            for state in sorted(found, key=_rank)
        ],
        "behind": _describe_behind(sum(workload.behind for workload in matching)),
        "workloads": items,
        "sources": sources,
        "namespaces": len({workload.namespace for workload in document.workloads}),
    }


def _describe_behind(count: int) -> str:
    return f"{_counted(count, 'pod')} behind" if count else ""


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def hide_states(drawn: dict[str, Any]) -> dict[str, Any]:
    """Return a map without all that may not be so any more, since the controller does not answer.

    Rows keep their places, so that the map does not jump when the connection is back.
    """
    unknown = {"state": "unknown", "tone": "lost"}
    workloads = [
        {**item, **unknown, "reason": "", "pods": {"count": 0, "behind": 0, "text": ""}}
        for item in drawn["workloads"]
    ]
    sources = [
        {**source, "tone": "lost", "missing": False, "note": ""} for source in drawn["sources"]
    ]
    return {**drawn, "workloads": workloads, "sources": sources, "found": [], "behind": ""}


def _matches(workload: WorkloadSummary, text: str) -> bool:
    """Return whether each word is part of the name of a workload, or of a source that it uses."""
    names = [f"{workload.kind}/{workload.name} {workload.namespace}".lower()]
    names += [f"{source.kind}/{source.name}".lower() for source in workload.sources]
    return all(any(word in name for name in names) for word in text.lower().split())


def order_of(workload: WorkloadSummary) -> tuple[object, ...]:
    """Order by state, and then such that workloads with the same source are neighbours.

    Of each state, those that cannot become current without a user's action are first.
    """
    first = min((f"{each.kind}/{each.name}" for each in workload.sources), default="")
    name = (workload.namespace, first, workload.kind, workload.name)
    return _rank(workload.state), not workload.action_required, *name


def _split(
    ordered: Sequence[WorkloadSummary], view: View
) -> tuple[list[WorkloadSummary], list[WorkloadSummary]]:
    """Divide workloads into rows and those that are grouped; the selected one is a row."""
    room = view.rows if len(ordered) > view.rows else len(ordered)
    others = sum(workload.state != "current" for workload in ordered)
    if others and len(ordered) > view.rows:
        room = min(room, others)
    rows, rest = list(ordered[:room]), list(ordered[room:])
    selected = [workload for workload in rest if workload_id(workload) == view.selected]
    return rows + selected, [workload for workload in rest if workload not in selected]


def _by_state(workloads: Sequence[WorkloadSummary]) -> list[tuple[str, list[WorkloadSummary]]]:
    groups: dict[str, list[WorkloadSummary]] = {}
    for workload in workloads:
        groups.setdefault(workload.state, []).append(workload)
    return list(groups.items())


def _row(workload: WorkloadSummary) -> dict[str, Any]:
    pods = 1 if workload.kind == "Pod" else workload.pod_count
    return {
        "id": workload_id(workload),
        "name": f"{workload.kind.lower()}/{workload.name}",
        "namespace": workload.namespace,
        "state": workload.state,
        "tone": tone_of(workload.state),
        "reason": workload.reason,
        "pods": _pods(workload.state, pods, workload.behind),
        "sources": [source_id(workload.namespace, source) for source in workload.sources],
    }


def _pods(state: str, count: int, behind: int) -> dict[str, Any]:
    """Return what is known of the pods of workloads in one state.

    Only of a workload that is current are all pods known to be; of another one those that are not
    counted as behind may be anything. Its panel shows each.
    """
    count = max(count, behind)
    if not count:
        return {"count": 0, "behind": 0, "text": "no pods" if state == "current" else ""}
    text = _counted(count, "pod")
    if state in ("current", "delivered"):
        return {"count": count, "behind": 0, "text": text}
    text = f"{behind:,} of {text} behind" if behind else text
    return {"count": count, "behind": behind, "text": text}


def _group(state: str, members: Sequence[WorkloadSummary]) -> dict[str, Any]:
    counts = [1 if each.kind == "Pod" else max(each.pod_count, each.behind) for each in members]
    return {
        "id": f"group/{state}",
        "group": state,
        "name": _counted(len(members), "workload"),
        "state": state,
        "tone": tone_of(state),
        "pods": _pods(state, sum(counts), sum(each.behind for each in members)),
        "sources": sorted(
            {source_id(each.namespace, source) for each in members for source in each.sources}
        ),
    }


def _sources(
    items: Sequence[dict[str, Any]], workloads: Sequence[WorkloadSummary]
) -> list[dict[str, Any]]:
    """List the sources of the rows, in the order of the rows that use them.

    What only a group uses is one row, since nothing about it needs attention by itself. Sources
    that are not drawn are replaced in `items` by the row that stands for them.
    """
    shown = list(
        dict.fromkeys(name for item in items if "group" not in item for name in item["sources"])
    )
    shown = shown[:_MOST_SOURCES]
    others: set[str] = set()
    for item in items:
        hidden = set(item["sources"]).difference(shown)
        others |= hidden
        item["sources"] = [name for name in item["sources"] if name not in hidden]
        item["sources"] += [_MORE_SOURCES] if hidden else []
    shown.sort(key=_middles(items).__getitem__)
    users = find_users(workloads)
    rows = [_source_row(name, users[name]) for name in shown]
    if others:
        states = [user.state for name in others for user, _ in users[name]]
        rows.append({
            "id": _MORE_SOURCES, "name": _counted(len(others), "more source" if rows else "source"),
            "tone": tone_of(_worst(states)), "group": True, "note": "",
        })  # fmt: skip
    return rows


def _middles(items: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Map each source to the mean position of its rows, so that few lines cross."""
    positions: dict[str, list[int]] = {}
    for position, item in enumerate(items):
        for name in item["sources"]:
            positions.setdefault(name, []).append(position)
    return {name: sum(each) / len(each) for name, each in positions.items()}


def find_users(
    workloads: Iterable[WorkloadSummary],
) -> dict[str, list[tuple[WorkloadSummary, SourceSummary]]]:
    """Map the id of each source to the workloads that use it."""
    users: dict[str, list[tuple[WorkloadSummary, SourceSummary]]] = {}
    for workload in workloads:
        for source in workload.sources:
            users.setdefault(source_id(workload.namespace, source), []).append((workload, source))
    return users


def _source_row(
    name: str, users: Sequence[tuple[WorkloadSummary, SourceSummary]]
) -> dict[str, Any]:
    """Describe a source by all workloads that use it, also by those that the filter hides."""
    state = _worst(workload.state for workload, _ in users)
    source = users[0][1]
    current = sum(workload.state == "current" for workload, _ in users)
    note = f"{current:,} of {len(users):,} current"
    if not source.exists:
        note = "does not exist" if source.visible else "not visible to hotmap"
    return {
        "id": name,
        "name": f"{source.kind.lower()}/{source.name}",
        "namespace": name.split("/")[1],
        "tone": tone_of(state) if source.exists else "warn",
        "missing": not source.exists,
        "note": note,
    }
