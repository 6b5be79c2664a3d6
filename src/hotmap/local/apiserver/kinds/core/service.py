"""Services (pkg/registry/core/service/strategy.go, ValidateService).

Addresses are given out by the plugin `service_addresses`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotmap.local.apiserver.columns import AGE, NAME, field_cell, labels_text
from hotmap.local.apiserver.kinds.validation.endpoints import (
    NOT_AN_ADDRESS,
    external_address_errors,
)
from hotmap.local.apiserver.metadata import label_errors
from hotmap.local.field_errors import (
    PORT_RANGE,
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    name_errors,
    required,
    rule_errors,
    unsupported,
)
from hotmap.local.group_version_kind import GroupVersionKind
from hotmap.local.json_object import JsonObject
from hotmap.local.names import (
    cidr_errors,
    is_ip_address,
    label_name_errors,
    port_name_errors,
    qualified_name_errors,
    subdomain_errors,
)
from hotmap.local.scheme import PROXY_VERBS, STATUS, Kind, Names, Subresource
from hotmap.local.strategy import Column, Strategy, field_labels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotmap.local.strategy import Cell

_ALLOCATED = ("spec.clusterIP", "spec.ipFamil")

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_OUTSIDE = ("NodePort", "LoadBalancer")
_TRAFFIC_POLICIES = ("Cluster", "Local")
_ADDRESS_FIELDS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_FAMILIES = ("IPv4", "IPv6")
_LONGEST_AFFINITY = 86400
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")


def _ports(service: JsonObject, _: float) -> Cell:
    shown = []
    for port in service["spec"].get("ports") or ():
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or "<none>"


def _external_address(service: JsonObject, _: float) -> Cell:
    spec = service["spec"]
    match spec.get("type"):
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case "LoadBalancer":
            ingress = (service.get("status", {}).get("loadBalancer") or {}).get("ingress") or ()
            found = [point.get("ip") or point.get("hostname", "") for point in ingress]
            return ",".join([*found, *(spec.get("externalIPs") or ())]) or "<pending>"
    return ",".join(spec.get("externalIPs") or ()) or "<none>"


def _selector(service: JsonObject, _: float) -> Cell:
    return labels_text(service["spec"].get("selector"))


class ServiceStrategy(Strategy):
    create_on_update = True
    returns_deleted = True
    selectable_fields = field_labels("spec.clusterIP", "spec.type")
    columns = (
        NAME,
        Column("Type", field_cell("spec.type", "ClusterIP")),
        Column("Cluster-IP", field_cell("spec.clusterIP", "<none>")),
        Column("External-IP", _external_address),
        Column("Port(s)", _ports),
        AGE,
        Column("Selector", _selector, 1),
    )

    def name_errors(self, name: str) -> list[str]:
        # Upstream relaxed this in 1.36 (RelaxedServiceNameValidation).
        return label_name_errors(name)

    def initial_status(self, obj: JsonObject) -> JsonObject | None:
        return {"loadBalancer": {}}

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        if spec["sessionAffinity"] == "ClientIP":
            config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            config.setdefault("timeoutSeconds", 10800)
        for port in spec.get("ports", ()):
            port.setdefault("protocol", "TCP")
            if port.get("nodePort") == 0:
                del port["nodePort"]
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        if spec["type"] == "ExternalName":
            return
        spec.setdefault("internalTrafficPolicy", "Cluster")
        if _is_reachable(spec):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)

    def prepare_create(self, obj: JsonObject) -> None:
        _drop_internal_policy(obj["spec"])
        _fill_addresses(obj["spec"])

    def prepare_update(self, old: JsonObject, new: JsonObject) -> None:
        """Keep what the update leaves out: addresses, families and ports of the node."""
        before, after = old["spec"], new["spec"]
        _drop_traffic_policy(before, after)
        _drop_internal_policy(after)
        _drop_balancer_fields(before, after)
        if after.get("type") not in _OUTSIDE:
            _drop_node_ports(before, after)
        if not before.get("clusterIPs"):
            _fill_addresses(after)
        if after.get("type", "ClusterIP") == "ExternalName":
            for field in _ADDRESS_FIELDS:
                if after.get(field) == before.get(field):
                    after.pop(field, None)
            return
        _keep_addresses(before, after)
        if after.get("type") in _OUTSIDE and before.get("type") in _OUTSIDE:
            known = {
                (port.get("protocol", "TCP"), port.get("port")): port.get("nodePort")
                for port in before.get("ports") or ()
            }
            for port in after.get("ports") or ():
                node_port = known.get((port.get("protocol", "TCP"), port.get("port")))
                if node_port and not port.get("nodePort"):
                    port["nodePort"] = node_port

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj["spec"]
        errors = [*_port_errors(spec), *_node_port_errors(spec), *_address_errors(spec)]
        if spec["type"] not in _TYPES:
            errors.append(unsupported("spec.type", spec["type"], _TYPES))
        if spec["sessionAffinity"] not in ("ClientIP", "None"):
            known = ("ClientIP", "None")
            errors.append(unsupported("spec.sessionAffinity", spec["sessionAffinity"], known))
        policy = spec.get("ipFamilyPolicy")
        if policy is not None and policy not in _FAMILY_POLICIES:
            errors.append(unsupported("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES))
        errors += _balancer_errors(spec)
        errors += _traffic_errors(spec)
        # Upstream checks what it allocates addresses by before anything else.
        if not any(error.path.startswith(_ALLOCATED) for error in errors):
            errors += external_address_errors(spec.get("externalIPs"), "spec.externalIPs")
        errors += label_errors("spec.selector", spec.get("selector") or {})
        if spec["type"] == "ExternalName":
            name = spec.get("externalName", "").removesuffix(".")
            errors += name_errors(name, "spec.externalName", subdomain_errors)
            errors += [
                forbidden_field(f"spec.{field}", "may not be set for ExternalName services")
                for field in _ADDRESS_FIELDS[1:]
                if spec.get(field)
            ]
        elif spec["type"] in _OUTSIDE and spec.get("clusterIP") == "None":
            text = f"may not be set to 'None' for {spec['type']} services"
            errors.append(invalid_value("spec.clusterIPs[0]", "None", text))
        return errors

    def warnings(self, obj: JsonObject) -> list[str]:
        return list(_ignored_fields(obj["spec"]))

    def validate_update(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        errors = self.validate(new)
        before, after = old["spec"], new["spec"]
        kinds, text = (before.get("type"), after.get("type")), "may not change once set"
        if (
            "ExternalName" not in kinds
            and before.get("clusterIP")
            and before["clusterIP"] != after.get("clusterIP")
        ):
            errors.insert(0, invalid_value("spec.clusterIPs[0]", after.get("clusterIPs"), text))
        name = after.get("loadBalancerClass")
        if kinds == ("LoadBalancer",) * 2 and before.get("loadBalancerClass") != name:
            errors.append(invalid_value("spec.loadBalancerClass", name, text))
        return errors


def _ignored_fields(spec: JsonObject) -> Iterator[str]:
    """Name fields without effect, and deprecated ones (api/service: GetWarningsForService)."""
    is_headless = spec.get("clusterIP") == "None" and spec["type"] != "ExternalName"
    if is_headless:
        for field, is_set in (
            ("loadBalancerIP", bool(spec.get("loadBalancerIP"))),
            ("externalIPs", bool(spec.get("externalIPs"))),
            ("SessionAffinity", spec["sessionAffinity"] != "None"),
        ):
            if is_set:
                yield f"spec.{field} is ignored for headless services"
    elif spec.get("externalIPs"):
        if spec["type"] == "ExternalName":
            yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
        else:
            yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if spec.get("externalName") and spec["type"] != "ExternalName":
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _fill_addresses(spec: JsonObject) -> None:
    """Fill in the list of addresses, which belongs to no field manager (normalizeClusterIPs)."""
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def _keep_addresses(before: JsonObject, after: JsonObject) -> None:
    """Keep the addresses that an update leaves out, in place; a new clusterIP is the only one."""
    for field in _ADDRESS_FIELDS:
        if not after.get(field) and before.get(field):
            after[field] = before[field]
    first, both = (after.get(field) == before.get(field) for field in _ADDRESS_FIELDS[:2])
    if both and not first:
        after["clusterIPs"] = [after["clusterIP"]]


def _drop_traffic_policy(before: JsonObject, after: JsonObject) -> None:
    """Drop the fields, in place, of a Service that is no longer accessible from outside."""
    policy = "externalTrafficPolicy"
    if not _is_reachable(after) and after.get(policy) == before.get(policy):
        after.pop(policy, None)


def _drop_balancer_fields(before: JsonObject, after: JsonObject) -> None:
    """Drop, in place, what a load balancer has, of a Service that no longer has one."""
    if after.get("type") == "LoadBalancer" or before.get("type") != "LoadBalancer":
        return
    for field in ("allocateLoadBalancerNodePorts", "healthCheckNodePort", "loadBalancerClass"):
        if after.get(field) == before.get(field):
            after.pop(field, None)


def _drop_node_ports(before: JsonObject, after: JsonObject) -> None:
    """Drop the ports of the node, in place, that an update has left as they were."""
    known = [port.get("nodePort") for port in before.get("ports") or ()]
    for port in after.get("ports") or ():
        if port.get("nodePort") in known:
            port.pop("nodePort", None)


def _drop_internal_policy(spec: JsonObject) -> None:
    """Drop the policy, in place, of a Service that is only another name."""
    if spec.get("type") == "ExternalName":
        spec.pop("internalTrafficPolicy", None)


def _traffic_errors(spec: JsonObject) -> Iterator[FieldError]:
    """Check which endpoints get the traffic, and for how long the same ones."""
    policy, field = spec.get("externalTrafficPolicy"), "spec.externalTrafficPolicy"
    if policy and not _is_reachable(spec):
        text = "may only be set for externally-accessible services"
        yield invalid_value(field, policy, text)
    elif policy and policy not in _TRAFFIC_POLICIES:
        yield unsupported(field, policy, _TRAFFIC_POLICIES)
    policy = spec.get("internalTrafficPolicy")
    if policy is not None and policy not in _TRAFFIC_POLICIES:
        yield unsupported("spec.internalTrafficPolicy", policy, _TRAFFIC_POLICIES)
    seconds = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get(
        "timeoutSeconds"
    )
    if seconds is not None and not 0 < seconds <= _LONGEST_AFFINITY:
        at = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
        text = f"must be greater than 0 and less than {_LONGEST_AFFINITY}"
        yield invalid_value(at, seconds, text)

    policy = spec.get("trafficDistribution")
    if policy is not None and policy not in _DISTRIBUTIONS:
        yield unsupported("spec.trafficDistribution", policy, _DISTRIBUTIONS)


def _address_errors(spec: JsonObject) -> Iterator[FieldError]:
    """Check addresses and their families (ValidateServiceClusterIPsRelatedFields)."""
    if spec["type"] == "ExternalName":
        return
    addresses, path = spec.get("clusterIPs") or [], "spec.clusterIPs"
    if addresses and not spec.get("clusterIP"):
        yield invalid_value(path, addresses, "must be empty when `clusterIP` is not specified")
    elif addresses and addresses[0] != spec["clusterIP"]:
        yield invalid_value(path, addresses, "first value must match `clusterIP`")
    families = spec.get("ipFamilies") or ()
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            yield unsupported(f"spec.ipFamilies[{index}]", family, _FAMILIES)
    if "None" in addresses[:1] and len(addresses) > 1:
        yield invalid_value(path, addresses, "'None' must be the first and only value")
    wrong = [
        invalid_value(f"{path}[{index}]", address, NOT_AN_ADDRESS)
        for index, address in enumerate(addresses)
        if not is_ip_address(address) and (index or address != "None")
    ]
    yield from wrong
    if len(addresses) > 2:
        yield invalid_value(path, addresses, "may only hold up to 2 values")
    if wrong or "None" in addresses:
        return
    for index, (address, family) in enumerate(zip(addresses, families, strict=False)):
        if family in _FAMILIES and (":" in address) is not (family == "IPv6"):
            text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            yield invalid_value(f"{path}[{index}]", address, text)


def _balancer_errors(spec: JsonObject) -> Iterator[FieldError]:
    """Check the fields that only Services with a load balancer have."""
    ranges, path = spec.get("loadBalancerSourceRanges") or (), "spec.LoadBalancerSourceRanges"
    only = "may only be used when `type` is 'LoadBalancer'"
    is_balanced, name = spec["type"] == "LoadBalancer", spec.get("loadBalancerClass")
    if ranges and not is_balanced:
        yield forbidden_field(path, only)
    for index, text in enumerate(ranges):
        yield from rule_errors(f"{path}[{index}]", text.strip(), cidr_errors)
    for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if not is_balanced and spec.get(field) is not None:
            yield forbidden_field(f"spec.{field}", only)
    if is_balanced and name is not None:
        yield from rule_errors("spec.loadBalancerClass", name, qualified_name_errors)
    port = spec.get("healthCheckNodePort")
    if port and not (is_balanced and spec.get("externalTrafficPolicy") == "Local"):
        text = (
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        )
        yield invalid_value("spec.healthCheckNodePort", port, text)


def _node_port_errors(spec: JsonObject) -> Iterator[FieldError]:
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(spec.get("ports") or ()):
        key = port["protocol"], port.get("nodePort") or 0
        if key[1] and key in seen:
            yield duplicate(f"spec.ports[{index}].nodePort", key[1])
        seen.add(key)


def _is_reachable(spec: JsonObject) -> bool:
    """Return whether a Service is accessible from outside (ExternallyAccessible)."""
    kind = spec.get("type", "ClusterIP")
    return kind in _OUTSIDE or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def _port_errors(spec: JsonObject) -> Iterator[FieldError]:
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
        yield required("spec.ports")
    names: set[str] = set()
    seen: set[tuple[Any, ...]] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name = port.get("name", "")
        if spec["type"] == "ClusterIP" and port.get("nodePort"):
            text = "may not be used when `type` is 'ClusterIP'"
            yield forbidden_field(f"{path}.nodePort", text)
        if not name and len(ports) > 1:
            yield required(f"{path}.name")
        elif name:
            for why in label_name_errors(name):
                yield invalid_value(f"{path}.name", name, why)
            if name in names:
                yield duplicate(f"{path}.name", name)
            names.add(name)
        yield from _target_errors(port, path)
        key = port.get("port"), port["protocol"]
        if key in seen:
            yield duplicate(path, _shown_port(*key))
        seen.add(key)


def _shown_port(number: int, protocol: str) -> JsonObject:
    """Show a port as Go's messages do."""
    fixed = {"Name": "", "Protocol": protocol, "AppProtocol": None}
    return {**fixed, "Port": number, "TargetPort": 0, "NodePort": 0}


def _target_errors(port: JsonObject, path: str) -> Iterator[FieldError]:
    yield from _number_errors(port.get("port", 0), f"{path}.port")
    if port["protocol"] not in _PROTOCOLS:
        yield unsupported(f"{path}.protocol", port["protocol"], _PROTOCOLS)
    if isinstance(port.get("targetPort"), int):
        yield from _number_errors(port["targetPort"], f"{path}.targetPort")
    else:
        for why in port_name_errors(port["targetPort"]):
            yield invalid_value(f"{path}.targetPort", port["targetPort"], why)
    if port.get("appProtocol") is not None:
        for why in qualified_name_errors(port["appProtocol"]):
            yield invalid_value(f"{path}.appProtocol", port["appProtocol"], why)


def _number_errors(number: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(number, int) or not 1 <= number <= 65535:
        yield invalid_value(path, number, PORT_RANGE)


SERVICES = Kind(
    "",
    ("v1",),
    Names("services", "Service", ("svc",), ("all",), storage="services/specs"),
    subresources=(
        Subresource("proxy", PROXY_VERBS, GroupVersionKind("", "v1", "ServiceProxyOptions")),
        STATUS,
    ),
    strategy=ServiceStrategy(),
)
