"""Jobs (pkg/registry/batch/job/strategy.go)."""

from __future__ import annotations

from typing import Any

from hotmap.local.apiserver.kinds.workload import WorkloadStrategy
from hotmap.local.scheme import STATUS, Kind, Names

JsonObject = dict[str, Any]


class JobStrategy(WorkloadStrategy):
    restart_policies = ("OnFailure", "Never")
    selectable_fields = (("status.successful", ("status", "succeeded")),)

    def prepare_create(self, obj: JsonObject) -> None:
        """Select the pods of this Job by its uid, and label them (generateSelector)."""
        spec, metadata = obj["spec"], obj["metadata"]
        template = spec.get("template")
        if template is None or spec.get("manualSelector") or "selector" in spec:
            return
        names = {"controller-uid": metadata["uid"], "job-name": metadata.get("name", "")}
        labels = template["metadata"].setdefault("labels", {})
        # Upstream's Job shares the map of labels with its template where it has none of its own.
        shared = metadata.get("labels") == labels
        for label, value in names.items():
            labels[label] = labels[f"batch.kubernetes.io/{label}"] = value
        if shared:
            metadata["labels"] = dict(labels)
        own = {"batch.kubernetes.io/controller-uid": metadata["uid"]}
        spec["selector"] = {"matchLabels": own}

    def default_spec(self, spec: JsonObject) -> None:
        if "completions" not in spec and "parallelism" not in spec:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", 6)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
        spec.setdefault("manualSelector", False)

    def default(self, obj: JsonObject) -> None:
        super().default(obj)
        labels = (obj["spec"].get("template") or {}).get("metadata", {}).get("labels")
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)


JOBS = Kind(
    "batch",
    ("v1",),
    Names("jobs", "Job", (), ("all",), storage="jobs"),
    subresources=(STATUS,),
    strategy=JobStrategy(),
)
