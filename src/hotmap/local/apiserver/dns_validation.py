"""The DNS settings and readiness gates of pods.

kubernetes: pkg/apis/core/validation/validation.go, validatePodDNSConfig and validateReadinessGates.
Paths and texts are upstream's.
"""

from __future__ import annotations

import re
from typing import Any

from hotmap.local.field_errors import FieldError, invalid_value, required, rule_errors
from hotmap.local.names import is_ip_address, qualified_name_errors

__all__ = ["dns_errors", "readiness_gate_errors"]

_IP_TEXT = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_SEARCH = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*"
_SEARCH_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' "
    "or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    f"for validation is '{_SEARCH}')"
)
_MOST_SEARCHES = 32
_LONGEST_SEARCH = 253


def dns_errors(spec: dict[str, Any], path: str) -> list[FieldError]:
    """Check the DNS settings of a pod; `path` is that of its spec."""
    at = f"{path}.dnsConfig"
    config = spec.get("dnsConfig")
    if config is None:
        if spec["dnsPolicy"] != "None":
            return []
        return [required(at, "must provide `dnsConfig` when `dnsPolicy` is None")]
    errors: list[FieldError] = []
    servers, searches = config.get("nameservers") or (), config.get("searches") or ()
    if spec["dnsPolicy"] == "None" and not servers:
        text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        errors.append(required(f"{at}.nameservers", text))
    if len(servers) > 3:
        text = "must not have more than 3 nameservers"
        errors.append(invalid_value(f"{at}.nameservers", list(servers), text))
    for index, server in enumerate(servers):
        if not is_ip_address(server):
            errors.append(invalid_value(f"{at}.nameservers[{index}]", server, _IP_TEXT))
    if len(searches) > _MOST_SEARCHES:
        text = f"must not have more than {_MOST_SEARCHES} search paths"
        errors.append(invalid_value(f"{at}.searches", list(searches), text))
    for index, search in enumerate(searches):
        errors += rule_errors(f"{at}.searches[{index}]", search, _search_errors)
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            errors.append(required(f"{at}.options[{index}]", "must not be empty"))
    return errors


def readiness_gate_errors(spec: dict[str, Any], path: str) -> list[FieldError]:
    """Check the conditions that a pod waits for; `path` is that of its spec."""
    return [
        error
        for index, gate in enumerate(spec.get("readinessGates") or ())
        for error in rule_errors(
            f"{path}.readinessGates[{index}].conditionType",
            gate.get("conditionType", ""),
            qualified_name_errors,
        )
    ]


def _search_errors(search: str) -> list[str]:
    if search == ".":
        return []
    name = search.removesuffix(".")
    errors = []
    if len(name) > _LONGEST_SEARCH:
        errors.append(f"must be no more than {_LONGEST_SEARCH} characters")
    if not re.fullmatch(_SEARCH, name):
        errors.append(_SEARCH_TEXT)
    return errors
