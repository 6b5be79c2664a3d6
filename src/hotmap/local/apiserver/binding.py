"""The binding subresource: assigns pods to nodes (pkg/registry/core/pod/storage, BindingREST)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hotmap.core.errors import Conflict
from hotmap.local.apiserver.encoding import decode, encode
from hotmap.local.apiserver.kinds.core.pod import assign_node
from hotmap.local.apiserver.status import conflict
from hotmap.local.apiserver.writer import uid_precondition

if TYPE_CHECKING:
    from hotmap.local.apiserver.reader import ObjectReader
    from hotmap.local.apiserver.routes import ResourcePath
    from hotmap.local.store import Store


class Binding(NamedTuple):
    """To which node a pod is bound; a `uid` is a precondition."""

    node: str
    uid: str = ""


def binding_conflict(name: str, why: str) -> Conflict:
    """Make the 409 of a pod that cannot be bound; upstream names the subresource."""
    return Conflict(
        f'Operation cannot be fulfilled on pods/binding "{name}": {why}',
        details={"name": name, "kind": "pods/binding"},
    )


def bind(
    store: Store, reader: ObjectReader, path: ResourcePath, binding: Binding, *, now: str
) -> None:
    """Assign a pod to a node; `now` is the time of its condition.

    Raises:
        NotFound: the pod does not exist.
        Conflict: it is bound already, is being deleted, has gates, or has another uid.
    """
    kind, name = path.kind, path.name
    entry = reader.entry(kind, path.namespace, name)
    pod = decode(entry)
    metadata = pod["metadata"]
    if binding.uid and binding.uid != metadata["uid"]:
        raise conflict(kind, name, uid_precondition(entry.key, binding.uid, metadata["uid"]))
    if metadata.get("deletionTimestamp"):
        raise binding_conflict(name, f"pod {name} is being deleted, cannot be assigned to a host")
    present = pod["spec"].get("nodeName")
    if present:
        raise binding_conflict(name, f'pod {name} is already assigned to node "{present}"')
    if pod["spec"].get("schedulingGates"):
        raise binding_conflict(name, f"pod {name} has non-empty .spec.schedulingGates")
    assign_node(pod, binding.node, now)
    store.update(entry.key, encode(pod), expected=entry.mod_revision)
