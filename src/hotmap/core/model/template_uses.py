"""Finds which ConfigMaps and Secrets a pod template uses, where, which data keys, and how.

A use is *frozen* when the value is fixed at the start of a container (environment, subPath,
everything that an init container reads) and *live* when the kubelet rewrites the files while the
container runs. `plan` decides what to do about a change; content plays no part here.

Rules (kubernetes: pkg/kubelet/kubelet_pods.go makeEnvironmentVariables and makeMounts,
pkg/api/v1/pod/util.go VisitPodConfigmapNames and VisitPodSecretNames):

* env `configMapKeyRef` and `secretKeyRef` read one data key; `binaryData` is never looked at
* envFrom reads every data key, without `binaryData`; an `env` entry of the same name hides it, and
  so does a later envFrom whose source has it (`snapshot` knows the content)
* a volume is a use only where a container mounts it; with `items` only those data keys
* subPath pins the inode, so it is frozen for the data keys that lie at that path
* a restartable init container (restartPolicy Always) runs on, so its mounts are live
* imagePullSecrets and volume drivers' logins are credentials: no process of the pod reads them
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Hashable, Iterable, Iterator

from hotmap.core.model.environment_uses import Environment, environment_sources, environment_uses
from hotmap.core.model.limits import (
    MAX_USES,
    MAX_USES_SIZE,
    LimitExceeded,
    StepCounter,
    check_pod_spec,
)
from hotmap.core.model.objects import (
    Container,
    ObjectKey,
    PodSpec,
    PodTemplate,
    Volume,
    VolumeMount,
)
from hotmap.core.model.references import (
    EVERY_KEY,
    LONGEST_NAME,
    Use,
    UseKind,
    source_key,
)
from hotmap.core.model.volume_uses import (
    MountableVolume,
    brings_source,
    mount_uses,
    mounted_class,
    volume_sources,
)
from hotmap.core.text import printable

__all__ = ["find_users", "find_uses", "named_sources", "referenced_sources"]


def find_uses(template: PodTemplate, namespace: str) -> tuple[Use, ...]:
    """List every use of a ConfigMap or Secret in a pod template, in the manifest's order.

    Sources are in the pod's own `namespace`. A source that is mounted as a whole and by subPath
    is listed twice: each use has its own kind and data keys. Places of one container that use the
    same data keys in the same way are one use, whose path names the first of them.

    Raises:
        LimitExceeded: the template is larger than `limits` allows.
    """
    spec = template.spec
    check_pod_spec(spec)
    found, steps = _Uses(), StepCounter()
    volumes = {
        volume.name: MountableVolume(volume, namespace)
        for volume in spec.volumes or ()
        if brings_source(volume)
    }
    for container, place, init in _containers(spec):
        if container.env or container.env_from:
            environment = Environment(container, steps)
            found.add_all(environment_uses(environment, place, namespace, init=init))
        if volumes and container.volume_mounts:
            found.add_all(mount_uses(container, place, volumes, steps, init=init))
    found.add_all(_credential_uses(spec, namespace))
    return found.listed()


def find_users(
    spec: PodSpec, namespace: str, sources: Collection[ObjectKey], *, only_at_start: bool = False
) -> dict[str, set[ObjectKey]]:
    """Find the containers of a pod that use any of the sources in any way, and which of them.

    `only_at_start` leaves out those that only mount files which are updated while they run.
    """

    def select(used: Iterable[tuple[str, str]]) -> set[ObjectKey]:
        return {source_key(kind, namespace, name) for kind, name in used}.intersection(sources)

    volumes = {
        volume.name: found
        for volume in spec.volumes or ()
        if (found := select(volume_sources(volume)))
    }
    users: dict[str, set[ObjectKey]] = {}
    for container, _, init in _containers(spec):
        used = select(environment_sources(container))
        for mount in container.volume_mounts or ():
            if init or not only_at_start or _is_pinned(mount):
                used.update(volumes.get(mount.name, ()))
        if used:
            users[container.name] = used
    return users


def _is_pinned(mount: VolumeMount) -> bool:
    """Return whether a mount keeps the file or directory that it had when its container started.

    A subPath of "." binds the volume's own directory, which is updated.
    """
    if mount.sub_path:
        return posixpath.normpath(mount.sub_path) != "."
    return bool(mount.sub_path_expr)


def referenced_sources(
    spec: PodSpec, namespace: str, sources: Collection[ObjectKey]
) -> set[ObjectKey]:
    """Select the sources that a kubelet keeps for a pod: each that it names, mounted or not.

    kubernetes: pkg/kubelet/configmap and secret, watch-based managers (RegisterPod).
    """
    named = {source_key(kind, namespace, name) for kind, name in named_sources(spec)}
    return named.intersection(sources)


def named_sources(spec: PodSpec) -> set[tuple[str, str]]:
    """Return each source that a pod names, (kind, name): all that `find_uses` finds, and unused."""
    named = {("Secret", ref.name) for ref in spec.image_pull_secrets or ()}
    for volume in spec.volumes or ():
        if volume.config_map or volume.secret or volume.projected:
            named.update(volume_sources(volume))
        else:  # a volume has one source
            named.update(("Secret", name) for name in _login_secrets(volume))
        if name := mounted_class(volume):
            named.add(("SecretProviderClass", name))
    for containers in (spec.init_containers, spec.containers):
        for container in containers or ():
            if container.env or container.env_from:
                named.update(environment_sources(container))
    return named


def _containers(spec: PodSpec) -> Iterator[tuple[Container, str, bool]]:
    """List containers with their place in the manifest, and whether they run to completion."""
    for container in spec.init_containers or ():
        place = f"initContainers[{printable(container.name, LONGEST_NAME)}]"
        yield container, place, container.restart_policy != "Always"
    for container in spec.containers or ():
        yield container, f"containers[{printable(container.name, LONGEST_NAME)}]", False


class _Uses:
    """Collects uses; those that differ only in their place become one.

    Invariant: at most MAX_USES uses, with at most MAX_USES_SIZE characters.
    """

    def __init__(self) -> None:
        #: By everything but the place.
        self._uses: dict[Hashable, Use] = {}
        #: The number of further places of a use.
        self._more: dict[Hashable, int] = {}
        self._size = 0

    def add_all(self, uses: Iterable[Use]) -> None:
        """Add uses.

        Raises:
            LimitExceeded: there are too many, or their data keys are.
        """
        for use in uses:
            anywhere = use[:3] + use[4:]  # all but the path
            if self._uses.setdefault(anywhere, use) is not use:
                self._more[anywhere] = self._more.get(anywhere, 0) + 1
                continue
            self._size += _size(use)
            if len(self._uses) > MAX_USES:
                raise LimitExceeded("uses of ConfigMaps and Secrets", MAX_USES)
            if self._size > MAX_USES_SIZE:
                raise LimitExceeded("characters in names of data keys and paths", MAX_USES_SIZE)

    def listed(self) -> tuple[Use, ...]:
        """List the uses in the order in which they were added."""
        if not self._more:
            return tuple(self._uses.values())
        return tuple(
            use._replace(path=f"{use.path} (and {more} more)")
            if (more := self._more.get(anywhere))
            else use
            for anywhere, use in self._uses.items()
        )


def _size(use: Use) -> int:
    size = len(use.path)
    for names in (use.keys.names, use.keys.hidden):
        if names:
            size += sum(map(len, names)) + len(names)
    for each in use.overrides:
        size += len(each.source.name) + len(each.strip) + len(each.add)
    return size


# -- credentials -----------------------------------------------------------------------------


def _credential_uses(spec: PodSpec, namespace: str) -> Iterator[Use]:
    yield from _pull_uses(spec, namespace)
    for volume in spec.volumes or ():
        yield from _login_uses(volume, namespace)


def _pull_uses(spec: PodSpec, namespace: str) -> Iterator[Use]:
    for ref in spec.image_pull_secrets or ():
        source = source_key("Secret", namespace, ref.name)
        path = f"imagePullSecrets[{source.name}]"
        yield Use(source, UseKind.CREDENTIAL, EVERY_KEY, path, optional=True)


def _login_uses(volume: Volume, namespace: str) -> Iterator[Use]:
    if volume.config_map or volume.secret or volume.projected:
        return  # a volume has one source, so this one has no driver
    for name in _login_secrets(volume):
        source = source_key("Secret", namespace, name)
        path = f"volumes[{printable(volume.name, LONGEST_NAME)}]"
        yield Use(source, UseKind.CREDENTIAL, EVERY_KEY, path)


def _login_secrets(volume: Volume) -> Iterable[str]:
    """Return the Secrets that a volume's driver logs in with (core/v1 Volume)."""
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
