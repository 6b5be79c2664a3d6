"""What may be wrong with objects of the stored kinds.

pkg/apis/<group>/validation/validation.go; each function takes an object whose defaults are filled
in. Functions named `…_update` take the old object before the new one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hotmap.core.errors import HotmapError
from hotmap.local.apiserver.selector_validation import selector_errors
from hotmap.local.field_errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from hotmap.local.names import (
    is_ip_address,
    label_name_errors,
    qualified_name_errors,
    subdomain_errors,
)
from hotmap.local.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

JsonObject = dict[str, Any]

_RBAC_GROUP = "rbac.authorization.k8s.io"
_MAX_PRIORITY = 1_000_000_000
_NOT_NEGATIVE = "must be greater than or equal to 0"
_IMMUTABLE = "field is immutable"
_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_WILDCARD = re.compile(r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_WILDCARD_TEXT = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which "
    "must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric "
    "character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]"
    "([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def rule_errors(rules: list[JsonObject] | None, *, namespaced: bool) -> Iterator[FieldError]:
    """Check the rules of a role (ValidatePolicyRule)."""
    for index, rule in enumerate(rules or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            yield required(f"{path}.verbs", "verbs must contain at least one value")
        paths = rule.get("nonResourceURLs")
        if paths:
            at = f"{path}.nonResourceURLs"
            if namespaced:
                why = "namespaced rules cannot apply to non-resource URLs"
                yield invalid_value(at, paths, why)
            if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
                why = "rules cannot apply to both regular resources and non-resource URLs"
                yield invalid_value(at, paths, why)
            continue
        if not rule.get("apiGroups"):
            yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield required(f"{path}.resources", "resource rules must supply at least one resource")


def binding_errors(binding: JsonObject, *, namespaced: bool) -> Iterator[FieldError]:
    """Check a RoleBinding or ClusterRoleBinding."""
    reference = binding.get("roleRef") or {}
    if reference.get("apiGroup") != _RBAC_GROUP:
        yield unsupported("roleRef.apiGroup", reference.get("apiGroup", ""), (_RBAC_GROUP,))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if reference.get("kind", "") not in kinds:
        yield unsupported("roleRef.kind", reference.get("kind", ""), kinds)
    if not reference.get("name"):
        yield required("roleRef.name")
    for index, subject in enumerate(binding.get("subjects") or ()):
        yield from _subject_errors(subject, f"subjects[{index}]", namespaced=namespaced)


def _subject_errors(subject: JsonObject, path: str, *, namespaced: bool) -> Iterator[FieldError]:
    kind, name, group = (subject.get(field, "") for field in ("kind", "name", "apiGroup"))
    if not name:
        yield required(f"{path}.name")
    if kind == "ServiceAccount":
        for why in subdomain_errors(name) if name else ():
            yield invalid_value(f"{path}.name", name, why)
        if group:
            yield unsupported(f"{path}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            yield required(f"{path}.namespace")
    elif kind in ("User", "Group"):
        if group != _RBAC_GROUP:
            yield unsupported(f"{path}.apiGroup", group, (_RBAC_GROUP,))
    else:
        yield unsupported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group"))


def binding_update_errors(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """The role of a binding never changes."""
    if old.get("roleRef") != new.get("roleRef"):
        fields = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
        shown = {go: (new.get("roleRef") or {}).get(field, "") for go, field in fields}
        yield invalid_value("roleRef", shown, "cannot change roleRef")


def budget_errors(budget: JsonObject) -> Iterator[FieldError]:
    """Check a PodDisruptionBudget."""
    spec = budget.get("spec") or {}
    if "minAvailable" in spec and "maxUnavailable" in spec:
        why = "minAvailable and maxUnavailable cannot be both set"
        shown = {
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        yield invalid_value("spec", shown, why)
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec:
            yield from _amount_errors(spec[field], f"spec.{field}")
    yield from selector_errors(spec.get("selector") or {}, "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    known = ("AlwaysAllow", "IfHealthyBudget")
    if policy is not None and policy not in known:
        yield unsupported("spec.unhealthyPodEvictionPolicy", policy, known)


def _amount_errors(amount: int | str, path: str) -> Iterator[FieldError]:
    """Check a count or a percentage (ValidatePositiveIntOrPercent, IsNotMoreThan100Percent)."""
    if isinstance(amount, str):
        if not re.fullmatch("[0-9]+%", amount):
            yield invalid_value(path, amount, _PERCENT)
        elif int(amount[:-1]) > 100:
            yield invalid_value(path, amount, "must not be greater than 100%")
    elif amount < 0:
        yield invalid_value(path, amount, _NOT_NEGATIVE)


def autoscaler_errors(autoscaler: JsonObject) -> Iterator[FieldError]:
    """Check a HorizontalPodAutoscaler."""
    spec = autoscaler.get("spec") or {}
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if least is not None and least < 1:
        yield invalid_value("spec.minReplicas", least, "must be greater than or equal to 1")
    if most == 0:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        yield invalid_value("spec.maxReplicas", most, "must be greater than or equal to 1")
    if least is not None and most < least:
        why = "must be greater than or equal to `minReplicas`"
        yield invalid_value("spec.maxReplicas", most, why)
    target = spec.get("scaleTargetRef") or {}
    for field in ("kind", "name"):
        if not target.get(field):
            yield required(f"spec.scaleTargetRef.{field}")
    if not target.get("apiVersion"):
        why = "apiVersion must specify API group"
        yield invalid_value("spec.scaleTargetRef.apiVersion", "", why)
    kinds = {metric.get("type") for metric in spec.get("metrics") or ()}
    if least == 0 and not kinds & {"External", "Object"}:
        why = "must specify at least one Object or External metric to support scaling to zero "
        yield forbidden_field("spec.metrics", f"{why}replicas")
    for index, metric in enumerate(spec.get("metrics") or ()):
        yield from _metric_errors(metric, f"spec.metrics[{index}]")


_METRICS = ("ContainerResource", "External", "Object", "Pods", "Resource")


def _metric_errors(metric: JsonObject, path: str) -> Iterator[FieldError]:
    kind = metric.get("type", "")
    if not kind:
        yield required(f"{path}.type", "must specify a metric source type")
    if kind not in _METRICS:
        yield unsupported(f"{path}.type", kind, _METRICS)
        yield unsupported(f"{path}.type", kind, _METRICS)
        return
    field = kind[:1].lower() + kind[1:]
    if field not in metric:
        yield required(f"{path}.{field}", "must populate information for the given metric source")


def _amount(text: object) -> float:
    try:
        return float(parse_quantity(str(text)))
    except (ValueError, HotmapError):
        return 0.0


_COUNTED = ("pods", "services", "secrets", "configmaps", "persistentvolumeclaims")
_STANDARD_QUOTA = (
    *_COUNTED,
    "cpu",
    "memory",
    "storage",
    "ephemeral-storage",
    "replicationcontrollers",
    "resourcequotas",
    "services.nodeports",
    "services.loadbalancers",
)
_SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)
_WHOLE = "must be an integer"


def quota_errors(quota: JsonObject) -> Iterator[FieldError]:
    """Check a ResourceQuota."""
    spec = quota.get("spec") or {}
    for name, amount in sorted((spec.get("hard") or {}).items()):
        path = f"spec.hard[{name}]"
        for why in qualified_name_errors(name):
            yield invalid_value(path, name, why.replace("a qualified name", "a valid label key"))
        if "/" not in name and not _is_quota_resource(name):
            why = "must be a standard resource type or fully qualified"
            yield invalid_value(path, name, why)
            yield invalid_value(path, name, "must be a standard resource for quota")
        value = _amount(amount)
        if value < 0:
            yield invalid_value(path, str(amount), _NOT_NEGATIVE)
        if (name in _COUNTED or name.startswith("count/")) and value % 1:
            yield invalid_value(path, str(amount), _WHOLE)
    yield from _scope_errors(spec)


_EXCLUSIVE_SCOPES = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_OF_PODS = ("cpu", "limits.cpu", "limits.memory", "memory", "pods", "requests.cpu")


def _scope_errors(spec: JsonObject) -> Iterator[FieldError]:
    scopes, path = spec.get("scopes") or [], "spec.scopes"
    for scope in scopes:
        if scope not in _SCOPES:
            yield invalid_value(path, scopes, "unsupported scope")
            continue
        for name in spec.get("hard") or ():
            if _is_quota_resource(name) and not _is_in_scope(name, scope):
                yield invalid_value(path, scopes, "unsupported scope applied to resource")
    for pair in _EXCLUSIVE_SCOPES:
        if set(pair) <= set(scopes):
            yield invalid_value(path, scopes, "conflicting scopes")


def _is_in_scope(name: str, scope: str) -> bool:
    """Return whether a scope can narrow what is counted (IsResourceQuotaScopeValidForResource)."""
    if scope == "VolumeAttributesClass":
        return "storage" in name or name == "persistentvolumeclaims"
    if scope == "BestEffort":
        return name == "pods"
    return name in _OF_PODS or name == "requests.memory"


def _is_quota_resource(name: str) -> bool:
    prefix, _, rest = name.partition(".")
    return (
        name in _STANDARD_QUOTA
        or name.startswith("hugepages-")
        or (prefix in ("requests", "limits") and bool(rest))
        or name.endswith(".storage")
    )


def limits_errors(limits: JsonObject) -> Iterator[FieldError]:
    """Check a LimitRange."""
    seen: set[str] = set()
    for index, item in enumerate((limits.get("spec") or {}).get("limits") or ()):
        path = f"spec.limits[{index}]"
        kind = item.get("type", "")
        for why in qualified_name_errors(kind):
            yield invalid_value(f"{path}.type", kind, why)
        if kind and "/" not in kind and kind not in ("Container", "PersistentVolumeClaim", "Pod"):
            why = "must be a standard limit type or fully qualified"
            yield invalid_value(f"{path}.type", kind, why)
        if kind in seen:
            yield duplicate(f"{path}.type", kind)
        seen.add(kind)
        if kind == "Pod":
            for field in ("default", "defaultRequest"):
                if item.get(field):
                    yield forbidden_field(
                        f"{path}.{field}", "may not be specified when `type` is 'Pod'"
                    )
        yield from _limit_errors(item, path)


# The greater amount must not be less than the smaller one: the field that is wrong, the smaller,
# the greater, whose value is shown, and how the text calls both.
_LIMIT_ORDER = (
    ("min", "min", "max", "min", "min value", "is greater than max value"),
    ("defaultRequest", "min", "defaultRequest", "defaultRequest", "min value",
     "is greater than default request value"),
    ("defaultRequest", "defaultRequest", "max", "defaultRequest", "default request value",
     "is greater than max value"),
    ("defaultRequest", "defaultRequest", "default", "defaultRequest", "default request value",
     "is greater than default limit value"),
    ("default", "min", "default", "min", "min value", "is greater than default value"),
    ("default", "default", "max", "max", "default value", "is greater than max value"),
)  # fmt: skip


def _limit_errors(item: JsonObject, path: str) -> Iterator[FieldError]:
    fields = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
    names = sorted({name for field in fields for name in item.get(field) or {}})
    for name in names:
        for field, small, great, shown, first, second in _LIMIT_ORDER:
            low, high = (item.get(small) or {}).get(name), (item.get(great) or {}).get(name)
            if low is not None and high is not None and _amount(low) > _amount(high):
                value = item[shown][name]
                why = f"{first} {low} {second} {high}"
                yield invalid_value(f"{path}.{field}[{name}]", str(value), why)


def ingress_errors(ingress: JsonObject) -> Iterator[FieldError]:
    """Check an Ingress."""
    spec = ingress.get("spec") or {}
    rules, backend = spec.get("rules") or (), spec.get("defaultBackend")
    if not rules and backend is None:
        why = "either `defaultBackend` or `rules` must be specified"
        yield invalid_value("spec", None, why)
    if backend is not None:
        yield from _backend_errors(backend, "spec.defaultBackend")
    for index, rule in enumerate(rules):
        yield from _ingress_rule_errors(rule, f"spec.rules[{index}]")
    name = spec.get("ingressClassName")
    if name is not None:
        for why in subdomain_errors(name):
            yield invalid_value("spec.ingressClassName", name, why)


def _ingress_rule_errors(rule: JsonObject, path: str) -> Iterator[FieldError]:
    host = rule.get("host", "")
    if host:
        at = f"{path}.host"
        if is_ip_address(host):
            yield invalid_value(at, host, "must be a DNS name, not an IP address")
        if "*" in host:
            if not _WILDCARD.fullmatch(host):
                yield invalid_value(at, host, _WILDCARD_TEXT)
        else:
            for why in subdomain_errors(host):
                yield invalid_value(at, host, why)
    if rule.get("http") is not None:
        paths = rule["http"].get("paths") or ()
        if not paths:
            yield required(f"{path}.http.paths")
        for index, inner in enumerate(paths):
            yield from _ingress_path_errors(inner, f"{path}.http.paths[{index}]")


def _ingress_path_errors(inner: JsonObject, path: str) -> Iterator[FieldError]:
    kind, value = inner.get("pathType"), inner.get("path", "")
    if kind is None:
        yield required(f"{path}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield unsupported(f"{path}.pathType", kind, _PATH_TYPES)
    elif (value or kind != "ImplementationSpecific") and not value.startswith("/"):
        yield invalid_value(f"{path}.path", value, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        for part in ("//", "/./", "/../", "%2f", "%2F"):
            if part in value:
                yield invalid_value(f"{path}.path", value, f"must not contain '{part}'")
        for part in ("/..", "/."):
            if value.endswith(part):
                yield invalid_value(f"{path}.path", value, f"cannot end with '{part}'")
    yield from _backend_errors(inner.get("backend") or {}, f"{path}.backend")


def _backend_errors(backend: JsonObject, path: str) -> Iterator[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield invalid_value(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        for field in ("kind", "name"):
            if not resource.get(field):
                yield required(f"{path}.resource.{field}")
    elif service is None:
        yield invalid_value(path, "", "resource or service backend is required")
    else:
        name, port = service.get("name", ""), service.get("port") or {}
        if not name:
            yield required(f"{path}.service.name")
        for why in label_name_errors(name) if name else ():
            yield invalid_value(f"{path}.service.name", name, why)
        number = port.get("number", 0)
        if port.get("name") and number:
            yield invalid_value(path, "", "cannot set both port name & port number")
        elif number and not 0 < number < 1 << 16:
            yield invalid_value(f"{path}.service.port.number", number, _PORT)
        elif not number and not port.get("name"):
            yield required(path, "port name or number is required")


_PORT = "must be between 1 and 65535, inclusive"


def network_policy_errors(policy: JsonObject) -> Iterator[FieldError]:
    """Check a NetworkPolicy."""
    spec = policy.get("spec") or {}
    yield from selector_errors(spec.get("podSelector") or {}, "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{index}]"
            for number, port in enumerate(rule.get("ports") or ()):
                yield from _policy_port_errors(port, f"{path}.ports[{number}]")
            for number, peer in enumerate(rule.get(peers) or ()):
                yield from _peer_errors(peer, f"{path}.{peers}[{number}]")
    types = spec.get("policyTypes") or ()
    if len(types) > 2:
        why = "may not specify more than two policyTypes"
        yield invalid_value("spec.policyTypes", types, why)
        return
    for index, kind in enumerate(types):
        if kind not in ("Ingress", "Egress"):
            yield unsupported(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress"))


def _policy_port_errors(port: JsonObject, path: str) -> Iterator[FieldError]:
    protocol, number, end = port.get("protocol", "TCP"), port.get("port"), port.get("endPort")
    if protocol not in ("TCP", "UDP", "SCTP"):
        yield unsupported(f"{path}.protocol", protocol, ("TCP", "UDP", "SCTP"))
    if isinstance(number, int):
        if not 0 < number < 1 << 16:
            yield invalid_value(f"{path}.port", number, _PORT)
        if end is not None and end < number:
            why = "must be greater than or equal to `port`"
            yield invalid_value(f"{path}.endPort", number, why)
    elif end is not None:
        why = "may not be specified when `port` is " + (
            "not specified" if number is None else "non-numeric"
        )
        yield invalid_value(f"{path}.endPort", end, why)


def _peer_errors(peer: JsonObject, path: str) -> Iterator[FieldError]:
    count = 0
    for field in ("podSelector", "namespaceSelector"):
        if field in peer:
            count += 1
            yield from selector_errors(peer[field], f"{path}.{field}")
    block = peer.get("ipBlock")
    if block is not None:
        if count:
            why = "may not specify both ipBlock and another peer"
            yield forbidden_field(path, why)
        count += 1
        if not block.get("cidr"):
            yield required(f"{path}.ipBlock.cidr")
    if not count:
        yield required(path, "must specify a peer")


def storage_class_errors(obj: JsonObject) -> Iterator[FieldError]:
    """Check a StorageClass."""
    if not obj.get("provisioner"):
        yield required("provisioner")
    for why in qualified_name_errors(obj.get("provisioner", "").lower()):
        why = why.replace("a qualified name", "a valid label key")
        yield invalid_value("provisioner", obj["provisioner"], why)
    for field, known in (
        ("reclaimPolicy", ("Delete", "Retain")),
        ("volumeBindingMode", ("Immediate", "WaitForFirstConsumer")),
    ):
        if obj.get(field) not in known:
            yield unsupported(field, obj.get(field, ""), known)


def storage_class_update_errors(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """What volumes are made of never changes."""
    for field in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        if old.get(field) != new.get(field):
            yield invalid_value(field, new.get(field), _IMMUTABLE)


def priority_class_errors(obj: JsonObject) -> Iterator[FieldError]:
    """Check a PriorityClass."""
    name = obj["metadata"].get("name", "")
    system = {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
    if name.startswith("system-"):
        if obj.get("value") != system.get(name):
            why = "is not a known system priority class" if name not in system else "wrong value"
            yield forbidden_field(
                "metadata.name",
                "priority class names with 'system-' prefix are reserved for system use only. "
                f"error: {name} {why}",
            )
    elif obj.get("value", 0) > _MAX_PRIORITY:
        why = f"maximum allowed value of a user defined priority is {_MAX_PRIORITY}"
        yield forbidden_field("value", why)
    known = ("Never", "PreemptLowerPriority")
    policy = obj.get("preemptionPolicy")
    if policy is not None and policy not in known:
        yield unsupported("preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))


def runtime_class_errors(obj: JsonObject) -> Iterator[FieldError]:
    """The handler of a RuntimeClass is a label."""
    handler = obj.get("handler", "")
    if not handler:
        yield required("handler")
    for why in label_name_errors(handler) if handler else ():
        yield invalid_value("handler", handler, why)


def runtime_class_update_errors(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """The handler of a RuntimeClass never changes."""
    if old.get("handler") != new.get("handler"):
        yield invalid_value("handler", new.get("handler"), _IMMUTABLE)


def priority_class_update_errors(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """The value of a class never changes."""
    if old.get("value", 0) != new.get("value", 0):
        yield forbidden_field("value", "may not be changed in an update.")
    if old.get("preemptionPolicy") != new.get("preemptionPolicy"):
        yield invalid_value("preemptionPolicy", new.get("preemptionPolicy"), _IMMUTABLE)


def replication_controller_errors(obj: JsonObject) -> Iterator[FieldError]:
    """Check the counts and the selector of a ReplicationController."""
    spec = obj.get("spec") or {}
    if spec.get("minReadySeconds", 0) < 0:
        yield invalid_value("spec.minReadySeconds", spec["minReadySeconds"], _NOT_NEGATIVE)
    selector = spec.get("selector") or {}
    if not selector:
        yield required("spec.selector")
    if spec.get("replicas", 0) < 0:
        yield invalid_value("spec.replicas", spec["replicas"], _NOT_NEGATIVE)
    template = spec.get("template")
    if template is None:
        yield required("spec.template")
        return
    labels = (template.get("metadata") or {}).get("labels") or {}
    if selector and any(labels.get(key) != value for key, value in selector.items()):
        why = "`selector` does not match template `labels`"
        yield invalid_value("spec.template.metadata.labels", labels, why)
