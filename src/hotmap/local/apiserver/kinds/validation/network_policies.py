"""NetworkPolicies (pkg/apis/networking/validation)."""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING

from hotmap.local.apiserver.selector_validation import selector_errors
from hotmap.local.field_errors import (
    PORT_RANGE,
    FieldError,
    forbidden_field,
    invalid_value,
    name_errors,
    required,
    rule_errors,
    unsupported,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import cidr_errors, port_name_errors

if TYPE_CHECKING:
    from collections.abc import Iterator


def network_policy_errors(policy: JsonObject) -> Iterator[FieldError]:
    """Check a NetworkPolicy."""
    spec = policy["spec"]
    yield from selector_errors(spec["podSelector"], "spec.podSelector")
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
    protocol, number, end = port["protocol"], port.get("port"), port.get("endPort")
    if protocol not in ("TCP", "UDP", "SCTP"):
        yield unsupported(f"{path}.protocol", protocol, ("TCP", "UDP", "SCTP"))
    if isinstance(number, int):
        if not 0 < number < 1 << 16:
            yield invalid_value(f"{path}.port", number, PORT_RANGE)
        if end is not None and end < number:
            why = "must be greater than or equal to `port`"
            yield invalid_value(f"{path}.endPort", number, why)
        if end is not None and not 0 < end < 1 << 16:
            yield invalid_value(f"{path}.endPort", end, PORT_RANGE)
        return
    if end is not None:
        why = "may not be specified when `port` is " + (
            "not specified" if number is None else "non-numeric"
        )
        yield invalid_value(f"{path}.endPort", end, why)
    if number is not None:
        yield from rule_errors(f"{path}.port", number, port_name_errors)


def _peer_errors(peer: JsonObject, path: str) -> Iterator[FieldError]:
    count = 0
    for field in ("podSelector", "namespaceSelector"):
        if field in peer:
            count += 1
            yield from selector_errors(peer[field], f"{path}.{field}")
    block = peer.get("ipBlock")
    if block is not None:
        yield from _block_errors(block, f"{path}.ipBlock")
        if count:
            yield forbidden_field(path, "may not specify both ipBlock and another peer")
    elif not count:
        yield required(path, "must specify a peer")


def _block_errors(block: JsonObject, path: str) -> Iterator[FieldError]:
    errors = name_errors(block["cidr"], f"{path}.cidr", cidr_errors)
    yield from errors
    for index, text in enumerate(block.get("except") or ()):
        at = f"{path}.except[{index}]"
        wrong = rule_errors(at, text, cidr_errors)
        yield from wrong
        if not errors and not wrong and not _is_within(text, block["cidr"]):
            yield invalid_value(at, text, "must be a strict subset of `cidr`")


def _is_within(text: str, whole: str) -> bool:
    part, of = ip_network(text), ip_network(whole)
    return part.version == of.version and part != of and part.subnet_of(of)  # type: ignore[arg-type]
