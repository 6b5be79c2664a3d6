"""Command lines of kubectl with what they print, and the files that they use.

`$ ` begins a command line; what follows is its output, `...` stands for anything, and `[1]` at its
end for the exit status, which is 0 otherwise.
"""

from __future__ import annotations

from tests.conformance.transcripts import (
    access,
    apply,
    custom_resources,
    discovery,
    limits,
    objects,
    workloads,
)

__all__ = ["CLUSTER", "FILES", "PLANE"]

_PARTS = (custom_resources, objects, limits, access, apply, discovery)

FILES = {name: text for part in (*_PARTS, workloads) for name, text in part.FILES.items()}

#: Subject → transcript against a cluster without a node.
PLANE = {subject: lines for part in _PARTS for subject, lines in part.PLANE.items()}

#: Against a cluster whose node runs pods.
CLUSTER = workloads.CLUSTER
