"""Objects by kind, namespace and name on top of the store: the API server without HTTP.

Controllers and the kubelet of the local control plane use it directly, as upstream's
components use a loopback client; the HTTP side adds nothing but transport. Every object that
comes out belongs to the caller, every object that goes in is copied.

The methods are coroutines because a networked store may stand behind them one day. Between
reading an object and writing it they never wait, so nothing can come in between.
"""

from __future__ import annotations

import contextlib
import random
import time
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hotmap.core.errors import AlreadyExists, BadRequest, Expired, NotFound, api_error
from hotmap.local.apiserver import admission, deletion
from hotmap.local.apiserver.continuation import decode_token
from hotmap.local.apiserver.deletion import Propagation
from hotmap.local.apiserver.encoding import arranged, decode, encode
from hotmap.local.apiserver.lists import (
    EncodedList,
    check_list_options,
    continuation_expired,
    cut_page,
    parse_resource_version,
    selected,
)
from hotmap.local.apiserver.managed_fields import Writer, record_write, without_times
from hotmap.local.apiserver.metadata import carry_metadata, check_name
from hotmap.local.apiserver.patch import PatchKind, apply_patch
from hotmap.local.apiserver.shapes import cannot_decode
from hotmap.local.apiserver.status import (
    already_exists,
    conflict,
    forbidden,
    internal,
    invalid,
    no_name_left,
    not_found,
    success_status,
)
from hotmap.local.apiserver.watches import Changes, Frame, RegistryWatch, bookmark
from hotmap.local.field_errors import invalid_value
from hotmap.local.scheme import BY_PLURAL, Kind
from hotmap.local.selectors import Selector, parse_selector

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.local.store import Entry, MVCCStore

JsonObject = dict[str, Any]

# apiserver/pkg/storage/names/generate.go: no vowels, so no words.
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_MAX_GENERATED_BASE = 63 - _SUFFIX_LENGTH
_NAME_ATTEMPTS = 8  # KEP-4420
_NAMESPACES = BY_PLURAL["namespaces"]


class ObjectList(NamedTuple):
    """A page of objects in key order; `remaining` is None where upstream does not say it."""

    items: list[JsonObject]
    resource_version: str
    continue_token: str
    remaining: int | None


class Registry:
    """Serve every kind of the scheme from one store."""

    def __init__(self, store: MVCCStore, *, clock: Callable[[], float] = time.time) -> None:
        self.store = store
        self._clock = clock
        # Names need no secrecy, only rarity.
        self._random = random.Random()
        self._changes = Changes()

    def now(self) -> float:
        """Tell the time by which objects are stamped, in POSIX seconds."""
        return self._clock()

    async def get(self, plural: str, namespace: str | None, name: str) -> JsonObject:
        """Get one object as it is now.

        Raises:
            NotFound: it does not exist.
        """
        kind = _kind(plural)
        return decode(self._entry(kind, namespace, name))

    async def list(
        self,
        plural: str,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> ObjectList:
        """List a namespace's objects, or those of all namespaces, in key order.

        Raises:
            BadRequest: a selector, the continue token or the resourceVersion is malformed.
            Expired: the page's or the exact revision is compacted; list again.
        """
        page = self.list_encoded(
            plural,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            continue_token=continue_token,
            resource_version=resource_version,
            resource_version_match=resource_version_match,
        )
        return ObjectList([msgspec.json.decode(item) for item in page.items], *page[1:])

    def list_encoded(
        self,
        plural: str,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> EncodedList:
        """List as `list` does, without decoding what is only passed on."""
        kind = _kind(plural)
        selector = parse_selector(kind, label_selector, field_selector)
        prefix = kind.prefix(namespace)
        revision = self._revision_to_list(
            resource_version, resource_version_match, limit, continue_token
        )
        after = ""
        if continue_token:
            token = decode_token(continue_token)
            after = prefix + token.after
            revision = None if token.revision < 0 else token.revision
            # A token of an earlier run of the server may be ahead of this one.
            self.check_not_too_large(token.revision)
        try:
            found = self.store.range(
                _narrowed(kind, namespace, selector),
                after=after,
                limit=0 if selector.labels or selector.fields else limit,
                revision=revision,
            )
        except Expired:
            if not continue_token:
                raise Expired("The resourceVersion for the provided list is too old.") from None
            raise continuation_expired(after.removeprefix(prefix)) from None
        return cut_page(found, selector, limit=limit, prefix=prefix)

    def _revision_to_list(
        self, resource_version: str, match: str, limit: int, continue_token: str
    ) -> int | None:
        check_list_options(resource_version, match, continue_token)
        if not resource_version or resource_version == "0":
            return None
        wanted = parse_resource_version(resource_version)
        self.check_not_too_large(wanted)
        exact = match == "Exact" or (not match and limit > 0)
        return wanted if exact else None

    def check_not_too_large(self, wanted: int) -> None:
        """Refuse a resourceVersion that no write has reached yet, with upstream's 504."""
        if wanted > self.store.revision:
            raise api_error(
                504,
                f"Timeout: Too large resource version: {wanted}, current: {self.store.revision}",
                reason="Timeout",
                details={
                    "causes": [
                        {
                            "reason": "ResourceVersionTooLarge",
                            "message": "Too large resource version",
                        }
                    ]
                },
                retry_after=1,
            )

    async def create(
        self,
        plural: str,
        namespace: str | None,
        obj: JsonObject,
        *,
        manager: str,
        dry_run: bool = False,
    ) -> JsonObject:
        """Create an object; return it as stored.

        Raises:
            AlreadyExists: the name is taken.
            Invalid: it breaks the rules of its kind.
            NotFound: the namespace does not exist.
            Forbidden: the namespace is being deleted.
        """
        kind = _kind(plural)
        new = self._received(kind, namespace, obj)
        metadata = new["metadata"]
        if metadata.pop("resourceVersion", None):
            raise internal("resourceVersion should not be set on objects to be created")
        self._check_namespace(kind, namespace, metadata)
        admission.decode(kind, new)
        if metadata.get("name") or not metadata.get("generateName"):
            return self._create(kind, namespace, new, manager, dry_run)
        return self._create_named(kind, namespace, new, manager, dry_run)

    def _create_named(
        self, kind: Kind, namespace: str | None, new: JsonObject, manager: str, dry_run: bool
    ) -> JsonObject:
        """Create an object under a generated name, another one if the first is taken."""
        name = ""
        for _ in range(_NAME_ATTEMPTS):
            candidate = msgspec.json.decode(msgspec.json.encode(new))
            name = self._generated_name(new["metadata"]["generateName"])
            candidate["metadata"]["name"] = name
            with contextlib.suppress(AlreadyExists):
                return self._create(kind, namespace, candidate, manager, dry_run)
        raise no_name_left(kind, name)

    def _create(
        self, kind: Kind, namespace: str | None, new: JsonObject, manager: str, dry_run: bool
    ) -> JsonObject:
        metadata = new["metadata"]
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"):
            metadata.pop(field, None)
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = self._now()
        admission.default(kind, new)
        admission.prepare_create(kind, new)
        name = metadata.get("name", "")
        errors = admission.validate_create(kind, new)
        if errors:
            raise invalid(kind, name, errors)
        self._record(kind, None, new, manager, "")
        key = kind.key(namespace, name)
        if self.store.get(key) is not None:
            raise already_exists(kind, name)
        if dry_run:
            return new
        return _at(new, self.store.create(key, encode(new)))

    async def update(
        self,
        plural: str,
        namespace: str | None,
        name: str,
        obj: JsonObject,
        *,
        manager: str,
        subresource: str = "",
        dry_run: bool = False,
    ) -> JsonObject:
        """Replace an object (PUT); a resourceVersion in it is a precondition.

        `subresource` is "" or the part of the object that alone is replaced: "status",
        "finalize" (the spec of a namespace).

        Raises:
            NotFound: it does not exist, and its kind is not created by a PUT.
            Conflict: the resourceVersion or the uid is not the present one.
            Invalid: it breaks the rules of its kind.
        """
        kind = _kind(plural)
        new = self._received(kind, namespace, obj)
        admission.decode(kind, new)
        metadata = new["metadata"]
        check_name(metadata, name)
        entry = self.store.get(kind.key(namespace, name))
        if entry is None:
            if kind.create_on_update and not subresource:
                metadata.pop("resourceVersion", None)
                return await self.create(plural, namespace, new, manager=manager, dry_run=dry_run)
            raise not_found(kind, name)
        old = decode(entry)
        uid = metadata.get("uid")
        if uid and uid != old["metadata"]["uid"]:
            raise conflict(kind, name, _uid_precondition(entry.key, uid, old["metadata"]["uid"]))
        if not metadata.get("resourceVersion") and not kind.unconditional_update:
            raise invalid(
                kind,
                name,
                [invalid_value("metadata.resourceVersion", 0, "must be specified for an update")],
            )
        return self._replace(kind, namespace, entry, old, new, manager, subresource, dry_run)

    async def patch(
        self,
        plural: str,
        namespace: str | None,
        name: str,
        patch: object,
        *,
        kind: PatchKind,
        manager: str,
        subresource: str = "",
        dry_run: bool = False,
    ) -> JsonObject:
        """Apply a JSON, merge or strategic-merge patch to the newest object.

        A resourceVersion in the patch is a precondition; without one the patch never conflicts.

        Raises:
            NotFound: the object does not exist.
            Conflict: the patch names another resourceVersion.
            Invalid: the result breaks the rules of its kind, or the patch names another uid.
        """
        served = _kind(plural)
        entry = self._entry(served, namespace, name)
        old = decode(entry)
        new = self._received(served, namespace, apply_patch(kind, decode(entry), patch, of=served))
        check_name(new["metadata"], name)
        admission.decode(served, new)
        return self._replace(served, namespace, entry, old, new, manager, subresource, dry_run)

    async def modify(
        self,
        plural: str,
        namespace: str | None,
        name: str,
        change: Callable[[JsonObject], JsonObject | None],
        *,
        manager: str,
        subresource: str = "",
        dry_run: bool = False,
    ) -> JsonObject:
        """Read an object, let `change` edit or replace it, and write what it returns.

        None from `change` leaves the object as it is. Nothing can come between the read and
        the write, so there is no conflict to retry.

        Raises:
            NotFound: the object does not exist.
            Invalid: the result breaks the rules of its kind.
        """
        kind = _kind(plural)
        entry = self._entry(kind, namespace, name)
        old = decode(entry)
        changed = change(decode(entry))
        if changed is None:
            return old
        new = self._received(kind, namespace, changed)
        admission.decode(kind, new)
        return self._replace(kind, namespace, entry, old, new, manager, subresource, dry_run)

    def _replace(
        self,
        kind: Kind,
        namespace: str | None,
        entry: Entry,
        old: JsonObject,
        new: JsonObject,
        manager: str,
        subresource: str,
        dry_run: bool,
    ) -> JsonObject:
        """Steps of apiserver/pkg/registry/generic/registry/store.go, Update."""
        name = old["metadata"]["name"]
        revision = new["metadata"].get("resourceVersion")
        if revision and not revision.isdigit():
            raise internal(f'strconv.ParseUint: parsing "{revision}": invalid syntax')
        if revision and revision != str(entry.mod_revision):
            raise conflict(kind, name)
        errors = carry_metadata(old["metadata"], new["metadata"])
        admission.prepare_update(kind, old, new, subresource)
        admission.default(kind, new)
        errors += admission.validate_update(kind, old, new, subresource)
        if errors:
            raise invalid(kind, name, errors)
        if admission.counts_generation(kind, old, new, subresource):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        self._record(kind, old, new, manager, subresource)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if _same(old, new):
            return old
        if dry_run:
            return new
        if deletion.is_final(kind, new):
            self.store.delete(entry.key, expected=entry.mod_revision)
            return new
        written = self.store.update(entry.key, encode(new), expected=entry.mod_revision)
        return _at(new, written)

    async def delete(
        self,
        plural: str,
        namespace: str | None,
        name: str,
        *,
        grace_period: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation = "Background",
        dry_run: bool = False,
    ) -> JsonObject:
        """Delete an object, or begin to: return a Status where it is gone, else the object.

        A pod is returned in any case. Pods stay until their grace period is over and someone
        deletes them with `grace_period=0`; objects with finalizers stay until the last one is
        removed.

        Raises:
            NotFound: it does not exist.
            Conflict: `uid` or `resource_version` is not the present one.
        """
        kind = _kind(plural)
        entry = self._entry(kind, namespace, name)
        old = decode(entry)
        metadata = old["metadata"]
        deletion.check_preconditions(kind, metadata, uid, resource_version)
        new = decode(entry)
        deletion.add_propagation_finalizer(new["metadata"], propagation)
        grace = admission.deletion_grace(kind, old, grace_period)
        if grace == 0 and not deletion.is_held(kind, new):
            if not dry_run:
                self.store.delete(entry.key, expected=entry.mod_revision)
            if kind.plural != "pods":
                return success_status(kind, name, metadata["uid"])
            # Kinds that can be deleted gracefully always answer with the object.
            deletion.begin(kind, new, grace=grace, at=self._now(grace))
            return new
        deletion.begin(kind, new, grace=grace, at=self._now(grace))
        if _same(old, new) or dry_run:
            return new
        written = self.store.update(entry.key, encode(new), expected=entry.mod_revision)
        return _at(new, written)

    async def delete_collection(
        self,
        plural: str,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        grace_period: int | None = None,
        propagation: Propagation = "Background",
        dry_run: bool = False,
    ) -> ObjectList:
        """Delete everything that a list with these selectors shows; return that list."""
        found = await self.list(
            plural, namespace, label_selector=label_selector, field_selector=field_selector
        )
        for item in found.items:
            try:
                await self.delete(
                    plural,
                    item["metadata"].get("namespace"),
                    item["metadata"]["name"],
                    grace_period=grace_period,
                    propagation=propagation,
                    dry_run=dry_run,
                )
            except NotFound:
                continue
        return found

    async def bind(self, namespace: str, name: str, node: str, *, uid: str = "") -> None:
        """Assign a pod to a node (the binding subresource).

        Raises:
            NotFound: the pod does not exist.
            Conflict: it is bound already, is being deleted, or has another uid.
        """
        kind = BY_PLURAL["pods"]
        entry = self._entry(kind, namespace, name)
        pod = decode(entry)
        if uid and uid != pod["metadata"]["uid"]:
            raise conflict(kind, name, _uid_precondition(entry.key, uid, pod["metadata"]["uid"]))
        if pod["metadata"].get("deletionTimestamp"):
            raise conflict(kind, name, f"pod {name} is being deleted, cannot be assigned to a host")
        if pod["spec"].get("nodeName"):
            raise conflict(
                kind, name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
            )
        admission.bind_pod(pod, node, self._now())
        self.store.update(entry.key, encode(pod), expected=entry.mod_revision)

    def watch(
        self,
        plural: str,
        namespace: str | None = None,
        *,
        since: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        send_initial_events: bool | None = None,
        bookmarks: bool = False,
    ) -> RegistryWatch:
        """Watch a kind; the result is an async iterator of RegistryEvents and must be closed.

        Without `since` (or with "0") the present objects come first, as ADDED. With a
        resourceVersion only what follows it. With `send_initial_events=True` the present
        objects, then a BOOKMARK with the annotation `k8s.io/initial-events-end`, then the rest
        (KEP-3157). `bookmarks=True` gives that bookmark for "0" too.

        The iterator ends by itself when its reader falls too far behind, or at the end of the
        server: watch again from the last resourceVersion.

        Raises:
            Expired: `since` is compacted; list, or watch without `since`.
            BadRequest: a selector is malformed.
        """
        kind = _kind(plural)
        selector = parse_selector(kind, label_selector, field_selector)
        prefix = _narrowed(kind, namespace, selector)
        wanted = parse_resource_version(since) if since else 0
        if since and wanted and not send_initial_events:
            events = self.store.watch(prefix, since=wanted)
            return RegistryWatch(kind, selector, events, self._changes, [])
        if send_initial_events:
            self.check_not_too_large(wanted)
        found = self.store.range(prefix)
        events = self.store.watch(prefix, since=found.revision)
        initial: list[Frame] = [("ADDED", item) for item in selected(found.entries, selector)]
        if send_initial_events or (since == "0" and bookmarks and send_initial_events is None):
            initial.append(("BOOKMARK", bookmark(kind, found.revision, initial_events_end=True)))
        return RegistryWatch(kind, selector, events, self._changes, initial)

    def _entry(self, kind: Kind, namespace: str | None, name: str) -> Entry:
        entry = self.store.get(kind.key(namespace, name))
        if entry is None:
            raise not_found(kind, name)
        return entry

    def _received(self, kind: Kind, namespace: str | None, obj: JsonObject) -> JsonObject:
        """Copy what a caller sent, with kind, apiVersion and namespace filled in."""
        new: JsonObject = msgspec.json.decode(msgspec.json.encode(obj))
        metadata = {} if new.get("metadata") is None else new["metadata"]
        if not isinstance(metadata, dict):
            raise cannot_decode(kind, kind.kind, "metadata", metadata, "v1.ObjectMeta")
        new = arranged(kind, new, metadata)
        if kind.namespaced:
            if metadata.setdefault("namespace", namespace) != namespace:
                raise BadRequest(
                    "the namespace of the provided object does not match the namespace "
                    "sent on the request"
                )
        else:
            metadata.pop("namespace", None)
        return new

    def _check_namespace(self, kind: Kind, namespace: str | None, metadata: JsonObject) -> None:
        """kubernetes: plugin/pkg/admission/namespace/lifecycle/admission.go."""
        if not kind.namespaced:
            return
        entry = self.store.get(_NAMESPACES.key(None, namespace or ""))
        if entry is None:
            raise not_found(_NAMESPACES, namespace or "")
        found = decode(entry)
        if found["metadata"].get("deletionTimestamp"):
            why = (
                f"unable to create new content in namespace {namespace} "
                "because it is being terminated"
            )
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise forbidden(kind, metadata.get("name", ""), why, causes=[cause])

    def _record(
        self, kind: Kind, old: JsonObject | None, new: JsonObject, manager: str, subresource: str
    ) -> None:
        metadata = new["metadata"]
        if old is not None and "managedFields" not in metadata:
            metadata["managedFields"] = old["metadata"].get("managedFields", [])
        writer = Writer(manager, kind.api_version, subresource, self._now())
        metadata["managedFields"] = record_write(old, new, writer)

    def _generated_name(self, base: str) -> str:
        suffix = "".join(self._random.choices(_SUFFIX_ALPHABET, k=_SUFFIX_LENGTH))
        return base[:_MAX_GENERATED_BASE] + suffix

    def _now(self, after: int = 0) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock() + after))


def _at(obj: JsonObject, revision: int) -> JsonObject:
    obj["metadata"]["resourceVersion"] = str(revision)
    return obj


def _kind(plural: str) -> Kind:
    return BY_PLURAL[plural]


def _same(old: JsonObject, new: JsonObject) -> bool:
    """Whether a write would change nothing; managedFields times alone are no change."""
    before, after = dict(old), dict(new)
    before["metadata"] = _untimed(old["metadata"])
    after["metadata"] = _untimed(new["metadata"])
    return before == after


def _untimed(metadata: JsonObject) -> JsonObject:
    return {**metadata, "managedFields": without_times(metadata.get("managedFields"))}


def _uid_precondition(key: str, wanted: str, found: str) -> str:
    """apiserver/pkg/storage/interfaces.go: Preconditions.Check."""
    return (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, "
        f"UID in object meta: {found}"
    )


def _narrowed(kind: Kind, namespace: str | None, selector: Selector) -> str:
    """Give the shortest range that a selector can reach: one key where it names the object."""
    name = selector.field_value(("metadata", "name"))
    within = namespace or selector.field_value(("metadata", "namespace"))
    if name and (within or not kind.namespaced):
        return kind.key(within, name)
    return kind.prefix(namespace)
