"""Approves, signs and removes certificate signing requests.

kubernetes: pkg/controller/certificates (approver, signer, cleaner). Requests for certificates of
kubelets are approved by themselves where their sender has the right to that; all others wait for
`kubectl certificate approve`.
"""

from __future__ import annotations

import base64
import contextlib
import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from hotmap.core.errors import NotFound
from hotmap.local.access import Attributes, UserInfo
from hotmap.local.certificate_authority import parse_request
from hotmap.local.controllers.controller import Controller, ControllerContext
from hotmap.local.json_object import JsonObject
from hotmap.local.meta import MANAGER, Object, ObjectName, parse_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from hotmap.local.access import Authorizer
    from hotmap.local.certificate_authority import CertificateAuthority, CertificateRequest

__all__ = ["CertificateController", "CertificateSigning"]


_RESOURCE = "certificatesigningrequests"
_PREFIX = "kubernetes.io/"
_CLIENT = f"{_PREFIX}kube-apiserver-client"
_KUBELET_CLIENT = f"{_PREFIX}kube-apiserver-client-kubelet"
_KUBELET_SERVING = f"{_PREFIX}kubelet-serving"
_SIGNERS = (_CLIENT, _KUBELET_CLIENT, _KUBELET_SERVING, f"{_PREFIX}legacy-unknown")
_NODE_PREFIX = "system:node:"
# --cluster-signing-duration, and signer.go: duration, sign.
_LIFETIME = timedelta(days=365)
_LEAST_LIFETIME = timedelta(minutes=10)
_BACKDATE = timedelta(minutes=5)
_SHORT = timedelta(hours=8)
# Seconds after which a request is removed (cleaner.go).
_DECIDED_EXPIRATION = 3600.0
_PENDING_EXPIRATION = 24 * 3600.0


class CertificateSigning(NamedTuple):
    """What signs, and what decides whether a kubelet's request needs no approval."""

    authority: CertificateAuthority
    authorizer: Authorizer


class CertificateController(Controller[ObjectName]):
    """Issue certificates of the plane's authority."""

    def __init__(self, context: ControllerContext, signing: CertificateSigning) -> None:
        super().__init__(context, "certificates")
        self._authority, self._authorizer = signing
        self._requests = self._informers[_RESOURCE]
        self._requests.subscribe(self._add_changed)

    async def sync(self, key: ObjectName) -> None:
        """Approve, sign or remove one request."""
        request = self._requests.objects.get(key)
        if request is None:
            return
        with contextlib.suppress(NotFound):
            left = _expiration(request) - self._clock()
            if left <= 0:
                await self._client.delete(_RESOURCE, None, key[1])
                return
            if math.isfinite(left):
                self._loop.add_after(key, left)
            await self._decide(request)

    async def _decide(self, request: Object) -> None:
        status = request.get("status") or {}
        types = {condition.get("type") for condition in _conditions(request)}
        if status.get("certificate") or request["spec"]["signerName"] not in _SIGNERS:
            return
        wanted = parse_request(base64.b64decode(request["spec"]["request"]))
        if not types & {"Approved", "Denied"}:
            message = self._approval(request, wanted)
            if message:
                await self._add_condition(
                    request, "approval", ("Approved", "AutoApproved", message)
                )
            return
        if "Approved" not in types or "Failed" in types:
            return
        why = _refusal(request["spec"]["signerName"], wanted, request["spec"]["usages"])
        if why:
            condition = ("Failed", "SignerValidationFailure", why)
            await self._add_condition(request, "status", condition)
            return
        await self._write(request, "status", {**status, "certificate": self._sign(request)})

    def _approval(self, request: Object, wanted: CertificateRequest) -> str:
        """Return why a request needs no approval, "" where it does."""
        spec = request["spec"]
        if spec["signerName"] != _KUBELET_CLIENT:
            return ""
        if _refusal(_KUBELET_CLIENT, wanted, spec["usages"]):
            return ""
        user = UserInfo(spec.get("username", ""), tuple(spec.get("groups") or ()))
        attributes = Attributes(user, "create", "certificates.k8s.io", _RESOURCE)
        own = user.name == wanted.common_name
        for subresource, kind in (("selfnodeclient", "self kubelet"), ("nodeclient", "kubelet")):
            if subresource == "selfnodeclient" and not own:
                continue
            asked = attributes._replace(subresource=subresource)
            if self._authorizer.authorize(asked).allowed:
                return f"Auto approving {kind} client certificate after SubjectAccessReview."
        return ""

    def _sign(self, request: Object) -> str:
        spec = request["spec"]
        seconds = spec.get("expirationSeconds")
        lifetime = _LIFETIME
        if seconds is not None:
            lifetime = max(_LEAST_LIFETIME, min(_LIFETIME, timedelta(seconds=seconds)))
        now = datetime.fromtimestamp(self._clock(), UTC).replace(microsecond=0)
        end = now + lifetime if lifetime < _SHORT else now + lifetime - _BACKDATE
        pem = self._authority.sign(
            base64.b64decode(spec["request"]), spec["usages"], begin=now - _BACKDATE, end=end
        )
        return base64.b64encode(pem.encode()).decode()

    async def _add_condition(
        self, request: Object, subresource: str, condition: tuple[str, str, str]
    ) -> None:
        kind, reason, message = condition
        added = {"type": kind, "status": "True", "reason": reason, "message": message}
        conditions = [*_conditions(request), added]
        status = {**(request.get("status") or {}), "conditions": conditions}
        await self._write(request, subresource, status)

    async def _write(self, request: Object, subresource: str, status: JsonObject) -> None:
        await self._client.update(
            _RESOURCE,
            None,
            request["metadata"]["name"],
            {**request, "status": status},
            manager=MANAGER,
            subresource=subresource,
        )


def _conditions(request: Object) -> list[JsonObject]:
    return list((request.get("status") or {}).get("conditions") or ())


def _expiration(request: Object) -> float:
    """Return when a request is removed, in POSIX seconds."""
    return min(_expirations(request), default=math.inf)


def _expirations(request: Object) -> Iterator[float]:
    conditions = _conditions(request)
    issued = bool((request.get("status") or {}).get("certificate"))
    if not conditions:
        yield parse_time(request["metadata"]["creationTimestamp"]) + _PENDING_EXPIRATION
    for condition in conditions:
        if not condition.get("lastUpdateTime"):
            continue
        updated = parse_time(condition["lastUpdateTime"])
        if condition["type"] in ("Denied", "Failed") or issued:
            yield updated + _DECIDED_EXPIRATION
        elif condition["type"] == "Approved":
            yield updated + _PENDING_EXPIRATION


def _refusal(signer: str, wanted: CertificateRequest, usages: Collection[str]) -> str:
    """Return why a signer does not sign a request; "" if it does (helpers.go)."""
    if signer == _CLIENT:
        return _client_refusal(usages)
    if signer == _KUBELET_CLIENT:
        return _kubelet_refusal(wanted, usages, serving=False)
    if signer == _KUBELET_SERVING:
        return _kubelet_refusal(wanted, usages, serving=True)
    return ""


def _client_refusal(usages: Collection[str]) -> str:
    for usage in usages:
        if usage not in ("digital signature", "key encipherment", "client auth"):
            return f"invalid usage for client certificate: {usage}"
    if "client auth" not in usages:
        return "missing required usage for client certificate: client auth"
    return ""


def _kubelet_refusal(wanted: CertificateRequest, usages: Collection[str], *, serving: bool) -> str:
    usage = "server auth" if serving else "client auth"
    full = sorted({"digital signature", "key encipherment", usage})
    if wanted.organizations != ("system:nodes",):
        return "subject organization is not system:nodes"
    if serving and not (wanted.dns_names or wanted.addresses):
        return "DNS or IP subjectAltName is required"
    names = [("Email", wanted.emails), ("URI", wanted.uris)]
    if not serving:
        names = [
            ("DNS", wanted.dns_names),
            ("Email", wanted.emails),
            ("IP", wanted.addresses),
            ("URI", wanted.uris),
        ]
    for kind, found in names:
        if found:
            return f"{kind} subjectAltNames are not allowed"
    if set(usages) not in (set(full), set(full) - {"key encipherment"}):
        return f"usages did not match [{' '.join(full)}]"
    if not wanted.common_name.startswith(_NODE_PREFIX):
        return "subject common name does not begin with system:node:"
    return ""
