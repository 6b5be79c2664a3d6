"""Container images made by hand, without a registry: pause, busybox, python, nginx, hotmap.

Files come out of Debian packages; an image is an OCI layout in one tar file (opencontainers:
image-spec, image-layout.md) that containerd imports. Tars are kept in the cache folder, named by
what they were made from. Pods name them `hotmap.test/NAME:1`, which needs no pull policy.
"""

import hashlib
import io
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from tests.cluster import machine, packages

from hotmap.agent import build as agent
from hotmap.cli.inject import default_image

REPOSITORY = "hotmap.test"
LIBC = ("libc6", "libgcc-s1", "libcrypt1")
PYTHON = (
    *LIBC, "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libexpat1",
    "zlib1g", "libssl3", "libbz2-1.0", "libffi8", "liblzma5", "libsqlite3-0", "libuuid1",
    "libtinfo6", "libncursesw6", "libreadline8", "tzdata",
)  # fmt: skip
PYTHON_VERSION = (3, 11)
HOTMAP = ("libstdc++6",)  # re2 is written in C++
NGINX = (*LIBC, "nginx", "nginx-common", "libpcre2-8-0", "libssl3", "zlib1g")
NGINX_CONF = b"""\
worker_processes 1;
error_log /dev/stderr notice;
pid /run/nginx.pid;
events {}
http {
  access_log off;
  include /etc/nginx/conf.d/*.conf;
}
"""
# PID 1 of a sandbox: reaps what is handed to it, ends on SIGTERM, and has no children. Reading a
# FIFO that it has itself opened for writing never returns.
PAUSE = "trap 'exit 0' TERM INT; exec 3<>/fifo || exit 1; while :; do read -r -u 3; done"
PATH = "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SOURCE = Path(__file__).parents[2] / "src" / "hotmap"
NOT_TAKEN = re.compile(
    r"usr/share/(doc|man|lintian|locale|zoneinfo/right)(/|$)|(^|/)__pycache__(/|$)"
)
MERGED = ("bin", "sbin", "lib", "lib64")  # links into /usr, as in Debian


class Image(NamedTuple):
    """An image's layers, lowest first, as uncompressed tars, and its runtime settings."""

    layers: list[bytes]
    settings: Mapping[str, object]


def names() -> list[str]:
    """List the images that can be made here, in the order in which they are loaded."""
    return [name for name in MAKERS if name != "hotmap" or can_make_hotmap()]


def _has_hotmap(name: str) -> bool:
    return name.startswith("hotmap")


def can_make_hotmap() -> bool:
    """Return whether this Python's compiled dependencies work in the python image."""
    return sys.version_info[:2] == PYTHON_VERSION


def reference(name: str) -> str:
    """Return the name by which pods ask for an image."""
    return f"{REPOSITORY}/{name}:1"


def aliases(name: str) -> list[str]:
    """Return all names under which an image can be asked for.

    The hotmap image has the one that `hotmap inject` writes by default, too, in the long form
    that containerd keeps (distribution/reference: normalize.go).
    """
    own = [f"docker.io/library/{default_image()}"] if name == "hotmap" else []
    return [reference(name), *own]


def tar(name: str) -> Path:
    """Return the tar file of an image; make it unless it is in the cache.

    Raises:
        TestBedError: a Debian package that it is made from cannot be downloaded.
    """
    folder = machine.cache_folder() / "images"
    path = folder / f"{name}-{_recipe(name)}.tar"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    for older in folder.glob(f"{name}-{12 * '[0-9a-f]'}.tar*"):
        older.unlink()
    write(MAKERS[name](), aliases(name), path)
    return path


def write(image: Image, names: Sequence[str], path: Path) -> None:
    """Write an image as an OCI layout that containerd imports under each of the names."""
    blobs = {_digest(layer): layer for layer in image.layers}
    manifest_type = "application/vnd.oci.image.manifest.v1+json"
    here = {"architecture": architecture(), "os": "linux"}

    def add(content: object) -> dict[str, object]:
        blob = json.dumps(content).encode()
        blobs[_digest(blob)] = blob
        return {"digest": f"sha256:{_digest(blob)}", "size": len(blob)}

    digests = [f"sha256:{_digest(layer)}" for layer in image.layers]
    settings = add(
        {**here, "config": image.settings, "rootfs": {"type": "layers", "diff_ids": digests}}
    )
    layers = [
        {
            "mediaType": "application/vnd.oci.image.layer.v1.tar",
            "digest": digest,
            "size": len(layer),
        }
        for digest, layer in zip(digests, image.layers, strict=True)
    ]
    manifest = add(
        {
            "schemaVersion": 2,
            "mediaType": manifest_type,
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **settings},
            "layers": layers,
        }
    )
    entries = [
        {
            "mediaType": manifest_type,
            **manifest,
            "annotations": {
                "io.containerd.image.name": name,
                "org.opencontainers.image.ref.name": name.rpartition(":")[2],
            },
            "platform": here,
        }
        for name in names
    ]
    files = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": json.dumps({"schemaVersion": 2, "manifests": entries}).encode(),
        **{f"blobs/sha256/{digest}": blob for digest, blob in blobs.items()},
    }
    partial = path.with_name(path.name + ".partial")
    with tarfile.open(partial, "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    partial.rename(path)


class Layer:
    """One layer in the making; what was added first stays, so that ours goes before Debian's."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._buffer, mode="w")  # noqa: SIM115 - closed in content
        self._seen: set[str] = set()

    def root(self) -> "Layer":
        """Add the folders and files that programs expect of any system."""
        for name in ("usr", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "etc", "var", "run"):
            self.folder(name)
        for name in ("proc", "sys", "dev"):
            self.folder(name)
        self.folder("tmp", 0o1777)
        self.folder("root", 0o700)
        for name in MERGED:
            self.link(name, f"usr/{name}")
        passwd = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/sh\n"
        self.file("etc/passwd", f"{passwd}nobody:x:65534:65534::/:/bin/sh\n".encode())
        self.file("etc/group", b"root:x:0:\nwww-data:x:33:\nnogroup:x:65534:\n")
        self.file("etc/nsswitch.conf", b"hosts: files dns\n")
        return self

    def shell(self) -> "Layer":
        """Add bash as sh, and busybox for all else.

        dash and busybox's sh drop environment variables whose names are no identifiers, and a
        ConfigMap's data keys often are none (e.g. "log.level").
        """
        busybox = _program("busybox-static", "busybox")
        self.file("bin/bash", _program("bash-static", "bash-static").read_bytes(), 0o755)
        self.link("bin/sh", "bash")
        self.file("bin/busybox", busybox.read_bytes(), 0o755)
        listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
        for applet in listed.stdout.split():
            self.link(f"bin/{applet}", "busybox")
        return self

    def packages(self, wanted: tuple[str, ...]) -> "Layer":
        """Add the files of Debian packages."""
        for package in wanted:
            self.tree(packages.unpacked(package))
        return self

    def tree(self, folder: Path, at: str = "") -> "Layer":
        """Add the files below a folder under the path `at`, with their permissions."""
        for path in _walk(folder):
            name = f"{at}{path.relative_to(folder)}"
            if NOT_TAKEN.search(name):
                continue
            if path.is_symlink():
                self.link(name, str(path.readlink()))
            elif path.is_dir():
                if name in MERGED:  # a link in the layer that has the root, not a folder over it
                    continue
                self.folder(name, path.stat().st_mode & 0o7777)
            else:
                self.file(name, path.read_bytes(), path.stat().st_mode & 0o7777)
        return self

    def file(self, name: str, content: bytes, mode: int = 0o644) -> None:
        """Add a file."""
        self._add(name, io.BytesIO(content), size=len(content), mode=mode)

    def folder(self, name: str, mode: int = 0o755) -> None:
        """Add a folder."""
        self._add(name, type=tarfile.DIRTYPE, mode=mode)

    def link(self, name: str, to: str) -> None:
        """Add a symbolic link."""
        self._add(name, type=tarfile.SYMTYPE, linkname=to)

    def fifo(self, name: str) -> None:
        """Add a named pipe that any user may open."""
        self._add(name, type=tarfile.FIFOTYPE, mode=0o666)

    def content(self) -> bytes:
        """Close the layer and return its tar."""
        self._tar.close()
        return self._buffer.getvalue()

    def _add(self, name: str, content: io.BytesIO | None = None, **attributes: object) -> None:
        top, _, rest = name.partition("/")
        if rest and top in MERGED:
            name = f"usr/{name}"
        if name in self._seen:
            return
        self._seen.add(name)
        member = tarfile.TarInfo(name)
        for attribute, value in attributes.items():
            setattr(member, attribute, value)
        self._tar.addfile(member, content)


def _pause() -> Image:
    layer = Layer()
    layer.file("pause", _program("bash-static", "bash-static").read_bytes(), 0o755)
    layer.fifo("fifo")
    return Image([layer.content()], {"Entrypoint": ["/pause", "-c", PAUSE]})


def _busybox() -> Image:
    return Image([Layer().root().shell().content()], {"Cmd": ["sh"], "Env": [PATH]})


def _python() -> Image:
    layer = Layer().root().shell().packages(PYTHON)
    layer.link("usr/bin/python3", "python3.11")
    layer.link("usr/bin/python", "python3")
    environment = [PATH, "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"]
    return Image([layer.content()], {"Cmd": ["python3"], "Env": environment})


def _nginx() -> Image:
    layer = Layer().root().shell()
    layer.file("etc/nginx/nginx.conf", NGINX_CONF)
    for name in ("etc/nginx", "etc/nginx/conf.d", "var/lib/nginx/body", "var/log/nginx"):
        layer.folder(name)
    layer.packages(NGINX)
    settings = {"Cmd": ["nginx", "-g", "daemon off;"], "Env": [PATH], "StopSignal": "SIGQUIT"}
    return Image([layer.content()], settings)


def _hotmap() -> Image:
    """Put the package and what it depends on, as installed here, upon the python image.

    It is the controller's image and the agent's.
    """
    layer = Layer().packages(HOTMAP)
    add_hotmap(layer)
    layer.file("usr/bin/hotmap", b'#!/bin/sh\nexec python3 -m hotmap "$@"\n', 0o755)
    below = _python()
    settings = {
        "Entrypoint": ["python3", "-m", "hotmap"],
        "Env": [PATH, "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=/opt/hotmap"],
    }
    return Image([*below.layers, layer.content()], settings)


def add_hotmap(layer: Layer) -> None:
    """Add the package and what it depends on, as installed here, below /opt/hotmap."""
    for name in ("opt", "opt/hotmap"):
        layer.folder(name)
    layer.tree(SOURCE, "opt/hotmap/hotmap/")
    for distribution in _dependencies("hotmap"):
        for file in distribution.files or []:
            path = Path(str(distribution.locate_file(file)))
            if ".." not in file.parts and not NOT_TAKEN.search(str(file)) and path.is_file():
                layer.file(f"opt/hotmap/{file}", path.read_bytes())


def _hotmap_nginx() -> Image:
    """Put Python and the agent's one file upon nginx: an agent that can check nginx.conf.

    As deploy/README.md says to make it.
    """
    below = _nginx()
    layer = Layer().packages(tuple(package for package in PYTHON if package not in NGINX))
    layer.link("usr/bin/python3", "python3.11")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "agent.pyz"
        agent.build(str(program))
        for name in ("usr/local", "usr/local/bin"):
            layer.folder(name)
        layer.file("usr/local/bin/hotmap", program.read_bytes(), 0o755)
    return Image([*below.layers, layer.content()], {"Entrypoint": ["hotmap"], "Env": [PATH]})


MAKERS: dict[str, Callable[[], Image]] = {
    "pause": _pause,
    "busybox": _busybox,
    "python": _python,
    "nginx": _nginx,
    "hotmap": _hotmap,
    "hotmap-nginx": _hotmap_nginx,
}


def _recipe(name: str) -> str:
    """Return a short digest of what an image is made from."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    if _has_hotmap(name):
        for path in sorted(SOURCE.rglob("*")):
            if path.is_file() and not NOT_TAKEN.search(str(path)):
                digest.update(str(path.relative_to(SOURCE)).encode() + b"\0" + path.read_bytes())
        for distribution in _dependencies("hotmap"):
            digest.update(f"\0{distribution.name} {distribution.version}".encode())
    return digest.hexdigest()[:12]


def _dependencies(name: str) -> list[metadata.Distribution]:
    """Return the installed distributions that a distribution needs, not itself, by name."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [name]
    while waiting:
        for requirement in metadata.distribution(waiting.pop()).requires or []:
            needed = re.match(r"[\w.-]+", requirement)
            if needed is None or "extra ==" in requirement or needed[0] in found:
                continue
            try:
                found[needed[0]] = metadata.distribution(needed[0])
            except metadata.PackageNotFoundError:
                continue  # for another platform or Python
            waiting.append(needed[0])
    return [found[each] for each in sorted(found)]


def _program(package: str, name: str) -> Path:
    return next(path for path in _walk(packages.unpacked(package)) if path.name == name
                and path.parent.name == "bin")  # fmt: skip


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders.sort()
        yield from (Path(parent) / name for name in sorted([*folders, *files]))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def architecture() -> str:
    """Return this machine's architecture as images name it, such as amd64."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
