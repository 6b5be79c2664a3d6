"""Names of a consumer's content: revisions of its pod template, and targets of its pods' nudges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from hotmap.core.decide.source_snapshot import SourceSnapshot
from hotmap.core.fingerprint import FingerprintKey, combine, digest
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.provider_class import PROVIDER_CLASS
from hotmap.core.model.state import Record, SourceRecord, records_by_source
from hotmap.core.target import Target

__all__ = [
    "content_of",
    "desired_target",
    "is_all_frozen",
    "name_content",
    "name_recorded_content",
    "recorded_revision",
    "recorded_target",
    "revision_of",
]

#: Characters of a name that is compared with the names of a few other contents only.
_CONTENT_NAME = 6


def revision_of(
    snapshots: Sequence[SourceSnapshot], key: FingerprintKey, *, uid: str, live_needs_rollout: bool
) -> str:
    """Return the revision of a consumer's desired content: `<key id>.<fingerprint>`.

    Equal content gives the same revision, so a revert returns to the earlier ReplicaSet. Content in
    live use counts only if a live change needs a rollout (`live_needs_rollout`).
    """
    parts = [
        f"{current.source}|{current.frozen}|{current.live if live_needs_rollout else ''}"
        for current in snapshots
        if current.frozen or live_needs_rollout
    ]
    return f"{key.id}.{combine(key, parts, uid=uid)}"


def is_all_frozen(sources: Iterable[SourceSnapshot | SourceRecord]) -> bool:
    """Return whether nothing is in live use, so that live changes make no difference."""
    return all(source.frozen and not source.live for source in sources)


def recorded_revision(
    record: Record, key: FingerprintKey, *, namespace: str, uid: str, live_needs_rollout: bool
) -> str:
    """Return the revision of the last applied content, as `revision_of` does of the current one."""
    parts = [
        f"{ObjectKey(source.kind, namespace, source.name)}|{source.frozen}|"
        f"{source.live if live_needs_rollout else ''}"
        for source in record.sources
        if source.frozen or live_needs_rollout
    ]
    return f"{key.id}.{combine(key, parts, uid=uid)}"


def name_content(snapshots: Sequence[SourceSnapshot], *, live_needs_rollout: bool) -> str:
    """Name the content that new pods would have.

    Independent of the consumer's uid, since a recreated Job has a new one.
    """
    return digest(
        f"{current.source.kind}/{current.source.name}|{current.frozen}|"
        f"{current.live if live_needs_rollout else ''}"
        for current in snapshots
    )[:_CONTENT_NAME]


def name_recorded_content(record: Record, *, live_needs_rollout: bool) -> str:
    """Name the last applied content, as `name_content` names the current one."""
    sources = sorted(record.sources, key=lambda source: (source.kind, source.name))
    return digest(
        f"{source.kind}/{source.name}|{source.frozen}|{source.live if live_needs_rollout else ''}"
        for source in sources
    )[:_CONTENT_NAME]


def content_of(revision: str) -> str:
    """Remove the number from `<key id>.<fingerprint>[.<n>]`: equal texts mean equal content."""
    return ".".join(revision.split(".")[:2])


def desired_target(snapshots: Sequence[SourceSnapshot], key: FingerprintKey, *, uid: str) -> Target:
    """Build the target of the current content of one consumer; sequence 0."""
    announced = [p for p in snapshots if _is_announced(p)]
    live = [(str(p.source), p.live) for p in announced if p.live]
    frozen = [(str(p.source), p.frozen) for p in announced if p.frozen]
    return Target(0, _combined(live, key, uid), _combined(frozen, key, uid))


def _is_announced(current: SourceSnapshot) -> bool:
    """Return whether agents act on a source: their kubelet does not write what a driver mounts."""
    return current.source.kind != PROVIDER_CLASS


def recorded_target(
    record: Record | None, snapshots: Sequence[SourceSnapshot], key: FingerprintKey, *, uid: str
) -> Target | None:
    """Build the target of the last applied content of the used sources; None: unknown."""
    known = records_by_source(record)
    live: list[tuple[str, str]] = []
    frozen: list[tuple[str, str]] = []
    for current in filter(_is_announced, snapshots):
        recorded = known.get(current.source.kind_and_name)
        if recorded is None or recorded.uses != current.digest:
            return None
        if recorded.live:
            live.append((str(current.source), recorded.live))
        if recorded.frozen:
            frozen.append((str(current.source), recorded.frozen))
    return Target(0, _combined(live, key, uid), _combined(frozen, key, uid))


def _combined(parts: Sequence[tuple[str, str]], key: FingerprintKey, uid: str) -> str:
    return combine(key, chain.from_iterable(parts), uid=uid) if parts else "-"
