"""Clients that authenticate by a certificate which the plane has issued."""

from __future__ import annotations

import asyncio
import base64
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.local.cluster.clients import KubeconfigClient

from hotmap.local.cluster import LocalCluster, PlaneSettings

if TYPE_CHECKING:
    from pathlib import Path

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
CLIENT = "kubernetes.io/kube-apiserver-client"
KEY = ec.generate_private_key(ec.SECP256R1())


def request_text(common_name: str, *organizations: str) -> str:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    names.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    builder = builder.add_extension(
        x509.SubjectAlternativeName([x509.DNSName("jane.example.com")]), critical=False
    )
    signed = builder.sign(KEY, hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


async def approve(client: KubeconfigClient, name: str, text: str, **spec: Any) -> dict[str, Any]:
    """Send a request, approve it, and wait until it is decided."""
    wanted = {"request": text, "signerName": CLIENT, "usages": ["client auth"], **spec}
    made = await client.post(REQUESTS, {"metadata": {"name": name}, "spec": wanted})
    condition = {"type": "Approved", "status": "True", "reason": "t", "message": "t"}
    made["status"] = {"conditions": [condition]}
    await client.request("PUT", f"{REQUESTS}/{name}/approval", made)
    async with asyncio.timeout(60):
        while True:
            found = await client.get(f"{REQUESTS}/{name}")
            conditions = found["status"]["conditions"]
            if found["status"].get("certificate") or len(conditions) > 1:
                return found
            await asyncio.sleep(0.05)


async def test_issued_certificate_authenticates(tmp_path: Path) -> None:
    """The common name is the user, the organizations are its groups; RBAC decides about both."""
    settings = PlaneSettings(rbac=True)
    async with LocalCluster(tmp_path / "plane", start_node=False, settings=settings) as cluster:
        client = KubeconfigClient(cluster.kubeconfig)
        text = request_text("jane", "devs", "ops")
        issued = await approve(client, "jane", text, expirationSeconds=3600)
        pem = base64.b64decode(issued["status"]["certificate"])
        certificate = x509.load_pem_x509_certificate(pem)
        lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        assert lifetime.total_seconds() == 3600 + 300
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usages) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        assert names.value.get_values_for_type(x509.DNSName) == ["jane.example.com"]

        trust = ssl.create_default_context(cafile=str(cluster.ca_certificate))
        files = tmp_path / "jane.crt", tmp_path / "jane.key"
        files[0].write_bytes(pem)
        files[1].write_bytes(
            KEY.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        trust.load_cert_chain(*files)
        connector = aiohttp.TCPConnector(ssl=trust)
        async with aiohttp.ClientSession(cluster.server, connector=connector) as session:
            answer = await (await session.post(REVIEWS, json=REVIEW)).json()
            user = answer["status"]["userInfo"]
            assert (user["username"], user["groups"]) == (
                "jane",
                ["devs", "ops", "system:authenticated"],
            )
            fingerprint = certificate.fingerprint(hashes.SHA256()).hex()
            extra = {"authentication.kubernetes.io/credential-id": [f"X509SHA256={fingerprint}"]}
            assert user["extra"] == extra
            refused = await (await session.get("/api/v1/namespaces/default/pods")).json()
            assert refused["message"].startswith('pods is forbidden: User "jane" cannot list')
        refused = await approve(client, "server", text, usages=["server auth"])
        assert refused["status"]["conditions"][1] == {
            "type": "Failed",
            "status": "True",
            "reason": "SignerValidationFailure",
            "message": "invalid usage for client certificate: server auth",
            "lastUpdateTime": refused["status"]["conditions"][1]["lastUpdateTime"],
            "lastTransitionTime": refused["status"]["conditions"][1]["lastTransitionTime"],
        }


async def test_foreign_certificate_is_unauthorized(tmp_path: Path) -> None:
    """One that another authority has signed is answered 401, in both versions of TLS."""
    settings = PlaneSettings(rbac=True)
    async with LocalCluster(tmp_path / "plane", start_node=False, settings=settings) as cluster:
        own = x509.load_pem_x509_certificate(cluster.ca_certificate.read_bytes())
        for issuer in (own.subject, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "other")])):
            path = tmp_path / "jane.pem"
            path.write_bytes(forged_certificate(issuer, own))
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
                trust.load_cert_chain(path)
                trust.maximum_version = version
                connector = aiohttp.TCPConnector(ssl=trust)
                async with aiohttp.ClientSession(cluster.server, connector=connector) as session:
                    for place in ("/api", "/healthz"):
                        refused = await session.get(place)
                        assert refused.status == 401
                        assert (await refused.json())["reason"] == "Unauthorized"
                    headers = {"Authorization": f"Bearer {cluster.token}"}
                    assert (await session.get("/api", headers=headers)).status == 200


def forged_certificate(issuer: x509.Name, own: x509.Certificate) -> bytes:
    """Sign a certificate by its own key in the name of an issuer; its key follows."""
    forged = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")]))
        .issuer_name(issuer)
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(own.not_valid_before_utc)
        .not_valid_after(own.not_valid_after_utc)
        .sign(KEY, hashes.SHA256())
    )
    key = KEY.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return forged.public_bytes(serialization.Encoding.PEM) + key
