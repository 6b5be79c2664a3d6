"""`hotmap preview`: what an edit of a ConfigMap or Secret would do, before it is made.

The controller decides; it is given names of data keys, which `source_edits` finds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import Any

from hotmap.agent.runtime.standard_streams import print_message
from hotmap.cli.command_options import PreviewOptions
from hotmap.cli.manifest_files import read_manifests
from hotmap.cli.printers import print_preview
from hotmap.cli.shared_options import ClusterOptions, ControllerAddress
from hotmap.cli.source_edits import (
    SourceEdit,
    compare_manifests,
    find_unknown_keys,
    is_missing,
    named_edit,
)
from hotmap.cli.status_client import StatusClient, connect
from hotmap.cli.status_output import create_console, print_document, read_printable
from hotmap.core.errors import SettingsError
from hotmap.core.status.status_document import EditPreview, PreviewDocument
from hotmap.core.text import quote_short

__all__ = ["run_preview"]

#: Exit statuses: no edit would be held, one would, or a source could not be compared.
_FINE, _HELD, _UNKNOWN = 0, 1, 2

#: Characters of changed data keys in one request, and of removed ones. Of more, changed ones count
#: as every data key, and removed ones are asked for in several requests.
_MOST_KEYS = 2000

#: The maximum page size (docs/reference/status.md).
_PAGE = "5000"


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
    items = [read_printable(item, EditPreview) for item in previews]
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
            changed, removed = frozenset(options.key), frozenset(options.remove_key)
            edits = [named_edit(text, namespace, changed=changed, removed=removed)]
        else:
            edits, unread = await compare_manifests(texts, namespace, cluster)
        previews = [await _get_preview(client, edit) for edit in edits]
        # That no workload uses it is not an answer to a name that was mistyped.
        if text and not previews[0]["workloads"]:
            previews[0]["creates"] = await is_missing(edits[0].source, cluster)
        elif text:
            for name, meant in await find_unknown_keys(edits[0], cluster):
                hint = f"; did you mean '{meant}'" if meant else ""
                print_message(
                    f"hotmap: note: configmap/{edits[0].source.name} has no data key {name}{hint}"
                )
        return previews, unread


async def _get_preview(client: StatusClient, edit: SourceEdit) -> dict[str, Any]:
    workloads: dict[tuple[str, str], dict[str, Any]] = {}
    limit = 0
    for parameters in [] if edit.changes_nothing else _requests(edit):
        query = {"source": str(edit.source), "limit": _PAGE, **parameters}
        answer = await client.status(query, type_=PreviewDocument)
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


def _requests(edit: SourceEdit) -> list[dict[str, str]]:
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
