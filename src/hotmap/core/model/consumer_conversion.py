"""Makes consumers from decoded workloads, each in one step."""

from __future__ import annotations

from sys import intern
from typing import NamedTuple, TypedDict

import msgspec

from hotmap.core.model.agent_containers import application_containers
from hotmap.core.model.annotations import AGENT, known_annotations
from hotmap.core.model.config_volumes import ConfigVolume, find_config_volumes
from hotmap.core.model.consumer import Argo, Consumer, is_owned, selector_text
from hotmap.core.model.limits import LimitExceeded, check_selector
from hotmap.core.model.objects import (
    CommonMeta,
    Condition,
    CronJob,
    Job,
    ObjectKey,
    ObjectMeta,
    Pod,
    PodTemplate,
    Rollout,
    Workload,
    WorkloadRef,
    WorkloadSpec,
)
from hotmap.core.model.references import LONGEST_NAME
from hotmap.core.model.source import parse_time
from hotmap.core.model.template_writers import NO_WRITERS, find_writers, is_paused_by_other
from hotmap.core.model.uses import NO_USES, Uses, uses_of_template
from hotmap.core.reloader.annotations import DEFAULT_SETTINGS, DialectSettings, Writing
from hotmap.core.reloader.patch import Traces, find_traces
from hotmap.core.text import printable, shorten

__all__ = [
    "MAX_RUNS",
    "consumer_from_cron_job",
    "consumer_from_job",
    "consumer_from_pod",
    "consumer_from_rollout",
    "consumer_from_workload",
    "is_finished",
    "resolve_max_unavailable",
]

#: The shared empty annotations; most consumers have none.
_NO_VALUES: dict[str, str] = {}


def consumer_from_workload(
    kind: str,
    item: Workload,
    dialect: DialectSettings = DEFAULT_SETTINGS,
    *,
    known: Consumer | None = None,
) -> Consumer:
    """Reduce a Deployment, StatefulSet, DaemonSet, or ReplicaSet.

    `known` is the value before, in the same watch. Its spec is not read again while the generation
    is the same: that increases with every change of the spec (kubernetes: pkg/registry/apps,
    PrepareForUpdate), and nearly all updates of a watch change the status.
    """
    if known is not None and _has_same_spec(known, item.metadata):
        updated = _with_new_status(kind, item, dialect, known)
        if updated is not None:
            return updated
    spec = item.spec
    update = spec.update_strategy
    progress = _progress(kind, item, 1 if spec.replicas is None else spec.replicas)
    wanted = progress.wanted
    return _consumer(
        kind,
        item.metadata,
        spec.template,
        _WorkloadState(
            selector=selector_text(spec.selector),
            replicas=None if kind == "DaemonSet" else wanted,
            paused=spec.paused,
            paused_by_other=kind == "Deployment"
            and spec.paused
            and is_paused_by_other(item.metadata),
            suspended=bool(spec.suspend),
            update_strategy=shorten(update.type, _LONGEST_VERSION) if update else "",
            partition=(update.rolling_update.partition or 0)
            if update and update.rolling_update
            else 0,
            template_version=_template_version(kind, item),
            rolling=progress.rolling,
            wanted=wanted,
            behind=progress.behind,
            pods=progress.pods,
            available=progress.available,
            blocked_by=progress.blocked_by,
            ordered=kind == "StatefulSet" and spec.pod_management_policy != "Parallel",
            max_unavailable=_max_unavailable(kind, spec, wanted),
        ),
        dialect=dialect,
        known=known,
    )


def _has_same_spec(known: Consumer, metadata: CommonMeta) -> bool:
    return known.uid == metadata.uid and 0 < known.generation == metadata.generation


def _with_new_status(
    kind: str, item: Workload, dialect: DialectSettings, known: Consumer
) -> Consumer | None:
    """Return the consumer with its new status; None: more than its status has changed."""
    metadata = item.metadata
    progress = _progress(kind, item, known.wanted)
    annotations = known_annotations(metadata.annotations, dialect.names)
    # An agent may be named here instead of in the template, and bounds may be percentages.
    if annotations != known.annotations or progress.wanted != known.wanted:
        return None
    writers = find_writers(metadata)
    return msgspec.structs.replace(
        known,
        resource_version=metadata.resource_version,
        template_version=_template_version(kind, item),
        rolling=progress.rolling,
        behind=progress.behind,
        pods=progress.pods,
        available=progress.available,
        blocked_by=progress.blocked_by,
        # Who applies the value that the field has already becomes an owner without a generation.
        paused_by_other=kind == "Deployment" and known.paused and is_paused_by_other(metadata),
        owned=is_owned(metadata),
        written_at=writers.written_at(stamped=dialect.writing is not Writing.REVISION),
        revision_owner=writers.revision_owner,
        template_writer=writers.last,
        template_written_at=writers.last_at,
        reloaded_at=writers.reloaded_at,
    )


class _Progress(NamedTuple):
    """How far a workload's own controller is; see `Consumer`."""

    rolling: bool
    wanted: int
    behind: int
    pods: int
    available: int
    blocked_by: str


def _progress(kind: str, item: Workload, replicas: int) -> _Progress:
    """Read the progress from a status; `replicas` are those of the spec."""
    status = item.status
    wanted, behind, pods = replicas, 0, status.replicas
    if kind in ("Deployment", "StatefulSet"):
        behind = max(wanted, status.replicas) - status.updated_replicas
    elif kind == "DaemonSet":
        wanted = status.desired_number_scheduled
        behind = wanted - status.updated_number_scheduled
        pods = status.current_number_scheduled + status.number_misscheduled
    unseen = status.observed_generation < item.metadata.generation
    return _Progress(
        unseen or behind > 0,
        wanted,
        wanted if unseen else max(0, behind),
        pods,
        status.number_available if kind == "DaemonSet" else status.available_replicas,
        _blocked_by(status.encoded_conditions) if behind > 0 and kind == "Deployment" else "",
    )


#: Characters that are kept of why pods cannot be created.
_LONGEST_MESSAGE = 300


def _blocked_by(conditions: msgspec.Raw) -> str:
    """Return why a Deployment's ReplicaSet cannot create pods; "" if it can.

    Such as a ResourceQuota or an admission policy (kubernetes:
    pkg/controller/deployment/progress.go, syncRolloutStatus).
    """
    if b'"ReplicaFailure"' not in bytes(conditions):
        return ""
    found = msgspec.json.decode(conditions, type=list[Condition])
    failures = (each for each in found if (each.type, each.status) == ("ReplicaFailure", "True"))
    return printable(next((each.message for each in failures), ""), _LONGEST_MESSAGE)


def _max_unavailable(kind: str, spec: WorkloadSpec, wanted: int) -> int:
    """Resolve maxUnavailable: an integer or a percentage of the desired pods, at least 1.

    Kinds without it, and an invalid one, have the default of their controller (kubernetes:
    pkg/apis/apps/v1/defaults.go). A percentage is rounded down, as for a Deployment.
    """
    strategy = spec.strategy if kind == "Deployment" else spec.update_strategy
    rolling = strategy.rolling_update if strategy else None
    default = "25%" if kind == "Deployment" else 1
    return resolve_max_unavailable(
        rolling.max_unavailable if rolling else None, default=default, wanted=wanted
    )


def resolve_max_unavailable(value: int | str | None, *, default: int | str, wanted: int) -> int:
    """Resolve an int-or-percent as the workload controllers do, but at least 1.

    Anything else counts as the default.
    """
    for each in (value, default):
        if isinstance(each, int):
            return max(1, each)
        if each and each.endswith("%") and each[:-1].isascii() and each[:-1].isdecimal():
            return max(1, wanted * min(int(each[:4].rstrip("%")), 100) // 100)
    return 1


#: Written by the workload controllers each time the template changes (kubernetes:
#: pkg/controller/deployment/util, pkg/registry/apps/daemonset/strategy.go).
_VERSION_ANNOTATIONS = {
    "Deployment": "deployment.kubernetes.io/revision",
    "DaemonSet": "deprecated.daemonset.template.generation",
}


#: Characters that are kept of numbers, digests and enumerated values that any user may write.
_LONGEST_VERSION = 40


def _template_version(kind: str, item: Workload) -> str:
    if kind == "StatefulSet":
        return shorten(item.status.update_revision, LONGEST_NAME)
    version = (item.metadata.annotations or {}).get(_VERSION_ANNOTATIONS.get(kind, ""), "")
    return intern(shorten(version, _LONGEST_VERSION))  # a small number in most


#: Runs of a CronJob whose pods are examined.
MAX_RUNS = 50


def consumer_from_cron_job(
    item: CronJob, dialect: DialectSettings = DEFAULT_SETTINGS, *, known: Consumer | None = None
) -> Consumer:
    """Reduce a CronJob; its pods come from the Jobs it makes."""
    active = [run.name for run in item.status.active or ()]
    return msgspec.structs.replace(
        _consumer(
            "CronJob",
            item.metadata,
            item.spec.job_template.spec.template,
            _WorkloadState(suspended=bool(item.spec.suspend)),
            dialect=dialect,
            known=known,
        ),
        exclusive=item.spec.concurrency_policy in ("Forbid", "Replace"),
        runs=tuple(sorted(active)[:MAX_RUNS]),
    )


def consumer_from_job(
    item: Job, dialect: DialectSettings = DEFAULT_SETTINGS, *, known: Consumer | None = None
) -> Consumer:
    """Reduce a Job."""
    consumer = _consumer(
        "Job",
        item.metadata,
        item.spec.template,
        _WorkloadState(
            selector=selector_text(item.spec.selector),
            replicas=1,
            wanted=1,
            suspended=bool(item.spec.suspend),
        ),
        dialect=dialect,
        known=known,
    )
    return msgspec.structs.replace(consumer, finished=True) if is_finished(item) else consumer


def is_finished(job: Job) -> bool:
    """Return whether a Job has completed or failed."""
    return any(
        condition.status == "True"
        for condition in job.status.conditions or ()
        if condition.type in ("Complete", "Failed")
    )


def consumer_from_pod(item: Pod, dialect: DialectSettings = DEFAULT_SETTINGS) -> Consumer:
    """Reduce a Pod that no workload manages; it is its own template."""
    return _consumer(
        "Pod",
        item.metadata,
        PodTemplate(spec=item.spec),
        _WorkloadState(replicas=1, wanted=1),
        dialect=dialect,
    )


def consumer_from_rollout(
    item: Rollout, dialect: DialectSettings = DEFAULT_SETTINGS, *, known: Consumer | None = None
) -> Consumer:
    """Reduce an Argo Rollout.

    One that takes its pod template from a Deployment is not a consumer itself: the template to
    write is there, see `rolled_by`. `currentPodHash` names the newest template and `stableRS` the
    promoted one (argo-rollouts: utils/conditions, RolloutHealthy). Blue-green, and a canary with
    traffic routing, keep older pods for `scaleDownDelaySeconds` after a promotion. While the spec
    is invalid, both are of the last valid one (rollout/controller.go,
    createInvalidRolloutCondition).
    """
    spec, status, metadata = item.spec, item.status, item.metadata
    ref = spec.workload_ref
    unseen = str(status.observed_generation) != str(metadata.generation)
    restart_at, restarted_at = parse_time(spec.restart_at), parse_time(status.restarted_at)
    argo = Argo(
        key=ObjectKey("Rollout", metadata.namespace, metadata.name),
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        template_in=_referenced(ref, metadata.namespace) if ref else None,
        template_seen=shorten(str(status.workload_observed_generation), _LONGEST_VERSION),
        restart_at=restart_at,
        phase="" if unseen else shorten(status.phase, _LONGEST_VERSION),
        message="" if unseen else printable(status.message, _LONGEST_MESSAGE),
        aborted=status.abort and not unseen,
        aborted_at=parse_time(status.aborted_at),
        template_hash=shorten(status.current_pod_hash, _LONGEST_VERSION),
    )
    wanted = 1 if spec.replicas is None else spec.replicas
    restarting = (restart_at or 0.0) > (restarted_at or 0.0)
    behind = max(wanted, status.replicas) - status.updated_replicas
    promoted = status.stable_rs == status.current_pod_hash
    unread = unseen or status.message.startswith("InvalidSpec:")
    rolling = unread or restarting or not promoted or behind > 0
    consumer = _consumer(
        "Rollout",
        metadata,
        spec.template,
        _WorkloadState(
            selector=selector_text(spec.selector),
            replicas=wanted,
            paused=spec.paused,
            template_version=shorten(status.current_pod_hash, _LONGEST_VERSION),
            rolling=rolling,
            wanted=wanted,
            behind=wanted if unread or restarting else max(0, behind) if rolling else 0,
            pods=status.replicas,
            available=status.available_replicas,
        ),
        dialect=dialect,
        known=known,
    )
    return msgspec.structs.replace(
        consumer, argo=argo, owned=consumer.owned or (ref is not None and ref.kind == "Deployment")
    )


def _referenced(ref: WorkloadRef, namespace: str) -> ObjectKey:
    kind, name = shorten(ref.kind, LONGEST_NAME), shorten(ref.name, LONGEST_NAME)
    return ObjectKey(kind, namespace, name)


class _WorkloadState(TypedDict, total=False):
    """What the spec and the status of a workload say beside its template; see `Consumer`."""

    selector: str
    replicas: int | None
    paused: bool
    paused_by_other: bool
    suspended: bool
    update_strategy: str
    partition: int
    template_version: str
    rolling: bool
    wanted: int
    behind: int
    pods: int
    available: int
    blocked_by: str
    ordered: bool
    max_unavailable: int


#: The state of what has none of it, such as a CronJob.
_NO_STATE = _WorkloadState(
    selector="",
    replicas=None,
    paused=False,
    suspended=False,
    update_strategy="",
    partition=0,
    template_version="",
    rolling=False,
    wanted=0,
    behind=0,
    ordered=False,
)


def _consumer(
    kind: str,
    metadata: CommonMeta,
    template: PodTemplate,
    state: _WorkloadState,
    *,
    dialect: DialectSettings,
    known: Consumer | None = None,
) -> Consumer:
    if known is not None and known.uid != metadata.uid:
        known = None
    names = dialect.names
    state = _NO_STATE | state
    annotations = known_annotations(metadata.annotations, names)
    template_annotations = known_annotations(template.metadata.annotations, names)
    found = _read_template(
        template,
        state["selector"],
        metadata,
        dialect,
        known,
        is_annotated=bool(annotations or template_annotations),
    )
    if found.too_large:
        state["selector"] = ""
    # A Pod is its own template, whose fields have no managers of their own.
    writers = find_writers(metadata) if isinstance(metadata, ObjectMeta) else NO_WRITERS
    return Consumer(
        # Share the unchanged key: the store still has the first one.
        key=known.key if known else ObjectKey(kind, intern(metadata.namespace), metadata.name),
        uid=known.uid if known else metadata.uid,
        resource_version=metadata.resource_version,
        generation=metadata.generation,
        uses=found.uses,
        annotations=annotations or _NO_VALUES,
        template_annotations=template_annotations or _NO_VALUES,
        **state,
        owned=is_owned(metadata),
        written_at=writers.written_at(stamped=dialect.writing is not Writing.REVISION),
        traces=found.traces,
        config_volumes=found.config_volumes,
        applications=found.applications,
        revision_owner=writers.revision_owner,
        template_writer=writers.last,
        template_written_at=writers.last_at,
        reloaded_at=writers.reloaded_at,
        too_large=found.too_large,
    )


class _TemplateFacts(NamedTuple):
    """The values that are kept of a pod template."""

    uses: Uses = NO_USES
    traces: Traces | None = None
    config_volumes: tuple[ConfigVolume, ...] = ()
    applications: tuple[str, ...] = ()
    too_large: str = ""


def _read_template(
    template: PodTemplate,
    selector: str,
    metadata: CommonMeta,
    dialect: DialectSettings,
    known: Consumer | None,
    *,
    is_annotated: bool,
) -> _TemplateFacts:
    """Read a pod template; if it or the selector is too large, keep only that message.

    `is_annotated` says whether its consumer has annotations that hotmap reads.
    """
    namespace = intern(metadata.namespace)
    same_spec = known is not None and _has_same_spec(known, metadata)
    if known and same_spec and known.too_large:
        return _TemplateFacts(too_large=known.too_large)
    keeps_traces = dialect.writing is not Writing.REVISION or dialect.compares
    has_agent = AGENT in (template.metadata.annotations or ()) or AGENT in (
        metadata.annotations or ()
    )
    try:
        check_selector(selector)
        if known is not None and same_spec:
            uses = known.uses
        else:  # few workloads without annotations are followed
            uses = uses_of_template(template, namespace, compress=not is_annotated)
        config_volumes = find_config_volumes(template, namespace) if has_agent else ()
    except LimitExceeded as error:
        return _TemplateFacts(too_large=str(error))
    return _TemplateFacts(
        uses=uses,
        traces=find_traces(template, namespace) if keeps_traces else None,
        config_volumes=config_volumes,
        applications=application_containers(template.spec) if has_agent else (),
    )
