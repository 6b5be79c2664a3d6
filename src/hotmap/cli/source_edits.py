"""Edits of ConfigMaps and Secrets by names of data keys: as a user names them, or as manifests say.

Manifests are compared with the cluster's objects, with the rights of the caller; no value leaves
this process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from hotmap.cli.data_values import check_values, decode_value
from hotmap.cli.injection.manifest import Manifest
from hotmap.cli.manifest_files import describe_file, is_manifest
from hotmap.cli.shared_options import ClusterOptions
from hotmap.cli.workload_names import SourceName, closest, parse_source_name
from hotmap.core.errors import (
    ApiError,
    Forbidden,
    ManifestError,
    NotFound,
    SettingsError,
    Unreachable,
)
from hotmap.core.text import quote_short
from hotmap.kube.client import Client, Limits
from hotmap.kube.resources import BY_KIND

__all__ = ["SourceEdit", "compare_manifests", "find_unknown_keys", "is_missing", "named_edit"]

#: kubernetes: validation.IsConfigMapKey.
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")

#: kubernetes: validation.IsDNS1123Subdomain, the names of ConfigMaps and Secrets.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME = 253

#: kubernetes: core.LastAppliedConfigAnnotation, what `kubectl apply` wrote last.
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_LIMITS = Limits(connect=5.0, attempt=20.0, attempts=2)


class SourceEdit(NamedTuple):
    """The edit of one source, by names of data keys."""

    source: SourceName
    #: None: every one.
    changed: frozenset[str] | None
    removed: frozenset[str] = frozenset()
    #: Those of `changed` that move from `data` to `binaryData`, or back.
    moved: frozenset[str] = frozenset()
    creates: bool = False

    @property
    def changes_nothing(self) -> bool:
        """Whether it leaves the source as it is."""
        return not (self.creates or self.changed is None or self.changed or self.removed)


def named_edit(
    text: str, namespace: str, *, changed: frozenset[str], removed: frozenset[str]
) -> SourceEdit:
    """Return the edit of a source that a user names; without data keys, of every one.

    Raises:
        SettingsError: the name of the source or of a data key is invalid.
    """
    source = parse_source_name(text, namespace)
    if source is None or source.kind not in ("ConfigMap", "Secret"):
        hint = ", or a manifest with --filename" if is_manifest(text) else ""
        raise SettingsError(
            f"invalid source {quote_short(text)}: expected configmap/NAME or secret/NAME{hint}"
        )
    if problem := _invalid_name(source):
        raise SettingsError(problem)
    if problem := _invalid_key(changed | removed):
        raise SettingsError(problem)
    if both := sorted(changed & removed):
        raise SettingsError(f"--key and --remove-key both name {quote_short(both[0])}")
    return SourceEdit(source, changed if changed or removed else None, removed)


async def is_missing(source: SourceName, cluster: ClusterOptions) -> bool:
    """Return whether a source is known not to exist; the caller may not be permitted to see it."""
    try:
        async with _client(cluster) as client:
            await client.get(
                BY_KIND[source.kind], source.namespace, source.name, type=_ObjectWithName
            )
    except NotFound:
        return True
    except (ApiError, SettingsError, Unreachable):
        pass
    return False


async def find_unknown_keys(edit: SourceEdit, cluster: ClusterOptions) -> list[tuple[str, str]]:
    """List the data keys that a ConfigMap does not have, each with one that may be meant, or "".

    A Secret is not read for that.
    """
    named = (edit.changed or frozenset()) | edit.removed
    if edit.source.kind != "ConfigMap" or not named:
        return []
    with suppress(ApiError, SettingsError, Unreachable):
        async with _client(cluster) as client:
            found = await client.get(
                BY_KIND["ConfigMap"], edit.source.namespace, edit.source.name, type=_SourceManifest
            )
        known = {**(found.data or {}), **(found.binary_data or {})}
        return [(name, closest(name, known) or "") for name in sorted(named - known.keys())]
    return []


def _client(cluster: ClusterOptions) -> Client:
    return Client(cluster.load(), user_agent="hotmap-cli", limits=_LIMITS)


# -- manifests -------------------------------------------------------------------------------------


class _Metadata(msgspec.Struct):
    name: str | None = None
    namespace: str | None = None
    annotations: dict[str, str | None] | None = None


class _ObjectWithName(msgspec.Struct):
    """An object whose content does not matter."""

    metadata: _Metadata


class _Value(NamedTuple):
    """The value of a data key."""

    content: bytes
    #: Whether it is in `binaryData`, which environments do not read.
    is_binary: bool = False


class _SourceManifest(msgspec.Struct, rename="camel"):
    """The fields of a ConfigMap or Secret with content."""

    kind: str
    metadata: _Metadata
    data: dict[str, str | None] | None = None
    binary_data: dict[str, str | None] | None = None
    string_data: dict[str, str | None] | None = None

    def content(self) -> dict[str, _Value]:
        """Return the values by data key.

        Raises:
            ValueError: a value is not valid base64.
        """
        encoded = {**(self.binary_data or {})}
        plain = {**(self.string_data or {})}
        if self.kind == "Secret":
            encoded |= self.data or {}
        else:
            plain = {**(self.data or {})}
        is_binary = self.kind == "ConfigMap"
        content = {
            name: _Value(decode_value(text or ""), is_binary=is_binary)
            for name, text in encoded.items()
        }
        return content | {name: _Value((text or "").encode()) for name, text in plain.items()}

    def applied_keys(self) -> frozenset[str] | None:
        """Return the data keys of the last `kubectl apply`; None: it was not used."""
        text = (self.metadata.annotations or {}).get(_LAST_APPLIED)
        if not text:
            return None
        try:
            applied = msgspec.json.decode(text, type=_Applied)
        except msgspec.DecodeError:
            return None
        return frozenset(applied.data or ()) | frozenset(applied.binary_data or ())


class _Applied(msgspec.Struct, rename="camel"):
    """The data keys in the annotation; those of `stringData` are never removed."""

    data: dict[str, Any] | None = None
    binary_data: dict[str, Any] | None = None


async def compare_manifests(
    texts: Mapping[str, str], namespace: str, cluster: ClusterOptions
) -> tuple[list[SourceEdit], list[str]]:
    """List the edits that manifests would make, by comparing them with the cluster's objects.

    Also returns a sentence for each that the caller may not read, as is usual for Secrets.

    Raises:
        ManifestError: a manifest cannot be read, or has no ConfigMap or Secret.
        SettingsError: the API server does not answer.
    """
    wanted = list(_read_sources(texts, namespace))
    edits, unread = [], []
    async with _client(cluster) as client:
        for source, content in wanted:
            try:
                found = await client.get(
                    BY_KIND[source.kind], source.namespace, source.name, type=_SourceManifest
                )
            except NotFound:
                changed, moved = _changed_keys({}, content)
                edits.append(SourceEdit(source, changed, moved=moved, creates=True))
            except Forbidden as error:
                name = f"{source.kind.lower()}/{source.namespace}/{source.name}"
                unread.append(
                    f"cannot read {name}: {error}; 'hotmap preview {name}' shows what an edit of "
                    "it would do"
                )
            except (ApiError, Unreachable) as error:
                # Not their own exit status, which means here that a workload would be held.
                raise SettingsError(f"cannot read {source}: {error}") from error
            else:
                edits.append(_compare(source, found, content))
    return edits, unread


def _compare(source: SourceName, found: _SourceManifest, after: Mapping[str, _Value]) -> SourceEdit:
    """Compare a source with the content of a manifest, which is applied as `kubectl apply` does."""
    before = msgspec.structs.replace(found, kind=source.kind).content()
    changed, moved = _changed_keys(before, after)
    removed = frozenset(before) - frozenset(after)
    applied = found.applied_keys()
    return SourceEdit(source, changed, removed if applied is None else removed & applied, moved)


def _changed_keys(
    before: Mapping[str, _Value], after: Mapping[str, _Value]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the data keys that change, and which of them move to or from `binaryData`."""
    changed = frozenset(name for name, value in after.items() if before.get(name) != value)
    none = _Value(b"")
    moved = (name for name in changed if before.get(name, none).is_binary != after[name].is_binary)
    return changed, frozenset(moved)


def _read_sources(
    texts: Mapping[str, str], namespace: str
) -> Iterator[tuple[SourceName, dict[str, _Value]]]:
    count = 0
    for filename, text in texts.items():
        for data, place in Manifest(text, describe_file(filename)).objects():
            if data.get("apiVersion") != "v1" or data.get("kind") not in ("ConfigMap", "Secret"):
                continue
            count += 1
            check_values(data, _describe_object(data, place))
            try:
                manifest = msgspec.convert(data, _SourceManifest)
                content = manifest.content()
            except msgspec.ValidationError as error:
                raise ManifestError(
                    f"{_describe_object(data, place)}: {_describe(error)}"
                ) from None
            except ValueError:
                raise ManifestError(
                    f"{_describe_object(data, place)}: a value is not valid base64"
                ) from None
            named = manifest.metadata
            if not named.name:
                raise ManifestError(
                    f"{place}: {data['kind']}: metadata.name is missing; an object with "
                    "generateName is a new one at each creation, and no workload uses it yet"
                )
            source = SourceName(manifest.kind, named.namespace or namespace, named.name)
            if problem := _invalid_name(source) or _invalid_key(content):
                raise ManifestError(f"{place}: {data['kind']}: {problem}")
            yield source, content
    if not count:
        where = ", ".join(map(describe_file, texts))
        raise ManifestError(f"{where}: no ConfigMap or Secret found")


def _describe_object(data: Mapping[str, Any], place: str) -> str:
    metadata = data.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{place}: {data['kind']}{f'/{name}' if name and isinstance(name, str) else ''}"


def _invalid_name(source: SourceName) -> str:
    """Return what is wrong with the name of an object or of its namespace; "" if nothing is."""
    for what, name in (("name", source.name), ("namespace", source.namespace)):
        if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
            return (
                f"invalid {what} {quote_short(name)}: expected lowercase letters, digits, - and ."
            )
    return ""


def _invalid_key(names: Iterable[str]) -> str:
    """Return which of some data keys no ConfigMap or Secret can have; "" for none."""
    for name in sorted(names):
        if not _DATA_KEY.fullmatch(name):
            return f"invalid data key {quote_short(name)}: expected letters, digits, -, _ and ."
    return ""


def _describe(error: Exception) -> str:
    return str(error).replace("`", "").replace("$.", "")
