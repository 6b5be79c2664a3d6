"""Values of flags and of the rules file, parsed into typed values with units.

Every `parse_…` raises InvalidValue, which says what was expected. `parse_value` adds which flag or
field it was, and the text unless it may hold a credential.
"""

from __future__ import annotations

import os
import signal as _signal

from hotmap.core.duration import InvalidDuration, parse_duration
from hotmap.core.errors import SettingsError
from hotmap.core.text import parse_number, quote
from hotmap.core.value import Value

__all__ = [
    "Address",
    "InvalidValue",
    "Url",
    "parse_address",
    "parse_header",
    "parse_method",
    "parse_mode",
    "parse_path",
    "parse_pattern",
    "parse_positive_duration",
    "parse_positive_size",
    "parse_secret_path",
    "parse_signal",
    "parse_size",
    "parse_socket_path",
    "parse_statuses",
    "parse_stop_signal",
    "parse_url",
    "parse_value",
    "quote_redacted",
    "require",
    "split_command",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")


class InvalidValue(ValueError):
    """Raised when a text is not a valid value; `noun` is the kind of value, `reason` the defect."""

    def __init__(self, noun: str, reason: str) -> None:
        super().__init__(f"invalid {noun}: {reason}")
        self.noun = noun
        self.reason = reason


class Url(Value):
    """An endpoint: by TCP (`host`, `port`), or by a unix socket's path."""

    scheme: str
    host: str
    port: int
    socket: str
    path: str
    user: str
    password: str

    def __str__(self) -> str:
        """Write the endpoint without anything that may be a credential."""
        return _redacted(self)


class Address(Value):
    """Where to listen; host "" is every address."""

    host: str
    port: int


def parse_value(text: str, parse: Callable[[str], T], where: str, *, is_secret: bool = False) -> T:
    """Parse a value of a flag or a field that `where` names.

    Raises:
        SettingsError: the value is invalid; the text is in it unless `is_secret`.
    """
    try:
        return parse(text)
    except (InvalidValue, InvalidDuration) as error:
        shown = "" if is_secret else f" {quote_redacted(text)}"
        raise SettingsError(f"{where}: invalid {error.noun}{shown}: {error.reason}") from None


def require(condition: bool, message: str) -> None:
    """Raise SettingsError unless a condition holds."""
    if not condition:
        raise SettingsError(message)


def _redacted(url: Url) -> str:
    path, mark, _ = url.path.partition("?")
    shown = f"{path}{mark}***" if mark else path
    if url.socket:
        return f"unix:{url.socket}:{shown}"
    host = f"[{url.host}]" if ":" in url.host else url.host
    user = "***@" if url.user or url.password else ""
    return f"{url.scheme}://{user}{host}:{url.port}{shown}"


def quote_redacted(text: str) -> str:
    """Quote a value for an error message; user, password and query of URLs in it become ***."""
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


def parse_positive_duration(text: str) -> float:
    """Parse a duration that is longer than 0, in seconds."""
    seconds = parse_duration(text)
    if seconds <= 0:
        raise InvalidValue("duration", "must be more than 0")
    return seconds


#: Bytes of a unix socket's path (unix(7)).
_MAX_SOCKET = 107

_SIZES = {"": 1, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "k": 1000, "M": 1000**2, "G": 1000**3}


def parse_size(text: str) -> int:
    """Parse `512`, `64Ki`, `1Mi` or `2M` as bytes."""
    digits = text.rstrip("KMGki")
    unit, number = text[len(digits) :], parse_number(digits)
    if unit not in _SIZES or number is None:
        raise InvalidValue("size", "expected a number of bytes, such as 512, 64Ki or 1Mi")
    return number * _SIZES[unit]


def parse_positive_size(text: str) -> int:
    """Parse a size that is more than 0: elsewhere, 0 often means that there is no limit."""
    size = parse_size(text)
    if size == 0:
        raise InvalidValue("size", "must be more than 0")
    return size


def parse_mode(text: str) -> int:
    """Parse `0644` as permission bits."""
    if not text or set(text) - set("01234567") or int(text, 8) > 0o777:
        raise InvalidValue("file mode", "expected octal permission bits, such as 0644 or 0600")
    return int(text, 8)


def parse_signal(text: str) -> int:
    """Parse `HUP`, `SIGHUP`, `1`, `RTMIN+3` or `RTMAX-1` as a signal number."""
    name = text.upper().removeprefix("SIG")
    base, sign, offset = name.partition("+") if name.startswith("RTMIN") else name.partition("-")
    for known_name, known in _signal.Signals.__members__.items():  # with CLD, IOT and POLL
        if name == known_name.removeprefix("SIG"):
            return int(known)
        if sign and base == known_name.removeprefix("SIG") and offset.isascii():
            number = int(known) + int(f"{sign}{offset}") if offset.isdecimal() else 0
            if base in ("RTMIN", "RTMAX") and _is_real_time(number):
                return number
    if text.isascii() and text.isdecimal():
        number = int(text) if len(text) < 4 else 0
        if number in set(_signal.Signals) or _is_real_time(number):
            return number
    raise InvalidValue("signal", "expected a name or number, such as HUP, USR1, RTMIN+3 or 1")


def parse_stop_signal(text: str) -> int:
    """Parse a signal that the agent can receive and forward to stop an application."""
    number = parse_signal(text)
    if number in (_signal.SIGKILL, _signal.SIGSTOP, _signal.SIGCHLD):
        raise InvalidValue("stop signal", "expected one that a program can handle, such as QUIT")
    return number


def _is_real_time(number: int) -> bool:
    return _signal.SIGRTMIN <= number <= _signal.SIGRTMAX


def parse_statuses(text: str) -> tuple[int, ...]:
    """Parse `200,204` or `2xx` as HTTP statuses."""
    found: list[int] = []
    for part in text.split(","):
        part = part.strip()
        if len(part) == 3 and part[0] in "12345" and part[1:].lower() == "xx":
            found += range(100 * int(part[0]), 100 * int(part[0]) + 100)
        elif len(part) == 3 and part.isascii() and part.isdecimal() and 100 <= int(part) <= 599:
            found.append(int(part))
        else:
            raise InvalidValue("list of HTTP status codes", "expected 200, 200,204 or 2xx")
    return tuple(found)


def parse_url(text: str) -> Url:
    """Parse `http://host:port/path`, `https://…` or `unix:/run/app.sock:/path`."""
    if not text.isascii() or not text.isprintable() or " " in text:
        raise InvalidValue("URL", "must contain only printable ASCII characters and no space")
    scheme, mark, rest = text.partition(":")
    scheme = scheme.lower()
    if scheme == "unix" and mark:
        socket, _, path = rest.partition(":")
        if not socket.startswith("/") or not path.startswith("/"):
            raise InvalidValue("unix socket URL", "expected unix:/run/app.sock:/path")
        if len(socket) > _MAX_SOCKET:
            raise InvalidValue("unix socket URL", f"the path must not exceed {_MAX_SOCKET} bytes")
        return Url("http", "localhost", 0, socket, path, "", "")
    if scheme not in ("http", "https") or not rest.startswith("//"):
        raise InvalidValue("URL", "expected a form such as http://127.0.0.1:8080/-/reload")
    authority, slash, path = rest[2:].partition("/")
    if not slash:
        authority, mark, query = authority.partition("?")
        path = f"?{query}" if mark else ""
    path = path.partition("#")[0]
    userinfo, at, place = authority.rpartition("@")
    user, _, password = userinfo.partition(":") if at else ("", "", "")
    host, port = _host_and_port(place, {"http": 80, "https": 443}[scheme])
    if not host:
        raise InvalidValue("URL", "the host is missing")
    return Url(scheme, host, port, "", f"/{path}", _unquote(user), _unquote(password))


def parse_address(text: str) -> Address | None:
    """Parse `:9533`, `127.0.0.1:9533` or `[::1]:9533`; `none` gives None."""
    if text == "none":
        return None
    if ":" not in text:
        raise InvalidValue("address", "expected :9533, 127.0.0.1:9533 or none")
    host, port = _host_and_port(text, -1)
    if port < 0:
        raise InvalidValue("address", "expected :9533, 127.0.0.1:9533 or none")
    return Address(host, port)


def _host_and_port(text: str, default: int) -> tuple[str, int]:
    if text.startswith("["):
        host, mark, rest = text[1:].partition("]")
        if not mark:
            raise InvalidValue("address", "expected a closing bracket after the IPv6 address")
    else:
        host, colon, rest = text.partition(":")
        rest = f"{colon}{rest}"
    if not rest:
        return host, default
    port = parse_number(rest[1:])
    if rest[0] != ":" or port is None or port > 65535:
        raise InvalidValue("port", "expected a number from 0 to 65535 after the last colon")
    return host, port


def _unquote(text: str) -> str:
    first, *others = text.split("%")
    result = first.encode()
    for part in others:
        try:
            result += bytes([int(part[:2], 16)]) + part[2:].encode()
        except ValueError:
            raise InvalidValue("URL", "user or password contains an invalid % escape") from None
    return result.decode("utf-8", "surrogateescape")


def split_command(text: str) -> tuple[str, ...]:
    """Split a command line into words as a shell does; no shell is involved."""
    import shlex

    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise InvalidValue("command line", str(error).lower()) from None
    if not any(words[:1]):
        raise InvalidValue("command line", "must begin with a program")
    return words


def parse_pattern(text: str) -> str:
    """Parse a pattern of file names."""
    if not text.strip():
        raise InvalidValue("pattern", "expected the name of a file, or a pattern such as *.conf")
    return text


def parse_path(text: str) -> str:
    """Parse a path; a relative one is made absolute."""
    if not text or "\0" in text:
        raise InvalidValue("path", "must not be empty or contain a NUL byte")
    try:
        return os.path.abspath(text)
    except FileNotFoundError:
        raise InvalidValue("path", "is relative to a working directory that was removed") from None


def parse_secret_path(text: str) -> str:
    """Parse the path of a file with a credential.

    Some write the credential itself in its place, which would then be in every message about the
    file. That is no absolute path, and no file has its name.
    """
    path = parse_path(text)
    if not text.startswith("/") and not os.path.exists(path):
        raise InvalidValue("path", "no such file; expected an absolute path, not the content")
    return path


def parse_socket_path(text: str) -> str:
    """Parse the path of a unix socket."""
    path = parse_path(text)
    if len(os.fsencode(path)) > _MAX_SOCKET:
        raise InvalidValue("path of a unix socket", f"must not exceed {_MAX_SOCKET} bytes")
    return path


def parse_method(text: str) -> str:
    """Parse an HTTP method."""
    if not (text.isascii() and text.isalpha()):
        raise InvalidValue("HTTP method", "expected a name, such as POST, PUT or GET")
    return text.upper()


def parse_header(text: str) -> tuple[str, str]:
    """Parse `Name: value`."""
    name, colon, value = text.partition(":")
    if not colon or not name or not text.isprintable() or set(name) & set(' \t()<>@,;\\"/[]?={}'):
        raise InvalidValue("header", "expected 'Name: value'")
    return name, value.strip()
