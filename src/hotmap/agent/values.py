"""What a person writes in flags and rules, read into typed values with units.

Every function raises ValueError with a sentence that says how such a value is written; who asked
adds which flag or field it was.
"""

from __future__ import annotations

import os
import signal as _signal
from collections import namedtuple

from hotmap.core.quoting import quote

__all__ = [
    "Address",
    "Url",
    "parse_address",
    "parse_header",
    "parse_method",
    "parse_mode",
    "parse_path",
    "parse_signal",
    "parse_size",
    "parse_statuses",
    "parse_url",
    "quoted",
    "split_command",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    class Url(NamedTuple):
        scheme: str
        host: str
        port: int
        socket: str
        path: str
        user: str
        password: str

    class Address(NamedTuple):
        host: str
        port: int

else:
    _Url = namedtuple("Url", "scheme host port socket path user password")

    class Url(_Url):
        """An endpoint: by TCP (`host`, `port`), or by a unix socket's path."""

        __slots__ = ()

        def __str__(self) -> str:
            """Write the endpoint without anything that may be a credential."""
            return _redacted(self)

    Address = namedtuple("Address", "host port")


def _redacted(url: Url) -> str:
    path, mark, _ = url.path.partition("?")
    shown = f"{path}{mark}***" if mark else path
    if url.socket:
        return f"unix:{url.socket}:{shown}"
    host = f"[{url.host}]" if ":" in url.host else url.host
    user = "***@" if url.user or url.password else ""
    return f"{url.scheme}://{user}{host}:{url.port}{shown}"


def quoted(text: str) -> str:
    """Quote what a person typed, for a complaint; user and password of URLs in it become ***."""
    first, *rest = text.split("://")
    shown = first
    for part in rest:
        place, blank, after = part.partition(" ")
        place, query, _ = place.partition("?")
        authority, slash, path = place.partition("/")
        if "@" in authority:
            authority = f"***@{authority.rpartition('@')[2]}"
        shown += f"://{authority}{slash}{path}{'?***' if query else ''}{blank}{after}"
    return quote(shown)


_SIZES = {"": 1, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "k": 1000, "M": 1000**2, "G": 1000**3}


def parse_size(text: str) -> int:
    """Read `512`, `64Ki`, `1Mi` or `2M` as bytes."""
    number = text.rstrip("KMGki")
    unit = text[len(number) :]
    if unit not in _SIZES or not (number.isascii() and number.isdecimal()):
        raise ValueError("is no size; write 512, 64Ki or 1Mi")
    return int(number) * _SIZES[unit]


def parse_mode(text: str) -> int:
    """Read `0644` as permission bits."""
    if not text or set(text) - set("01234567") or int(text, 8) > 0o777:
        raise ValueError("is no file mode; write 0644 or 0600")
    return int(text, 8)


def parse_signal(text: str) -> int:
    """Read `HUP`, `SIGHUP` or `1` as a signal number."""
    name = text.upper().removeprefix("SIG")
    for known in _signal.Signals:
        if name == known.name.removeprefix("SIG") or text == str(int(known)):
            return int(known)
    raise ValueError("is no signal; write HUP, USR1 or a number such as 1")


def parse_statuses(text: str) -> tuple[int, ...]:
    """Read `200,204` or `2xx` as HTTP statuses."""
    found: list[int] = []
    for part in text.split(","):
        part = part.strip()
        if len(part) == 3 and part[0] in "12345" and part[1:].lower() == "xx":
            found += range(100 * int(part[0]), 100 * int(part[0]) + 100)
        elif len(part) == 3 and part.isascii() and part.isdecimal() and 100 <= int(part) <= 599:
            found.append(int(part))
        else:
            raise ValueError("is no list of HTTP statuses; write 200, 200,204 or 2xx")
    return tuple(found)


def parse_url(text: str) -> Url:
    """Read `http://host:port/path`, `https://…` or `unix:/run/app.sock:/path`."""
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("is no URL: it may hold printable ASCII characters only")
    scheme, mark, rest = text.partition(":")
    if scheme == "unix" and mark:
        socket, _, path = rest.partition(":")
        if not socket.startswith("/") or not path.startswith("/"):
            raise ValueError("is no unix socket URL; write unix:/run/app.sock:/path")
        return Url("http", "localhost", 0, socket, path, "", "")
    if scheme not in ("http", "https") or not rest.startswith("//"):
        raise ValueError("is no URL; write http://127.0.0.1:8080/-/reload")
    authority, slash, path = rest[2:].partition("/")
    if not slash:
        authority, mark, query = authority.partition("?")
        path = f"?{query}" if mark else ""
    path = path.partition("#")[0]
    userinfo, at, place = authority.rpartition("@")
    user, _, password = userinfo.partition(":") if at else ("", "", "")
    host, port = _host_and_port(place, {"http": 80, "https": 443}[scheme])
    if not host:
        raise ValueError("is no URL: it names no host")
    return Url(scheme, host, port, "", f"/{path}", _unquote(user), _unquote(password))


def parse_address(text: str) -> Address | None:
    """Read `:9533`, `127.0.0.1:9533` or `[::1]:9533`; `none` is no address."""
    if text == "none":
        return None
    if ":" not in text:
        raise ValueError("is no address; write :9533, 127.0.0.1:9533 or none")
    host, port = _host_and_port(text, -1)
    if port < 0:
        raise ValueError("is no address; write :9533, 127.0.0.1:9533 or none")
    return Address(host, port)


def _host_and_port(text: str, default: int) -> tuple[str, int]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
    else:
        host, colon, rest = text.partition(":")
        rest = f"{colon}{rest}"
    if not rest:
        return host, default
    port = rest[1:]
    if rest[0] != ":" or not port.isdecimal() or int(port) > 65535:
        raise ValueError("names no port between 0 and 65535 after its last colon")
    return host, int(port)


def _unquote(text: str) -> str:
    first, *others = text.split("%")
    result = first.encode()
    for part in others:
        try:
            result += bytes([int(part[:2], 16)]) + part[2:].encode()
        except ValueError:
            raise ValueError("is no URL: a % in its user or password starts no escape") from None
    return result.decode("utf-8", "surrogateescape")


def split_command(text: str) -> tuple[str, ...]:
    """Split a command line into words as a shell does; no shell is involved."""
    import shlex

    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"is no command line: {str(error).lower()}") from None
    if not words:
        raise ValueError("is no command line: it is empty")
    return words


def parse_path(text: str) -> str:
    """Read a path; a relative one is made absolute."""
    if not text or "\0" in text:
        raise ValueError("is no path")
    return os.path.abspath(text)


def parse_method(text: str) -> str:
    """Read an HTTP method."""
    if not (text.isascii() and text.isalpha()):
        raise ValueError("is no HTTP method; write POST, PUT or GET")
    return text.upper()


def parse_header(text: str) -> tuple[str, str]:
    """Read `Name: value` as the two."""
    name, colon, value = text.partition(":")
    if not colon or not name or not text.isprintable() or set(name) & set(' \t()<>@,;\\"/[]?={}'):
        raise ValueError("is no header; write 'Name: value'")
    return name, value.strip()
