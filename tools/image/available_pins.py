"""Lets tests make the images after Debian has replaced a pinned package.

A release is made of the pins, or not at all. A test should not fail because Debian has published a
security update, where snapshot.debian.org cannot be reached.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tools.image import refresh
from tools.image.content import package_names
from tools.image.downloads import cache_folder, unpacked_package
from tools.image.errors import ImageError
from tools.image.pins import (
    ARCHITECTURES,
    PINS_VARIABLE,
    DebianPackage,
    read_debian_pins,
    read_snapshot,
    write_debian_pins,
)

__all__ = ["use_available_pins"]


def use_available_pins() -> str:
    """Use the present packages in this process where a pinned one is gone; returns why, or "".

    Raises:
        ImageError: the present ones cannot be downloaded either.
    """
    try:
        _download_all(None)
    except ImageError as error:
        reason = str(error).partition(";")[0].partition("\n")[0]
    else:
        return ""
    path = cache_folder() / "present.txt"
    try:
        _download_all(path)
    except (ImageError, OSError):
        packages: list[DebianPackage] = []
        for architecture in ARCHITECTURES:
            with tempfile.TemporaryDirectory() as folder:
                packages += refresh.present_packages(architecture, Path(folder))
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        partial.write_text(write_debian_pins(packages, read_snapshot()))
        partial.replace(path)
        _download_all(path)
    os.environ[PINS_VARIABLE] = str(path)
    return f"{reason}; testing with what Debian has now"


def _download_all(pins: Path | None) -> None:
    for architecture in ARCHITECTURES:
        packages = read_debian_pins(architecture, pins)
        if sorted(packages) != package_names():
            raise ImageError("the pins are of other packages; run make image-pins")
        for package in packages.values():
            unpacked_package(package)
