"""Answers queries of /v1/status: the status of every followed consumer, or one in detail.

The overview sends no request to the API server and is paginated. For a single consumer, its pods
are listed once and shown with the proof for each. `status_documents` has the parts of the answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple

from hotmap import __version__
from hotmap.controller.report.consumer_states import ConsumerStates
from hotmap.controller.report.decision_log import DecisionLog
from hotmap.controller.report.edit_previews import EditPreviews
from hotmap.controller.report.pod_checks import PodChecker
from hotmap.controller.report.status_access import StatusAccess
from hotmap.controller.report.status_documents import (
    LONGEST_REVISION,
    counts_document,
    decision_entry_document,
    pods_document,
    source_document,
    source_name_document,
)
from hotmap.controller.report.status_query import StatusQuery, parse_query, split_name
from hotmap.controller.watch.consistent_reads import ConsistentReader
from hotmap.controller.watch.index import Index
from hotmap.controller.watch.observation import Observer
from hotmap.core.decide.decide import decide
from hotmap.core.decide.document import decision_document, snapshot_document
from hotmap.core.decide.preview import Edit
from hotmap.core.errors import ApiError, HotmapError, ResponseTooLarge, Unreachable
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.policy.policy import Policy
from hotmap.core.status.consumer import ConsumerStatus, State, rollout_status
from hotmap.core.status.pod_check import PodCheckResult
from hotmap.core.text import join_names, printable
from hotmap.kube.client import Client
from hotmap.kube.fair_slots import FairSlots
from hotmap.kube.loop_slices import share_loop

__all__ = ["LeaderView", "StatusPage", "StatusRequest"]

#: Lists of pods at once for queries, so that they do not crowd an API server.
_MAX_LISTS = 4

#: Overviews at once: that of 5,000 workloads takes 20 MB, and seconds of the event loop.
_MAX_OVERVIEWS = 2


class LeaderView(NamedTuple):
    """What only the leader knows."""

    observer: Observer
    consumer_states: ConsumerStates
    pod_checker: PodChecker
    #: Brings the stores up to date for a query that must not lag behind an edit.
    consistent_reader: ConsistentReader
    #: How many workloads of a source are rolled out at a time; 0: any number.
    rollout_limit: Callable[[ObjectKey], int]


class StatusRequest(NamedTuple):
    """A query, and what its answer depends on beside the query."""

    query: StatusQuery
    leader: LeaderView
    #: The namespaces that its user may read; None: all.
    readable: frozenset[str] | None
    #: Why the stores may be of an earlier state of the cluster than was asked for; "" if not.
    unconfirmed: str = ""

    @property
    def group(self) -> Hashable:
        """What takes turns with others: its namespace, or those that its user may read.

        All queries of a user with one namespace are one group, however they name it.
        """
        if self.query.named_namespace or self.readable is None:
            return self.query.named_namespace
        return next(iter(self.readable)) if len(self.readable) == 1 else self.readable

    def shows(self, namespace: str) -> bool:
        """Return whether its user may read a namespace."""
        return self.readable is None or namespace in self.readable

    def confirmed(self, status: ConsumerStatus) -> ConsumerStatus:
        """Return a status; `unknown` if it may belong to an earlier state of the cluster."""
        if not self.unconfirmed or not status.is_reached:
            return status
        return ConsumerStatus(State.UNKNOWN, f"cannot be confirmed: {self.unconfirmed}")


class StatusPage:
    """Serves queries for the status."""

    def __init__(
        self,
        client: Client,
        *,
        index: Index,
        decision_log: DecisionLog,
        serves: Callable[[str], bool],
        leader_view: Callable[[], LeaderView | None],
    ) -> None:
        """`serves` tells whether a namespace is watched, `leader_view` is None for a standby's."""
        self._client = client
        self._leader_view = leader_view
        self._serves = serves
        self._index = index
        self._decision_log = decision_log
        self._access = StatusAccess(client)
        # Namespaces take turns: pods of one whose agents do not answer delay no other's status.
        self._slots = FairSlots(_MAX_LISTS)
        self._overview_slots = FairSlots(_MAX_OVERVIEWS)

    async def answer(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Build the document for a query; a standby shows no consumers.

        Raises:
            BadRequest: a parameter is unknown or cannot be read; the text names it.
        """
        parsed = parse_query(query)
        return await self._while_leading(
            lambda leader: self._document(parsed, leader, readable=None)
        )

    async def answer_user(self, header: str, query: Mapping[str, str]) -> dict[str, Any]:
        """Build the document for a query of a user with a token in a header.

        Raises:
            BadRequest: as `answer`.
            Forbidden: the token is not valid, or the permission to read this is missing.
            ApiError, Unreachable: the API server cannot review the token.
        """
        parsed = parse_query(query)
        return await self._while_leading(lambda leader: self._user_document(header, parsed, leader))

    async def _while_leading(
        self, build: Callable[[LeaderView | None], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        """Build a document; build it again as a standby if the term has ended meanwhile."""
        leader = self._leader_view()
        document = await build(leader)
        return document if leader is self._leader_view() else await build(None)

    async def _user_document(
        self, header: str, query: StatusQuery, leader: LeaderView | None
    ) -> dict[str, Any]:
        user = await self._access.authenticate(header)
        if leader is None:
            # It names no workloads, so no permission is reviewed.
            return await self._document(query, leader, readable=frozenset())
        namespaces = (  # looked at only if the user may not read all of them
            consumer.key.namespace
            for consumer in self._index.all_consumers()
            if self._index.policies.of(consumer).opted_in
        )
        readable = await self._access.readable(user, query.named_namespace, namespaces)
        return await self._document(query, leader, readable=readable)

    async def _document(
        self, query: StatusQuery, leader: LeaderView | None, *, readable: frozenset[str] | None
    ) -> dict[str, Any]:
        """Build the document for a query; `readable` are the shown namespaces, None shows all."""
        head = {
            "apiVersion": "hotmap.dev/v1",
            "kind": "ControllerStatus",
            "version": __version__,
            "server": self._client.server,
            "time": round(self._client.server_time(), 3),
            "ready": leader is not None,
            "role": "standby" if leader is None else "leader",
            "sources": self._count_sources(readable),
        }
        if leader is None:
            return {**head, "counts": {}, "behind": 0, "workloads": []}
        if (named := query.named_namespace) and not self._serves(named):
            return {**head, **counts_document(()), "workloads": [], "unwatched": named}
        request = StatusRequest(query, leader, readable)
        if query.consistent and not query.token:
            request = request._replace(unconfirmed=await self._read_consistently(request))
        if query.workload:
            return {**head, **await self._details(request)}
        async with self._overview_slots.use(request.group):
            if query.edit is not None:
                return {**head, **await self._previews(request, query.edit)}
            return {**head, **await self._overview(request)}

    def _count_sources(self, readable: frozenset[str] | None) -> int:
        if readable is None:
            return sum(len(store) for store in self._index.sources.values())
        return sum(len(self._index.sources_in(namespace)) for namespace in readable)

    # -- consistent reads ----------------------------------------------------------------------

    async def _read_consistently(self, request: StatusRequest) -> str:
        """Bring what a query is about up to date; return why that is not possible, or ""."""
        try:
            async with self._slots.use(request.group):
                if request.query.workload:
                    await self._read_workload(request)
                else:
                    await self._read_namespaces(request)
        except HotmapError as error:
            return printable(str(error))
        return ""

    async def _read_namespaces(self, request: StatusRequest) -> None:
        readable = request.readable
        for namespace in (request.query.namespace,) if readable is None else sorted(readable):
            await request.leader.consistent_reader.read_namespace(namespace)

    async def _read_workload(self, request: StatusRequest) -> None:
        """Bring the workloads of a name up to date, then the sources that they use now."""
        kind, namespace, name = split_name(request.query.workload)
        if not request.shows(namespace):
            return
        kinds = [consumer.key.kind for consumer in self._find_consumers(request.query.workload)]
        if not kinds:
            kinds = [each for each in self._index.consumers if kind.lower() in ("", each.lower())]
        reader = request.leader.consistent_reader
        await reader.read_objects(ObjectKey(kind, namespace, name) for kind in kinds)
        for consumer in self._find_consumers(request.query.workload):
            await self._read_sources(consumer, request.leader)

    async def _read_sources(self, consumer: Consumer, leader: LeaderView) -> None:
        snapshot = leader.observer.snapshot(consumer.key)
        if snapshot is None or snapshot.policy.named:
            await leader.consistent_reader.read_sources(consumer.key.namespace)
        else:
            sources = [source.source for source in snapshot.sources if not source.unreadable]
            await leader.consistent_reader.read_objects(sources)

    # -- the overview --------------------------------------------------------------------------

    async def _overview(
        self,
        request: StatusRequest,
    ) -> dict[str, Any]:
        """Make a page of consumers, with the counts of all in the namespaces of the query.

        In slices of the event loop: after an edit of a source, the status of each of its consumers
        takes a snapshot. So each is as of a moment after the query.
        """
        query, leader = request.query, request.leader
        keys = [
            consumer.key
            for consumer in self._consumers_of(query)
            if query.namespace in ("", consumer.key.namespace)
            and request.shows(consumer.key.namespace)
            and self._index.policies.of(consumer).opted_in
        ]
        statuses = {}
        for key in keys:
            await share_loop()
            if (known := self._index.consumers[key.kind].get(key)) is not None:
                statuses[key] = request.confirmed(leader.consumer_states.get(known))
        totals = counts_document(
            (status.state.value, status.behind) for status in statuses.values()
        )
        selected = sorted(
            (
                key
                for key, status in statuses.items()
                if (not query.states or status.state.value in query.states)
                and _continue_token(key) > query.token
            ),
            key=_continue_token,  # keys are in another order: of namespaces `a` and `a-b`
        )
        page = selected[: query.limit]
        documents = []
        for key in page:
            if (consumer := self._index.consumer(key)) is not None:
                document = self._summary_document(consumer, statuses[key])
                if query.sources:
                    await share_loop()
                    followed = leader.observer.followed_sources(consumer)
                    document["sources"] = [source_name_document(source) for source in followed]
                documents.append(document)
        more = {"continue": _continue_token(page[-1])} if len(selected) > len(page) else {}
        return {**totals, "workloads": documents, **more}

    async def _previews(self, request: StatusRequest, edit: Edit) -> dict[str, Any]:
        """Make a page of the workloads that use a source, with what an edit of it would do."""
        query, leader = request.query, request.leader
        previews = EditPreviews(index=self._index, observer=leader.observer)

        def among(key: ObjectKey) -> bool:
            return request.shows(key.namespace) and _continue_token(key) > query.token

        users = await previews.users_of(edit.source, among=among, limit=query.limit + 1)
        page = users[: query.limit]
        more = {"continue": _continue_token(page[-1])} if len(users) > len(page) else {}
        return {
            **counts_document(()),
            "maxConcurrentRollouts": leader.rollout_limit(edit.source),
            "workloads": await previews.documents(edit, page),
            **more,
        }

    def _consumers_of(self, query: StatusQuery) -> Iterable[Consumer]:
        """List the consumers that may be shown: of a source, those that follow it."""
        if query.source is None:
            return self._index.all_consumers(query.namespace or None)
        followers = self._index.followers_of(query.source)
        return (consumer for consumer in followers if not consumer.owned)

    def _summary_document(self, consumer: Consumer, status: ConsumerStatus) -> dict[str, Any]:
        kind, namespace, name = consumer.key
        policy = self._index.policies.of(consumer)
        latest = self._decision_log.latest(consumer.key)
        return {
            "kind": kind,
            "namespace": namespace,
            "name": name,
            "state": status.state.value,
            "reason": self._reason(consumer.key, status, policy),
            "actionRequired": status.action_required,
            "behind": status.behind,
            "podCount": consumer.pods,
            "strategy": policy.strategy.value,
            "policy": printable(policy.origin),
            "revision": printable(consumer.revision, LONGEST_REVISION),
            "decidedAt": round(latest.at, 3) if latest else None,
        }

    def _reason(self, key: ObjectKey, status: ConsumerStatus, policy: Policy) -> str:
        """Return the reason of a status, with an invalid annotation and sources not covered."""
        parts = [status.reason, *(printable(each.message) for each in policy.problems[:1])]
        unfollowed = self._decision_log.unfollowed_sources(key)
        if unfollowed and status.is_reached:
            parts.append(f"not followed: {join_names([str(source) for source in unfollowed])}")
        return "; ".join(parts)

    def _unfollowed_document(self, consumer: Consumer) -> dict[str, Any]:
        """Describe why a workload is not followed."""
        origin = self._index.policies.of(consumer).origin
        status = ConsumerStatus(State.UNVERIFIED, printable(origin))
        return {**self._summary_document(consumer, status), "state": "unfollowed"}

    # -- one consumer --------------------------------------------------------------------------

    async def _details(self, request: StatusRequest) -> dict[str, Any]:
        """Show the consumers of a name, one for each kind."""
        documents = [
            await self._detail_document(consumer, request)
            for consumer in self._find_consumers(request.query.workload)
            if request.shows(consumer.key.namespace)
        ]
        totals = counts_document((document["state"], document["behind"]) for document in documents)
        return {**totals, "workloads": documents}

    def _find_consumers(self, text: str) -> list[Consumer]:
        """Find the workloads that `[KIND/]NAMESPACE/NAME` names, followed or not."""
        kind, namespace, name = split_name(text)
        found = (
            self._index.consumer(ObjectKey(known, namespace, name))
            for known in self._index.consumers
            if kind.lower() in ("", known.lower())
        )
        return [
            item for item in found if item is not None and not item.owned and text.count("/") < 3
        ]

    async def _detail_document(self, consumer: Consumer, request: StatusRequest) -> dict[str, Any]:
        """Show one consumer with its sources, its pods and the decisions on it; one LIST."""
        leader = request.leader
        snapshot = leader.observer.snapshot(consumer.key)
        if snapshot is None or not snapshot.policy.opted_in:
            return self._unfollowed_document(consumer)
        result: PodCheckResult | HotmapError
        try:
            async with self._slots.use(consumer.key.namespace):
                result = await leader.pod_checker.check_now(snapshot)
        except (ApiError, ResponseTooLarge, Unreachable) as error:
            result = error
        status = leader.consumer_states.get(consumer)
        in_progress = status.state is State.WAITING and status == rollout_status(consumer)
        if not isinstance(result, HotmapError) and (status.is_reached or in_progress):
            # What was just found: the kind of proof, that it is not so any more, or the pods that a
            # rollout waits for.
            status = result.status
        status = request.confirmed(status)
        decisions = reversed(self._decision_log.decisions_on(consumer.key))
        return {
            **self._summary_document(consumer, status),
            "applied": snapshot.recorded_content or None,
            "sources": [source_document(source) for source in snapshot.sources],
            "unfollowed": [
                {"kind": source.kind, "name": source.name}
                for source in snapshot.unfollowed
                if source not in {item.source for item in snapshot.sources}
            ],
            **pods_document(result),
            "decision": decision_document(decide(snapshot)),
            **({"snapshot": snapshot_document(snapshot)} if request.query.snapshot else {}),
            "decisions": [decision_entry_document(entry) for entry in decisions],
        }


def _continue_token(key: ObjectKey) -> str:
    """Encode the position of a consumer in the order of the pages."""
    return "/".join(key)
