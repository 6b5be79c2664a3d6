"""Which proxy leads to an API server: `proxy-url` of the kubeconfig, or the environment.

As kubectl decides it (client-go: rest.HTTPClientFor; golang.org/x/net/http/httpproxy): HTTPS_PROXY
for https servers, HTTP_PROXY for http servers, both also in lower case, unless NO_PROXY names the
server. This machine is never reached through a proxy of the environment.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from hotmap.core.errors import SettingsError

__all__ = ["PROXY_SCHEMES", "describe_proxy", "is_proxy", "is_socks", "proxy_from_environment"]

#: `socks5` and `socks5h` are the same: the proxy resolves names.
PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")

_PORTS = {"http": 80, "https": 443}


def is_proxy(url: str) -> bool:
    """Return whether a URL is one of a proxy that can be used."""
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0  # raises for a port out of range
    except ValueError:
        return False
    return parts.scheme in PROXY_SCHEMES and named and not any(map(str.isspace, url))


def is_socks(url: str) -> bool:
    """Return whether a proxy's URL is that of a SOCKS proxy."""
    return urlsplit(url).scheme in ("socks5", "socks5h")


def describe_proxy(url: str) -> str:
    """Return a proxy's URL without user and password, for messages."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def proxy_from_environment(server: str, environment: Mapping[str, str]) -> str:
    """Return the URL of the proxy for a server, "" for none.

    Raises:
        SettingsError: the variable has no usable URL; the text names it.
    """
    parts = urlsplit(server)
    variable = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    name = next((item for item in (variable, variable.lower()) if environment.get(item)), "")
    if not name:
        return ""
    host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 443)
    excluded = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    if _is_this_machine(host) or _is_excluded(host, port, excluded):
        return ""
    url = environment[name].strip()
    if "://" not in url:
        url = f"http://{url}"
    if not is_proxy(url):
        raise SettingsError(
            f"{name} is not the URL of a proxy: expected one such as http://proxy:3128, with one "
            f"of the schemes {', '.join(PROXY_SCHEMES)}"
        )
    return url


def _is_this_machine(host: str) -> bool:
    address = _address(host)
    return host.lower().rstrip(".") == "localhost" or (address is not None and address.is_loopback)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_excluded(host: str, port: int, excluded: str) -> bool:
    """Return whether a list such as `10.0.0.0/8,.corp.example,host:6443` names a server."""
    items = (item.strip().lower() for item in excluded.split(","))
    return any(_excludes(item, host.lower().rstrip("."), port) for item in items if item)


def _excludes(item: str, host: str, port: int) -> bool:
    if item == "*":
        return True
    address = _address(host)
    if address is not None:
        try:
            return address in ipaddress.ip_network(item, strict=False)
        except ValueError:
            pass  # no network, and no address, which is one too
    name, separator, number = item.rpartition(":")
    if separator and number.isascii() and number.isdecimal():
        if int(number) != port:
            return False
        item = name.strip("[]")
    if (named := _address(item)) is not None:
        return named == address
    # `corp.example` names itself and what is below it, `.corp.example` only the latter.
    suffix = item.removeprefix("*")
    return host.endswith(f".{suffix.removeprefix('.')}") or host == suffix
