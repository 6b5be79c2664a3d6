"""Images for a release: Python and hotmap alone, without a shell, for a user that is not root.

One tar is an OCI image layout (opencontainers: image-spec, image-layout.md) and what `docker load`
reads. Equal inputs give equal bytes. Files come out of Debian packages, as for the test bed's
images, whose layers these are made with; the architecture is that of this machine.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster import images
from tests.cluster.images import Layer

from hotmap.agent import build as agent

__all__ = ["agent_image", "controller_image"]

#: As in the manifests; any other user works, too.
USER = "65532:65532"
_ENVIRONMENT = [images.PATH, "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"]
_OCI = "application/vnd.oci.image"


def controller_image(version: str, labels: Mapping[str, str]) -> bytes:
    """Return the image of the controller and the command line, as a tar."""
    layer = _python()
    layer.packages(images.HOTMAP)
    images.add_hotmap(layer)
    settings = {
        "Entrypoint": ["python3", "-m", "hotmap"],
        "Env": [*_ENVIRONMENT, "PYTHONPATH=/opt/hotmap"],
    }
    return _image(f"hotmap:{version}", layer, {**settings, **_common(labels)})


def agent_image(version: str, labels: Mapping[str, str]) -> bytes:
    """Return the image of the agent alone, as a tar."""
    layer = _python()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "agent.pyz"
        agent.build(str(program))
        layer.file("usr/bin/hotmap", program.read_bytes(), 0o755)
    # Not by its first line: there is no env(1).
    settings = {"Entrypoint": ["python3", "/usr/bin/hotmap"], "Env": _ENVIRONMENT}
    return _image(f"hotmap-agent:{version}", layer, {**settings, **_common(labels)})


def _python() -> Layer:
    layer = Layer().root().packages(images.PYTHON)
    layer.link("usr/bin/python3", "python3.11")
    return layer


def _common(labels: Mapping[str, str]) -> dict[str, Any]:
    return {"User": USER, "WorkingDir": "/", "Labels": dict(sorted(labels.items()))}


def _image(name: str, layer: Layer, settings: Mapping[str, Any]) -> bytes:
    """Write one layer and its settings as a tar with one image."""
    content = layer.content()
    blobs: dict[str, bytes] = {}

    def add(media_type: str, blob: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(blob).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = blob
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(blob)}

    platform = {"architecture": images.architecture(), "os": "linux"}
    differences = [f"sha256:{hashlib.sha256(content).hexdigest()}"]
    config = add(
        f"{_OCI}.config.v1+json",
        _json({**platform, "config": settings,
               "rootfs": {"type": "layers", "diff_ids": differences}}),
    )  # fmt: skip
    packed = add(f"{_OCI}.layer.v1.tar+gzip", gzip.compress(content, compresslevel=6, mtime=0))
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": config,
        "layers": [packed],
    }
    entry = add(f"{_OCI}.manifest.v1+json", _json(manifest))
    full_name = f"docker.io/library/{name}"
    annotations = {
        "io.containerd.image.name": full_name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    index = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.index.v1+json",
        "manifests": [{**entry, "platform": platform, "annotations": annotations}],
    }
    # What `docker load` reads.
    docker = [
        {"Config": _path(config), "RepoTags": [name], "Layers": [_path(packed)]},
    ]
    files = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": _json(index),
        "manifest.json": _json(docker),
        **blobs,
    }
    return _tar(files)


def _path(descriptor: Mapping[str, Any]) -> str:
    return "blobs/" + str(descriptor["digest"]).replace(":", "/")


def _json(content: object) -> bytes:
    return json.dumps(content, sort_keys=True).encode()


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()
