"""What the machine lacks is said in one sentence before anything is started."""

import socket
from pathlib import Path

import pytest
from tests.cluster import machine, network
from tests.cluster.errors import TestBedError, disk_sentence

SAVED = """\
*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:CNI-HOSTPORT-DNAT - [0:0]
:DOCKER - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A PREROUTING -j DOCKER
COMMIT
"""


def test_cgroup_version_2_is_known_by_its_controllers_file(tmp_path: Path) -> None:
    """The unified hierarchy (cgroups(7))."""
    (tmp_path / "cgroup.controllers").touch()
    assert machine.cgroup_version(tmp_path) == 2


def test_cgroup_version_1_is_known_by_one_folder_per_controller(tmp_path: Path) -> None:
    """Those that the kubelet insists on; others do not matter."""
    for name in machine.CONTROLLERS:
        (tmp_path / name).mkdir()
    assert machine.cgroup_version(tmp_path) == 1


def test_missing_cgroup_controller_is_named(tmp_path: Path) -> None:
    """The kubelet would start, and end a second later with a long message."""
    (tmp_path / "cpu").mkdir()
    with pytest.raises(TestBedError, match="version 1 controllers cpuacct, cpuset, memory"):
        machine.cgroup_version(tmp_path)


def test_used_port_is_found_on_any_address() -> None:
    """Components listen on 127.0.0.1 or everywhere; a listener on either is in the way."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert machine.used_ports([port]) == [port]
    assert machine.used_ports([port]) == []


def test_free_base_port_has_all_its_ports_free() -> None:
    """A listener in the middle of the range moves the base behind it."""
    first = machine.free_base_port(12)
    with socket.create_server(("127.0.0.1", first + 5)):
        assert machine.free_base_port(12, start=first) >= first + 12


def test_disk_space_error_has_both_figures(tmp_path: Path) -> None:
    """Also when the folder does not exist yet."""
    machine.require_disk(tmp_path / "absent" / "folder", 0, "to breathe")
    with pytest.raises(TestBedError, match=r"too full to breathe: .* GiB free and 1e\+09 GiB"):
        machine.require_disk(tmp_path / "absent" / "folder", 1e9, "to breathe")


def test_write_to_full_disk_is_explained() -> None:
    """/dev/full answers as a full disk does (full(4)); other errors are not ours to explain."""
    with pytest.raises(OSError, match="No space left") as caught, Path("/dev/full").open("w") as f:
        f.write("x")
        f.flush()
    assert "disk is full" in str(disk_sentence(caught.value))
    assert disk_sentence(FileNotFoundError(2, "No such file", "x")) is None


def test_only_own_firewall_chains_are_removed() -> None:
    """Rules of others, and the built-in chains, are restored as they were."""
    assert network.without_rules(SAVED) == (
        "*nat\n:PREROUTING ACCEPT [0:0]\n:DOCKER - [0:0]\n-A PREROUTING -j DOCKER\nCOMMIT\n"
    )
