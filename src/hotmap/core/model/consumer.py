"""A consumer as hotmap keeps it: what it uses, what it says, how its rollout stands.

Made from a decoded workload in one step; the pod template itself is not kept.
"""

from __future__ import annotations

import sys
from collections.abc import Container
from typing import NamedTuple

import msgspec

from hotmap.core.model.annotations import AGENT, known_annotations
from hotmap.core.model.config_volumes import ConfigVolume, find_config_volumes
from hotmap.core.model.limits import LimitExceeded
from hotmap.core.model.objects import (
    CronJob,
    Job,
    LabelSelector,
    ObjectKey,
    ObjectMeta,
    Pod,
    PodTemplate,
    Rollout,
    Workload,
)
from hotmap.core.model.references import find_uses
from hotmap.core.model.source import LONGEST_MANAGER, parse_time
from hotmap.core.model.uses import NO_USES, Uses, pack_uses
from hotmap.core.reloader.annotations import DEFAULT_SETTINGS, DialectSettings, Writing
from hotmap.core.reloader.patch import FIELD_MANAGER as RELOADER
from hotmap.core.reloader.patch import Traces, find_traces
from hotmap.core.text import printable, shorten

__all__ = [
    "FIELD_MANAGER",
    "REVISION",
    "Argo",
    "Consumer",
    "consumer_from_cron_job",
    "consumer_from_job",
    "consumer_from_pod",
    "consumer_from_rollout",
    "consumer_from_workload",
    "has_workload",
    "is_owned",
    "owns_pod",
    "rolled_by",
    "selector_text",
]

#: The pod-template annotation that a rollout writes; nothing else is written on consumers.
REVISION = "hotmap.dev/revision"

#: Kinds of owner whose own template is the one to write.
_TEMPLATE_HOLDERS = ("Deployment", "Rollout", "CronJob")

#: Kinds of owner that make pods from a template. Pods of any other owner, an operator's resource
#: say, are nobody's but its own; static pods belong to their Node.
_WORKLOADS = frozenset(
    ("ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job", "Node")
)

#: The name under which our writes stand in managedFields.
FIELD_MANAGER = "hotmap"


class Argo(msgspec.Struct, frozen=True):
    """The Argo Rollout that runs a pod template: its own, or that of another object."""

    key: ObjectKey
    uid: str
    resource_version: str
    #: Where its pod template lies, when that is not in itself (`spec.workloadRef`).
    template_in: ObjectKey | None
    #: Which generation of that object it has seen, as its status writes it.
    template_seen: str
    #: Pods that were made before this are to be replaced; POSIX seconds.
    restart_at: float | None


#: The annotations of everybody who says nothing; most consumers do not.
_SILENT: dict[str, str] = {}


class Consumer(msgspec.Struct, frozen=True, gc=False):
    """One workload that uses sources, or that names some in an annotation."""

    key: ObjectKey
    uid: str
    resource_version: str
    generation: int
    uses: Uses
    #: Its own annotations, and its pod template's, as far as they say something to hotmap.
    annotations: dict[str, str]
    template_annotations: dict[str, str]
    #: Selects its pods, as a query parameter; "" where the kind has none.
    selector: str
    #: Desired pods; None where the kind has no count (DaemonSet, CronJob).
    replicas: int | None
    paused: bool
    suspended: bool
    #: "RollingUpdate", "OnDelete", "" (Deployment: not read) and the StatefulSet's partition.
    update_strategy: str
    partition: int
    #: Changes with its pod template and with nothing else, once its own controller has seen that;
    #: "" where the kind has no such thing.
    template_version: str
    #: Whether its own controller is still replacing pods.
    rolling: bool
    #: How many pods it is to have now, and how many are not of its newest template yet, by its
    #: own controller's word.
    wanted: int
    behind: int
    #: Whether one pod is replaced at a time and each waits for the one before to be ready (a
    #: StatefulSet's OrderedReady).
    ordered: bool
    #: Whether it was made from another consumer's template (a ReplicaSet of a Deployment, a Job of
    #: a CronJob), which is where a rollout has to be written. What an operator made does not count.
    owned: bool
    #: When a rollout was last written by our field manager (or by Reloader's, while we write as it
    #: does), POSIX seconds of the API server; None: never.
    written_at: float | None
    #: What its pod template holds of Reloader's, while rollouts are written in that way, or are
    #: compared with it.
    traces: Traces | None = None
    #: Volumes of ConfigMaps alone, where an agent runs in the pods.
    config_volumes: tuple[ConfigVolume, ...] = ()
    #: The field manager that owns the revision; "" when it is nobody's, or not there.
    revision_owner: str = ""
    #: The field manager but ours that wrote any of its pod template last; "" when none is named.
    template_writer: str = ""
    #: When Reloader last wrote one of its marks, POSIX seconds of the API server; None: never.
    reloaded_at: float | None = None
    #: Job: it has completed or failed, and no pod of it will start any more.
    finished: bool = False
    #: CronJob: a run of it is under way, beside which it allows no other (`concurrencyPolicy`).
    busy: bool = False
    #: Rollout, or what a Rollout takes its pod template from.
    argo: Argo | None = None
    #: Which bound of `limits` its pod template exceeds, in words; then it has no uses and is to be
    #: left out. "" when none.
    over_budget: str = ""
    #: How many pods exist, by its own controller's word; more than `wanted` while it scales down.
    pods: int = 0

    @property
    def has_no_pods(self) -> bool:
        """Whether it wants no pods, and the last of them has gone."""
        return self.replicas == 0 and self.pods == 0

    @property
    def revision(self) -> str:
        """The revision that its pod template carries now; "" when none."""
        return self.template_annotations.get(REVISION, "")


def consumer_from_workload(
    kind: str,
    item: Workload,
    dialect: DialectSettings = DEFAULT_SETTINGS,
    *,
    known: Consumer | None = None,
) -> Consumer:
    """Reduce a Deployment, StatefulSet, DaemonSet, or ReplicaSet.

    `known` is what was made of it before. Its template is not looked through again while the
    generation is the same: that moves with every change of the spec (kubernetes: pkg/registry/
    apps, PrepareForUpdate), and nearly all that a watch brings is status.
    """
    spec, status = item.spec, item.status
    update = spec.update_strategy
    wanted = 1 if spec.replicas is None else spec.replicas
    behind, pods = 0, status.replicas
    if kind in ("Deployment", "StatefulSet"):
        behind = max(wanted, status.replicas) - status.updated_replicas
    elif kind == "DaemonSet":
        wanted = status.desired_number_scheduled
        behind = wanted - status.updated_number_scheduled
        pods = status.current_number_scheduled + status.number_misscheduled
    unseen = status.observed_generation < item.metadata.generation
    return _consumer(
        kind,
        item.metadata,
        spec.template,
        selector=selector_text(spec.selector),
        replicas=None if kind == "DaemonSet" else wanted,
        paused=spec.paused,
        suspended=bool(spec.suspend),
        update_strategy=update.type if update else "",
        partition=(update.rolling_update.partition or 0) if update and update.rolling_update else 0,
        template_version=_template_version(kind, item),
        rolling=unseen or behind > 0,
        wanted=wanted,
        behind=wanted if unseen else max(0, behind),
        pods=pods,
        ordered=kind == "StatefulSet" and spec.pod_management_policy != "Parallel",
        dialect=dialect,
        known=known,
    )


#: What stands in a manager's field set while the template carries what it wrote. Reloader writes
#: nothing there but its marks: an annotation, or a variable.
_REVISION_FIELD = f'"f:{REVISION}"'.encode()
_TEMPLATE_FIELD = b'"f:template"'


#: Written by the workload controllers each time the template changes (kubernetes:
#: pkg/controller/deployment/util, pkg/registry/apps/daemonset/strategy.go).
_VERSION_ANNOTATIONS = {
    "Deployment": "deployment.kubernetes.io/revision",
    "DaemonSet": "deprecated.daemonset.template.generation",
}


#: Both are numbers, but anybody may write them.
_LONGEST_VERSION = 40


def _template_version(kind: str, item: Workload) -> str:
    if kind == "StatefulSet":
        return item.status.update_revision
    version = (item.metadata.annotations or {}).get(_VERSION_ANNOTATIONS.get(kind, ""), "")
    return shorten(version, _LONGEST_VERSION)


def consumer_from_cron_job(
    item: CronJob, dialect: DialectSettings = DEFAULT_SETTINGS, *, known: Consumer | None = None
) -> Consumer:
    """Reduce a CronJob; its pods come from the Jobs it makes."""
    return msgspec.structs.replace(
        _consumer(
            "CronJob",
            item.metadata,
            item.spec.job_template.spec.template,
            suspended=bool(item.spec.suspend),
            dialect=dialect,
            known=known,
        ),
        busy=item.spec.concurrency_policy in ("Forbid", "Replace") and bool(item.status.active),
    )


def consumer_from_job(
    item: Job, dialect: DialectSettings = DEFAULT_SETTINGS, *, known: Consumer | None = None
) -> Consumer:
    """Reduce a Job."""
    consumer = _consumer(
        "Job",
        item.metadata,
        item.spec.template,
        selector=selector_text(item.spec.selector),
        replicas=1,
        wanted=1,
        suspended=bool(item.spec.suspend),
        dialect=dialect,
        known=known,
    )
    ends = (one for one in item.status.conditions or () if one.type in ("Complete", "Failed"))
    finished = any(one.status == "True" for one in ends)
    return msgspec.structs.replace(consumer, finished=finished) if finished else consumer


def consumer_from_pod(
    item: Pod, dialect: DialectSettings = DEFAULT_SETTINGS, *, known: Consumer | None = None
) -> Consumer:
    """Reduce a Pod that no workload makes; it is its own template."""
    return _consumer(
        "Pod", item.metadata, PodTemplate(spec=item.spec), replicas=1, wanted=1, dialect=dialect
    )


def owns_pod(consumer: Consumer, pod: Pod) -> bool:
    """Return whether a pod that a consumer's selector matches is its own.

    Selectors of two workloads may overlap; each owns only the pods that it, or a ReplicaSet of it,
    controls. A ReplicaSet is named by its workload and a hash (kubernetes: deployment controller,
    getNewReplicaSet). A pod that nobody controls counts, as its controller adopts it.
    """
    owner = next((o for o in pod.metadata.owner_references or () if o.controller), None)
    if owner is None or consumer.key.kind == "Pod":
        return True
    if owner.uid == consumer.uid:
        return True
    if consumer.key.kind not in ("Deployment", "Rollout") or owner.kind != "ReplicaSet":
        return False
    runner = consumer.argo.key.name if consumer.argo else consumer.key.name
    prefix, _, suffix = owner.name.rpartition("-")
    return prefix == runner and bool(suffix)


def is_owned(metadata: ObjectMeta) -> bool:
    """Return whether an object was made from the template of another consumer."""
    return _has_controller(metadata, _TEMPLATE_HOLDERS)


def has_workload(metadata: ObjectMeta) -> bool:
    """Return whether a workload or a Node manages a Pod, so that the Pod is no consumer."""
    return _has_controller(metadata, _WORKLOADS)


def _has_controller(metadata: ObjectMeta, kinds: Container[str]) -> bool:
    return any(
        owner.controller and owner.kind in kinds for owner in metadata.owner_references or ()
    )


def consumer_from_rollout(
    item: Rollout, dialect: DialectSettings = DEFAULT_SETTINGS, *, known: Consumer | None = None
) -> Consumer:
    """Reduce an Argo Rollout.

    One that takes its pod template from a Deployment is no consumer itself: the template to write
    is there, see `rolled_by`. `currentPodHash` names the newest template and `stableRS` the one
    that all pods have once it is promoted (argo-rollouts: utils/conditions, RolloutHealthy).
    """
    spec, status, metadata = item.spec, item.status, item.metadata
    ref = spec.workload_ref
    restart_at, restarted_at = parse_time(spec.restart_at), parse_time(status.restarted_at)
    argo = Argo(
        key=ObjectKey("Rollout", metadata.namespace, metadata.name),
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        template_in=ObjectKey(ref.kind, metadata.namespace, ref.name) if ref else None,
        template_seen=str(status.workload_observed_generation),
        restart_at=restart_at,
    )
    wanted = 1 if spec.replicas is None else spec.replicas
    unseen = str(status.observed_generation) != str(metadata.generation)
    restarting = (restart_at or 0.0) > (restarted_at or 0.0)
    rolling = unseen or restarting or status.stable_rs != status.current_pod_hash
    behind = max(wanted, status.replicas) - status.updated_replicas
    consumer = _consumer(
        "Rollout",
        metadata,
        spec.template,
        selector=selector_text(spec.selector),
        replicas=wanted,
        paused=spec.paused,
        template_version=status.current_pod_hash,
        rolling=rolling,
        wanted=wanted,
        behind=wanted if unseen or restarting else max(0, behind) if rolling else 0,
        pods=status.replicas,
        dialect=dialect,
        known=known,
    )
    return msgspec.structs.replace(
        consumer, argo=argo, owned=consumer.owned or (ref is not None and ref.kind == "Deployment")
    )


def rolled_by(deployment: Consumer, rollout: Consumer) -> Consumer:
    """Show a Deployment as the Argo Rollout runs it that takes its pod template from there.

    The pods are the Rollout's, the Deployment itself is mostly scaled to zero; and the way to roll
    them is to change the Deployment's template (argo-rollouts: rollout/templateref.go). What the
    Rollout's annotations say counts where the Deployment's are silent.
    """
    argo = rollout.argo
    assert argo is not None, "every Rollout has it"
    unseen = argo.template_seen != str(deployment.generation)
    return msgspec.structs.replace(
        deployment,
        annotations={**rollout.annotations, **deployment.annotations},
        selector=rollout.selector or deployment.selector,
        replicas=rollout.replicas,
        paused=rollout.paused,
        rolling=rollout.rolling or unseen,
        wanted=rollout.wanted,
        pods=rollout.pods,
        behind=rollout.wanted if unseen else rollout.behind,
        argo=argo,
    )


def _consumer(
    kind: str,
    metadata: ObjectMeta,
    template: PodTemplate,
    *,
    selector: str = "",
    replicas: int | None = None,
    paused: bool = False,
    suspended: bool = False,
    update_strategy: str = "",
    partition: int = 0,
    template_version: str = "",
    rolling: bool = False,
    wanted: int = 0,
    behind: int = 0,
    pods: int = 0,
    ordered: bool = False,
    dialect: DialectSettings,
    known: Consumer | None = None,
) -> Consumer:
    if known is not None and known.uid != metadata.uid:
        known = None
    names = dialect.names
    found = _look_through(template, metadata, dialect, known)
    writers = _writers(metadata)
    return Consumer(
        # What stays is kept once: the store still holds the first key.
        key=known.key if known else ObjectKey(kind, metadata.namespace, metadata.name),
        uid=known.uid if known else metadata.uid,
        resource_version=metadata.resource_version,
        generation=metadata.generation,
        uses=found.uses,
        annotations=known_annotations(metadata.annotations, names) or _SILENT,
        template_annotations=known_annotations(template.metadata.annotations, names) or _SILENT,
        selector=selector,
        replicas=replicas,
        paused=paused,
        suspended=suspended,
        update_strategy=update_strategy,
        partition=partition,
        template_version=template_version,
        rolling=rolling,
        wanted=wanted,
        behind=behind,
        pods=pods,
        ordered=ordered,
        owned=is_owned(metadata),
        written_at=writers.written_at(stamped=dialect.writing is not Writing.REVISION),
        traces=found.traces,
        config_volumes=found.config_volumes,
        revision_owner=writers.revision_owner,
        template_writer=writers.last,
        reloaded_at=writers.reloaded_at,
        over_budget=found.over_budget,
    )


class _TemplateFacts(NamedTuple):
    """What is kept of a pod template."""

    uses: Uses = NO_USES
    traces: Traces | None = None
    config_volumes: tuple[ConfigVolume, ...] = ()
    over_budget: str = ""


def _look_through(
    template: PodTemplate, metadata: ObjectMeta, dialect: DialectSettings, known: Consumer | None
) -> _TemplateFacts:
    """Find what is kept of a pod template; of one that is too large, only that it is."""
    namespace = metadata.namespace
    same_spec = known is not None and 0 < known.generation == metadata.generation
    if known and same_spec and known.over_budget:
        return _TemplateFacts(over_budget=known.over_budget)
    try:
        uses = known.uses if known and same_spec else pack_uses(find_uses(template, namespace))
    except LimitExceeded as error:
        return _TemplateFacts(over_budget=str(error))
    keeps_traces = dialect.writing is not Writing.REVISION or dialect.compares
    has_agent = any(AGENT in (one.annotations or {}) for one in (template.metadata, metadata))
    return _TemplateFacts(
        uses=uses,
        traces=find_traces(template, namespace) if keeps_traces else None,
        config_volumes=find_config_volumes(template, namespace) if has_agent else (),
    )


class _Writers(NamedTuple):
    """Who wrote the pod template, by managedFields; times in POSIX seconds of the API server."""

    #: The manager that owns the revision, and when ours last wrote it.
    revision_owner: str = ""
    revision_at: float | None = None
    reloaded_at: float | None = None
    #: The manager but ours that wrote last, and when.
    last: str = ""
    last_at: float = 0.0

    def written_at(self, *, stamped: bool) -> float | None:
        times = (self.revision_at, self.reloaded_at if stamped else None)
        return max((at for at in times if at is not None), default=None)


def _writers(metadata: ObjectMeta) -> _Writers:
    """Read who wrote the pod template.

    Our entry stays when an undo takes the annotation over, but not the annotation in it.
    """
    found = _Writers()
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


def selector_text(selector: LabelSelector | None) -> str:
    """Write a label selector as a query parameter (kubernetes: labels.Selector.String).

    A selector is kept as this text: it is a tenth of the object, and nobody asks for anything else.
    """
    if selector is None:
        return ""
    terms = [f"{key}={value}" for key, value in sorted((selector.match_labels or {}).items())]
    for expression in selector.match_expressions or ():
        values = ",".join(sorted(expression.values or ()))
        match expression.operator:
            case "In":
                terms.append(f"{expression.key} in ({values})")
            case "NotIn":
                terms.append(f"{expression.key} notin ({values})")
            case "Exists":
                terms.append(expression.key)
            case "DoesNotExist":
                terms.append(f"!{expression.key}")
    return ",".join(terms)
