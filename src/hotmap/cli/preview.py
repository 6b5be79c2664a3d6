"""`hotmap preview`: what an edit of a ConfigMap or Secret would do, before it is made.

The controller decides; it is given names of data keys. Manifests are compared with the cluster's
objects here, with the rights of the caller, and no value leaves this process.
"""

from __future__ import annotations

import asyncio
import binascii
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from hotmap.cli.command_options import PreviewOptions
from hotmap.cli.injection.manifest import Manifest
from hotmap.cli.manifest_files import describe_file, read_manifests
from hotmap.cli.printers import print_preview
from hotmap.cli.shared_options import ClusterOptions, ControllerAddress
from hotmap.cli.status_client import StatusClient, connect
from hotmap.cli.status_document import EditPreview
from hotmap.cli.status_output import convert_document, create_console, print_document
from hotmap.cli.workload_names import SourceName, parse_source_name
from hotmap.core.errors import ManifestError, NotFound, SettingsError
from hotmap.core.text import quote_short
from hotmap.kube.client import Client, Limits
from hotmap.kube.resources import BY_KIND

__all__ = ["run_preview"]

#: Exit statuses: no edit would be held, or one would.
_FINE, _HELD = 0, 1

#: kubernetes: validation.IsConfigMapKey.
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")

#: Characters of data keys in one request; more are asked for as every data key.
_MOST_KEYS = 4000

#: The maximum page size (docs/reference/status.md).
_PAGE = "5000"

_LIMITS = Limits(connect=5.0, attempt=20.0, attempts=2)


class _Edit(NamedTuple):
    """The edit of one source, by names of data keys."""

    source: SourceName
    #: None: every one.
    changed: frozenset[str] | None
    removed: frozenset[str] = frozenset()
    creates: bool = False

    @property
    def changes_nothing(self) -> bool:
        return self.changed is not None and not self.changed and not self.removed


def run_preview(
    text: str,
    options: PreviewOptions,
    cluster: ClusterOptions,
    address: ControllerAddress,
) -> int:
    """Print what an edit would do to each workload; returns the exit status.

    Raises:
        SettingsError: the name or the options are invalid, or no controller answers
            (StatusUnavailable).
        ManifestError: a manifest cannot be read, or has no ConfigMap or Secret.
        ApiError, Unreachable: a ConfigMap or Secret cannot be read for comparison.
    """
    if bool(text) == bool(options.filename):
        raise SettingsError("name a source, such as configmap/app, or manifests with --filename")
    if options.filename and (options.key or options.remove_key):
        raise SettingsError("--key and --remove-key exclude --filename, which says what changes")
    previews = asyncio.run(_get_previews(text, options, cluster, address))
    document = {"apiVersion": "hotmap.dev/v1", "kind": "EditPreviewList", "items": previews}
    if options.output in ("json", "yaml"):
        print_document(document, options.output)
    else:
        console = create_console(options.output)
        for number, item in enumerate(previews):
            if number:
                console.print()
            print_preview(console, convert_document(item, EditPreview))
    held = any(workload["held"] for item in previews for workload in item["workloads"])
    return _HELD if held else _FINE


async def _get_previews(
    text: str, options: PreviewOptions, cluster: ClusterOptions, address: ControllerAddress
) -> list[dict[str, Any]]:
    async with connect(cluster, address) as client:
        namespace = options.namespace or client.namespace
        if text:
            edits = [_named_edit(text, options, namespace)]
        else:
            edits = await _compare_manifests(options.filename, namespace, cluster)
        return [await _get_preview(client, edit) for edit in edits]


def _named_edit(text: str, options: PreviewOptions, namespace: str) -> _Edit:
    source = parse_source_name(text, namespace)
    if source is None or source.kind not in ("ConfigMap", "Secret"):
        raise SettingsError(
            f"invalid source {quote_short(text)}: expected configmap/NAME or secret/NAME"
        )
    changed, removed = frozenset(options.key), frozenset(options.remove_key)
    if problem := _invalid_key(changed | removed):
        raise SettingsError(problem)
    return _Edit(source, changed if changed or removed else None, removed - changed)


async def _get_preview(client: StatusClient, edit: _Edit) -> dict[str, Any]:
    workloads: list[dict[str, Any]] = []
    if not edit.changes_nothing:
        query = {"source": str(edit.source), "limit": _PAGE, **_parameters(edit)}
        workloads = (await client.status(query))["workloads"]
    return {
        **dict(zip(("kind", "namespace", "name"), edit.source, strict=True)),
        "creates": edit.creates,
        "changed": None if edit.changed is None else sorted(edit.changed),
        "removed": sorted(edit.removed),
        "workloads": workloads,
    }


def _parameters(edit: _Edit) -> dict[str, str]:
    changed = "*" if edit.changed is None else ",".join(sorted(edit.changed))
    removed = ",".join(sorted(edit.removed))
    if len(changed) + len(removed) > _MOST_KEYS:
        return {"changed": "*"}
    return {name: value for name, value in (("changed", changed), ("removed", removed)) if value}


# -- manifests -------------------------------------------------------------------------------------


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""


class _SourceManifest(msgspec.Struct, rename="camel"):
    """The fields of a ConfigMap or Secret with content."""

    kind: str
    metadata: _Metadata
    data: dict[str, str | None] | None = None
    binary_data: dict[str, str | None] | None = None
    string_data: dict[str, str | None] | None = None

    def content(self) -> dict[str, bytes]:
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
        content = {name: b64decode(text or "", validate=True) for name, text in encoded.items()}
        return content | {name: (text or "").encode() for name, text in plain.items()}


async def _compare_manifests(
    given: tuple[str, ...], namespace: str, cluster: ClusterOptions
) -> list[_Edit]:
    """List the edits that manifests would make, by comparing them with the cluster's objects."""
    wanted = list(_read_sources(read_manifests(given, None, in_place=False)))
    async with Client(cluster.load(), user_agent="hotmap-cli", limits=_LIMITS) as client:
        edits = []
        for manifest, content in wanted:
            source = SourceName(
                manifest.kind, manifest.metadata.namespace or namespace, manifest.metadata.name
            )
            try:
                found = await client.get(
                    BY_KIND[source.kind], source.namespace, source.name, type=_SourceManifest
                )
            except NotFound:
                edits.append(_Edit(source, frozenset(content), creates=True))
            else:
                before = msgspec.structs.replace(found, kind=source.kind).content()
                edits.append(_compare(source, before, content))
        return edits


def _compare(source: SourceName, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> _Edit:
    changed = (name for name, value in after.items() if before.get(name) != value)
    return _Edit(source, frozenset(changed), frozenset(before) - frozenset(after))


def _read_sources(texts: Mapping[str, str]) -> Iterator[tuple[_SourceManifest, dict[str, bytes]]]:
    count = 0
    for filename, text in texts.items():
        for data, place in Manifest(text, describe_file(filename)).objects():
            if data.get("apiVersion") != "v1" or data.get("kind") not in ("ConfigMap", "Secret"):
                continue
            count += 1
            try:
                manifest = msgspec.convert(data, _SourceManifest)
                content = manifest.content()
            except msgspec.ValidationError as error:
                raise ManifestError(f"{place}: {data['kind']}: {_describe(error)}") from None
            except binascii.Error:
                raise ManifestError(
                    f"{place}: {data['kind']}: a value is not valid base64"
                ) from None
            if problem := _invalid_key(content):
                raise ManifestError(f"{place}: {data['kind']}: {problem}")
            yield manifest, content
    if not count:
        where = ", ".join(map(describe_file, texts))
        raise ManifestError(f"{where}: no ConfigMap or Secret found")


def _invalid_key(names: Iterable[str]) -> str:
    """Say which of some data keys no ConfigMap or Secret can have; "" for none."""
    for name in sorted(names):
        if not _DATA_KEY.fullmatch(name):
            return f"invalid data key {quote_short(name)}: expected letters, digits, -, _ and ."
    return ""


def _describe(error: Exception) -> str:
    return str(error).replace("`", "").replace("$.", "")
