"""CronJobs (pkg/registry/batch/cronjob/strategy.go)."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

from hotmap.local.apiserver.kinds.batch.failure_policy import (
    default_failure_policy,
    failure_policy_errors,
)
from hotmap.local.apiserver.kinds.batch.indexed import indexed_errors
from hotmap.local.apiserver.kinds.batch.job import job_spec_errors
from hotmap.local.apiserver.kinds.stored_columns import CRONJOB_COLUMNS
from hotmap.local.apiserver.kinds.workload import WorkloadStrategy
from hotmap.local.field_errors import NOT_NEGATIVE, FieldError, invalid_value, required, unsupported
from hotmap.local.json_object import JsonObject
from hotmap.local.scheme import STATUS, Kind, Names

_POLICIES = ("Allow", "Forbid", "Replace")
# The controller's Jobs have eleven more (ValidateCronJobCreate).
_MAX_NAME = 52
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"
_NAMES: tuple[dict[str, int], ...] = (
    {},
    {},
    {},
    {name: number for number, name in enumerate(_MONTHS.split(), 1)},
    {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])},
)
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")


def schedule_error(schedule: str) -> str:
    """Return the error of a schedule (github.com/robfig/cron: parser.go), "" for none."""
    text = re.sub(r"^(CRON_)?TZ=\S* *", "", schedule)
    if text.startswith("@"):
        if text in _DESCRIPTORS or text.startswith("@every "):
            return ""
        return f"unrecognized descriptor: {text}"
    fields = text.split()
    if len(fields) != len(_BOUNDS):
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    for field, bounds, names in zip(fields, _BOUNDS, _NAMES, strict=True):
        for part in filter(None, field.split(",")):
            why = _range_error(part, bounds, names)
            if why:
                return why
    return ""


def _range_error(part: str, bounds: tuple[int, int], names: dict[str, int]) -> str:
    span, *steps = part.split("/")
    ends = span.split("-")
    least, most = bounds
    start, end = bounds
    if ends[0] not in ("*", "?"):
        if len(ends) > 2:
            return f"too many hyphens: {part}"
        found = [_number(text, names) for text in ends]
        for number in found:
            if isinstance(number, str):
                return number
        start, end = (int(found[0]), int(found[-1]))
    if len(steps) > 1:
        return f"too many slashes: {part}"
    if steps:
        step = _number(steps[0], {})
        if isinstance(step, str):
            return step
        end = most if len(ends) == 1 else end
    wrong = (
        (start < least, f"beginning of range ({start}) below minimum ({least})"),
        (end > most, f"end of range ({end}) above maximum ({most})"),
        (start > end, f"beginning of range ({start}) beyond end of range ({end})"),
        (bool(steps) and int(steps[0]) == 0, "step of range should be a positive number"),
    )
    return next((f"{why}: {part}" for is_wrong, why in wrong if is_wrong), "")


def _number(text: str, names: dict[str, int]) -> int | str:
    """Read a number or a name; return an error if it is neither."""
    try:
        number = names.get(text.lower()) or int(text)
    except ValueError:
        why = f'strconv.Atoi: parsing "{text}": invalid syntax'
        return f"failed to parse int from {text}: {why}"
    return f"negative number ({number}) not allowed: {text}" if number < 0 else number


def _zone_errors(zone: str) -> list[FieldError]:
    path = "spec.timeZone"
    if not zone:
        return [invalid_value(path, zone, "timeZone must be nil or non-empty string")]
    errors: list[FieldError] = []
    if zone.lower() == "local":
        errors.append(invalid_value(path, zone, "timeZone must be an explicit time zone as defined "
                                    "in https://www.iana.org/time-zones"))  # fmt: skip
    # Go itself knows the one of the machine by this name.
    if zone != "Local" and not _is_known_zone(zone):
        errors.append(invalid_value(path, zone, f"unknown time zone {zone}"))
    return errors


def _is_known_zone(zone: str) -> bool:
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, KeyError):
        return False
    return True


class CronJobStrategy(WorkloadStrategy):
    template_path = "spec.jobTemplate.spec.template"
    columns = CRONJOB_COLUMNS
    restart_policies = ("OnFailure", "Never")

    def pod_template(self, spec: JsonObject) -> JsonObject | None:
        return super().pod_template(spec.get("jobTemplate", {}).get("spec", {}))

    def count_errors(self, spec: JsonObject) -> list[FieldError]:
        errors: list[FieldError] = []
        schedule, zone = spec.get("schedule", ""), spec.get("timeZone")
        if not schedule:
            errors.append(required("spec.schedule"))
        else:
            why = schedule_error(schedule)
            if why:
                errors.append(invalid_value("spec.schedule", schedule, why))
            if "TZ" in schedule:
                why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
                errors.append(invalid_value("spec.schedule", schedule, why))
        if spec.get("startingDeadlineSeconds", 0) < 0:
            at = "spec.startingDeadlineSeconds"
            errors.append(invalid_value(at, spec["startingDeadlineSeconds"], NOT_NEGATIVE))
        if zone is not None:
            errors += _zone_errors(zone)
        policy = spec["concurrencyPolicy"]
        if policy not in _POLICIES:
            errors.append(unsupported("spec.concurrencyPolicy", policy, _POLICIES))
        path, job = "spec.jobTemplate.spec", spec["jobTemplate"]["spec"]
        errors += job_spec_errors(job, path)
        if "selector" in job:
            why = "`selector` will be auto-generated"
            errors.append(invalid_value(f"{path}.selector", job["selector"], why))
        if job.get("manualSelector"):
            errors.append(unsupported(f"{path}.manualSelector", True, ("nil", "false")))
        return errors

    def spec_errors(self, spec: JsonObject) -> list[FieldError]:
        job = (spec.get("jobTemplate") or {}).get("spec") or {}
        return [
            *failure_policy_errors(job, "spec.jobTemplate.spec"),
            *indexed_errors(job, "spec.jobTemplate.spec"),
            *(
                invalid_value(f"spec.{field}", spec[field], NOT_NEGATIVE)
                for field in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
                if spec.get(field, 0) < 0
            ),
        ]

    def validate(self, obj: JsonObject) -> list[FieldError]:
        errors = super().validate(obj)
        name = obj["metadata"].get("name", "")
        if len(name) > _MAX_NAME:
            why = f"must be no more than {_MAX_NAME} characters"
            errors.append(invalid_value("metadata.name", name, why))
        return errors

    def default_spec(self, spec: JsonObject) -> None:
        template = spec.setdefault("jobTemplate", {})
        template.setdefault("metadata", {})
        default_failure_policy(template.get("spec") or {})
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
