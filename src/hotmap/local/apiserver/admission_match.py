"""What webhooks and admission policies are about: rules, selectors, conditions in CEL.

apiserver/pkg/admission/plugin/webhook (rules, predicates, matchconditions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hotmap.core.errors import NotFound
from hotmap.local.apiserver.scale import SCALES, scale_of
from hotmap.local.json_object import JsonObject
from hotmap.local.selectors import matches_label_selector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotmap.local.access import UserInfo
    from hotmap.local.apiserver.reader import ObjectReader
    from hotmap.local.apiserver.routes import ResourcePath
    from hotmap.local.scheme import Kind
    from hotmap.local.store import Store
    from hotmap.local.store_watch import Watch

__all__ = ["Operation", "StoredObjects", "has_rule", "is_selected", "matches_rules"]


class Operation(NamedTuple):
    """A write that is asked about; `obj` is None at a deletion, `old` at a create.

    At a connection to a pod (CONNECT), `obj` has its options.
    """

    verb: str
    path: ResourcePath
    user: UserInfo
    dry_run: bool
    obj: JsonObject | None
    old: JsonObject | None

    @classmethod
    def of_write(
        cls,
        verb: str,
        path: ResourcePath,
        user: UserInfo,
        *,
        dry_run: bool,
        obj: JsonObject | None,
        old: JsonObject | None,
    ) -> Operation:
        """Describe a write; one through the scale subresource is about a Scale."""
        if path.subresource == "scale":
            obj, old = (each and scale_of(path.kind, each) for each in (obj, old))
        return cls(verb, path, user, dry_run, obj, old)

    @property
    def name(self) -> str:
        """The name of the object that is written, deleted or connected to."""
        metadata = (self.obj or self.old or {}).get("metadata") or {}
        return str(metadata.get("name") or self.path.name)


class StoredObjects:
    """All objects of a few kinds, read again only after one of them has changed."""

    def __init__(self, store: Store, kinds: list[Kind]) -> None:
        self._store = store
        self._kinds = kinds
        self._watches: list[Watch] = []
        self._objects: list[list[JsonObject]] | None = None

    def current(self) -> list[list[JsonObject]]:
        """Return the objects of each kind, by their names."""
        if self._objects is None or any(w.take() or w.ended for w in self._watches):
            for watch in self._watches:
                watch.close()
            since = self._store.revision
            self._watches = [self._store.watch(k.prefix(None), since=since) for k in self._kinds]
            self._objects = [
                [
                    msgspec.json.decode(entry.value or b"")
                    for entry in self._store.range(kind.prefix(None)).entries
                ]
                for kind in self._kinds
            ]
        return self._objects


def has_rule(rules: Any, kind: Kind, verb: str, subresource: str) -> bool:
    """Return whether any of some rules is about a kind of write."""
    return next(_matching(rules, kind, verb, subresource), None) is not None


def matches_rules(rules: Any, operation: Operation) -> bool:
    """Return whether any of some rules, which may name objects, is about a write."""
    path, name = operation.path, operation.name
    found = _matching(rules, path.kind, operation.verb, path.subresource)
    return any(not rule.get("resourceNames") or name in rule["resourceNames"] for rule in found)


def _matching(rules: Any, kind: Kind, verb: str, subresource: str) -> Iterator[JsonObject]:
    resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
    alternatives = {resource, "*/*", f"{kind.plural}/*"}
    alternatives |= {f"*/{subresource}"} if subresource else {"*"}
    scope = "Namespaced" if kind.namespaced else "Cluster"
    for rule in rules or ():
        if (
            not {verb, "*"}.isdisjoint(rule.get("operations") or ())
            and not {kind.group, "*"}.isdisjoint(rule.get("apiGroups") or ())
            and not {kind.version, "*"}.isdisjoint(rule.get("apiVersions") or ())
            and not alternatives.isdisjoint(rule.get("resources") or ())
            and rule.get("scope", "*") in ("*", scope)
        ):
            yield rule


def is_selected(selectors: JsonObject, operation: Operation, reader: ObjectReader) -> bool:
    """Return whether objectSelector and namespaceSelector select a write."""
    selector = selectors.get("objectSelector") or {}
    shown = [obj for obj in (operation.obj, operation.old) if obj and "metadata" in obj]
    labels = [obj["metadata"].get("labels") or {} for obj in shown]
    if selector and not any(matches_label_selector(selector, each) for each in labels):
        return False
    selector = selectors.get("namespaceSelector") or {}
    if not selector:
        return True
    if operation.path.kind.plural == "namespaces" and not operation.path.kind.group:
        return any(matches_label_selector(selector, each) for each in labels)
    if not operation.path.kind.namespaced:
        return True
    namespace = namespace_of(operation, reader)
    if namespace is None:
        return False
    return matches_label_selector(selector, namespace["metadata"].get("labels") or {})


def namespace_of(operation: Operation, reader: ObjectReader) -> JsonObject | None:
    """Return the namespace of the object of a write, None where there is none."""
    if not operation.path.kind.namespaced:
        return None
    kind = reader.scheme.resource("namespaces")
    try:
        entry = reader.entry(kind, None, operation.path.namespace or "")
    except NotFound:
        return None
    namespace: JsonObject = msgspec.json.decode(entry.value or b"")
    return namespace


def review_request(operation: Operation, uid: str) -> JsonObject:
    """Describe a write, as an AdmissionRequest (admission.k8s.io/v1)."""
    path, kind = operation.path, operation.path.kind
    named = {"group": kind.group, "version": kind.version}
    connects = operation.verb == "CONNECT"
    sent: JsonObject = {**named, "kind": kind.kind}
    if path.subresource == "scale":
        sent = {"group": SCALES.group, "version": SCALES.version, "kind": SCALES.kind}
    elif connects and operation.obj:
        sent["kind"] = operation.obj["kind"]
    options = {"kind": f"{operation.verb.title()}Options", "apiVersion": "meta.k8s.io/v1"}
    request: JsonObject = {
        "uid": uid,
        "kind": sent,
        "resource": {**named, "resource": kind.plural},
        "requestKind": sent,
        "requestResource": {**named, "resource": kind.plural},
        "name": operation.name,
        "operation": operation.verb,
        "userInfo": operation.user.document(),
        "object": operation.obj,
        "oldObject": operation.old,
        "dryRun": operation.dry_run,
        "options": None if connects else options,
    }
    if path.namespace:
        request["namespace"] = path.namespace
    if path.subresource:
        request["subResource"] = request["requestSubResource"] = path.subresource
    return request
