"""RuntimeClasses: pods get their overhead and nodes, and are refused where they contradict them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hotmap.core.errors import Forbidden
from hotmap.local.apiserver.plugins import AdmissionChain
from hotmap.local.apiserver.plugins.runtimeclass import RuntimeClassPlugin

if TYPE_CHECKING:
    from hotmap.local.apiserver.registry import Registry


def _pod(**spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "host", "command": ["true"]}
    return {"metadata": {"name": "a"}, "spec": {"containers": [container], **spec}}


@pytest.fixture
async def classes(registry: Registry) -> Registry:
    registry.writer.plugins = AdmissionChain([RuntimeClassPlugin(registry.reader)])
    toleration = {"key": "fast", "operator": "Exists"}
    runtime_class = {
        "metadata": {"name": "fast"},
        "handler": "fast",
        "overhead": {"podFixed": {"cpu": "10m"}},
        "scheduling": {"nodeSelector": {"disk": "ssd"}, "tolerations": [toleration]},
    }
    await registry.create("runtimeclasses", None, runtime_class, manager="t")
    return registry


async def test_pod_gets_overhead_and_nodes_of_its_class(classes: Registry) -> None:
    pod = _pod(runtimeClassName="fast", nodeSelector={"zone": "a"})
    spec = (await classes.create("pods", "default", pod, manager="t"))["spec"]
    assert spec["overhead"] == {"cpu": "10m"}
    assert spec["nodeSelector"] == {"zone": "a", "disk": "ssd"}
    assert {"key": "fast", "operator": "Exists"} in spec["tolerations"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        (
            {"runtimeClassName": "fast", "nodeSelector": {"disk": "hdd"}},
            r"conflict: runtimeClass.scheduling.nodeSelector\[disk\] = ssd; "
            r"pod.spec.nodeSelector\[disk\] = hdd",
        ),
        (
            {"runtimeClassName": "fast", "overhead": {"cpu": "1"}},
            "Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"overhead": {"cpu": "1"}},
            "Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
    ],
)
async def test_pod_that_contradicts_its_class_is_forbidden(
    classes: Registry, spec: dict[str, Any], why: str
) -> None:
    with pytest.raises(Forbidden, match=why):
        await classes.create("pods", "default", _pod(**spec), manager="t")


async def test_refused_pod_with_generated_name_is_named_by_its_start(classes: Registry) -> None:
    pod = {**_pod(runtimeClassName="none"), "metadata": {"generateName": "web-"}}
    # Always the same text, so that a controller's retries are one Event and one condition.
    with pytest.raises(Forbidden, match=r'^pods "web-" is forbidden: pod rejected'):
        await classes.create("pods", "default", pod, manager="t")
    pod["spec"] = _pod()["spec"]
    made = await classes.create("pods", "default", pod, manager="t")
    assert made["metadata"]["name"].startswith("web-")
