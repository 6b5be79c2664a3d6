"""Manifests in the manner of published charts: each takes the agent, and gives it back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.cli.chart_manifests import INJECTIONS, Shape, all_shapes, chosen_container, documents

from hotmap.cli.inject import inject
from hotmap.core.errors import ManifestError

SHAPES = list(all_shapes())


def test_corpus_has_sixty_shapes() -> None:
    """Deployments, StatefulSets, DaemonSets and others, in the styles of Helm, kustomize, JSON."""
    assert sum(len(shape.templates) for shape in SHAPES) >= 60


def rows() -> Iterator[Any]:
    """Yield each shape with one mode after the other, and as slow tests with all others."""
    for number, shape in enumerate(SHAPES):
        for place, mode in enumerate(INJECTIONS):
            marks = () if place == number % len(INJECTIONS) else pytest.mark.slow
            yield pytest.param(shape, mode, id=f"{shape.name}-{mode}", marks=marks)


@pytest.mark.parametrize(("shape", "mode"), list(rows()))
def test_chart_is_injected_and_restored(shape: Shape, mode: str) -> None:
    """Injecting twice is injecting once; removing gives the text back, byte for byte."""
    several = len({chosen_container(template) for template in shape.templates}) > 1
    container = "" if several else chosen_container(shape.templates[0])
    injection = INJECTIONS[mode]._replace(container=container)
    if mode == "supervisor":
        chosen = [item for pod in shape.templates for item in pod["spec"]["containers"]]
        if not all(item.get("command") for item in chosen if container in ("", item["name"])):
            with pytest.raises(ManifestError, match="has no command"):
                inject(shape.text, injection, "f")
            return
    once, _ = inject(shape.text, injection, "f")
    assert once != shape.text
    assert inject(once, injection, "f")[0] == once
    assert inject(once, None, "f")[0] == shape.text
    before, after = documents(shape.text), documents(once)
    names = [element["metadata"]["name"] for element in before]
    assert [item["metadata"]["name"] for item in after] == names
