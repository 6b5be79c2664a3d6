"""`hotmap preview`: what an edit of a ConfigMap or Secret would do, before it is made.

The controller decides; it is given names of data keys. Manifests are compared with the cluster's
objects here, with the rights of the caller, and no value leaves this process.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec

from hotmap.agent.runtime.standard_streams import print_message
from hotmap.cli.command_options import PreviewOptions
from hotmap.cli.data_values import check_values, decode_value
from hotmap.cli.injection.manifest import Manifest
from hotmap.cli.manifest_files import describe_file, is_manifest, read_manifests
from hotmap.cli.printers import print_preview
from hotmap.cli.shared_options import ClusterOptions, ControllerAddress
from hotmap.cli.status_client import StatusClient, connect
from hotmap.cli.status_output import convert_document, create_console, print_document
from hotmap.cli.workload_names import SourceName, closest, parse_source_name
from hotmap.core.errors import (
    ApiError,
    Forbidden,
    ManifestError,
    NotFound,
    SettingsError,
    Unreachable,
)
from hotmap.core.status.status_document import EditPreview
from hotmap.core.text import quote_short
from hotmap.kube.client import Client, Limits
from hotmap.kube.resources import BY_KIND

__all__ = ["run_preview"]

#: Exit statuses: no edit would be held, one would, or a source could not be compared.
_FINE, _HELD, _UNKNOWN = 0, 1, 2

#: kubernetes: validation.IsConfigMapKey.
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")

#: kubernetes: validation.IsDNS1123Subdomain, the names of ConfigMaps and Secrets.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME = 253

#: kubernetes: core.LastAppliedConfigAnnotation, what `kubectl apply` wrote last.
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

#: Characters of changed data keys in one request, and of removed ones. Of more, changed ones count
#: as every data key, and removed ones are asked for in several requests.
_MOST_KEYS = 2000

#: The maximum page size (docs/reference/status.md).
_PAGE = "5000"

_LIMITS = Limits(connect=5.0, attempt=20.0, attempts=2)


class _Edit(NamedTuple):
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
        return not (self.creates or self.changed is None or self.changed or self.removed)


def run_preview(
    text: str,
    options: PreviewOptions,
    cluster: ClusterOptions,
    address: ControllerAddress,
) -> int:
    """Print what an edit would do to each workload; returns the exit status.

    Raises:
        SettingsError: the name or the options are invalid, no controller answers
            (StatusUnavailable), or the API server does not answer.
        ManifestError: a manifest cannot be read, or has no ConfigMap or Secret.
    """
    if bool(text) == bool(options.filename):
        raise SettingsError(
            f"{quote_short(text)} and --filename cannot be used together"
            if text
            else "name a source, such as configmap/app, or manifests with --filename"
        )
    if options.filename and (options.key or options.remove_key):
        raise SettingsError("--key and --remove-key cannot be used with --filename")
    # Before the event loop, in which Ctrl-C would not end the wait for standard input.
    texts = read_manifests(options.filename, None, in_place=False)
    previews, unread = asyncio.run(_get_previews(text, texts, options, cluster, address))
    items = [convert_document(item, EditPreview) for item in previews]
    if options.output in ("json", "yaml"):
        document = {"apiVersion": "hotmap.dev/v1", "kind": "EditPreviewList", "items": previews}
        print_document(document, options.output)
    else:
        console = create_console(options.output)
        for number, item in enumerate(items):
            if number:
                console.print()
            print_preview(console, item)
    for sentence in unread:
        print_message(f"hotmap: {sentence}")
    if unread:
        return _UNKNOWN
    held = any(workload.held for item in items for workload in item.workloads)
    return _HELD if held else _FINE


async def _get_previews(
    text: str,
    texts: Mapping[str, str],
    options: PreviewOptions,
    cluster: ClusterOptions,
    address: ControllerAddress,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the preview of each edit, and a sentence for each source that cannot be compared."""
    async with connect(cluster, address) as client:
        namespace = options.namespace or client.namespace
        unread: list[str] = []
        if text:
            edits = [_named_edit(text, options, namespace)]
        else:
            edits, unread = await _compare_manifests(texts, namespace, cluster)
        previews = [await _get_preview(client, edit) for edit in edits]
        # That no workload uses it is not an answer to a name that was mistyped.
        if text and not previews[0]["workloads"]:
            previews[0]["creates"] = await _is_missing(edits[0].source, cluster)
        elif text:
            await _note_unknown_keys(edits[0], cluster)
        return previews, unread


async def _is_missing(source: SourceName, cluster: ClusterOptions) -> bool:
    """Return whether a source is known not to exist; the caller may not be permitted to see it."""
    try:
        async with Client(cluster.load(), user_agent="hotmap-cli", limits=_LIMITS) as client:
            await client.get(
                BY_KIND[source.kind], source.namespace, source.name, type=_ObjectWithName
            )
    except NotFound:
        return True
    except (ApiError, SettingsError, Unreachable):
        pass
    return False


async def _note_unknown_keys(edit: _Edit, cluster: ClusterOptions) -> None:
    """Name data keys that a ConfigMap does not have, which may be mistyped.

    A Secret is not read for that.
    """
    named = (edit.changed or frozenset()) | edit.removed
    if edit.source.kind != "ConfigMap" or not named:
        return
    with suppress(ApiError, SettingsError, Unreachable):
        async with Client(cluster.load(), user_agent="hotmap-cli", limits=_LIMITS) as client:
            found = await client.get(
                BY_KIND["ConfigMap"], edit.source.namespace, edit.source.name, type=_SourceManifest
            )
        known = {**(found.data or {}), **(found.binary_data or {})}
        for name in sorted(named - known.keys()):
            meant = closest(name, known)
            hint = f"; did you mean '{meant}'" if meant else ""
            print_message(
                f"hotmap: note: configmap/{edit.source.name} has no data key {name}{hint}"
            )


def _named_edit(text: str, options: PreviewOptions, namespace: str) -> _Edit:
    source = parse_source_name(text, namespace)
    if source is None or source.kind not in ("ConfigMap", "Secret"):
        hint = ", or a manifest with --filename" if is_manifest(text) else ""
        raise SettingsError(
            f"invalid source {quote_short(text)}: expected configmap/NAME or secret/NAME{hint}"
        )
    if problem := _invalid_name(source):
        raise SettingsError(problem)
    changed, removed = frozenset(options.key), frozenset(options.remove_key)
    if problem := _invalid_key(changed | removed):
        raise SettingsError(problem)
    if both := sorted(changed & removed):
        raise SettingsError(f"--key and --remove-key both name {quote_short(both[0])}")
    return _Edit(source, changed if changed or removed else None, removed)


async def _get_preview(client: StatusClient, edit: _Edit) -> dict[str, Any]:
    workloads: dict[tuple[str, str], dict[str, Any]] = {}
    limit = 0
    for parameters in [] if edit.changes_nothing else _requests(edit):
        query = {"source": str(edit.source), "limit": _PAGE, **parameters}
        answer = await client.status(query)
        limit = answer.get("maxConcurrentRollouts", 0)
        for workload in answer["workloads"]:
            name = workload["kind"], workload["name"]
            workloads[name] = max(workloads.get(name, workload), workload, key=_weight)
    return {
        **dict(zip(("kind", "namespace", "name"), edit.source, strict=True)),
        "creates": edit.creates,
        "changed": None if edit.changed is None else sorted(edit.changed),
        "removed": sorted(edit.removed),
        "maxConcurrentRollouts": limit,
        "workloads": list(workloads.values()),
    }


def _weight(workload: Mapping[str, Any]) -> tuple[bool, bool, int]:
    """Order what parts of an edit would do: the edit does the most that any of them does."""
    actions = workload.get("actions") or ()
    return bool(workload.get("held")), "rollout" in actions, len(actions)


def _requests(edit: _Edit) -> list[dict[str, str]]:
    """Return the parameters of each request; a removed or moved data key is in one of them."""
    changed = "*" if edit.changed is None else ",".join(sorted(edit.changed))
    if len(changed) > _MOST_KEYS or (edit.creates and not changed):
        changed = "*"
    parts = zip_longest(
        _join_parts(sorted(edit.removed)), _join_parts(sorted(edit.moved)), fillvalue=""
    )
    return [
        {
            name: value
            for name, value in (("changed", changed), ("removed", removed), ("moved", moved))
            if value
        }
        for removed, moved in parts
    ]


def _join_parts(names: Iterable[str]) -> list[str]:
    """Join names with commas to texts that fit into a request; "" for none."""
    parts = [""]
    for name in names:
        if len(parts[-1]) + len(name) < _MOST_KEYS:
            parts[-1] = f"{parts[-1]},{name}" if parts[-1] else name
        else:
            parts.append(name)
    return parts


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


async def _compare_manifests(
    texts: Mapping[str, str], namespace: str, cluster: ClusterOptions
) -> tuple[list[_Edit], list[str]]:
    """List the edits that manifests would make, by comparing them with the cluster's objects.

    Also returns a sentence for each that the caller may not read, as is usual for Secrets.
    """
    wanted = list(_read_sources(texts, namespace))
    edits, unread = [], []
    async with Client(cluster.load(), user_agent="hotmap-cli", limits=_LIMITS) as client:
        for source, content in wanted:
            try:
                found = await client.get(
                    BY_KIND[source.kind], source.namespace, source.name, type=_SourceManifest
                )
            except NotFound:
                changed, moved = _changed_keys({}, content)
                edits.append(_Edit(source, changed, moved=moved, creates=True))
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


def _compare(source: SourceName, found: _SourceManifest, after: Mapping[str, _Value]) -> _Edit:
    """Compare a source with the content of a manifest, which is applied as `kubectl apply` does."""
    before = msgspec.structs.replace(found, kind=source.kind).content()
    changed, moved = _changed_keys(before, after)
    removed = frozenset(before) - frozenset(after)
    applied = found.applied_keys()
    return _Edit(source, changed, removed if applied is None else removed & applied, moved)


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
    """Say which of some data keys no ConfigMap or Secret can have; "" for none."""
    for name in sorted(names):
        if not _DATA_KEY.fullmatch(name):
            return f"invalid data key {quote_short(name)}: expected letters, digits, -, _ and ."
    return ""


def _describe(error: Exception) -> str:
    return str(error).replace("`", "").replace("$.", "")
