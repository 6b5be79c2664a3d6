"""Certificate signing requests: which are approved by themselves, signed, refused, removed."""

from __future__ import annotations

import asyncio
import base64
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hotmap.core.errors import NotFound
from hotmap.local.access import Attributes, Decision
from hotmap.local.apiserver.authorization import AllowAll
from hotmap.local.apiserver.bootstrap import create_system_namespaces
from hotmap.local.apiserver.registry import Registry
from hotmap.local.certificate_authority import CertificateAuthority
from hotmap.local.controllers.certificates import CertificateSigning
from hotmap.local.controllers.run import Controllers
from hotmap.local.meta import timestamp
from hotmap.local.pki import create_pki
from hotmap.local.store import MVCCStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from hotmap.local.access import Authorizer
    from hotmap.local.pki import ServerPKI

Object = dict[str, Any]

CSR = "certificatesigningrequests"
CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING = "kubernetes.io/kubelet-serving"
APPROVED = {"type": "Approved", "status": "True", "reason": "t", "message": "t"}
KEY = ec.generate_private_key(ec.SECP256R1())
NODE = "system:node:n"
USAGES = ["digital signature", "client auth"]


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> ServerPKI:
    return create_pki(tmp_path_factory.mktemp("pki"))


def request_text(name: str, organization: str, *names: x509.GeneralName) -> str:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    signed = builder.sign(KEY, hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


NODE_REQUEST = request_text(NODE, "system:nodes")


class Allow(AllowAll):
    """Allows subresources by their names."""

    def __init__(self, *subresources: str) -> None:
        self._subresources = subresources

    def authorize(self, attributes: Attributes) -> Decision:
        return Decision(attributes.subresource in self._subresources)


@asynccontextmanager
async def running(pki: ServerPKI, authorizer: Authorizer | None = None) -> AsyncIterator[Registry]:
    registry = Registry(MVCCStore())
    await create_system_namespaces(registry)
    authority = CertificateAuthority(pki.ca_certificate, pki.ca_key)
    signing = CertificateSigning(authority, authorizer or AllowAll())
    async with Controllers(registry, signing=signing):
        yield registry


async def create(registry: Registry, signer: str, text: str, **spec: Any) -> None:
    wanted = {"request": text, "signerName": signer, "usages": USAGES, **spec}
    await registry.create(CSR, None, {"metadata": {"name": "a"}, "spec": wanted}, manager="t")


async def approve(registry: Registry) -> None:
    def change(obj: Object) -> Object:
        return {**obj, "status": {"conditions": [APPROVED]}}

    await registry.modify(CSR, None, "a", change, manager="t", subresource="approval")


async def until(registry: Registry, holds: Callable[[Object], Any], name: str = "a") -> Object:
    async with asyncio.timeout(60):
        while True:
            found = await registry.get(CSR, None, name)
            if holds(found.get("status") or {}):
                return found
            await asyncio.sleep(0.01)


def is_decided(status: Object) -> bool:
    return bool(status.get("certificate")) or len(status.get("conditions") or ()) > 1


@pytest.mark.parametrize(
    ("sender", "allowed", "message"),
    [
        (NODE, "selfnodeclient", "Auto approving self kubelet client certificate after "),
        ("x", "nodeclient", "Auto approving kubelet client certificate after "),
    ],
)
async def test_kubelet_is_approved_where_its_sender_may_create_it(
    pki: ServerPKI, sender: str, allowed: str, message: str
) -> None:
    async with running(pki, Allow(allowed)) as registry:
        await create(registry, KUBELET, NODE_REQUEST, username=sender)
        signed = await until(registry, lambda status: status.get("certificate"))
    (condition,) = signed["status"]["conditions"]
    assert condition["reason"] == "AutoApproved"
    assert condition["message"] == f"{message}SubjectAccessReview."


@pytest.mark.parametrize(
    ("signer", "allowed"),
    [(KUBELET, "selfnodeclient"), (CLIENT, "nodeclient"), ("example.com/x", "nodeclient")],
)
async def test_other_requests_wait_for_approval(pki: ServerPKI, signer: str, allowed: str) -> None:
    """One of another sender, and those for other signers."""
    async with running(pki, Allow(allowed)) as registry:
        await create(registry, signer, NODE_REQUEST, username="x")
        await registry.create(
            CSR,
            None,
            {
                "metadata": {"name": "later"},
                "spec": {"request": NODE_REQUEST, "signerName": CLIENT, "usages": USAGES},
            },
            manager="t",
        )

        def approve_later(obj: Object) -> Object:
            return {**obj, "status": {"conditions": [APPROVED]}}

        await registry.modify(
            CSR, None, "later", approve_later, manager="t", subresource="approval"
        )
        await until(registry, lambda status: status.get("certificate"), "later")
        assert not (await registry.get(CSR, None, "a")).get("status")


_DNS, _MAIL = x509.DNSName("n"), x509.RFC822Name("a@b.c")


@pytest.mark.parametrize(
    ("signer", "text", "usages", "message"),
    [
        (CLIENT, NODE_REQUEST, ["key encipherment"], "missing required usage for client "
         "certificate: client auth"),
        (CLIENT, NODE_REQUEST, ["client auth", "any"], "invalid usage for client certificate: any"),
        (KUBELET, request_text(NODE, "o"), USAGES, "subject organization is not system:nodes"),
        (KUBELET, request_text("n", "system:nodes"), USAGES, "subject common name does not begin "
         "with system:node:"),
        (KUBELET, request_text(NODE, "system:nodes", _DNS), USAGES, "DNS subjectAltNames are not "
         "allowed"),
        (KUBELET, NODE_REQUEST, ["client auth"], "usages did not match [client auth digital "
         "signature key encipherment]"),
        (SERVING, NODE_REQUEST, ["server auth"], "DNS or IP subjectAltName is required"),
        (SERVING, request_text(NODE, "system:nodes", _DNS, _MAIL), USAGES, "Email subjectAltNames "
         "are not allowed"),
    ],
)  # fmt: skip
async def test_unsuitable_request_fails(
    pki: ServerPKI, signer: str, text: str, usages: list[str], message: str
) -> None:
    async with running(pki, Allow()) as registry:
        await create(registry, signer, text, usages=usages)
        await approve(registry)
        failed = (await until(registry, is_decided))["status"]["conditions"][1]
    assert (failed["type"], failed["status"]) == ("Failed", "True")
    assert (failed["reason"], failed["message"]) == ("SignerValidationFailure", message)


@pytest.mark.parametrize(
    ("seconds", "lifetime"),
    [(600, 600 + 300), (8 * 3600 - 1, 8 * 3600 - 1 + 300), (8 * 3600, 8 * 3600)],
)
async def test_lifetime_is_that_of_the_request(pki: ServerPKI, seconds: int, lifetime: int) -> None:
    """Backdated by five minutes, which count for those of eight hours and longer only."""
    async with running(pki) as registry:
        text = request_text(NODE, "system:nodes", _DNS)
        await create(registry, SERVING, text, expirationSeconds=seconds, usages=[
            "digital signature", "server auth",
        ])  # fmt: skip
        await approve(registry)
        signed = await until(registry, is_decided)
    pem = base64.b64decode(signed["status"]["certificate"])
    certificate = x509.load_pem_x509_certificate(pem)
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    assert end - begin == timedelta(seconds=lifetime)
    key_usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert key_usage.digital_signature
    assert not key_usage.key_encipherment


async def test_old_requests_are_removed(pki: ServerPKI) -> None:
    """An hour after the decision."""
    async with running(pki, Allow()) as registry:
        old = timestamp(registry.now() - 3601)
        denied = {"type": "Denied", "status": "True", "lastUpdateTime": old}
        await create(registry, CLIENT, NODE_REQUEST)

        def deny(obj: Object) -> Object:
            return {**obj, "status": {"conditions": [denied]}}

        await registry.modify(CSR, None, "a", deny, manager="t", subresource="approval")
        async with asyncio.timeout(60):
            with pytest.raises(NotFound):
                while True:
                    await registry.get(CSR, None, "a")
                    await asyncio.sleep(0.01)
