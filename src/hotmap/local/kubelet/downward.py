"""The downward API: fieldRef and resourceFieldRef, for environment and volumes.

Pure: values in, text out. Which form a use allows is the API server's validation.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hotmap.core.errors import ManifestError
from hotmap.core.payload import downward_map
from hotmap.local.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
_FIELDS = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
    "metadata.uid": ("metadata", "uid"),
    "spec.nodeName": ("spec", "nodeName"),
    "spec.serviceAccountName": ("spec", "serviceAccountName"),
    "status.hostIP": ("status", "hostIP"),
    "status.podIP": ("status", "podIP"),
}
_IP_LISTS = {"status.hostIPs": "hostIPs", "status.podIPs": "podIPs"}


def field_text(pod: Mapping[str, Any], path: str) -> str:
    """Return the text of a fieldRef; a label or annotation that is not there gives "".

    kubernetes: pkg/fieldpath/fieldpath.go and pkg/kubelet/kubelet_pods.go.

    Raises:
        ManifestError: no such field can be referred to.
    """
    if path in ("metadata.labels", "metadata.annotations"):
        return downward_map(pod["metadata"].get(path.removeprefix("metadata.")) or {})
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript:
        which, key = subscript.groups()
        return str((pod["metadata"].get(which) or {}).get(key, ""))
    if path in _IP_LISTS:
        entries = pod.get("status", {}).get(_IP_LISTS[path]) or []
        return ",".join(entry["ip"] for entry in entries)
    if path not in _FIELDS:
        raise ManifestError(f"unsupported fieldPath: {path}")
    section, name = _FIELDS[path]
    return str(pod.get(section, {}).get(name, ""))


def resource_text(
    container: Mapping[str, Any], reference: Mapping[str, Any], allocatable: Mapping[str, str]
) -> str:
    """Return the text of a resourceFieldRef: the quantity divided by the divisor, rounded up.

    A limit that is not set is the node's allocatable amount, a request that is not set is 0
    (kubernetes: pkg/api/v1/resource/helpers.go, ExtractContainerResourceValue).

    Raises:
        ManifestError: no such resource can be referred to, or a quantity is invalid.
    """
    which, _, resource = reference["resource"].partition(".")
    if which not in ("limits", "requests") or not resource:
        raise ManifestError(f"unsupported container resource: {reference['resource']}")
    given = (container.get("resources") or {}).get(which) or {}
    fallback = allocatable.get(resource, "0") if which == "limits" else "0"
    amount = _amount(str(given.get(resource, fallback)))
    divisor = _amount(str(reference.get("divisor") or "1"))
    return str(math.ceil(amount / (divisor or 1)))


def _amount(text: str) -> Decimal:
    try:
        return parse_quantity(text)
    except ValueError as error:
        raise ManifestError(str(error)) from None
