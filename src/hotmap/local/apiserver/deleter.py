"""Deleting objects from the store, at once or in time.

apiserver/pkg/registry/generic/registry/store.go, Delete. The rules are those of `deletion_rules`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver import deletion_rules
from hotmap.local.apiserver.encoding import decode, encode
from hotmap.local.apiserver.namespace_lifecycle import check_mortal
from hotmap.local.apiserver.plugins import AdmissionRequest
from hotmap.local.apiserver.status import success_status
from hotmap.local.apiserver.writer import is_unchanged, with_revision
from hotmap.local.json_object import JsonObject
from hotmap.local.meta import timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.local.apiserver.options import DeleteOptions
    from hotmap.local.apiserver.plugins import AdmissionPlugin
    from hotmap.local.apiserver.reader import ObjectReader
    from hotmap.local.apiserver.routes import ResourcePath
    from hotmap.local.store import Store


class ObjectDeleter:
    """Delete objects of every kind of a scheme."""

    def __init__(self, store: Store, reader: ObjectReader, clock: Callable[[], float]) -> None:
        self._store = store
        self._reader = reader
        self._clock = clock
        #: Called before each deletion; None admits everything.
        self.policies: AdmissionPlugin | None = None

    def delete(self, path: ResourcePath, options: DeleteOptions) -> JsonObject:
        """Delete an object, or begin to: return a Status where it is gone, else the object.

        A pod is returned in any case. Pods stay until their grace period is over and someone
        deletes them with a grace period of 0; objects with finalizers stay until the last one
        is removed.

        Raises:
            NotFound: it does not exist.
            Conflict: the uid or the resourceVersion is not the present one.
        """
        kind = path.kind
        entry = self._reader.entry(kind, path.namespace, path.name)
        old = decode(entry, kind)
        deletion_rules.check_preconditions(kind, old["metadata"], options)
        check_mortal(kind, path.name)
        if self.policies is not None:
            namespace = path.namespace or ""
            request = AdmissionRequest(
                kind, namespace, old, old, "", options.user, options.dry_run, deleted=True
            )
            self.policies.validate(request)
        new = decode(entry, kind)
        default = kind.strategy.default_propagation
        deletion_rules.set_propagation_finalizer(new["metadata"], options.propagation, default)
        kind.strategy.add_finalizers(new)
        grace = kind.strategy.deletion_grace(old, options.grace_period)
        if grace == 0 and not deletion_rules.is_held_by_finalizers(kind, new):
            revision = entry.mod_revision
            if kind.strategy.graceful:
                # Upstream writes down that the object goes before it goes.
                deletion_rules.begin_deletion(kind, new, grace=grace, at=self._end_of(grace))
                if not options.dry_run and not is_unchanged(old, new):
                    revision = self._store.update(entry.key, encode(new, kind), expected=revision)
                    with_revision(new, revision)
            if not options.dry_run:
                self._store.delete(entry.key, expected=revision)
            if not kind.strategy.returns_deleted:
                return success_status(kind, path.name, old["metadata"]["uid"])
            return new if kind.strategy.graceful else old
        deletion_rules.begin_deletion(kind, new, grace=grace, at=self._end_of(grace))
        if is_unchanged(old, new) or options.dry_run:
            return new
        written = self._store.update(entry.key, encode(new, kind), expected=entry.mod_revision)
        return with_revision(new, written)

    def _end_of(self, grace: int) -> str:
        return timestamp(self._clock() + grace)
