"""`hotmap local up` warns where containers of other users cannot run hotmap's own Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotmap.cli import local
from hotmap.cli.local import find_closed_directory


@pytest.fixture
def interpreter(tmp_path: Path) -> Path:
    """An interpreter in folders of which each user may enter all, from the file system's root."""
    path = tmp_path / "home" / "venv" / "bin" / "python"
    path.parent.mkdir(parents=True)
    path.touch()
    for folder in path.parents:
        if folder.is_relative_to(tmp_path):
            folder.chmod(0o755)
    return path


def below(folder: Path, found: Path | None) -> Path | None:
    """Leave out what is above a folder, which is the machine's."""
    return found if found is not None and found.is_relative_to(folder) else None


def test_directory_that_others_cannot_enter_is_found(interpreter: Path, tmp_path: Path) -> None:
    """Also behind a symbolic link, such as the Python of a virtual environment."""
    home = tmp_path / "home"
    assert below(home, find_closed_directory([interpreter])) is None
    home.chmod(0o700)
    link = tmp_path / "python"
    link.symlink_to(interpreter)
    for path in (interpreter, link):
        closed = find_closed_directory([path])
        assert closed is not None
        # pytest's own folders are closed too, and come first.
        assert home.is_relative_to(closed)


@pytest.mark.parametrize(("user", "warned"), [(0, True), (1000, False)])
def test_warning_names_the_directory(
    user: int,
    warned: bool,
    interpreter: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Only as root: otherwise all containers run as one user."""
    (interpreter.parent).chmod(0o700)
    monkeypatch.setattr(local, "_OWN_PLACES", (interpreter,))
    monkeypatch.setattr("os.geteuid", lambda: user)
    local._warn_of_closed_directory()
    error = capsys.readouterr().err
    assert error.startswith("warning: other users cannot enter /") is warned
    assert ("permission denied" in error) is warned
