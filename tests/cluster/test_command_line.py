"""The command line answers with one sentence and an exit code, never with a traceback."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster import layout, machine
from tests.cluster.__main__ import main
from tests.cluster.cluster import Cluster
from tests.cluster.components import Component, Processes
from tests.cluster.fixtures import ROOT, require
from tests.cluster.layout import Layout, Settings


@pytest.fixture
def no_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Go and without built programs."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("HOTMAP_TESTBED", str(tmp_path / "cache"))


def test_status_and_down_of_nothing_say_that_there_is_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """3 is the exit code of a service that does not run (LSB); to take nothing down is fine."""
    folder = tmp_path / "absent"
    assert main(["status", "--dir", str(folder)]) == 3
    assert main(["down", "--dir", str(folder)]) == 0
    assert capsys.readouterr().out == f"There is no cluster in {folder}.\n" * 2
    assert not folder.exists()


def test_error_is_one_line_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here a stale folder; nothing is started."""
    (tmp_path / "thesis.tex").touch()
    assert main(["up", "--no-node", "--dir", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith(f"error: {tmp_path} is stale: it holds thesis.tex")
    assert shown.err.count("\n") == 1


def test_up_without_go_fails_before_it_writes(
    tmp_path: Path, no_go: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before it writes or downloads anything."""
    folder = tmp_path / "cluster"
    assert main(["up", "--no-node", "--dir", str(folder), "--base-port", "18100"]) == 1
    assert "error: Go is not installed" in capsys.readouterr().err
    assert Cluster.present(folder) is None


def test_missing_cluster_skips_test_with_reason(
    tmp_path: Path, no_go: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And fails where HOTMAP_REQUIRE promises a cluster."""
    cluster = Cluster(tmp_path / "cluster", Settings(18100, node=False))
    monkeypatch.delenv("HOTMAP_REQUIRE", raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs cluster: Go is not installed"):
        require(cluster)
    monkeypatch.setenv("HOTMAP_REQUIRE", "userns,cluster")
    with pytest.raises(pytest.fail.Exception, match="names cluster, but Go is not installed"):
        require(cluster)


def test_node_without_root_is_refused_with_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mounts, network namespaces and cgroups are root's."""
    monkeypatch.setattr(machine, "is_root", lambda: False)
    assert main(["up", "--dir", str(tmp_path / "cluster")]) == 1
    assert "needs root; run as root, or start the control plane alone with --no-node" in (
        capsys.readouterr().err
    )


def test_logs_are_listed_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also after the cluster is gone; a log that is not there is said to be so."""
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "etcd.log").write_text("one\ntwo\nthree\n")
    folder = ["--dir", str(tmp_path)]
    assert main(["logs", *folder]) == 0
    assert "etcd" in capsys.readouterr().out
    assert main(["logs", *folder, "etcd", "--lines", "2"]) == 0
    assert capsys.readouterr().out == "two\nthree\n"
    assert main(["logs", *folder, "kubelet"]) == 1
    assert "There is no log of kubelet" in capsys.readouterr().err


def test_down_ends_processes_whose_folder_was_removed(tmp_path: Path) -> None:
    """A user who deletes the folder by hand must still be able to end what runs in it."""
    folder = tmp_path / "cluster"
    layout.write_settings(Layout(folder, Settings(18100, node=False)))
    processes = Processes(folder)
    processes.start(Component("etcd", ("sleep", "1000"), lambda: None))
    shutil.rmtree(folder)
    assert len(processes.leftovers()) == 1
    command = [sys.executable, "-m", "tests.cluster", "down", "--dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert processes.leftovers() == []


def test_down_can_wait_for_the_end_of_another_process(tmp_path: Path) -> None:
    """How a killed pytest leaves no cluster: the guard is such a `down`."""
    folder = tmp_path / "cluster"
    layout.write_settings(Layout(folder, Settings(18100, node=False)))
    with subprocess.Popen(["sleep", "1000"]) as owner:
        command = [sys.executable, "-m", "tests.cluster", "down", "--dir", str(folder)]
        with subprocess.Popen([*command, "--after", str(owner.pid)], cwd=ROOT) as guard:
            with pytest.raises(subprocess.TimeoutExpired):
                guard.wait(timeout=1)
            assert Cluster.present(folder) is not None
            owner.kill()
            assert guard.wait(timeout=30) == 0
    assert Cluster.present(folder) is None
