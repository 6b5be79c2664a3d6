"""Writing objects to the store: create, update, patch, and edits by a function.

The steps are those of apiserver/pkg/registry/generic/registry/store.go. Objects that are passed in
are copied.

An object is read and written without a pause in between, so that no other write can come first.
For a large object, work that needs the object alone is done in a thread, while the event loop
answers other requests. If another request writes the object in that time, the write is decided
again.
"""

from __future__ import annotations

import contextlib
import random
import uuid
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeGuard

import msgspec

from hotmap.core.errors import AlreadyExists, BadRequest
from hotmap.local.apiserver import admission, deletion_rules, managed_fields
from hotmap.local.apiserver.configurations import check_configuration
from hotmap.local.apiserver.decode_errors import unsigned_error
from hotmap.local.apiserver.encoding import decode
from hotmap.local.apiserver.large_objects import beside_loop
from hotmap.local.apiserver.metadata import (
    carry_metadata,
    check_name,
    drop_repeated_owners,
    keep_metadata,
    name_missing,
)
from hotmap.local.apiserver.namespace_lifecycle import check_namespace
from hotmap.local.apiserver.object_size import encode_limited
from hotmap.local.apiserver.plugins import AdmissionChain, AdmissionRequest
from hotmap.local.apiserver.sent_objects import patched_object, read_object, unconverted
from hotmap.local.apiserver.status import (
    already_exists,
    conflict,
    internal,
    invalid,
    no_name_left,
    not_found,
    version_required,
)
from hotmap.local.json_object import JsonObject, is_same
from hotmap.local.meta import timestamp
from hotmap.local.store import StaleRead

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.local.apiserver.options import WriteOptions
    from hotmap.local.apiserver.reader import ObjectReader
    from hotmap.local.apiserver.routes import ResourcePath
    from hotmap.local.client import PatchKind
    from hotmap.local.field_errors import FieldError
    from hotmap.local.scheme import Kind
    from hotmap.local.store import Entry, Store

# apiserver/pkg/storage/names/generate.go: no vowels, so no words.
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_MAX_GENERATED_BASE = 63 - _SUFFIX_LENGTH
_NAME_ATTEMPTS = 8  # KEP-4420


class _Replaced(NamedTuple):
    """An object that is to be replaced; `size` is that of the work, in bytes of both versions."""

    entry: Entry
    obj: JsonObject
    size: int


class ObjectWriter:
    """Write objects of every kind of a scheme."""

    def __init__(self, store: Store, reader: ObjectReader, clock: Callable[[], float]) -> None:
        self._store = store
        self._reader = reader
        self._clock = clock
        #: Called before each write.
        self.plugins = AdmissionChain()
        # Names need no secrecy, only rarity.
        self._random = random.Random()

    async def create(
        self, path: ResourcePath, obj: JsonObject, options: WriteOptions
    ) -> JsonObject:
        """Create an object; return it as stored.

        Raises:
            AlreadyExists: the name is taken.
            Invalid: it breaks the rules of its kind.
            NotFound: the namespace does not exist.
            Forbidden: the namespace is being deleted.
        """
        kind, namespace = path.kind, path.namespace
        sent = msgspec.json.encode(obj)
        new = await beside_loop(len(sent), partial(read_object, kind, namespace, sent))
        metadata = new["metadata"]
        known = metadata.get("name") or metadata.get("generateName", "")
        check_namespace(self._reader, kind, namespace, known)
        await beside_loop(len(sent), partial(admission.decode, kind, new))
        _drop_repeated_owners(metadata, options)
        if metadata.get("name") or not metadata.get("generateName"):
            return await self._create(path, new, options, len(sent))
        return await self._create_named(path, new, options, len(sent))

    async def _create_named(
        self, path: ResourcePath, new: JsonObject, options: WriteOptions, size: int
    ) -> JsonObject:
        """Create an object under a generated name, another one if the first is taken."""
        name = ""
        for _ in range(_NAME_ATTEMPTS):
            candidate = msgspec.json.decode(msgspec.json.encode(new))
            name = self._generated_name(new["metadata"]["generateName"])
            with contextlib.suppress(AlreadyExists):
                return await self._create(path, candidate, options, size, generated=name)
        raise no_name_left(path.kind, name)

    async def _create(
        self,
        path: ResourcePath,
        new: JsonObject,
        options: WriteOptions,
        size: int,
        *,
        managers: list[JsonObject] | None = None,
        generated: str = "",
    ) -> JsonObject:
        """Create an object, under its own name or a `generated` one.

        `managers` are its managedFields where they are known already.
        """
        kind, metadata = path.kind, new["metadata"]
        version = metadata.pop("resourceVersion", "")
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(field, None)
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = self._now()

        def record() -> None:
            kind.strategy.default(new)
            # What admission adds has no owner, as upstream.
            self._record(path, None, new, options, managers)

        def check() -> bytes:
            if self.plugins.plugins:
                kind.strategy.default(new)
            admission.prepare_create(kind, new)
            errors = admission.validate_create(kind, new)
            if errors:
                raise invalid(kind, new["metadata"].get("name", ""), errors)
            _warn(options, kind.strategy.warnings(new))
            key = kind.key(path.namespace, new["metadata"]["name"])
            return b"" if options.dry_run else encode_limited(key, new, kind)

        await beside_loop(size, record)
        request = _admission_request(path, None, new, options)
        self.plugins.admit(request)
        if generated:
            # After admission, as upstream, so that its refusals are the same at each attempt.
            metadata["name"] = generated
        value = await beside_loop(size, check)
        name = new["metadata"]["name"]
        key = kind.key(path.namespace, name)
        if not options.dry_run and _is_version(version):
            raise internal("resourceVersion should not be set on objects to be created")
        if (present := self._store.get(key)) is not None:
            raise already_exists(kind, name, deleted=_is_deleted(decode(present)))
        self.plugins.validate(request)
        if options.dry_run:
            return new
        return with_revision(new, self._store.create(key, value))

    async def update(
        self, path: ResourcePath, obj: JsonObject, options: WriteOptions
    ) -> JsonObject:
        """Replace an object (PUT), or the part of it that the path's subresource means.

        A resourceVersion in the object is a precondition.

        Raises:
            NotFound: it does not exist, and its kind is not created by a PUT.
            Conflict: the resourceVersion or the uid is not the current one.
            Invalid: it breaks the rules of its kind.
        """
        kind, name = path.kind, path.name
        sent = msgspec.json.encode(obj)
        new = await beside_loop(len(sent), partial(read_object, kind, path.namespace, sent))
        await beside_loop(len(sent), partial(admission.decode, kind, new))
        metadata = new["metadata"]
        check_name(metadata, name)
        key, uid = kind.key(path.namespace, name), metadata.get("uid")
        entry = self._store.get(key)
        if entry is None:
            if not kind.strategy.create_on_update or path.subresource:
                raise not_found(kind, name)
            if uid:
                raise conflict(kind, name, uid_precondition(key, uid, ""))
            metadata.pop("resourceVersion", None)
            return await self.create(path, new, options)
        _drop_repeated_owners(metadata, options)
        size = _size(entry) + len(sent)
        old = await beside_loop(size, partial(decode, entry, kind))
        if uid and uid != old["metadata"]["uid"]:
            raise conflict(kind, name, uid_precondition(key, uid, old["metadata"]["uid"]))
        return await self._replace(path, _Replaced(entry, old, size), new, options)

    async def patch(
        self, path: ResourcePath, kind: PatchKind, patch: object, options: WriteOptions
    ) -> JsonObject:
        """Apply a JSON, merge or strategic-merge patch to the newest object.

        A resourceVersion in the patch is a precondition; without one the patch never conflicts.

        Raises:
            NotFound: the object does not exist.
            Conflict: the patch names another resourceVersion.
            Invalid: the result breaks the rules of its kind, or the patch names another uid.
        """
        if kind == "apply":
            if not isinstance(patch, dict):
                raise BadRequest("error decoding patch: it must be an object")
            return await self._apply(path, patch, options)
        entry = self._reader.entry(path.kind, path.namespace, path.name)
        size = _size(entry) + len(msgspec.json.encode(patch))
        read = partial(decode, entry, path.kind)
        old = await beside_loop(size, read)
        new = await beside_loop(size, lambda: patched_object(path, kind, read(), patch))
        _drop_repeated_owners(new["metadata"], options, " after mutating admission happens")
        return await self._replace(path, _Replaced(entry, old, size), new, options)

    async def _apply(
        self, path: ResourcePath, patch: JsonObject, options: WriteOptions
    ) -> JsonObject:
        """Apply a configuration; create the object if it does not exist (server-side apply)."""
        kind = path.kind
        entry = self._store.get(kind.key(path.namespace, path.name))
        size = _size(entry) + len(msgspec.json.encode(patch))
        merge = partial(self._merge_applied, path, entry, patch, options)
        live, new, managers = await beside_loop(size, merge)
        if entry is None:
            check_namespace(self._reader, kind, path.namespace, path.name)
            new["metadata"].pop("resourceVersion", None)
        try:
            await beside_loop(size, partial(admission.decode, kind, new, applied=True))
        except BadRequest as error:
            raise (unconverted(kind, patch, error) if kind.strategy.typed else error) from None
        if entry is None:
            if not (patch.get("metadata") or {}).get("name"):
                raise name_missing(path.name)
            return await self._create(path, new, options, size, managers=managers)
        replaced = _Replaced(entry, live, size)
        return await self._replace(path, replaced, new, options, managers=managers)

    def _merge_applied(
        self, path: ResourcePath, entry: Entry | None, patch: JsonObject, options: WriteOptions
    ) -> tuple[JsonObject, JsonObject, list[JsonObject]]:
        """Return the live object, {} for none, the merged one, and its managedFields."""
        kind = path.kind
        if not isinstance(patch.get("metadata"), dict | None):
            check_configuration(path, patch)
        sent = {**patch, "metadata": dict(patch.get("metadata") or {})}
        config = read_object(kind, path.namespace, msgspec.json.encode(patch))
        if config["metadata"].get("managedFields") is not None:
            raise BadRequest("metadata.managedFields must be nil")
        config["metadata"].setdefault("name", path.name)
        check_name(config["metadata"], path.name)
        check_configuration(path, sent)
        if entry is None and path.subresource:
            raise not_found(kind, path.name)
        uid = config["metadata"].get("uid")
        if entry is None and uid:
            why = (
                f"uid mismatch: the provided object specified uid {uid}, and no existing object "
                "was found"
            )
            raise conflict(kind, path.name, why)
        live = {} if entry is None else decode(entry, path.kind)
        applied = managed_fields.apply(
            kind, live, config, self._writer(path, options, "Apply"), force=options.force
        )
        new = read_object(kind, path.namespace, msgspec.json.encode(applied.obj))
        if entry is not None and "resourceVersion" not in config["metadata"]:
            # What this manager gives up of metadata may have taken it along.
            new["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
        return live, new, applied.managed_fields

    async def modify(
        self,
        path: ResourcePath,
        change: Callable[[JsonObject], JsonObject | None],
        options: WriteOptions,
    ) -> JsonObject:
        """Read an object, let `change` edit or replace it, and write what it returns.

        None from `change` leaves the object as it is. There is no conflict to retry.

        Raises:
            NotFound: the object does not exist.
            Invalid: the result breaks the rules of its kind.
        """
        entry = self._reader.entry(path.kind, path.namespace, path.name)
        old = decode(entry, path.kind)
        changed = change(decode(entry, path.kind))
        if changed is None or (changed == old and not options.through):
            return old
        sent = msgspec.json.encode(changed)
        new = read_object(path.kind, path.namespace, sent)
        size = _size(entry) + len(sent)
        await beside_loop(size, partial(admission.decode, path.kind, new))
        return await self._replace(path, _Replaced(entry, old, size), new, options)

    async def _replace(
        self,
        path: ResourcePath,
        replaced: _Replaced,
        new: JsonObject,
        options: WriteOptions,
        *,
        managers: list[JsonObject] | None = None,
    ) -> JsonObject:
        """Steps of apiserver/pkg/registry/generic/registry/store.go, Update."""
        entry, old, size = replaced
        kind, name = path.kind, old["metadata"]["name"]
        _check_revision(kind, name, entry, new)

        def record() -> list[FieldError]:
            errors = carry_metadata(old["metadata"], new["metadata"])
            kept = kind.strategy.kept_metadata.get(path.subresource, ())
            keep_metadata(kept, old["metadata"], new["metadata"])
            kind.strategy.reset(old, new)
            kind.strategy.default(new)
            # What the server carries over has no owner if the writer left it out, as upstream.
            self._record(path, old, new, options, managers)
            admission.prepare_update(kind, old, new, path.subresource)
            kind.strategy.default(new)
            return errors

        def check() -> bytes | None:
            """Return what is to be stored, None where nothing has changed."""
            found = errors + admission.validate_update(kind, old, new, path.subresource)
            if found:
                raise invalid(kind, name, found)
            _set_generation(path, old, new)
            _warn(options, kind.strategy.update_warnings(old, new))
            new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
            if is_unchanged(old, new):
                return None
            if options.dry_run or deletion_rules.is_deletion_complete(kind, new):
                return b""
            return encode_limited(entry.key, new, kind)

        errors = await beside_loop(size, record)
        request = _admission_request(path, old, new, options)
        self.plugins.admit(request)
        value = await beside_loop(size, check)
        if value is None:
            self.plugins.validate(request)
            return old
        if self._store.get(entry.key) != entry:
            raise StaleRead(f"{entry.key} was written while a large object was being checked")
        self.plugins.validate(request)
        if options.dry_run:
            return new
        if not value:
            self._store.delete(entry.key, expected=entry.mod_revision)
            return new
        written = self._store.update(entry.key, value, expected=entry.mod_revision)
        return with_revision(new, written)

    def _record(
        self,
        path: ResourcePath,
        old: JsonObject | None,
        new: JsonObject,
        options: WriteOptions,
        managers: list[JsonObject] | None,
    ) -> None:
        metadata = new["metadata"]
        if options.through:
            managers = metadata.get("managedFields") or []
        if managers is None:
            # The entries themselves cannot be written through a subresource.
            if old is not None and (path.subresource or "managedFields" not in metadata):
                metadata["managedFields"] = old["metadata"].get("managedFields", [])
            writer = self._writer(path, options, "Update")
            managers = managed_fields.record_write(path.kind, old, new, writer)
        metadata["managedFields"] = managers
        if not managers:
            del metadata["managedFields"]

    def _writer(
        self, path: ResourcePath, options: WriteOptions, operation: Literal["Update", "Apply"]
    ) -> managed_fields.Writer:
        return managed_fields.Writer(
            options.manager, path.kind.api_version, path.subresource, self._now(), operation
        )

    def _generated_name(self, base: str) -> str:
        suffix = "".join(self._random.choices(_SUFFIX_ALPHABET, k=_SUFFIX_LENGTH))
        return base[:_MAX_GENERATED_BASE] + suffix

    def _now(self) -> str:
        return timestamp(self._clock())


def _check_revision(kind: Kind, name: str, entry: Entry, new: JsonObject) -> None:
    """Check the resourceVersion of a new object, which is a precondition where it has one.

    Raises:
        Conflict: it is not that of the stored object.
        Invalid: there is none, and the kind needs it.
        ApiError: 500, it is not a number.
    """
    revision = new["metadata"].get("resourceVersion")
    if revision and (why := unsigned_error(revision)):
        raise internal(why)
    if not _is_version(revision):
        if not kind.strategy.unconditional_update:
            raise version_required(kind, name)
    elif int(revision) != entry.mod_revision:
        raise conflict(kind, name)


def _is_version(text: str | None) -> TypeGuard[str]:
    """Return whether a resourceVersion is one; neither 0 nor what is not a number is."""
    return text is not None and not unsigned_error(text) and int(text) > 0


def _warn(options: WriteOptions, texts: list[str]) -> None:
    known = options.warnings
    if known is not None:
        known.extend(text for text in texts if text not in known)


def _drop_repeated_owners(metadata: JsonObject, options: WriteOptions, when: str = "") -> None:
    """Leave each owner reference once, in place, and warn; `when` is upstream's of patches."""
    if repeated := drop_repeated_owners(metadata):
        why = (
            f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner "
            "references in 1.20+, and may reject such requests as early as 1.24; please fix your "
            f"requests; duplicate UID(s) observed: {', '.join(repeated)}"
        )
        _warn(options, [why])


def with_revision(obj: JsonObject, revision: int) -> JsonObject:
    """Put the revision of a write into the object, in place."""
    obj["metadata"]["resourceVersion"] = str(revision)
    return obj


def is_unchanged(old: JsonObject, new: JsonObject) -> bool:
    """Return whether a write would change nothing; managedFields times alone are no change."""
    before, after = dict(old), dict(new)
    before["metadata"] = _without_times(old["metadata"])
    after["metadata"] = _without_times(new["metadata"])
    return is_same(before, after)


def _is_deleted(obj: JsonObject) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def uid_precondition(key: str, wanted: str, found: str) -> str:
    """apiserver/pkg/storage/interfaces.go: Preconditions.Check."""
    return (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, "
        f"UID in object meta: {found}"
    )


def _set_generation(path: ResourcePath, old: JsonObject, new: JsonObject) -> None:
    part = path.kind.subresource(path.subresource) if path.subresource else None
    writes_spec = part is None or part.field == "spec"
    if writes_spec and path.kind.strategy.changes_generation(old, new):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _size(entry: Entry | None) -> int:
    return len(entry.value or b"") if entry is not None else 0


def _admission_request(
    path: ResourcePath, old: JsonObject | None, new: JsonObject, options: WriteOptions
) -> AdmissionRequest:
    namespace = path.namespace or ""
    return AdmissionRequest(
        path.kind,
        namespace,
        new,
        old,
        path.subresource or options.through,
        options.user,
        options.dry_run,
        warnings=options.warnings,
    )


def _without_times(metadata: JsonObject) -> JsonObject:
    return {
        **metadata,
        "managedFields": managed_fields.without_times(metadata.get("managedFields")),
    }
