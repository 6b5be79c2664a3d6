"""NetworkPolicies (pkg/apis/networking/validation)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.selector_validation import selector_errors
from hotmap.local.field_errors import (
    PORT_RANGE,
    FieldError,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

JsonObject = dict[str, Any]


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
            yield invalid_value(f"{path}.port", number, PORT_RANGE)
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
