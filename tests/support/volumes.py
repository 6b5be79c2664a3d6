"""Builders and assertions for volume directories, shared by the tests of the volume package."""

from __future__ import annotations

import os
from pathlib import Path

from hotmap.core.payload import Payload, PayloadFile


def files(mode: int = 0o644, /, **contents: str) -> Payload:
    """Make a payload; `nested__x` stands for the path `nested/x`."""
    return {
        path.replace("__", "/"): PayloadFile(text.encode(), mode) for path, text in contents.items()
    }


def visible(mount: Path) -> dict[str, bytes]:
    """Read every file as an application sees it: through the links, reserved names left out.

    A link that leads nowhere is not a file, as for an application that opens it.
    """
    found: dict[str, bytes] = {}
    for folder, _, names in os.walk(mount, followlinks=True):
        relative = Path(folder).relative_to(mount)
        if not _is_reserved(relative):
            paths = [Path(folder, name) for name in names]
            found |= {str(relative / p.name): p.read_bytes() for p in paths if p.exists()}
    return found


def _is_reserved(path: Path) -> bool:
    return bool(path.parts) and path.parts[0].startswith("..")


def published(mount: Path) -> str:
    """Return where `..data` points."""
    return str((mount / "..data").readlink())


def names_in(mount: Path) -> set[str]:
    """List a directory, reserved names included."""
    return {path.name for path in mount.iterdir()}


def assert_tidy(mount: Path, payload: Payload) -> None:
    """Assert that a volume holds this payload and nothing else: no remains, no dangling link."""
    names = {path.split("/")[0] for path in payload}
    assert names_in(mount) == {"..data", published(mount), *names}
    assert {name: str((mount / name).readlink()) for name in names} == {
        name: f"..data/{name}" for name in names
    }
    assert visible(mount) == {path: file.data for path, file in payload.items()}
