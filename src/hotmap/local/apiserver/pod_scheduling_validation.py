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
