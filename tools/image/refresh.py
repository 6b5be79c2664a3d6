"""`python -m tools.image.refresh`: pins the present versions, `make image-pins`.

Debian packages: the newest of the stable and the security archive. Wheels: the versions of
constraints.txt. Both need their index to be reachable; nothing is installed.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote

from tools.image import content, downloads
from tools.image.errors import ImageError
from tools.image.pins import (
    ARCHITECTURES,
    DEBIAN_PINS,
    WHEEL_PINS,
    DebianPackage,
    write_debian_pins,
)

ROOT = Path(__file__).parents[2]
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_SUITES = {"debian": "bookworm", "debian-security": "bookworm-security"}
_URI = re.compile(r"'(\S+)' (\S+?)_(\S+)_\S+\.deb \d+ SHA256:([0-9a-f]{64})")


def present_packages(architecture: str, folder: Path) -> list[DebianPackage]:
    """Return the newest versions, from package lists that are kept in a folder of their own.

    Raises:
        ImageError: the archives cannot be read.
    """
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    lines = [
        f"deb [signed-by={_KEYRING}] {address} {_SUITES[name]} main\n"
        for address in downloads.archives()
        if (name := address.rstrip("/").rpartition("/")[2]) in _SUITES
    ]
    (folder / "sources.list").write_text("".join(lines))
    settings = {
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", *(f"--option={name}={value}" for name, value in settings.items())]
    _run([*apt, "update", "--quiet=2"])
    found = _run([*apt, "download", "--print-uris", "--quiet=2", *content.package_names()])
    packages = []
    for url, name, version, digest in _URI.findall(found):
        path = "pool/" + unquote(url).partition("/pool/")[2]
        packages.append(DebianPackage(architecture, name, unquote(version), digest, path))
    missing = set(content.package_names()) - {package.name for package in packages}
    if missing:
        raise ImageError(f"not in the archives for {architecture}: {', '.join(sorted(missing))}")
    return packages


def present_wheels() -> str:
    """Return requirements with the digests of all wheels, as pip reads them.

    Raises:
        ImageError: pip cannot download one.
    """
    digests: dict[str, set[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "requirements.txt"
        project = (ROOT / "pyproject.toml").read_text()
        (listed,) = re.findall(r"^dependencies = \[\n(.*?)^\]", project, re.M | re.S)
        wanted.write_text("\n".join(re.findall(r'"(.+?)"', listed)))
        for architecture in ARCHITECTURES:
            wheels = Path(folder) / architecture
            downloads.pip_download(
                architecture,
                wheels,
                *(f"--constraint={ROOT / 'constraints.txt'}", f"--requirement={wanted}"),
            )
            for wheel in wheels.glob("*.whl"):
                name, version, *_ = wheel.name.split("-")
                requirement = f"{re.sub(r'[-_.]+', '-', name).lower()}=={version}"
                digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
                digests.setdefault(requirement, set()).add(digest)
    lines = [
        " \\\n    ".join([requirement, *(f"--hash=sha256:{digest}" for digest in sorted(found))])
        for requirement, found in sorted(digests.items())
    ]
    header = "# The wheels in the controller's image.\n# Written by `make image-pins`.\n"
    return header + "\n".join(lines) + "\n"


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ImageError(f"{command[0]}: {done.stderr.strip()[-500:]}")
    return done.stdout


def main() -> int:
    """Write both files; returns the exit status."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    try:
        packages = []
        for architecture in ARCHITECTURES:
            with tempfile.TemporaryDirectory() as folder:
                packages += present_packages(architecture, Path(folder))
        wheels = present_wheels()
    except (ImageError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    DEBIAN_PINS.write_text(write_debian_pins(packages, now))
    WHEEL_PINS.write_text(wheels)
    print(f"{len(packages)} packages and the wheels are pinned; review and commit them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
