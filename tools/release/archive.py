"""Archives that are equal, byte for byte, for equal files."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["chart_package", "repack", "tar_gz"]


def tar_gz(files: Mapping[str, bytes], *, at: int) -> bytes:
    """Return a gzipped tar of files by name, all of them as of `at` (POSIX seconds)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = len(content), 0o644, at
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), compresslevel=9, mtime=at)


def repack(path: Path, *, at: int) -> None:
    """Write a gzipped tar again without what differs between builds: times, users, order."""
    with tarfile.open(path) as archive:
        files = {
            member.name: content.read()
            for member in archive.getmembers()
            if (content := archive.extractfile(member)) is not None
        }
    path.write_bytes(tar_gz(files, at=at))


def chart_package(chart: Path, *, at: int) -> bytes:
    """Return the package of a chart as `helm package` makes it, but reproducible."""
    files = {
        f"{chart.name}/{path.relative_to(chart)}": path.read_bytes()
        for path in chart.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.name != ".helmignore"
    }
    return tar_gz(files, at=at)
