"""Certificate signing requests: their sender, and the rights to approve and sign them.

pkg/registry/certificates/certificates/strategy.go, plugin/pkg/admission/certificates,
pkg/certauthorization.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from hotmap.core.text import quote
from hotmap.local.access import Attributes
from hotmap.local.apiserver.status import forbidden
from hotmap.local.certificate_authority import parse_request
from hotmap.local.json_object import JsonObject
from hotmap.local.meta import timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotmap.local.access import Authorizer, UserInfo
    from hotmap.local.apiserver.plugins import AdmissionRequest

__all__ = ["CertificateRequestPlugin"]


_FIELDS = ("username", "uid", "groups", "extra")
_CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
_ADMINISTRATORS = "system:masters"


class CertificateRequestPlugin:
    """Write the sender into a request, and check the rights to approve and sign it.

    What a client says of the sender is dropped. *clock* gives POSIX seconds.
    """

    def __init__(self, authorizer: Authorizer, clock: Callable[[], float]) -> None:
        self._authorizer = authorizer
        self._clock = clock

    def admit(self, request: AdmissionRequest) -> None:
        if request.kind.kind != "CertificateSigningRequest":
            return
        if request.old is not None:
            if request.subresource:
                self._date_conditions(request.obj, request.old)
            return
        spec = request.obj.setdefault("spec", {})
        for field in _FIELDS:
            spec.pop(field, None)
        user = request.user.document()
        spec |= {field: user[field] for field in _FIELDS if user.get(field)}

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse administrators' certificates, approvals and signatures without the right to them.

        Raises:
            Forbidden: it is one of those.
        """
        if request.kind.kind != "CertificateSigningRequest" or request.deleted:
            return
        why = self._refusal(request)
        if why:
            raise forbidden(request.kind, request.obj["metadata"]["name"], why)

    def _refusal(self, request: AdmissionRequest) -> str:
        spec, user = request.obj["spec"], request.user
        signer, shown = spec["signerName"], quote(spec["signerName"])
        if request.subresource == "approval" and not self._may(user, "approve", signer):
            return f"user not permitted to approve requests with signerName {shown}"
        signs = request.subresource == "status" and _is_decided(request)
        if signs and not self._may(user, "sign", signer):
            return f"user not permitted to sign requests with signerName {shown}"
        if request.subresource or signer != _CLIENT_SIGNER:
            return ""
        wanted = parse_request(base64.b64decode(spec["request"]))
        if _ADMINISTRATORS in wanted.organizations:
            return f"use of {signer} signer with {_ADMINISTRATORS} group is not allowed"
        return ""

    def _may(self, user: UserInfo, verb: str, signer: str) -> bool:
        """Return whether a user may act for a signer, or for all of its domain."""
        attributes = Attributes(user, verb, "certificates.k8s.io", "signers")
        names = (signer, f"{signer.partition('/')[0]}/*")
        return any(
            self._authorizer.authorize(attributes._replace(name=name)).allowed for name in names
        )

    def _date_conditions(self, obj: JsonObject, old: JsonObject) -> None:
        now = timestamp(self._clock())
        before = {
            (each.get("type"), each.get("status")): each.get("lastTransitionTime")
            for each in (old.get("status") or {}).get("conditions") or ()
        }
        for condition in (obj.get("status") or {}).get("conditions") or ():
            key = condition.get("type"), condition.get("status")
            if not condition.get("lastUpdateTime"):
                condition["lastUpdateTime"] = now
            if not condition.get("lastTransitionTime"):
                condition["lastTransitionTime"] = before.get(key) or now


def _is_decided(request: AdmissionRequest) -> bool:
    """Return whether an update of a status changes the certificate or the conditions."""
    before, after = (request.old or {}).get("status") or {}, request.obj.get("status") or {}
    return any(before.get(field) != after.get(field) for field in ("certificate", "conditions"))
