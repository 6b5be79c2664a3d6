"""Who wrote a pod template, and who paused its Deployment, by managedFields."""

from __future__ import annotations

import re
import sys
from typing import NamedTuple

import msgspec

from hotmap.core.model.consumer import FIELD_MANAGER, REVISION
from hotmap.core.model.objects import ObjectMeta
from hotmap.core.model.source import LONGEST_MANAGER, parse_time
from hotmap.core.reloader.patch import FIELD_MANAGERS as RELOADERS
from hotmap.core.text import printable

__all__ = ["NO_WRITERS", "TemplateWriters", "find_writers", "is_paused_by_other"]

#: The entry in a manager's field set as long as the template has what it wrote. Reloader writes
#: nothing there but its marks: an annotation, or variables.
_REVISION_FIELD = f'"f:{REVISION}"'.encode()
_TEMPLATE_FIELD = b'"f:template"'
#: What a manager owns of each variable; in a custom resource, a list of containers is one field.
#: Nothing is tried twice ("++", "*+"): a tenant may write names of fields of any length, and what
#: the search keeps in order to go back takes 170 times as much memory.
_VARIABLES = re.compile(rb'\\"name\\":\\"STAKATER_[^"\\]*\\"}":{((?:[^{}]++|{})*+)}')

_PAUSED_FIELD = b'"f:paused"'


class _SpecFields(msgspec.Struct):
    paused: msgspec.Raw = msgspec.field(name="f:paused", default=msgspec.Raw())


class _Fields(msgspec.Struct):
    spec: _SpecFields = msgspec.field(name="f:spec", default_factory=_SpecFields)


_decoder = msgspec.json.Decoder(_Fields)


class TemplateWriters(NamedTuple):
    """The writers of the pod template by managedFields; times: POSIX seconds of the API server."""

    #: The manager that owns the revision, and when ours last wrote it.
    revision_owner: str = ""
    revision_at: float | None = None
    reloaded_at: float | None = None
    #: When Reloader's marks were last written, if the template still has them from there.
    marked_at: float | None = None
    #: The other manager that wrote last, and when.
    last: str = ""
    last_at: float = 0.0

    def written_at(self, *, stamped: bool) -> float | None:
        """Return when a rollout was last written; `stamped`: Reloader's marks are ours."""
        times = (self.revision_at, self.marked_at if stamped else None)
        return max((at for at in times if at is not None), default=None)


NO_WRITERS = TemplateWriters()


def find_writers(metadata: ObjectMeta) -> TemplateWriters:
    """Read who wrote the pod template.

    After an undo took the annotation over, our entry remains, but without the annotation. Of a
    variable, it takes over the value alone.
    """
    revision_owner, last, last_at = "", "", 0.0
    revision_at: float | None = None
    reloaded_at: float | None = None
    marked_at: float | None = None
    for entry in metadata.managed_fields or ():
        if entry.subresource:
            continue
        fields = bytes(entry.fields_v1)
        has_revision, has_template = _REVISION_FIELD in fields, _TEMPLATE_FIELD in fields
        if not (has_revision or has_template) or (at := parse_time(entry.time)) is None:
            continue
        manager = sys.intern(printable(entry.manager, LONGEST_MANAGER))
        if has_revision:
            revision_owner = manager
            if manager == FIELD_MANAGER:
                revision_at = max(at, revision_at or 0.0)
        if manager in RELOADERS and has_template:
            reloaded_at = max(at, reloaded_at or 0.0)
            if _owns_marks(fields):
                marked_at = max(at, marked_at or 0.0)
        # Of several in one second Reloader is the last: it follows an edit within that second.
        is_last = at > last_at or (at == last_at and last not in RELOADERS)
        if manager != FIELD_MANAGER and has_template and is_last:
            last, last_at = manager, at
    return TemplateWriters(revision_owner, revision_at, reloaded_at, marked_at, last, last_at)


def _owns_marks(fields: bytes) -> bool:
    return all(b'"f:value"' in owned for owned in _VARIABLES.findall(fields))


def is_paused_by_other(metadata: ObjectMeta) -> bool:
    """Return whether another manager than ours and Reloader owns `spec.paused`.

    A manager that applies the value that a field already has becomes one of its owners (kubernetes:
    server-side apply), so this also finds managers that want it paused as well.
    """
    return any(
        not entry.subresource
        and entry.manager not in (FIELD_MANAGER, *RELOADERS)
        and _owns_paused(bytes(entry.fields_v1))
        for entry in metadata.managed_fields or ()
    )


def _owns_paused(fields: bytes) -> bool:
    if _PAUSED_FIELD not in fields:
        return False
    try:
        return bool(bytes(_decoder.decode(fields).spec.paused))
    except msgspec.DecodeError:
        return False
