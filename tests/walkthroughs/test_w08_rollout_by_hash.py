"""W8: a rollout by a hash in the pod template, which `hotmap stamp` computes in CI."""

from __future__ import annotations

from typing import Any

import yaml
from tests.walkthroughs.backend import Backend
from tests.walkthroughs.manifests import CONFIG, ENVIRONMENT
from tests.walkthroughs.steps import replaced, running_pod, variable

from hotmap.cli.stamp import stamp
from hotmap.core.fingerprint import fingerprint_key

HASH = "example.com/config-hash"


def stamped(manifests: str) -> str:
    """Stamp manifests as a pipeline does."""
    texts, notes = stamp({"-": manifests}, HASH, fingerprint_key(b"key"), with_secrets=False)
    assert notes == []
    return texts["-"]


async def apply(backend: Backend, manifests: str) -> None:
    """Give the objects their content in the manifests: the ConfigMap first."""
    documents: list[dict[str, Any]] = [each for each in yaml.safe_load_all(manifests) if each]
    for item in sorted(documents, key=lambda each: str(each["kind"])):
        changed: dict[str, Any] = {
            field: item[field] for field in ("data", "spec") if field in item
        }
        await backend.patch(item["kind"], item["metadata"]["name"], changed)


async def test_rolls_out_exactly_when_content_changed(backend: Backend) -> None:
    """Applying equal content again leaves the pod alone."""
    await backend.create(stamped(CONFIG + ENVIRONMENT))
    await backend.rolled_out("my-nginx")
    first = await running_pod(backend, "my-nginx")

    await apply(backend, stamped(CONFIG + ENVIRONMENT))
    await backend.rolled_out("my-nginx")
    assert await backend.history("my-nginx") == [1]

    await apply(backend, stamped(CONFIG.replace("INFO", "DEBUG") + ENVIRONMENT))
    await backend.rolled_out("my-nginx")
    second = await replaced(backend, "my-nginx", first)
    assert await variable(backend, second, "log_level") == "DEBUG"
    assert await backend.history("my-nginx") == [1, 2]
