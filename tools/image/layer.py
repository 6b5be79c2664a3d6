"""One layer of an image, as a tar that is equal byte for byte for equal files."""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["MANUALS", "Layer", "walk"]

#: What a program does not need of a package.
MANUALS = re.compile(
    r"usr/share/(doc|man|lintian|locale|zoneinfo/right)(/|$)|(^|/)__pycache__(/|$)"
)
_MERGED = ("bin", "sbin", "lib", "lib64")  # links into /usr, as in Debian


class Layer:
    """One layer in the making; of two files of one name, the first that is added stays."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._buffer, mode="w")  # noqa: SIM115 - closed in content
        self._seen: set[str] = set()

    def root(self, users: str, groups: str) -> Layer:
        """Add the folders and files that programs expect of any system.

        `users` and `groups` are the text of /etc/passwd and /etc/group.
        """
        for name in ("usr", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "etc", "var", "run"):
            self.folder(name)
        for name in ("proc", "sys", "dev"):
            self.folder(name)
        self.folder("tmp", 0o1777)
        self.folder("root", 0o700)
        for name in _MERGED:
            self.link(name, f"usr/{name}")
        self.file("etc/passwd", users.encode())
        self.file("etc/group", groups.encode())
        self.file("etc/nsswitch.conf", b"hosts: files dns\n")
        return self

    def tree(self, folder: Path, at: str = "", *, without: re.Pattern[str] = MANUALS) -> Layer:
        """Add the files below a folder under the path `at`, with their permissions."""
        for path in walk(folder):
            name = f"{at}{path.relative_to(folder)}"
            if without.search(name):
                continue
            if path.is_symlink():
                self.link(name, str(path.readlink()))
            elif path.is_dir():
                if name in _MERGED:  # a link in the layer that has the root, not a folder over it
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

    def folders(self, name: str) -> None:
        """Add a folder and those that it is in."""
        parts = name.split("/")
        for length in range(1, len(parts) + 1):
            self.folder("/".join(parts[:length]))

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
        if rest and top in _MERGED:
            name = f"usr/{name}"
        if name in self._seen:
            return
        self._seen.add(name)
        member = tarfile.TarInfo(name)
        for attribute, value in attributes.items():
            setattr(member, attribute, value)
        self._tar.addfile(member, content)


def walk(folder: Path) -> Iterator[Path]:
    """Yield all paths below a folder, sorted in each folder."""
    for parent, folders, files in os.walk(folder):
        folders.sort()
        yield from (Path(parent) / name for name in sorted([*folders, *files]))
