"""Gives pods the overhead and the nodes of their RuntimeClass.

kubernetes: plugin/pkg/admission/runtimeclass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.core.errors import NotFound
from hotmap.local.apiserver.encoding import decode
from hotmap.local.apiserver.status import forbidden
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from hotmap.core.errors import ApiError
    from hotmap.local.apiserver.plugins import AdmissionRequest
    from hotmap.local.apiserver.reader import ObjectReader


class RuntimeClassPlugin:
    """Looks up the RuntimeClass of a new pod."""

    def __init__(self, reader: ObjectReader) -> None:
        self._reader = reader
        self._kind = reader.scheme.resource("runtimeclasses.node.k8s.io")

    def admit(self, request: AdmissionRequest) -> None:
        if not _is_new_pod(request):
            return
        spec, found = request.obj["spec"], self._find(request)
        overhead = (found.get("overhead") or {}).get("podFixed")
        if overhead:
            if spec.get("overhead") not in (None, {}, overhead):
                why = "Pod's Overhead doesn't match RuntimeClass's defined Overhead"
                raise _refused(request, f"pod rejected: {why}")
            spec["overhead"] = dict(overhead)
        scheduling = found.get("scheduling") or {}
        selector = scheduling.get("nodeSelector") or {}
        wanted = spec.get("nodeSelector") or {}
        for key, value in selector.items():
            if wanted.get(key, value) != value:
                raise _refused(
                    request,
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                    f"pod.spec.nodeSelector[{key}] = {wanted[key]}",
                )
        if selector:
            spec["nodeSelector"] = {**wanted, **selector}
        for toleration in scheduling.get("tolerations") or ():
            if toleration not in spec.setdefault("tolerations", []):
                spec["tolerations"].append(toleration)

    def validate(self, request: AdmissionRequest) -> None:
        if not _is_new_pod(request):
            return
        found = self._find(request)
        overhead = request.obj["spec"].get("overhead")
        defined = (found.get("overhead") or {}).get("podFixed")
        if defined and overhead != defined:
            why = "Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            raise _refused(request, f"pod rejected: {why}")
        if overhead and not defined:
            why = "Pod Overhead set without corresponding RuntimeClass defined Overhead"
            raise _refused(request, f"pod rejected: {why}")

    def _find(self, request: AdmissionRequest) -> JsonObject:
        """Return the pod's RuntimeClass, an empty object where it names none.

        Raises:
            Forbidden: it does not exist.
        """
        name = request.obj["spec"].get("runtimeClassName")
        if not name:
            return {}
        try:
            return decode(self._reader.entry(self._kind, None, name))
        except NotFound:
            raise _refused(request, f'pod rejected: RuntimeClass "{name}" not found') from None


def _is_new_pod(request: AdmissionRequest) -> bool:
    kind = (request.kind.group, request.kind.plural)
    return kind == ("", "pods") and not (request.old or request.subresource or request.deleted)


def _refused(request: AdmissionRequest, why: str) -> ApiError:
    return forbidden(request.kind, request.name, why)
