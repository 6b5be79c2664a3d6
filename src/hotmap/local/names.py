"""Rules for names, labels, keys and addresses, with upstream's messages.

apimachinery/pkg/util/validation/validation.go; each `…_errors` returns the reasons why a text is
invalid, none for a valid one.
"""

from __future__ import annotations

import ipaddress
import re

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_HEADER = "[-A-Za-z0-9]+"

_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character"
)
_QUALIFIED_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character"
)
_WILDCARD_TEXT = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which "
    "must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric "
    "character"
)
_HEADER_TEXT = "a valid HTTP header must consist of alphanumeric characters or '-'"
_CONFIG_KEY_TEXT = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"


def _explained(text: str, pattern: str, *examples: str) -> str:
    """RegexError; the two spaces before "or" are upstream's."""
    shown = ",  or ".join(f"'{example}'" for example in examples)
    return f"{text} (e.g. {shown}, regex used for validation is '{pattern}')"


def _at_most(limit: int) -> str:
    return f"must be no more than {limit} characters"


def subdomain_errors(name: str) -> list[str]:
    """Check a DNS-1123 subdomain, which most objects' names are."""
    errors = [_at_most(253)] if len(name) > 253 else []
    if not re.fullmatch(_SUBDOMAIN, name):
        errors.append(_explained(_SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com"))
    return errors


def label_name_errors(name: str) -> list[str]:
    """Check a DNS-1123 label, which names of namespaces, containers and volumes are."""
    errors = [_at_most(63)] if len(name) > 63 else []
    if "." in name and re.fullmatch(_SUBDOMAIN, name):
        errors.append("must not contain dots")
    elif not re.fullmatch(_LABEL, name):
        errors.append(_explained(_LABEL_TEXT, _LABEL, "my-name", "123-abc"))
    return errors


def label_1035_errors(name: str) -> list[str]:
    """Check a DNS-1035 label, which names of services are."""
    errors = [_at_most(63)] if len(name) > 63 else []
    if not re.fullmatch(_LABEL_1035, name):
        errors.append(_explained(_LABEL_1035_TEXT, _LABEL_1035, "my-name", "abc-123"))
    return errors


def qualified_name_errors(name: str) -> list[str]:
    """Check the key of a label or an annotation: a name, with a prefix or without."""
    prefix, slash, local = name.rpartition("/")
    errors: list[str] = []
    if "/" in prefix:
        shown = _explained(_QUALIFIED_TEXT, _QUALIFIED, "MyName", "my.name", "123-abc")
        return [
            f"a valid label key {shown} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ]
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif slash:
        # Upstream counts bytes here, and characters where a name is a subdomain itself.
        errors += [
            f"prefix part {error.replace('253 characters', '253 bytes')}"
            for error in subdomain_errors(prefix)
        ]
    if not local:
        errors.append("name part must be non-empty")
    elif len(local) > 63:
        errors.append("name part must be no more than 63 bytes")
    if not re.fullmatch(_QUALIFIED, local):
        shown = _explained(_QUALIFIED_TEXT, _QUALIFIED, "MyName", "my.name", "123-abc")
        errors.append(f"name part {shown}")
    return errors


def label_value_errors(value: str) -> list[str]:
    """Check the value of a label; an empty one is valid."""
    errors = ["must be no more than 63 bytes"] if len(value) > 63 else []
    if not re.fullmatch(f"({_QUALIFIED})?", value):
        shown = _explained(_LABEL_VALUE_TEXT, f"({_QUALIFIED})?", "MyValue", "my_value", "12345")
        errors.append(shown)
    return errors


def config_key_errors(key: str) -> list[str]:
    """Check a data key of a ConfigMap or a Secret."""
    errors = [_at_most(253)] if len(key) > 253 else []
    if not re.fullmatch(_CONFIG_KEY, key):
        errors.append(_explained(_CONFIG_KEY_TEXT, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if key in (".", ".."):
        errors.append(f"must not be '{key}'")
    elif key.startswith(".."):
        errors.append("must not start with '..'")
    return errors


def env_name_errors(name: str) -> list[str]:
    """Check the name of an environment variable, by the relaxed rule of Kubernetes 1.32."""
    if name and all(32 <= ord(char) <= 126 and char != "=" for char in name):
        return []
    return [
        "a valid environment variable name must consist only of printable ASCII characters "
        "other than '='"
    ]


def port_name_errors(name: str) -> list[str]:
    """Check the name of a port of a container, as IANA has them (IsValidPortName)."""
    errors = [_at_most(15)] if len(name) > 15 else []
    if not re.fullmatch("[-a-z0-9]+", name):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        errors.append("must contain at least one letter (a-z)")
    if "--" in name:
        errors.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def header_name_errors(name: str) -> list[str]:
    """Check the name of an HTTP header (IsHTTPHeaderName)."""
    if re.fullmatch(_HEADER, name):
        return []
    return [_explained(_HEADER_TEXT, _HEADER, "X-Header-Name")]


def driver_name_errors(name: str) -> list[str]:
    """Check the name of a CSI driver, which may have capital letters."""
    return subdomain_errors(name.lower())


def host_errors(host: str) -> list[str]:
    """Check the name of a host, which may begin with a wildcard (IsWildcardDNS1123Subdomain)."""
    if "*" not in host:
        return subdomain_errors(host)
    if re.fullmatch(rf"\*\.{_SUBDOMAIN}", host):
        return []
    return [_explained(_WILDCARD_TEXT, rf"\*\.{_SUBDOMAIN}", "*.example.com")]


def path_segment_errors(name: str) -> list[str]:
    """Check a name that is part of a URL and otherwise free (IsPathSegmentName)."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in name]


def relative_path_errors(path: str) -> list[str]:
    """Check a path inside a volume (validateLocalDescendingPath)."""
    errors = ["must be a relative path"] if path.startswith("/") else []
    if ".." in path.split("/"):
        errors.append("must not contain '..'")
    return errors


def projected_path_errors(path: str) -> list[str]:
    """Check where an item of a source is projected to (validateLocalNonReservedPath)."""
    errors = relative_path_errors(path)
    if path.startswith("..") and not path.startswith("../"):
        errors.append("must not start with '..'")
    return errors


def cidr_errors(text: str) -> list[str]:
    """Check a range of IP addresses (IsValidCIDRForLegacyField)."""
    try:
        ipaddress.ip_interface(text if "/" in text else "")
    except ValueError:
        return ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return ["must not have bits set beyond the prefix length"]
    return []


def is_ip_address(text: str) -> bool:
    """Return whether a text is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
