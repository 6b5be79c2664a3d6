"""What is in the images of the controller and the agent, and the images themselves.

Python and hotmap alone: no shell, no package manager, a user that is not root, and nothing that is
written at run time. The lowest layer, Python, is the same in both.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.image import downloads
from tools.image.bytecode import compile_sources
from tools.image.downloads import unpacked_package, unpacked_wheels
from tools.image.layer import Layer, walk
from tools.image.oci import Image, PackedLayer, gzipped
from tools.image.pins import WHEEL_PINS, DebianPackage, debian_pins, read_debian_pins

from hotmap.__main__ import DROP_INS
from hotmap.agent import build as agent

__all__ = [
    "AGENT",
    "CONTROLLER",
    "SOURCE",
    "agent_image",
    "controller_image",
    "image_packages",
    "package_names",
]

_ROOT = Path(__file__).parents[2]
SOURCE = _ROOT / "src" / "hotmap"

#: Names of the images, and Debian packages in them.
CONTROLLER, AGENT = "hotmap", "hotmap-agent"
_PYTHON = (
    *("libc6", "libgcc-s1", "gcc-12-base", "libcrypt1", "libexpat1", "zlib1g"),
    *("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib"),
    *("libbz2-1.0", "libffi8", "liblzma5", "libssl3", "libuuid1", "tzdata", "ca-certificates"),
)
_CONTROLLER = ("libstdc++6",)  # re2 is written in C++

#: Any other user works, too.
_USER = "65532:65532"
_USERS = """\
root:x:0:0:root:/root:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/:/usr/sbin/nologin
hotmap:x:65532:65532:hotmap:/:/usr/sbin/nologin
"""
_GROUPS = "root:x:0:\nnogroup:x:65534:\nhotmap:x:65532:\n"
#: Programs that make or install something, and modules without their library. The terms of each
#: package stay (usr/share/doc/*/copyright).
_WITHOUT = re.compile(
    r"usr/share/(man|lintian|locale|bug|binfmts|zoneinfo/right)(/|$)"
    r"|usr/share/doc/[^/]+/(?!copyright$)"
    r"|usr/lib/(valgrind|udev)(/|$)|usr/share/(ca-certificates|gcc|gdb)(/|$)|usr/sbin/|gconv"
    r"|usr/lib/python3\.11/(curses|ensurepip|idlelib|lib2to3|pydoc_data|sqlite3|test|tkinter|venv)(/|$)"
    r"|lib-dynload/(_curses|_sqlite3|readline|_test|_xxtest|_ctypes_test)"
    r"|(^|/)__pycache__(/|$)|\.(a|pyi|pyx|pxd|c|h)$"
)
_PATH = "PATH=/usr/bin"
_PACKAGES = "usr/lib/python3/dist-packages"
_LAUNCHER = b"""\
#!/usr/bin/python3 -P
import sys

from hotmap.__main__ import main

sys.exit(main())
"""
_AGENT_PROGRAM = "usr/lib/hotmap/agent.pyz"
#: The copy for an application's image starts by `env`, which is not here.
_AGENT_LAUNCHER = f"""\
#!/usr/bin/python3 -P
import sys
import zipimport

sys.path.insert(0, "/{_AGENT_PROGRAM}")
exec(zipimport.zipimporter("/{_AGENT_PROGRAM}").get_code("__main__"))
"""


def image_packages(name: str, architecture: str) -> list[DebianPackage]:
    """List the Debian packages in an image."""
    pins = read_debian_pins(architecture)
    return [pins[each] for each in sorted((*_PYTHON, *(_CONTROLLER if name == CONTROLLER else ())))]


def package_names() -> list[str]:
    """List the Debian packages that are pinned."""
    return sorted((*_PYTHON, *_CONTROLLER))


def controller_image(
    architecture: str, labels: Mapping[str, str], created: str | None = None
) -> Image:
    """Return the image of the controller and the command line.

    Raises:
        ImageError: a part of it cannot be downloaded or compiled.
    """
    layers = [
        _layer("python", architecture, _python_layer),
        _layer("libraries", architecture, _libraries_layer),
        _layer("controller", architecture, _controller_layer),
    ]
    return Image(architecture, layers, _settings(labels), created)


def agent_image(architecture: str, labels: Mapping[str, str], created: str | None = None) -> Image:
    """Return the image of the agent alone.

    Raises:
        ImageError: a part of it cannot be downloaded or compiled.
    """
    layers = [
        _layer("python", architecture, _python_layer),
        _layer("agent", architecture, _agent_layer),
    ]
    return Image(architecture, layers, _settings(labels), created)


def _settings(labels: Mapping[str, str]) -> dict[str, object]:
    return {
        "Entrypoint": ["/usr/bin/hotmap"],
        "Env": [_PATH, "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"],
        "User": _USER,
        "WorkingDir": "/",
        "Labels": dict(sorted(labels.items())),
    }


def _layer(name: str, architecture: str, make: Callable[[str], Layer]) -> PackedLayer:
    """Return a layer, compressed; one that was made of the same before is in the cache."""
    recipe = hashlib.sha256(f"{name} {architecture}".encode())
    recipe.update(debian_pins().read_bytes())
    inputs = [WHEEL_PINS, *sorted(Path(__file__).parent.glob("*.py"))]
    if name in ("controller", "agent"):
        inputs += _source_files()
    for path in inputs:
        recipe.update(f"\0{path.relative_to(_ROOT)}\0".encode() + path.read_bytes())
    folder = downloads.cache_folder() / "layers"
    path = folder / f"{name}-{architecture}-{recipe.hexdigest()[:16]}.tar.gz"
    folder.mkdir(parents=True, exist_ok=True)
    # Processes that need the same layer wait for the one that makes it.
    with (folder / f"{name}-{architecture}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _remove_unused(folder)
            partial = path.with_suffix(".partial")
            partial.write_bytes(gzip.compress(make(architecture).content(), 6, mtime=0))
            partial.replace(path)
        return gzipped(path.read_bytes())


def _remove_unused(folder: Path) -> None:
    """Remove layers that were made more than a week ago."""
    for path in folder.glob("*.tar.gz"):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - 7 * 24 * 3600:
                path.unlink()


def _python_layer(architecture: str) -> Layer:
    layer = Layer().root(_USERS, _GROUPS)
    pins = read_debian_pins(architecture)
    sources = _add_packages(layer, [pins[name] for name in _PYTHON])
    layer.link("usr/bin/python3", "python3.11")
    _add_bytecode(layer, sources)
    _add_certificates(layer, unpacked_package(pins["ca-certificates"]) / "files")
    return layer


def _libraries_layer(architecture: str) -> Layer:
    layer = Layer()
    pins = read_debian_pins(architecture)
    _add_packages(layer, [pins[name] for name in _CONTROLLER])
    layer.folders(_PACKAGES)
    wheels = unpacked_wheels(architecture)
    layer.tree(wheels, f"{_PACKAGES}/", without=_WITHOUT)
    _add_bytecode(layer, _sources_below(wheels, f"{_PACKAGES}/"))
    return layer


def _controller_layer(_architecture: str) -> Layer:
    layer = Layer()
    layer.folders(f"{_PACKAGES}/hotmap")
    layer.tree(SOURCE, f"{_PACKAGES}/hotmap/", without=_WITHOUT)
    _add_bytecode(layer, _sources_below(SOURCE, f"{_PACKAGES}/hotmap/"))
    _add_program(layer, _LAUNCHER)
    return layer


def _agent_layer(_architecture: str) -> Layer:
    layer = Layer()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "agent.pyz"
        agent.build(str(program))
        layer.folders(str(Path(_AGENT_PROGRAM).parent))
        layer.file(_AGENT_PROGRAM, program.read_bytes(), 0o755)
    _add_program(layer, _AGENT_LAUNCHER.encode())
    return layer


def _add_program(layer: Layer, launcher: bytes) -> None:
    """Add the command, also by the names of the reloaders whose command lines the agent takes."""
    layer.file("usr/bin/hotmap", launcher, 0o755)
    for name in DROP_INS:
        layer.link(f"usr/bin/{name}", "hotmap")


def _add_packages(layer: Layer, packages: list[DebianPackage]) -> dict[str, bytes]:
    """Add packages and what vulnerability scanners read of them; returns their Python sources.

    As in the images of distroless: one control file for each package in status.d.
    """
    sources: dict[str, bytes] = {}
    layer.folders("var/lib/dpkg/status.d")
    for package in packages:
        folder = unpacked_package(package)
        layer.tree(folder / "files", without=_WITHOUT)
        control = (folder / "control").read_bytes()
        layer.file(f"var/lib/dpkg/status.d/{package.name}", control)
        sources |= _sources_below(folder / "files", "")
    return sources


def _sources_below(folder: Path, at: str) -> dict[str, bytes]:
    found = {f"{at}{path.relative_to(folder)}": path for path in walk(folder)}
    return {
        name: path.read_bytes()
        for name, path in found.items()
        if name.endswith(".py") and path.is_file() and not _WITHOUT.search(name)
    }


def _add_bytecode(layer: Layer, sources: Mapping[str, bytes]) -> None:
    for name, content in sorted(compile_sources(sources).items()):
        layer.folder(str(Path(name).parent))
        layer.file(name, content)


def _add_certificates(layer: Layer, files: Path) -> None:
    """Add the certificate authorities as one file, where OpenSSL looks for it.

    As update-ca-certificates does, for the package's defaults.
    """
    found = sorted((files / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    layer.folders("etc/ssl/certs")
    layer.file("etc/ssl/certs/ca-certificates.crt", b"".join(path.read_bytes() for path in found))
    layer.folders("usr/lib/ssl")
    layer.link("usr/lib/ssl/cert.pem", "/etc/ssl/certs/ca-certificates.crt")


def _source_files() -> list[Path]:
    return [path for path in walk(SOURCE) if path.is_file() and not _WITHOUT.search(str(path))]
