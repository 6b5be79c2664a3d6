"""Who sends a request: client certificates, bearer tokens, service accounts, impersonation.

kubernetes: pkg/kubeapiserver/authenticator, pkg/serviceaccount, and
apiserver/pkg/endpoints/filters/impersonation.go.
"""

from __future__ import annotations

import base64
import hmac
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from hotmap.core.errors import BadRequest, NotFound, Unauthorized
from hotmap.local.access import (
    ANONYMOUS,
    Attributes,
    UserInfo,
    account_name,
    user_named,
)
from hotmap.local.apiserver.authorization import check_allowed
from hotmap.local.apiserver.encoding import decode
from hotmap.local.apiserver.header_text import header_text
from hotmap.local.apiserver.streaming.protocols import protocol_token
from hotmap.local.service_tokens import ISSUER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from multidict import CIMultiDictProxy

    from hotmap.local.access import Authorizer
    from hotmap.local.apiserver.account_tokens import AccountTokens
    from hotmap.local.apiserver.client_certificates import ClientAuthority
    from hotmap.local.apiserver.reader import ObjectReader
    from hotmap.local.service_tokens import Claims, TokenSigner
    from hotmap.local.tokens import Tokens

_EXTRA = "authentication.kubernetes.io/"
_EXTRA_HEADER = "impersonate-extra-"


def bearer_token(headers: Mapping[str, str]) -> str:
    """Return the bearer token of a request, "" where it has none."""
    authorization = header_text(headers.get("Authorization", ""))
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else protocol_token(headers)


class Authenticator:
    """Identifies the user of a request by its client certificate or its bearer token.

    `anonymous` says whether a request without a token is one of `system:anonymous`; otherwise it
    is refused, as upstream's API server does it where everything is allowed. Without *clients*
    certificates name no user.
    """

    def __init__(
        self,
        tokens: Tokens,
        reader: ObjectReader,
        signer: TokenSigner | None = None,
        *,
        clients: ClientAuthority | None = None,
        anonymous: bool = False,
    ) -> None:
        self._tokens = tokens
        self._reader = reader
        self._signer = signer
        self._clients = clients
        self._anonymous = anonymous

    def authenticate(
        self, headers: Mapping[str, str], certificate: bytes | None = None
    ) -> UserInfo:
        """Name the user of a request: that of its connection's certificate, else of its token.

        Raises:
            Unauthorized: neither is valid, or it has none and needs one.
        """
        token, foreign = bearer_token(headers), False
        if certificate and self._clients is not None:
            try:
                user = self._clients.user(certificate)
            except ValueError:
                foreign = True
            else:
                if user is not None:
                    return user
        if not token and self._anonymous and not foreign:
            return ANONYMOUS
        user = self.user_of(token) if token else None
        if user is None:
            raise Unauthorized("Unauthorized")
        return user

    def user_of(self, token: str, audiences: tuple[str, ...] = ()) -> UserInfo | None:
        """Name the user of a token for one of some audiences, by default for this API server."""
        name = self._tokens.user(token)
        if name is not None:
            return user_named(name)
        claims = None if self._signer is None else self._signer.verify(token)
        if claims is None or not set(audiences or (ISSUER,)) & set(claims.audiences):
            return None
        return self._user_of_claims(claims) if self._is_alive(claims, token) else None

    def _user_of_claims(self, claims: Claims) -> UserInfo:
        user = user_named(f"system:serviceaccount:{claims.namespace}:{claims.account}")
        extra = []
        if claims.token_id:
            extra.append((f"{_EXTRA}credential-id", (f"JTI={claims.token_id}",)))
        if claims.node is not None:
            extra.append((f"{_EXTRA}node-name", (claims.node.name,)))
            extra.append((f"{_EXTRA}node-uid", (claims.node.uid,)))
        if claims.bound is not None and claims.bound.kind == "Pod":
            extra.append((f"{_EXTRA}pod-name", (claims.bound.name,)))
            extra.append((f"{_EXTRA}pod-uid", (claims.bound.uid,)))
        return user._replace(uid=claims.account_uid, extra=tuple(extra))

    def _is_alive(self, claims: Claims, token: str) -> bool:
        """Return whether the account and the bound object still exist and are the token's."""
        wanted = [("serviceaccounts", claims.namespace, claims.account, claims.account_uid)]
        if claims.bound is not None:
            kind, name, uid = claims.bound
            namespace = "" if kind == "Node" else claims.namespace
            wanted.append((f"{kind.lower()}s", namespace, name, uid))
        for resource, namespace, name, uid in wanted:
            kind_ = self._reader.scheme.resource(resource)
            try:
                found = decode(self._reader.entry(kind_, namespace or None, name))
            except NotFound:
                return False
            if uid and found["metadata"]["uid"] != uid:
                return False
            if resource == "secrets" and not uid and not _has_token(found, token):
                return False
        return True


def _has_token(secret: dict[str, Any], token: str) -> bool:
    """Return whether a Secret still has a token, which does not contain its uid (legacy.go)."""
    data = secret.get("data") or {}
    return hmac.compare_digest(base64.b64decode(data.get("token", "")), token.encode())


class ImpersonationError(BadRequest):
    """The 400 of a request that impersonates a user without a name."""


class Access(NamedTuple):
    """Who may do what; `account_tokens` is None where none are issued."""

    authenticator: Authenticator
    authorizer: Authorizer
    account_tokens: AccountTokens | None = None
    signer: TokenSigner | None = None


def impersonate(user: UserInfo, headers: CIMultiDictProxy[str], authorizer: Authorizer) -> UserInfo:
    """Return the user that a request wants to be, its own one where it says nothing.

    Raises:
        Forbidden: the sender may not impersonate that user.
        BadRequest: groups or extras come without a user.
    """
    name = header_text(headers.get("Impersonate-User", ""))
    groups = tuple(map(header_text, headers.getall("Impersonate-Group", [])))
    uid = header_text(headers.get("Impersonate-Uid", ""))
    extra = _extra(headers)
    if not name:
        if groups or uid or extra:
            wanted = ", ".join(f'"{group}"' for group in groups)
            shown = f'Name:"", UID:"{uid}", Groups:[]string{{{wanted}}}'
            raise ImpersonationError(
                f"requested &user.DefaultInfo{{{shown}, Extra:map[string][]string(nil)}} without "
                "impersonating a user name"
            )
        return user
    for attributes in _impersonations(user, UserInfo(name, groups, uid, extra)):
        check_allowed(authorizer, attributes)
    if not groups and account_name(name) is not None:
        groups = tuple(g for g in user_named(name).groups if g != "system:authenticated")
    if name != ANONYMOUS.name and ANONYMOUS.groups[0] not in groups:
        groups = tuple(dict.fromkeys((*groups, "system:authenticated")))
    elif ANONYMOUS.groups[0] not in groups:
        groups = (*groups, *ANONYMOUS.groups)
    return UserInfo(name, groups, uid, extra)


def _impersonations(user: UserInfo, wanted: UserInfo) -> Iterator[Attributes]:
    account = account_name(wanted.name)
    attributes = Attributes(user, "impersonate")
    if account is not None:
        yield attributes._replace(resource="serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield attributes._replace(resource="users", name=wanted.name)
    for group in wanted.groups:
        yield attributes._replace(resource="groups", name=group)
    attributes = attributes._replace(group="authentication.k8s.io")
    if wanted.uid:
        yield attributes._replace(resource="uids", name=wanted.uid)
    for key, values in wanted.extra:
        for value in values:
            yield attributes._replace(resource="userextras", subresource=key, name=value)


def _extra(headers: CIMultiDictProxy[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: dict[str, tuple[str, ...]] = {}
    for header, value in headers.items():
        if header.lower().startswith(_EXTRA_HEADER):
            key = unquote(header[len(_EXTRA_HEADER) :].lower())
            found[key] = (*found.get(key, ()), header_text(value))
    return tuple(found.items())
