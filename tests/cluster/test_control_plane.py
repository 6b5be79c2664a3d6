"""A real control plane: up and down as promised, and faults of its parts, one by one."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import keys, layout, machine, versions
from tests.cluster.__main__ import main
from tests.cluster.cluster import Cluster
from tests.cluster.components import State
from tests.cluster.errors import TestBedError
from tests.cluster.fixtures import ROOT, private_control_plane
from tests.cluster.proxy import FaultProxy
from tests.support.polling import poll_until

pytestmark = pytest.mark.cluster

SECONDS = 60.0


@pytest.fixture(scope="module")
def plane() -> Iterator[Cluster]:
    """A control plane that the tests of this file may break, if they mend it again."""
    with private_control_plane(versions.DEFAULT_MINOR) as cluster:
        yield cluster


def test_api_server_reports_pinned_release(plane: Cluster) -> None:
    """Client and server, so that the version measured is the version named."""
    found = json.loads(plane.kubectl("version", "--output=json"))
    wanted = f"v{versions.kubernetes().version}"
    assert found["clientVersion"]["gitVersion"] == wanted
    assert found["serverVersion"]["gitVersion"] == wanted


def test_objects_are_stored_and_controllers_act(real_control_plane: Cluster) -> None:
    """A Deployment becomes a ReplicaSet and pods; without a node they stay Pending."""
    kubectl = real_control_plane.kubectl
    kubectl("create", "namespace", "controllers-act")
    space = "--namespace=controllers-act"
    kubectl("create", "deployment", "web", "--image=hotmap.test/nginx:1", "--replicas=2", space)
    get = ("get", "pods", space, "--output=jsonpath={.items[*].status.phase}")
    poll_until(lambda: kubectl(*get) == "Pending Pending", "two pods")
    kubectl("delete", "namespace", "controllers-act")


def test_up_again_leaves_what_runs_alone(plane: Cluster) -> None:
    """The same processes as before, and no error."""
    before = [plane.processes.process(component.name) for component in plane.components()]
    lines: list[str] = []
    plane.up(lines.append)
    after = [plane.processes.process(component.name) for component in plane.components()]
    assert after == before
    assert sum("already up" in line for line in lines) == len(before)


def test_two_clusters_run_side_by_side(plane: Cluster, real_control_plane: Cluster) -> None:
    """An object of one is unknown to the other."""
    plane.kubectl("create", "configmap", "only-here")
    with pytest.raises(TestBedError, match="not found"):
        real_control_plane.kubectl("get", "configmap", "only-here")
    plane.kubectl("delete", "configmap", "only-here")


@pytest.mark.parametrize(
    "name", ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
)
def test_killed_component_is_named_and_restarted_by_up(
    plane: Cluster, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`status` tells by its exit code too; objects survive the death of etcd."""
    plane.kubectl("create", "configmap", "survivor")
    plane.kill(name)
    assert f"{name} is killed" in plane.unhealthy()
    assert main(["status", "--dir", str(plane.layout.folder)]) == 1
    assert re.search(rf"^{name} +killed", capsys.readouterr().out, re.MULTILINE)
    plane.up()
    assert plane.unhealthy() == []
    plane.kubectl("delete", "configmap", "survivor")


def test_paused_component_is_named_and_resumes(plane: Cluster) -> None:
    """Frozen, it accepts connections and answers none."""
    plane.pause("kube-apiserver")
    poll_until(
        lambda: plane.processes.state("kube-apiserver") is State.PAUSED, "SIGSTOP takes effect"
    )
    assert "kube-apiserver is paused" in plane.unhealthy()
    with pytest.raises(TestBedError):
        plane.kubectl("get", "configmaps", "--request-timeout=1s", seconds=10)
    plane.resume("kube-apiserver")
    assert plane.unhealthy() == []
    plane.pause("kube-scheduler")
    plane.up()
    assert plane.unhealthy() == []


def test_client_can_reach_api_through_fault_proxy(plane: Cluster, tmp_path: Path) -> None:
    """TLS included; when the proxy cuts, the client sees its connection reset."""
    with FaultProxy(plane.layout.settings.port("kube-apiserver")) as proxy:
        through = plane.kubeconfig_through(f"https://127.0.0.1:{proxy.port}", tmp_path / "through")
        get = [str(plane.kubectl_path), f"--kubeconfig={through}", "get", "namespaces"]
        found = subprocess.run(get, capture_output=True, text=True, check=True, timeout=SECONDS)
        assert "kube-system" in found.stdout
        proxy.cut()
        broken = subprocess.run(get, capture_output=True, text=True, check=False, timeout=SECONDS)
        assert broken.returncode == 1
        assert "connection reset by peer" in broken.stderr


def test_component_can_be_routed_through_fault_proxy(plane: Cluster) -> None:
    """With the controllers' connections stalled nothing reconciles; healed, it goes on."""
    kubectl = plane.kubectl
    name = "kube-controller-manager"
    present = ("get", "replicasets", "--output=name")
    with FaultProxy(plane.layout.settings.port("kube-apiserver")) as proxy:
        plane.route(name, f"https://127.0.0.1:{proxy.port}")
        kubectl("create", "deployment", "one", "--image=none")
        poll_until(lambda: "one-" in kubectl(*present), "the first ReplicaSet, through the proxy")
        proxy.stall()
        kubectl("create", "deployment", "two", "--image=none")
        time.sleep(1)  # the time a healthy controller would need, ten times over
        assert "two-" not in kubectl(*present)
        proxy.heal()
        poll_until(lambda: "two-" in kubectl(*present), "the second ReplicaSet, after the healing")
        plane.route(name, None)
    kubectl("delete", "deployment", "one", "two")
    assert plane.unhealthy() == []


def test_only_components_with_a_kubeconfig_can_be_routed(plane: Cluster) -> None:
    """etcd needs no other component."""
    with pytest.raises(TestBedError, match="etcd has no kubeconfig"):
        plane.route("etcd", "https://127.0.0.1:1")
    with pytest.raises(TestBedError, match=r"kubelet is not a component of this cluster; it has"):
        plane.restart("kubelet")


def test_used_port_is_reported_before_start(tmp_path: Path) -> None:
    """The sentence names who needs the port; the folder stays free."""
    base = machine.free_base_port(len(layout.PORTS))
    with socket.create_server(("127.0.0.1", base + layout.PORTS["kube-apiserver"])):
        cluster = Cluster(tmp_path / "c", layout.Settings(base, node=False))
        with pytest.raises(TestBedError, match="which kube-apiserver needs, is already in use"):
            cluster.up()
    assert Cluster.present(tmp_path / "c") is None
    assert cluster.processes.leftovers() == []


def test_component_start_failure_shows_its_last_output(tmp_path: Path) -> None:
    """A failed start leaves no process and no state, only the logs."""
    with private_control_plane(versions.DEFAULT_MINOR) as cluster:
        cluster.down()
        keys.make(cluster.layout)
        layout.write_settings(cluster.layout)
        (cluster.layout.keys / "accounts.pub").write_text("not a key")
        with pytest.raises(TestBedError, match=r"kube-apiserver ended while it started.*accounts"):
            cluster.up()
        assert cluster.processes.leftovers() == []
        assert cluster.processes.log("kube-apiserver").exists()


def test_up_continues_after_a_kill(plane: Cluster) -> None:
    """Killed in the middle, by a signal that cannot be handled; the next one completes it."""
    plane.down()
    settings = plane.layout.settings
    up = [sys.executable, "-m", "tests.cluster", "up", "--no-node"]
    up += ["--dir", str(plane.layout.folder), "--base-port", str(settings.base_port)]
    with subprocess.Popen(up, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "etcd healthy" in line:
                break
        process.send_signal(signal.SIGKILL)
    first = plane.processes.process("etcd")
    plane.up()
    assert plane.processes.process("etcd") == first
    assert plane.unhealthy() == []


def test_down_leaves_nothing_but_logs(plane: Cluster) -> None:
    """Also when a component was killed, another is paused, and it is called twice."""
    plane.kill("kube-scheduler")
    plane.pause("etcd")
    plane.down()
    plane.down()
    assert plane.processes.leftovers() == []
    assert {path.name for path in plane.layout.folder.iterdir()} == {"lock", "log"}
    assert main(["status", "--dir", str(plane.layout.folder)]) == 3
    plane.up()


def test_objects_survive_a_down_that_keeps_them(plane: Cluster) -> None:
    """`down --keep` and `up`: for a person who goes on tomorrow."""
    plane.kubectl("create", "configmap", "kept")
    plane.down(keep=True)
    assert plane.processes.leftovers() == []
    plane.up()
    assert "kept" in plane.kubectl("get", "configmaps", "--output=name")


def test_killed_pytest_leaves_no_cluster(tmp_path: Path) -> None:
    """The guard that the fixture starts takes the cluster down when its owner ends."""
    test = tmp_path / "test_it.py"
    test.write_text(
        "import os, signal\n"
        "from tests.cluster.fixtures import private_control_plane\n"
        "def test_it():\n"
        "    with private_control_plane('1.36') as cluster:\n"
        "        print('FOLDER', cluster.layout.folder, flush=True)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(test)]
    done = subprocess.run(
        [*command, "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        env={**os.environ, "HOTMAP_REQUIRE": "cluster"},
    )
    assert done.returncode == -signal.SIGKILL, done.stdout
    found = re.search(r"^FOLDER (.*)$", done.stdout, re.MULTILINE)
    assert found is not None
    cluster = Cluster.present(Path(found[1]))
    if cluster is not None:
        poll_until(lambda: not cluster.processes.leftovers(), "the guard takes it down")
    poll_until(lambda: Cluster.present(Path(found[1])) is None, "the guard removes its state")
    shutil.rmtree(found[1])
