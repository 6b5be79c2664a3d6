"""What a container sees of the machine, as root and without any rights, and what the host keeps.

The same probe runs in both ways; where a machine does not allow one, its tests say so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.requires import requires

import hotmap

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = 65534

#: Makes a user namespace while this process, but not its fork, can open no file.
LATE_LIMIT = """
import os, resource
from hotmap.local.kubelet.user_namespaces import UserNamespaces

limits = (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
os.register_at_fork(
    after_in_parent=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits)
)
try:
    UserNamespaces().prepare(5, 6)
except OSError as error:
    print(error)
"""
PROBE = Path(__file__).with_name("isolation_probe.py")


@pytest.fixture(scope="module")
def open_directory() -> Iterator[Path]:
    """A directory that every user may enter, with a copy of the sources and the probe."""
    directory = Path(tempfile.mkdtemp(prefix="hotmap-isolation-"))
    directory.chmod(0o755)
    package = Path(hotmap.__file__).parent
    for room in ("core", "local/kubelet"):
        shutil.copytree(
            package / room,
            directory / "src/hotmap" / room,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    for name in ("__init__.py", "local/__init__.py"):
        shutil.copy(package / name, directory / "src/hotmap" / name)
    shutil.copy(PROBE, directory / "probe.py")
    yield directory
    shutil.rmtree(directory)


def run_probe(open_directory: Path, user: str) -> dict[str, Any]:
    """Run the probe as root or as a user without rights; return what it printed."""
    work = open_directory / user
    work.mkdir()
    python = sys.executable
    prefix: list[str] = []
    options: dict[str, Any] = {}
    if user == "root of a namespace":
        prefix = _in_namespace()
    if user == "unprivileged" and os.geteuid() == 0:
        try:
            os.chown(work, NOBODY, NOBODY)
        except OSError:
            requires("root", available=False, reason="this root has no other users")
        options = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        # The interpreter of a virtual environment may lie that other users may not read.
        python = "/usr/bin/python3"
        requires(
            "python-for-nobody", available=_runs(python, prefix, options), reason=f"no {python}"
        )
    result = _run(open_directory, [*prefix, python], str(work), **options)
    requires("namespaces", available="refused" not in result, reason=str(result))
    return {**result, "directory": work}


def _run(
    open_directory: Path, python: list[str], *arguments: str, **options: Any
) -> dict[str, Any]:
    answer = subprocess.run(
        [*python, "-B", str(open_directory / "probe.py"), *arguments],
        env={"PYTHONPATH": str(open_directory / "src"), "PATH": os.defpath},
        cwd="/",
        capture_output=True,
        check=False,
        timeout=120,
        **options,
    )
    assert answer.returncode == 0, answer.stderr.decode()
    result: dict[str, Any] = json.loads(answer.stdout)
    return result


def _in_namespace() -> list[str]:
    """Return the beginning of a command that runs as root of a user namespace with one user."""
    prefix = ["unshare", "--user", "--map-root-user"]
    allowed = _runs(sys.executable, prefix, {})
    requires("unshare", available=allowed, reason="unshare(1) cannot make a user namespace")
    return prefix


def _runs(python: str, prefix: list[str], options: dict[str, Any]) -> bool:
    check = [*prefix, python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    try:
        return subprocess.run(check, cwd="/", check=False, **options).returncode == 0
    except OSError:
        return False


@pytest.fixture(scope="module", params=["root", "root of a namespace", "unprivileged"])
def probed(request: pytest.FixtureRequest, open_directory: Path) -> dict[str, Any]:
    if request.param == "root":
        requires("root", available=os.geteuid() == 0, reason="the tests do not run as root")
    return run_probe(open_directory, request.param)


def test_volumes_are_mounted_at_their_paths(probed: dict[str, Any]) -> None:
    """Volumes appear at paths that the host does not have, directories and single files."""
    seen = probed["seen"]
    assert seen["code"] == "0"
    assert seen["config"] == "from the volume"
    assert seen["deep"] == "from the directory"
    assert seen["one"] == "one file"
    assert seen["through-link"] == "from the directory"


def test_read_only_mount_refuses_writes(probed: dict[str, Any]) -> None:
    """A read-only mount refuses to be written, the others and /tmp do not."""
    seen = probed["seen"]
    assert (seen["write-ro"], seen["write-rw"], seen["write-tmp"]) == ("no", "yes", "yes")
    assert (probed["directory"] / "volume/new").read_text() == "x\n"


def test_container_writes_do_not_reach_host(probed: dict[str, Any]) -> None:
    """What a container writes, makes or deletes outside of its volumes never reaches the host."""
    for path in ("/etc/hotmap-test", "/etc/hotmap-test.conf", "/etc/hotmap-test-file"):
        assert not Path(path).exists()
    for path in ("/opt/hotmap-test", "/tmp/hotmap-test-file", "/hotmap-link", "/.host"):
        assert not Path(path).exists()
    assert Path("/etc/passwd").exists()
    assert "hotmap-isolation" not in Path("/proc/self/mountinfo").read_text()


def test_container_sees_only_its_processes(probed: dict[str, Any]) -> None:
    """It has its own host name and process table, and no way back to the host's root."""
    seen = probed["seen"]
    assert seen["hostname"] == "pod-1"
    assert int(seen["processes"]) < 10
    assert seen["null"] == "yes"
    assert seen["host-root"] == ""


def test_kill_ends_all_container_processes(probed: dict[str, Any]) -> None:
    """KILL ends descendants in sessions of their own and commands of exec, too."""
    assert probed["killed"]["codes"] == [137, 137]


def test_containers_share_process_namespace(probed: dict[str, Any]) -> None:
    """They see each other, process 1 is neither's, and one takes along what it has started."""
    assert probed["shared"] == {"process 1": "pause\n", "codes": [137, 0], "up": True}


def test_start_failure_names_its_cause(probed: dict[str, Any]) -> None:
    """A command that cannot be executed, a missing volume and an impossible user are named."""
    program, permission, volume, user = probed["failures"]
    assert program == 'exec: "no-such-program": executable file not found in $PATH'
    assert permission == 'exec: "/etc/passwd": permission denied'
    assert "/nowhere/at/all" in volume
    assert user.startswith("run as user -1 and group 0: ")
    assert user.endswith("Invalid argument")


def test_containers_have_the_users_that_they_ask_for(probed: dict[str, Any]) -> None:
    """A user without a group has the root group; without root, all of them are the plane's user."""
    assert probed["users"] == ["65532 0", "65532 65531", "0 65531"]


def test_process_of_another_user_is_seen_by_those_of_the_same_user(probed: dict[str, Any]) -> None:
    """An agent finds a process by its program, which takes the rights of its user."""
    assert len(probed["each other"]) == 2
    assert all(program.endswith("sleep") for program in probed["each other"])


def test_isolation_method_follows_privileges(probed: dict[str, Any]) -> None:
    """Without rights a user namespace stands in, and the root is bound together."""
    if probed["rootless"]:
        assert probed["root"] == "bind"


def test_runtime_removes_its_directories(probed: dict[str, Any]) -> None:
    """The workspace is as empty as before: all layers were in the containers' own mounts."""
    assert list((probed["directory"] / "sandbox").iterdir()) == []


def test_missing_isolation_is_reported_with_remedy(open_directory: Path) -> None:
    """A user who may neither mount nor make user namespaces gets one sentence, no traceback."""
    available = os.geteuid() == 0 and shutil.which("setpriv") is not None
    requires("setpriv", available=available, reason="it takes root and setpriv(1) to drop rights")
    work = open_directory / "refused"
    work.mkdir()
    drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    message = _run(open_directory, [*drop, sys.executable], str(work))["refused"]
    assert message.startswith("pods cannot be isolated on this machine (")
    assert "run as root, or allow unprivileged user namespaces" in message
    assert "\n" not in message


def test_limit_of_user_namespaces_is_named(open_directory: Path) -> None:
    """A user for whom no namespace is left gets one sentence; the others run as before."""
    work = open_directory / "limited"
    work.mkdir()
    script = 'echo 1 > /proc/sys/user/max_user_namespaces; exec "$@"'
    python = [*_in_namespace(), "sh", "-c", script, "sh", sys.executable]
    seen = _run(open_directory, python, str(work), "--only-users")["users"]
    why = "the limit of user namespaces is reached (sysctl user.max_user_namespaces)"
    assert seen == ["1", f"run as user 2 and group 0: {why}", "1", "0"]


def test_start_without_free_descriptors_fails_alone(open_directory: Path) -> None:
    """The reason is named, the other containers run on, and later ones start."""
    work = open_directory / "descriptors"
    work.mkdir()
    python = [*_in_namespace(), sys.executable]
    seen = _run(open_directory, python, str(work), "--only-descriptors")
    assert seen == {"why": "Too many open files", "first runs": True, "code": 0}


def test_user_namespace_that_cannot_be_received_has_a_reason() -> None:
    """The fork that makes it succeeds, and the zygote has no descriptor left for it."""
    command = [*_in_namespace(), sys.executable, "-c", LATE_LIMIT]
    ended = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert ended.stdout == b"run as user 5 and group 6: Too many open files\n", ended.stderr
