"""What is present: the sources of one consumer, as it uses them, and the name of their content.

Fingerprints are made per consumer and source, over the data keys in frozen and in live use, so
that what a consumer does not use never counts as a difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from sys import intern
from typing import NamedTuple

from hotmap.core.fingerprint import FingerprintKey, combine, digest
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.references import Life, Use
from hotmap.core.model.source import Source, fingerprint_of, missing_keys
from hotmap.core.model.state import Record

__all__ = [
    "SourceSnapshot",
    "content_of",
    "recorded_revision",
    "revision_of",
    "take_snapshots",
    "uses_digest",
]


class SourceSnapshot(NamedTuple):
    """One source as a consumer uses it, now."""

    source: ObjectKey
    uses: tuple[Use, ...]
    exists: bool
    uid: str
    resource_version: str
    immutable: bool
    changed_at: float | None
    #: Digest of the uses.
    digest: str
    #: Fingerprints over what is in frozen and in live use; "" without such a use.
    frozen: str
    live: str
    #: Whether some use insists on the source.
    required: bool
    #: Data keys that some use insists on and that are not there.
    missing: tuple[str, ...]
    #: What templates are marked with for this content, in Reloader's way of writing.
    stamp: str = ""


def take_snapshots(
    uses: Sequence[Use], sources: Mapping[ObjectKey, Source], key: FingerprintKey
) -> tuple[SourceSnapshot, ...]:
    """Group uses by source and fingerprint what they select, sorted by source.

    Credentials and foreign content are left out: no process takes them from a source.
    """
    grouped: dict[ObjectKey, list[Use]] = {}
    for use in uses:
        if use.life in (Life.FROZEN, Life.LIVE):
            grouped.setdefault(use.source, []).append(use)
    return tuple(
        _present(name, tuple(grouped[name]), sources.get(name), key) for name in sorted(grouped)
    )


def _present(
    name: ObjectKey, uses: tuple[Use, ...], source: Source | None, key: FingerprintKey
) -> SourceSnapshot:
    frozen = [use.keys for use in uses if use.life is Life.FROZEN]
    live = [use.keys for use in uses if use.life is Life.LIVE]
    missing: set[str] = set()
    if source is not None:
        for use in uses:
            if not use.optional:
                missing.update(missing_keys(source, use.keys))
    return SourceSnapshot(
        source=source.key if source else name,  # the one that is kept anyway
        uses=uses,
        exists=source is not None,
        uid=source.uid if source else "",
        resource_version=source.resource_version if source else "",
        immutable=bool(source and source.immutable),
        changed_at=source.changed_at if source else None,
        digest=uses_digest(uses),
        frozen=fingerprint_of(source, frozen, key) if frozen else "",
        live=fingerprint_of(source, live, key) if live else "",
        required=any(not use.optional for use in uses),
        missing=tuple(sorted(missing)),
        stamp=source.stamp if source else "",
    )


def uses_digest(uses: Sequence[Use]) -> str:
    """Digest how a source is used: lives and data keys, not the places.

    A container that is renamed or a mount that moves uses the same content in the same way.
    """
    parts = set()
    for use in uses:
        names = "*" if use.keys.names is None else ",".join(sorted(use.keys.names))
        hidden = ",".join(sorted(use.keys.hidden))
        parts.add(f"{use.life.value}|{names}|{hidden}|{use.keys.binary}|{use.optional}")
    return intern(digest(sorted(parts)))  # kept of every consumer and source, and mostly the same


def revision_of(
    snapshots: Sequence[SourceSnapshot], key: FingerprintKey, *, uid: str, live_rolls: bool
) -> str:
    """Name the content that a consumer's pods are to run with: `<key id>.<fingerprint>`.

    The same content gives the same name, so a revert returns to the earlier ReplicaSet. What is
    in live use counts only where a live change rolls too (`live_rolls`).
    """
    parts = [
        f"{present.source}|{present.frozen}|{present.live if live_rolls else ''}"
        for present in snapshots
        if present.frozen or live_rolls
    ]
    return f"{key.id}.{combine(key, parts, uid=uid)}"


def recorded_revision(
    record: Record, key: FingerprintKey, *, namespace: str, uid: str, live_rolls: bool
) -> str:
    """Name the content that was last asked for, as `revision_of` names what is present."""
    parts = [
        f"{ObjectKey(one.kind, namespace, one.name)}|{one.frozen}|{one.live if live_rolls else ''}"
        for one in record.sources
        if one.frozen or live_rolls
    ]
    return f"{key.id}.{combine(key, parts, uid=uid)}"


def content_of(revision: str) -> str:
    """Take the number off `<key id>.<fingerprint>[.<n>]`: equal texts mean equal content."""
    return ".".join(revision.split(".")[:2])
