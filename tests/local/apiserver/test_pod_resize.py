"""The resize subresource of pods changes the resources of containers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.local.apiserver.api import PODS

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api

STRATEGIC = "application/strategic-merge-patch+json"


def resources(**requests: str) -> dict[str, Any]:
    return {"requests": requests}


@pytest.fixture(autouse=True)
async def web(api: Api) -> None:
    made = await api.post(
        PODS,
        {
            "metadata": {"name": "web"},
            "spec": {
                "initContainers": [{"name": "i", "image": "x", "resources": resources(cpu="1")}],
                "containers": [{"name": "c", "image": "x", "resources": resources(cpu="1")}],
            },
        },
    )
    assert made.status == 201


async def test_resize_changes_resources_alone(api: Api) -> None:
    """What else it sends is ignored: an image is changed by an update of the pod."""
    container = {"name": "c", "image": "other", "resources": resources(cpu="2", memory="1Gi")}
    spec = {"containers": [container], "activeDeadlineSeconds": 5}
    change = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    resized = await api.patch(f"{PODS}/web/resize", change, STRATEGIC)
    assert resized.status == 200, resized.body
    (found,) = resized.body["spec"]["containers"]
    assert found["image"] == "x"
    assert found["resources"]["requests"] == {"cpu": "2", "memory": "1Gi"}
    assert "activeDeadlineSeconds" not in resized.body["spec"]
    assert "labels" not in resized.body["metadata"]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"containers": [{"name": "d", "image": "x"}]},
            "spec.containers: Forbidden: containers may not be added or removed on resize",
        ),
        (
            {"containers": [{"name": "c", "resources": {"requests": {"cpu": None}}}]},
            "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
        ),
        (
            {"containers": [{"name": "c", "resources": resources(**{"example.com/x": "1"})}]},
            "only cpu and memory resources are mutable",
        ),
        (
            {"containers": [{"name": "c", "resources": {"limits": {"cpu": "500m"}}}]},
            "must be less than or equal to cpu limit",
        ),
        (
            {"initContainers": [{"name": "i", "resources": resources(**{"example.com/x": "1"})}]},
            "only cpu and memory resources for init or sidecar containers are mutable",
        ),
    ],
)
async def test_resize_that_is_none_is_refused(api: Api, spec: dict[str, Any], text: str) -> None:
    refused = await api.patch(f"{PODS}/web/resize", {"spec": spec}, STRATEGIC)
    assert (refused.status, text in refused.message) == (422, True), refused.message


async def test_resize_keeps_the_quality_of_service(api: Api) -> None:
    same = {"cpu": "1", "memory": "1Gi"}
    spec = {
        "containers": [{"name": "c", "image": "x", "resources": {"requests": same, "limits": same}}]
    }
    await api.post(PODS, {"metadata": {"name": "sure"}, "spec": spec})
    larger = {"name": "c", "resources": {"limits": {"cpu": "2"}}}
    refused = await api.patch(f"{PODS}/sure/resize", {"spec": {"containers": [larger]}}, STRATEGIC)
    assert "Pod QOS Class may not change as a result of resizing" in refused.message
