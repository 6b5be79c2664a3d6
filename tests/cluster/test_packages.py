"""A node's Debian packages are installed where that is allowed, else named in one sentence."""

import stat
from pathlib import Path

import pytest
from tests.cluster import machine, packages
from tests.cluster.errors import TestBedError

# Stands for apt-get: keeps what it was asked, and does as the test says.
APT = """\
#!/bin/sh
echo "$@" >> {asked}
case "$*" in *install*) {install};; esac
"""


@pytest.fixture
def absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One needed package that is not installed; returns the file by which it is known."""
    file = tmp_path / "containerd"
    monkeypatch.setattr(packages, "NEEDED", {"containerd": str(file), "present": str(tmp_path)})
    return file


def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: str) -> Path:
    """Put an apt-get on the PATH that runs `install`; return where it notes its arguments."""
    (tmp_path / "bin").mkdir()
    tool, asked = tmp_path / "bin" / "apt-get", tmp_path / "asked"
    tool.write_text(APT.format(asked=asked, install=install))
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    monkeypatch.setattr(machine, "is_root", lambda: True)
    return asked


def test_without_root_the_packages_are_named(absent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those that are missing, as words for the command line."""
    monkeypatch.setattr(machine, "is_root", lambda: False)
    wanted = "needs containerd, which is not installed: install the Debian packages containerd."
    with pytest.raises(TestBedError, match=wanted):
        packages.require()


def test_packages_are_installed_as_root(
    absent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without what they recommend, and without a question."""
    asked = apt(tmp_path, monkeypatch, f"touch {absent}")
    packages.require()
    assert packages.missing() == []
    assert asked.read_text() == "install -qq -y --no-install-recommends containerd\n"


def test_outdated_lists_are_updated_once(
    absent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive drops old files, and apt-get install then answers 404."""
    asked = apt(tmp_path, monkeypatch, f"echo 'E: 404' >&2; [ -e {absent} ] || exit 100")
    with pytest.raises(TestBedError, match=r"apt-get failed \(E: 404\); install the Debian"):
        packages.require()
    assert [line.split()[0] for line in asked.read_text().splitlines()] == [
        "install",
        "update",
        "install",
    ]


def test_machine_without_lists_can_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes into an image is found after an update, as on a machine that is new."""
    monkeypatch.setenv("HOTMAP_TESTBED", str(tmp_path / "cache"))
    lists = tmp_path / "lists"
    asked = apt(tmp_path, monkeypatch, "")
    tool = tmp_path / "bin" / "apt-get"
    tool.write_text(
        tool.read_text() + f"[ $1 = update ] && touch {lists}\n"
        f"[ $1 = download ] && [ -e {lists} ] && touch it.deb\n"
        f"echo 'E: Unable to locate package' >&2\n[ -e {lists} ]\n"
    )
    unpack = tmp_path / "bin" / "dpkg"
    unpack.write_text('#!/bin/sh\ntouch "$3/it"\n')
    unpack.chmod(0o755)
    assert (packages.unpacked("busybox-static") / "it").exists()
    assert [line.split()[0] for line in asked.read_text().splitlines()] == [
        "download",
        "update",
        "download",
    ]
