"""Where a request to `pods/NAME/proxy` or `services/NAME/proxy` goes, and what it looks like there.

kubernetes: pkg/registry/core/{pod/strategy.go,service/storage/storage.go} (ResourceLocation) and
apimachinery/pkg/util/proxy.
"""

from __future__ import annotations

import posixpath
import random
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlsplit

from multidict import CIMultiDict

from hotmap.core.errors import BadRequest, api_error
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from multidict import MultiMapping

    from hotmap.core.errors import ApiError

__all__ = [
    "Location",
    "ProxiedName",
    "ProxiedPath",
    "endpoint_of",
    "is_number",
    "option_object",
    "pod_port",
    "proxied_path",
    "request_headers",
    "response_headers",
    "rewrite_url",
    "service_port",
    "unreachable",
]


_SCHEMES = ("", "http", "https")
_LAST_PORT = 65535
_DIGITS = 18
#: What Go leaves as it is in a path (net/url: shouldEscape, encodePath), beside letters and digits.
_PATH_CHARACTERS = "/$&+,:;=@-_.~!*'()"

# net/http/httputil: hopHeaders.
_HOP_BY_HOP = frozenset(
    (
        "connection",
        "proxy-connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
# Headers by which a client authenticates to the API server; no backend may get them.
_CREDENTIALS = (
    "authorization",
    "impersonate-user",
    "impersonate-group",
    "impersonate-uid",
    "impersonate-extra-",
    "x-remote-user",
    "x-remote-group",
    "x-remote-uid",
    "x-remote-extra-",
)
_WEBSOCKET_TOKEN = "base64url.bearer.authorization.k8s.io."
_WEBSOCKET_PROTOCOLS = "Sec-WebSocket-Protocol"
# apimachinery/pkg/util/proxy/upgradeaware.go: corsRemovingTransport.
_CORS = (
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
)


class ProxiedName(NamedTuple):
    """The name in a path as `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`; what is left out is ""."""

    scheme: str
    name: str
    port: str

    @classmethod
    def parse(cls, text: str, kind: str) -> ProxiedName:
        """Read a name.

        Raises:
            BadRequest: it has another form, or a scheme other than http and https.
        """
        parts = text.split(":")
        scheme, name, port = {
            1: ("", *parts, ""),
            2: ("", *parts),
            3: tuple(parts),
        }.get(len(parts), ("", "", ""))
        if not name or scheme not in _SCHEMES:
            raise BadRequest(f'invalid {kind} request "{text}"')
        return cls(scheme, name, port)


class Location(NamedTuple):
    """The place that serves a request; `port` 0 is the default one of the scheme."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        return f"{self.host}:{self.port}" if self.port else self.host

    @property
    def address(self) -> str:
        """What is dialled, as messages have it."""
        return f"{self.host}:{self.port or self.default_port}"

    @property
    def default_port(self) -> int:
        return 443 if self.scheme == "https" else 80


class ProxiedPath(NamedTuple):
    """What a path means behind the proxy, `prefix` without it; neither is escaped."""

    path: str
    prefix: str

    @property
    def escaped(self) -> str:
        return quote(self.path, safe=_PATH_CHARACTERS)

    @property
    def forwarded(self) -> str:
        """The path of the client, for X-Forwarded-Uri."""
        joined = _clean(f"{self.prefix}/{self.escaped}")
        return f"{joined}/" if self.path.endswith("/") and joined != "/" else joined


def proxied_path(whole: str, subpath: str) -> ProxiedPath:
    """Split a path at `proxy`; "" is behind it where the client has to ask with a slash."""
    path = _clean(f"/{subpath}") if subpath else ""
    if whole.endswith("/") and not path.endswith("/"):
        path += "/"
    return ProxiedPath(path, whole.removesuffix(path))


def _clean(path: str) -> str:
    """Remove what means nothing in a path (Go: path.Clean)."""
    return "/" + posixpath.normpath(path).lstrip("/")


def unavailable(text: str) -> ApiError:
    """Make the 503 for what cannot be reached."""
    return api_error(503, text, reason="ServiceUnavailable")


def unreachable(why: str) -> ApiError:
    """Make the 503 for a backend that does not answer."""
    return unavailable(f"error trying to reach service: {why}")


def pod_port(pod: JsonObject, wanted: str) -> int:
    """Return the port of a pod: the one that is named, or the first that a container has.

    Raises:
        Unavailable: what is named is not the number of a port.
    """
    if wanted:
        return _port_number(wanted)
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            return int(port["containerPort"])
    return 0


def _port_number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise unavailable(
            f"error trying to reach service: dial tcp: lookup tcp/{text}: unknown port"
        )
    if int(text) > _LAST_PORT:
        raise unavailable(f"error trying to reach service: dial tcp: address {text}: invalid port")
    return int(text)


def is_number(port: str) -> bool:
    """Return whether a port of a Service is given by its number, not by its name."""
    return port.isascii() and port.isdigit() and len(port) <= _DIGITS


def service_port(service: JsonObject, wanted: str) -> str:
    """Return the name of the port of a Service that has a number.

    Raises:
        Unavailable: none has it.
    """
    number = int(wanted)
    for port in service["spec"].get("ports") or ():
        if port["port"] == number:
            return str(port.get("name", ""))
    name = service["metadata"]["name"]
    raise unavailable(f'no service port {number} found for service "{name}"')


def endpoint_of(
    endpoints: JsonObject, requested: str, port: str, address_of: Callable[[str], str]
) -> tuple[str, int]:
    """Choose an address and a port of a Service, by the name of its port.

    Only what a Pod of the same namespace really has is an address: `address_of` knows it by the
    Pod's name. Who writes Endpoints can make the server reach nothing else.

    Raises:
        Unavailable: there is none.
    """
    namespace = endpoints["metadata"]["namespace"]
    subsets = list(endpoints.get("subsets") or ())
    random.shuffle(subsets)
    for subset in subsets:
        addresses = list(_pod_addresses(subset, namespace, address_of))
        for found in subset.get("ports") or ():
            if addresses and found.get("name", "") == port:
                return random.choice(addresses), int(found["port"])
    name = endpoints["metadata"]["name"]
    raise unavailable(
        f'no endpoints available for service "{requested if endpoints.get("subsets") else name}"'
    )


def _pod_addresses(
    subset: JsonObject, namespace: str, address_of: Callable[[str], str]
) -> Iterator[str]:
    for address in subset.get("addresses") or ():
        target = address.get("targetRef") or {}
        is_here = target.get("namespace") == namespace and target.get("kind", "Pod") == "Pod"
        if is_here and address["ip"] == address_of(target.get("name", "")):
            yield address["ip"]


def request_headers(
    headers: MultiMapping[str], *, client: str, forwarded_uri: str = "", upgrade: bool = False
) -> CIMultiDict[str]:
    """Return the headers of a request for the backend: without credentials and hop-by-hop ones.

    An `upgrade` keeps those that ask for it.
    """
    passed = _passed(headers, keep_hop_by_hop=upgrade)
    for name in [name for name in passed if name.lower().startswith(_CREDENTIALS)]:
        passed.popall(name, None)
    protocols = _without_tokens(passed.popall(_WEBSOCKET_PROTOCOLS, []))
    if protocols:
        passed[_WEBSOCKET_PROTOCOLS] = protocols
    # The server answers that itself.
    passed.popall("Expect", None)
    before = passed.popall("X-Forwarded-For", [])
    passed["X-Forwarded-For"] = ", ".join((*before, client))
    if forwarded_uri:
        passed["X-Forwarded-Uri"] = forwarded_uri
    return passed


def _without_tokens(lines: list[str]) -> str:
    """Leave out the token of a browser, which can send it in no other header."""
    protocols = [each.strip() for line in lines for each in line.split(",")]
    return ", ".join(each for each in protocols if not each.startswith(_WEBSOCKET_TOKEN))


def response_headers(headers: MultiMapping[str]) -> CIMultiDict[str]:
    """Return the headers of a backend's answer for the client."""
    passed = _passed(headers, keep_hop_by_hop=False)
    for name in _CORS:
        passed.popall(name, None)
    return passed


def _passed(headers: MultiMapping[str], *, keep_hop_by_hop: bool) -> CIMultiDict[str]:
    dropped = set() if keep_hop_by_hop else set(_HOP_BY_HOP)
    if not keep_hop_by_hop:
        for line in headers.getall("Connection", []):
            dropped.update(name.strip().lower() for name in line.split(","))
    return CIMultiDict((name, v) for name, v in headers.items() if name.lower() not in dropped)


def rewrite_url(url: str, *, prefix: str, backend: str, requested: str) -> str:
    """Make a URL that a backend gives for itself one behind the proxy.

    `backend` and `requested` are the hosts, with port, by which the backend may name itself.
    URLs of other hosts and relative ones stay as they are.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    if (parts.netloc and parts.netloc not in (backend, requested)) or parts.path[:1] != "/":
        return url
    if parts.netloc != requested:
        parts = parts._replace(scheme="", netloc="")
    if parts.path.startswith(prefix):
        return parts.geturl()
    path = _clean(f"{prefix}/{parts.path}")
    if parts.path.endswith("/") and not path.endswith("/"):
        path += "/"
    return parts._replace(path=path).geturl()


def option_object(kind: str, path: str) -> Mapping[str, str]:
    """Return the options of a proxied request as admission sees them."""
    return {"kind": kind, "apiVersion": "v1", **({"path": path} if path else {})}
