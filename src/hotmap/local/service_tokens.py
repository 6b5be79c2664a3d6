"""Tokens of service accounts: signed by the control plane's key, so that none has to be kept.

kubernetes: pkg/serviceaccount (claims.go, jwt.go). ES256 instead of upstream's RS256: elliptic keys
are made in a millisecond. `cryptography` is imported when the first token is made.
"""

from __future__ import annotations

import base64
import hashlib
import time
import uuid
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

__all__ = ["ISSUER", "BoundObject", "Claims", "TokenSigner"]


#: kubeadm's --service-account-issuer, which is also the audience of the API server.
ISSUER = "https://kubernetes.default.svc.cluster.local"
_COORDINATE = 32
# Seconds after which the node renews a token (claims.go: WarnOnlyBoundTokenExpirationPeriod).
_WARN_AFTER = 3607


# Of tokens in Secrets (pkg/serviceaccount/legacy.go), and the beginning of their claims' names.
_LEGACY_ISSUER = "kubernetes/serviceaccount"
_LEGACY = "kubernetes.io/serviceaccount/"


class BoundObject(NamedTuple):
    """The object that a token is bound to; its uid is "" if the token does not have it."""

    kind: str
    name: str
    uid: str


class Claims(NamedTuple):
    """What a valid token says; times are POSIX seconds, 0 for never."""

    namespace: str
    account: str
    account_uid: str
    audiences: tuple[str, ...]
    expires: int
    token_id: str
    bound: BoundObject | None = None
    node: BoundObject | None = None


class TokenSigner:
    """Makes and reads tokens."""

    def __init__(self, key: Path, *, clock: Callable[[], float] = time.time) -> None:
        """Use the private key in a PEM file, which is read when it is first needed."""
        self._path = key
        self._clock = clock
        self._key: EllipticCurvePrivateKey | None = None
        self._key_id = ""

    def sign(self, claims: Claims) -> str:
        """Make a token; its `expires` counts, its `token_id` is made here."""
        now = int(self._clock())
        kubernetes: JsonObject = {
            "namespace": claims.namespace,
            "serviceaccount": {"name": claims.account, "uid": claims.account_uid},
        }
        for bound in (claims.bound, claims.node):
            if bound is not None:
                kubernetes[bound.kind.lower()] = {"name": bound.name, "uid": bound.uid}
        if claims.bound is not None and claims.bound.kind == "Pod":
            kubernetes["warnafter"] = now + _WARN_AFTER
        payload = {
            "aud": list(claims.audiences),
            "exp": claims.expires,
            "iat": now,
            "iss": ISSUER,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": kubernetes,
            "nbf": now,
            "sub": f"system:serviceaccount:{claims.namespace}:{claims.account}",
        }
        return self._signed(payload)

    def sign_legacy(self, claims: Claims) -> str:
        """Make a token that does not expire, for the Secret that it is bound to (LegacyClaims)."""
        assert claims.bound is not None
        return self._signed(
            {
                "iss": _LEGACY_ISSUER,
                f"{_LEGACY}namespace": claims.namespace,
                f"{_LEGACY}secret.name": claims.bound.name,
                f"{_LEGACY}service-account.name": claims.account,
                f"{_LEGACY}service-account.uid": claims.account_uid,
                "sub": f"system:serviceaccount:{claims.namespace}:{claims.account}",
            }
        )

    def _signed(self, payload: JsonObject) -> str:
        key = self._load()
        signed = f"{_b64({'alg': 'ES256', 'kid': self._key_id})}.{_b64(payload)}"
        return f"{signed}.{_encode(_sign(key, signed.encode()))}"

    def verify(self, token: str) -> Claims | None:
        """Read a token; None where it was not made with this key, or has expired."""
        signed, _, signature = token.rpartition(".")
        header, dot, payload = signed.partition(".")
        try:
            claims: JsonObject = msgspec.json.decode(_decode(payload))
            algorithm = msgspec.json.decode(_decode(header)).get("alg")
            if not dot or algorithm != "ES256" or claims["iss"] not in (ISSUER, _LEGACY_ISSUER):
                return None
            if not _is_signed(self._load(), signed.encode(), _decode(signature)):
                return None
            if claims["iss"] == _LEGACY_ISSUER:
                return _legacy_claims(claims)
            if not claims["nbf"] - 60 <= self._clock() < claims["exp"]:
                return None
            return _claims(claims)
        except (ValueError, KeyError, TypeError, AttributeError, msgspec.DecodeError):
            return None

    def configuration(self, server: str) -> JsonObject:
        """Return the OpenID provider configuration of a server, which is HOST:PORT."""
        return {
            "issuer": ISSUER,
            "jwks_uri": f"https://{server}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    def key_set(self) -> JsonObject:
        """Return the public key as a JSON Web Key Set."""
        numbers = self._load().public_key().public_numbers()
        key = {
            "use": "sig",
            "kty": "EC",
            "kid": self._key_id,
            "crv": "P-256",
            "alg": "ES256",
            "x": _encode(numbers.x.to_bytes(_COORDINATE, "big")),
            "y": _encode(numbers.y.to_bytes(_COORDINATE, "big")),
        }
        return {"keys": [key]}

    def _load(self) -> EllipticCurvePrivateKey:
        if self._key is None:
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.asymmetric import ec

            key = serialization.load_pem_private_key(self._path.read_bytes(), None)
            if not isinstance(key, ec.EllipticCurvePrivateKey):
                raise TypeError(f"{self._path} is not an elliptic-curve key")
            public = key.public_key().public_bytes(
                serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            self._key_id = _encode(hashlib.sha256(public).digest())
            self._key = key
        return self._key


def _claims(claims: JsonObject) -> Claims:
    private = claims["kubernetes.io"]
    bound = None
    for kind in ("Pod", "Secret", "Node"):
        found = private.get(kind.lower())
        if found is not None:
            bound = BoundObject(kind, found["name"], found["uid"])
            break
    account = private["serviceaccount"]
    return Claims(
        private["namespace"],
        account["name"],
        account["uid"],
        tuple(claims["aud"]),
        claims["exp"],
        claims.get("jti", ""),
        bound,
        None if "node" not in private else BoundObject("Node", **private["node"]),
    )


def _legacy_claims(claims: JsonObject) -> Claims:
    name, uid = (claims[f"{_LEGACY}service-account.{part}"] for part in ("name", "uid"))
    bound = BoundObject("Secret", claims[f"{_LEGACY}secret.name"], "")
    return Claims(claims[f"{_LEGACY}namespace"], name, uid, (ISSUER,), 0, "", bound)


def _sign(key: EllipticCurvePrivateKey, data: bytes) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    numbers = decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
    return b"".join(number.to_bytes(_COORDINATE, "big") for number in numbers)


def _is_signed(key: EllipticCurvePrivateKey, data: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    if len(signature) != 2 * _COORDINATE:
        return False
    r, s = signature[:_COORDINATE], signature[_COORDINATE:]
    der = encode_dss_signature(int.from_bytes(r, "big"), int.from_bytes(s, "big"))
    try:
        key.public_key().verify(der, data, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def _b64(document: JsonObject) -> str:
    return _encode(msgspec.json.encode(document))


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
