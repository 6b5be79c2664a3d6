"""OpenAPI v3: an index with hashes, a document per group version, and what kubectl reads there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hotmap.local.scheme import Kind, Names

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api

    from hotmap.local.apiserver.registry import Registry


async def test_openapi_index_names_every_group_version(api: Api, registry: Registry) -> None:
    paths = (await api.get("/openapi/v3")).body["paths"]
    assert len(paths) == len(registry.scheme.group_versions())
    for path, entry in paths.items():
        assert entry["serverRelativeURL"].startswith(f"/openapi/v3/{path}?hash=")


async def test_openapi_document_is_cached_by_its_hash(api: Api) -> None:
    url = (await api.get("/openapi/v3")).body["paths"]["apis/apps/v1"]["serverRelativeURL"]
    path, _, wanted = url.partition("?hash=")
    reply = await api.get(path, hash=wanted)
    assert reply.headers["Etag"] == f'"{wanted}"'
    assert reply.headers["Cache-Control"] == "public, immutable"
    async with api.session.get(
        api.url + path,
        headers={"Authorization": f"Bearer {api.token}", "If-None-Match": f'"{wanted}"'},
    ) as unchanged:
        assert unchanged.status == 304
    # A client with an old hash gets the present document by a redirect.
    assert (await api.get(path, hash="old")).body == reply.body


async def test_openapi_document_says_what_kubectl_needs(api: Api) -> None:
    document = (await api.get("/openapi/v3/apis/apps/v1")).body
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert {"name": "fieldValidation", "in": "query"}.items() <= patch["parameters"][2].items()
    gvk = {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert patch["x-kubernetes-group-version-kind"] == gvk
    schemas = document["components"]["schemas"]
    assert schemas["io.k8s.api.apps.v1.Deployment"]["x-kubernetes-group-version-kind"] == [gvk]
    ports = schemas["io.k8s.api.core.v1.Container"]["properties"]["ports"]
    assert ports == {
        "type": "array",
        "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.ContainerPort"},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
        "x-kubernetes-patch-strategy": "merge",
        "x-kubernetes-patch-merge-key": "containerPort",
    }


async def test_openapi_references_lead_to_schemas(api: Api) -> None:
    for path in (await api.get("/openapi/v3")).body["paths"]:
        document = (await api.get(f"/openapi/v3/{path}")).body
        schemas = document["components"]["schemas"]
        stack: list[object] = [document]
        while stack:
            value = stack.pop()
            if isinstance(value, dict):
                reference = value.get("$ref")
                assert reference is None or reference.rpartition("/")[2] in schemas
                stack.extend(value.values())
            elif isinstance(value, list):
                stack.extend(value)


async def test_openapi_follows_registered_kinds(api: Api, registry: Registry) -> None:
    before = (await api.get("/openapi/v3")).body["paths"]
    registry.scheme.register(Kind("example.com", ("v1",), Names("widgets", "Widget")))
    after = (await api.get("/openapi/v3")).body["paths"]
    assert after.keys() - before.keys() == {"apis/example.com/v1"}
    document = (await api.get("/openapi/v3/apis/example.com/v1")).body
    assert "com.example.v1.Widget" in document["components"]["schemas"]


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3/apis/none/v1"])
async def test_openapi_of_unknown_document_is_not_found(api: Api, path: str) -> None:
    assert (await api.get(path)).status == 404
