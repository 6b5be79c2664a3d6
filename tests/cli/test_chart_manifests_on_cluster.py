"""What injection writes is valid: a real API server takes each chart, by server-side dry run."""

from __future__ import annotations

import json

import pytest
from tests.cli.chart_manifests import INJECTIONS, all_shapes, chosen_container, documents
from tests.cluster.cluster import Cluster

from hotmap.cli.inject import inject
from hotmap.core.errors import ManifestError

pytestmark = pytest.mark.cluster


def test_api_server_accepts_every_injected_chart(real_control_plane: Cluster) -> None:
    """Before and after injection in each mode; all of them in one request list, strictly."""
    objects = []
    for shape in all_shapes():
        objects += documents(shape.text)
        several = len({chosen_container(template) for template in shape.templates}) > 1
        container = "" if several else chosen_container(shape.templates[0])
        for injection in INJECTIONS.values():
            try:
                text, _ = inject(shape.text, injection._replace(container=container), "f")
            except ManifestError:
                continue  # a supervisor without a command: see test_chart_manifests
            objects += documents(text)
    assert len(objects) > 200
    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    create = ("create", "--dry-run=server", "--validate=strict", "--filename=-")
    shown = real_control_plane.kubectl(*create, stdin=manifest, seconds=300)
    assert shown.count("created (server dry run)") == len(objects)
