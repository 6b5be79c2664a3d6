"""Finds the pod templates in a manifest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hotmap.cli.injection.documents import Node

__all__ = ["Template", "find_templates"]

#: Where each kind keeps its pod template; a Pod is one itself.
_TEMPLATES = {
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Deployment": ("spec", "template"),
    "Job": ("spec", "template"),
    "Pod": (),
    "PodTemplate": ("template",),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Rollout": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
}


class Template(NamedTuple):
    """One pod template in a manifest."""

    kind: str
    name: str
    #: The place of the mapping with `metadata` and `spec` in the text.
    node: Node
    #: The way to it from the document.
    path: tuple[str | int, ...]


def find_templates(document: Node, path: tuple[str | int, ...] = ()) -> Iterator[Template]:
    """Give every pod template in a document, those in a List too, in the order of the text.

    An Argo Rollout that takes its template from elsewhere (`workloadRef`) has none.
    """
    kind = document.get("kind")
    word = str(kind.scalar) if kind else ""
    if word.endswith("List"):
        items = document.get("items")
        for index, item in enumerate(items.items if items and not items.alias else ()):
            yield from find_templates(item, (*path, "items", index))
        return
    if word not in _TEMPLATES or document.alias:
        return
    node = document.get(*_TEMPLATES[word])
    if node is not None and node.kind == "mapping":
        name = document.get("metadata", "name")
        given = name or document.get("metadata", "generateName")
        called = str(given.scalar) if given else ""
        yield Template(word, called, node, (*path, *_TEMPLATES[word]))
