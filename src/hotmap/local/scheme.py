"""The kinds that a control plane serves: names and storage keys.

A cluster owns one Scheme. Kinds can be registered and removed while it runs. The `Strategy` of a
kind interprets its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from hotmap.local.group_version_kind import GroupVersionKind
from hotmap.local.strategy import Strategy

__all__ = [
    "ALL_VERBS",
    "PROXY_VERBS",
    "SCALE",
    "STATUS",
    "Conversion",
    "Kind",
    "KindListener",
    "Names",
    "Scheme",
    "Subresource",
]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


PROXY_VERBS = ("create", "delete", "get", "patch", "update")


class Subresource(NamedTuple):
    """A subresource: the path segment after an object's name."""

    name: str
    verbs: tuple[str, ...]
    #: The kind it returns; None for its parent's kind.
    response: GroupVersionKind | None = None
    #: The top-level field that an update through it replaces; "" where it is no part of the object.
    field: str = ""


STATUS = Subresource("status", ("get", "patch", "update"), field="status")


class Conversion(NamedTuple):
    """Between the form in which objects are stored and another version's, either way."""

    to_stored: Callable[[dict[str, Any]], dict[str, Any]]
    from_stored: Callable[[dict[str, Any]], dict[str, Any]]


SCALE = Subresource(
    "scale", ("get", "patch", "update"), GroupVersionKind("autoscaling", "v1", "Scale")
)


class Names(NamedTuple):
    """The names of a kind (CustomResourceDefinition: spec.names).

    `singular` is the kind in lower case where it is "". `storage` is the part of a key between
    `/registry/` and the namespace; "" gives `<group>/<plural>`, as upstream for custom resources.
    """

    plural: str
    kind: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""
    storage: str = ""


class Kind(NamedTuple):
    """One served kind.

    Of several `versions` the first is the one that is answered and preferred; `at` gives others.
    Objects are converted where the kind says how; else another version is another apiVersion.
    """

    group: str
    versions: tuple[str, ...]
    names: Names
    namespaced: bool = True
    subresources: tuple[Subresource, ...] = ()
    strategy: Strategy = Strategy()
    verbs: tuple[str, ...] = ALL_VERBS
    #: The strategies of the versions, where they differ.
    version_strategies: tuple[tuple[str, Strategy], ...] = ()
    #: The version in which objects are stored, where it is not the first one.
    stored_version: str = ""
    #: How objects of this version differ from stored ones; None for in nothing.
    conversion: Conversion | None = None
    #: The conversions of the versions that have one.
    version_conversions: tuple[tuple[str, Conversion], ...] = ()

    def at(self, version: str) -> Kind:
        """Return the kind as one of its versions shows it."""
        if version == self.version:
            return self
        others = tuple(known for known in self.versions if known != version)
        return self._replace(
            versions=(version, *others),
            strategy=dict(self.version_strategies).get(version, self.strategy),
            conversion=dict(self.version_conversions).get(version),
            stored_version=self.stored_version or self.version,
        )

    @property
    def stored_api_version(self) -> str:
        """What stored objects of this kind say."""
        version = self.stored_version or self.version
        return f"{self.group}/{version}" if self.group else version

    @property
    def version(self) -> str:
        """The preferred version."""
        return self.versions[0]

    @property
    def group_version_kind(self) -> GroupVersionKind:
        """The preferred version, with group and kind."""
        return GroupVersionKind(self.group, self.version, self.kind)

    @property
    def plural(self) -> str:
        """`configmaps`: the resource in paths."""
        return self.names.plural

    @property
    def kind(self) -> str:
        """`ConfigMap`: the kind in objects."""
        return self.names.kind

    @property
    def singular(self) -> str:
        """`configmap`: kubectl accepts it, too."""
        return self.names.singular or self.names.kind.lower()

    @property
    def api_version(self) -> str:
        """`v1` or `apps/v1`: the apiVersion in objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`configmaps` or `deployments.apps`: the resource in messages (schema.GroupResource)."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified(self) -> str:
        """`ConfigMap` or `Deployment.apps`: the kind in Invalid errors (schema.GroupKind)."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def subresource(self, name: str) -> Subresource | None:
        """Find a subresource by name."""
        for subresource in self.subresources:
            if subresource.name == name:
                return subresource
        return None

    def key(self, namespace: str | None, name: str) -> str:
        """Return the storage key of one object."""
        return f"{self.prefix(namespace)}{name}"

    def prefix(self, namespace: str | None) -> str:
        """Return the storage prefix of a namespace's objects, or of all with None."""
        storage = self.names.storage or f"{self.group}/{self.plural}"
        if namespace and self.namespaced:
            return f"/registry/{storage}/{namespace}/"
        return f"/registry/{storage}/"


#: Called with a kind, and whether it is served from now on (True) or no longer (False).
KindListener = Callable[[Kind, bool], None]


class Scheme:
    """The served kinds by (group, resource)."""

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        self._kinds: dict[tuple[str, str], Kind] = {}
        # Made from _kinds: by (group, kind), and the first kind of each plural.
        self._by_kind: dict[tuple[str, str], Kind] = {}
        self._by_plural: dict[str, Kind] = {}
        self._listeners: list[KindListener] = []
        for kind in kinds:
            self.register(kind)

    def __iter__(self) -> Iterator[Kind]:
        """Go through the kinds in the order in which they were registered."""
        return iter(tuple(self._kinds.values()))

    def register(self, kind: Kind) -> None:
        """Serve a kind from now on.

        Raises:
            ValueError: the group has a resource of this plural, or a kind of this name.
        """
        if (kind.group, kind.plural) in self._kinds:
            raise ValueError(f"resource {kind.resource} is already registered")
        if (kind.group, kind.kind) in self._by_kind:
            raise ValueError(f"kind {kind.qualified} is already registered")
        self._kinds[kind.group, kind.plural] = kind
        self._announce(kind, True)

    def unregister(self, group: str, plural: str) -> Kind:
        """Stop serving a kind, and return it; its stored objects stay.

        Raises:
            KeyError: it is not registered.
        """
        kind = self._kinds.pop((group, plural))
        self._announce(kind, False)
        return kind

    def subscribe(self, listener: KindListener) -> None:
        """Call `listener` for each kind that is registered or removed from now on."""
        self._listeners.append(listener)

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """Find the kind of a resource path."""
        kind = self._kinds.get((group, plural))
        return kind.at(version) if kind is not None and version in kind.versions else None

    def find_kind(self, group: str, name: str) -> Kind | None:
        """Find the kind of an owner reference; its version is ignored."""
        return self._by_kind.get((group, name))

    def resource(self, name: str) -> Kind:
        """Return the kind of `configmaps` or `deployments.apps` (schema.ParseGroupResource).

        A plural alone means the first registered kind that has it, as a RESTMapper takes groups
        by priority.

        Raises:
            KeyError: no such kind is registered.
        """
        plural, _, group = name.partition(".")
        kind = self._kinds.get((group, plural)) if group else self._by_plural.get(plural)
        version, dot, rest = group.partition(".")
        if kind is None and dot:
            # `widgets.v1beta1.example.com`, as kubectl takes it, too.
            kind = self.find(rest, version, plural)
        if kind is None:
            raise KeyError(f"resource {name} is not registered")
        return kind

    def name(self, kind: Kind) -> str:
        """Return the shortest name by which `resource` finds a kind."""
        known = self._kinds.get((kind.group, kind.plural))
        if known is not None and kind.version != known.version:
            return f"{kind.plural}.{kind.version}.{kind.group}"
        return kind.plural if self._by_plural.get(kind.plural) is kind else kind.resource

    def group_versions(self) -> tuple[tuple[str, str], ...]:
        """Return the served groups and versions, preferred versions first."""
        kinds = self._kinds.values()
        found = ((kind.group, version) for kind in kinds for version in kind.versions)
        return tuple(dict.fromkeys(found))

    def _announce(self, kind: Kind, served: bool) -> None:
        kinds = self._kinds.values()
        self._by_kind = {(known.group, known.kind): known for known in kinds}
        self._by_plural = {known.plural: known for known in reversed(kinds)}
        for listener in tuple(self._listeners):
            listener(kind, served)
