"""The bill of materials of an image: its Debian packages, its wheels, and hotmap itself."""

from __future__ import annotations

import re
from email.parser import Parser

from tools.image.content import AGENT, CONTROLLER, image_packages
from tools.image.downloads import unpacked_package, unpacked_wheels
from tools.image.pins import DebianPackage, read_debian_pins
from tools.release.sbom import Component, bill_of_materials, declared_license

__all__ = ["image_bill", "image_components", "package_license"]

_LICENSE = re.compile(r"^License: *(\S[^\n]*)$", re.M)


def image_bill(name: str, version: str, architecture: str, digest: str) -> str:
    """Return the document (CycloneDX JSON) of the image with a digest such as sha256:…"""
    subject = Component(
        name, version, f"pkg:oci/{name}@{digest}?arch={architecture}&tag={version}", "Apache-2.0",
        kind="container",
    )  # fmt: skip
    return bill_of_materials(subject, image_components(name, version, architecture))


def image_components(name: str, version: str, architecture: str) -> list[Component]:
    """List everything in an image: Debian packages, wheels, and hotmap itself."""
    parts = [_debian_component(package) for package in image_packages(name, architecture)]
    if name == CONTROLLER:
        parts += _wheel_components(architecture)
    program = "hotmap" if name == CONTROLLER else AGENT
    url = f"pkg:pypi/hotmap@{version}"
    return [*parts, Component(program, version, url, "Apache-2.0")]


def _debian_component(package: DebianPackage) -> Component:
    control = Parser().parsestr((unpacked_package(package) / "control").read_text())
    version = package.version.replace("+", "%2B").replace(":", "%3A")
    url = f"pkg:deb/debian/{package.name}@{version}?arch={control['Architecture']}&distro=debian-12"
    license_ = package_license(package)
    return Component(package.name, package.version, url, license_, digest=package.digest)


def package_license(package: DebianPackage) -> str:
    """Name the licenses of a package, or the file in the image that has them.

    Only a copyright file of Debian's machine-readable form (DEP 5) names them one by one.
    """
    document = unpacked_package(package) / "files/usr/share/doc" / package.name
    name = document.readlink().name if document.is_symlink() else package.name
    owner = read_debian_pins(package.architecture)[name]
    text = (unpacked_package(owner) / "files/usr/share/doc" / name / "copyright").read_text()
    if not text.startswith("Format:"):
        return f"see /usr/share/doc/{name}/copyright"
    return " AND ".join(sorted({license_.strip() for license_ in _LICENSE.findall(text)}))


def _wheel_components(architecture: str) -> list[Component]:
    found = []
    for path in sorted(unpacked_wheels(architecture).glob("*.dist-info/METADATA")):
        described = Parser().parsestr(path.read_text())
        name = re.sub(r"[-_.]+", "-", described["Name"]).lower()
        url = f"pkg:pypi/{name}@{described['Version']}"
        found.append(Component(name, described["Version"], url, declared_license(described)))
    return found
