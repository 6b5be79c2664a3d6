"""Whether a namespace takes new objects, and whether it may be deleted.

kubernetes: plugin/pkg/admission/namespace/lifecycle/admission.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.apiserver.encoding import decode
from hotmap.local.apiserver.status import forbidden

if TYPE_CHECKING:
    from hotmap.local.apiserver.reader import ObjectReader
    from hotmap.local.scheme import Kind


_IMMORTAL = ("default", "kube-system", "kube-public")


def check_mortal(kind: Kind, name: str) -> None:
    """Refuse to delete the namespaces that every cluster has.

    Raises:
        Forbidden: it is one of them.
    """
    if not kind.group and kind.plural == "namespaces" and name in _IMMORTAL:
        raise forbidden(kind, name, "this namespace may not be deleted")


def check_namespace(reader: ObjectReader, kind: Kind, namespace: str | None, name: str) -> None:
    """Refuse a new object whose namespace does not exist or is being deleted.

    Raises:
        NotFound: the namespace does not exist.
        Forbidden: it is being deleted.
    """
    if not kind.namespaced:
        return
    namespaces = reader.scheme.resource("namespaces")
    found = decode(reader.entry(namespaces, None, namespace or ""))
    if found["metadata"].get("deletionTimestamp"):
        why = (
            f"unable to create new content in namespace {namespace} because it is being terminated"
        )
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        raise forbidden(kind, name, why, causes=[cause])
