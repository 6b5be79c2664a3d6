"""The pod templates of a manifest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hotmap.cli.injection.yaml_nodes import Node

__all__ = ["Template", "find_templates"]

#: The path of the pod template by kind; a Pod is one itself.
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

#: The API groups of these kinds. A custom resource may have one of these names and other content.
_GROUPS = ("", "apps", "argoproj.io", "batch", "extensions")


class Template(NamedTuple):
    """A pod template in a manifest."""

    kind: str
    name: str
    #: The mapping with `metadata` and `spec`.
    node: Node
    #: Its path in the document.
    path: tuple[str | int, ...]
    #: The object whose template it is.
    owner: Node

    @property
    def namespace(self) -> str:
        """The namespace that the manifest gives its object; "" for none."""
        found = self.owner.get("metadata", "namespace")
        return str(found.scalar or "") if found else ""

    def annotation(self, name: str) -> str:
        """The value of an annotation of the object or, if missing there, of the template."""
        for holder in (self.owner, self.node):
            found = holder.get("metadata", "annotations", name)
            if found is not None:
                return str(found.scalar)
        return ""


def find_templates(
    document: Node, path: tuple[str | int, ...] = (), *, implied: str = ""
) -> Iterator[Template]:
    """Yield every pod template of a document, also those in a List, in the order of the text.

    `implied` is the kind if the document names none, as those of a DeploymentList need not.

    An Argo Rollout with a `workloadRef` has none. A custom resource of another API group has one if
    there are containers in it, as those of OpenKruise do.
    """
    kind = document.get("kind")
    word = str(kind.scalar) if kind else implied
    if word.endswith("List"):
        items = document.get("items")
        for index, item in enumerate(items.items if items and not items.alias else ()):
            inner = (*path, "items", index)
            yield from find_templates(item, inner, implied=word.removesuffix("List"))
        return
    if word not in _TEMPLATES or document.alias:
        return
    node = document.get(*_TEMPLATES[word])
    if node is not None and node.kind == "mapping" and _is_pod_template(node, document):
        name = document.get("metadata", "name")
        given = name or document.get("metadata", "generateName")
        called = str(given.scalar) if given else ""
        yield Template(word, called, node, (*path, *_TEMPLATES[word]), document)


def _is_pod_template(node: Node, document: Node) -> bool:
    version = document.get("apiVersion")
    group, _, _ = str(version.scalar if version else "").rpartition("/")
    containers = node.get("spec", "containers")
    return group in _GROUPS or (containers is not None and containers.kind == "sequence")
