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
from functools import lru_cache
from typing import NamedTuple

from hotmap.core.model.objects import (
    Container,
    EnvVar,
    KeyToPath,
    ObjectKey,
    PodSpec,
    PodTemplate,
    Volume,
    VolumeMount,
)

__all__ = ["EVERY_KEY", "Keys", "Life", "Use", "expansions", "find_uses"]


class Life(enum.Enum):
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
        """Tell whether a data key of `data` (or of `binaryData`) is read."""
        if binary and not self.binary:
            return False
        if data_key in self.hidden:
            return False
        return self.names is None or data_key in self.names


EVERY_KEY = Keys()


@lru_cache(maxsize=4096)
def _shared(keys: Keys) -> Keys:
    """Return an equal value that is kept once: the same few data keys are used everywhere."""
    return keys


@lru_cache(maxsize=4096)
def _variable(data_key: str) -> Keys:
    """What a variable reads of a source: one data key, never of `binaryData`."""
    return Keys(frozenset((data_key,)), binary=False)


class Use(NamedTuple):
    """One place of a pod template that uses one source."""

    source: ObjectKey
    life: Life
    keys: Keys
    #: Where, as a person finds it in the manifest: `containers[web].env[LEVEL]`.
    path: str
    optional: bool = False
    #: Whether an init container that runs to completion reads it.
    init: bool = False
    #: The container that reads it; "" where no container does.
    container: str = ""


class _Item(NamedTuple):
    """What one source brings into a volume."""

    source: ObjectKey
    items: Sequence[KeyToPath] | None
    optional: bool


def find_uses(template: PodTemplate, namespace: str) -> tuple[Use, ...]:
    """List every use of a ConfigMap or Secret in a pod template, in the manifest's order.

    Sources lie in the pod's own `namespace`. A source that is mounted twice is listed twice:
    each use has its own life and data keys.
    """
    spec = template.spec
    uses: list[Use] = []
    volumes = {volume.name: volume for volume in spec.volumes or () if _brings_source(volume)}
    for container, place, init in _containers(spec):
        if container.env or container.env_from:
            uses += _environment_uses(container, f"{place}[{container.name}]", namespace, init)
        for mount in container.volume_mounts or ():
            if volume := volumes.get(mount.name):
                at = f"volumes[{volume.name}] at {place}[{container.name}]:{mount.mount_path}"
                uses += _mount_uses(container, volume, mount, at, namespace, init)
    uses += _credential_uses(spec, namespace)
    return tuple(uses)


def _containers(spec: PodSpec) -> Iterator[tuple[Container, str, bool]]:
    for container in spec.init_containers or ():
        yield container, "initContainers", container.restart_policy != "Always"
    for container in spec.containers or ():
        yield container, "containers", False


# -- environment -----------------------------------------------------------------------------


def _environment_uses(
    container: Container, place: str, namespace: str, init: bool
) -> Iterator[Use]:
    entries = container.env or ()
    if not container.env_from and not any(entry.value_from for entry in entries):
        return
    reached = _reached(container)
    for number, entry_from in enumerate(container.env_from or ()):
        for kind, ref in (
            ("ConfigMap", entry_from.config_map_ref),
            ("Secret", entry_from.secret_ref),
        ):
            if ref is None:
                continue
            prefix = entry_from.prefix
            through = _through(prefix, entries, reached) if reached else ()
            yield Use(
                ObjectKey(kind, namespace, ref.name),
                Life.FROZEN,
                _shared(Keys(hidden=_hidden_keys(entries, prefix), binary=False)),
                f"{place}.envFrom[{number}]" + _via(through),
                optional=bool(ref.optional),
                init=init,
                container=container.name,
            )
    for entry in entries:
        value_from = entry.value_from
        if value_from is None or entry.value:
            continue
        for kind, selector in (
            ("ConfigMap", value_from.config_map_key_ref),
            ("Secret", value_from.secret_key_ref),
        ):
            if selector is None:
                continue
            via = _via(reached[entry.name]) if entry.name in reached else ""
            yield Use(
                ObjectKey(kind, namespace, selector.name),
                Life.FROZEN,
                _variable(selector.key),
                f"{place}.env[{entry.name}]{via}",
                bool(selector.optional),
                init,
                container.name,
            )


def _through(
    prefix: str, entries: Sequence[EnvVar], reached: Mapping[str, set[str]]
) -> Collection[str]:
    """Name the places where imported variables may end up by `$(NAME)`."""
    defined = {entry.name for entry in entries}
    return {
        spot
        for name, spots in reached.items()
        if name.startswith(prefix) and name not in defined
        for spot in spots
    }


def _via(spots: Collection[str]) -> str:
    return f", through $(…) in {', '.join(sorted(spots))}" if spots else ""


def _hidden_keys(entries: Sequence[EnvVar], prefix: str) -> frozenset[str]:
    """Name the data keys of an envFrom that an `env` entry always replaces.

    An entry hides the imported variable when it certainly sets one (a literal or a reference
    that is not optional) and no entry up to it reads the imported value by `$(NAME)`
    (kubernetes: expansion sees what is set so far, so `A: $(A)2` reads the imported A).
    """
    hidden: set[str] = set()
    read: set[str] = set()
    for entry in entries:
        if value := entry.value:
            read.update(expansions(value))
        certain = entry.value_from is None or bool(value) or _required(entry)
        if certain and entry.name not in read and entry.name.startswith(prefix):
            hidden.add(entry.name[len(prefix) :])
    hidden.discard("")
    return frozenset(hidden)


def _required(entry: EnvVar) -> bool:
    source = entry.value_from
    if source is None:
        return True
    selector = source.config_map_key_ref or source.secret_key_ref
    return selector is None or not selector.optional


#: `$$` or `$(NAME)`, where a name is everything up to the next `)`; what is neither is literal
#: (kubernetes: third_party/forked/golang/expansion/expand.go).
_EXPANSION = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expansions(text: str) -> Sequence[str]:
    """List the names that `$(NAME)` in a text refers to; `$$` escapes."""
    if "$(" not in text:  # nearly always, and ten times faster than the expression
        return ()
    return [name for match in _EXPANSION.finditer(text) if (name := match[1]) is not None]


def _reached(container: Container) -> dict[str, set[str]]:
    """Map each variable to the places where it ends up by `$(NAME)`, also through others."""
    direct: dict[str, set[str]] = {}
    for field, texts in (("command", container.command), ("args", container.args)):
        for number, text in enumerate(texts or ()):
            for name in expansions(text):
                direct.setdefault(name, set()).add(f"{field}[{number}]")
    for mount in container.volume_mounts or ():
        if mount.sub_path_expr:
            for name in expansions(mount.sub_path_expr):
                direct.setdefault(name, set()).add(f"subPathExpr of {mount.mount_path}")
    # An entry can only read what stands before it, so one pass from the end closes the chain.
    for entry in reversed(container.env or ()):
        for name in expansions(entry.value) if entry.value else ():
            if name != entry.name:
                spots = direct.setdefault(name, set())
                spots.add(f"env[{entry.name}]")
                spots |= direct.get(entry.name, set())
    return direct


# -- volumes ---------------------------------------------------------------------------------


def _mount_uses(
    container: Container,
    volume: Volume,
    mount: VolumeMount,
    at: str,
    namespace: str,
    init: bool,
) -> Iterator[Use]:
    for item in _volume_items(volume, namespace):
        if mount.sub_path or mount.sub_path_expr:
            sub_path = mount.sub_path or _expanded(mount.sub_path_expr, container)
            keys = _keys_below(item.items, sub_path)
            # A subPath of "." binds the volume's own directory, where the swap is seen.
            whole = sub_path is not None and posixpath.normpath(sub_path) == "."
            life = Life.LIVE if whole and not init else Life.FROZEN
            where = f"{at} (subPath {mount.sub_path or mount.sub_path_expr})"
        else:
            keys = _item_keys(item.items)
            life = Life.FROZEN if init else Life.LIVE
            where = at
        if keys.names is None or keys.names:
            yield Use(item.source, life, keys, where, item.optional, init, container.name)
    if volume.csi and (provider := (volume.csi.volume_attributes or {}).get("secretProviderClass")):
        source = ObjectKey("SecretProviderClass", namespace, provider)
        yield Use(source, Life.FOREIGN, EVERY_KEY, at, container=container.name, init=init)


def _brings_source(volume: Volume) -> bool:
    """Tell the few volumes that matter from emptyDirs, claims and host paths."""
    return bool(volume.config_map or volume.secret or volume.projected or volume.csi)


def _volume_items(volume: Volume, namespace: str) -> Iterator[_Item]:
    if part := volume.config_map:
        yield _Item(ObjectKey("ConfigMap", namespace, part.name), part.items, bool(part.optional))
    if secret := volume.secret:
        name = ObjectKey("Secret", namespace, secret.secret_name)
        yield _Item(name, secret.items, bool(secret.optional))
    for projection in (volume.projected.sources or ()) if volume.projected else ():
        for kind, source in (("ConfigMap", projection.config_map), ("Secret", projection.secret)):
            if source is not None:
                name = ObjectKey(kind, namespace, source.name)
                yield _Item(name, source.items, bool(source.optional))


def _item_keys(items: Sequence[KeyToPath] | None) -> Keys:
    if not items:
        return EVERY_KEY
    return _shared(Keys(frozenset([item.key for item in items])))


def _keys_below(items: Sequence[KeyToPath] | None, sub_path: str | None) -> Keys:
    """Select the data keys whose file is, or lies below, a path inside the volume.

    `sub_path` None means that the path depends on content, so every data key of the volume may
    be meant. Paths are compared by whole elements.
    """
    if sub_path is None:
        return _item_keys(items)
    path = posixpath.normpath(sub_path)
    if path in (".", "..data"):
        return _item_keys(items)
    path = path.removeprefix("..data/")
    if not items:
        return Keys(frozenset() if "/" in path else frozenset((path,)))
    return Keys(
        frozenset(
            item.key
            for item in items
            if (posixpath.normpath(item.path) + "/").startswith(path + "/")
        )
    )


def _expanded(expression: str, container: Container) -> str | None:
    """Expand a subPathExpr from literal variables, or None when it needs anything else."""
    literals: dict[str, str] = {}
    if not container.env_from:
        for entry in container.env or ():
            if entry.value_from is None and "$" not in (entry.value or ""):
                literals[entry.name] = entry.value or ""
            else:
                literals.pop(entry.name, None)
    if any(name not in literals for name in expansions(expression)):
        return None
    # In one pass: an escape or a value that looks like an expansion is not one.
    return _EXPANSION.sub(lambda match: "$" if match[1] is None else literals[match[1]], expression)


# -- credentials -----------------------------------------------------------------------------


def _credential_uses(spec: PodSpec, namespace: str) -> Iterator[Use]:
    for ref in spec.image_pull_secrets or ():
        yield Use(
            ObjectKey("Secret", namespace, ref.name),
            Life.CREDENTIAL,
            EVERY_KEY,
            f"imagePullSecrets[{ref.name}]",
            optional=True,
        )
    for volume in spec.volumes or ():
        if volume.config_map or volume.secret or volume.projected:
            continue  # a volume has one source, so this one has no driver
        for name in _login_secrets(volume):
            yield Use(
                ObjectKey("Secret", namespace, name),
                Life.CREDENTIAL,
                EVERY_KEY,
                f"volumes[{volume.name}]",
            )


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
