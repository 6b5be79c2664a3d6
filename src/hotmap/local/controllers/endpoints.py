"""Keeps the Endpoints and EndpointSlices of Services with a selector true.

kubernetes: pkg/controller/endpoint, pkg/controller/endpointslice.
"""

from __future__ import annotations

import contextlib
from typing import Any

from hotmap.core.errors import AlreadyExists, Forbidden, NotFound
from hotmap.local.controllers.controller import Controller, ControllerContext
from hotmap.local.controllers.endpoint_slices import (
    address_of,
    plan_slices,
    port_document,
    reference_to,
    target_port,
)
from hotmap.local.controllers.pods import is_finished, is_ready
from hotmap.local.informer import by_namespace
from hotmap.local.meta import (
    MANAGER,
    Object,
    ObjectName,
    is_deleted,
    labels_of,
    name_of,
    timestamp,
    uid_of,
)

__all__ = ["EndpointsController"]

_SLICES = "endpointslices"
_SERVICE = "kubernetes.io/service-name"
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_CONTROLLER = "endpointslice-controller.k8s.io"
_CHANGED = "endpoints.kubernetes.io/last-change-trigger-time"


class EndpointsController(Controller[ObjectName]):
    """Write down which pods of a Service can be reached, and where."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, "endpoints")
        self._services = self._informers["services"]
        self._in_namespace = self._services.index(by_namespace)
        self._pods = self._informers["pods"]
        self._pods_in_namespace = self._pods.index(by_namespace)
        self._endpoints = self._informers["endpoints"]
        self._slices = self._informers[_SLICES]
        self._services.subscribe(self._add_service)
        self._pods.subscribe(self._on_pod)
        self._slices.subscribe(self._on_slice)
        self._endpoints.subscribe(self._add_service)  # it has the name of its Service

    async def sync(self, key: ObjectName) -> None:
        """Bring the addresses of one Service up to date; remove those of one that is gone."""
        service = self._services.objects.get(key)
        # What is gone takes its objects with it: the slice by its owner, Endpoints here.
        if service is None or is_deleted(service):
            if key in self._endpoints.objects and service is None:
                with contextlib.suppress(NotFound):
                    await self._client.delete("endpoints", *key)
            return
        if not _has_endpoints(service):
            return
        pods = sorted(
            (pod for pod in self._pods_in_namespace.get(key[0]) if _is_backend(service, pod)),
            key=lambda pod: str(pod["metadata"]["name"]),
        )
        # The namespace is terminating or gone, which is not a failure.
        with contextlib.suppress(Forbidden, NotFound):
            await self._write_slice(service, pods)
            await self._write_endpoints(service, pods)

    def _add_service(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        if obj is not None:
            self._loop.add(name_of(obj))

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        for pod in (old, new):
            if pod is None:
                continue
            for service in self._in_namespace.get(pod["metadata"]["namespace"]):
                if _selects(service, pod):
                    self._loop.add(name_of(service))

    def _on_slice(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        if obj is not None and labels_of(obj).get(_MANAGED_BY) == _CONTROLLER:
            self._loop.add((obj["metadata"]["namespace"], labels_of(obj).get(_SERVICE, "")))

    async def _write_slice(self, service: Object, pods: list[Object]) -> None:
        namespace, name = name_of(service)
        known = [
            found
            for (within, _), found in self._slices.objects.items()
            if within == namespace
            and labels_of(found).get(_SERVICE) == name
            and labels_of(found).get(_MANAGED_BY) == _CONTROLLER
        ]
        head = self._slice_head(service)
        plan = plan_slices(service, pods, known, head["metadata"]["labels"])
        for content in plan.creates:
            made = await self._client.create(
                _SLICES, namespace, {**head, **content}, manager=MANAGER
            )
            await self._slices.wait_for_version(made["metadata"]["resourceVersion"])
        for content in plan.updates:
            await self._client.update(_SLICES, *name_of(content), content, manager=MANAGER)
        for surplus in plan.deletes:
            with contextlib.suppress(NotFound):
                await self._client.delete(_SLICES, *name_of(surplus))

    def _slice_head(self, service: Object) -> Object:
        namespace, name = name_of(service)
        owner = {
            "apiVersion": "v1",
            "kind": "Service",
            "name": name,
            "uid": uid_of(service),
            "controller": True,
            "blockOwnerDeletion": True,
        }
        labels = {**labels_of(service), _SERVICE: name, _MANAGED_BY: _CONTROLLER}
        if service["spec"].get("clusterIP") == "None":
            labels["service.kubernetes.io/headless"] = ""
        return {
            "metadata": {
                "generateName": f"{name}-",
                "namespace": namespace,
                "labels": labels,
                "annotations": {_CHANGED: timestamp(self._clock())},
                "ownerReferences": [owner],
            }
        }

    async def _write_endpoints(self, service: Object, pods: list[Object]) -> None:
        namespace, name = name_of(service)
        known = self._endpoints.objects.get((namespace, name))
        subsets = _subsets(service, pods)
        labels = {**labels_of(service), "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
        if service["spec"].get("clusterIP") == "None":
            labels["service.kubernetes.io/headless"] = ""
        if known is not None and known.get("subsets", []) == subsets and labels_of(known) == labels:
            return
        metadata: dict[str, Any] = {
            "name": name,
            "labels": labels,
            "annotations": {_CHANGED: timestamp(self._clock())},
        }
        body: Object = {"metadata": metadata}
        if subsets:
            body["subsets"] = subsets
        if known is None:
            with contextlib.suppress(AlreadyExists):
                await self._client.create("endpoints", namespace, body, manager=MANAGER)
            return
        metadata["resourceVersion"] = known["metadata"]["resourceVersion"]
        await self._client.update("endpoints", namespace, name, body, manager=MANAGER)


def _has_endpoints(service: Object) -> bool:
    spec = service["spec"]
    return bool(spec.get("selector")) and spec.get("type") != "ExternalName"


def _selects(service: Object, pod: Object) -> bool:
    selector = service["spec"].get("selector")
    labels = labels_of(pod)
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def _is_backend(service: Object, pod: Object) -> bool:
    """Return whether a pod has an address that belongs to a Service (ShouldPodBeInEndpoints)."""
    return _selects(service, pod) and bool(address_of(pod)) and not is_finished(pod)


def _subsets(service: Object, pods: list[Object]) -> list[Object]:
    """Group addresses by the numbers of their ports (RepackSubsets)."""
    groups: dict[tuple[tuple[str, int | None], ...], tuple[list[Object], list[Object]]] = {}
    ports = service["spec"].get("ports") or []
    for pod in pods:
        if is_deleted(pod):
            continue
        key = tuple((port.get("name", ""), target_port(port, pod)) for port in ports)
        if ports and all(number is None for _, number in key):
            continue
        address = {"ip": address_of(pod), "targetRef": reference_to(pod)}
        if pod["spec"].get("nodeName"):
            address["nodeName"] = pod["spec"]["nodeName"]
        is_published = is_ready(pod) or service["spec"].get("publishNotReadyAddresses")
        groups.setdefault(key, ([], []))[0 if is_published else 1].append(address)
    subsets = []
    for key, (ready, other) in groups.items():
        subset: Object = {}
        if ready:
            subset["addresses"] = ready
        if other:
            subset["notReadyAddresses"] = other
        shown = [
            {**({"name": name} if name else {}), **port_document(port, number)}
            for port, (name, number) in zip(ports, key, strict=True)
            if number is not None
        ]
        if shown:
            subset["ports"] = shown
        subsets.append(subset)
    return subsets
