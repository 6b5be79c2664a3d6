"""CertificateSigningRequests carry the name of their sender."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotmap.local.access import UserInfo
from hotmap.local.apiserver.plugins import AdmissionChain
from hotmap.local.apiserver.plugins.certificate_requests import CertificateRequestPlugin

if TYPE_CHECKING:
    from hotmap.local.apiserver.registry import Registry


async def test_request_names_its_authenticated_sender(registry: Registry) -> None:
    registry.writer.plugins = AdmissionChain([CertificateRequestPlugin()])
    spec = {"request": "YQ==", "signerName": "example.com/x", "username": "root", "uid": "0"}
    created = await registry.create(
        "certificatesigningrequests",
        None,
        {"metadata": {"name": "a"}, "spec": spec},
        manager="t",
        user=UserInfo("jane", ("devs",)),
    )
    assert created["spec"]["username"] == "jane"
    assert created["spec"]["groups"] == ["devs"]
    assert "uid" not in created["spec"]
