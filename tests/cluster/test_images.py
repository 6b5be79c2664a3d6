"""Image tars follow the OCI layout: every blob is where its digest says, and complete."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.cluster import images
from tools.image.layer import Layer
from tools.image.oci import Image, plain, write_archive

from hotmap import __version__
from hotmap.cli.inject import default_image

CONTAINERD_NAME = "io.containerd.image.name"
NAMES = ["hotmap.test/try:1", "docker.io/library/try:0.1.0"]


@pytest.fixture
def layout(tmp_path: Path) -> dict[str, bytes]:
    layer = images.add_root(Layer())
    layer.file("etc/motd", b"hello")
    path = tmp_path / "image.tar"
    write_archive(path, NAMES, [Image("amd64", [plain(layer.content())], {"Cmd": ["sh"]})])
    with tarfile.open(path) as archive:
        return {member.name: read(archive, member) for member in archive}


def read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return file.read() if file else b""


def blob(layout: dict[str, bytes], descriptor: dict[str, Any]) -> bytes:
    found = layout["blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")]
    assert len(found) == descriptor["size"]
    return found


def members(layer: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        return {member.name: member for member in archive}


def test_every_blob_has_the_digest_that_names_it(layout: dict[str, bytes]) -> None:
    """containerd refuses an image whose content does not match."""
    blobs = {name: content for name, content in layout.items() if name.startswith("blobs/")}
    assert len(blobs) == 3
    for name, content in blobs.items():
        assert hashlib.sha256(content).hexdigest() == name.rpartition("/")[2]


def test_index_leads_to_manifest_settings_and_layer(layout: dict[str, bytes]) -> None:
    """Sizes fit, and containerd finds each name under which it files the image."""
    entry, other = json.loads(layout["index.json"])["manifests"]
    assert [item["annotations"][CONTAINERD_NAME] for item in (entry, other)] == NAMES
    assert entry["digest"] == other["digest"]
    manifest = json.loads(blob(layout, entry))
    settings = json.loads(blob(layout, manifest["config"]))
    assert settings["config"] == {"Cmd": ["sh"]}
    (layer,) = manifest["layers"]
    assert settings["rootfs"]["diff_ids"] == [layer["digest"]]
    assert members(blob(layout, layer))["etc/motd"].size == 5


def test_first_added_path_is_kept() -> None:
    """So that our nginx.conf goes before Debian's; a path is never twice in a layer."""
    layer = Layer()
    layer.file("etc/nginx.conf", b"ours")
    layer.file("etc/nginx.conf", b"Debian's is longer")
    assert members(layer.content())["etc/nginx.conf"].size == 4


def test_bin_and_lib_are_links_into_usr() -> None:
    """Files of packages that still say /bin must not turn the link into a folder."""
    layer = images.add_root(Layer())
    layer.file("bin/tool", b"", 0o755)
    found = members(layer.content())
    assert found["bin"].issym()
    assert found["usr/bin/tool"].isreg()
    assert "bin/tool" not in found


def test_upper_layer_leaves_those_links_alone(tmp_path: Path) -> None:
    """A folder over the link would hide all that is below it."""
    (tmp_path / "lib/deep").mkdir(parents=True)
    (tmp_path / "lib/deep/one").touch()
    assert set(members(Layer().tree(tmp_path).content())) == {"usr/lib/deep", "usr/lib/deep/one"}


def test_tree_keeps_modes_and_links_and_leaves_out_manuals(tmp_path: Path) -> None:
    """Documentation and compiled caches would make images three times as large."""
    (tmp_path / "usr/share/doc/tool").mkdir(parents=True)
    (tmp_path / "usr/share/doc/tool/copyright").touch()
    (tmp_path / "usr/lib/__pycache__").mkdir(parents=True)
    (tmp_path / "usr/lib/__pycache__/a.pyc").touch()
    (tmp_path / "usr/lib/run").touch(mode=0o750)
    (tmp_path / "usr/lib/walk").symlink_to("run")
    found = members(Layer().tree(tmp_path).content())
    assert set(found) == {"usr", "usr/lib", "usr/lib/run", "usr/lib/walk", "usr/share"}
    assert found["usr/lib/run"].mode & 0o777 == (tmp_path / "usr/lib/run").stat().st_mode & 0o777
    assert found["usr/lib/walk"].linkname == "run"


def test_images_have_the_names_in_manifests() -> None:
    """So that manifests run as the chart and `hotmap inject` write them."""
    assert f"docker.io/library/{default_image()}" in images.aliases("hotmap-agent")
    assert f"docker.io/library/hotmap:{__version__}" in images.aliases("hotmap")
    assert images.aliases("busybox") == [images.reference("busybox")]


def test_hotmap_image_is_made_again_when_its_source_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test on a real node must never run yesterday's code."""
    monkeypatch.setattr(images, "SOURCE", tmp_path)
    (tmp_path / "a.py").write_text("1")
    first = images._recipe("hotmap")
    (tmp_path / "a.py").write_text("2")
    second = images._recipe("hotmap")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").touch()
    assert first != second
    assert images._recipe("hotmap") == second
    assert images._recipe("busybox") == images._recipe("nginx")
