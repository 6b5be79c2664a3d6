"""Ingresses (pkg/apis/networking/validation)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hotmap.local.field_errors import PORT_RANGE, FieldError, invalid_value, required, unsupported
from hotmap.local.names import is_ip_address, label_name_errors, subdomain_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

JsonObject = dict[str, Any]


_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")


_WILDCARD = re.compile(r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


_WILDCARD_TEXT = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which "
    "must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric "
    "character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]"
    "([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


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
            yield invalid_value(f"{path}.service.port.number", number, PORT_RANGE)
        elif not number and not port.get("name"):
            yield required(path, "port name or number is required")
