"""The content that the pods of a consumer should have now, as far as it decides what they show."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import inf
from typing import NamedTuple

from hotmap.core.decide.evidence import latest_time
from hotmap.core.decide.immutable_rules import may_be_pinned, serves_another
from hotmap.core.decide.revisions import content_of
from hotmap.core.decide.snapshot import Snapshot
from hotmap.core.decide.source_rules import has_mounts
from hotmap.core.decide.source_snapshot import SourceSnapshot
from hotmap.core.model.config_volumes import VolumeDigest
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.provider_class import ClassMounts
from hotmap.core.model.references import UseKind
from hotmap.core.model.state import SourceRecord
from hotmap.core.resource_version import version_number
from hotmap.core.target import Target

__all__ = [
    "DesiredClass",
    "DesiredContent",
    "StartChange",
    "desired_content",
    "has_current_template",
    "with_volume_digests",
    "without_times",
]


class DesiredClass(NamedTuple):
    """A SecretProviderClass that the pods of a consumer mount."""

    source: ObjectKey
    mounts: ClassMounts
    #: Whether the application re-reads its files.
    is_reread: bool


class StartChange(NamedTuple):
    """The last change of what containers read at their start from some sources.

    Times are as in DesiredContent.
    """

    at: float | None
    #: Whether it replaced content that a pod may have that started within the same second, and
    #: after when that happened, as observed; -inf: never.
    edited: bool = False
    edited_since: float = -inf
    #: The last change of what they read from files of a volume (subPath).
    sub_path_at: float | None = -inf
    #: Whether agents restart each container that has read any of it.
    in_place: bool = False
    #: Whether it was not observed, so that there may have been other content just before it.
    estimated: bool = False
    #: Whether it was created then, and containers waited for it.
    awaited: bool = False

    def without_times(self) -> StartChange:
        """Leave open when it was, so that no time is evidence."""
        return self._replace(at=None, sub_path_at=_unless_unused(self.sub_path_at))


class DesiredContent(NamedTuple):
    """The content that the pods of one consumer should have.

    Times are POSIX seconds of the API server: -inf where nothing is read in that way, None where
    the time of the last change is not known.
    """

    #: Names all content that is in use.
    revision: str
    #: The revision that a rollout writes into the template, and the target that a nudge writes.
    template: str
    target: Target
    #: When a rollout of ours wrote that into the template, POSIX seconds; 0: it is not known.
    applied_at: float
    #: The revision in the template, and before when pods with it have the content although that has
    #: been replaced since, and is back; 0: unknown.
    written: str
    replaced_at: float
    #: The time of our last rollout, whatever its reason, in POSIX seconds (0: unknown), and the
    #: revision that it wrote.
    rolled_at: float
    rolled_revision: str
    #: Last change of each source that is read at container start, and of what is mounted as files.
    start_changes: tuple[tuple[ObjectKey, StartChange], ...]
    files_changed: float | None
    #: By when the last change of these files had happened.
    files_changed_until: float | None
    #: Whether files are mounted at all, also files whose source does not exist.
    has_files: bool
    #: Whether nothing in the pods re-reads files, so that they too are read at start.
    files_read_at_start: bool
    #: Whether these times are from the sources' metadata and the changes were not observed: the
    #: removal of a data key updates no time there.
    estimated: bool = False
    #: The newest resourceVersion with which such a source was adopted; 0: none.
    adopted_version: int = 0
    #: Until when containers have started of pods that were found to be older; -inf: there are none.
    older_starts_until: float = -inf
    #: Whether the last change replaced content that a pod may have that started within the same
    #: second.
    edited: bool = False
    #: After when files that pods read at their start were last replaced, as observed; -inf: never.
    files_edited_since: float = -inf
    #: When the last source of files was created for which containers waited (-inf: there is none),
    #: and the last change of all other files.
    files_awaited: float = -inf
    files_not_awaited: float | None = -inf
    #: Pods that were created in or after this second have the content; 0: nothing is known.
    proven_since: float = 0.0
    #: Last change of each source in live use.
    live_changes: tuple[tuple[ObjectKey, float | None], ...] = ()
    #: Those of them whose last change replaced content that a pod of its own second may hold.
    live_edited: frozenset[ObjectKey] = frozenset()
    #: Digests of the volumes of ConfigMaps, as far as known; and the last change of what is in live
    #: use and in none of these volumes.
    volume_digests: tuple[VolumeDigest, ...] = ()
    order_changed: float | None = -inf
    #: Whether a pod has to be Ready to count.
    require_ready: bool = True
    #: Whether the application re-reads files, and within how many seconds; 0: that is not said.
    rereads: bool = False
    rereads_within: float = 0.0
    #: The SecretProviderClasses that pods mount.
    classes: tuple[DesiredClass, ...] = ()
    #: The immutable sources whose creation was not observed, and when they were created.
    immutable: tuple[tuple[ObjectKey, float], ...] = ()
    #: A source that hotmap may not read, or cannot.
    unseen: ObjectKey | None = None
    #: A source in place of which kubelets may serve an immutable one with other content.
    pinned: ObjectKey | None = None

    def start_changes_of(self, read: Collection[ObjectKey]) -> tuple[StartChange, ...]:
        """Merge the changes of some sources: of those that agents restart for, and of the others.

        Of each, those that containers waited for are separate, so at most four remain.
        """
        changes = [change for source, change in self.start_changes if source in read]
        parts = (
            [each for each in changes if (each.in_place, each.awaited) == (in_place, awaited)]
            for in_place in (True, False)
            for awaited in (True, False)
        )
        return tuple(
            StartChange(
                latest_time(each.at for each in part),
                any(each.edited for each in part),
                max(each.edited_since for each in part),
                latest_time(each.sub_path_at for each in part),
                part[0].in_place,
                any(each.estimated for each in part),
                part[0].awaited,
            )
            for part in parts
            if part
        )


def desired_content(snapshot: Snapshot) -> DesiredContent:
    """Describe the content that the pods of a consumer should have now."""
    # What pods have mounted of a class is reported for each of them, and no time says more.
    classes = [item for item in snapshot.sources if has_mounts(item)]
    sources = [
        item
        for item in snapshot.sources
        if item not in classes and item.source not in snapshot.unfollowed
    ]
    gone = _gone_sources(snapshot)
    known = [gone.get(item.source, item) for item in sources if _may_be_read(item, gone)]
    files = [source for source in known if source.live]
    read = known if snapshot.live_needs_rollout else [item.at_start for item in known]
    awaited, adopted = _awaited_sources(snapshot), _adopted_sources(snapshot)
    undated = _undated_sources(snapshot)
    times = snapshot.record.rollouts.times if snapshot.record else ()
    rolled_at = times[-1] if times else 0.0
    return DesiredContent(
        revision=snapshot.content,
        template=snapshot.revision,
        applied_at=snapshot.applied_at,
        written=snapshot.consumer.revision,
        replaced_at=_replaced_at(snapshot),
        rolled_at=rolled_at,
        rolled_revision=content_of(snapshot.record.revision) if snapshot.record else "",
        target=snapshot.target,
        start_changes=tuple(
            (source.source, _start_change(source, snapshot, awaited, adopted))
            for source in read
            if source.frozen
        ),
        files_changed=_last_change(files),
        files_changed_until=latest_time(each.changed_until for each in files),
        has_files=any(source.live for source in sources),
        files_read_at_start=snapshot.live_needs_rollout,
        estimated=any(source.estimated for source in (*known, *read)),
        adopted_version=max((version_number(each.adopted) for each in undated), default=0),
        older_starts_until=max((each.older_starts_until or -inf for each in undated), default=-inf),
        edited=any(source.edited or source.modified for source in known),
        files_edited_since=max((_edited_since(each, adopted) for each in files), default=-inf),
        files_awaited=max(
            (each.changed_at or -inf for each in files if each.source in awaited), default=-inf
        ),
        files_not_awaited=_last_change([each for each in files if each.source not in awaited]),
        proven_since=_proven_since(snapshot),
        live_changes=tuple((each.source, each.changed_at) for each in files),
        live_edited=frozenset(each.source for each in files if each.edited or each.modified),
        order_changed=_last_change(files),
        require_ready=snapshot.policy.require_ready,
        rereads=snapshot.policy.rereads,
        rereads_within=snapshot.policy.rereads_within,
        classes=tuple(_desired_class(item) for item in classes),
        immutable=_unobserved_immutable(snapshot),
        unseen=next((item.source for item in known if _is_unseen(item)), None),
        pinned=_pinned_source(snapshot),
    )


def _undated_sources(snapshot: Snapshot) -> list[SourceRecord]:
    """List the records of sources that were adopted and whose last change is estimated."""
    return [
        recorded
        for source, recorded in snapshot.recorded_sources()
        if source.estimated and recorded.adopted
    ]


def _unobserved_immutable(snapshot: Snapshot) -> tuple[tuple[ObjectKey, float], ...]:
    """List the immutable sources whose creation was not observed, and when they were created."""
    return tuple(
        (source.source, source.created_at)
        for source in snapshot.sources
        if source.created_at is not None
        and (source.changes.latest is None or source.changes.latest < source.created_at)
    )


def _pinned_source(snapshot: Snapshot) -> ObjectKey | None:
    """Find a source in place of which kubelets may serve an immutable one with other content.

    Also one that is optional and was deleted: pods beside old ones start with what it had.
    """
    for source, recorded in snapshot.recorded_sources():
        if source.exists:
            is_served = serves_another(recorded, source)
        else:
            is_served = not source.required and may_be_pinned(recorded, source)
        if is_served:
            return source.source
    return None


def _may_be_read(source: SourceSnapshot, gone: Mapping[ObjectKey, SourceSnapshot]) -> bool:
    """Return whether pods may have content of a source, now or from before.

    Pods may have the content of a required source that was deleted, and of a source that cannot be
    read. They have none of an optional source that is not known to have existed.
    """
    return source.exists or source.required or _is_unseen(source) or source.source in gone


def _is_unseen(source: SourceSnapshot) -> bool:
    return source.unreadable or not source.visible


def _gone_sources(snapshot: Snapshot) -> dict[ObjectKey, SourceSnapshot]:
    """Return the optional sources that existed and were deleted.

    Containers keep what they read of one, so its deletion is a change like any other, at the time
    at which it was observed. A consumer may have begun to use it just before, so that no record
    has it.
    """
    return {
        source.source: source._replace(changed_at=source.changes.latest, edited=True)
        for source, recorded in snapshot.recorded_sources()
        if not source.exists
        and not source.required
        and (recorded.uid or source.changes.latest is not None)
    }


def _start_change(
    source: SourceSnapshot,
    snapshot: Snapshot,
    awaited: frozenset[ObjectKey],
    adopted: frozenset[ObjectKey],
) -> StartChange:
    policy, in_place = snapshot.policy, False
    if policy.agent is not None and policy.agent_restarts:
        followed = (use for item in snapshot.sources for use in item.uses)
        applications = snapshot.consumer.applications
        in_place = policy.agent.restarts_all(source.uses, followed, applications)
    return StartChange(
        source.changed_at,
        source.edited or source.modified,
        _edited_since(source, adopted),
        source.changed_at if _has_sub_path(source) else -inf,
        in_place,
        source.estimated,
        source.source in awaited,
    )


def _awaited_sources(snapshot: Snapshot) -> frozenset[ObjectKey]:
    """Return the sources whose last change was their creation, and that containers require.

    None of them has started without it, whenever its pod was created. A source that was adopted as
    it was may have been recreated.
    """
    return frozenset(
        source.source
        for source, recorded in snapshot.recorded_sources()
        if source.exists
        and source.uid == recorded.uid
        and not (recorded.adopted or recorded.edited or recorded.pinned)
        and not (source.edited or source.modified or source.estimated)
        and not any(use.optional for use in source.uses)
    )


def _desired_class(source: SourceSnapshot) -> DesiredClass:
    assert source.mounts is not None, "of a class"
    return DesiredClass(source.source, source.mounts, is_reread=not source.frozen)


def _proven_since(snapshot: Snapshot) -> float:
    """Return `proven_since` of the record if the content is still the recorded one, else 0."""
    record = snapshot.record
    if record is None or snapshot.content != snapshot.recorded_content:
        return 0.0
    return record.proven_since


def _replaced_at(snapshot: Snapshot) -> float:
    """Return `replaced_at` of the record if content and template are as recorded, else 0."""
    record = snapshot.record
    if record is None or snapshot.content != snapshot.recorded_content:
        return 0.0
    return record.replaced_at if snapshot.consumer.revision == record.revision else 0.0


def _adopted_sources(snapshot: Snapshot) -> frozenset[ObjectKey]:
    """Return the sources that were adopted as they were, and have not changed since."""
    return frozenset(
        source.source for source, recorded in snapshot.recorded_sources() if recorded.adopted
    )


def _edited_since(source: SourceSnapshot, adopted: frozenset[ObjectKey]) -> float:
    """Return after when a source was last edited; -inf: never, or that is not known.

    One that was adopted may have been recreated: nothing tells what pods from before have read,
    even if their template names the content, as after the state was lost.
    """
    may_be_edited = source.edited or source.source in adopted
    since = source.changed_since if may_be_edited else None
    return -inf if since is None else since


def _has_sub_path(source: SourceSnapshot) -> bool:
    return any(use.kind is UseKind.FROZEN and use.reads_files for use in source.uses)


def with_volume_digests(
    desired: DesiredContent, consumer: Consumer, digests: Sequence[VolumeDigest]
) -> DesiredContent:
    """Add the digests of volumes, by which agents compare exactly; others they know by order."""
    names = {each.volume for each in digests}
    digested = {
        key
        for volume in consumer.config_volumes
        if volume.name in names
        for key in volume.sources()
    }
    return desired._replace(
        target=desired.target._replace(payloads=tuple(each.digest for each in digests)),
        volume_digests=tuple(digests),
        order_changed=latest_time(at for key, at in desired.live_changes if key not in digested),
    )


def has_current_template(snapshot: Snapshot) -> bool:
    """Return whether all of a consumer's pods are of a template written for the current content.

    Our write of it was at or after the last change, by the API server's clock, and its own
    controller reports that no pod of another template is left.
    """
    consumer = snapshot.consumer
    written = consumer.written_at
    if written is None or consumer.rolling or consumer.behind:
        return False
    gone = _gone_sources(snapshot)
    found = [
        gone.get(source.source, source) for source in snapshot.sources if _may_be_read(source, gone)
    ]
    in_place = not snapshot.live_needs_rollout
    times = [(source.at_start if in_place else source).changed_at for source in found]
    return all(at is not None and written >= at for at in times)


def without_times(desired: DesiredContent) -> DesiredContent:
    """Leave open when sources changed, so that no time is evidence."""
    return desired._replace(
        start_changes=tuple(
            (source, change.without_times()) for source, change in desired.start_changes
        ),
        files_changed=_unless_unused(desired.files_changed),
        files_changed_until=_unless_unused(desired.files_changed_until),
        order_changed=_unless_unused(desired.order_changed),
        live_changes=tuple((source, None) for source, _ in desired.live_changes),
    )


def _unless_unused(at: float | None) -> float | None:
    return at if at == -inf else None


def _last_change(sources: Sequence[SourceSnapshot]) -> float | None:
    return latest_time(source.changed_at for source in sources)
