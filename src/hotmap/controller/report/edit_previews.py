"""What an edit of a source would do to each workload that uses it, for /v1/status."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hotmap.controller.watch.index import Index
from hotmap.controller.watch.observation import Observer
from hotmap.core.decide.preview import Edit, preview_edit
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.source import binary_keys
from hotmap.core.policy.policy import Policy
from hotmap.core.text import printable
from hotmap.kube.loop_slices import share_loop

__all__ = ["EditPreviews"]

_UNMATCHED = "its name patterns are not matched yet"


class EditPreviews:
    """Previews of edits, from what the controller knows now; no request is sent."""

    def __init__(self, *, index: Index, observer: Observer) -> None:
        self._index = index
        self._observer = observer

    async def users_of(
        self, source: ObjectKey, *, among: Callable[[ObjectKey], bool], limit: int
    ) -> list[ObjectKey]:
        """List the first workloads that use or follow a source, in the order of their names.

        `among` selects some of all first: of thousands, the uses are unpacked in slices.
        """
        found = []
        for key in sorted(filter(among, self._index.candidates_for(source))):
            await share_loop()
            consumer = self._index.consumer(key)
            if (
                consumer is not None
                and not consumer.owned
                and self._index.uses_or_follows(consumer, source)
            ):
                found.append(key)
                if len(found) == limit:
                    break
        return found

    async def documents(self, edit: Edit, keys: Iterable[ObjectKey]) -> list[dict[str, Any]]:
        """Describe what an edit would do to workloads, in slices of the event loop."""
        found = self._index.sources[edit.source.kind].get(edit.source)
        edit = edit._replace(binary=frozenset(binary_keys(found)) if found else frozenset())
        documents = []
        for key in keys:
            await share_loop()
            if (consumer := self._index.consumer(key)) is not None:
                documents.append(self._document(edit, consumer))
        return documents

    def _document(self, edit: Edit, consumer: Consumer) -> dict[str, Any]:
        kind, namespace, name = consumer.key
        head = {"kind": kind, "namespace": namespace, "name": name}
        policy = self._index.policies.of(consumer)
        snapshot = self._observer.snapshot(consumer.key) if policy.opted_in else None
        if snapshot is None or not _follows(snapshot, edit.source):
            reason = printable(
                f"not followed: {self._why_unfollowed(policy, snapshot, edit.source)}"
            )
            return {**head, "followed": False, "actions": [], "held": False, "reason": reason}
        plan = preview_edit(snapshot, edit).plan
        return {
            **head,
            "followed": True,
            "actions": [action.type.value for action in plan.actions],
            "verdict": plan.verdict.value,
            "held": plan.warning,
            "reason": printable(plan.reason),
        }

    def _why_unfollowed(self, policy: Policy, snapshot: Snapshot | None, source: ObjectKey) -> str:
        if not policy.opted_in:
            return policy.origin
        if snapshot is None:
            return _UNMATCHED
        return self._index.why_unfollowed(snapshot.policy, source)


def _follows(snapshot: Snapshot, source: ObjectKey) -> bool:
    followed = {item.source for item in snapshot.sources}.difference(snapshot.unfollowed)
    return source in followed
