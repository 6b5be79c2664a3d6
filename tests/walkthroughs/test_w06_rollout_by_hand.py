"""W6: a rollout by hand: an annotation of the pod template, and the way back."""

from __future__ import annotations

from tests.walkthroughs.backend import Backend
from tests.walkthroughs.manifests import CONFIG, ENVIRONMENT
from tests.walkthroughs.steps import replaced, running_pod, variable

ANNOTATE = {"spec": {"template": {"metadata": {"annotations": {"version/config": "20180411"}}}}}


async def template_annotations(backend: Backend) -> dict[str, str]:
    deployment = await backend.get("Deployment", "my-nginx")
    found: dict[str, str] = deployment["spec"]["template"]["metadata"].get("annotations", {})
    return found


async def test_annotation_rolls_out_and_undo_restores(backend: Backend) -> None:
    """New pods have the new environment; an undo brings the template back, not the ConfigMap."""
    await backend.create(CONFIG + ENVIRONMENT)
    await backend.rolled_out("my-nginx")
    first = await running_pod(backend, "my-nginx")
    await backend.patch("ConfigMap", "env-config", {"data": {"log_level": "DEBUG"}})

    await backend.patch("Deployment", "my-nginx", ANNOTATE)
    await backend.rolled_out("my-nginx")
    second = await replaced(backend, "my-nginx", first)
    assert await variable(backend, second, "log_level") == "DEBUG"
    assert await template_annotations(backend) == {"version/config": "20180411"}
    assert await backend.history("my-nginx") == [1, 2]

    await backend.undo("my-nginx")
    await backend.rolled_out("my-nginx")
    third = await replaced(backend, "my-nginx", second)
    assert await variable(backend, third, "log_level") == "DEBUG"
    assert await template_annotations(backend) == {}
    assert await backend.history("my-nginx") == [2, 3]
