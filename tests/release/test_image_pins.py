"""What the images are made of: pins are complete, and of the versions that are tested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.image import available_pins, content, pins
from tools.image.errors import ImageError
from tools.release.sbom import runtime_distributions

ROOT = Path(__file__).parents[2]


def test_wheels_are_those_that_are_tested() -> None:
    """Who changes constraints.txt runs `make image-pins`."""
    listed = re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M)
    tested = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in listed}
    pinned = {name: version for name, (version, _) in pins.read_wheel_pins().items()}
    assert pinned == {name: tested[name] for name in pinned}
    # This Python may need more than the images' does, or less.
    assert set(runtime_distributions("hotmap")) - {"typing-extensions"} <= set(pinned)


def test_every_wheel_has_a_digest() -> None:
    """One for any architecture, or one for each."""
    for name, (_, digests) in pins.read_wheel_pins().items():
        assert 1 <= len(digests) <= len(pins.ARCHITECTURES), name
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests), name


@pytest.mark.parametrize("architecture", pins.ARCHITECTURES)
def test_every_debian_package_is_pinned(architecture: str) -> None:
    """What the images need, and nothing else; an architecture has its own files."""
    pinned = pins.read_debian_pins(architecture)
    assert sorted(pinned) == content.package_names()
    for package in pinned.values():
        assert package.path.endswith((f"_{architecture}.deb", "_all.deb"))


def test_pins_have_equal_versions_for_each_architecture() -> None:
    """So that a bug is one of all of them."""
    versions = [
        {package.name: package.version for package in pins.read_debian_pins(name).values()}
        for name in pins.ARCHITECTURES
    ]
    assert versions[0] == versions[1]


def test_written_pins_are_read_back(tmp_path: Path) -> None:
    """With the time at which they were taken."""
    packages = [*pins.read_debian_pins("amd64").values(), *pins.read_debian_pins("arm64").values()]
    path = tmp_path / "debian.txt"
    path.write_text(pins.write_debian_pins(packages, "20300101T000000Z"))
    assert pins.read_debian_pins("arm64", path) == pins.read_debian_pins("arm64")
    assert pins.read_snapshot(path) == "20300101T000000Z"


def test_invalid_line_of_pins_is_named(tmp_path: Path) -> None:
    """A digest is never left out."""
    path = tmp_path / "debian.txt"
    path.write_text("snapshot 1\namd64 libc6 2.36 pool/main/libc6.deb\n")
    with pytest.raises(ImageError, match="invalid line 'amd64 libc6"):
        pins.read_debian_pins("amd64", path)
    path.write_text("snapshot 1\n")
    with pytest.raises(ImageError, match="no package for amd64"):
        pins.read_debian_pins("amd64", path)


def test_tests_use_what_debian_has_where_a_pinned_package_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for all processes; a release is still made of the pins or not at all."""
    present = [
        package._replace(version="9", digest=64 * "9")
        for architecture in pins.ARCHITECTURES
        for package in pins.read_debian_pins(architecture).values()
    ]
    asked: list[str] = []

    def download(package: pins.DebianPackage) -> None:
        if package.version != "9":
            raise ImageError(f"no archive has {package.name} {package.version}\n  reasons")

    def present_packages(architecture: str, _folder: Path) -> list[pins.DebianPackage]:
        asked.append(architecture)
        return [package for package in present if package.architecture == architecture]

    monkeypatch.setattr(available_pins, "unpacked_package", download)
    monkeypatch.setattr(available_pins, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr("tools.image.refresh.present_packages", present_packages)
    monkeypatch.setenv(pins.PINS_VARIABLE, "")
    notice = available_pins.use_available_pins()
    assert notice.startswith("no archive has ")
    assert "\n" not in notice
    assert {found.version for found in pins.read_debian_pins("arm64").values()} == {"9"}
    monkeypatch.setenv(pins.PINS_VARIABLE, "")
    assert available_pins.use_available_pins() == notice
    assert asked == [*pins.ARCHITECTURES]
    monkeypatch.setattr(available_pins, "unpacked_package", lambda package: None)
    monkeypatch.setenv(pins.PINS_VARIABLE, "")
    assert available_pins.use_available_pins() == ""
