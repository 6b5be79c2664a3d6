"""Which EndpointSlices a Service should have: the pods by their ports, so many in each slice.

kubernetes: k8s.io/endpointslice, reconciler.go and utils.go. Pods of which a named port has
different numbers are in different slices. Pure: nothing is read or written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hotmap.local.controllers.pods import is_ready
from hotmap.local.meta import Object, is_deleted, labels_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["SlicePlan", "address_of", "plan_slices", "port_document", "reference_to", "target_port"]

#: Endpoints in one slice (--max-endpoints-per-slice).
MAX_ENDPOINTS = 100


class SlicePlan(NamedTuple):
    """What to do with the slices of a Service; contents are `endpoints`, `ports`, `addressType`."""

    creates: list[Object]
    #: Slices with their new content.
    updates: list[Object]
    deletes: list[Object]


def plan_slices(
    service: Object, pods: Sequence[Object], known: Sequence[Object], labels: Mapping[str, str]
) -> SlicePlan:
    """Compare the slices that there are with those that the pods of a Service need."""
    creates: list[Object] = []
    updates: list[Object] = []
    kept: list[Object] = []
    for ports, endpoints in _grouped(service, pods):
        same = [found for found in known if (found.get("ports") or []) == ports]
        kept += same
        parts = _distribute(endpoints, same)
        for found, part in zip(same, parts, strict=False):
            if not part:
                # One that is not needed any more.
                kept.remove(found)
                continue
            content = {**found, **_content(ports, part)}
            content["metadata"] = {**found["metadata"], "labels": dict(labels)}
            if content != found and _differs(content, found):
                updates.append(content)
        creates += [_content(ports, part) for part in parts[len(same) :]]
    deletes = [found for found in known if found not in kept]
    if not creates and not kept:
        # A Service without any endpoint has one empty slice.
        empty = _content([], [])
        if deletes:
            spare = deletes.pop(0)
            content = {**spare, **empty}
            content["metadata"] = {**spare["metadata"], "labels": dict(labels)}
            if _differs(content, spare):
                updates.append(content)
        else:
            creates.append(empty)
    return SlicePlan(creates, updates, deletes)


def _content(ports: list[Object], endpoints: list[Object]) -> Object:
    return {"addressType": "IPv4", "endpoints": endpoints, "ports": ports}


def _differs(wanted: Object, found: Object) -> bool:
    return labels_of(wanted) != labels_of(found) or any(
        (found.get(field) or []) != wanted[field] for field in ("endpoints", "ports", "addressType")
    )


def _grouped(service: Object, pods: Iterable[Object]) -> list[tuple[list[Object], list[Object]]]:
    groups: list[tuple[list[Object], list[Object]]] = []
    for pod in pods:
        ports = _ports_in(service, pod)
        for known, endpoints in groups:
            if known == ports:
                endpoints.append(_endpoint(service, pod))
                break
        else:
            groups.append((ports, [_endpoint(service, pod)]))
    return groups


def _distribute(endpoints: list[Object], slices: list[Object]) -> list[list[Object]]:
    """Divide endpoints among slices: existing ones stay, new ones fill slices with room."""
    places = {
        endpoint.get("targetRef", {}).get("uid"): place
        for place, found in enumerate(slices)
        for endpoint in found.get("endpoints") or ()
    }
    parts: list[list[Object]] = [[] for _ in slices]
    others = []
    for endpoint in endpoints:
        place = places.get(endpoint["targetRef"]["uid"])
        if place is None:
            others.append(endpoint)
        else:
            parts[place].append(endpoint)
    for endpoint in others:
        for part in parts:
            if len(part) < MAX_ENDPOINTS:
                part.append(endpoint)
                break
        else:
            parts.append([endpoint])
    return parts


def _ports_in(service: Object, pod: Object) -> list[Object]:
    ports = []
    for port in service["spec"].get("ports") or ():
        number = target_port(port, pod)
        if number is not None:
            ports.append({"name": port.get("name", ""), **port_document(port, number)})
    return ports


def target_port(port: Object, pod: Object) -> int | None:
    """Return the number of a Service port in a pod; None if the pod has no port of the name."""
    target = port.get("targetPort", port["port"])
    if isinstance(target, int):
        return target
    spec = pod["spec"]
    sidecars = (
        container
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    )
    for container in (*(spec.get("containers") or ()), *sidecars):
        for known in container.get("ports") or ():
            named = known.get("name") == target
            if named and known.get("protocol", "TCP") == port.get("protocol", "TCP"):
                number: int = known["containerPort"]
                return number
    return None


def port_document(port: Object, number: int | None) -> Object:
    """Show a port with its number in pods."""
    shown: Object = {"protocol": port.get("protocol", "TCP")}
    if number is not None:
        shown["port"] = number
    if port.get("appProtocol"):
        shown["appProtocol"] = port["appProtocol"]
    return shown


def address_of(pod: Object) -> str:
    """Return the address of a pod, "" before it has one."""
    return str((pod.get("status") or {}).get("podIP", ""))


def reference_to(pod: Object) -> Object:
    """Refer to a pod."""
    metadata = pod["metadata"]
    return {
        "kind": "Pod",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def _endpoint(service: Object, pod: Object) -> Object:
    serving, terminating = is_ready(pod), is_deleted(pod)
    published = bool(service["spec"].get("publishNotReadyAddresses"))
    endpoint = {
        "addresses": [address_of(pod)],
        "conditions": {
            "ready": published or (serving and not terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "targetRef": reference_to(pod),
    }
    spec = pod["spec"]
    if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
        endpoint["hostname"] = spec["hostname"]
    if spec.get("nodeName"):
        endpoint["nodeName"] = spec["nodeName"]
    return endpoint
