"""The files of a ConfigMap or Secret in a volume, by the kubelet's rules: path → bytes and mode.

Pure: the files that a source projects, the valid paths, and the downward API's format of a map.
`hotmap.volume.atomic_writer` writes the files; `hotmap.core.fingerprint` fingerprints their
content. Standard library only: the agent uses this module.
"""

from __future__ import annotations

from hotmap.core.errors import InvalidPayload
from hotmap.core.text import quote
from hotmap.core.value import Value

__all__ = [
    "DEFAULT_MODE",
    "Item",
    "Payload",
    "PayloadFile",
    "check_path",
    "clean_payload",
    "configmap_payload",
    "downward_map",
    "merge_payloads",
    "parents",
    "secret_payload",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class PayloadFile(Value):
    """One projected file: its bytes and its permission bits."""

    data: bytes
    mode: int


class Item(Value):
    """One `items` entry of a volume source: data key, path, own mode or None."""

    key: str
    path: str
    mode: int | None = None


#: Files by path relative to the volume, as in `items[].path`; "/" separates directories.
Payload = dict[str, PayloadFile]

#: Permission bits of a file when the volume names none (kubernetes: pkg/apis/core/v1/defaults.go).
DEFAULT_MODE = 0o644

#: Bytes, not characters, as Go's len counts (kubernetes: pkg/volume/util/atomic_writer.go).
_MAX_PATH = 4096
_MAX_NAME = 255


def configmap_payload(
    name: str,
    data: Mapping[str, str],
    binary_data: Mapping[str, bytes],
    *,
    items: Sequence[Item] | None = None,
    default_mode: int = DEFAULT_MODE,
    optional: bool = False,
) -> Payload:
    """Compute the files that a ConfigMap becomes in a volume.

    Without `items` every data key is a file of that name. With `items` only those keys are, at
    their own path and mode; of two items with one path the last wins. A key in both maps
    (validation forbids it) is read from `binary_data` without items and from `data` with them
    (kubernetes: pkg/volume/configmap/configmap.go, MakePayload). Values are written byte for byte,
    `data` as UTF-8, and no newline is added. The caller handles an object that does not exist: if
    it is optional, its payload is empty.

    Raises:
        InvalidPayload: `items` names a missing data key and the source is not optional. The
            text is Kubernetes' own, which does not name the object; a note on the exception does.
    """
    if not items:
        payload = {key: PayloadFile(value.encode(), default_mode) for key, value in data.items()}
        payload.update(_all_keys(binary_data, default_mode))
        return payload
    # Looked up in `data` first, so `data` goes over `binary_data`.
    found = {**binary_data, **{key: value.encode() for key, value in data.items()}}
    if not optional:
        _require_keys(
            items, found, f'ConfigMap "{name}"', "configmap references non-existent config key"
        )
    return _listed_keys(found, items, default_mode)


def secret_payload(
    name: str,
    data: Mapping[str, bytes],
    *,
    items: Sequence[Item] | None = None,
    default_mode: int = DEFAULT_MODE,
    optional: bool = False,
) -> Payload:
    """Compute the files that a Secret becomes in a volume.

    The same rules as for a ConfigMap (kubernetes: pkg/volume/secret/secret.go, MakePayload).
    `data` is decoded from base64 already.

    Raises:
        InvalidPayload: as for `configmap_payload`.
    """
    if not items:
        return _all_keys(data, default_mode)
    if not optional:
        _require_keys(items, data, f'Secret "{name}"', "references non-existent secret key")
    return _listed_keys(data, items, default_mode)


def _all_keys(data: Mapping[str, bytes], mode: int) -> Payload:
    return {key: PayloadFile(value, mode) for key, value in data.items()}


def _require_keys(
    items: Iterable[Item], data: Mapping[str, bytes], source: str, complaint: str
) -> None:
    for item in items:
        if item.key not in data:
            error = InvalidPayload(f"{complaint}: {item.key}")
            error.add_note(source)
            raise error


def _listed_keys(data: Mapping[str, bytes], items: Iterable[Item], default_mode: int) -> Payload:
    return {
        item.path: PayloadFile(data[item.key], default_mode if item.mode is None else item.mode)
        for item in items
        if item.key in data
    }


def merge_payloads(payloads: Iterable[Payload]) -> Payload:
    """Join the sources of a projected volume; on the same path a later source wins.

    kubernetes: pkg/volume/projected/projected.go, collectData. There one source that fails means
    that nothing is written, and all failures are reported together; the caller does that. Paths are
    compared as they are written: `a` and `./a` are two here and one after `clean_payload`, where
    the later one wins again.
    """
    merged: Payload = {}
    for payload in payloads:
        for path, file in payload.items():
            # A repeated path moves to the end, so that "later wins" also holds for
            # its other spellings once they are cleaned.
            merged.pop(path, None)
            merged[path] = file
    return merged


def check_path(path: str) -> None:
    """Refuse a path that may not be projected into a volume.

    kubernetes: pkg/volume/util/atomic_writer.go, validatePath, with its texts; lengths are in
    bytes. Two refusals are ours: a NUL character, which no file name can hold, and a first
    element that starts with `..` once leading `./` are gone. Upstream checks before it cleans
    the path, so there `./..data` may name, and later remove, the link that publishes the volume.

    Raises:
        InvalidPayload: the path is empty, absolute, too long, holds a `..` element, starts
            with `..`, or names no file. Terminal: a person must change the volume.
    """
    if path == "":
        raise InvalidPayload('invalid path: must not be empty: ""')
    if path.startswith("/"):
        raise InvalidPayload(f"invalid path: must be relative path: {path}")
    if _bytes(path) > _MAX_PATH:
        raise InvalidPayload(f"invalid path: must be less than or equal to {_MAX_PATH} characters")
    elements = path.split("/")
    if ".." in elements:
        raise InvalidPayload(f"invalid path: must not contain '..': {path}")
    if any(_bytes(element) > _MAX_NAME for element in elements):
        raise InvalidPayload(
            f"invalid path: filenames must be less than or equal to {_MAX_NAME} characters"
        )
    if "\0" in path:
        raise InvalidPayload(f"invalid path: must not contain a NUL character: {path!r}")
    cleaned = _clean(path)
    if not cleaned:
        raise InvalidPayload(f"invalid path: must name a file: {path}")
    if cleaned.startswith(".."):
        raise InvalidPayload(f"invalid path: must not start with '..': {path}")


def clean_payload(payload: Payload) -> Payload:
    """Return the payload with every path checked and in its shortest spelling.

    `./a//b` becomes `a/b` (Go's path.Clean). If a path is spelled in two ways, the later entry
    wins. That no path may lead through another one is ours: upstream fails while it writes.

    Raises:
        InvalidPayload: a path may not be projected, or is a file for one entry and a
            directory for another.
    """
    cleaned: Payload = {}
    for path, file in payload.items():
        check_path(path)
        cleaned[_clean(path)] = file
    for path in cleaned:
        for parent in parents(path):
            if parent in cleaned:
                raise InvalidPayload(
                    f"invalid payload: {parent} cannot be a file and the directory of {path}"
                )
    return cleaned


def parents(path: str) -> list[str]:
    """List the directories that a clean path leads through, outermost first; none for `a`."""
    elements = path.split("/")
    return ["/".join(elements[:depth]) for depth in range(1, len(elements))]


def _clean(path: str) -> str:
    return "/".join(element for element in path.split("/") if element not in ("", "."))


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def downward_map(values: Mapping[str, str]) -> str:
    """Print labels or annotations as a downward API file shows them.

    One `key="value"` per line, sorted by key, values quoted by Go's %q, no newline at the end
    (kubernetes: pkg/fieldpath/fieldpath.go, FormatMap).
    """
    return "\n".join(f"{key}={quote(values[key])}" for key in sorted(values))
