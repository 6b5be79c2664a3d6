"""Gives pods the number of their priority (plugin/pkg/admission/priority)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hotmap.core.errors import NotFound
from hotmap.local.apiserver.encoding import decode
from hotmap.local.apiserver.status import forbidden
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from hotmap.local.apiserver.plugins import AdmissionRequest
    from hotmap.local.apiserver.reader import ObjectReader
    from hotmap.local.store import Store

_PREEMPTS = "PreemptLowerPriority"


class PriorityPlugin:
    """Looks up the PriorityClass of a new pod."""

    def __init__(self, store: Store, reader: ObjectReader) -> None:
        self._store = store
        self._reader = reader
        self._kind = reader.scheme.resource("priorityclasses.scheduling.k8s.io")

    def admit(self, request: AdmissionRequest) -> None:
        kind = request.kind
        if (kind.group, kind.plural) != ("", "pods") or request.subresource:
            return
        spec = request.obj["spec"]
        if request.old:
            # An update keeps what it leaves out; validation refuses another value.
            for field in {"priority", "preemptionPolicy"} & request.old["spec"].keys():
                spec.setdefault(field, request.old["spec"][field])
            return
        name = spec.get("priorityClassName")
        found = self._named(request, name) if name else self._default()
        if found is None:
            value, policy = 0, _PREEMPTS
        else:
            spec["priorityClassName"] = found["metadata"]["name"]
            value, policy = found.get("value", 0), found.get("preemptionPolicy", _PREEMPTS)
        # 0 is also what is filled in for a pod that says nothing.
        if spec.get("priority") not in (None, 0, value):
            raise forbidden(
                kind,
                request.name,
                f"the integer value of priority ({spec['priority']}) must not be provided in pod "
                f"spec; priority admission controller computed {value} from the given "
                "PriorityClass name",
            )
        wanted = spec.get("preemptionPolicy", policy)
        if wanted != policy:
            raise forbidden(
                kind,
                request.name,
                f"the string value of PreemptionPolicy ({wanted}) must not be provided in pod "
                f"spec; priority admission controller computed {policy} from the given "
                "PriorityClass name",
            )
        spec["priority"] = value
        spec["preemptionPolicy"] = policy

    def validate(self, request: AdmissionRequest) -> None:
        pass

    def _named(self, request: AdmissionRequest, name: str) -> JsonObject:
        try:
            return decode(self._reader.entry(self._kind, None, name))
        except NotFound:
            text = f"no PriorityClass with name {name} was found"
            raise forbidden(request.kind, request.name, text) from None

    def _default(self) -> JsonObject | None:
        """Find the class of pods that name none: of several the one with the lowest value."""
        classes: list[JsonObject] = [
            msgspec.json.decode(entry.value or b"")
            for entry in self._store.range(self._kind.prefix(None)).entries
            if b'"globalDefault":true' in (entry.value or b"")
        ]
        return min(classes, key=lambda found: found.get("value", 0), default=None)
