"""Who asks, and what for: the values between authentication, authorization and reviews.

kubernetes: apiserver/pkg/authentication/user and apiserver/pkg/authorization/authorizer.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from hotmap.local.json_object import JsonObject

__all__ = [
    "ADMINISTRATORS",
    "ANONYMOUS",
    "SYSTEM",
    "Attributes",
    "Authorizer",
    "Decision",
    "Reviewer",
    "UserInfo",
    "account_name",
    "user_named",
]

#: The group whose members may do anything.
ADMINISTRATORS = "system:masters"
_AUTHENTICATED = "system:authenticated"
_ACCOUNTS = "system:serviceaccounts"
_ACCOUNT_PREFIX = "system:serviceaccount:"


class UserInfo(NamedTuple):
    """A user; `extra` is in the form of authentication.k8s.io's UserInfo."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def document(self) -> JsonObject:
        """Return the user as authentication.k8s.io's UserInfo."""
        found: JsonObject = {"username": self.name}
        if self.uid:
            found["uid"] = self.uid
        if self.groups:
            found["groups"] = list(self.groups)
        if self.extra:
            found["extra"] = {key: list(values) for key, values in self.extra}
        return found


ANONYMOUS = UserInfo("system:anonymous", ("system:unauthenticated",))
#: The control plane's own components, which are in this process.
SYSTEM = UserInfo("system:apiserver", (ADMINISTRATORS, _AUTHENTICATED))


def user_named(name: str) -> UserInfo:
    """Return a user whose groups follow from the name."""
    if name == ADMINISTRATORS:
        return UserInfo(name, (ADMINISTRATORS, _AUTHENTICATED))
    account = account_name(name)
    if account is not None:
        # serviceaccount.MakeGroupNames
        return UserInfo(name, (_ACCOUNTS, f"{_ACCOUNTS}:{account[0]}", _AUTHENTICATED))
    return UserInfo(name, (_AUTHENTICATED,))


def account_name(user: str) -> tuple[str, str] | None:
    """Split the name of a service account's user into namespace and name, None for others."""
    namespace, colon, name = user.removeprefix(_ACCOUNT_PREFIX).partition(":")
    if not user.startswith(_ACCOUNT_PREFIX) or not colon or not namespace or not name:
        return None
    return namespace, name


class Attributes(NamedTuple):
    """What a request wants to do with a resource, or with a path that is not a resource."""

    user: UserInfo
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    #: The path of a request that is not for a resource.
    path: str = ""


class Decision(NamedTuple):
    """Whether something is allowed, and why, where there is more to say."""

    allowed: bool
    reason: str = ""


class Authorizer(Protocol):
    """Decides what users may do."""

    def authorize(self, attributes: Attributes) -> Decision: ...

    def rules_for(
        self, user: UserInfo, namespace: str
    ) -> tuple[list[JsonObject], list[JsonObject]]:
        """Return a user's rules for resources in a namespace, and those for other paths."""
        ...


class TokenAuthenticator(Protocol):
    """Finds the user of a token."""

    def user_of(self, token: str, audiences: tuple[str, ...] = ()) -> UserInfo | None: ...


class Reviewer(NamedTuple):
    """What kinds that are questions are answered from."""

    user: UserInfo
    authorizer: Authorizer
    tokens: TokenAuthenticator
