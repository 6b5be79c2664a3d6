"""Gives Services their addresses and ports of the node.

pkg/registry/core/service/storage/alloc.go and pkg/registry/core/service/ipallocator. What is in use
is read from the Services themselves, so nothing has to be repaired after a crash.
"""

from __future__ import annotations

import random
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from typing import TYPE_CHECKING, Any

import msgspec

from hotmap.local.apiserver.status import internal, invalid
from hotmap.local.field_errors import FieldError, invalid_value
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hotmap.local.apiserver.plugins import AdmissionRequest
    from hotmap.local.apiserver.reader import ObjectReader
    from hotmap.local.store import Store

#: --service-node-port-range
NODE_PORTS = range(30_000, 32_768)
_OUTSIDE = ("NodePort", "LoadBalancer")


class ServiceAddressPlugin:
    """Chooses what a Service does not say itself, and refuses what another one has."""

    def __init__(self, store: Store, reader: ObjectReader, addresses: IPv4Network) -> None:
        self._store = store
        self._kind = reader.scheme.resource("services")
        self._addresses = addresses

    def admit(self, request: AdmissionRequest) -> None:
        if request.kind.plural != "services" or request.kind.group or request.subresource:
            return
        spec = request.obj["spec"]
        if spec.get("type") == "ExternalName":
            return
        others = list(self._others(request))
        errors = _choose_families(request.old, spec)
        if errors:
            raise invalid(request.kind, request.obj["metadata"].get("name", ""), errors)
        self._give_address(request, spec, others)
        if spec.get("type") in _OUTSIDE:
            _give_node_ports(request, spec, others)

    def validate(self, request: AdmissionRequest) -> None:
        pass

    def _others(self, request: AdmissionRequest) -> Iterator[JsonObject]:
        own = self._kind.key(request.namespace, request.obj["metadata"].get("name", ""))
        for entry in self._store.range(self._kind.prefix(None)).entries:
            if entry.key != own:
                found: JsonObject = msgspec.json.decode(entry.value or b"")["spec"]
                yield found

    def _give_address(
        self, request: AdmissionRequest, spec: JsonObject, others: list[JsonObject]
    ) -> None:
        given = spec.get("clusterIPs") or []
        wanted = spec.get("clusterIP") or (given[0] if given else "")
        used = {other.get("clusterIP") for other in others}
        if not wanted:
            wanted = self._free_address(used)
        elif wanted != "None" and not _has_address(request.old):
            error = self._refusal(wanted, used)
            if error is not None:
                name = request.obj["metadata"].get("name", "")
                raise invalid(request.kind, name, [error])
        spec["clusterIP"] = wanted
        if not given:
            spec["clusterIPs"] = [wanted]

    def _free_address(self, used: set[Any]) -> str:
        size = self._addresses.num_addresses
        # The first address is that of the Service `kubernetes`, the last one is a broadcast's.
        for _ in range(size):
            address = str(self._addresses[random.randrange(2, size - 1)])
            if address not in used:
                return address
        raise internal("failed to allocate a serviceIP: range is full")

    def _refusal(self, address: str, used: set[Any]) -> FieldError | None:
        try:
            is_within = IPv4Address(address) in self._addresses
        except AddressValueError:
            # The validation refuses it, with what else is wrong.
            return None
        why = "provided IP is already allocated" if address in used else ""
        if not is_within:
            why = "the provided network does not match the current range"
        if not why:
            return None
        text = f"failed to allocate IP {address}: {why}"
        return invalid_value("spec.clusterIPs", [address], text)


def _choose_families(old: JsonObject | None, spec: JsonObject) -> list[FieldError]:
    """Set the families of a Service and their policy; return what only two families would allow.

    Addresses here are of IPv4, as in a cluster with a single stack (alloc.go: initIPFamilyFields).
    """
    families, address = spec.get("ipFamilies") or [], spec.get("clusterIP") or ""
    addresses = spec.get("clusterIPs") or ([address] if address else [])
    if not _agree(addresses, families):
        # The validation says what is wrong.
        return []
    # The endpoints are written by whoever made the Service, with addresses of either family.
    is_free = addresses[:1] == ["None"] and not spec.get("selector")
    policy = spec.setdefault("ipFamilyPolicy", "RequireDualStack" if is_free else "SingleStack")
    if policy == "PreferDualStack" and old is not None and _same_addresses(old["spec"], spec):
        return []
    if policy == "SingleStack" and old is not None and families == old["spec"].get("ipFamilies"):
        # That policy alone says that the second family goes.
        families = families[:1]
    errors = []
    for name, values in (("cluster IPs", addresses), ("IP families", families)):
        if policy == "SingleStack" and len(values) == 2:
            why = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {name} are "
            errors.append(invalid_value("spec.ipFamilyPolicy", policy, f"{why}specified"))
    if not families and any(":" in address for address in addresses[:1]):
        why = "IPv6 is not configured on this cluster"
        errors.append(invalid_value("spec.clusterIPs[0]", addresses, why))
    if errors:
        return errors
    spec["ipFamilies"] = families = families or ["IPv4"]
    if is_free:
        if policy != "SingleStack" and len(families) == 1:
            spec["ipFamilies"] = [*families, "IPv6" if families == ["IPv4"] else "IPv4"]
        return []
    if policy == "RequireDualStack":
        why = "this cluster is not configured for dual-stack services"
        errors.append(invalid_value("spec.ipFamilyPolicy", policy, why))
    errors += [
        invalid_value(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
        for index, family in enumerate(families)
        if family == "IPv6"
    ]
    return errors


def _agree(addresses: Sequence[str], families: Sequence[str]) -> bool:
    """Return whether families are such, and those of the addresses that are given."""
    return all(family in ("IPv4", "IPv6") for family in families) and all(
        (":" in address) is (family == "IPv6")
        for address, family in zip(addresses, families, strict=False)
        if address != "None"
    )


def _same_addresses(before: JsonObject, after: JsonObject) -> bool:
    """Return whether an update leaves type, policy, addresses and families as they were."""
    fields = ("type", "ipFamilyPolicy", "clusterIPs", "ipFamilies")
    return all(before.get(field) == after.get(field) for field in fields)


def _has_address(service: JsonObject | None) -> bool:
    """Return whether a Service has an address already, which it keeps."""
    return service is not None and bool(service["spec"].get("clusterIP"))


def _give_node_ports(request: AdmissionRequest, spec: JsonObject, others: list[JsonObject]) -> None:
    used = {
        port.get("nodePort")
        for other in others
        for port in other.get("ports") or ()
        if port.get("nodePort")
    }
    for index, port in enumerate(spec.get("ports") or ()):
        wanted = port.get("nodePort")
        if not wanted:
            free = [number for number in NODE_PORTS if number not in used]
            if not free:
                raise internal("failed to allocate a nodePort: range is full")
            port["nodePort"] = wanted = random.choice(free)
        elif wanted not in NODE_PORTS or wanted in used:
            text = "provided port is already allocated"
            if wanted not in NODE_PORTS:
                text = (
                    "provided port is not in the valid range. The range of valid ports is "
                    f"{NODE_PORTS[0]}-{NODE_PORTS[-1]}"
                )
            error = invalid_value(f"spec.ports[{index}].nodePort", wanted, text)
            raise invalid(request.kind, request.obj["metadata"].get("name", ""), [error])
        used.add(wanted)
