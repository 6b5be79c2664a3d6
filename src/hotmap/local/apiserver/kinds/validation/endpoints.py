"""Endpoints and EndpointSlices (pkg/apis/core and pkg/apis/discovery, validation.go).

Addresses of loopback are allowed: those of this node's pods and Services are.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from hotmap.local.field_errors import (
    IMMUTABLE,
    PORT_RANGE,
    FieldError,
    choice_errors,
    duplicate,
    invalid_value,
    required,
    rule_errors,
    too_many,
    unsupported,
)
from hotmap.local.json_object import JsonObject
from hotmap.local.names import label_name_errors, qualified_name_errors, subdomain_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_ADDRESSES = 100
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
NOT_AN_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def endpoints_errors(endpoints: JsonObject) -> Iterator[FieldError]:
    """Check the subsets of Endpoints (validateEndpointSubsets)."""
    for index, subset in enumerate(endpoints.get("subsets") or ()):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield required(path, "must specify `addresses` or `notReadyAddresses`")
        for field in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(field) or ()):
                yield from _address_errors(address, f"{path}.{field}[{number}]")
        ports = subset.get("ports") or ()
        for number, port in enumerate(ports):
            yield from _port_errors(port, f"{path}.ports[{number}]", with_name=len(ports) > 1)


def _address_errors(address: JsonObject, path: str) -> Iterator[FieldError]:
    text = address.get("ip", "")
    if _parse_address(text) is None:
        yield invalid_value(f"{path}.ip", text, NOT_AN_ADDRESS)
    yield from _usable_errors(text, f"{path}.ip")
    name = address.get("hostname", "")
    for why in label_name_errors(name) if name else ():
        yield invalid_value(f"{path}.hostname", name, why)
    yield from _node_errors(address, path)


def _parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _usable_errors(text: str, path: str) -> Iterator[FieldError]:
    """Check that an address may be that of an endpoint (ValidateEndpointIP)."""
    address = _parse_address(text)
    if address is None:
        yield invalid_value(path, text, "must be a valid IP address")
    elif address.is_unspecified:
        yield invalid_value(path, text, f"may not be unspecified ({text})")
    elif address.is_link_local:
        why = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        yield invalid_value(path, text, why)


def external_address_errors(addresses: Any, path: str) -> Iterator[FieldError]:
    """Check the external addresses of a Service."""
    for index, text in enumerate(addresses or ()):
        at = f"{path}[{index}]"
        if _parse_address(text) is None:
            yield invalid_value(at, text, NOT_AN_ADDRESS)
        else:
            yield from _usable_errors(text, at)


def _port_errors(port: JsonObject, path: str, *, with_name: bool) -> Iterator[FieldError]:
    name, number = port.get("name", ""), port.get("port", 0)
    if with_name and not name:
        yield required(f"{path}.name")
    for why in label_name_errors(name) if name else ():
        yield invalid_value(f"{path}.name", name, why)
    if not 1 <= number <= 65535:
        yield invalid_value(f"{path}.port", number, PORT_RANGE)
    if port.get("protocol") not in _PROTOCOLS:
        yield unsupported(f"{path}.protocol", port.get("protocol"), _PROTOCOLS)


def endpoint_slice_errors(endpoint_slice: JsonObject) -> Iterator[FieldError]:
    """Check an EndpointSlice (ValidateEndpointSlice)."""
    kind = endpoint_slice.get("addressType", "")
    if not kind:
        yield required("addressType")
    elif kind not in _ADDRESS_TYPES:
        yield unsupported("addressType", kind, _ADDRESS_TYPES)
    names: set[str] = set()
    for index, port in enumerate(endpoint_slice.get("ports") or ()):
        name, path = port.get("name") or "", f"ports[{index}]"
        for why in label_name_errors(name) if name else ():
            yield invalid_value(f"{path}.name", name, why)
        if name in names:
            yield duplicate(f"{path}.name", name)
        names.add(name)
        yield from choice_errors(port, path, "protocol", _PROTOCOLS)
        if port.get("appProtocol") is not None:
            at = f"{path}.appProtocol"
            yield from rule_errors(at, port["appProtocol"], qualified_name_errors)
    for index, endpoint in enumerate(endpoint_slice.get("endpoints") or ()):
        yield from _endpoint_errors(endpoint, f"endpoints[{index}]", kind)


def _endpoint_errors(endpoint: JsonObject, path: str, kind: str) -> Iterator[FieldError]:
    addresses = endpoint.get("addresses") or ()
    if not addresses:
        yield required(f"{path}.addresses", "must contain at least 1 address")
    if len(addresses) > _MOST_ADDRESSES:
        yield too_many(f"{path}.addresses", len(addresses), _MOST_ADDRESSES)
    for index, text in enumerate(addresses if kind in _ADDRESS_TYPES else ()):
        at, address = f"{path}.addresses[{index}]", _parse_address(text)
        if kind == "FQDN":
            yield from rule_errors(at, text, subdomain_errors)
            continue
        if address is None:
            yield invalid_value(at, text, NOT_AN_ADDRESS)
            continue
        if address.version != int(kind[-1]):
            yield invalid_value(f"{path}.addresses", text, f"must be an {kind} address")
        yield from _usable_errors(text, at)
    name = endpoint.get("hostname")
    for why in label_name_errors(name) if name is not None else ():
        yield invalid_value(f"{path}.hostname", name, why)
    yield from _node_errors(endpoint, path)


def _node_errors(endpoint: JsonObject, path: str) -> list[FieldError]:
    name = endpoint.get("nodeName")
    return [] if name is None else rule_errors(f"{path}.nodeName", name, subdomain_errors)


def endpoint_slice_update_errors(old: JsonObject, new: JsonObject) -> Iterator[FieldError]:
    """What kind of addresses a slice has never changes."""
    if old["addressType"] != new["addressType"]:
        yield invalid_value("addressType", new["addressType"], IMMUTABLE)
