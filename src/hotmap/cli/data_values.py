"""The values of ConfigMaps and Secrets in manifests, which have to be texts."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from hotmap.core.errors import ManifestError
from hotmap.core.text import quote_short

__all__ = ["check_values", "decode_value"]

#: The fields of ConfigMaps and Secrets with values by data key.
_FIELDS = ("data", "binaryData", "stringData")

#: Kinds of YAML values; of a boolean, a number as well.
_KINDS = (
    (str, "a text"),
    (bool, "a boolean"),
    ((int, float), "a number"),
    (list, "a list"),
    (dict, "a mapping"),
)


def check_values(data: dict[str, Any], place: str) -> None:
    """Check that the fields are mappings, and every value a text, or null, which counts as empty.

    `level: 1` and `debug: yes` are what users write most often, and the API server refuses them.

    Raises:
        ManifestError: one has another kind. The value itself is not shown.
    """
    for field in _FIELDS:
        values = data.get(field) or {}
        if not isinstance(values, dict):
            raise ManifestError(f"{place}: {field} is {_kind(values)}, not a mapping")
        for name, value in values.items():
            if value is None or isinstance(value, str):
                continue
            kind = _kind(value)
            hint = "" if isinstance(value, list | dict) else "; put it in quotes"
            raise ManifestError(
                f"{place}: {field} {quote_short(str(name))} is {kind}, not a text{hint}"
            )


def decode_value(text: str) -> bytes:
    """Decode base64 as Kubernetes does, which allows line breaks.

    Raises:
        ValueError: it is not valid base64.
    """
    return b64decode(text.replace("\r", "").replace("\n", ""), validate=True)


def _kind(value: Any) -> str:
    return next((words for types, words in _KINDS if isinstance(value, types)), "no text")
