"""Ingresses (pkg/apis/networking/validation)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.field_errors import (
    IMMUTABLE,
    PORT_RANGE,
    FieldError,
    choice_errors,
    forbidden_field,
    invalid_value,
    name_errors,
    required,
    rule_errors,
    too_long,
    unsupported,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.meta import annotations_of
from hotmap.local.names import (
    host_errors,
    is_ip_address,
    label_name_errors,
    path_segment_errors,
    port_name_errors,
    subdomain_errors,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLASS = "kubernetes.io/ingress.class"
_LONGEST_CONTROLLER = 250
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")


def ingress_errors(ingress: JsonObject) -> Iterator[FieldError]:
    """Check an Ingress."""
    spec = ingress["spec"]
    rules, backend = spec.get("rules") or (), spec.get("defaultBackend")
    if not rules and backend is None:
        why = "either `defaultBackend` or `rules` must be specified"
        yield invalid_value("spec", None, why)
    if backend is not None:
        yield from _backend_errors(backend, "spec.defaultBackend")
    for index, rule in enumerate(rules):
        yield from _ingress_rule_errors(rule, f"spec.rules[{index}]")
    for index, certificate in enumerate(spec.get("tls") or ()):
        at = f"spec.tls[{index}]"
        for number, host in enumerate(certificate.get("hosts") or ()):
            yield from rule_errors(f"{at}.hosts[{number}]", host, host_errors)
        secret = certificate.get("secretName")
        if secret:
            yield from rule_errors(f"{at}.secretName", secret, subdomain_errors)
    name = spec.get("ingressClassName")
    if name is not None:
        yield from rule_errors("spec.ingressClassName", name, subdomain_errors)


def ingress_annotation_errors(ingress: JsonObject) -> Iterator[FieldError]:
    """Check that the old annotation of a new Ingress names the same class."""
    name = ingress["spec"].get("ingressClassName")
    noted = annotations_of(ingress).get(_CLASS)
    if None not in (name, noted) and name != noted:
        why = "must match `ingressClassName` when both are specified"
        yield invalid_value(f"annotations.{_CLASS}", noted, why)


def _ingress_rule_errors(rule: JsonObject, path: str) -> Iterator[FieldError]:
    host = rule.get("host", "")
    if host:
        if is_ip_address(host):
            yield invalid_value(f"{path}.host", host, "must be a DNS name, not an IP address")
        yield from rule_errors(f"{path}.host", host, host_errors)
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
        yield from _local_reference_errors(resource, f"{path}.resource")
    elif service is None:
        yield invalid_value(path, "", "resource or service backend is required")
    else:
        yield from name_errors(service["name"], f"{path}.service.name", label_name_errors)
        at, name, number = f"{path}.service.port", *_port(service["port"])
        if name and number:
            yield invalid_value(path, "", "cannot set both port name & port number")
        elif name:
            yield from rule_errors(f"{at}.name", name, port_name_errors)
        elif number and not 0 < number < 1 << 16:
            yield invalid_value(f"{at}.number", number, PORT_RANGE)
        elif not number:
            yield required(path, "port name or number is required")


def _port(port: JsonObject) -> tuple[str, int]:
    return port.get("name", ""), port.get("number", 0)


def _local_reference_errors(reference: JsonObject, path: str) -> Iterator[FieldError]:
    """Check a reference to an object (validateIngressTypedLocalObjectReference)."""
    group = reference.get("apiGroup")
    if group is not None:
        yield from rule_errors(f"{path}.apiGroup", group, subdomain_errors)
    for field in ("kind", "name"):
        yield from name_errors(reference[field], f"{path}.{field}", path_segment_errors)


def ingress_class_errors(ingress_class: JsonObject) -> Iterator[FieldError]:
    """Check an IngressClass."""
    controller, path = ingress_class["spec"].get("controller", ""), "spec.controller"
    if len(controller) > _LONGEST_CONTROLLER:
        yield too_long(path, _LONGEST_CONTROLLER)
    domain, _, rest = controller.partition("/")
    if not controller:
        yield required(path)
    elif not domain or not rest:
        why = 'must be a domain-prefixed path (such as "acme.io/foo")'
        yield invalid_value(path, controller, why)
    else:
        yield from rule_errors(path, domain, subdomain_errors)
    parameters, at = ingress_class["spec"].get("parameters"), "spec.parameters"
    if parameters is None:
        return
    yield from _local_reference_errors(parameters, at)
    scope, namespace = parameters["scope"], parameters.get("namespace", "")
    yield from choice_errors(parameters, at, "scope", ("Cluster", "Namespace"))
    if scope == "Namespace":
        why = "`parameters.scope` is set to 'Namespace'"
        yield from name_errors(namespace, f"{at}.namespace", label_name_errors, why)
    elif scope == "Cluster" and "namespace" in parameters:
        yield forbidden_field(f"{at}.namespace", "`parameters.scope` is set to 'Cluster'")


def ingress_class_update_errors(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """The controller of a class never changes."""
    before, after = (obj["spec"].get("controller", "") for obj in (old, new))
    if before != after:
        yield invalid_value("spec.controller", after, IMMUTABLE)
