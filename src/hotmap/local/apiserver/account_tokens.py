"""Issues tokens of service accounts: the subresource `token`, and the node's projected volumes.

pkg/registry/core/serviceaccount/storage/token.go.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from hotmap.core.errors import BadRequest, NotFound
from hotmap.local.apiserver.encoding import decode
from hotmap.local.apiserver.status import conflict, invalid
from hotmap.local.field_errors import FieldError, invalid_value
from hotmap.local.json_object import JsonObject
from hotmap.local.meta import timestamp
from hotmap.local.scheme import Kind, Names
from hotmap.local.service_tokens import ISSUER, BoundObject, Claims

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotmap.local.apiserver.reader import ObjectReader
    from hotmap.local.service_tokens import TokenSigner


_DEFAULT_LIFE, _MIN_LIFE, _MAX_LIFE = 3600, 600, 1 << 32
_TOKEN_REQUEST = Kind("authentication.k8s.io", ("v1",), Names("tokenrequests", "TokenRequest"))


class AccountTokens:
    """Makes tokens for the service accounts in a store."""

    def __init__(
        self, signer: TokenSigner, reader: ObjectReader, clock: Callable[[], float]
    ) -> None:
        self._signer = signer
        self._reader = reader
        self._clock = clock

    def of_secret(self, account: JsonObject, secret: JsonObject) -> str:
        """Make the token of an account that a Secret holds."""
        metadata = account["metadata"]
        bound = BoundObject("Secret", secret["metadata"]["name"], "")
        claims = Claims(
            metadata["namespace"], metadata["name"], metadata["uid"], (ISSUER,), 0, "", bound
        )
        return self._signer.sign_legacy(claims)

    def request(self, namespace: str, name: str, obj: JsonObject) -> JsonObject:
        """Answer a TokenRequest for an account.

        Raises:
            NotFound: the account, or what the token shall be bound to, does not exist.
            Invalid: the life is too short or too long.
            Conflict: what the token shall be bound to has another uid.
        """
        spec = obj.get("spec") or {}
        life = spec.get("expirationSeconds") or _DEFAULT_LIFE
        errors = _life_errors(life)
        if errors:
            raise invalid(_TOKEN_REQUEST, "", errors)
        audiences = tuple(spec.get("audiences") or (ISSUER,))
        account = self._get("serviceaccounts", namespace, name)
        reference = spec.get("boundObjectRef")
        bound = node = None
        if reference is not None:
            bound, node = self._bound(namespace, name, reference)
        expires = int(self._clock()) + life
        claims = Claims(
            namespace, name, account["metadata"]["uid"], audiences, expires, "", bound, node
        )
        token = self._signer.sign(claims)
        status = {"token": token, "expirationTimestamp": timestamp(expires)}
        wanted = {
            "audiences": list(audiences),
            "expirationSeconds": life,
            "boundObjectRef": reference,
        }
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": str(uuid.uuid4()),
                "creationTimestamp": timestamp(self._clock()),
            },
            "spec": wanted,
            "status": status,
        }

    def issue_for_pod(
        self, pod: Mapping[str, Any], *, audience: str, expiration_seconds: int
    ) -> str:
        """Make a token that is bound to a pod, for its node."""
        metadata, spec = pod["metadata"], pod["spec"]
        namespace = metadata["namespace"]
        name = spec.get("serviceAccountName", "default")
        try:
            uid = self._get("serviceaccounts", namespace, name)["metadata"]["uid"]
        except NotFound:
            # It is created a moment after its namespace; a token without a uid fits any.
            uid = ""
        claims = Claims(
            namespace,
            name,
            uid,
            (audience or ISSUER,),
            int(self._clock()) + expiration_seconds,
            "",
            BoundObject("Pod", metadata["name"], metadata["uid"]),
            self._node(spec["nodeName"]) if spec.get("nodeName") else None,
        )
        return self._signer.sign(claims)

    def _bound(
        self, namespace: str, account: str, reference: JsonObject
    ) -> tuple[BoundObject, BoundObject | None]:
        kind, name = reference.get("kind", ""), reference.get("name", "")
        if (reference.get("apiVersion"), kind) not in (
            ("v1", "Pod"),
            ("v1", "Secret"),
            ("v1", "Node"),
        ):
            group, _, version = str(reference.get("apiVersion", "")).rpartition("/")
            text = f"cannot bind token to object of type {group}/{version}, Kind={kind}"
            raise BadRequest(text)
        within = "" if kind == "Node" else namespace
        found = self._get(f"{kind.lower()}s", within, name)
        uid = found["metadata"]["uid"]
        if reference.get("uid") and reference["uid"] != uid:
            text = (
                f"the UID in the bound object reference ({reference['uid']}) does not match the "
                f"UID in record. The object might have been deleted and then recreated"
            )
            raise conflict(self._reader.scheme.resource(f"{kind.lower()}s"), name, text)
        node = None
        if kind == "Pod":
            spec = found["spec"]
            if spec.get("serviceAccountName") != account:
                raise BadRequest(
                    f'cannot bind token for serviceaccount "{account}" to pod running with '
                    f"different serviceaccount name."
                )
            if spec.get("nodeName"):
                node = self._node(spec["nodeName"])
        return BoundObject(kind, name, uid), node

    def _node(self, name: str) -> BoundObject | None:
        try:
            return BoundObject("Node", name, self._get("nodes", "", name)["metadata"]["uid"])
        except NotFound:
            return None

    def _get(self, resource: str, namespace: str, name: str) -> JsonObject:
        kind = self._reader.scheme.resource(resource)
        return decode(self._reader.entry(kind, namespace or None, name))


def _life_errors(life: int) -> list[FieldError]:
    path = "spec.expirationSeconds"
    if life < _MIN_LIFE:
        return [invalid_value(path, life, "may not specify a duration less than 10 minutes")]
    if life > _MAX_LIFE:
        return [invalid_value(path, life, "may not specify a duration larger than 2^32 seconds")]
    return []
