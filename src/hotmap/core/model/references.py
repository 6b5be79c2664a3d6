"""Which ConfigMaps and Secrets a pod template uses, where, which data keys, and how.

A use is *frozen* when the value is fixed at the start of a container (environment, subPath,
whatever an init container reads) and *live* when the kubelet rewrites the files while the
container runs. What to do about a change is decided in `plan`; nothing here looks at content.

Rules (kubernetes: pkg/kubelet/kubelet_pods.go makeEnvironmentVariables and makeMounts,
pkg/api/v1/pod/util.go VisitPodConfigmapNames and VisitPodSecretNames):

* env `configMapKeyRef` and `secretKeyRef` read one data key; `binaryData` is never looked at
* envFrom reads every data key, without `binaryData`; an `env` entry of the same name hides it
* a volume is a use only where a container mounts it; with `items` only those data keys
* subPath pins the inode, so it is frozen for the data keys that lie at that path
* a restartable init container (restartPolicy Always) runs on, so its mounts are live
* imagePullSecrets and volume drivers' logins are credentials: no process ever sees them
"""

from __future__ import annotations

import enum
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from hotmap.core.model.limits import (
    MAX_USES,
    MAX_USES_SIZE,
    LimitExceeded,
    StepCounter,
    check_pod_spec,
)
from hotmap.core.model.objects import (
    Container,
    EnvVar,
    EnvVarSource,
    KeyToPath,
    ObjectKey,
    PodSpec,
    PodTemplate,
    Volume,
    VolumeMount,
)
from hotmap.core.reloader.patch import is_reloader_variable
from hotmap.core.text import printable

__all__ = ["EVERY_KEY", "Keys", "Use", "UseKind", "expansions", "find_uses"]

#: Characters of one name or path that are kept. The name of an object has at most 253, so what is
#: cut, or holds an escaped character, is the name of no object.
_LONGEST = 253


class UseKind(enum.Enum):
    """When a use takes a new value."""

    #: At the next start of the container.
    FROZEN = "frozen"
    #: While the container runs, when the kubelet syncs.
    LIVE = "live"
    #: Read by the kubelet or a driver, never by a process of the pod.
    CREDENTIAL = "credential"
    #: Content that lies outside of Kubernetes (a CSI secret store).
    FOREIGN = "foreign"


class Keys(NamedTuple):
    """Which data keys of a source a use reads."""

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


EVERY_KEY = Keys()
NO_KEYS = Keys(frozenset())


class Use(NamedTuple):
    """A place of a pod template that uses one source; equal uses of a container are one."""

    source: ObjectKey
    kind: UseKind
    keys: Keys
    #: Where, as a person finds it in the manifest: `containers[web].env[LEVEL]`. Printable.
    path: str
    optional: bool = False
    #: Whether an init container that runs to completion reads it.
    init: bool = False
    #: The container that reads it; "" where no container does.
    container: str = ""


def find_uses(template: PodTemplate, namespace: str) -> tuple[Use, ...]:
    """List every use of a ConfigMap or Secret in a pod template, in the manifest's order.

    Sources lie in the pod's own `namespace`. A source that is mounted as a whole and by subPath
    is listed twice: each use has its own kind and data keys. Places of one container that use the
    same data keys in the same way are one use, whose path names the first of them.

    Raises:
        LimitExceeded: the template is larger than `limits` allows.
    """
    spec = template.spec
    check_pod_spec(spec)
    found, steps = _Uses(), StepCounter()
    volumes = {
        volume.name: _MountableVolume(volume, namespace)
        for volume in spec.volumes or ()
        if _brings_source(volume)
    }
    for container, place, init in _containers(spec):
        if container.env or container.env_from:
            environment = _Environment(container, steps)
            found.add_all(_environment_uses(environment, place, namespace, init=init))
        if volumes and container.volume_mounts:
            found.add_all(_mount_uses(container, place, volumes, steps, init=init))
    found.add_all(_credential_uses(spec, namespace))
    return found.listed()


def _containers(spec: PodSpec) -> Iterator[tuple[Container, str, bool]]:
    """List containers with the words for their place, and whether they run to completion."""
    for container in spec.init_containers or ():
        place = f"initContainers[{printable(container.name, _LONGEST)}]"
        yield container, place, container.restart_policy != "Always"
    for container in spec.containers or ():
        yield container, f"containers[{printable(container.name, _LONGEST)}]", False


class _Uses:
    """Collects uses; those that differ only in their place become one.

    Invariant: at most MAX_USES uses, with at most MAX_USES_SIZE characters.
    """

    def __init__(self) -> None:
        self._uses: dict[Use, Use] = {}
        #: How many places more than the first one a use has.
        self._more: dict[Use, int] = {}
        self._size = 0

    def add_all(self, uses: Iterable[Use]) -> None:
        """Add uses.

        Raises:
            LimitExceeded: there are too many, or their data keys are.
        """
        for use in uses:
            anywhere = use._replace(path="")
            if anywhere in self._uses:
                self._more[anywhere] = self._more.get(anywhere, 0) + 1
                continue
            self._uses[anywhere] = use
            self._size += len(use.path) + _size(use.keys)
            if len(self._uses) > MAX_USES:
                raise LimitExceeded("uses of ConfigMaps and Secrets", MAX_USES)
            if self._size > MAX_USES_SIZE:
                raise LimitExceeded("characters in names of data keys and paths", MAX_USES_SIZE)

    def listed(self) -> tuple[Use, ...]:
        """List the uses in the order in which they were added."""
        return tuple(
            use._replace(path=f"{use.path} (and {more} more)")
            if (more := self._more.get(anywhere))
            else use
            for anywhere, use in self._uses.items()
        )


def _size(keys: Keys) -> int:
    if not keys.names and not keys.hidden:
        return 0
    return sum(len(name) + 1 for names in (keys.names or (), keys.hidden) for name in names)


#: Data keys of a value that is kept once for all uses; a larger one is rarely equal to another.
_FEW = 16


def _shared(keys: Keys) -> Keys:
    """Return an equal value that is kept once: the same few data keys are used everywhere."""
    few = len(keys.names or ()) + len(keys.hidden) <= _FEW
    return _kept_once(keys) if few else keys


@lru_cache(maxsize=4096)
def _kept_once(keys: Keys) -> Keys:
    return keys


def _source(kind: str, namespace: str, name: str) -> ObjectKey:
    """Name a source; no object can have a name that needs escaping, or a longer one."""
    return ObjectKey(kind, namespace, printable(name, _LONGEST))


# -- environment -----------------------------------------------------------------------------

#: Of the places that a variable ends up in, how many are named.
_PLACES_SHOWN = 4

#: The first places in order, one more than is named where there are more.
_Places = tuple[str, ...]


class _Environment:
    """The variables of one container, and what is worked out once for all of them."""

    def __init__(self, container: Container, steps: StepCounter) -> None:
        self.container = container
        self.entries: Sequence[EnvVar] = container.env or ()
        self._steps = steps
        self._hidden: dict[str, Keys] = {}
        self._through: dict[str, str] = {}

    def imported_keys(self, prefix: str) -> Keys:
        """Select the data keys that an envFrom with a prefix brings in."""
        keys = self._hidden.get(prefix)
        if keys is None:
            self._steps.add(len(self._replaced_names))
            hidden = {
                printable(name[len(prefix) :], _LONGEST)
                for name in self._replaced_names
                if name.startswith(prefix) and len(name) > len(prefix)
            }
            keys = self._hidden[prefix] = _shared(Keys(hidden=frozenset(hidden), binary=False))
        return keys

    def places_of_imported(self, prefix: str) -> str:
        """Say where variables that an envFrom brings in end up by `$(NAME)`."""
        words = self._through.get(prefix)
        if words is None:
            self._steps.add(len(self._places))
            places: _Places = ()
            for name, found in self._places.items():
                if name.startswith(prefix) and name not in self._names:
                    places = _merged(places, found)
            words = self._through[prefix] = _via(places)
        return words

    def places_of(self, name: str) -> str:
        """Say where a variable ends up by `$(NAME)`."""
        return _via(self._places.get(name, ()))

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(entry.name for entry in self.entries)

    @cached_property
    def _replaced_names(self) -> list[str]:
        """Name the variables for which no imported value of the same name is ever read.

        An entry hides the imported variable when it certainly sets one (a literal or a reference
        that is not optional) and no entry up to it reads the imported value by `$(NAME)`
        (kubernetes: expansion sees what is set so far, so `A: $(A)2` reads the imported A).

        A variable that a rollout in Reloader's way wrote hides nothing: it comes and goes with
        rollouts, and what a template uses must not change by what is written to roll it.
        """
        names: dict[str, None] = {}
        read: set[str] = set()
        for entry in self.entries:
            if value := entry.value:
                read.update(self._expansions(value))
            certain = entry.value_from is None or bool(value) or _required(entry.value_from)
            if certain and entry.name not in read and not is_reloader_variable(entry):
                names[entry.name] = None
        return list(names)

    @cached_property
    def _places(self) -> Mapping[str, _Places]:
        """Map each variable to the places where it ends up by `$(NAME)`, also through others.

        Only as many places are kept as are named, or a chain of 6,000 variables has 18 million.
        """
        places: dict[str, _Places] = {}
        container = self.container
        for field, texts in (("command", container.command), ("args", container.args)):
            for number, text in enumerate(texts or ()):
                for name in self._expansions(text):
                    places[name] = _merged(places.get(name, ()), (f"{field}[{number}]",))
        for mount in container.volume_mounts or ():
            if mount.sub_path_expr:
                here = (f"subPathExpr of {printable(mount.mount_path, _LONGEST)}",)
                for name in self._expansions(mount.sub_path_expr):
                    places[name] = _merged(places.get(name, ()), here)
        # An entry can only read what stands before it, so one pass from the end closes the chain.
        for entry in reversed(self.entries):
            names = self._expansions(entry.value) if entry.value else ()
            if names:
                entry_places = _merged((f"env[{_shown(entry.name)}]",), places.get(entry.name, ()))
                for name in names:
                    if name != entry.name:
                        places[name] = _merged(places.get(name, ()), entry_places)
        return places

    def literal_path(self, expression: str) -> str | None:
        """Expand a subPathExpr from literal variables, or None when it needs anything else.

        None also where it would be longer than a path may be: such a pod does not start.
        """
        names = self._expansions(expression)
        literals = self._literals
        if any(name not in literals for name in names):
            return None
        if len(expression) + sum(len(literals[name]) for name in names) > _LONGEST_PATH:
            return None
        # In one pass: an escape or a value that looks like an expansion is not one.
        return _EXPANSION.sub(
            lambda match: "$" if match[1] is None else literals[match[1]], expression
        )

    @cached_property
    def _literals(self) -> Mapping[str, str]:
        literals: dict[str, str] = {}
        if not self.container.env_from:
            for entry in self.entries:
                if entry.value_from is None and "$" not in (entry.value or ""):
                    literals[entry.name] = entry.value or ""
                else:
                    literals.pop(entry.name, None)
        return literals

    def _expansions(self, text: str) -> Sequence[str]:
        self._steps.add(text.count("$("))
        return expansions(text)


#: Linux: PATH_MAX.
_LONGEST_PATH = 4096


def _merged(one: _Places, other: _Places) -> _Places:
    """Merge places, as many as are needed to name the first ones and to know of more."""
    if not one or not other:
        return one or other
    return tuple(sorted({*one, *other})[: _PLACES_SHOWN + 1])


def _via(places: _Places) -> str:
    if not places:
        return ""
    more = " and more" if len(places) > _PLACES_SHOWN else ""
    return f", through $(…) in {', '.join(places[:_PLACES_SHOWN])}{more}"


def _shown(name: str) -> str:
    return printable(name, 64)


def _environment_uses(
    environment: _Environment, place: str, namespace: str, *, init: bool
) -> Iterator[Use]:
    container = environment.container
    reader = printable(container.name, _LONGEST)
    for number, entry_from in enumerate(container.env_from or ()):
        for kind, ref in (
            ("ConfigMap", entry_from.config_map_ref),
            ("Secret", entry_from.secret_ref),
        ):
            if ref is not None:
                prefix = entry_from.prefix
                yield Use(
                    _source(kind, namespace, ref.name),
                    UseKind.FROZEN,
                    environment.imported_keys(prefix),
                    f"{place}.envFrom[{number}]{environment.places_of_imported(prefix)}",
                    bool(ref.optional),
                    init,
                    reader,
                )
    for entry in environment.entries:
        value_from = entry.value_from
        if value_from is None or entry.value:
            continue
        for kind, selector in (
            ("ConfigMap", value_from.config_map_key_ref),
            ("Secret", value_from.secret_key_ref),
        ):
            if selector is not None:
                yield Use(
                    _source(kind, namespace, selector.name),
                    UseKind.FROZEN,
                    _variable(printable(selector.key, _LONGEST)),
                    f"{place}.env[{_shown(entry.name)}]{environment.places_of(entry.name)}",
                    bool(selector.optional),
                    init,
                    reader,
                )


@lru_cache(maxsize=4096)
def _variable(data_key: str) -> Keys:
    """What a variable reads of a source: one data key, never of `binaryData`."""
    return Keys(frozenset((data_key,)), binary=False)


def _required(source: EnvVarSource) -> bool:
    selector = source.config_map_key_ref or source.secret_key_ref
    return selector is None or not selector.optional


#: `$$` or `$(NAME)`, where a name is everything up to the next `)`; what is neither is literal
#: (kubernetes: third_party/forked/golang/expansion/expand.go).
_EXPANSION = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expansions(text: str) -> Sequence[str]:
    """List the names that `$(NAME)` in a text refers to; `$$` escapes."""
    if "$(" not in text:  # nearly always, and ten times faster than the expression
        return ()
    # Behind the last bracket no name ends; each `$(` there would be searched to the end in vain.
    end = text.rfind(")") + 1
    found = _EXPANSION.finditer(text, 0, end)
    return [name for match in found if (name := match[1]) is not None]


# -- volumes ---------------------------------------------------------------------------------


class _Projected(NamedTuple):
    """What one source brings into a volume."""

    source: ObjectKey
    keys: Keys
    #: (path with a slash at its end, data key) of each item; None: each data key is a file.
    files: tuple[tuple[str, str], ...] | None
    optional: bool

    def keys_below(self, path: str | None) -> Keys:
        """Select the data keys whose file is, or lies below, a path inside the volume.

        The path is as `_path_in_volume` returns it. Paths are compared by whole elements.
        """
        if path is None:
            return self.keys
        if self.files is None:
            return (
                NO_KEYS if "/" in path else _shared(Keys(frozenset((printable(path, _LONGEST),))))
            )
        below = path + "/"
        keys = [key for file, key in self.files if file.startswith(below)]
        return _shared(Keys(frozenset(keys))) if keys else NO_KEYS


def _path_in_volume(sub_path: str | None) -> str | None:
    """Say which part of a volume a subPath selects, or None where it may be all of it.

    `sub_path` None means that the path depends on content.
    """
    if sub_path is None:
        return None
    path = posixpath.normpath(sub_path)
    return None if path in (".", "..data") else path.removeprefix("..data/")


class _MountableVolume:
    """A volume with sources in it, prepared once for all of its mounts."""

    def __init__(self, volume: Volume, namespace: str) -> None:
        self.name = printable(volume.name, _LONGEST)
        self._volume = volume
        self._namespace = namespace

    @cached_property
    def projected(self) -> Sequence[_Projected]:
        """List what its sources bring in, each once."""
        return list(dict.fromkeys(_projected(self._volume, self._namespace)))

    @cached_property
    def provider(self) -> ObjectKey | None:
        """Name the SecretProviderClass that fills it, if one does."""
        csi = self._volume.csi
        name = (csi.volume_attributes or {}).get("secretProviderClass") if csi else None
        return _source("SecretProviderClass", self._namespace, name) if name else None


def _brings_source(volume: Volume) -> bool:
    """Tell the few volumes that matter from emptyDirs, claims and host paths."""
    return bool(volume.config_map or volume.secret or volume.projected or volume.csi)


def _projected(volume: Volume, namespace: str) -> Iterator[_Projected]:
    parts: list[tuple[str, str, Sequence[KeyToPath] | None, bool | None]] = []
    if config_map := volume.config_map:
        parts.append(("ConfigMap", config_map.name, config_map.items, config_map.optional))
    if secret := volume.secret:
        parts.append(("Secret", secret.secret_name, secret.items, secret.optional))
    for projection in (volume.projected.sources or ()) if volume.projected else ():
        for kind, source in (("ConfigMap", projection.config_map), ("Secret", projection.secret)):
            if source is not None:
                parts.append((kind, source.name, source.items, source.optional))
    for kind, name, items, optional in parts:
        named = [(item.path, printable(item.key, _LONGEST)) for item in items or ()]
        yield _Projected(
            _source(kind, namespace, name),
            _shared(Keys(frozenset(key for _, key in named))) if named else EVERY_KEY,
            tuple((posixpath.normpath(path) + "/", key) for path, key in named) or None,
            bool(optional),
        )


def _mount_uses(
    container: Container,
    place: str,
    volumes: Mapping[str, _MountableVolume],
    steps: StepCounter,
    *,
    init: bool,
) -> Iterator[Use]:
    environment = _Environment(container, steps)
    reader = printable(container.name, _LONGEST)
    for mount, count in _different_mounts(container.volume_mounts or (), volumes):
        volume = volumes[mount.name]
        at = f"volumes[{volume.name}] at {place}:{printable(mount.mount_path, _LONGEST)}"
        if count > 1:
            at += f" (and {count - 1} more)"
        by_path = mount.sub_path or mount.sub_path_expr
        if by_path:
            sub_path = mount.sub_path or environment.literal_path(mount.sub_path_expr)
            # A subPath of "." binds the volume's own directory, where the swap is seen.
            whole = sub_path is not None and posixpath.normpath(sub_path) == "."
            kind = UseKind.LIVE if whole and not init else UseKind.FROZEN
            where = f"{at} (subPath {printable(by_path, _LONGEST)})"
        else:
            sub_path = None
            kind = UseKind.FROZEN if init else UseKind.LIVE
            where = at
        path = _path_in_volume(sub_path)
        for item in volume.projected:
            steps.add(1 + len(item.files or ()) if by_path else 1)
            keys = item.keys_below(path)
            if keys.names is None or keys.names:
                yield Use(item.source, kind, keys, where, item.optional, init, reader)
        if volume.provider:
            yield Use(volume.provider, UseKind.FOREIGN, EVERY_KEY, at, container=reader, init=init)


def _different_mounts(
    mounts: Iterable[VolumeMount], volumes: Collection[str]
) -> Iterable[tuple[VolumeMount, int]]:
    """List the first mount of each part of some volumes, and how often that part is mounted."""
    different: dict[tuple[str, str, str], tuple[VolumeMount, int]] = {}
    for mount in mounts:
        if mount.name in volumes:
            part = mount.name, mount.sub_path, mount.sub_path_expr
            first, count = different.get(part, (mount, 0))
            different[part] = first, count + 1
    return different.values()


# -- credentials -----------------------------------------------------------------------------


def _credential_uses(spec: PodSpec, namespace: str) -> Iterator[Use]:
    for ref in spec.image_pull_secrets or ():
        source = _source("Secret", namespace, ref.name)
        path = f"imagePullSecrets[{source.name}]"
        yield Use(source, UseKind.CREDENTIAL, EVERY_KEY, path, optional=True)
    for volume in spec.volumes or ():
        if volume.config_map or volume.secret or volume.projected:
            continue  # a volume has one source, so this one has no driver
        for name in _login_secrets(volume):
            source = _source("Secret", namespace, name)
            path = f"volumes[{printable(volume.name, _LONGEST)}]"
            yield Use(source, UseKind.CREDENTIAL, EVERY_KEY, path)


def _login_secrets(volume: Volume) -> Iterable[str]:
    """Name the Secrets that a volume's driver logs in with (core/v1 Volume)."""
    if volume.csi and volume.csi.node_publish_secret_ref:
        yield volume.csi.node_publish_secret_ref.name
    for driver in (
        volume.azure_file,
        volume.cephfs,
        volume.cinder,
        volume.flex_volume,
        volume.iscsi,
        volume.rbd,
        volume.scale_io,
        volume.storageos,
    ):
        if driver and driver.secret_ref:
            yield driver.secret_ref.name
        elif driver and driver.secret_name:
            yield driver.secret_name
