"""Uses of ConfigMaps and Secrets as values: which source, which data keys, where, and how.

A use is *frozen* when the value is fixed at the start of a container (environment, subPath,
everything that an init container reads) and *live* when the kubelet rewrites the files while the
container runs. `template_uses` finds the uses of a pod template.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from hotmap.core.model.objects import ObjectKey
from hotmap.core.text import printable

__all__ = [
    "EVERY_KEY",
    "LONGEST_NAME",
    "NO_KEYS",
    "Keys",
    "Override",
    "Use",
    "UseKind",
    "merge_keys",
    "share_keys",
    "source_key",
    "source_name",
]

#: Characters of one name or path that are kept. The name of an object has at most 253, so a text
#: that is cut, or has an escaped character, is not the name of an object.
LONGEST_NAME = 253


class UseKind(enum.Enum):
    """When a use takes a new value."""

    #: At the next start of the container.
    FROZEN = "frozen"
    #: While the container runs, when the kubelet syncs.
    LIVE = "live"
    #: Read by the kubelet or a driver, never by a process of the pod.
    CREDENTIAL = "credential"
    #: Files of an external secret store, which a CSI driver may update while the container runs.
    #: `policy.followed_uses` makes them frozen or live.
    FOREIGN = "foreign"

    #: Each member exists once; Enum's own is written in Python, and uses are keys of dictionaries.
    __hash__ = object.__hash__


class Keys(NamedTuple):
    """The data keys of a source that a use reads."""

    #: The data keys by name, or None for every one.
    names: frozenset[str] | None = None
    #: Data keys that are hidden although `names` would read them.
    hidden: frozenset[str] = frozenset()
    #: Whether `binaryData` is read too.
    binary: bool = True

    def select(self, data_key: str, *, binary: bool) -> bool:
        """Return whether a data key of `data` (or of `binaryData`) is read."""
        if binary and not self.binary:
            return False
        if data_key in self.hidden:
            return False
        return self.names is None or data_key in self.names

    def reads(self, data_key: str) -> bool:
        """Return whether a data key is read, wherever it is."""
        # What reads `binaryData` reads `data` as well.
        return self.select(data_key, binary=False)


EVERY_KEY = Keys()
NO_KEYS = Keys(frozenset())


class Override(NamedTuple):
    """A source whose data keys replace those of another source in the same environment.

    A data key of it replaces the one that is named the same after `strip` was removed from its
    begin and `add` was put there; both are "" unless the prefixes differ.
    """

    source: ObjectKey
    strip: str = ""
    add: str = ""

    def replaces(self, data_key: str) -> str:
        """Return which data key of the other source a data key of this one replaces, or ""."""
        if not data_key.startswith(self.strip):
            return ""
        return self.add + data_key[len(self.strip) :]


class Use(NamedTuple):
    """A place of a pod template that uses one source; equal uses of a container are one."""

    source: ObjectKey
    kind: UseKind
    keys: Keys
    #: Its place in the manifest: `containers[web].env[LEVEL]`. Printable.
    path: str
    optional: bool = False
    #: Whether an init container that runs to completion reads it.
    init: bool = False
    #: The container that reads it; "" where no container does.
    container: str = ""
    #: Later sources of the same environment: what they have is not read from this one.
    overrides: tuple[Override, ...] = ()

    @property
    def by_sidecar(self) -> bool:
        """Whether an init container that runs beside the application reads it."""
        return not self.init and "initContainers[" in self.path

    @property
    def reads_files(self) -> bool:
        """Whether it reads files of a volume, which may be older than the container's start."""
        return self.path.startswith("volumes[")


#: Maximum data keys of a value that uses share; a larger one is rarely equal to another.
_FEW = 16


def share_keys(keys: Keys) -> Keys:
    """Return a shared equal value: most templates use the same few data keys."""
    few = len(keys.names or ()) + len(keys.hidden) <= _FEW
    return _kept_once(keys) if few else keys


@lru_cache(maxsize=4096)
def _kept_once(keys: Keys) -> Keys:
    return keys


def source_key(kind: str, namespace: str, name: str) -> ObjectKey:
    """Build the key of a source that a manifest names."""
    return ObjectKey(kind, namespace, source_name(name))


def source_name(name: str) -> str:
    """Return a name as it is kept; no object has one that needs escaping, or a longer one."""
    if len(name) > LONGEST_NAME or not name.isprintable():
        return printable(name, LONGEST_NAME)
    return name


def merge_keys(wanted: Iterable[Keys]) -> tuple[Keys, ...]:
    """Replace uses of one source by at most four that read the same together."""
    wanted = tuple(wanted)
    if len(wanted) < 2:
        return wanted
    named: dict[bool, set[str]] = {}
    hidden: dict[bool, frozenset[str]] = {}
    for entry in wanted:
        if entry.names is not None:
            named.setdefault(entry.binary, set()).update(entry.names - entry.hidden)
        else:
            hidden[entry.binary] = hidden.get(entry.binary, entry.hidden) & entry.hidden
    return (
        *(Keys(frozenset(names), binary=binary) for binary, names in named.items()),
        *(Keys(None, names, binary) for binary, names in hidden.items()),
    )
