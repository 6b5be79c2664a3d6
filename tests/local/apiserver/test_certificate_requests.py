"""CertificateSigningRequests: who sends them, what is valid, who may approve and sign."""

from __future__ import annotations

import base64
import random
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hotmap.core.errors import ApiError, Invalid
from hotmap.local.access import Attributes, Decision, UserInfo
from hotmap.local.apiserver.authorization import AllowAll
from hotmap.local.apiserver.plugins import AdmissionChain
from hotmap.local.apiserver.plugins.certificate_requests import CertificateRequestPlugin
from hotmap.local.certificate_authority import parse_request

if TYPE_CHECKING:
    from hotmap.local.apiserver.registry import Registry

CSR = "certificatesigningrequests"
CLIENT = "kubernetes.io/kube-apiserver-client"
APPROVED = {"type": "Approved", "status": "True", "reason": "a", "message": "b"}
KEY = ec.generate_private_key(ec.SECP256R1())


def request_text(common_name: str = "jane", *organizations: str) -> str:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    names.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    signed = builder.sign(KEY, hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


JANE = request_text()


def request(name: str = "a", **spec: Any) -> dict[str, Any]:
    wanted = {"request": JANE, "signerName": CLIENT, "usages": ["client auth"], **spec}
    return {"metadata": {"name": name}, "spec": wanted}


async def create(registry: Registry, obj: dict[str, Any], **options: Any) -> dict[str, Any]:
    return await registry.create(CSR, None, obj, manager="t", **options)


async def write(
    registry: Registry, subresource: str, status: dict[str, Any], **options: Any
) -> dict[str, Any]:
    obj = await registry.get(CSR, None, "a")
    changed = {**obj, "status": status}
    return await registry.update(
        CSR, None, "a", changed, manager="t", subresource=subresource, **options
    )


class AllowNames(AllowAll):
    """Allows signers by their names only."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def authorize(self, attributes: Attributes) -> Decision:
        assert (attributes.group, attributes.resource) == ("certificates.k8s.io", "signers")
        return Decision(f"{attributes.verb} {attributes.name}" in self._names)


async def test_update_of_the_spec_changes_nothing(registry: Registry) -> None:
    """Nor who owns it, so that there is no other version."""
    made = await create(registry, request())
    patch = {"spec": {"usages": ["any"]}}
    assert await registry.patch(CSR, None, "a", patch, kind="merge", manager="m2") == made


@pytest.fixture
def plugin(registry: Registry) -> None:
    registry.writer.plugins = AdmissionChain([CertificateRequestPlugin(AllowAll(), registry.now)])


@pytest.mark.usefixtures("plugin")
async def test_request_names_its_authenticated_sender(registry: Registry) -> None:
    created = await create(
        registry, request(username="root", uid="0"), user=UserInfo("jane", ("devs",))
    )
    assert created["spec"]["username"] == "jane"
    assert created["spec"]["groups"] == ["devs"]
    assert "uid" not in created["spec"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"request": "Zm9v"}, "Invalid value: .*: PEM block type must be CERTIFICATE REQUEST"),
        ({"usages": []}, "spec.usages: Required value"),
        ({"usages": ["any", "any"]}, r'spec.usages\[1\]: Duplicate value: "any"'),
        ({"usages": ["x"]}, r'spec.usages\[0\]: Unsupported value: "x": supported values: "any", '),
        ({"signerName": ""}, "spec.signerName: Required value"),
        ({"signerName": "a"}, "must be a fully qualified domain and path of the form"),
        ({"signerName": "a/b"}, "should be a domain with at least two segments separated by dots"),
        ({"signerName": "A.b/c"}, 'Invalid value: "A.b": validating label "A": a lowercase'),
        ({"signerName": "a.b/C"}, 'Invalid value: "C": validating label "C": a lowercase'),
        ({"signerName": "kubernetes.io/legacy-unknown"}, "the legacy signerName is not allowed"),
        ({"expirationSeconds": 599}, "may not specify a duration less than 600 seconds"),
    ],
)
async def test_invalid_request_is_refused(
    registry: Registry, spec: dict[str, Any], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        await create(registry, request(**spec))


async def test_request_of_another_key_is_refused(registry: Registry) -> None:
    """The signature does not fit to what it signs."""
    forged = base64.b64decode(JANE).replace(b"\n", b"")
    body = bytearray(base64.b64decode(forged.split(b"-----")[2]))
    body[body.index(b"jane")] ^= 1
    pem = b"-----BEGIN CERTIFICATE REQUEST-----\n" + base64.b64encode(bytes(body))
    text = base64.b64encode(pem + b"\n-----END CERTIFICATE REQUEST-----\n").decode()
    with pytest.raises(Invalid, match="x509: ECDSA verification failure"):
        await create(registry, request(request=text))


@pytest.mark.usefixtures("plugin")
async def test_administrators_are_not_certified(registry: Registry) -> None:
    with pytest.raises(ApiError, match="with system:masters group is not allowed") as refused:
        await create(registry, request(request=request_text("jane", "system:masters")))
    assert refused.value.code == 403


async def test_spec_and_status_change_by_subresources_only(registry: Registry) -> None:
    created = await create(registry, {**request(), "status": {"conditions": [APPROVED]}})
    assert "conditions" not in created["status"]
    changed = await registry.update(
        CSR, None, "a", {**request(usages=["any"]), "status": {"conditions": [APPROVED]}},
        manager="t",
    )  # fmt: skip
    assert changed["spec"] == created["spec"]
    assert "conditions" not in changed["status"]


@pytest.mark.usefixtures("plugin")
async def test_approval_is_dated_and_cannot_be_taken_back(registry: Registry) -> None:
    await create(registry, request())
    with pytest.raises(Invalid, match='updates may not add a condition of type "Approved"'):
        await write(registry, "status", {"conditions": [APPROVED]})
    approved = await write(registry, "approval", {"conditions": [APPROVED], "certificate": "YQ=="})
    assert set(approved["status"]) == {"conditions"}
    assert approved["status"]["conditions"][0]["lastUpdateTime"] == "2023-11-14T22:13:20Z"
    for subresource in ("approval", "status"):
        with pytest.raises(Invalid, match='may not remove a condition of type "Approved"'):
            await write(registry, subresource, {})
    denied = {**APPROVED, "type": "Denied"}
    with pytest.raises(Invalid, match="Approved and Denied conditions are mutually exclusive"):
        await write(registry, "approval", {"conditions": [APPROVED, denied]})
    kept = await write(registry, "status", {"conditions": [{**APPROVED, "message": "other"}]})
    assert kept["status"]["conditions"] == approved["status"]["conditions"]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ({"type": "Failed", "status": "False"}, 'Unsupported value: "False": .*: "True"$'),
        ({"type": "X", "status": "Y"}, 'supported values: "False", "True", "Unknown"'),
        ({"type": "X"}, r"status.conditions\[0\].status: Required value"),
        ({"status": "True"}, r"status.conditions\[0\].type: Required value"),
    ],
)
async def test_invalid_condition_is_refused(
    registry: Registry, condition: dict[str, Any], message: str
) -> None:
    await create(registry, request())
    with pytest.raises(Invalid, match=message):
        await write(registry, "status", {"conditions": [condition]})


async def test_certificate_is_written_once(registry: Registry, pki: Any) -> None:
    await create(registry, request())
    with pytest.raises(Invalid, match="must contain at least one CERTIFICATE PEM block"):
        await write(registry, "status", {"certificate": "YWJj"})
    key = base64.b64encode(b"-----BEGIN X-----\nYWJj\n-----END X-----\n").decode()
    with pytest.raises(Invalid, match='only CERTIFICATE PEM blocks are allowed, found "X"'):
        await write(registry, "status", {"certificate": key})
    first = base64.b64encode(pki.ca_certificate.read_bytes()).decode()
    await write(registry, "status", {"certificate": first})
    second = base64.b64encode(pki.server_certificate.read_bytes()).decode()
    with pytest.raises(Invalid, match="updates may not modify existing certificate content"):
        await write(registry, "status", {"certificate": second})


async def test_approval_and_signature_need_the_right_to_the_signer(registry: Registry) -> None:
    """For the signer by its name, or for all of its domain."""
    await create(registry, request())

    def allow(*names: str) -> None:
        plugin = CertificateRequestPlugin(AllowNames(*names), registry.now)
        registry.writer.plugins = AdmissionChain([plugin])

    allow(f"sign {CLIENT}")
    with pytest.raises(ApiError, match=f'not permitted to approve .* signerName "{CLIENT}"'):
        await write(registry, "approval", {"conditions": [APPROVED]}, user=UserInfo("jane"))
    failed = {"conditions": [{"type": "Failed", "status": "True"}]}
    allow(f"approve {CLIENT}")
    with pytest.raises(ApiError, match=f'not permitted to sign .* signerName "{CLIENT}"'):
        await write(registry, "status", failed, user=UserInfo("jane"))
    allow("sign kubernetes.io/*")
    await write(registry, "status", failed, user=UserInfo("jane"))


def test_malformed_requests_are_reported_as_such() -> None:
    """Changed at random, with a seed; keys of unknown kinds among them."""
    der = base64.b64decode(b"".join(base64.b64decode(JANE).split(b"\n")[1:-2]))
    randomness = random.Random(1)
    refused = 0
    for _ in range(2_000):
        changed = bytearray(der)
        changed[randomness.randrange(len(changed))] = randomness.randrange(256)
        body = base64.encodebytes(bytes(changed))
        pem = b"-----BEGIN CERTIFICATE REQUEST-----\n%s-----END CERTIFICATE REQUEST-----\n" % body
        try:
            refused += bool(parse_request(pem).signature_error)
        except ValueError:
            refused += 1
    assert refused > 1_000
