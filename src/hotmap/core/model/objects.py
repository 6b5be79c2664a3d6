"""The fields of Kubernetes objects that hotmap reads, as msgspec Structs, and object keys.

Nothing else of an object is decoded: msgspec skips unknown fields without building them, which
keeps 100,000 objects small. This module has only types; `references`, `policy` and `plan` interpret
them. Names follow Kubernetes' (camelCase on the wire).
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

__all__ = [
    "CSI",
    "CommonMeta",
    "Condition",
    "ConfigMap",
    "ConfigMapKeySelector",
    "ConfigMapProjection",
    "ConfigMapVolume",
    "Container",
    "ContainerState",
    "ContainerStateRunning",
    "ContainerStateWaiting",
    "ContainerStatus",
    "CronJob",
    "CronJobSpec",
    "CronJobStatus",
    "EnvFromSource",
    "EnvVar",
    "EnvVarSource",
    "FieldManager",
    "Job",
    "JobStatus",
    "JobTemplate",
    "KeyToPath",
    "LabelExpression",
    "LabelSelector",
    "LocalRef",
    "ManagedFields",
    "Namespace",
    "ObjectKey",
    "ObjectMeta",
    "OwnerReference",
    "Pod",
    "PodDisruptionBudget",
    "PodMeta",
    "PodSpec",
    "PodStatus",
    "PodTemplate",
    "Projected",
    "ProjectedSource",
    "ProviderClass",
    "ProviderClassObject",
    "ProviderClassPodStatus",
    "ProviderClassStatus",
    "RollingUpdate",
    "Rollout",
    "RolloutSpec",
    "RolloutStatus",
    "Secret",
    "SecretVolume",
    "StorageDriver",
    "UpdateStrategy",
    "Volume",
    "VolumeMount",
    "Workload",
    "WorkloadRef",
    "WorkloadSpec",
    "WorkloadStatus",
]


class ObjectKey(NamedTuple):
    """The key of one object of the cluster, for queues and indexes."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return (
            f"{self.kind} {self.namespace}/{self.name}"
            if self.namespace
            else f"{self.kind} {self.name}"
        )

    @property
    def kind_and_name(self) -> tuple[str, str]:
        """Its kind and name, which identify it within its namespace."""
        return self.kind, self.name


class _Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A part of an object: camelCase on the wire; an absent field has its default.

    The garbage collector need not look for cycles, since JSON has none.
    """


class OwnerReference(_Part, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class FieldManager(_Part, frozen=True):
    """One manager's entry without the fields: name, and time (RFC 3339, seconds)."""

    manager: str = ""
    time: str = ""
    subresource: str = ""


class ManagedFields(FieldManager, frozen=True):
    """One manager's entry with the raw fields; they keep the whole response in memory."""

    fields_v1: msgspec.Raw = msgspec.Raw()


class CommonMeta(_Part, frozen=True):
    """The metadata that is read of any object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class ObjectMeta(CommonMeta, frozen=True):
    managed_fields: list[ManagedFields] | None = None


# -- sources ---------------------------------------------------------------------------------


class ConfigMap(_Part, frozen=True):
    """A decoded ConfigMap; `binary_data` is base64 text. Never stored."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None
    immutable: bool | None = None


class Secret(_Part, frozen=True):
    """A decoded Secret; `data` is base64 text. Never stored."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str | None] | None = None
    type: str = ""
    immutable: bool | None = None


class ProviderClass(_Part, frozen=True):
    """A SecretProviderClass (secrets-store-csi-driver: apis/v1); its parameters are not read."""

    metadata: ObjectMeta = ObjectMeta()


class ProviderClassObject(_Part, frozen=True):
    """One object of the external store, as it was mounted."""

    id: str = ""
    version: str = ""


class ProviderClassStatus(_Part, frozen=True):
    pod_name: str = ""
    secret_provider_class_name: str = ""
    objects: list[ProviderClassObject] | None = None


class ProviderClassPodStatus(_Part, frozen=True):
    """A SecretProviderClassPodStatus: what one pod has mounted of one class."""

    metadata: ObjectMeta = ObjectMeta()
    status: ProviderClassStatus = ProviderClassStatus()


# -- pod templates ---------------------------------------------------------------------------


class LocalRef(_Part, frozen=True):
    """A reference by name within the namespace: envFrom's refs, imagePullSecrets, secretRef."""

    name: str = ""
    optional: bool | None = None


class ConfigMapKeySelector(_Part, frozen=True):
    """One data key of a ConfigMap or Secret."""

    name: str = ""
    key: str = ""
    optional: bool | None = None


class EnvVarSource(_Part, frozen=True):
    config_map_key_ref: ConfigMapKeySelector | None = None
    secret_key_ref: ConfigMapKeySelector | None = None
    #: A key of a file in an emptyDir, which init containers write; it has some of these fields.
    file_key_ref: ConfigMapKeySelector | None = None


class EnvVar(_Part, frozen=True):
    name: str = ""
    value: str | None = None
    value_from: EnvVarSource | None = None


class EnvFromSource(_Part, frozen=True):
    prefix: str = ""
    config_map_ref: LocalRef | None = None
    secret_ref: LocalRef | None = None


class VolumeMount(_Part, frozen=True):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""


class Container(_Part, frozen=True):
    name: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[EnvVar] | None = None
    env_from: list[EnvFromSource] | None = None
    volume_mounts: list[VolumeMount] | None = None
    restart_policy: str = ""


class KeyToPath(_Part, frozen=True):
    key: str = ""
    path: str = ""
    mode: int | None = None


class ConfigMapVolume(_Part, frozen=True):
    name: str = ""
    items: list[KeyToPath] | None = None
    optional: bool | None = None


class SecretVolume(_Part, frozen=True):
    secret_name: str = ""
    items: list[KeyToPath] | None = None
    optional: bool | None = None


class ConfigMapProjection(_Part, frozen=True):
    """A ConfigMap or Secret inside a projected volume."""

    name: str = ""
    items: list[KeyToPath] | None = None
    optional: bool | None = None


class ProjectedSource(_Part, frozen=True):
    config_map: ConfigMapProjection | None = None
    secret: ConfigMapProjection | None = None


class Projected(_Part, frozen=True):
    sources: list[ProjectedSource] | None = None


class CSI(_Part, frozen=True):
    volume_attributes: dict[str, str] | None = None
    node_publish_secret_ref: LocalRef | None = None


class StorageDriver(_Part, frozen=True):
    """A volume driver that logs in with a Secret; its fields that name one (core/v1 Volume)."""

    secret_ref: LocalRef | None = None
    secret_name: str = ""


class Volume(_Part, frozen=True):
    name: str = ""
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    projected: Projected | None = None
    csi: CSI | None = None
    azure_file: StorageDriver | None = None
    cephfs: StorageDriver | None = None
    cinder: StorageDriver | None = None
    flex_volume: StorageDriver | None = None
    iscsi: StorageDriver | None = None
    rbd: StorageDriver | None = None
    scale_io: StorageDriver | None = msgspec.field(default=None, name="scaleIO")
    storageos: StorageDriver | None = None


class PodSpec(_Part, frozen=True):
    node_name: str = ""
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    volumes: list[Volume] | None = None
    image_pull_secrets: list[LocalRef] | None = None


class PodTemplate(_Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


# -- consumers -------------------------------------------------------------------------------


class LabelExpression(_Part, frozen=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(_Part, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelExpression] | None = None


class RollingUpdate(_Part, frozen=True):
    partition: int | None = None
    max_unavailable: int | str | None = None


class UpdateStrategy(_Part, frozen=True):
    type: str = ""
    rolling_update: RollingUpdate | None = None


class WorkloadSpec(_Part, frozen=True):
    """The spec of every kind that has `spec.template`."""

    template: PodTemplate = PodTemplate()
    selector: LabelSelector | None = None
    replicas: int | None = None
    paused: bool = False
    suspend: bool | None = None
    update_strategy: UpdateStrategy | None = None
    #: A Deployment's name for it.
    strategy: UpdateStrategy | None = None
    pod_management_policy: str = ""


class WorkloadStatus(_Part, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    #: A DaemonSet's names for replicas and updatedReplicas.
    desired_number_scheduled: int = 0
    updated_number_scheduled: int = 0
    #: A DaemonSet's pods on nodes that are to run one, and on others.
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    available_replicas: int = 0
    #: A DaemonSet's name for availableReplicas.
    number_available: int = 0
    #: A StatefulSet's name for its newest template.
    update_revision: str = ""
    #: Decoded only for a Deployment in the middle of a rollout.
    encoded_conditions: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="conditions")


class Workload(_Part, frozen=True):
    """A Deployment, StatefulSet, DaemonSet or ReplicaSet.

    Its spec is decoded when it is read: three quarters of the time to decode the object (measured),
    and most updates of a watch change the status alone.
    """

    metadata: ObjectMeta = ObjectMeta()
    encoded_spec: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"{}"), name="spec")
    status: WorkloadStatus = WorkloadStatus()

    @property
    def spec(self) -> WorkloadSpec:
        """Decode the spec.

        Raises:
            msgspec.DecodeError: it does not match the type.
        """
        return _spec_decoder.decode(self.encoded_spec)


_spec_decoder = msgspec.json.Decoder(WorkloadSpec)


class Condition(_Part, frozen=True):
    type: str = ""
    status: str = ""
    message: str = ""


class JobStatus(_Part, frozen=True):
    conditions: list[Condition] | None = None


class Job(_Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: JobStatus = JobStatus()


class JobTemplate(_Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class CronJobSpec(_Part, frozen=True):
    job_template: JobTemplate = JobTemplate()
    suspend: bool | None = None
    concurrency_policy: str = ""


class CronJobStatus(_Part, frozen=True):
    #: The running Jobs that its schedule started.
    active: list[LocalRef] | None = None


class CronJob(_Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()


class WorkloadRef(_Part, frozen=True):
    """The object with an Argo Rollout's pod template, if it is not the Rollout itself."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class RolloutSpec(_Part, frozen=True):
    """argo-rollouts: pkg/apis/rollouts/v1alpha1 RolloutSpec."""

    template: PodTemplate = PodTemplate()
    workload_ref: WorkloadRef | None = None
    selector: LabelSelector | None = None
    replicas: int | None = None
    paused: bool = False
    restart_at: str | None = None


class RolloutStatus(_Part, frozen=True):
    """Both generations are texts, since they were digests in earlier versions."""

    observed_generation: str | int = ""
    workload_observed_generation: str | int = ""
    current_pod_hash: str = ""
    stable_rs: str = msgspec.field(default="", name="stableRS")
    replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    restarted_at: str | None = None
    phase: str = ""
    message: str = ""
    abort: bool = False
    aborted_at: str | None = None


class Rollout(_Part, frozen=True):
    """An Argo Rollout."""

    metadata: ObjectMeta = ObjectMeta()
    spec: RolloutSpec = RolloutSpec()
    status: RolloutStatus = RolloutStatus()


class ContainerStateRunning(_Part, frozen=True):
    started_at: str | None = None


class ContainerStateWaiting(_Part, frozen=True):
    reason: str = ""


class ContainerStateTerminated(_Part, frozen=True):
    reason: str = ""
    started_at: str | None = None


class ContainerState(_Part, frozen=True):
    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(_Part, frozen=True):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState | None = None


class PodCondition(_Part, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


class PodStatus(_Part, frozen=True):
    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: str | None = None
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class PodMeta(CommonMeta, frozen=True):
    labels: dict[str, str] | None = None
    managed_fields: list[FieldManager] | None = None


class Pod(_Part, frozen=True):
    metadata: PodMeta = PodMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class DisruptionBudgetSpec(_Part, frozen=True):
    selector: LabelSelector | None = None


class DisruptionBudgetStatus(_Part, frozen=True):
    observed_generation: int = 0
    disruptions_allowed: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0


class PodDisruptionBudget(_Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()


class Namespace(_Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
