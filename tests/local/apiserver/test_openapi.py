"""OpenAPI v3: an index with hashes, a document per group version, and what kubectl reads there."""

from __future__ import annotations

import json
import re
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


@pytest.mark.parametrize(
    ("kind", "field", "values"),
    [
        ("batch.v1.CronJobSpec", "concurrencyPolicy", ["Allow", "Forbid", "Replace"]),
        ("batch.v1.JobSpec", "completionMode", ["Indexed", "NonIndexed"]),
        ("networking.v1.NetworkPolicySpec", "policyTypes", ["Egress", "Ingress"]),
        ("batch.v1.JobSpec", "suspend", None),
    ],
)
async def test_openapi_enumerates_what_a_string_may_be(
    api: Api, kind: str, field: str, values: list[str] | None
) -> None:
    group = {"batch": "batch", "networking": "networking.k8s.io"}[kind.partition(".")[0]]
    document = (await api.get(f"/openapi/v3/apis/{group}/v1")).body
    schema = document["components"]["schemas"][f"io.k8s.api.{kind}"]["properties"][field]
    assert schema.get("items", schema).get("enum") == values


async def test_openapi_enumerates_the_values_of_a_map(api: Api) -> None:
    """The map itself has no enumeration, which `kubectl explain` would show."""
    document = (await api.get("/openapi/v3/api/v1")).body
    status = document["components"]["schemas"]["io.k8s.api.core.v1.PersistentVolumeClaimStatus"]
    statuses = status["properties"]["allocatedResourceStatuses"]
    assert "enum" not in statuses
    assert "NodeResizePending" in statuses["additionalProperties"]["enum"]


async def test_openapi_references_lead_to_schemas(api: Api) -> None:
    for path in (await api.get("/openapi/v3")).body["paths"]:
        document = (await api.get(f"/openapi/v3/{path}")).body
        schemas = document["components"]["schemas"]
        stack: list[object] = [document]
        while stack:
            value = stack.pop()
            if isinstance(value, dict):
                # A property of that name, as the schemas in definitions have, is a schema.
                if isinstance(reference := value.get("$ref"), str):
                    assert reference.rpartition("/")[2] in schemas
                stack.extend(value.values())
            elif isinstance(value, list):
                stack.extend(value)


async def test_openapi_has_the_fields_of_definitions(api: Api) -> None:
    """As a real one has them, for `kubectl explain crd.spec`."""
    document = (await api.get("/openapi/v3/apis/apiextensions.k8s.io/v1")).body
    schemas = document["components"]["schemas"]
    prefix = "io.k8s.apiextensions.v1."
    assert schemas[f"{prefix}CustomResourceDefinitionSpec"]["required"] == [
        *("group", "names", "scope", "versions")
    ]
    assert "required" not in schemas[f"{prefix}CustomResourceDefinitionStatus"]
    assert schemas[f"{prefix}WebhookConversion"]["required"] == ["conversionReviewVersions"]
    properties = schemas[f"{prefix}JSONSchemaProps"]["properties"]
    reference = {"$ref": f"#/components/schemas/{prefix}JSONSchemaProps"}
    assert properties["allOf"] == {"type": "array", "items": reference}
    assert properties["properties"] == {"type": "object", "additionalProperties": reference}
    definition = schemas[f"{prefix}CustomResourceDefinition"]
    assert definition["x-kubernetes-group-version-kind"][0]["kind"] == "CustomResourceDefinition"


async def test_openapi_follows_registered_kinds(api: Api, registry: Registry) -> None:
    before = (await api.get("/openapi/v3")).body["paths"]
    registry.scheme.register(Kind("example.com", ("v1",), Names("widgets", "Widget")))
    after = (await api.get("/openapi/v3")).body["paths"]
    assert after.keys() - before.keys() == {"apis/example.com/v1"}
    document = (await api.get("/openapi/v3/apis/example.com/v1")).body
    assert "com.example.v1.Widget" in document["components"]["schemas"]


async def test_openapi_of_unknown_document_is_not_found(api: Api) -> None:
    assert (await api.get("/openapi/v3/apis/none/v1")).status == 404


async def test_openapi_version_2_in_json_has_its_forms(api: Api) -> None:
    """References, parameters and bodies are in the form of version 2."""
    reply = await api.get("/openapi/v2")
    assert reply.headers["Content-Type"].startswith("application/json")
    text, document = json.dumps(reply.body), reply.body
    assert document["swagger"] == "2.0"
    # The schema of schemas has fields of these names.
    own = json.dumps(document["definitions"]["io.k8s.apiextensions.v1.JSONSchemaProps"])
    others = text.replace(own, "{}")
    assert not any(word in others for word in ("oneOf", '"allOf"'))
    assert not any(word in text for word in ("#/components", "requestBody"))
    named = set(re.findall(r"#/definitions/([^\"]+)", text))
    assert named <= set(document["definitions"])
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "application/apply-patch+yaml" in patch["consumes"]
    assert {"name": "fieldValidation", "in": "query", "type": "string", "uniqueItems": True} in (
        patch["parameters"]
    )
    headers = {"Authorization": f"Bearer {api.token}", "If-None-Match": reply.headers["Etag"]}
    async with api.session.get(f"{api.url}/openapi/v2", headers=headers) as again:
        assert again.status == 304


@pytest.mark.parametrize("version", ["v2.v1.0", "v2@v1.0"])
async def test_openapi_version_2_in_protobuf_has_two_media_types(api: Api, version: str) -> None:
    """The media type has two spellings; what is neither is not acceptable."""
    media = f"application/com.github.proto-openapi.spec.{version}+protobuf"
    headers = {"Authorization": f"Bearer {api.token}", "Accept": f"{media}, */*;q=0.1"}
    async with api.session.get(f"{api.url}/openapi/v2", headers=headers) as reply:
        assert (reply.status, reply.headers["Content-Type"]) == (200, media.replace("@", "."))
        # Field 1 is the version of the document.
        assert (await reply.read()).startswith(b"\x0a\x032.0")
    refused = await api.request("GET", "/openapi/v2", accept="text/html")
    assert refused.status == 406
