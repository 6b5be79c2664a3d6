"""Who wrote a pod template, by managedFields."""

from __future__ import annotations

import sys
from typing import NamedTuple

from hotmap.core.model.consumer import FIELD_MANAGER, REVISION
from hotmap.core.model.objects import ObjectMeta
from hotmap.core.model.source import LONGEST_MANAGER, parse_time
from hotmap.core.reloader.patch import FIELD_MANAGER as RELOADER
from hotmap.core.text import printable

__all__ = ["TemplateWriters", "find_writers"]

#: The entry in a manager's field set as long as the template has what it wrote. Reloader writes
#: nothing there but its marks: an annotation, or a variable.
_REVISION_FIELD = f'"f:{REVISION}"'.encode()
_TEMPLATE_FIELD = b'"f:template"'


class TemplateWriters(NamedTuple):
    """The writers of the pod template by managedFields; times: POSIX seconds of the API server."""

    #: The manager that owns the revision, and when ours last wrote it.
    revision_owner: str = ""
    revision_at: float | None = None
    reloaded_at: float | None = None
    #: The other manager that wrote last, and when.
    last: str = ""
    last_at: float = 0.0

    def written_at(self, *, stamped: bool) -> float | None:
        """Return when a rollout was last written; `stamped`: Reloader's marks are ours."""
        times = (self.revision_at, self.reloaded_at if stamped else None)
        return max((at for at in times if at is not None), default=None)


def find_writers(metadata: ObjectMeta) -> TemplateWriters:
    """Read who wrote the pod template.

    After an undo took the annotation over, our entry remains, but without the annotation.
    """
    found = TemplateWriters()
    for entry in metadata.managed_fields or ():
        at = parse_time(entry.time)
        if entry.subresource or at is None:
            continue
        fields = bytes(entry.fields_v1)
        manager = sys.intern(printable(entry.manager, LONGEST_MANAGER))
        if _REVISION_FIELD in fields:
            found = found._replace(revision_owner=manager)
            if manager == FIELD_MANAGER:
                found = found._replace(revision_at=max(at, found.revision_at or 0.0))
        if manager == RELOADER and _TEMPLATE_FIELD in fields:
            found = found._replace(reloaded_at=max(at, found.reloaded_at or 0.0))
        if manager != FIELD_MANAGER and _TEMPLATE_FIELD in fields and at >= found.last_at:
            found = found._replace(last=manager, last_at=at)
    return found
