"""Downloads what the images are made from, verified by its digest, and keeps it unpacked.

Nothing is installed, and nothing of another architecture is run. Debian packages come from the
archives that this machine uses, else from Debian's own, else from snapshot.debian.org, which keeps
every version. Wheels come from the index that pip uses.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from tools.image.errors import ImageError
from tools.image.pins import WHEEL_PINS, DebianPackage, read_snapshot, read_wheel_pins

__all__ = ["archives", "cache_folder", "pip_download", "unpacked_package", "unpacked_wheels"]

PYTHON_VERSION = "3.11"
_APT_HELPER = "/usr/lib/apt/apt-helper"
_DEBIAN = "http://deb.debian.org"
_SNAPSHOT = "http://snapshot.debian.org/archive"
#: The newest glibc that wheels may need: Debian 12 has 2.36.
_PLATFORMS = (*(f"manylinux_2_{minor}" for minor in range(36, 16, -1)), "manylinux2014")
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def cache_folder() -> Path:
    """Return where downloads and finished layers are kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "hotmap" / "images"


def unpacked_package(package: DebianPackage) -> Path:
    """Return a folder with the files of a package in `files`, and its `control` file.

    Raises:
        ImageError: no archive has it, or what they have has another digest.
    """
    folder = cache_folder() / "packages" / package.digest[:16]
    if not folder.exists():
        with _new_folder(folder) as partial:
            archive = partial / "package.deb"
            _download(package, archive)
            _run(["dpkg-deb", "--extract", str(archive), str(partial / "files")])
            (partial / "control").write_text(_run(["dpkg-deb", "--field", str(archive)]))
            archive.unlink()
    return folder


def unpacked_wheels(architecture: str) -> Path:
    """Return a folder with the files of all wheels for an architecture.

    Raises:
        ImageError: the index does not have one with the digest of the pins.
    """
    pins = WHEEL_PINS.read_bytes()
    folder = cache_folder() / "wheels" / f"{architecture}-{hashlib.sha256(pins).hexdigest()[:16]}"
    if not folder.exists():
        with _new_folder(folder) as partial, tempfile.TemporaryDirectory() as wheels:
            pip_download(
                architecture,
                Path(wheels),
                *("--no-deps", "--require-hashes", f"--requirement={WHEEL_PINS}"),
            )
            found = sorted(Path(wheels).glob("*.whl"))
            if len(found) != len(read_wheel_pins()):
                raise ImageError(f"{len(found)} wheels for {architecture} instead of those pinned")
            for wheel in found:
                _unpack_wheel(wheel, partial)
    return folder


def pip_download(architecture: str, folder: Path, *arguments: str) -> None:
    """Download wheels for the images' Python and an architecture.

    Raises:
        ImageError: pip cannot.
    """
    machine = _MACHINES[architecture]
    _run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
            *(f"--platform={name}_{machine}" for name in _PLATFORMS),
            *(f"--python-version={PYTHON_VERSION}", "--implementation=cp"),
            *("--only-binary=:all:", f"--dest={folder}", *arguments),
        ]
    )


def archives() -> list[str]:
    """List the addresses of the Debian archives that this machine uses."""
    found = _run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"])
    return [
        address
        for address in dict.fromkeys(found.split())
        # By the address: labels are known only where package lists were downloaded.
        if address.rstrip("/").rpartition("/")[2] in ("debian", "debian-security")
    ]


def _download(package: DebianPackage, target: Path) -> None:
    """Download from the first archive that has the file."""
    if not Path(_APT_HELPER).exists():
        raise ImageError(f"images are made on Debian or a system like it: no {_APT_HELPER} here")
    name = "debian-security" if package.path.startswith("pool/updates/") else "debian"
    bases = [
        *(address for address in archives() if name in address.rstrip("/").split("/")),
        *archives(),
        f"{_DEBIAN}/{name}/",
        f"{_SNAPSHOT}/{name}/{read_snapshot()}/",
    ]
    reasons = {}
    for base in dict.fromkeys(bases):
        url = base + quote(package.path)
        done = subprocess.run(
            [
                *(_APT_HELPER, "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=2"),
                *("download-file", url, str(target), f"SHA256:{package.digest}"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return
        lines = [line for line in done.stderr.splitlines() if line.startswith("E: ")]
        reasons[url] = lines[0] if lines else f"exit status {done.returncode}"
    listed = "".join(f"\n  {url}: {reason}" for url, reason in reasons.items())
    raise ImageError(
        f"no archive has {package.name} {package.version} for {package.architecture}; take the "
        f"present versions with `make image-pins`:{listed}"
    )


def _unpack_wheel(wheel: Path, folder: Path) -> None:
    """Unpack what a wheel puts into site-packages."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            top = name.partition("/")[0]
            if not name.endswith("/") and not top.endswith(".data"):
                archive.extract(name, folder)


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Give a folder that gets its name once it is complete; another process may be quicker."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder.parent))
    try:
        partial.chmod(0o755)
        yield partial
        if not folder.exists():
            try:
                partial.rename(folder)
            except OSError:
                if not folder.exists():
                    raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _run(command: list[str]) -> str:
    """Return what a program prints.

    Raises:
        ImageError: it is missing or fails.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise ImageError(f"images are made on Debian or a system like it: {error}") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise ImageError(f"{' '.join(command[:4])} …: {lines[-1]}")
    return done.stdout
