"""Archives of images: an OCI image layout in one tar, which `docker load` and containerd read.

Sources: opencontainers/image-spec, image-layout.md, image-index.md and manifest.md; for
`manifest.json`, moby's image/tarexport. Equal images give equal bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Image", "PackedLayer", "gzipped", "image_digest", "plain", "write_archive"]

_OCI = "application/vnd.oci.image"
_Descriptor = dict[str, Any]


class PackedLayer(NamedTuple):
    """A layer as it is stored and transferred."""

    content: bytes
    media_type: str
    #: Digest of its tar, uncompressed.
    diff_id: str


class Image(NamedTuple):
    """An image for one architecture."""

    #: As images name it, such as amd64.
    architecture: str
    #: Lowest first.
    layers: Sequence[PackedLayer]
    #: The runtime settings, such as Entrypoint and User.
    settings: Mapping[str, object]
    #: Time of creation (RFC 3339), if it is to be shown.
    created: str | None = None


def plain(tar: bytes) -> PackedLayer:
    """Keep a layer uncompressed: quicker where nothing is transferred."""
    return PackedLayer(tar, f"{_OCI}.layer.v1.tar", _digest(tar))


def gzipped(packed: bytes) -> PackedLayer:
    """Describe a layer that is compressed already."""
    return PackedLayer(packed, f"{_OCI}.layer.v1.tar+gzip", _digest(gzip.decompress(packed)))


def image_digest(images: Sequence[Image]) -> str:
    """Return the digest by which a registry names the image; of several, that of their index."""
    return str(_entry(images, {})["digest"])


def write_archive(path: Path, names: Sequence[str], images: Sequence[Image]) -> None:
    """Write an image under each of its full names, such as docker.io/library/hotmap:0.1.0.

    For several architectures it is an index, and then not what an older Docker loads.
    """
    blobs: dict[str, bytes] = {}
    entry = _entry(images, blobs)
    entries = [
        {
            **entry,
            "annotations": {
                "io.containerd.image.name": name,
                "org.opencontainers.image.ref.name": name.rpartition(":")[2],
            },
        }
        for name in names
    ]
    files = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": _json(_index(entries)),
        **blobs,
    }
    if len(images) == 1:
        manifest = json.loads(blobs[_path(entry)])
        loaded = {
            "Config": _path(manifest["config"]),
            "RepoTags": [name.removeprefix("docker.io/library/") for name in names],
            "Layers": [_path(layer) for layer in manifest["layers"]],
        }
        files["manifest.json"] = _json([loaded])
    _write_tar(files, path)


def _entry(images: Sequence[Image], blobs: dict[str, bytes]) -> _Descriptor:
    """Add the blobs of images; returns the descriptor of the only one, or of their index."""
    manifests = [_manifest(image, blobs) for image in images]
    if len(manifests) == 1:
        return manifests[0]
    return _add(blobs, f"{_OCI}.index.v1+json", _json(_index(manifests)))


def _manifest(image: Image, blobs: dict[str, bytes]) -> _Descriptor:
    platform = {"architecture": image.architecture, "os": "linux"}
    created = {"created": image.created} if image.created else {}
    settings = {
        **platform,
        **created,
        "config": image.settings,
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in image.layers]},
        "history": [{**created, "created_by": "hotmap"} for _ in image.layers],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": _add(blobs, f"{_OCI}.config.v1+json", _json(settings)),
        "layers": [_add(blobs, layer.media_type, layer.content) for layer in image.layers],
    }
    return {**_add(blobs, f"{_OCI}.manifest.v1+json", _json(manifest)), "platform": platform}


def _index(manifests: Sequence[_Descriptor]) -> dict[str, object]:
    return {"schemaVersion": 2, "mediaType": f"{_OCI}.index.v1+json", "manifests": manifests}


def _add(blobs: dict[str, bytes], media_type: str, blob: bytes) -> _Descriptor:
    descriptor = {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}
    blobs[_path(descriptor)] = blob
    return descriptor


def _path(descriptor: Mapping[str, Any]) -> str:
    return "blobs/" + str(descriptor["digest"]).replace(":", "/")


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(content: object) -> bytes:
    return json.dumps(content, sort_keys=True).encode()


def _write_tar(files: Mapping[str, bytes], path: Path) -> None:
    partial = path.with_name(path.name + ".partial")
    with tarfile.open(partial, mode="w") as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    partial.rename(path)
