"""Names of a consumer's content: revisions of its pod template, and targets of its pods' nudges.

Each has a form for the current content and one for the last applied content. Equal content has to
give equal names, so both forms are made by the same function.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

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


class _Content(NamedTuple):
    """What a consumer uses of one source: now, or as it was last applied."""

    source: ObjectKey
    #: Fingerprints over what is in frozen and in live use; "" without such a use.
    frozen: str
    live: str


def _current(snapshots: Iterable[SourceSnapshot]) -> list[_Content]:
    return [_Content(current.source, current.frozen, current.live) for current in snapshots]


def _applied(record: Record, namespace: str) -> list[_Content]:
    return [
        _Content(ObjectKey(source.kind, namespace, source.name), source.frozen, source.live)
        for source in record.sources
    ]


# -- revisions -------------------------------------------------------------------------------------


def revision_of(
    snapshots: Sequence[SourceSnapshot], key: FingerprintKey, *, uid: str, live_needs_rollout: bool
) -> str:
    """Return the revision of a consumer's desired content: `<key id>.<fingerprint>`.

    Equal content gives the same revision, so a revert returns to the earlier ReplicaSet. Content in
    live use counts only if a live change needs a rollout (`live_needs_rollout`).
    """
    return _revision(_current(snapshots), key, uid=uid, live_needs_rollout=live_needs_rollout)


def recorded_revision(
    record: Record, key: FingerprintKey, *, namespace: str, uid: str, live_needs_rollout: bool
) -> str:
    """Return the revision of the last applied content, as `revision_of` does of the current one."""
    applied = _applied(record, namespace)
    return _revision(applied, key, uid=uid, live_needs_rollout=live_needs_rollout)


def _revision(
    contents: Iterable[_Content], key: FingerprintKey, *, uid: str, live_needs_rollout: bool
) -> str:
    parts = [
        f"{content.source}|{content.frozen}|{content.live if live_needs_rollout else ''}"
        for content in contents
        if content.frozen or live_needs_rollout
    ]
    return f"{key.id}.{combine(key, parts, uid=uid)}"


def content_of(revision: str) -> str:
    """Remove the number from `<key id>.<fingerprint>[.<n>]`: equal texts mean equal content."""
    return ".".join(revision.split(".")[:2])


def is_all_frozen(sources: Iterable[SourceSnapshot | SourceRecord]) -> bool:
    """Return whether nothing is in live use, so that live changes make no difference."""
    return all(source.frozen and not source.live for source in sources)


# -- short names, for the flap breaker -------------------------------------------------------------


def name_content(snapshots: Sequence[SourceSnapshot], *, live_needs_rollout: bool) -> str:
    """Name the content that new pods would have.

    Independent of the consumer's uid, since a recreated Job has a new one.
    """
    return _name(_current(snapshots), live_needs_rollout=live_needs_rollout)


def name_recorded_content(record: Record, *, live_needs_rollout: bool) -> str:
    """Name the last applied content, as `name_content` names the current one."""
    applied = sorted(_applied(record, record.namespace), key=lambda each: each.source)
    return _name(applied, live_needs_rollout=live_needs_rollout)


def _name(contents: Iterable[_Content], *, live_needs_rollout: bool) -> str:
    return digest(
        f"{content.source.kind}/{content.source.name}|{content.frozen}|"
        f"{content.live if live_needs_rollout else ''}"
        for content in contents
    )[:_CONTENT_NAME]


# -- targets of nudges -----------------------------------------------------------------------------


def desired_target(snapshots: Sequence[SourceSnapshot], key: FingerprintKey, *, uid: str) -> Target:
    """Build the target of the current content of one consumer; sequence 0."""
    return _target(_current(filter(_is_announced, snapshots)), key, uid)


def recorded_target(
    record: Record | None, snapshots: Sequence[SourceSnapshot], key: FingerprintKey, *, uid: str
) -> Target | None:
    """Build the target of the last applied content of the used sources; None: unknown."""
    known = records_by_source(record)
    applied = []
    for current in filter(_is_announced, snapshots):
        recorded = known.get(current.source.kind_and_name)
        if recorded is None or recorded.uses != current.digest:
            return None
        applied.append(_Content(current.source, recorded.frozen, recorded.live))
    return _target(applied, key, uid)


def _is_announced(current: SourceSnapshot) -> bool:
    """Return whether agents act on a source: their kubelet does not write what a driver mounts."""
    return current.source.kind != PROVIDER_CLASS


def _target(contents: Sequence[_Content], key: FingerprintKey, uid: str) -> Target:
    live = [(str(content.source), content.live) for content in contents if content.live]
    frozen = [(str(content.source), content.frozen) for content in contents if content.frozen]
    return Target(0, _combined(live, key, uid), _combined(frozen, key, uid))


def _combined(parts: Sequence[tuple[str, str]], key: FingerprintKey, uid: str) -> str:
    return combine(key, chain.from_iterable(parts), uid=uid) if parts else "-"
