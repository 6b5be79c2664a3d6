"""Objects of all kinds are filled in, accepted and refused as by kube-apiserver."""

from __future__ import annotations

import json
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

import pytest
from tests.cluster.fixtures import real_control_plane
from tests.local.apiserver.object_rules import FILES, answers, real_answers

from hotmap.local.apiserver.plugins import AdmissionChain
from hotmap.local.apiserver.plugins.service_addresses import ServiceAddressPlugin
from hotmap.local.apiserver.plugins.storage import StoragePlugin

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.cluster import Cluster
    from tests.local.apiserver.api import Api

    from hotmap.local.apiserver.registry import Registry

__all__ = ["real_control_plane"]


def recorded(document: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {field: case[field] for field in case if field not in ("create", "update")}
        for name, case in document["cases"].items()
    }


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
async def test_answers_are_those_of_kubernetes(api: Api, registry: Registry, file: Path) -> None:
    addresses = IPv4Network("10.96.0.0/24")
    registry.writer.plugins = AdmissionChain(
        [
            ServiceAddressPlugin(registry.store, registry.reader, addresses),
            StoragePlugin(registry.store, registry.reader),
        ]
    )
    document = json.loads(file.read_text())
    assert await answers(api, document) == recorded(document)


@pytest.mark.cluster
async def test_answers_are_what_kubernetes_says(real_control_plane: Cluster) -> None:
    documents = [json.loads(file.read_text()) for file in FILES]
    found = await real_answers(real_control_plane.kubeconfig, documents)
    assert found == [recorded(document) for document in documents]
