"""Debian packages: those a node needs installed, and those whose files go into images.

The second kind is downloaded and unpacked into the cache folder; nothing of it is installed.
"""

import os
import shutil
import subprocess
from pathlib import Path

from tests.cluster import lock, machine
from tests.cluster.errors import TestBedError

# Package → a file by which its presence is known.
NEEDED = {
    "containerd": "/usr/bin/containerd",
    "runc": "/usr/sbin/runc",
    "containernetworking-plugins": "/usr/lib/cni/ptp",
    "iptables": "/usr/sbin/iptables",
    "iproute2": "/bin/ip",
}
QUIET = {"DEBIAN_FRONTEND": "noninteractive"}


def missing() -> list[str]:
    """List the Debian packages that a node needs and that are not installed."""
    return [package for package, file in NEEDED.items() if not Path(file).exists()]


def require() -> None:
    """Install what `missing` lists when that is allowed here.

    Raises:
        TestBedError: it is not, or apt-get failed; the message names the packages.
    """
    if not (absent := missing()):
        return
    wish = f"install the Debian packages {' '.join(absent)}"
    if not machine.is_root() or shutil.which("apt-get") is None:
        raise TestBedError(f"A node needs {absent[0]}, which is not installed: {wish}.")
    print(f"installing {' '.join(absent)}", flush=True)
    done = _fetch("install", "-qq", "-y", "--no-install-recommends", *absent)
    if done.returncode != 0:
        raise TestBedError(f"apt-get failed ({_last_line(done)}); {wish} by hand.")


def unpacked(package: str) -> Path:
    """Return a folder with the files of a package, downloaded and unpacked once.

    Raises:
        TestBedError: apt-get cannot download it.
    """
    folder = machine.cache_folder() / "packages" / package
    if folder.exists():
        return folder
    waiting = "Another command downloads packages; waiting for it."
    with lock.held(folder.parent / "lock", waiting=waiting):
        if folder.exists():
            return folder
        partial = folder.with_name(f"{package}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        (partial / "files").mkdir(parents=True)
        done = _fetch("download", "-qq", "-o", "APT::Sandbox::User=root", package, at=partial)
        archive = next(partial.glob("*.deb"), None)
        if done.returncode != 0 or archive is None:
            raise TestBedError(
                f"The Debian package {package}, whose files go into an image, could not be"
                f" downloaded: {_last_line(done)}"
            )
        subprocess.run(["dpkg", "-x", archive, partial / "files"], check=True)
        (partial / "files").rename(folder)
        shutil.rmtree(partial)
    return folder


def _fetch(*arguments: str, at: Path | None = None) -> subprocess.CompletedProcess[str]:
    done = _apt(*arguments, at=at)
    if done.returncode != 0:  # the lists may be older than the archive, or not there at all
        _apt("update", "-qq")
        done = _apt(*arguments, at=at)
    return done


def _apt(*arguments: str, at: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["apt-get", *arguments],
        cwd=at,
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
        check=False,
    )


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
