"""Status documents, as a controller answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hotmap.core.status.status_document import SourceSummary, StatusDocument, WorkloadSummary


def source(name: str, kind: str = "ConfigMap", **fields: Any) -> SourceSummary:
    return SourceSummary(kind=kind, name=name, **{"exists": True, **fields})


def workload(
    name: str, state: str = "current", *sources: SourceSummary | str, **fields: Any
) -> WorkloadSummary:
    return WorkloadSummary(
        name=name,
        state=state,
        sources=[item if isinstance(item, SourceSummary) else source(item) for item in sources],
        **{
            "kind": "Deployment",
            "namespace": "shop",
            "reason": f"reason of {name}",
            "pod_count": 3,
            **fields,
        },
    )


def document(workloads: Sequence[WorkloadSummary], **fields: Any) -> StatusDocument:
    counts = dict(Counter(each.state for each in workloads))
    behind = sum(each.behind for each in workloads)
    return StatusDocument(
        workloads=list(workloads), counts=counts, behind=behind, **{"time": 1000.0, **fields}
    )
