"""The invariants at the end of every scenario with controllers, after any fault.

Judged from the cluster's objects and from a watch of the consumers that the test kept by itself;
that nothing secret was shown is for `leaks` to find. The revision that a template must
carry is computed here from the present sources and the key, with hotmap's pure core alone.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from hotmap.core.decide.revisions import revision_of
from hotmap.core.decide.source_snapshot import take_snapshots
from hotmap.core.fingerprint import FingerprintKey, fingerprint_key
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.consumer_conversion import consumer_from_workload
from hotmap.core.model.objects import ConfigMap, ObjectKey, Secret, Workload
from hotmap.core.model.source import Source, source_from_config_map, source_from_secret
from hotmap.core.model.state import HEADER, Record, read_changes, read_shard, read_watched_until
from hotmap.core.policy.annotations import read_policy
from hotmap.core.policy.policy import DEFAULTS, followed_uses, live_change_needs_rollout

__all__ = ["Rollouts", "Snapshot", "broken", "shown_by"]

Object = dict[str, Any]

_REVISION = "hotmap.dev/revision"


class Rollouts:
    """Every revision that hotmap wrote into a template, in order, as a watch showed them."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}
        self._written: dict[str, list[str]] = {}

    def note(self, consumer: Object) -> None:
        """Record a consumer as a watch event shows it."""
        name, revision = consumer["metadata"]["name"], revision_in(consumer)
        before = self._last.get(name)
        self._last[name] = revision
        if before is not None and before != revision and _is_written_by_hotmap(consumer):
            self._written.setdefault(name, []).append(revision)

    def of(self, name: str) -> list[str]:
        """List the revisions that a consumer was rolled to."""
        return self._written.get(name, [])


class Snapshot(NamedTuple):
    """The objects at the end of a scenario."""

    #: of the consumers' namespace
    config_maps: Sequence[Object]
    secrets: Sequence[Object]
    #: with apiVersion and kind
    consumers: Sequence[Object]
    #: of the controller's namespace
    own_secrets: Sequence[Object]
    #: anything else that hotmap writes or touches: Events, pods, ReplicaSets
    others: Sequence[Object]


def broken(
    snapshot: Snapshot,
    rollouts: Rollouts,
    *,
    settled: Mapping[str, int],
    left_alone: Collection[str] = (),
) -> list[str]:
    """Return which invariants do not hold, a sentence each; empty when all do.

    `settled` counts, per consumer, the settled changes of what it uses; who is not named had none.
    The template of those `left_alone` is their owner's business: they may carry any revision.
    """
    keys = read_keys(snapshot.own_secrets)
    return [
        *_stale(snapshot, keys, settled, left_alone),
        *_rolled_too_often(snapshot, rollouts, settled),
        *_unreadable(snapshot, keys),
    ]


def revision_in(consumer: Object) -> str:
    """Return the revision in a consumer's pod template, "" for none."""
    metadata = consumer["spec"]["template"].get("metadata") or {}
    return str((metadata.get("annotations") or {}).get(_REVISION, ""))


def read_keys(own_secrets: Iterable[Object]) -> tuple[FingerprintKey, ...]:
    """Return the fingerprint keys, newest first; none when their Secret is gone."""
    for secret in own_secrets:
        if secret.get("type") == "hotmap.dev/key":
            lines = b64decode(secret["data"]["keys"]).decode().split()
            return tuple(fingerprint_key(b64decode(line)) for line in lines)
    return ()


def _stale(
    snapshot: Snapshot,
    keys: Sequence[FingerprintKey],
    settled: Mapping[str, int],
    left_alone: Collection[str],
) -> Iterator[str]:
    """Every opted-in template has the revision of the current content, or never needed one."""
    if not keys:  # their Secret is gone: unknown
        return
    sources = _sources(snapshot, keys)
    for item in snapshot.consumers:
        name, revision = item["metadata"]["name"], revision_in(item)
        if name in left_alone or (not revision and not settled.get(name)):
            continue
        content = ".".join(revision.split(".")[:2])
        present = _present_revisions(item, sources, keys)
        if present and content not in present:
            yield f"{name} carries {revision or 'no revision'}, and its content is {present}"


def _present_revisions(
    item: Object, sources: Mapping[ObjectKey, Source], keys: Iterable[FingerprintKey]
) -> set[str]:
    """Name the present content of an opted-in consumer, once with each key."""
    consumer = _consumer(item)
    policy = read_policy(consumer, namespace_annotations=None, defaults=DEFAULTS)
    if not policy.opted_in:
        return set()
    uses = followed_uses(consumer, policy, tuple(sources))
    live_needs_rollout = live_change_needs_rollout(consumer, policy)
    return {
        revision_of(
            take_snapshots(uses, sources, key),
            key,
            uid=consumer.uid,
            live_needs_rollout=live_needs_rollout,
        )
        for key in keys
    }


def _rolled_too_often(
    snapshot: Snapshot, rollouts: Rollouts, settled: Mapping[str, int]
) -> Iterator[str]:
    """No consumer was rolled more often than its settled changes."""
    for item in snapshot.consumers:
        name = item["metadata"]["name"]
        written, most = rollouts.of(name), settled.get(name, 0)
        if len(written) > most:
            yield f"{name} was rolled {len(written)} times for {most} changes: {written}"


def _unreadable(snapshot: Snapshot, keys: Sequence[FingerprintKey]) -> Iterator[str]:
    """The records can be read, and there is one for every opted-in consumer."""
    known: dict[str, Record] = {}
    for secret in snapshot.own_secrets:
        if secret.get("type") != "hotmap.dev/state":
            continue
        text = b64decode(secret["data"]["state"]).decode()
        records = read_shard(text)
        lines = len(records) + len(read_changes(text)) + (read_watched_until(text) is not None)
        if not text.startswith(f"{HEADER}\n") or lines != text.count("\n") - 1:
            yield f"{secret['metadata']['name']} cannot be read: {text!r}"
        known.update(records)
    ids = {key.id for key in keys}
    for item in snapshot.consumers:
        record = known.get(item["metadata"]["uid"])
        policy = read_policy(_consumer(item), namespace_annotations=None, defaults=DEFAULTS)
        if policy.opted_in and record is None:
            yield f"nothing is recorded of {item['metadata']['name']}"
        elif record is not None and ids and record.key_id not in ids:
            yield f"the record of {item['metadata']['name']} was made with a key that is lost"


def shown_by(snapshot: Snapshot) -> list[str]:
    """Return as text what hotmap has written, or taken part in; not the Secrets themselves."""
    written = [*snapshot.consumers, *snapshot.others]
    state = [entry for entry in snapshot.own_secrets if entry.get("type") == "hotmap.dev/state"]
    return [
        *(msgspec.json.encode(item).decode() for item in written),
        *(b64decode(secret["data"]["state"]).decode() for secret in state),
    ]


def _sources(snapshot: Snapshot, keys: Sequence[FingerprintKey]) -> dict[ObjectKey, Source]:
    found = [
        *(
            source_from_config_map(_as(ConfigMap, item), tuple(keys))
            for item in snapshot.config_maps
        ),
        *(source_from_secret(_as(Secret, secret), tuple(keys)) for secret in snapshot.secrets),
    ]
    return {source.key: source for source in found}


def _consumer(item: Object) -> Consumer:
    return consumer_from_workload(item["kind"], _as(Workload, item))


def _as(type_: Any, item: Object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(item), type=type_)


def _is_written_by_hotmap(consumer: Object) -> bool:
    """Return whether hotmap was the last to write the revision, as managedFields have it."""
    path = ("f:spec", "f:template", "f:metadata", "f:annotations", f"f:{_REVISION}")
    return any(
        entry.get("manager") == "hotmap" and _owns(entry.get("fieldsV1") or {}, path)
        for entry in consumer["metadata"].get("managedFields") or ()
    )


def _owns(fields: Object, path: Sequence[str]) -> bool:
    """Return whether a path is owned; the local plane says of a template only whose it is."""
    for step in path:
        if step not in fields:
            return False
        fields = fields[step]
        if not fields and step == "f:template":
            return True
    return True
