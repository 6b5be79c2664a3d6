"""What pods and pod templates leave out: defaults, and the quality of service they imply.

pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.json_object import JsonObject
from hotmap.local.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from decimal import Decimal

_DEFAULT_MODE = 0o644
_PROJECTED_MODES = ("configMap", "secret", "projected", "downwardAPI")
# Resources that count for the quality of service.
_COMPUTING = {"cpu", "memory"}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
# A pod leaves a node that is lost after five minutes (defaulttolerationseconds admission).
_TOLERATIONS = tuple(
    {
        "key": f"node.kubernetes.io/{condition}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for condition in ("not-ready", "unreachable")
)


def default_pod(pod: JsonObject) -> None:
    """Fill in what a pod leaves out, in place; more than a template gets."""
    spec = pod.setdefault("spec", {})
    spec.setdefault("enableServiceLinks", True)
    for container in _containers(spec):
        _default_requests(container)
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                if port.get("containerPort"):
                    port.setdefault("hostPort", port["containerPort"])
    default_pod_spec(spec)


def admit_pod(pod: JsonObject) -> None:
    """Fill in what upstream's admission gives a new pod, in place; its writer does not own it."""
    spec = pod["spec"]
    # The service account admission's part; the deprecated twin follows it.
    name = spec.setdefault("serviceAccountName", spec.get("serviceAccount", "default"))
    spec["serviceAccount"] = name
    # The priority and toleration admissions' part.
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    add_tolerations(spec)


def add_tolerations(spec: JsonObject) -> None:
    """Let a pod stay a while on a node in trouble, in place (DefaultTolerationSeconds).

    Upstream's admission does so at updates, too.
    """
    tolerations = spec.setdefault("tolerations", [])
    known = {toleration.get("key") for toleration in tolerations}
    tolerations += [dict(added) for added in _TOLERATIONS if added["key"] not in known]


def default_pod_spec(spec: JsonObject) -> None:
    """Fill in what the spec of a pod or a template leaves out, in place."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        # The deprecated twin is what the other one is, or the other way round.
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in spec.get("volumes", ()):
        _default_volume(volume)
    for container in (*_containers(spec), *(spec.get("ephemeralContainers") or ())):
        _default_container(container)


def _containers(spec: JsonObject) -> Iterator[JsonObject]:
    yield from spec.get("initContainers", ())
    yield from spec.get("containers", ())


def _default_requests(container: JsonObject) -> None:
    resources = container.get("resources", {})
    limits = resources.get("limits", {})
    if limits:
        resources["requests"] = {**limits, **resources.get("requests", {})}


def _default_container(container: JsonObject) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        _default_field_refs(variable.get("valueFrom", {}))
    for probe in (container[name] for name in _PROBES if name in container):
        _default_probe(probe)
    for hook in container.get("lifecycle", {}).values():
        if isinstance(hook, dict):
            _default_http_get(hook)


def _pull_policy(image: str) -> str:
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    return "IfNotPresent" if "@" in image or tag not in ("", "latest") else "Always"


def _default_field_refs(source: JsonObject) -> None:
    if "fieldRef" in source:
        source["fieldRef"].setdefault("apiVersion", "v1")
    if "resourceFieldRef" in source:
        source["resourceFieldRef"].setdefault("divisor", "0")
    if "fileKeyRef" in source:
        source["fileKeyRef"].setdefault("optional", False)


def _default_http_get(handler: JsonObject) -> None:
    if "httpGet" in handler:
        handler["httpGet"].setdefault("path", "/")
        handler["httpGet"].setdefault("scheme", "HTTP")


def _default_probe(probe: JsonObject) -> None:
    _default_http_get(probe)
    if "grpc" in probe:
        # kubectl describe dereferences it (zz_generated.defaults.go).
        probe["grpc"].setdefault("service", "")
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)


def _default_volume(volume: JsonObject) -> None:
    if not [field for field in volume if field != "name"]:
        volume["emptyDir"] = {}
    for field in _PROJECTED_MODES:
        if field in volume:
            volume[field].setdefault("defaultMode", _DEFAULT_MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for item in volume.get("downwardAPI", {}).get("items", ()):
        _default_field_refs(item)
    for source in volume.get("projected", {}).get("sources", ()):
        for item in source.get("downwardAPI", {}).get("items", ()):
            _default_field_refs(item)
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)


def quality_of_service(spec: JsonObject) -> str:
    """Return the class that a pod's requests and limits of cpu and memory put it in (GetPodQOS).

    Those of the whole pod count in place of its containers'.
    """
    resources = (
        [spec["resources"]]
        if spec.get("resources")
        else [container.get("resources") or {} for container in _containers(spec)]
    )
    requests = [_computing(each.get("requests")) for each in resources]
    limits = [_computing(each.get("limits")) for each in resources]
    if not any(requests) and not any(limits):
        return "BestEffort"
    is_guaranteed = all(each.keys() == _COMPUTING for each in limits) and all(
        sum(each.get(name, 0) for each in requests) == sum(each[name] for each in limits)
        for name in _COMPUTING
    )
    return "Guaranteed" if is_guaranteed else "Burstable"


def _computing(amounts: JsonObject | None) -> dict[str, Decimal]:
    """Return the amounts above zero that count for the quality of service."""
    found = {name: parse_quantity(str((amounts or {}).get(name, "0"))) for name in _COMPUTING}
    return {name: amount for name, amount in found.items() if amount > 0}
