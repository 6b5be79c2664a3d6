"""The images of a release: reproducible, small, without a shell, and not for root."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cluster import images
from tests.cluster.errors import TestBedError
from tests.support.requires import requires
from tools.release.image import agent_image, controller_image

pytestmark = pytest.mark.slow

LABELS = {"org.opencontainers.image.version": "7"}
#: What must not be in the container's image.
_TOOLS = {"sh", "bash", "dash", "busybox", "env", "apt", "dpkg", "perl", "pip", "pip3"}


def blob(archive: tarfile.TarFile, path: str) -> bytes:
    found = archive.extractfile(path)
    assert found is not None
    return found.read()


def read_blob(archive: tarfile.TarFile, descriptor: dict[str, Any]) -> bytes:
    return blob(archive, "blobs/" + descriptor["digest"].replace(":", "/"))


@pytest.mark.parametrize(
    ("make", "name", "megabytes", "program"),
    [
        (controller_image, "hotmap", 60, ["-m", "hotmap", "--version"]),
        (agent_image, "hotmap-agent", 25, ["/usr/bin/hotmap", "--version"]),
    ],
    ids=["controller", "agent"],
)
def test_image_is_small_reproducible_and_without_a_shell(
    make: Callable[[str, dict[str, str]], bytes],
    name: str,
    megabytes: int,
    program: list[str],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """As a layout and for `docker load`; the program in it starts as another user."""
    requires("python-3.11", available=images.can_make_hotmap(), reason="of Debian 12's packages")
    try:
        content = make("7", LABELS)
    except TestBedError as error:
        requires("debian-packages", available=False, reason=str(error))
        raise
    assert make("7", LABELS) == content
    record_property("compressed, MB", f"{len(content) / 1e6:.1f}")
    assert len(content) <= megabytes * 1e6
    root = tmp_path / "root"

    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        (entry,) = json.loads(blob(archive, "index.json"))["manifests"]
        manifest = json.loads(read_blob(archive, entry))
        config = json.loads(read_blob(archive, manifest["config"]))
        (layer,) = manifest["layers"]
        packed = read_blob(archive, layer)
        (docker,) = json.loads(blob(archive, "manifest.json"))
        assert docker["RepoTags"] == [f"{name}:7"]
        assert blob(archive, docker["Layers"][0]) == packed
    assert config["config"]["User"] == "65532:65532"
    assert config["config"]["Labels"] == LABELS
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        assert not {Path(member).name for member in files.getnames()} & _TOOLS
        writable = [file.name for file in files if file.isfile() and file.mode & 0o022]
        assert writable == []
        if os.geteuid() == 0:
            # pytest's own folder is for its user only.
            root.mkdir()
            files.extractall(root, filter="tar")
    if os.geteuid() == 0:
        command = ["chroot", "--userspec=65532:65532", str(root), "/usr/bin/python3", *program]
        environment = {"PYTHONPATH": "/opt/hotmap", "PATH": os.environ["PATH"]}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("hotmap")
