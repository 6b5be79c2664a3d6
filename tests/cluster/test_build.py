"""Programs are built once; what is absent, half-built or of other versions is built again."""

import shutil
import stat
from pathlib import Path

import pytest
from tests.cluster import build, machine
from tests.cluster.build import Programs
from tests.cluster.errors import TestBedError

# Stands for the Go tool: says its version, "builds" by writing two words, counts its builds.
GO = """\
#!/bin/sh
if [ "$1" = env ]; then echo {version}; exit 0; fi
echo built >> {count}
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then echo a program > "$2"; fi
  shift
done
{ending}
"""


class Go:
    """A Go tool on the PATH, with what it should do at the end of a build."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = folder / "builds"
        self.answer(version="go1.26.1", ending="exit 0")

    def answer(self, *, version: str, ending: str) -> None:
        path = self.folder / "go"
        path.write_text(GO.format(version=version, ending=ending, count=self.count))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def builds(self) -> int:
        return len(self.count.read_text().split()) if self.count.exists() else 0


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Go:
    folder = tmp_path / "go"
    folder.mkdir()
    for tool in ("nice", "sh"):
        found = shutil.which(tool)
        assert found is not None
        (folder / tool).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))
    return Go(folder)


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(cache=tmp_path / "cache")


def test_program_is_built_once(go: Go, programs: Programs) -> None:
    """A second build finds the program complete and does nothing."""
    programs.build(["etcd"])
    programs.build(["etcd"])
    assert go.builds() == 1
    assert programs.missing(["etcd"]) == []


def test_failed_build_leaves_no_program(go: Go, programs: Programs) -> None:
    """The compiler's last line is the reason; the next build starts this program again."""
    go.answer(version="go1.26.1", ending="echo 'main.go:3: undefined: x' >&2; exit 1")
    with pytest.raises(TestBedError, match=r"etcd 3\.6\.\d+ could not be built: main.go:3: undef"):
        programs.build(["etcd"])
    assert not programs.path("etcd").exists()
    go.answer(version="go1.26.1", ending="exit 0")
    programs.build(["etcd"])
    assert programs.missing(["etcd"]) == []


def test_incomplete_program_is_rebuilt(
    go: Go, programs: Programs, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program that is shorter than what was built was cut off, and is named so."""
    programs.build(["etcd"])
    programs.path("etcd").write_text("a pro")
    assert programs.missing(["etcd"]) == ["etcd"]
    programs.build(["etcd"])
    assert "(half-built)" in capsys.readouterr().out
    assert go.builds() == 2


def test_killed_build_is_incomplete(
    go: Go, programs: Programs, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the killed build left behind does not count as the program."""
    partial = programs.path("etcd").with_suffix(".partial")
    partial.parent.mkdir(parents=True)
    partial.write_text("a pr")
    programs.build(["etcd"])
    assert "(half-built)" in capsys.readouterr().out
    assert programs.path("etcd").read_text() == "a program\n"
    assert go.builds() == 1


def test_program_of_other_versions_is_rebuilt(go: Go, programs: Programs) -> None:
    """The note beside a program holds a digest of go.mod, go.sum and flags."""
    programs.build(["etcd"])
    note = programs.path("etcd").with_suffix(".built")
    note.write_text(note.read_text().replace('"recipe": "', '"recipe": "0'))
    programs.build(["etcd"])
    assert go.builds() == 2


def test_without_go_the_sentence_says_which_version_is_needed(go: Go, programs: Programs) -> None:
    """Nothing is built, and the reader knows what to install."""
    (go.folder / "go").unlink()
    with pytest.raises(TestBedError, match=r"Go is not installed: .* with Go 1\.26 or newer"):
        programs.build(["kubectl"])


def test_old_go_is_refused_before_download(go: Go, programs: Programs) -> None:
    """The version is compared as numbers: 1.9 is older than 1.26."""
    go.answer(version="go1.9.7", ending="exit 0")
    with pytest.raises(TestBedError, match=r"Go 1\.9 is too old: kubernetes-.* needs Go 1\.26"):
        programs.require(["kubectl"])
    assert go.builds() == 0


def test_full_disk_during_build_is_reported(go: Go, programs: Programs) -> None:
    """Go says it in its last lines; the sentence says that the build can be gone on with."""
    go.answer(version="go1.26.1", ending="echo 'write x: no space left on device' >&2; exit 1")
    with pytest.raises(TestBedError, match="disk became full while etcd was built"):
        programs.build(["etcd"])


def test_full_disk_is_reported_before_build(
    go: Go, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both figures are in the sentence, and where to point HOTMAP_TESTBED."""
    monkeypatch.setattr(build, "BUILD_GIB", 10**9)
    with pytest.raises(TestBedError, match=r"GiB free and 1e\+09 GiB are needed.*HOTMAP_TESTBED"):
        programs.build(["etcd"])
    assert go.builds() == 0


def test_cache_folder_is_set_by_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOTMAP_TESTBED first, then the user's cache directory."""
    monkeypatch.setenv("HOTMAP_TESTBED", str(tmp_path / "a"))
    assert machine.cache_folder() == tmp_path / "a"
    monkeypatch.delenv("HOTMAP_TESTBED")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    assert machine.cache_folder() == tmp_path / "b" / "hotmap" / "testbed"
