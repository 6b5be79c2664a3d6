"""A consumer as hotmap keeps it: its uses, its annotations, the state of its rollout.

`consumer_conversion` makes it from a decoded workload; the pod template itself is not kept.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

from hotmap.core.model.config_volumes import ConfigVolume
from hotmap.core.model.objects import CommonMeta, LabelSelector, ObjectKey, OwnerReference, Pod
from hotmap.core.model.uses import Uses
from hotmap.core.reloader.patch import Traces

__all__ = [
    "FIELD_MANAGER",
    "REVISION",
    "Argo",
    "Consumer",
    "adopted_through",
    "controller_of",
    "has_workload",
    "is_owned",
    "is_replaced_by_argo",
    "owns_pod",
    "rolled_by",
    "selector_text",
]

#: The pod-template annotation that a rollout writes; nothing else is written on consumers.
REVISION = "hotmap.dev/revision"

#: Owners whose own template is the one to write: API group and kind. Operators have resources of
#: the same kinds in groups of their own, which nobody here watches.
_TEMPLATE_HOLDERS = frozenset(
    (("apps", "Deployment"), ("argoproj.io", "Rollout"), ("batch", "CronJob"))
)

#: Owners that create pods from a template: API group and kind. A pod of any other owner, such as an
#: operator's resource, is a consumer itself; static pods belong to their Node.
_WORKLOADS = frozenset(
    (
        ("apps", "ReplicaSet"),
        ("", "ReplicationController"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("batch", "Job"),
        ("", "Node"),
    )
)

#: The field manager of our writes.
FIELD_MANAGER = "hotmap"


class Argo(msgspec.Struct, frozen=True):
    """The Argo Rollout that runs a pod template: its own, or that of another object."""

    key: ObjectKey
    uid: str
    resource_version: str
    #: The object with its pod template, if it is another one (`spec.workloadRef`).
    template_in: ObjectKey | None
    #: The observed generation of that object, as in its status.
    template_seen: str
    #: Pods that were created before this are replaced; POSIX seconds.
    restart_at: float | None
    #: "Paused", "Degraded", "Healthy" or another phase, and why; "" for what it has not seen yet.
    phase: str = ""
    message: str = ""
    #: Whether it was aborted: all pods go back to the last template that was promoted.
    aborted: bool = False
    aborted_at: float | None = None
    #: The hash by which its newest template is named in the label of pods.
    template_hash: str = ""


class Consumer(msgspec.Struct, frozen=True, gc=False):
    """A workload that uses sources, or names some in an annotation."""

    key: ObjectKey
    uid: str
    resource_version: str
    generation: int
    uses: Uses
    #: Its own annotations, and its pod template's, as far as hotmap reads them.
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
    #: The number of desired pods, and of pods that are not of its newest template yet, according to
    #: its own controller.
    wanted: int
    behind: int
    #: Whether one pod is replaced at a time and each waits for the one before to be ready (a
    #: StatefulSet's OrderedReady).
    ordered: bool
    #: Whether it was created from another consumer's template (a ReplicaSet of a Deployment, a Job
    #: of a CronJob), which is where a rollout has to be written. Objects of operators do not count.
    owned: bool
    #: When a rollout was last written by our field manager (or by Reloader's, while we write as it
    #: does), POSIX seconds of the API server; None: never.
    written_at: float | None
    #: Reloader's marks in its pod template, if rollouts are written as Reloader does, or are
    #: compared with it.
    traces: Traces | None = None
    #: Volumes of ConfigMaps alone, where an agent runs in the pods.
    config_volumes: tuple[ConfigVolume, ...] = ()
    #: Its containers beside agents that run as long as a pod, where an agent runs in the pods.
    applications: tuple[str, ...] = ()
    #: The field manager that owns the revision; "" if none does, or it does not exist.
    revision_owner: str = ""
    #: The other field manager that last wrote any of its pod template ("" if unknown), and when:
    #: POSIX seconds of the API server.
    template_writer: str = ""
    template_written_at: float = 0.0
    #: When Reloader last wrote one of its marks, POSIX seconds of the API server; None: never.
    reloaded_at: float | None = None
    #: Job: it has completed or failed, and no pod of it will start any more.
    finished: bool = False
    #: CronJob: it allows no concurrent runs (`concurrencyPolicy`).
    exclusive: bool = False
    #: CronJob: the names of the Jobs in progress, those that its schedule has started at least.
    runs: tuple[str, ...] = ()
    #: Rollout, or what a Rollout takes its pod template from.
    argo: Argo | None = None
    #: The bound of `limits` that its selector or its volumes exceed, as text; then it has no uses.
    too_large: str = ""
    #: The number of existing pods according to its own controller; more than `wanted` while it
    #: scales down.
    pods: int = 0
    #: The number of those that are available, according to its own controller.
    available: int = 0
    #: Deployment: why its ReplicaSet cannot create pods; "" if it can.
    blocked_by: str = ""
    #: Deployment: it is paused, and a field manager beside ours and Reloader's has done that.
    paused_by_other: bool = False
    #: The number of pods that may be unavailable during an update, at least 1.
    max_unavailable: int = 1

    @property
    def over_budget(self) -> str:
        """The bound of `limits` that it exceeds, as text, so that it is left out; "" if none."""
        return self.too_large or self.uses.over_budget

    @property
    def busy(self) -> bool:
        """Whether a run of it is in progress, and it allows no concurrent one."""
        return self.exclusive and bool(self.runs)

    @property
    def is_rollout_paused(self) -> bool:
        """Whether its rollout is paused, by a user or by a step of Argo."""
        return self.paused or (self.argo is not None and self.argo.phase == "Paused")

    @property
    def has_no_pods(self) -> bool:
        """Whether it wants no pods, and the last of them was deleted."""
        return self.replicas == 0 and self.pods == 0

    @property
    def revision(self) -> str:
        """The revision that its pod template carries now; "" when none."""
        return self.template_annotations.get(REVISION, "")


#: The label by which Argo names a pod's template (argo-rollouts: DefaultRolloutUniqueLabelKey).
_ARGO_TEMPLATE = "rollouts-pod-template-hash"

_RUN_BY_REPLICA_SETS = ("Deployment", "Rollout")


def owns_pod(consumer: Consumer, pod: Pod) -> bool:
    """Return whether a pod that a consumer's selector matches is its own.

    Selectors of two workloads may overlap; each owns only the pods that it, or a ReplicaSet of it,
    controls. A ReplicaSet is named by its workload and a hash (kubernetes: deployment controller,
    getNewReplicaSet), unless it was adopted: see `adopted_through`. A CronJob owns the pods of
    its runs. A pod without a controller counts, since the workload adopts it.
    """
    owner = controller_of(pod.metadata)
    if owner is None or consumer.key.kind == "Pod":
        return True
    if owner.uid == consumer.uid or (owner.kind == "Job" and owner.name in consumer.runs):
        return True
    if consumer.key.kind not in _RUN_BY_REPLICA_SETS or owner.kind != "ReplicaSet":
        return False
    runner = consumer.argo.key.name if consumer.argo else consumer.key.name
    prefix, _, suffix = owner.name.rpartition("-")
    return prefix == runner and bool(suffix)


def adopted_through(consumer: Consumer, pod: Pod) -> str:
    """Return the uid of a ReplicaSet of another name by which a pod may be a consumer's; or "".

    A Deployment adopts ReplicaSets that its selector matches and that have no controller, such as
    those of one that was deleted with `--cascade=orphan`; they keep their names.
    """
    owner = controller_of(pod.metadata)
    if consumer.key.kind not in _RUN_BY_REPLICA_SETS or owner is None:
        return ""
    is_other = owner.kind == "ReplicaSet" and not owns_pod(consumer, pod)
    return owner.uid if is_other else ""


def is_replaced_by_argo(consumer: Consumer, pod: Pod) -> bool:
    """Return whether an Argo Rollout replaces a pod, or has replaced it and deletes it later.

    That may last: a canary is paused until a user promotes it, and after that, older pods wait for
    `scaleDownDelaySeconds`. If the newest template is undone instead, the older pods stay.
    """
    argo = consumer.argo
    if argo is None or not argo.phase or not argo.template_hash:
        return False
    labels = pod.metadata.labels or {}
    return labels.get(_ARGO_TEMPLATE, argo.template_hash) != argo.template_hash


def controller_of(metadata: CommonMeta) -> OwnerReference | None:
    """Return the reference to the object that manages an object; None without one."""
    return next((each for each in metadata.owner_references or () if each.controller), None)


def is_owned(metadata: CommonMeta) -> bool:
    """Return whether an object was made from the template of another consumer."""
    return _has_controller(metadata, _TEMPLATE_HOLDERS)


def has_workload(metadata: CommonMeta) -> bool:
    """Return whether a workload or a Node manages a Pod, so that the Pod is not a consumer."""
    return _has_controller(metadata, _WORKLOADS)


def _has_controller(metadata: CommonMeta, kinds: Container[tuple[str, str]]) -> bool:
    owner = controller_of(metadata)
    return owner is not None and (owner.api_version.rpartition("/")[0], owner.kind) in kinds


def rolled_by(deployment: Consumer, rollout: Consumer) -> Consumer:
    """Return a Deployment as run by the Argo Rollout that takes its pod template from it.

    The pods are the Rollout's, the Deployment itself is mostly scaled to zero; and the way to roll
    them is to change the Deployment's template (argo-rollouts: rollout/templateref.go). The
    Rollout's annotations apply where the Deployment has none.
    """
    argo = rollout.argo
    assert argo is not None, "every Rollout has it"
    unseen = argo.template_seen != str(deployment.generation)
    if unseen:
        argo = msgspec.structs.replace(argo, phase="", message="", aborted=False)
    return msgspec.structs.replace(
        deployment,
        annotations={**rollout.annotations, **deployment.annotations},
        selector=rollout.selector or deployment.selector,
        replicas=rollout.replicas,
        paused=rollout.paused,
        rolling=rollout.rolling or unseen,
        wanted=rollout.wanted,
        pods=rollout.pods,
        available=rollout.available,
        behind=rollout.wanted if unseen else rollout.behind,
        argo=argo,
    )


def selector_text(selector: LabelSelector | None) -> str:
    """Write a label selector as a query parameter (kubernetes: labels.Selector.String).

    A selector is kept as this text: it has a tenth of the size of the object, and is all that is
    needed.
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
