"""A folder belongs to one cluster with one set of settings, or to none."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.cluster import layout
from tests.cluster.errors import TestBedError
from tests.cluster.layout import PORTS, Layout, Settings

SETTINGS = Settings(base_port=20000, node=False)


def test_empty_or_absent_folder_holds_no_cluster(tmp_path: Path) -> None:
    """Nor does one with nothing but the logs of an earlier cluster."""
    assert layout.read_settings(tmp_path / "absent") is None
    assert layout.read_settings(tmp_path) is None
    (tmp_path / "log").mkdir()
    (tmp_path / "lock").touch()
    assert layout.read_settings(tmp_path) is None


def test_settings_are_read_as_they_were_written(tmp_path: Path) -> None:
    """The next `up`, `status` and `down` see what the first `up` was asked for."""
    layout.write_settings(Layout(tmp_path, SETTINGS))
    assert layout.read_settings(tmp_path) == SETTINGS
    layout.require_same(Layout(tmp_path, SETTINGS))


def test_cluster_with_other_settings_is_refused_with_difference(tmp_path: Path) -> None:
    """Data of one release or port is not silently used by another."""
    layout.write_settings(Layout(tmp_path, SETTINGS))
    wanted = Layout(tmp_path, replace(SETTINGS, minor="1.35"))
    with pytest.raises(TestBedError, match=r"minor 1\.36 instead of 1\.35; run `down`"):
        layout.require_same(wanted)


def test_folder_with_something_else_in_it_is_stale(tmp_path: Path) -> None:
    """The sentence names what was found, and the user decides whether it may go."""
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(TestBedError, match=r"is stale: it holds thesis\.tex but no cluster\.json"):
        layout.read_settings(tmp_path)


def test_settings_file_of_something_else_is_refused(tmp_path: Path) -> None:
    """Neither broken JSON nor unknown settings end in a traceback."""
    for text in ("{", '{"colour": "red"}'):
        (tmp_path / "cluster.json").write_text(text)
        with pytest.raises(TestBedError, match="is not a settings file of this test bed"):
            layout.read_settings(tmp_path)


def test_no_two_listeners_share_a_port() -> None:
    """Two clusters are side by side when their base ports are this many apart."""
    ports = [SETTINGS.port(listener) for listener in PORTS]
    assert len(set(ports)) == len(PORTS)
    assert max(ports) - SETTINGS.base_port == len(PORTS) - 1


def test_default_clusters_do_not_share_ports() -> None:
    """A node and a control plane can run beside each other without any flag."""
    node, plane = (layout.default_settings(node=node) for node in (True, False))
    assert abs(node.base_port - plane.base_port) >= len(PORTS)
