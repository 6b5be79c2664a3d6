"""What /v1/status says: how every followed consumer stands, and the proof for one of them.

The overview costs no request, whatever the cluster's size, and comes in pages. Asked for one
consumer by name, its pods are listed once and shown with what each holds. Names and fingerprints
only; values are not kept anywhere, so they cannot be shown.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hotmap import __version__
from hotmap.controller.report.consumer_states import ConsumerStates
from hotmap.controller.report.decision_log import DecisionLog, Entry
from hotmap.controller.report.pod_checks import PodCheckResult, look
from hotmap.controller.watch.index import Index
from hotmap.controller.watch.observation import Observer
from hotmap.core.decide.decide import decide
from hotmap.core.decide.document import decision_document, snapshot_document
from hotmap.core.decide.snapshot import Snapshot, SourceSnapshot
from hotmap.core.errors import ApiError, BadRequest, HotmapError, Unreachable
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.status.consumer import ConsumerStatus, State
from hotmap.core.status.pods import PodProof, Stage
from hotmap.kube.client import Client

__all__ = ["Leading", "StatusPage"]

#: Consumers on a page, unless told otherwise and at most.
_PAGE, _PAGE_MOST = 500, 5000

#: Pods listed for one answer; more are counted and not shown.
_PODS_SHOWN = 1000

#: Lists of pods at once for people who ask; nothing of this may crowd an API server.
_LISTS_AT_ONCE = 2

_PARAMETERS = ("consumer", "namespace", "state", "limit", "continue", "snapshot")


class Leading(NamedTuple):
    """What only who leads can answer from."""

    observer: Observer
    consumer_states: ConsumerStates


class _Query(NamedTuple):
    consumer: str
    namespace: str
    states: frozenset[str]
    limit: int
    token: str
    #: Whether the snapshot of a named consumer is shown, to replay the decision on it.
    snapshot: bool


class StatusPage:
    """Answers queries of the status."""

    def __init__(self, client: Client, *, index: Index, decision_log: DecisionLog) -> None:
        self._client = client
        self._index = index
        self._journal = decision_log
        self._listing = asyncio.Semaphore(_LISTS_AT_ONCE)

    async def answer(self, query: Mapping[str, str], leading: Leading | None) -> dict[str, Any]:
        """Make the document that a query asks for; a standby knows of no consumer.

        Raises:
            BadRequest: a parameter is unknown or cannot be read; the text names it.
        """
        asked = _read_query(query)
        head = {
            "apiVersion": "hotmap.dev/v1",
            "kind": "ControllerStatus",
            "version": __version__,
            "server": self._client.server,
            "ready": leading is not None,
            "role": "standby" if leading is None else "leader",
            "sources": sum(len(store) for store in self._index.sources.values()),
        }
        if leading is None:
            return {**head, "counts": {}, "behind": 0, "consumers": []}
        if asked.consumer:
            named = self._named(asked.consumer)
            shown = [
                await self._in_full(consumer, leading, with_snapshot=asked.snapshot)
                for consumer in named
            ]
            return {
                **head,
                **_totals((one["state"], one["behind"]) for one in shown),
                "consumers": shown,
            }
        return {**head, **self._overview(asked, leading.consumer_states)}

    # -- the overview --------------------------------------------------------------------------

    def _overview(self, asked: _Query, consumer_states: ConsumerStates) -> dict[str, Any]:
        """Show a page of consumers, and the counts of all that the query asks for."""
        standing = {
            consumer.key: consumer_states.known(consumer.key)
            for consumer in self._index.all_consumers()
            if asked.namespace in ("", consumer.key.namespace)
            and self._index.policies.of(consumer).opted_in
        }
        totals = _totals((one.state.value, one.behind) for one in standing.values())
        wanted = sorted(
            key
            for key, one in standing.items()
            if (not asked.states or one.state.value in asked.states) and _token(key) > asked.token
        )
        page = wanted[: asked.limit]
        documents = [
            self._in_short(consumer, standing[key])
            for key in page
            if (consumer := self._index.consumer(key)) is not None
        ]
        left = {"continue": _token(page[-1])} if len(wanted) > len(page) else {}
        return {**totals, "consumers": documents, **left}

    def _in_short(self, consumer: Consumer, standing: ConsumerStatus) -> dict[str, Any]:
        kind, namespace, name = consumer.key
        policy = self._index.policies.of(consumer)
        latest = self._journal.latest(consumer.key)
        return {
            "kind": kind,
            "namespace": namespace,
            "name": name,
            "state": standing.state.value,
            "reason": standing.reason,
            "behind": standing.behind,
            "strategy": policy.strategy.value,
            "policy": policy.origin,
            "revision": consumer.revision,
            "decidedAt": round(latest.at, 3) if latest else None,
        }

    def _unfollowed(self, consumer: Consumer) -> dict[str, Any]:
        """Say why a workload is not followed, since that is the answer to most questions."""
        origin = self._index.policies.of(consumer).origin
        standing = ConsumerStatus(State.UNPROVEN, origin)
        return {**self._in_short(consumer, standing), "state": "unfollowed"}

    # -- one consumer --------------------------------------------------------------------------

    def _named(self, text: str) -> list[Consumer]:
        """Find the workloads that `[KIND/]NAMESPACE/NAME` names, followed or not."""
        parts = text.split("/")
        kind, namespace, name = ["", "", *parts][-3:]
        there = (
            self._index.consumer(ObjectKey(one, namespace, name))
            for one in self._index.consumers
            if kind.lower() in ("", one.lower())
        )
        return [one for one in there if one is not None and not one.owned and len(parts) < 4]

    async def _in_full(
        self, consumer: Consumer, leading: Leading, *, with_snapshot: bool
    ) -> dict[str, Any]:
        """Show one consumer with its sources, its pods and the decisions on it; one LIST."""
        if not self._index.policies.of(consumer).opted_in:
            return self._unfollowed(consumer)
        key = consumer.key
        snapshot = leading.observer.snapshot(key)
        if snapshot is None:
            return self._unfollowed(consumer)
        shown: PodCheckResult | HotmapError
        try:
            async with self._listing:
                shown = await look(self._client, snapshot)
        except (ApiError, Unreachable) as error:
            shown = error
        standing = _standing(snapshot, leading.consumer_states.known(key), shown)
        return {
            **self._in_short(consumer, standing),
            "asked": snapshot.recorded_content or None,
            "sources": [_source_document(source) for source in snapshot.sources],
            **_pods_document(shown),
            "decision": decision_document(decide(snapshot)),
            **({"snapshot": snapshot_document(snapshot)} if with_snapshot else {}),
            "decisions": [_decision_document(one) for one in reversed(self._journal.of(key))],
        }


def _standing(
    snapshot: Snapshot, known: ConsumerStatus, shown: PodCheckResult | HotmapError
) -> ConsumerStatus:
    """Say how a consumer stands whose pods were listed just now.

    What needs a person or another moment goes first; then the pods themselves tell.
    """
    if snapshot.record is None or known.state in (State.FAILED, State.HELD):
        return known
    if snapshot.recorded_target != snapshot.target:
        return ConsumerStatus(State.WAITING, "its sources changed, which is about to be acted on")
    waits = known.state is State.WAITING and not known.behind
    if isinstance(shown, HotmapError) or waits or known.state is State.STUCK:
        return known
    return shown.standing


def _source_document(source: SourceSnapshot) -> dict[str, Any]:
    """Show a source as the controller sees it, so that one can tell whether it saw an edit."""
    return {
        "kind": source.source.kind,
        "name": source.source.name,
        "exists": source.exists,
        "resourceVersion": source.resource_version,
        "changedAt": source.changed_at,
        "read": [*(["start"] if source.frozen else []), *(["files"] if source.live else [])],
    }


def _pods_document(shown: PodCheckResult | HotmapError) -> dict[str, Any]:
    if isinstance(shown, HotmapError):
        return {"desired": None, "pods": [], "podsError": str(shown)}
    desired = shown.desired.revision
    return {
        "desired": desired,
        "podCount": len(shown.pods),
        "pods": [_pod_document(one, desired) for one in shown.pods[:_PODS_SHOWN]],
    }


def _pod_document(proof: PodProof, desired: str) -> dict[str, Any]:
    seen = proof.seen
    return {
        "name": seen.start.name,
        "startedAt": seen.start.at,
        "ready": seen.ready,
        "trouble": seen.trouble,
        "templateRevision": seen.start.revision,
        "desired": desired,
        "projected": _stage_document(proof.projected, desired) if proof.projected else None,
        "loaded": _stage_document(proof.loaded, desired),
    }


def _stage_document(stage: Stage, desired: str) -> dict[str, Any]:
    """Show a stage; what may be older content has no name."""
    revision = desired if stage.reached else None
    return {"revision": revision, "known": stage.known.value, "why": stage.why}


def _decision_document(entry: Entry) -> dict[str, Any]:
    return {
        "at": round(entry.at, 3),
        "verdict": entry.verdict,
        "reason": entry.reason,
        "actions": list(entry.actions),
        "revision": entry.revision,
        "outcome": entry.outcome,
    }


def _totals(consumer_states: Iterable[tuple[str, int]]) -> dict[str, Any]:
    states: Counter[str] = Counter()
    behind = 0
    for state, pods in consumer_states:
        states[state] += 1
        behind += pods
    return {"counts": {state.value: states[state.value] for state in State}, "behind": behind}


# -- queries -----------------------------------------------------------------------------------


def _read_query(query: Mapping[str, str]) -> _Query:
    unknown = [name for name in query if name not in _PARAMETERS]
    if unknown:
        raise BadRequest(f"{unknown[0]}: unknown parameter; known are {', '.join(_PARAMETERS)}")
    text = query.get("limit", "")
    if text and not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= _PAGE_MOST):
        raise BadRequest(f"limit: {text[:40]!r} is not a number from 1 to {_PAGE_MOST}")
    return _Query(
        query.get("consumer", ""),
        query.get("namespace", ""),
        _read_states(query.get("state", "")),
        int(text) if text else _PAGE,
        query.get("continue", ""),
        _read_flag(query.get("snapshot", "")),
    )


def _read_flag(text: str) -> bool:
    if text not in ("", "true", "false"):
        raise BadRequest(f"snapshot: {text[:40]!r} is neither true nor false")
    return text == "true"


def _read_states(text: str) -> frozenset[str]:
    states = [one for one in text.split(",") if one]
    known = [state.value for state in State]
    for one in states:
        if one not in known:
            raise BadRequest(f"state: {one[:40]!r} is none of {', '.join(known)}")
    return frozenset(states)


def _token(key: ObjectKey) -> str:
    """Name the place of a consumer in the order of the pages."""
    return "/".join(key)
