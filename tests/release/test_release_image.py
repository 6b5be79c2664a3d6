"""The images: reproducible, small, without a shell, for each architecture, with what is in them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.requires import requires
from tools.image import downloads
from tools.image.__main__ import WrittenImage, write_images
from tools.image.available_pins import use_available_pins
from tools.image.bytecode import machine_architecture
from tools.image.errors import ImageError
from tools.image.pins import ARCHITECTURES, DebianPackage

from hotmap import __version__

pytestmark = pytest.mark.slow

#: What must not be in an image.
_TOOLS = {
    *("sh", "bash", "dash", "busybox", "env", "perl", "curl", "wget"),
    *("apt", "apt-get", "dpkg", "pip", "pip3", "ensurepip", "ldconfig"),
}
_MEGABYTES = {"hotmap": 60, "hotmap-agent": 25}
#: e_machine of an ELF file (elf.h).
_ELF_MACHINES = {"amd64": 62, "arm64": 183}
_IMAGES = [(name, architecture) for name in _MEGABYTES for architecture in ARCHITECTURES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("images")


@pytest.fixture(scope="module")
def written(folder: Path) -> dict[tuple[str, str], WrittenImage]:
    """The images by name and architecture; "" is the archive with all."""
    try:
        use_available_pins()
        images = write_images(folder, "7")
    except ImageError as error:
        requires("debian-packages", available=False, reason=str(error))
        raise
    return {(image.name.partition(":")[0], image.architecture): image for image in images}


class Archive:
    """The files of an image's archive."""

    def __init__(self, path: Path) -> None:
        with tarfile.open(path) as archive:
            self.files = {member.name: _read(archive, member) for member in archive}

    def json(self, name: str) -> Any:
        return json.loads(self.files[name])

    def blob(self, descriptor: dict[str, Any]) -> bytes:
        found = self.files["blobs/" + descriptor["digest"].replace(":", "/")]
        assert len(found) == descriptor["size"]
        return found

    def members(self, manifest: dict[str, Any]) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
        """The files of all layers by name."""
        found: dict[str, tuple[tarfile.TarInfo, bytes]] = {}
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=io.BytesIO(self.blob(layer))) as files:
                found |= {member.name: (member, _read(files, member)) for member in files}
        return found


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member) if member.isfile() else None
    return file.read() if file else b""


@pytest.mark.parametrize(("name", "architecture"), _IMAGES)
def test_image_is_small_without_a_shell_and_for_its_architecture(
    written: dict[tuple[str, str], WrittenImage],
    name: str,
    architecture: str,
    record_property: Callable[[str, object], None],
) -> None:
    """As a layout, and for `docker load`."""
    image = written[name, architecture]
    record_property("compressed, MB", f"{image.size / 1e6:.1f}")
    assert image.size <= _MEGABYTES[name] * 1e6
    archive = Archive(image.path)
    (entry,) = archive.json("index.json")["manifests"]
    assert entry["digest"] == image.digest
    manifest = json.loads(archive.blob(entry))
    config = json.loads(archive.blob(manifest["config"]))
    assert config["architecture"] == architecture
    assert config["config"]["User"] == "65532:65532"
    assert config["config"]["Labels"]["org.opencontainers.image.version"] == "7"
    assert config["config"]["Labels"]["org.opencontainers.image.title"] == name
    (docker,) = archive.json("manifest.json")
    assert docker["RepoTags"] == [f"{name}:7"]
    assert docker["Layers"] == [
        "blobs/" + layer["digest"].replace(":", "/") for layer in manifest["layers"]
    ]

    members = archive.members(manifest)
    programs = {Path(name).name for name, (member, _) in members.items() if not member.isdir()}
    assert not programs & _TOOLS
    for member, found in members.values():
        assert not (member.isfile() and member.mode & 0o6022), member.name
        if found.startswith(b"\x7fELF"):
            assert struct.unpack_from("<H", found, 18)[0] == _ELF_MACHINES[architecture]
    assert members["usr/lib/python3.11/__pycache__/os.cpython-311.pyc"][0].isfile()
    assert b"BEGIN CERTIFICATE" in members["etc/ssl/certs/ca-certificates.crt"][1]


@pytest.mark.parametrize("name", _MEGABYTES)
def test_archive_of_all_architectures_has_the_same_images(
    written: dict[tuple[str, str], WrittenImage], name: str
) -> None:
    """An index that names each by its platform, which is what a registry gets."""
    image = written[name, ""]
    archive = Archive(image.path)
    (entry,) = archive.json("index.json")["manifests"]
    assert entry["digest"] == image.digest
    assert entry["annotations"]["io.containerd.image.name"] == f"docker.io/library/{name}:7"
    index = json.loads(archive.blob(entry))
    assert index["mediaType"] == "application/vnd.oci.image.index.v1+json"
    assert [manifest["platform"]["architecture"] for manifest in index["manifests"]] == [
        *ARCHITECTURES
    ]
    assert [manifest["digest"] for manifest in index["manifests"]] == [
        written[name, architecture].digest for architecture in ARCHITECTURES
    ]
    for manifest in index["manifests"]:
        for layer in json.loads(archive.blob(manifest))["layers"]:
            digest = hashlib.sha256(archive.blob(layer)).hexdigest()
            assert layer["digest"] == f"sha256:{digest}"


@pytest.mark.parametrize(("name", "architecture"), _IMAGES)
def test_bill_of_materials_lists_what_is_in_the_image(
    written: dict[tuple[str, str], WrittenImage], name: str, architecture: str
) -> None:
    """Each Debian package that scanners see there, and each wheel; licenses and digests."""
    image = written[name, architecture]
    bill = json.loads(image.path.with_suffix(".cdx.json").read_text())
    assert image.digest in bill["metadata"]["component"]["purl"]
    assert bill["metadata"]["component"]["type"] == "container"
    components = {component["purl"]: component for component in bill["components"]}
    debian = {
        component["name"] for url, component in components.items() if url.startswith("pkg:deb/")
    }
    archive = Archive(image.path)
    (entry,) = archive.json("index.json")["manifests"]
    members = archive.members(json.loads(archive.blob(entry)))
    seen = {member.removeprefix("var/lib/dpkg/status.d/") for member in members
            if member.startswith("var/lib/dpkg/status.d/")}  # fmt: skip
    assert debian == seen
    wheels = {member.split("/")[4].split("-")[0].replace("_", "-").lower() for member in members
              if member.endswith(".dist-info/METADATA")}  # fmt: skip
    listed = {
        component["name"] for url, component in components.items() if url.startswith("pkg:pypi/")
    }
    assert listed == {*wheels, name}
    assert bool(wheels) == (name == "hotmap")
    for url, component in components.items():
        assert component["licenses"], url
        assert not url.startswith("pkg:deb/") or component["hashes"][0]["alg"] == "SHA-256"


@pytest.mark.parametrize("name", _MEGABYTES)
def test_image_starts_as_another_user(
    written: dict[tuple[str, str], WrittenImage], name: str, tmp_path: Path
) -> None:
    """From what is in the image alone; also under the names of the reloaders that it replaces."""
    requires("root", available=os.geteuid() == 0, reason="only root may chroot")
    image = written[name, machine_architecture()]
    root = tmp_path / "root"
    root.mkdir()
    archive = Archive(image.path)
    (entry,) = archive.json("index.json")["manifests"]
    for layer in json.loads(archive.blob(entry))["layers"]:
        with tarfile.open(fileobj=io.BytesIO(archive.blob(layer))) as files:
            files.extractall(root, filter="tar")

    def run(*words: str) -> str:
        command = ["chroot", "--userspec=65532:65532", str(root), *words]
        environment = {"PATH": "/usr/sbin:/usr/bin"}  # chroot is in the first
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    version = ("--version",) if name == "hotmap" else ("agent", "--version")
    assert __version__ in run("/usr/bin/hotmap", *version)
    assert "configmap-reload" in run("/usr/bin/configmap-reload", "--help")
    authorities = "import ssl; print(len(ssl.create_default_context().get_ca_certs()))"
    assert int(run("/usr/bin/python3", "-c", authorities)) > 50
    modules = {"hotmap": "click, hotmap.cli.main, httptools, msgspec, re2, rich, yaml"}
    run("/usr/bin/python3", "-c", f"import {modules.get(name, 'ctypes, lzma')}")


def test_second_build_has_the_same_digests(
    written: dict[tuple[str, str], WrittenImage],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the layers of the first one: they are made again of the same downloads."""
    layers = tmp_path / "cache" / "layers"
    cache = downloads.cache_folder()
    layers.mkdir(parents=True)
    for name in ("packages", "wheels"):
        (tmp_path / "cache" / name).symlink_to(cache / name)
    monkeypatch.setattr(downloads, "cache_folder", lambda: tmp_path / "cache")
    architecture = machine_architecture()
    again = write_images(tmp_path / "again", "7", [architecture])
    for image in again:
        first = written[image.name.partition(":")[0], architecture]
        assert image.digest == first.digest
        assert image.path.read_bytes() == first.path.read_bytes()
    assert len(list(layers.glob("*.tar.gz"))) == 4


def test_package_with_another_digest_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no archive has it, the remedy is named with every archive that was asked."""
    monkeypatch.setattr(downloads, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(downloads, "archives", list)
    monkeypatch.setattr(downloads, "_DEBIAN", f"file://{tmp_path}")
    monkeypatch.setattr(downloads, "_SNAPSHOT", f"file://{tmp_path}/snapshot")
    archive = tmp_path / "debian" / "pool" / "main" / "a" / "a_1.deb"
    archive.parent.mkdir(parents=True)
    archive.write_text("something else")
    package = DebianPackage("amd64", "a", "1", 64 * "0", "pool/main/a/a_1.deb")
    with pytest.raises(ImageError, match="make image-pins") as error:
        downloads.unpacked_package(package)
    assert "no archive has a 1 for amd64" in str(error.value)
    assert str(error.value).count("file://") == 2
    assert not (tmp_path / "cache" / "packages" / package.digest[:16]).exists()
