"""A state directory that cannot be used stays as it was."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import pytest

from hotmap.core.errors import SettingsError
from hotmap.local.cluster import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def no_space() -> Iterator[None]:
    """No file of this process may grow, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.usefixtures("no_space")
async def test_start_on_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """Neither the directory, if the start made it, nor a file in the user's."""
    for directory in (tmp_path / "made", tmp_path):
        with pytest.raises(SettingsError, match=r"cannot be used: .*; choose a directory"):
            await LocalCluster(directory).start()
    assert list(tmp_path.iterdir()) == []


async def test_file_is_not_a_state_directory(tmp_path: Path) -> None:
    """It is said as of a path below a file."""
    file = tmp_path / "file"
    file.write_text("kept")
    for path in (file, file / "below"):
        with pytest.raises(SettingsError, match=f"{path} cannot be used: not a directory; "):
            await LocalCluster(path).start()
    assert file.read_text() == "kept"
