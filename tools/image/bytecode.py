"""Compiles Python sources for an image with the very Python of the image, which is run in place.

A container with a read-only root cannot write bytecode, and without it every start compiles
thousands of lines.
"""

from __future__ import annotations

import platform
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tools.image.downloads import unpacked_package
from tools.image.errors import ImageError
from tools.image.pins import ARCHITECTURES, read_debian_pins

__all__ = ["compile_sources", "machine_architecture"]

#: Marshal's version 2 has no references between objects, which would depend on what else the
#: process has in its memory; unchecked (PEP 552), since nothing in an image changes.
_SCRIPT = """
import importlib.util, marshal, os, sys

root = sys.argv[1]
for parent, folders, names in os.walk(root):
    for name in sorted(names):
        if not name.endswith(".py"):
            continue
        path = os.path.join(parent, name)
        with open(path, "rb") as file:
            source = file.read()
        try:
            code = compile(source, path[len(root):], "exec", dont_inherit=True, optimize=0)
        except (SyntaxError, ValueError):
            continue
        digest = importlib.util.source_hash(source)
        cache = os.path.join(parent, "__pycache__")
        os.makedirs(cache, exist_ok=True)
        with open(os.path.join(cache, name[:-3] + ".cpython-311.pyc"), "wb") as file:
            file.write(importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + digest)
            file.write(marshal.dumps(code, 2))
"""


def machine_architecture() -> str:
    """Return this machine's architecture as images name it, such as amd64."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def compile_sources(sources: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the bytecode of sources by path in the image, where Python looks for it.

    The result is the same on each architecture.

    Raises:
        ImageError: this machine has neither, or cannot run the images' Python.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, content in sources.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        done = subprocess.run(
            [*_python(), "-S", "-W", "ignore", "-c", _SCRIPT, folder],
            capture_output=True,
            text=True,
            check=False,
            env={"PYTHONHOME": str(_package_files("libpython3.11-minimal") / "usr")},
        )
        if done.returncode != 0:
            raise ImageError(f"the images' Python does not run here: {done.stderr[-500:]}")
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.pyc")}


def _python() -> list[str]:
    """Return the command that runs the images' Python from its unpacked packages."""
    libraries = [_package_files(name) for name in ("libc6", "libexpat1", "zlib1g")]
    folders = [str(path) for root in libraries for path in root.glob("**/*-linux-gnu")]
    (loader, *_) = libraries[0].glob("lib/*/ld-linux-*")
    program = _package_files("python3.11-minimal") / "usr/bin/python3.11"
    return [str(loader), "--library-path", ":".join(folders), str(program)]


def _package_files(name: str) -> Path:
    architecture = machine_architecture()
    if architecture not in ARCHITECTURES:
        raise ImageError(f"images are made on {' or '.join(ARCHITECTURES)}, not on {architecture}")
    return unpacked_package(read_debian_pins(architecture)[name]) / "files"
