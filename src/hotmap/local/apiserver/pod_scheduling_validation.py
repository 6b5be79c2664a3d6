"""Validates tolerations, host aliases and sysctls of pods; warns of unusual fields.

pkg/apis/core/validation/validation.go, pkg/api/pod/warnings.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hotmap.local.field_errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import (
    is_ip_address,
    label_value_errors,
    qualified_name_errors,
    subdomain_errors,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_SYSCTL = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_MAX_SYSCTL = 253
_NO_KEY = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def scheduling_errors(spec: JsonObject, path: str) -> list[FieldError]:
    """Find everything wrong with these fields of the spec of a pod or a template."""
    context = spec.get("securityContext") or {}
    return [
        *_sysctl_errors(context.get("sysctls") or (), f"{path}.securityContext.sysctls"),
        *toleration_errors(spec.get("tolerations") or (), f"{path}.tolerations"),
        *_alias_errors(spec.get("hostAliases") or (), f"{path}.hostAliases"),
    ]


def _sysctl_errors(settings: Any, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, setting in enumerate(settings):
        name, at = setting.get("name", ""), f"{path}[{index}].name"
        if not name:
            yield required(at)
        elif len(name) > _MAX_SYSCTL or not re.fullmatch(_SYSCTL, name):
            why = f"must have at most {_MAX_SYSCTL} characters and match regex ^{_SYSCTL}$"
            yield invalid_value(at, name, why)
        elif name in seen:
            yield duplicate(at, name)
        seen.add(name)


def toleration_errors(tolerations: Any, path: str) -> Iterator[FieldError]:
    """Check tolerations (ValidateTolerations)."""
    for index, toleration in enumerate(tolerations):
        at, key = f"{path}[{index}]", toleration.get("key", "")
        operator, effect = toleration.get("operator", ""), toleration.get("effect", "")
        value = toleration.get("value", "")
        for why in qualified_name_errors(key) if key else ():
            yield invalid_value(f"{at}.key", key, why)
        if not key and operator != "Exists":
            yield invalid_value(f"{at}.operator", operator, _NO_KEY)
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid_value(f"{at}.effect", effect, why)
        if operator in ("Equal", ""):
            whys = label_value_errors(value)
            if whys:
                yield invalid_value(f"{at}.operator", value, ";".join(whys))
        elif operator == "Exists":
            if value:
                why = "value must be empty when `operator` is 'Exists'"
                yield invalid_value(f"{at}.operator", value, why)
        else:
            yield unsupported(f"{at}.operator", operator, ("Equal", "Exists"))
        if effect and effect not in TAINT_EFFECTS:
            yield unsupported(f"{at}.effect", effect, TAINT_EFFECTS)


def toleration_update_errors(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """Tolerations are only ever added (validateOnlyAddedTolerations)."""
    after = {_without_seconds(toleration) for toleration in new.get("tolerations") or ()}
    for toleration in old.get("tolerations") or ():
        if _without_seconds(toleration) not in after:
            why = "existing toleration can not be modified except its tolerationSeconds"
            yield forbidden_field("spec.tolerations", why)
            return


def _without_seconds(toleration: JsonObject) -> frozenset[tuple[str, str]]:
    return frozenset((field, v) for field, v in toleration.items() if field != "tolerationSeconds")


def _alias_errors(aliases: Any, path: str) -> Iterator[FieldError]:
    for index, alias in enumerate(aliases):
        at, address = f"{path}[{index}]", alias.get("ip", "")
        if not is_ip_address(address):
            yield invalid_value(f"{at}.ip", address, _ADDRESS)
        for number, name in enumerate(alias.get("hostnames") or ()):
            for why in subdomain_errors(name):
                yield invalid_value(f"{at}.hostnames[{number}]", name, why)


def pod_warnings(spec: JsonObject, path: str) -> list[str]:
    """Return warnings of a pod's spec (warningsForPodSpecAndMeta)."""
    found = [
        f'volume "{volume.get("name", "")}" (Projected) has no sources provided'
        for volume in spec.get("volumes") or ()
        if "projected" in volume and not any(volume["projected"].get("sources") or ())
    ]
    found += _repetitions(spec, path, "hostAliases", "ip")
    found += _repetitions(spec, path, "imagePullSecrets", "name")
    containers = [
        (f"{path}.{field}[{index}]", container)
        for field in ("initContainers", "containers", "ephemeralContainers")
        for index, container in enumerate(spec.get(field) or ())
    ]
    for at, container in containers:
        found += _environment_warnings(container, at)
    ports = [
        (f"{at}.ports[{index}]", port)
        for at, container in containers
        for index, port in enumerate(container.get("ports") or ())
    ]
    return [*found, *_port_warnings(ports), *_port_name_warnings(ports)]


def _repetitions(spec: JsonObject, path: str, field: str, key: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(spec.get(field) or ()):
        if item.get(key, "") in seen:
            yield f'{path}.{field}[{index}].{key}: duplicate {key} "{item.get(key, "")}"'
        seen.add(item.get(key, ""))


def _environment_warnings(container: JsonObject, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"
        replaces = "valueFrom" in variable or value == reference or reference not in value
        if name in seen and replaces:
            yield (
                f'{path}.env[{index}]: hides previous definition of "{name}", which may be '
                "dropped when using apply"
            )
        seen.add(name)


def _port_warnings(ports: list[tuple[str, JsonObject]]) -> Iterator[str]:
    known: dict[tuple[Any, Any], list[tuple[str, JsonObject]]] = {}
    for at, port in ports:
        others = known.setdefault((port.get("containerPort"), port.get("protocol", "TCP")), [])
        for other_at, other in others:
            kind = _port_conflict(port, other)
            if kind:
                yield f"{at}: {kind} port definition with {other_at}"
        others.append((at, port))


def _port_conflict(port: JsonObject, other: JsonObject) -> str:
    """Say how two definitions of one container port relate, "" if they may be meant."""
    (address, number), (other_address, other_number) = (
        (known.get("hostIP", ""), known.get("hostPort", 0)) for known in (port, other)
    )
    if (address, number) == (other_address, other_number):
        return "duplicate"
    if not number or not other_number:
        return "overlapping"
    is_ambiguous = number == other_number and bool(address) != bool(other_address)
    return "dangerously ambiguous" if is_ambiguous else ""


def _port_name_warnings(ports: list[tuple[str, JsonObject]]) -> Iterator[str]:
    known: dict[str, str] = {}
    for at, port in ports:
        name = port.get("name", "")
        if name and (other := known.setdefault(name, at)) != at:
            yield (
                f'{at}: duplicate port name "{name}" with {other}, services and probes that '
                f"select ports by name will use {other}"
            )
