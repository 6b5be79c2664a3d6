"""The snapshot of one source, as one consumer uses it.

Fingerprints are made over the data keys in frozen and in live use, so that unused data keys never
count as a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from sys import intern
from typing import NamedTuple

from hotmap.core.fingerprint import FingerprintKey, digest
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.provider_class import ClassMounts
from hotmap.core.model.references import EVERY_KEY, Keys, Use, UseKind, merge_keys
from hotmap.core.model.source import (
    Source,
    count_data_keys,
    fingerprint_of,
    missing_keys,
    text_keys,
)
from hotmap.core.model.state import Record, Window, records_by_source

__all__ = [
    "ChangeSummary",
    "SourceSnapshot",
    "StartBound",
    "mark_uncovered",
    "take_snapshots",
    "uses_digest",
    "without_replaced",
]

#: Data keys of all sources that are compared to leave out some, such as those that a later envFrom
#: of the same environment replaces; of one consumer.
_COMPARED_AT_MOST = 10_000


class ChangeSummary(NamedTuple):
    """What is known of one source's changes since the last applied version."""

    #: The data keys that changed.
    keys: frozenset[str] = frozenset()
    #: When a data key that the consumer uses first and last changed, POSIX seconds of the API
    #: server; None: not observed.
    first: float | None = None
    last: float | None = None
    #: The time in which the source had content other than the recorded and the current one, if any.
    window: Window | None = None
    #: When a data key that the consumer uses was last observed to change, regardless of the record;
    #: and by when that is known to have happened, as times in managedFields are whole seconds.
    latest: float | None = None
    latest_by: float | None = None
    #: By when it had changed, if the change was not observed; None: unknown.
    unobserved_by: float | None = None
    #: By when other content was gone that it may have had while a watch was interrupted; None:
    #: there was none.
    interrupted_by: float | None = None
    #: Whether its last observed change was not its creation.
    edited: bool = False
    #: Whether the record lacks it, and its last change was its creation, as this controller has
    #: observed: it did not merely come into sight, as by a label.
    created: bool = False


class StartBound(NamedTuple):
    """When the data keys in frozen use last changed, as in SourceSnapshot for all of them."""

    changed_at: float | None
    changed_after: float | None
    edited: bool
    estimated: bool


class SourceSnapshot(NamedTuple):
    """The current state of one source as a consumer uses it."""

    source: ObjectKey
    #: Without data keys that sources of the same environment replace now.
    uses: tuple[Use, ...]
    exists: bool
    uid: str
    resource_version: str
    immutable: bool
    changed_at: float | None
    #: Digest of the uses, whatever is replaced.
    digest: str
    #: Fingerprints over what is in frozen and in live use; "" without such a use.
    frozen: str
    live: str
    #: Whether some use requires the source.
    required: bool
    #: Required data keys that do not exist.
    missing: tuple[str, ...]
    #: The mark of this content in templates, with Reloader's strategies.
    stamp: str = ""
    #: The field manager that wrote the source last; "" if unknown.
    writer: str = ""
    #: Fingerprint over all its data keys.
    content: str = ""
    #: Whether hotmap could see it if it existed: no permission is missing, no selector hides it.
    visible: bool = True
    #: Whether `changed_at` is from managedFields and the change was not observed: the removal of a
    #: data key updates no time there.
    estimated: bool = False
    #: Whether it exists and could not be decoded; then it is not visible either.
    unreadable: bool = False
    #: The lower bound of the time of its last change; None: `changed_at` is the lower bound too.
    changed_after: float | None = None
    #: Whether its last change replaced content that pods may hold, as far as is known.
    edited: bool = False
    #: A SecretProviderClass: what pods have mounted of it.
    mounts: ClassMounts | None = None
    #: Whether an immutable source of this name was deleted since the pod template last changed.
    replaces_immutable: bool = False
    #: If it replaces an immutable source: other pods that were created before this time (POSIX
    #: seconds) make kubelets serve the replaced source, to new pods too. inf: any pod does. None:
    #: no pod does, as far as is known.
    pinned_before: float | None = None
    #: Whether pods have used a source of this name in each search since that deletion, so that the
    #: first pods of the consumer may have started beside others that have ended.
    kept_in_use: bool = False
    #: Whether all immutable sources that it is known to replace had its content.
    is_like_replaced: bool = False
    #: Whether other sources of the same environment replace some of its data keys now.
    overridden: bool = False
    #: Whether it is what the record has, and more of it is used only since a source that replaced
    #: data keys of it does not exist, or is not visible or not followed. That is not a change:
    #: running containers keep what they read of a source that was deleted.
    uncovered: bool = False
    #: When it was created, if it is immutable, POSIX seconds of the API server's clock.
    created_at: float | None = None
    #: Whether it was written after the second of its creation, if nothing else is known of its last
    #: change.
    modified: bool = False
    #: The observed changes since the version that was last applied.
    changes: ChangeSummary = ChangeSummary()
    #: The last change of the data keys in frozen use, if it differs from that of all; None: equal.
    start: StartBound | None = None

    @property
    def at_start(self) -> SourceSnapshot:
        """The source as far as it is read at the start of containers."""
        if self.start is None:
            return self
        uses = tuple(use for use in self.uses if use.kind is UseKind.FROZEN)
        return self._replace(uses=uses, modified=False, **self.start._asdict())

    @property
    def is_unknown(self) -> bool:
        """Whether it is a SecretProviderClass, and nothing shows its current versions."""
        return self.mounts is not None and not self.mounts.is_known

    @property
    def has_never_existed(self) -> bool:
        """Whether it is optional and does not exist, and nothing shows that it ever did."""
        is_absent = self.visible and not self.exists and not self.required
        return is_absent and self.changes.latest is None

    @property
    def is_mounted(self) -> bool:
        """Whether any of it is read from files of a volume, by subPath too."""
        return any(use.reads_files for use in self.uses)

    @property
    def changed_since(self) -> float | None:
        """The lower bound of the time of its last change; None: unknown."""
        return self.changed_at if self.changed_after is None else self.changed_after

    @property
    def changed_until(self) -> float | None:
        """The upper bound of the time of its last change; None: unknown."""
        at, observed = self.changed_at, self.changes.latest_by
        if at is None or at % 1:
            return at
        is_same = observed is not None and at <= observed < at + 1
        return observed if is_same else at + 1


def take_snapshots(
    uses: Iterable[Use], sources: Mapping[ObjectKey, Source], key: FingerprintKey
) -> tuple[SourceSnapshot, ...]:
    """Group uses by source and fingerprint their content, sorted by source.

    Credentials and foreign content are left out: no process takes them from a source. Only sources
    that are in `uses` replace data keys of others, since a change of what they have is noticed.
    """
    grouped: dict[ObjectKey, list[Use]] = {}
    for use in uses:
        if use.kind in (UseKind.FROZEN, UseKind.LIVE):
            grouped.setdefault(use.source, []).append(use)
    followed = {name: source for name in grouped if (source := sources.get(name)) is not None}
    most = _most_compared(use for used in grouped.values() for use in used)
    return tuple(
        _take_source_snapshot(name, tuple(grouped[name]), followed, key, most_compared=most)
        for name in sorted(grouped)
    )


def without_replaced(uses: Sequence[Use], sources: Mapping[ObjectKey, Source]) -> tuple[Use, ...]:
    """Leave out the data keys that other sources of the same environment or volume replace."""
    most = _most_compared(uses)
    return tuple(
        _without_replaced(use, source, sources, most=most)
        if (source := sources.get(use.source)) is not None
        else use
        for use in uses
    )


def _most_compared(uses: Iterable[Use]) -> int:
    return _COMPARED_AT_MOST // max(sum(map(_is_partial, uses)), 1)


def _is_partial(use: Use) -> bool:
    """Return whether a use reads all data keys but some."""
    return use.keys.names is None and (use.keys != EVERY_KEY or bool(use.overrides))


def _without_replaced(
    use: Use, source: Source, followed: Mapping[ObjectKey, Source], *, most: int
) -> Use:
    """Leave out the data keys of a use that other sources of its environment or volume replace.

    Nothing is left out if these have more than `most` data keys together with the source. One that
    has more by itself counts as used as a whole.
    """
    if not _is_partial(use):
        return use
    if count_data_keys(source) > most:
        return use._replace(keys=EVERY_KEY)
    others = [
        (override, other)
        for override in use.overrides
        if (other := followed.get(override.source)) is not None
    ]
    if not others or sum(map(count_data_keys, (source, *(o for _, o in others)))) > most:
        return use
    held = frozenset(text_keys(source))
    replaced = {
        name
        for override, other in others
        for name in held.intersection(map(override.replaces, text_keys(other)))
        if use.keys.reads(name)
    }
    if not replaced:
        return use
    return use._replace(keys=use.keys._replace(hidden=use.keys.hidden | replaced))


def mark_uncovered(
    snapshots: tuple[SourceSnapshot, ...], record: Record | None
) -> tuple[SourceSnapshot, ...]:
    """Mark the sources whose used data keys differ from the record's only by absent sources."""
    if record is None or not any(use.overrides for item in snapshots for use in item.uses):
        return snapshots
    known = records_by_source(record)
    existing = {item.source for item in snapshots if item.exists}

    def is_uncovered(current: SourceSnapshot) -> bool:
        recorded = known.get(current.source.kind_and_name)
        return (
            recorded is not None
            and current.exists
            and (recorded.uses, recorded.uid) == (current.digest, current.uid)
            and recorded.content == current.content
            and (recorded.frozen, recorded.live) != (current.frozen, current.live)
            and any(each.source not in existing for use in current.uses for each in use.overrides)
        )

    return tuple(
        item._replace(uncovered=True) if is_uncovered(item) else item for item in snapshots
    )


def _take_source_snapshot(
    name: ObjectKey,
    used: tuple[Use, ...],
    followed: Mapping[ObjectKey, Source],
    key: FingerprintKey,
    *,
    most_compared: int,
) -> SourceSnapshot:
    source = followed.get(name)
    uses = used
    if source is not None and any(map(_is_partial, used)):
        uses = tuple(_without_replaced(use, source, followed, most=most_compared) for use in used)

    def fingerprint(kind: UseKind) -> str:
        selected = [use.keys for use in uses if use.kind is kind]
        return fingerprint_of(source, selected, key) if selected else ""

    missing: set[str] = set()
    if source is not None:
        for keys in merge_keys(_required_keys(uses)):
            missing.update(missing_keys(source, keys))
    return SourceSnapshot(
        source=source.key if source else name,  # shares the existing one
        uses=uses,
        exists=source is not None,
        uid=source.uid if source else "",
        resource_version=source.resource_version if source else "",
        immutable=bool(source and source.immutable),
        changed_at=source.changed_at if source else None,
        digest=uses_digest(used),
        frozen=fingerprint(UseKind.FROZEN),
        live=fingerprint(UseKind.LIVE),
        required=any(not use.optional for use in uses),
        missing=tuple(sorted(missing)),
        stamp=source.stamp if source else "",
        writer=source.writer if source else "",
        content=fingerprint_of(source, [EVERY_KEY], key),
        overridden=uses != used,
        created_at=source.created_at if source else None,
        modified=bool(source and source.modified),
    )


def _required_keys(uses: Iterable[Use]) -> Iterator[Keys]:
    """List the data keys without which a container does not start, read or replaced."""
    for use in uses:
        if not use.optional and use.keys.names is not None:
            yield use.keys._replace(hidden=frozenset())


def uses_digest(uses: Sequence[Use]) -> str:
    """Digest how a source is used: kinds of use and data keys, not the places.

    A container that is renamed or a mount that moves uses the same content in the same way.
    """
    parts = set()
    for use in uses:
        names = "*" if use.keys.names is None else ",".join(sorted(use.keys.names))
        hidden = ",".join(sorted(use.keys.hidden))
        text = f"{use.kind.value}|{names}|{hidden}|{use.keys.binary}|{use.optional}"
        parts.add("|".join((text, *(f"{o.source}|{o.strip}|{o.add}" for o in use.overrides))))
    return intern(digest(sorted(parts)))  # kept for every consumer and source, and mostly equal
