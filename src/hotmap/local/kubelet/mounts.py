"""The volumes of one pod: reconcile the actual volumes with the desired ones.

kubernetes: pkg/volume/{configmap,secret,projected,downwardapi,emptydir,hostpath,local} and
pkg/kubelet/kubelet_pods.go (makeMounts). Volumes are directories of the host under
`<root>/pods/<uid>/volumes/kubernetes.io~<plugin>/<name>`; binding them into a container is
`sandbox`. `sources` reads the content of a source; `core/payload` turns it into files.

A difference from upstream: Secrets lie in a directory only the kubelet's user may enter, not in
a tmpfs, since mounting one needs privileges that the kubelet may not have.
"""

from __future__ import annotations

import base64
import os
import shutil
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hotmap.core.errors import HotmapError, ManifestError, NotFound
from hotmap.core.payload import (
    DEFAULT_MODE,
    Item,
    Payload,
    PayloadFile,
    configmap_payload,
    merge_payloads,
    secret_payload,
)
from hotmap.local.kubelet.downward import field_text, resource_text
from hotmap.local.kubelet.env_file import EnvFileError, read_env_file
from hotmap.local.kubelet.environment import ConfigError, FileName, SourceName, expand_sub_path
from hotmap.local.kubelet.error_text import error_text
from hotmap.local.kubelet.restart_policy import all_containers
from hotmap.local.kubelet.user_namespaces import has_other_users
from hotmap.volume.atomic_writer import AtomicWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hotmap.local.kubelet.claims import ClaimedPaths
    from hotmap.local.kubelet.sandbox import Mount
    from hotmap.local.kubelet.sources import SourceReader

#: A token is replaced after this part of its lifetime, at the latest after this many seconds.
TOKEN_AGE = 0.8
TOKEN_LAST_AGE = 24 * 3600.0

_PLUGINS = {
    "configMap": "configmap",
    "secret": "secret",
    "projected": "projected",
    "downwardAPI": "downward-api",
    "emptyDir": "empty-dir",
}
#: Volumes whose files the kubelet writes.
_PROJECTIONS = ("configMap", "secret", "projected", "downwardAPI")

#: hostPath types that must exist already (kubernetes: pkg/volume/hostpath/host_path.go).
_HOST_PATH_CHECKS = {
    "Directory": ("directory", Path.is_dir),
    "File": ("file", Path.is_file),
    "Socket": ("socket file", Path.is_socket),
    "CharDevice": ("character device", Path.is_char_device),
    "BlockDevice": ("block device", Path.is_block_device),
}


class VolumeFailure(NamedTuple):
    """A volume that could not be set up, and why, in the kubelet's words."""

    volume: str
    message: str


class TokenSource(Protocol):
    """Issues service account tokens for projected volumes."""

    def __call__(
        self, pod: Mapping[str, Any], *, audience: str, expiration_seconds: int
    ) -> str: ...


class PodVolumes:
    """Keeps the volumes of one pod as its specification and its sources say.

    `root` is the kubelet's directory. Not for two tasks at once.
    """

    def __init__(
        self,
        root: Path,
        uid: str,
        sources: SourceReader,
        *,
        allocatable: Mapping[str, str],
        tokens: TokenSource | None = None,
        claims: ClaimedPaths | None = None,
    ) -> None:
        self.directory = root / "pods" / uid
        self._sources = sources
        self._allocatable = allocatable
        self._tokens = tokens
        self._claims = claims
        #: The paths of volumes that are claims, by their names; a claim never gets another one.
        self._claimed: dict[str, Path] = {}
        #: Volumes that were set up once: a container may start even if a later update failed.
        self._mounted: set[str] = set()
        #: Tokens by audience and lifetime, with the time of their issue; kept until they age, so
        #: that a volume is not written again at each sync.
        self._issued: dict[tuple[str, int], tuple[str, float]] = {}

    async def set_up(self, pod: Mapping[str, Any]) -> list[VolumeFailure]:
        """Bring every mounted volume up to date; return those that could not be.

        A volume that no container mounts is left out. A volume that fails keeps the files it had
        and does not delay the others.
        """
        failures = []
        for volume in mounted_volumes(pod["spec"]):
            try:
                await self._set_up_one(pod, volume)
            except (HotmapError, OSError) as error:
                failures.append(VolumeFailure(volume["name"], error_text(error)))
            else:
                self._mounted.add(volume["name"])
        return failures

    def unmounted(self, pod: Mapping[str, Any]) -> list[str]:
        """Name the volumes without which no container may start, sorted."""
        wanted = {volume["name"] for volume in mounted_volumes(pod["spec"])}
        return sorted(wanted - self._mounted)

    def mounts_of(
        self, pod: Mapping[str, Any], container: Mapping[str, Any], env: Mapping[str, str]
    ) -> list[Mount]:
        """Resolve a container's volumeMounts to current paths of the host.

        A subPath is resolved through `..data` to the file of the current revision, which the
        container keeps until it is restarted (kubernetes#50345).

        Raises:
            ConfigError: a subPath leaves its volume, or a subPathExpr cannot be expanded.
        """
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
        mounts: list[Mount] = []
        for mount in container.get("volumeMounts") or ():
            volume = volumes.get(mount["name"])
            if volume is None:
                raise ConfigError(f"volume {mount['name']} is not defined in the pod")
            source = self._path(volume)
            sub_path = mount.get("subPath", "")
            if mount.get("subPathExpr"):
                sub_path = expand_sub_path(mount["subPathExpr"], env)
            if sub_path:
                source = _sub_path(source, sub_path)
            mounts.append(
                {
                    "source": os.path.realpath(source),
                    "target": os.path.normpath(mount["mountPath"]),
                    "read_only": bool(mount.get("readOnly")) or _is_read_only(volume),
                }
            )
        return mounts

    def read(
        self, spec: Mapping[str, Any], wanted: Iterable[FileName]
    ) -> dict[FileName, str | EnvFileError]:
        """Read files of environment variables in the pod's volumes (`fileKeyRef`)."""
        volumes = {volume["name"]: volume for volume in spec.get("volumes") or ()}
        found: dict[FileName, str | EnvFileError] = {}
        for name in wanted:
            if name.volume in volumes:
                try:
                    found[name] = read_env_file(self._path(volumes[name.volume]), name.path)
                except EnvFileError as error:
                    found[name] = error
        return found

    def remove(self) -> None:
        """Remove the pod's directory and everything in it."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _path(self, volume: Mapping[str, Any]) -> Path:
        if "hostPath" in volume:
            return Path(volume["hostPath"]["path"])
        if volume["name"] in self._claimed:
            return self._claimed[volume["name"]]
        for field, plugin in _PLUGINS.items():
            if field in volume:
                return self.directory / "volumes" / f"kubernetes.io~{plugin}" / str(volume["name"])
        kinds = ", ".join(field for field in volume if field != "name")
        raise ManifestError(f"volumes of type {kinds} are not supported by this node")

    async def _set_up_one(self, pod: Mapping[str, Any], volume: Mapping[str, Any]) -> None:
        """The order of upstream's SetUpAt: what is fetched first, what is written last."""
        if self._claims is not None and _is_claim(volume):
            await self._set_up_claim(self._claims, pod, volume)
            return
        path = self._path(volume)
        if "hostPath" in volume:
            _check_host_path(path, volume["hostPath"].get("type", ""))
            return
        payload = await self._payload(pod, volume) if _is_projection(volume) else None
        _make_volume_directory(path)
        for nested in _nested_mount_points(pod["spec"], volume["name"]):
            (path / nested).mkdir(mode=0o755, parents=True, exist_ok=True)
        group = _given_group(pod["spec"])
        if payload is not None:

            def set_permissions(revision: str) -> None:
                user = _common_user(pod["spec"])
                for name in _token_paths(volume) if user is not None else ():
                    os.chown(Path(revision, name), user or 0, -1)
                if group is not None:
                    give_to_group(path, group, read_only=True)

            AtomicWriter(str(path)).write(payload, set_permissions=set_permissions)
        elif group is not None:
            give_to_group(path, group, read_only=False)

    async def _set_up_claim(
        self, claims: ClaimedPaths, pod: Mapping[str, Any], volume: Mapping[str, Any]
    ) -> None:
        if volume["name"] not in self._claimed:
            found = await claims.find(pod, volume)
            _check_host_path(found.path, found.type)
            self._claimed[volume["name"]] = found.path

    async def _payload(self, pod: Mapping[str, Any], volume: Mapping[str, Any]) -> Payload:
        projection = next(volume[field] for field in _PROJECTIONS if field in volume)
        mode = projection.get("defaultMode", DEFAULT_MODE)
        if "projected" in volume:
            return await self._projected_payload(pod, projection, mode)
        return await self._projection(pod, volume, mode)

    async def _source_payload(
        self,
        pod: Mapping[str, Any],
        source: SourceName,
        projection: Mapping[str, Any],
        mode: int,
    ) -> Payload:
        optional = bool(projection.get("optional"))
        items = [
            Item(item["key"], item["path"], item.get("mode"))
            for item in projection.get("items") or ()
        ]
        try:
            found = await self._sources.get(pod["metadata"]["namespace"], source)
        except NotFound:
            if optional:
                return {}
            raise
        data = found.get("data") or {}
        if source.kind == "Secret":
            decoded = {key: base64.b64decode(value) for key, value in data.items()}
            return secret_payload(
                source.name, decoded, items=items, default_mode=mode, optional=optional
            )
        binary = {k: base64.b64decode(v) for k, v in (found.get("binaryData") or {}).items()}
        return configmap_payload(
            source.name, data, binary, items=items, default_mode=mode, optional=optional
        )

    async def _projected_payload(
        self, pod: Mapping[str, Any], projected: Mapping[str, Any], mode: int
    ) -> Payload:
        """Join all sources; when any fails, nothing is written and all failures are reported."""
        payloads: list[Payload] = []
        failures: list[str] = []
        for entry in projected.get("sources") or ():
            try:
                payloads.append(await self._projection(pod, entry, mode))
            except HotmapError as error:
                failures.append(str(error))
        if failures:
            text = failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]"
            raise ManifestError(text)
        return merge_payloads(payloads)

    async def _projection(
        self, pod: Mapping[str, Any], entry: Mapping[str, Any], mode: int
    ) -> Payload:
        """Make the payload of a volume, or of an entry of a projected one."""
        if (found := _named_source(entry)) is not None:
            return await self._source_payload(pod, *found, mode)
        if "downwardAPI" in entry:
            return self._downward_payload(pod, entry["downwardAPI"], mode)
        if "serviceAccountToken" in entry:
            return self._token_payload(pod, entry["serviceAccountToken"], mode)
        raise ManifestError(f"projected sources of type {', '.join(entry)} are not supported")

    def _downward_payload(
        self, pod: Mapping[str, Any], projection: Mapping[str, Any], default_mode: int
    ) -> Payload:
        payload: Payload = {}
        for item in projection.get("items") or ():
            if "fieldRef" in item:
                text = field_text(pod, item["fieldRef"]["fieldPath"])
            else:
                reference = item["resourceFieldRef"]
                container = _container(pod["spec"], reference.get("containerName", ""))
                text = resource_text(container, reference, self._allocatable)
            mode = item.get("mode")
            payload[item["path"]] = PayloadFile(
                text.encode(), default_mode if mode is None else mode
            )
        return payload

    def _token_payload(
        self, pod: Mapping[str, Any], projection: Mapping[str, Any], mode: int
    ) -> Payload:
        """Issue a token, or give the known one up to 80 % of its life or for a day.

        kubernetes: pkg/kubelet/token/token_manager.go, requiresRefresh.
        """
        if self._tokens is None:
            raise ManifestError("this node does not issue service account tokens")
        audience = projection.get("audience", "")
        lifetime = projection.get("expirationSeconds", 3600)
        token, issued_at = self._issued.get((audience, lifetime), ("", 0.0))
        now = time.monotonic()
        if not token or now - issued_at >= min(TOKEN_AGE * lifetime, TOKEN_LAST_AGE):
            token = self._tokens(pod, audience=audience, expiration_seconds=lifetime)
            self._issued[audience, lifetime] = (token, now)
        # Where the user or the group is known, for them alone (kubernetes: projected.go).
        spec = pod["spec"]
        if _common_user(spec) is not None or _given_group(spec) is not None:
            mode = 0o600
        return {projection["path"]: PayloadFile(token.encode(), mode)}


def mounted_volumes(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Return the volumes that some container mounts, in the order of the specification."""
    names = {mount["name"] for mount in _all_mounts(spec)}
    return (volume for volume in spec.get("volumes") or () if volume["name"] in names)


def volume_sources(spec: Mapping[str, Any]) -> Iterator[SourceName]:
    """Return the ConfigMaps and Secrets that a pod's volumes name."""
    for volume in spec.get("volumes") or ():
        entries = [volume, *((volume.get("projected") or {}).get("sources") or ())]
        for entry in entries:
            if (found := _named_source(entry)) is not None:
                yield found[0]


def _named_source(entry: Mapping[str, Any]) -> tuple[SourceName, Mapping[str, Any]] | None:
    """Return the source of a volume, or of an entry of a projected one, with its projection."""
    for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
        if field in entry:
            projection = entry[field]
            name = projection.get("secretName") or projection.get("name", "")
            return SourceName(kind, name), projection
    return None


def give_to_group(path: Path, group: int, *, read_only: bool) -> None:
    """Let a pod's fsGroup read, or use, everything in a volume.

    kubernetes: pkg/volume/volume_linux.go: the group owns all, links too; files get 0440 (0660
    where the volume may be written), directories 0550 (0770) and pass their group on.
    """
    files, directories = (0o440, 0o2550) if read_only else (0o660, 0o2770)
    for parent, names, leaves in os.walk(path):
        for name in (".", *names, *leaves):
            entry = Path(parent, name)
            os.lchown(entry, -1, group)
            if not entry.is_symlink():
                added = directories if entry.is_dir() else files
                entry.chmod(entry.stat().st_mode & 0o7777 | added)


def _given_group(spec: Mapping[str, Any]) -> int | None:
    """Return the fsGroup; None unless root, since only root can change a file's group."""
    group: int | None = (spec.get("securityContext") or {}).get("fsGroup")
    return group if has_other_users() else None


def _common_user(spec: Mapping[str, Any]) -> int | None:
    """Return the user that all containers run as; None without, or where this is not root.

    kubernetes: pkg/volume/util, FsUserFrom.
    """
    default = (spec.get("securityContext") or {}).get("runAsUser")
    users = {
        (container.get("securityContext") or {}).get("runAsUser", default)
        for container in all_containers(spec)
    }
    user: int | None = next(iter(users)) if len(users) == 1 else None
    return user if has_other_users() else None


def _token_paths(volume: Mapping[str, Any]) -> list[str]:
    sources = (volume.get("projected") or {}).get("sources") or ()
    return [s["serviceAccountToken"]["path"] for s in sources if "serviceAccountToken" in s]


def _is_projection(volume: Mapping[str, Any]) -> bool:
    return any(field in volume for field in _PROJECTIONS)


def _is_claim(volume: Mapping[str, Any]) -> bool:
    return "persistentVolumeClaim" in volume or "ephemeral" in volume


def _is_read_only(volume: Mapping[str, Any]) -> bool:
    claim = volume.get("persistentVolumeClaim") or {}
    return bool(claim.get("readOnly")) or _is_projection(volume)


def _all_mounts(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for container in all_containers(spec):
        yield from container.get("volumeMounts") or ()


def _container(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    for container in all_containers(spec):
        if container["name"] == name:
            return container
    raise ManifestError(f"container {name} not found")


def _nested_mount_points(spec: Mapping[str, Any], volume: str) -> set[str]:
    """Name the directories inside a volume on which other volumes are mounted.

    Only the first level of nesting (kubernetes: pkg/volume/util/nested_volumes.go). The volume
    is read-only in the container, so they cannot be made there.
    """
    nested = set()
    for container in all_containers(spec):
        mounts = container.get("volumeMounts") or ()
        for outer in (m for m in mounts if m["name"] == volume and not m.get("subPath")):
            base = os.path.normpath(outer["mountPath"]) + "/"
            for inner in mounts:
                path = os.path.normpath(inner["mountPath"])
                if inner is not outer and path.startswith(base):
                    nested.add(path.removeprefix(base))
    return {path for path in nested if not any(path.startswith(f"{o}/") for o in nested)}


def _sub_path(volume: Path, sub_path: str) -> Path:
    """Resolve a subPath inside its volume; what is missing becomes a directory, as upstream."""
    target = volume / sub_path
    if Path(sub_path).is_absolute() or ".." in Path(sub_path).parts:
        raise ConfigError(f"subPath `{sub_path}` must be relative and must not contain '..'")
    resolved = target.resolve()
    if not resolved.is_relative_to(volume.resolve()):
        raise ConfigError(f'failed to prepare subPath for volumeMount "{sub_path}": outside of it')
    _make_like(volume, resolved)
    return resolved


def _make_like(volume: Path, path: Path) -> None:
    """Make missing directories with the mode of their volume (kubelet_pods.go, makeMounts).

    So every user who may write to the volume may write there as well, whatever the umask.
    """
    mode = stat.S_IMODE(volume.stat().st_mode)
    missing = [step for step in (path, *path.parents) if not step.exists()]
    for directory in reversed(missing):
        directory.mkdir()
        directory.chmod(mode)


def _make_volume_directory(path: Path) -> None:
    """Make a volume accessible to every user of the container, regardless of the umask."""
    if not path.is_dir():
        path.mkdir(parents=True)
        path.chmod(0o777)


def _check_host_path(path: Path, type: str) -> None:
    if type == "DirectoryOrCreate":
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif type == "FileOrCreate":
        path.touch(mode=0o644, exist_ok=True)
    elif type in _HOST_PATH_CHECKS:
        what, holds = _HOST_PATH_CHECKS[type]
        if not holds(path):
            raise ManifestError(f"hostPath type check failed: {path} is not a {what}")
    elif not path.exists():
        # Not checked by the kubelet; the container runtimes make it a directory.
        path.mkdir(mode=0o755, parents=True)
