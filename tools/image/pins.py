"""What the images are made from: Debian packages and wheels, each with its version and SHA-256.

`debian.txt` and `wheels.txt` are written by `make image-pins` and reviewed like code.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from tools.image.errors import ImageError

__all__ = [
    "ARCHITECTURES",
    "DEBIAN_PINS",
    "PINS_VARIABLE",
    "WHEEL_PINS",
    "DebianPackage",
    "debian_pins",
    "read_debian_pins",
    "read_snapshot",
    "read_wheel_pins",
    "write_debian_pins",
]

FOLDER = Path(__file__).parent
DEBIAN_PINS = FOLDER / "debian.txt"
#: Names another file of Debian packages, for tests after Debian has replaced one of these.
PINS_VARIABLE = "HOTMAP_DEBIAN_PINS"
WHEEL_PINS = FOLDER / "wheels.txt"

#: As images and Debian name them.
ARCHITECTURES = ("amd64", "arm64")

_HEADER = """\
# The Debian packages in the images: architecture, package, version, SHA-256, path in the archive.
# Written by `make image-pins`.
snapshot {snapshot}
"""


class DebianPackage(NamedTuple):
    """A package of Debian, as a file of the archive."""

    architecture: str
    name: str
    version: str
    #: SHA-256 of the .deb, in hexadecimal
    digest: str
    #: such as pool/main/z/zlib/zlib1g_1.2.13_amd64.deb
    path: str


def debian_pins() -> Path:
    """Return the file of Debian packages that is used."""
    return Path(os.environ.get(PINS_VARIABLE) or DEBIAN_PINS)


def read_debian_pins(architecture: str, path: Path | None = None) -> dict[str, DebianPackage]:
    """Return the packages of an architecture by name.

    Raises:
        ImageError: the file does not have one, or has a line of another form.
    """
    path = path or debian_pins()
    found = {}
    for line in _lines(path):
        words = line.split()
        if words[0] == "snapshot":
            continue
        if len(words) != 5 or not re.fullmatch("[0-9a-f]{64}", words[3]):
            raise ImageError(f"{path.name}: invalid line {line!r}")
        package = DebianPackage(*words)
        if package.architecture == architecture:
            found[package.name] = package
    if not found:
        raise ImageError(f"{path.name} has no package for {architecture}")
    return found


def read_snapshot(path: Path | None = None) -> str:
    """Return the time of the pins as snapshot.debian.org has it, such as 20261122T120000Z."""
    lines = _lines(path or debian_pins())
    return next(line.split()[1] for line in lines if line.startswith("snapshot "))


def write_debian_pins(packages: list[DebianPackage], snapshot: str) -> str:
    """Return the text of the file."""
    lines = [" ".join(package) + "\n" for package in sorted(packages)]
    return _HEADER.format(snapshot=snapshot) + "".join(lines)


def read_wheel_pins() -> dict[str, tuple[str, list[str]]]:
    """Return version and digests (SHA-256) of each distribution, by name."""
    text = WHEEL_PINS.read_text().replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        if (words := line.split()) and not line.startswith("#"):
            name, _, version = words[0].partition("==")
            found[name] = (version, [word.rpartition(":")[2] for word in words[1:]])
    return found


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
