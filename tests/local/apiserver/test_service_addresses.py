"""The addresses of Services and their families, of which there is IPv4 alone."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

import pytest

from hotmap.local.apiserver.plugins import AdmissionChain
from hotmap.local.apiserver.plugins.service_addresses import ServiceAddressPlugin

if TYPE_CHECKING:
    from tests.local.apiserver.api import Api, Reply

    from hotmap.local.apiserver.registry import Registry

_SERVICES = "/api/v1/namespaces/default/services"
_BOTH = ["IPv4", "IPv6"]


@pytest.fixture(autouse=True)
def addresses(registry: Registry) -> None:
    network = IPv4Network("127.96.0.0/24")
    plugin = ServiceAddressPlugin(registry.store, registry.reader, network)
    registry.writer.plugins = AdmissionChain([plugin])


async def create(api: Api, name: str = "s", **spec: Any) -> Reply:
    service = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}
    return await api.post(_SERVICES, service)


async def test_service_that_prefers_two_families_gets_the_one_there_is(api: Api) -> None:
    """It keeps its policy and one family, also when something else is updated."""
    made = (await create(api, ipFamilyPolicy="PreferDualStack")).body
    assert (made["spec"]["ipFamilyPolicy"], made["spec"]["ipFamilies"]) == (
        "PreferDualStack",
        ["IPv4"],
    )
    changed = await api.patch(f"{_SERVICES}/s", {"spec": {"selector": {"a": "b"}}})
    assert changed.body["spec"]["ipFamilies"] == ["IPv4"]


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        ({"ipFamilies": ["IPv6"]}, ['spec.ipFamilies[0]: Invalid value: "IPv6": not configured']),
        (
            {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": _BOTH},
            ['spec.ipFamilies[1]: Invalid value: "IPv6": not configured on this cluster'],
        ),
        (
            {"ipFamilyPolicy": "RequireDualStack"},
            ["this cluster is not configured for dual-stack services"],
        ),
        (
            {"ipFamilyPolicy": "SingleStack", "ipFamilies": _BOTH},
            ["must be 'RequireDualStack' or 'PreferDualStack' when multiple IP"],
        ),
        (
            {"clusterIP": "fd00::1"},
            ['spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this'],
        ),
    ],
)
async def test_second_family_is_refused(api: Api, spec: dict[str, Any], errors: list[str]) -> None:
    refused = await create(api, **spec)
    assert refused.status == 422
    for text in errors:
        assert text in refused.message


@pytest.mark.parametrize(
    ("spec", "policy", "families"),
    [
        ({}, "RequireDualStack", ["IPv4", "IPv6"]),
        ({"ipFamilyPolicy": "SingleStack"}, "SingleStack", ["IPv4"]),
        ({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6"]}, "PreferDualStack", None),
    ],
)
async def test_headless_service_without_selector_may_have_both_families(
    api: Api, spec: dict[str, Any], policy: str, families: list[str] | None
) -> None:
    """Its endpoints are written by whoever has made it."""
    made = (await create(api, clusterIP="None", **spec)).body["spec"]
    assert (made["ipFamilyPolicy"], made["ipFamilies"]) == (policy, families or ["IPv6", "IPv4"])


async def test_second_family_goes_with_the_policy(api: Api) -> None:
    """An update to SingleStack need not say which family stays."""
    await create(api, clusterIP="None")
    changed = await api.patch(f"{_SERVICES}/s", {"spec": {"ipFamilyPolicy": "SingleStack"}})
    assert changed.body["spec"]["ipFamilies"] == ["IPv4"]


async def test_headless_service_with_selector_has_the_family_there_is(api: Api) -> None:
    made = (await create(api, clusterIP="None", selector={"a": "b"})).body["spec"]
    assert (made["ipFamilyPolicy"], made["ipFamilies"]) == ("SingleStack", ["IPv4"])


@pytest.mark.parametrize("before", ["LoadBalancer", "NodePort"])
@pytest.mark.parametrize(
    "after", [{"type": "ClusterIP"}, {"type": "ExternalName", "externalName": "example.com"}]
)
async def test_service_loses_what_its_new_type_does_not_have(
    api: Api, before: str, after: dict[str, Any]
) -> None:
    """An update that only changes the type is not refused for the fields of the old one."""
    balanced = {"loadBalancerClass": "example.com/a"} if before == "LoadBalancer" else {}
    made = (await create(api, type=before, **balanced)).body
    assert made["spec"]["ports"][0]["nodePort"]
    changed = await api.patch(f"{_SERVICES}/s", {"spec": after})
    assert changed.status == 200, changed.body
    spec = changed.body["spec"]
    assert "nodePort" not in spec["ports"][0]
    outside = {"allocateLoadBalancerNodePorts", "externalTrafficPolicy", "loadBalancerClass"}
    assert not outside & set(spec)


async def test_other_name_of_another_type_is_warned_of(api: Api) -> None:
    reply = await create(api, externalName="example.com")
    assert "spec.externalName is ignored when spec.type is not" in str(reply.headers)
