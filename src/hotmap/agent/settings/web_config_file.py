"""The web configuration of Prometheus' exporters, for TLS on the agent's port.

A file with `tls_server_config`, `http_server_config` and `basic_auth_users`, as prometheus-operator
writes it: JSON, or YAML in block style with plain and quoted scalars, and lists in brackets.
"""

from __future__ import annotations

import os

from hotmap.agent.settings.settings import WebSettings
from hotmap.core.errors import SettingsError, os_reason

__all__ = ["load_web_config", "parse_block_yaml"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TLS_FILES = ("cert_file", "key_file", "client_ca_file")

#: Fields without effect: TLS 1.3's cipher suites are fixed, and there is no HTTP/2.
_WITHOUT_EFFECT = ("cipher_suites", "curve_preferences", "prefer_server_cipher_suites")

_VERSIONS = ("TLS10", "TLS11", "TLS12", "TLS13")

#: Go's names, and whether a client certificate is asked for and has to be there.
_CLIENT_AUTH = {
    "NoClientCert": "none", "RequestClientCert": "none", "VerifyClientCertIfGiven": "optional",
    "RequireAndVerifyClientCert": "required",
}  # fmt: skip

_HEADERS = (
    "Content-Security-Policy", "Strict-Transport-Security", "X-Content-Type-Options",
    "X-Frame-Options", "X-XSS-Protection",
)  # fmt: skip


#: The variants of bcrypt that Go takes, and the highest cost: 12 takes a quarter of a second.
_BCRYPT, _MAX_COST = ("2", "2a", "2b", "2y"), 14

#: Characters of a file.
_MAX_SIZE = 1 << 20

#: Characters of a salt.
_SALT = 22


def load_web_config(path: str, where: str) -> WebSettings:
    """Load the file; `where` is the flag that names it.

    Raises:
        SettingsError: it cannot be read, or has something that is not supported; one sentence.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:  # editors may write a byte order mark
            text = file.read(_MAX_SIZE + 1)
        if len(text) > _MAX_SIZE:
            raise ValueError("larger than 1 MiB")
        document = _parse(text)
    except OSError as error:
        reason = os_reason(error)
        raise SettingsError(f"{where}: cannot read {path}: {reason}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{where}: {path} is not valid UTF-8") from None
    except ValueError as error:
        raise SettingsError(f"{where}: {path}: {error}") from None
    found = {key: value for key, value in document.items() if value}
    for key in found:
        if key not in ("tls_server_config", "http_server_config", "basic_auth_users"):
            raise SettingsError(f"{where}: {path}: {key} is not supported")
    try:
        files = _tls_settings(found.get("tls_server_config") or {}, os.path.dirname(path))
        headers = _headers(found.get("http_server_config") or {})
        users = _users(found.get("basic_auth_users") or {})
    except (ValueError, AttributeError, TypeError) as error:
        reason = str(error) if type(error) is ValueError else "not a web configuration"
        raise SettingsError(f"{where}: {path}: {reason}") from None
    return WebSettings(*files, headers=headers, users=users)


def _tls_settings(table: dict[str, Any], folder: str) -> tuple[str, str, str, str, str, str]:
    for key, value in table.items():
        known = (*_TLS_FILES, *_WITHOUT_EFFECT, "client_auth_type", "min_version", "max_version")
        if key not in known and value:
            raise ValueError(f"tls_server_config.{key} is not supported")
    certificate, private_key, client_ca = (
        os.path.join(folder, table[key]) if table.get(key) else "" for key in _TLS_FILES
    )
    if table and not (certificate and private_key):
        raise ValueError("tls_server_config requires cert_file and key_file")
    wanted = table.get("client_auth_type") or "NoClientCert"
    if wanted not in _CLIENT_AUTH:
        raise ValueError(f"tls_server_config.client_auth_type {wanted!r} is not supported")
    client_auth = _CLIENT_AUTH[wanted]
    if client_auth != "none" and not client_ca:
        raise ValueError(f"tls_server_config.client_auth_type {wanted} requires client_ca_file")
    versions = [table.get("min_version") or "TLS12", table.get("max_version") or "TLS13"]
    for version in versions:
        if version not in _VERSIONS:
            raise ValueError(f"expected one of {', '.join(_VERSIONS)}, got {version!r}")
    return certificate, private_key, client_ca, client_auth, versions[0], versions[1]


def _headers(table: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    for key in table:
        if key not in ("http2", "headers"):
            raise ValueError(f"http_server_config.{key} is not supported")
    headers = table.get("headers") or {}
    for name, text in headers.items():
        if name not in _HEADERS or not str(text).isprintable():
            raise ValueError(f"the header {name!r} is not supported")
    return tuple((name, str(text)) for name, text in headers.items() if text)


def _users(table: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Read names and hashes; a hash is never shown."""
    for name, text in table.items():
        words = str(text).split("$")
        if len(words) != 4 or words[1] not in _BCRYPT or len(words[3]) != 53:
            raise ValueError(f"basic_auth_users: the value of {name!r} is not a hash of bcrypt")
        if not words[2].isdecimal() or not 4 <= int(words[2]) <= _MAX_COST:
            raise ValueError(
                f"basic_auth_users: the hash of {name!r} has cost {words[2]}; 4 to {_MAX_COST} are "
                "supported"
            )
    if table:
        from importlib.util import find_spec

        if find_spec("bcrypt") is None:
            raise ValueError(
                "basic_auth_users requires the Python package bcrypt: install hotmap[bcrypt]"
            )
        _require_salts(table)
    # Go takes a hash without the letter of a variant, and compares it as every other one.
    return tuple((str(name), str(text).replace("$2$", "$2b$", 1)) for name, text in table.items())


def _require_salts(table: dict[str, Any]) -> None:
    """Require that passwords can be compared: a salt has 22 characters, which not all texts are."""
    import bcrypt

    for name, text in table.items():
        salt = str(text).split("$")[3][:_SALT]
        try:
            bcrypt.hashpw(b"", f"$2b$04${salt}".encode())
        except ValueError:
            raise ValueError(
                f"basic_auth_users: the value of {name!r} is not a hash of bcrypt"
            ) from None


def _parse(text: str) -> dict[str, Any]:
    if text.lstrip().startswith("{"):
        import json

        document = json.loads(text)
        if not isinstance(document, dict):
            raise ValueError("not a mapping")
        return document
    return parse_block_yaml(text)


def parse_block_yaml(text: str) -> dict[str, Any]:
    """Parse the part of YAML that such a file needs.

    Raises:
        ValueError: it has something else; the line is in the text.
    """
    root: dict[str, Any] = {}
    #: The mappings that are open, with the column of their keys, and the last key of each.
    opened: list[tuple[int, dict[str, Any]]] = [(0, root)]
    last: list[str] = [""]
    for number, line in enumerate(text.split("\n"), start=1):
        content = line.strip()
        if not content or content.startswith("#") or content == "---":
            continue
        column = len(line) - len(line.lstrip(" "))
        if content.startswith("- "):
            while len(opened) > 1 and column < opened[-1][0]:
                opened.pop(), last.pop()
            holder = opened[-1][1]
            items = holder[last[-1]] = holder.get(last[-1]) or []
            if not isinstance(items, list):
                raise ValueError(f"line {number}: a list item inside a mapping")
            items.append(_scalar(content[2:], number))
            continue
        key, colon, value = content.partition(":")
        if not colon or (value and not value.startswith(" ")):
            raise ValueError(f"line {number}: expected a key and a value")
        while column < opened[-1][0]:
            opened.pop(), last.pop()
        if column > opened[-1][0]:
            inner: dict[str, Any] = {}
            if opened[-1][1].get(last[-1], 0) is not None:
                raise ValueError(f"line {number}: unexpected indentation")
            opened[-1][1][last[-1]] = inner
            opened.append((column, inner))
            last.append("")
        last[-1] = str(_scalar(key, number))
        opened[-1][1][last[-1]] = _scalar(value, number)
    return root


def _scalar(text: str, number: int) -> Any:
    text = text.strip()
    if text[:1] in ("'", '"'):
        end = text.find(text[0], 1)
        if end < 0 or "\\" in text or text[end + 1 :].lstrip()[:1] not in ("", "#"):
            raise ValueError(f"line {number}: escapes in quotes are not supported")
        return text[1:end]
    text = text.partition(" #")[0].strip()
    if text in ("", "~", "null", "{}", "[]"):
        return None
    if text.startswith("[") and text.endswith("]"):
        return [_scalar(part, number) for part in text[1:-1].split(",")]
    if text[0] in "[{&*!|>%@`":
        raise ValueError(f"line {number}: {text[0]} is not supported")
    return {"true": True, "false": False}.get(text, text)
