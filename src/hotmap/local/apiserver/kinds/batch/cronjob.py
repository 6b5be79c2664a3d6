"""CronJobs (pkg/registry/batch/cronjob/strategy.go)."""

from __future__ import annotations

from typing import Any

from hotmap.local.apiserver.kinds.workload import WorkloadStrategy
from hotmap.local.scheme import STATUS, Kind, Names

JsonObject = dict[str, Any]


class CronJobStrategy(WorkloadStrategy):
    template_path = "spec.jobTemplate.spec.template"
    restart_policies = ("OnFailure", "Never")

    def pod_template(self, spec: JsonObject) -> JsonObject | None:
        return super().pod_template(spec.get("jobTemplate", {}).get("spec", {}))

    def default_spec(self, spec: JsonObject) -> None:
        spec.setdefault("jobTemplate", {}).setdefault("metadata", {})
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)


CRONJOBS = Kind(
    "batch",
    ("v1",),
    Names("cronjobs", "CronJob", ("cj",), ("all",), storage="cronjobs"),
    subresources=(STATUS,),
    strategy=CronJobStrategy(),
)
