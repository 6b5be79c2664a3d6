"""What `kubectl get` shows of the stored kinds (pkg/printers/internalversion/printers.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.columns import (
    AGE,
    NAME,
    ago,
    field_cell,
    human_duration,
    labels_text,
    posix,
    selector_text,
    template_columns,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.meta import annotations_of
from hotmap.local.strategy import Column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hotmap.local.strategy import Cell

_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_DEFAULT_CLASSES = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
    "ingressclass.kubernetes.io/is-default-class",
)


def at_most(found: list[str], limit: int, *, total: int | None = None) -> str:
    """Show the first of some texts, and how many there are more."""
    shown = ",".join(found[:limit])
    count = len(found) if total is None else total
    return shown if count <= limit else f"{shown} + {count - limit} more..."


def _spec(obj: JsonObject) -> JsonObject:
    return obj.get("spec") or {}


def _status(obj: JsonObject) -> JsonObject:
    return obj.get("status") or {}


def _column(name: str, path: str, missing: Cell = "", priority: int = 0) -> Column:
    return Column(name, field_cell(path, missing), priority)


def _number(name: str, path: str) -> Column:
    return Column(name, field_cell(path, 0), type="integer")


def _flag(name: str, path: str, *, missing: bool = False) -> Column:
    return Column(name, field_cell(path, missing), type="boolean")


def _count(name: str, path: str) -> Column:
    cell = field_cell(path)

    def count(obj: JsonObject, now: float) -> Cell:
        found: Any = cell(obj, now)
        return len(found) if isinstance(found, list) else 0

    return Column(name, count, type="integer")


def _named_default(obj: JsonObject, _: float) -> Cell:
    """Show a name, and whether it is that of the default class."""
    annotations = annotations_of(obj)
    is_default = any(annotations.get(name) == "true" for name in _DEFAULT_CLASSES)
    return f"{obj['metadata'].get('name', '')}{' (default)' if is_default else ''}"


def _phase(obj: JsonObject, _: float) -> Cell:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(_status(obj).get("phase") or "")


def _modes(modes: Iterable[str] | None) -> str:
    """Write access modes (helper.GetAccessModesAsString)."""
    found = set(modes or ())
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in found)


def _claim_capacity(claim: JsonObject, _: float) -> Cell:
    if not _spec(claim).get("volumeName"):
        return ""
    return str((_status(claim).get("capacity") or {}).get("storage", "0"))


def _claim_modes(claim: JsonObject, _: float) -> Cell:
    return _modes(_status(claim).get("accessModes")) if _spec(claim).get("volumeName") else ""


def _volume_claim(volume: JsonObject, _: float) -> Cell:
    claim = _spec(volume).get("claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _quota_cell(*, limits: bool) -> Callable[[JsonObject, float], Cell]:
    """Show used and hard amounts of a quota: of limits, or of everything else."""

    def cell(found: JsonObject, _: float) -> Cell:
        hard, used = _status(found).get("hard") or {}, _status(found).get("used") or {}
        return ", ".join(
            f"{name}: {used.get(name, 0)}/{hard[name]}"
            for name in sorted(hard)
            if name.startswith("limits.") is limits
        )

    return cell


def _hosts(ingress: JsonObject, _: float) -> Cell:
    rules = _spec(ingress).get("rules") or ()
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    if not hosts:
        return "*"
    return at_most(hosts, 3, total=len(rules) if len(hosts) >= 3 else len(hosts))


def _ingress_address(ingress: JsonObject, _: float) -> Cell:
    points = (_status(ingress).get("loadBalancer") or {}).get("ingress") or ()
    return ",".join(point.get("ip") or point.get("hostname") or "" for point in points)


def _ingress_ports(ingress: JsonObject, _: float) -> Cell:
    return "80, 443" if _spec(ingress).get("tls") else "80"


def _ingress_parameters(obj: JsonObject, _: float) -> Cell:
    parameters = _spec(obj).get("parameters")
    if not parameters:
        return "<none>"
    group = parameters.get("apiGroup")
    kind = f"{parameters.get('kind', '')}{'.' + group if group else ''}"
    return f"{kind}/{parameters.get('name', '')}"


def _slice_ports(part: JsonObject, _: float) -> Cell:
    ports = [str(port["port"]) for port in part.get("ports") or () if port.get("port")]
    return at_most(ports, 3) if ports else "<unset>"


def _slice_addresses(part: JsonObject, _: float) -> Cell:
    endpoints = part.get("endpoints") or ()
    addresses = [ip for endpoint in endpoints for ip in endpoint.get("addresses") or ()]
    return at_most(addresses, 3) if addresses else "<unset>"


def _role(binding: JsonObject, _: float) -> Cell:
    reference = binding.get("roleRef", {})
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _subjects(kind: str) -> Callable[[JsonObject, float], Cell]:
    def cell(binding: JsonObject, _: float) -> Cell:
        found = [s for s in binding.get("subjects") or () if s.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{s.get('namespace', '')}/{s.get('name', '')}" for s in found)
        return ", ".join(s.get("name", "") for s in found)

    return cell


def _int_or_text(name: str, path: str) -> Column:
    cell = field_cell(path, "N/A")
    return Column(name, lambda obj, now: str(cell(obj, now)))


def _scale_target(autoscaler: JsonObject, _: float) -> Cell:
    target = _spec(autoscaler).get("scaleTargetRef") or {}
    return f"{target.get('kind', '')}/{target.get('name', '')}"


def _metrics(autoscaler: JsonObject, _: float) -> Cell:
    """Show current and wanted amounts (formatHPAMetrics)."""
    wanted = _spec(autoscaler).get("metrics") or ()
    current = _status(autoscaler).get("currentMetrics") or ()
    shown = [
        _metric(metric, current[index] if index < len(current) else {})
        for index, metric in enumerate(wanted)
    ]
    if not shown:
        return "<none>"
    text = ", ".join(shown[:2])
    return text if len(shown) <= 2 else f"{text} + {len(shown) - 2} more..."


def _metric(metric: JsonObject, status: JsonObject) -> str:
    kind = metric.get("type", "")
    field = kind[:1].lower() + kind[1:]
    source = metric.get(field)
    if source is None:
        return "<unknown type>"
    target, now = source.get("target") or {}, (status.get(field) or {}).get("current") or {}
    by_name = kind in ("Resource", "ContainerResource")
    prefix = f"{source.get('name', '')}: " if by_name else ""
    if "averageValue" in target:
        suffix = " (avg)" if kind in ("External", "Object") else ""
        return f"{prefix}{now.get('averageValue', '<unknown>')}/{target['averageValue']}{suffix}"
    if by_name:
        used, wanted = now.get("averageUtilization"), target.get("averageUtilization")
        left = "<unknown>" if used is None else f"{used}%"
        return f"{prefix}{left}/{'<auto>' if wanted is None else f'{wanted}%'}"
    return f"{now.get('value', '<unknown>')}/{target.get('value', '')}"


def _request_duration(request: JsonObject, _: float) -> Cell:
    seconds = _spec(request).get("expirationSeconds")
    return "<none>" if seconds is None else human_duration(seconds)


def _request_condition(request: JsonObject, _: float) -> Cell:
    conditions = {condition.get("type") for condition in _status(request).get("conditions") or ()}
    text = "Denied" if "Denied" in conditions else "Pending"
    if text == "Pending" and "Approved" in conditions:
        text = "Approved"
    if "Failed" in conditions:
        text += ",Failed"
    return f"{text},Issued" if _status(request).get("certificate") else text


def _driver_modes(driver: JsonObject, _: float) -> Cell:
    return ",".join(_spec(driver).get("volumeLifecycleModes") or ()) or "<none>"


def _token_requests(driver: JsonObject, _: float) -> Cell:
    requests = _spec(driver).get("tokenRequests")
    if requests is None:
        return "<unset>"
    return ",".join(request.get("audience", "") for request in requests)


def _parameter_kind(policy: JsonObject, _: float) -> Cell:
    kind = _spec(policy).get("paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else "<unset>"


def _parameter(binding: JsonObject, _: float) -> Cell:
    reference = _spec(binding).get("paramRef")
    if not reference:
        return "<unset>"
    if reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    return selector_text(reference.get("selector"))


def _job_status(job: JsonObject, _: float) -> Cell:
    status = _status(job).get("conditions") or ()
    true = {condition.get("type") for condition in status if condition.get("status") == "True"}
    for known in ("Complete", "Failed"):
        if known in true:
            return known
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for known in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if known in true:
            return known
    return "Running"


def _job_completions(job: JsonObject, _: float) -> Cell:
    done, wanted = _status(job).get("succeeded", 0), _spec(job).get("completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = _spec(job).get("parallelism", 0)
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_duration(job: JsonObject, now: float) -> Cell:
    started, ended = _status(job).get("startTime"), _status(job).get("completionTime")
    if not started:
        return ""
    return human_duration((posix(ended) if ended else now) - posix(started))


def _last_schedule(job: JsonObject, now: float) -> Cell:
    last = _status(job).get("lastScheduleTime")
    return ago(last, now) if last else "<none>"


def _template_labels(template: JsonObject, _: float) -> Cell:
    metadata = (template.get("template") or {}).get("metadata") or {}
    return labels_text(metadata.get("labels"))


def _dangling(schema: JsonObject, _: float) -> Cell:
    for condition in _status(schema).get("conditions") or ():
        if condition.get("type") == "Dangling":
            return str(condition.get("status", ""))
    return "?"


_SUBJECT_COLUMNS = (
    Column("Users", _subjects("User"), 1),
    Column("Groups", _subjects("Group"), 1),
    Column("ServiceAccounts", _subjects("ServiceAccount"), 1),
)
_DEFAULTABLE_NAME = Column("Name", _named_default)
_VOLUME_MODE = _column("VolumeMode", "spec.volumeMode", "<unset>", 1)
_ATTRIBUTES_CLASS = _column("VolumeAttributesClass", "spec.volumeAttributesClassName", "<unset>")
_LIMITED = "spec.limited"
_QUEUING = f"{_LIMITED}.limitResponse.queuing"

JOB_COLUMNS = (
    NAME,
    Column("Status", _job_status),
    Column("Completions", _job_completions),
    Column("Duration", _job_duration),
    AGE,
    *template_columns("spec.template", "spec.selector"),
)
CRONJOB_COLUMNS = (
    NAME,
    _column("Schedule", "spec.schedule"),
    _column("Timezone", "spec.timeZone", "<none>"),
    Column("Suspend", lambda obj, _: str(bool(_spec(obj).get("suspend"))), type="boolean"),
    _count("Active", "status.active"),
    Column("Last Schedule", _last_schedule),
    AGE,
    *template_columns("spec.jobTemplate.spec.template", "spec.jobTemplate.spec.selector"),
)
COLUMNS: dict[str, tuple[Column, ...]] = {
    "PersistentVolume": (
        NAME,
        _column("Capacity", "spec.capacity.storage", "0"),
        Column("Access Modes", lambda obj, _: _modes(_spec(obj).get("accessModes"))),
        _column("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
        Column("Status", _phase),
        Column("Claim", _volume_claim),
        _column("StorageClass", "spec.storageClassName"),
        _ATTRIBUTES_CLASS,
        _column("Reason", "status.reason"),
        AGE,
        _VOLUME_MODE,
    ),
    "PersistentVolumeClaim": (
        NAME,
        Column("Status", _phase),
        _column("Volume", "spec.volumeName"),
        Column("Capacity", _claim_capacity),
        Column("Access Modes", _claim_modes),
        _column("StorageClass", "spec.storageClassName"),
        _ATTRIBUTES_CLASS,
        AGE,
        _VOLUME_MODE,
    ),
    "PodTemplate": (
        NAME,
        *(column._replace(priority=0) for column in template_columns("template")),
        Column("Pod Labels", _template_labels),
    ),
    "ReplicationController": (
        NAME,
        _number("Desired", "spec.replicas"),
        _number("Current", "status.replicas"),
        _number("Ready", "status.readyReplicas"),
        AGE,
        *template_columns("spec.template"),
        Column("Selector", lambda obj, _: labels_text(_spec(obj).get("selector")), 1),
    ),
    "ResourceQuota": (
        NAME,
        Column("Request", _quota_cell(limits=False)),
        Column("Limit", _quota_cell(limits=True)),
        AGE,
    ),
    "MutatingWebhookConfiguration": (NAME, _count("Webhooks", "webhooks"), AGE),
    "ValidatingWebhookConfiguration": (NAME, _count("Webhooks", "webhooks"), AGE),
    "ValidatingAdmissionPolicy": (
        NAME,
        _count("Validations", "spec.validations"),
        Column("ParamKind", _parameter_kind),
        AGE,
    ),
    "ValidatingAdmissionPolicyBinding": (
        NAME,
        _column("PolicyName", "spec.policyName"),
        Column("ParamRef", _parameter),
        AGE,
    ),
    "HorizontalPodAutoscaler": (
        NAME,
        Column("Reference", _scale_target),
        Column("Targets", _metrics),
        Column("MinPods", lambda obj, _: str(_spec(obj).get("minReplicas", "<unset>"))),
        _column("MaxPods", "spec.maxReplicas", 0),
        _column("Replicas", "status.currentReplicas", 0),
        AGE,
    ),
    "CertificateSigningRequest": (
        NAME,
        AGE,
        _column("SignerName", "spec.signerName", "<none>"),
        _column("Requestor", "spec.username"),
        Column("RequestedDuration", _request_duration),
        Column("Condition", _request_condition),
    ),
    "EndpointSlice": (
        NAME,
        _column("AddressType", "addressType"),
        Column("Ports", _slice_ports),
        Column("Endpoints", _slice_addresses),
        AGE,
    ),
    "Ingress": (
        NAME,
        _column("Class", "spec.ingressClassName", "<none>"),
        Column("Hosts", _hosts),
        Column("Address", _ingress_address),
        Column("Ports", _ingress_ports),
        AGE,
    ),
    "IngressClass": (
        _DEFAULTABLE_NAME,
        _column("Controller", "spec.controller"),
        Column("Parameters", _ingress_parameters),
        AGE,
    ),
    "NetworkPolicy": (
        NAME,
        Column(
            "Pod-Selector", lambda obj, _: selector_text(_spec(obj).get("podSelector")) or "<none>"
        ),
        AGE,
    ),
    "RuntimeClass": (NAME, _column("Handler", "handler"), AGE),
    "PodDisruptionBudget": (
        NAME,
        _int_or_text("Min Available", "spec.minAvailable"),
        _int_or_text("Max Unavailable", "spec.maxUnavailable"),
        _number("Allowed Disruptions", "status.disruptionsAllowed"),
        AGE,
    ),
    "RoleBinding": (NAME, Column("Role", _role), AGE, *_SUBJECT_COLUMNS),
    "ClusterRoleBinding": (NAME, Column("Role", _role), AGE, *_SUBJECT_COLUMNS),
    "PriorityClass": (
        NAME,
        _number("Value", "value"),
        _flag("Global-Default", "globalDefault"),
        AGE,
        _column("PreemptionPolicy", "preemptionPolicy"),
    ),
    "StorageClass": (
        _DEFAULTABLE_NAME,
        _column("Provisioner", "provisioner"),
        _column("ReclaimPolicy", "reclaimPolicy", "Delete"),
        _column("VolumeBindingMode", "volumeBindingMode", "Immediate"),
        Column("AllowVolumeExpansion", field_cell("allowVolumeExpansion", False)),
        AGE,
    ),
    "CSIDriver": (
        NAME,
        _flag("AttachRequired", "spec.attachRequired", missing=True),
        _flag("PodInfoOnMount", "spec.podInfoOnMount"),
        _flag("StorageCapacity", "spec.storageCapacity"),
        Column("TokenRequests", _token_requests),
        _flag("RequiresRepublish", "spec.requiresRepublish"),
        Column("Modes", _driver_modes),
        AGE,
    ),
    "CSINode": (NAME, _count("Drivers", "spec.drivers"), AGE),
    "CSIStorageCapacity": (
        NAME,
        _column("StorageClassName", "storageClassName"),
        _column("Capacity", "capacity", "<unset>"),
    ),
    "VolumeAttachment": (
        NAME,
        Column("Attacher", field_cell("spec.attacher"), format="name"),
        _column("PV", "spec.source.persistentVolumeName"),
        _column("Node", "spec.nodeName"),
        _flag("Attached", "status.attached"),
        AGE,
    ),
    "VolumeAttributesClass": (_DEFAULTABLE_NAME, _column("DriverName", "driverName"), AGE),
    "FlowSchema": (
        NAME,
        _column("PriorityLevel", "spec.priorityLevelConfiguration.name"),
        _column("MatchingPrecedence", "spec.matchingPrecedence", 0),
        _column("DistinguisherMethod", "spec.distinguisherMethod.type", "<none>"),
        AGE,
        Column("MissingPL", _dangling),
    ),
    "PriorityLevelConfiguration": (
        NAME,
        _column("Type", "spec.type"),
        _column("NominalConcurrencyShares", f"{_LIMITED}.nominalConcurrencyShares", "<none>"),
        _column("Queues", f"{_QUEUING}.queues", "<none>"),
        _column("HandSize", f"{_QUEUING}.handSize", "<none>"),
        _column("QueueLengthLimit", f"{_QUEUING}.queueLengthLimit", "<none>"),
        AGE,
    ),
}
