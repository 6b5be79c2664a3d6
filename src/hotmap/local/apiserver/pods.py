"""Pods and pod templates: defaults and validation.

pkg/apis/core/v1/defaults.go and pkg/apis/core/validation/validation.go, as far as a node that
runs processes gives the fields a meaning. Paths and texts are upstream's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.field_errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_found_value,
    required,
    unsupported,
)
from hotmap.local.names import (
    config_key_errors,
    env_name_errors,
    label_name_errors,
    projected_path_errors,
    relative_path_errors,
    subdomain_errors,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

JsonObject = dict[str, Any]

_DEFAULT_MODE = 0o644
_MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"
_PROJECTED_MODES = ("configMap", "secret", "projected", "downwardAPI")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_FIELD_PATHS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels",
    "metadata.annotations", "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
    "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_ENV_FIELD_PATHS = tuple(sorted(set(_FIELD_PATHS) - {"metadata.labels", "metadata.annotations"}))
_VOLUME_FIELD_PATHS = (
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace",
    "metadata.uid",
)  # fmt: skip
_RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu",
    "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
# A pod leaves a node that is lost after five minutes (defaulttolerationseconds admission).
_TOLERATIONS = tuple(
    {
        "key": f"node.kubernetes.io/{condition}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for condition in ("not-ready", "unreachable")
)
_UPDATE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)"
)


def default_pod(pod: JsonObject) -> None:
    """Fill in what a pod leaves out, in place; more than a template gets."""
    spec = pod.setdefault("spec", {})
    # The service account admission's part; the deprecated twin follows it.
    name = spec.setdefault("serviceAccountName", spec.get("serviceAccount", "default"))
    spec["serviceAccount"] = name
    spec.setdefault("enableServiceLinks", True)
    # The priority and toleration admissions' part.
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    tolerations = spec.setdefault("tolerations", [])
    known = {toleration.get("key") for toleration in tolerations}
    tolerations += [dict(added) for added in _TOLERATIONS if added["key"] not in known]
    for container in _containers(spec):
        _default_requests(container)
    default_pod_spec(spec)


def default_pod_spec(spec: JsonObject) -> None:
    """Fill in what the spec of a pod or a template leaves out, in place."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for volume in spec.get("volumes", ()):
        _default_volume(volume)
    for container in _containers(spec):
        _default_container(container)


def _containers(spec: JsonObject) -> Iterator[JsonObject]:
    yield from spec.get("initContainers", ())
    yield from spec.get("containers", ())


def _default_requests(container: JsonObject) -> None:
    resources = container.get("resources", {})
    limits = resources.get("limits", {})
    if limits:
        resources["requests"] = {**limits, **resources.get("requests", {})}


def _default_container(container: JsonObject) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        _default_field_refs(variable.get("valueFrom", {}))
    for probe in (container[name] for name in _PROBES if name in container):
        _default_probe(probe)


def _pull_policy(image: str) -> str:
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    return "IfNotPresent" if "@" in image or tag not in ("", "latest") else "Always"


def _default_field_refs(source: JsonObject) -> None:
    if "fieldRef" in source:
        source["fieldRef"].setdefault("apiVersion", "v1")
    if "resourceFieldRef" in source:
        source["resourceFieldRef"].setdefault("divisor", "0")


def _default_probe(probe: JsonObject) -> None:
    if "httpGet" in probe:
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)


def _default_volume(volume: JsonObject) -> None:
    if not [field for field in volume if field != "name"]:
        volume["emptyDir"] = {}
    for field in _PROJECTED_MODES:
        if field in volume:
            volume[field].setdefault("defaultMode", _DEFAULT_MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for item in volume.get("downwardAPI", {}).get("items", ()):
        _default_field_refs(item)
    for source in volume.get("projected", {}).get("sources", ()):
        for item in source.get("downwardAPI", {}).get("items", ()):
            _default_field_refs(item)
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)


def quality_of_service(spec: JsonObject) -> str:
    """Give the class that a pod's requests and limits put it in (GetPodQOS)."""
    resources = [container.get("resources", {}) for container in _containers(spec)]
    if not any(r.get("requests") or r.get("limits") for r in resources):
        return "BestEffort"
    guaranteed = all(
        {"cpu", "memory"} <= r.get("limits", {}).keys() and r.get("requests") == r["limits"]
        for r in resources
    )
    return "Guaranteed" if guaranteed else "Burstable"


def pod_spec_errors(spec: JsonObject, path: str) -> list[FieldError]:
    """Find everything wrong with the spec of a pod or a template (ValidatePodSpec)."""
    volumes = spec.get("volumes", ())
    errors = _unique_named(volumes, f"{path}.volumes", _volume_errors)
    names = {volume.get("name") for volume in volumes}
    if not spec.get("containers"):
        errors.append(required(f"{path}.containers"))
    taken: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field, ())):
            at = f"{path}.{field}[{index}]"
            errors += _container_errors(container, at, names)
            if container.get("name") in taken:
                errors.append(duplicate(f"{at}.name", container["name"]))
            taken.add(container.get("name", ""))
    errors += _choice(spec, path, "restartPolicy", ("Always", "OnFailure", "Never"))
    dns = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
    errors += _choice(spec, path, "dnsPolicy", dns)
    for field in ("serviceAccountName", "nodeName"):
        if spec.get(field):
            errors += _broken(f"{path}.{field}", spec[field], subdomain_errors)
    return errors


def _choice(obj: JsonObject, path: str, field: str, known: tuple[str, ...]) -> list[FieldError]:
    if obj[field] in known:
        return []
    return [unsupported(f"{path}.{field}", obj[field], known)]


def _broken(path: str, value: str, rule: Callable[[str], list[str]]) -> list[FieldError]:
    return [invalid_value(path, value, why) for why in rule(value)]


def _unique_named(
    objects: Any, path: str, rule: Callable[[JsonObject, str], list[FieldError]]
) -> list[FieldError]:
    errors: list[FieldError] = []
    taken: set[str] = set()
    for index, obj in enumerate(objects):
        at, name = f"{path}[{index}]", obj.get("name", "")
        errors += rule(obj, at)
        if not name:
            errors.append(required(f"{at}.name"))
        else:
            errors += _broken(f"{at}.name", name, label_name_errors)
            if name in taken:
                errors.append(duplicate(f"{at}.name", name))
        taken.add(name)
    return errors


def _container_errors(container: JsonObject, path: str, volumes: set[Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    name = container.get("name", "")
    if not name:
        errors.append(required(f"{path}.name"))
    else:
        errors += _broken(f"{path}.name", name, label_name_errors)
    if not container.get("image"):
        errors.append(required(f"{path}.image"))
    for index, port in enumerate(container.get("ports", ())):
        errors += _port_errors(port, f"{path}.ports[{index}]")
    for index, variable in enumerate(container.get("env", ())):
        errors += _env_errors(variable, f"{path}.env[{index}]")
    for index, source in enumerate(container.get("envFrom", ())):
        errors += _env_from_errors(source, f"{path}.envFrom", index)
    errors += _mount_errors(container.get("volumeMounts", ()), f"{path}.volumeMounts", volumes)
    pull = ("Always", "IfNotPresent", "Never")
    return errors + _choice(container, path, "imagePullPolicy", pull)


def _port_errors(port: JsonObject, path: str) -> list[FieldError]:
    number = port.get("containerPort", 0)
    if not number:
        return [required(f"{path}.containerPort")]
    errors: list[FieldError] = []
    if not 1 <= number <= 65535:
        why = "must be between 1 and 65535, inclusive"
        errors.append(invalid_value(f"{path}.containerPort", number, why))
    return errors + _choice(port, path, "protocol", ("SCTP", "TCP", "UDP"))


def _env_errors(variable: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name = variable.get("name", "")
    if not name:
        errors.append(required(f"{path}.name"))
    else:
        errors += _broken(f"{path}.name", name, env_name_errors)
    if "valueFrom" not in variable:
        return errors
    source, at = variable["valueFrom"], f"{path}.valueFrom"
    used = [field for field in _ENV_SOURCES if field in source]
    for field in used:
        errors += _ENV_SOURCES[field](source[field], f"{at}.{field}")
    if not used:
        why = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
            "`secretKeyRef` or `fileKeyRef`"
        )
        errors.append(invalid_value(at, "", why))
    elif variable.get("value"):
        errors.append(invalid_value(at, "", "may not be specified when `value` is not empty"))
    elif len(used) > 1:
        errors.append(invalid_value(at, "", "may not have more than one field specified at a time"))
    return errors


def _env_field_errors(ref: JsonObject, path: str) -> list[FieldError]:
    field = ref.get("fieldPath", "")
    if not field:
        return [required(f"{path}.fieldPath")]
    plain = field.partition("[")[0]
    subscripted = plain in ("metadata.labels", "metadata.annotations") and plain != field
    if subscripted or field in _ENV_FIELD_PATHS:
        return []
    if plain not in _FIELD_PATHS:
        why = f"error converting fieldPath: field label not supported: {field}"
        return [invalid_value(f"{path}.fieldPath", field, why)]
    return [unsupported(f"{path}.fieldPath", field, _ENV_FIELD_PATHS)]


def _resource_errors(ref: JsonObject, path: str) -> list[FieldError]:
    resource = ref.get("resource", "")
    if not resource:
        return [required(f"{path}.resource")]
    if resource in _RESOURCES or ".hugepages-" in resource:
        return []
    return [unsupported(f"{path}.resource", resource, _RESOURCES)]


def _key_ref_errors(ref: JsonObject, path: str) -> list[FieldError]:
    errors = _broken(f"{path}.name", ref.get("name", ""), subdomain_errors)
    if not ref.get("key"):
        return [*errors, required(f"{path}.key")]
    return errors + _broken(f"{path}.key", ref["key"], config_key_errors)


# In upstream's order, which is that of its messages.
_ENV_SOURCES: dict[str, Callable[[JsonObject, str], list[FieldError]]] = {
    "fieldRef": _env_field_errors,
    "resourceFieldRef": _resource_errors,
    "configMapKeyRef": _key_ref_errors,
    "secretKeyRef": _key_ref_errors,
}


def _env_from_errors(source: JsonObject, path: str, index: int) -> list[FieldError]:
    at = f"{path}[{index}]"
    errors: list[FieldError] = []
    if source.get("prefix"):
        errors += _broken(f"{at}.prefix", source["prefix"], env_name_errors)
    used = [field for field in ("configMapRef", "secretRef") if field in source]
    for field in used:
        name = source[field].get("name", "")
        if not name:
            errors.append(required(f"{at}.{field}.name"))
        else:
            errors += _broken(f"{at}.{field}.name", name, subdomain_errors)
    if not used:
        why = "must specify one of: `configMapRef` or `secretRef`"
        errors.append(invalid_value(path, "", why))
    elif len(used) > 1:
        why = "may not have more than one field specified at a time"
        errors.append(invalid_value(path, "", why))
    return errors


def _mount_errors(mounts: Any, path: str, volumes: set[Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    taken: set[str] = set()
    for index, mount in enumerate(mounts):
        at, name = f"{path}[{index}]", mount.get("name", "")
        target = mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{at}.name"))
        if name not in volumes:
            errors.append(not_found_value(f"{at}.name", name))
        if not target:
            errors.append(required(f"{at}.mountPath"))
        elif target in taken:
            errors.append(invalid_value(f"{at}.mountPath", target, "must be unique"))
        taken.add(target)
        # Upstream's path has no index here.
        if mount.get("subPath"):
            errors += _broken(f"{path}.subPath", mount["subPath"], relative_path_errors)
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                why = "subPathExpr and subPath are mutually exclusive"
                errors.append(invalid_value(f"{at}.subPathExpr", mount["subPathExpr"], why))
            errors += _broken(f"{path}.subPathExpr", mount["subPathExpr"], relative_path_errors)
    return errors


def _volume_errors(volume: JsonObject, path: str) -> list[FieldError]:
    used = [field for field in volume if field != "name"]
    # emptyDir comes first upstream; the others in the order of its checks.
    used.sort(key=lambda field: (field not in _VOLUME_ORDER, _VOLUME_ORDER.get(field, 0)))
    errors: list[FieldError] = []
    for count, field in enumerate(used):
        if count:
            why = "may not specify more than 1 volume type"
            errors.append(forbidden_field(f"{path}.{field}", why))
        elif field in _VOLUME_RULES:
            errors += _VOLUME_RULES[field](volume[field], f"{path}.{field}")
    return errors


def _configmap_volume_errors(source: JsonObject, path: str) -> list[FieldError]:
    errors = [] if source.get("name") else [required(f"{path}.name")]
    return errors + _mode_errors(source, path, "defaultMode") + _item_errors(source, path)


def _secret_volume_errors(source: JsonObject, path: str) -> list[FieldError]:
    errors = [] if source.get("secretName") else [required(f"{path}.secretName")]
    return errors + _mode_errors(source, path, "defaultMode") + _item_errors(source, path)


def _downward_volume_errors(source: JsonObject, path: str) -> list[FieldError]:
    errors = _mode_errors(source, path, "defaultMode")
    return errors + _downward_errors(source, path)


def _downward_errors(source: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for item in source.get("items", ()):
        if not item.get("path"):
            errors.append(required(f"{path}.path"))
        else:
            errors += _broken(f"{path}.path", item["path"], projected_path_errors)
        if "fieldRef" in item:
            errors += _volume_field_errors(item["fieldRef"], f"{path}.fieldRef")
            if "resourceFieldRef" in item:
                why = "fieldRef and resourceFieldRef can not be specified simultaneously"
                errors.append(invalid_value(path, "resource", why))
        elif "resourceFieldRef" in item:
            if not item["resourceFieldRef"].get("containerName"):
                errors.append(required(f"{path}.resourceFieldRef.containerName"))
            errors += _resource_errors(item["resourceFieldRef"], f"{path}.resourceFieldRef")
        else:
            errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
        errors += _mode_errors(item, path, "mode")
    return errors


def _volume_field_errors(ref: JsonObject, path: str) -> list[FieldError]:
    field = ref.get("fieldPath", "")
    if not field:
        return [required(f"{path}.fieldPath")]
    if field.partition("[")[0] in _VOLUME_FIELD_PATHS:
        return []
    return [unsupported(f"{path}.fieldPath", field, _VOLUME_FIELD_PATHS)]


def _projected_volume_errors(source: JsonObject, path: str) -> list[FieldError]:
    errors = _mode_errors(source, path, "defaultMode")
    taken: set[str] = set()
    for index, part in enumerate(source.get("sources", ())):
        at = f"{path}.sources[{index}]"
        for count, field in enumerate(f for f in _PROJECTION_RULES if f in part):
            if count:
                why = "may not specify more than 1 volume type per source"
                errors.append(forbidden_field(at, why))
                continue
            errors += _PROJECTION_RULES[field](part[field], f"{at}.{field}")
            for target in _known_paths(part[field]):
                if target in taken:
                    why = "conflicting duplicate paths"
                    errors.append(invalid_value(path, part[field].get("name", target), why))
                taken.add(target)
    return errors


def _known_paths(projection: JsonObject) -> list[str]:
    if "path" in projection:
        return [projection["path"]]
    return [item["path"] for item in projection.get("items", ()) if item.get("path")]


def _source_projection_errors(projection: JsonObject, path: str) -> list[FieldError]:
    errors = [] if projection.get("name") else [required(f"{path}.name")]
    return errors + _item_errors(projection, path)


def _token_errors(projection: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if projection["expirationSeconds"] < 600:
        why = "may not specify a duration less than 10 minutes"
        errors.append(
            invalid_value(f"{path}.expirationSeconds", projection["expirationSeconds"], why)
        )
    if not projection.get("path"):
        return [*errors, required(f"{path}.path")]
    return errors + _broken(f"{path}.path", projection["path"], projected_path_errors)


def _item_errors(source: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, item in enumerate(source.get("items", ())):
        at = f"{path}.items[{index}]"
        if not item.get("key"):
            errors.append(required(f"{at}.key"))
        if not item.get("path"):
            errors.append(required(f"{at}.path"))
        else:
            errors += _broken(f"{at}.path", item["path"], projected_path_errors)
        errors += _mode_errors(item, at, "mode")
    return errors


def _mode_errors(obj: JsonObject, path: str, field: str) -> list[FieldError]:
    mode = obj.get(field)
    if mode is None or 0 <= mode <= 0o777:
        return []
    return [invalid_value(f"{path}.{field}", mode, _MODE_TEXT)]


def _host_path_errors(source: JsonObject, path: str) -> list[FieldError]:
    if not source.get("path"):
        return [required(f"{path}.path")]
    if ".." in source["path"].split("/"):
        return [invalid_value(f"{path}.path", source["path"], "must not contain '..'")]
    return []


_VOLUME_RULES: dict[str, Callable[[JsonObject, str], list[FieldError]]] = {
    "hostPath": _host_path_errors,
    "secret": _secret_volume_errors,
    "configMap": _configmap_volume_errors,
    "downwardAPI": _downward_volume_errors,
    "projected": _projected_volume_errors,
}
_VOLUME_ORDER = {name: index for index, name in enumerate(("emptyDir", *_VOLUME_RULES))}
_PROJECTION_RULES: dict[str, Callable[[JsonObject, str], list[FieldError]]] = {
    "secret": _source_projection_errors,
    "configMap": _source_projection_errors,
    "downwardAPI": _downward_errors,
    "serviceAccountToken": _token_errors,
}


def pod_update_errors(old: JsonObject, new: JsonObject) -> list[FieldError]:
    """Find what an update of a pod may not change (ValidatePodUpdate)."""
    if _frozen_part(old["spec"]) == _frozen_part(new["spec"]):
        return []
    return [forbidden_field("spec", _UPDATE_TEXT)]


def _frozen_part(spec: JsonObject) -> JsonObject:
    changeable = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds")
    frozen = {field: value for field, value in spec.items() if field not in changeable}
    for field in ("containers", "initContainers"):
        frozen[field] = [
            {name: value for name, value in container.items() if name != "image"}
            for container in spec.get(field, ())
        ]
    return frozen
