"""How containerd, the kubelet, kube-proxy and CoreDNS are run, and how a node ends.

One node per machine: addresses and firewall rules are the machine's.
"""

import datetime
import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster import footprint, health, images, layout, machine, packages
from tests.cluster.components import MARK, PROC, Component, Process, Processes, current, end
from tests.cluster.errors import TestBedError
from tests.cluster.layout import Layout

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster

CONTAINERD = """\
version = 2
root = "{folder}/containerd/root"
state = "{folder}/containerd/state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  disable_apparmor = true
  # Pods ask for scores below ours, which needs CAP_SYS_RESOURCE; without it runc fails obscurely.
  restrict_oom_score_adj = true
  # Not in /run/netns, which the machine's first `ip netns add` mounts over itself.
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
"""
COREFILE = """\
.:{port} {{
  bind {address}
  errors
  health {address}:{health}
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {kubeconfig}
    pods insecure
  }}
  cache 5
}}
"""


def require_machine() -> None:
    """Check that this machine can be a node; install missing packages when that is allowed.

    Raises:
        TestBedError: not root, no cgroups, or no packages.
    """
    if not machine.is_root():
        raise TestBedError(
            "A node with real containers needs root; run as root,"
            " or start the control plane alone with --no-node."
        )
    machine.cgroup_version()
    packages.require()


def require_no_other(folder: Path) -> None:
    """Check that no other kubelet runs on this machine.

    Raises:
        TestBedError: one does; the message says whose it is.
    """
    for path in PROC.glob("[0-9]*"):
        with suppress(OSError):
            if (path / "comm").read_text().strip() != "kubelet":
                continue
            marks = [
                part.partition(b"=")[2].decode()
                for part in (path / "environ").read_bytes().split(b"\0")
                if part.startswith(f"{MARK}=".encode())
            ]
            if marks == [str(folder)]:
                continue
            if marks:
                raise TestBedError(
                    f"This machine is already the node of the cluster in {marks[0]};"
                    f" run `down --dir {marks[0]}` first, or use --no-node."
                )
            raise TestBedError(
                f"A kubelet that is not ours runs on this machine (process {path.name});"
                " it can be one node only: use --no-node or another machine."
            )


def components(where: Layout) -> list[Component]:
    """Return the node's components in the order in which they are started."""
    found = [_containerd(where), _kubelet(where), _proxy(where)]
    return [*found, _coredns(where)] if where.settings.dns else found


def prepare(where: Layout) -> None:
    """Change the machine as a node needs it and write the components' settings files."""
    footprint.leave(where)
    for name in ("containerd", "cni", "pod-logs", "volume-plugins"):
        (where.folder / name).mkdir(exist_ok=True)
    (where.folder / "resolv.conf").touch()
    socket, pause = where.containerd_socket, images.reference("pause")
    text = CONTAINERD.format(folder=where.folder, socket=socket, pause=pause)
    _write_changed(where.folder / "containerd.toml", text)
    _write_changed(where.folder / "cni" / "10-testbed.conflist", json.dumps(_cni(where)))
    _write_changed(where.folder / "kubelet.json", json.dumps(_kubelet_settings(where)))
    _write_changed(where.folder / "kube-proxy.json", json.dumps(_proxy_settings(where)))
    if where.settings.dns:
        _write_changed(
            where.folder / "Corefile",
            COREFILE.format(
                port=where.settings.port("coredns"),
                health=where.settings.port("coredns health"),
                address=layout.NODE_ADDRESS,
                kubeconfig=where.kubeconfig,
            ),
        )


def load_images(where: Layout) -> int:
    """Import the images that containerd does not have yet or that have changed; count them all.

    Raises:
        TestBedError: containerd refuses one.
    """
    names = images.names()
    for name in names:
        load_image(where, name, images.tar(name))
    return len(names)


def load_image(where: Layout, name: str, tar: Path) -> None:
    """Import an image unless containerd has it.

    Raises:
        TestBedError: containerd refuses it.
    """
    note = where.folder / "containerd" / "images.json"
    loaded = json.loads(note.read_text()) if note.exists() else {}
    if loaded.get(name) != tar.name:
        command = ("ctr", "--address", where.containerd_socket, "--namespace", "k8s.io")
        done = subprocess.run(
            [*command, "images", "import", tar], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise TestBedError(f"containerd did not take image {name}: {done.stderr.strip()}")
        loaded[name] = tar.name
        note.write_text(json.dumps(loaded))


def not_ready(cluster: "Cluster", *, since: float) -> str | None:
    """Return why the node is not Ready, None when it is and has said so at or after `since`.

    `since` is POSIX seconds. A node that was killed is called Ready for another 40 s by what it
    had last reported (kubernetes: pkg/controller/nodelifecycle); a kubelet that starts reports
    at once.
    """
    found = cluster.kubectl(
        *("get", "nodes", f"--field-selector=metadata.name={layout.NODE_NAME}"),
        '--output=jsonpath={.items[*].status.conditions[?(@.type=="Ready")]}',
    )
    if not found:
        return "not registered"
    condition = json.loads(found)
    reported = datetime.datetime.fromisoformat(condition["lastHeartbeatTime"]).timestamp()
    if reported < int(since):  # reported in whole seconds
        return "has not reported since its kubelet was started"
    return None if condition["status"] == "True" else str(condition["message"])


def publish_dns(cluster: "Cluster") -> None:
    """Return CoreDNS, which runs on the node itself, the address that pods ask."""
    port = cluster.layout.settings.port("coredns")
    protocols = {"dns": "UDP", "dns-tcp": "TCP"}
    asked = [{"name": n, "port": 53, "protocol": p} for n, p in protocols.items()]
    answering = [{"name": n, "port": port, "protocol": p} for n, p in protocols.items()]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"clusterIP": layout.DNS_SERVICE_ADDRESS, "ports": asked},
    }
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kube-dns-node",
            "namespace": "kube-system",
            "labels": {"kubernetes.io/service-name": "kube-dns"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [layout.NODE_ADDRESS], "conditions": {"ready": True}}],
        "ports": answering,
    }
    objects = {"apiVersion": "v1", "kind": "List", "items": [service, slice_]}
    cluster.kubectl("apply", "--filename=-", stdin=json.dumps(objects))


def stop(where: Layout, processes: Processes) -> None:
    """End the kubelet, then every container, then containerd and its shims.

    Containers are found by their cgroup, so that they end also when containerd is dead.
    """
    for name in ("coredns", "kube-proxy", "kubelet"):
        processes.stop(name)
    while containers := _container_processes(where.folder):
        for process in containers:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        for process in containers:
            end(process, seconds=0)
    processes.stop("containerd")


def _containerd(where: Layout) -> Component:
    return Component(
        "containerd",
        ("containerd", "--config", str(where.folder / "containerd.toml")),
        lambda: health.of_socket(where.containerd_socket),
        seconds=30,
    )


def _kubelet(where: Layout) -> Component:
    port = where.settings.port("kubelet health")
    command = (
        str(where.programs.path("kubelet")),
        f"--config={where.folder / 'kubelet.json'}",
        f"--kubeconfig={where.kubeconfig_of('kubelet')}",
        f"--root-dir={where.folder / 'kubelet'}",
        f"--cert-dir={where.folder / 'kubelet' / 'pki'}",
        f"--hostname-override={layout.NODE_NAME}",
        f"--node-ip={layout.NODE_ADDRESS}",
        "--v=2",
    )
    return Component(
        "kubelet",
        command,
        lambda: health.of_http(f"http://127.0.0.1:{port}/healthz"),
        listens=("kubelet", "kubelet health"),
    )


def _proxy(where: Layout) -> Component:
    port = where.settings.port("kube-proxy health")
    return Component(
        "kube-proxy",
        (str(where.programs.path("kube-proxy")), f"--config={where.folder / 'kube-proxy.json'}"),
        lambda: health.of_http(f"http://127.0.0.1:{port}/healthz"),
        listens=("kube-proxy health", "kube-proxy metrics"),
    )


def _coredns(where: Layout) -> Component:
    url = f"http://{layout.NODE_ADDRESS}:{where.settings.port('coredns health')}/health"
    return Component(
        "coredns",
        (str(where.programs.path("coredns")), "-conf", str(where.folder / "Corefile")),
        lambda: health.of_http(url),
        listens=("coredns", "coredns health"),
    )


def _cni(where: Layout) -> dict[str, object]:
    addresses = {
        "type": "host-local",
        "dataDir": str(where.folder / "cni-addresses"),
        "subnet": layout.POD_NETWORK,
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {
        "cniVersion": "0.4.0",
        "name": "testbed",
        "plugins": [
            {"type": "ptp", "ipMasq": False, "ipam": addresses},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _kubelet_settings(where: Layout) -> dict[str, object]:
    # Without CoreDNS, pods are given an address without a listener: looking up a name then
    # fails at once, while an unserved service address would let it wait for 10 to 20 s.
    dns = layout.DNS_SERVICE_ADDRESS if where.settings.dns else layout.NODE_ADDRESS
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": layout.NODE_ADDRESS,
        "port": where.settings.port("kubelet"),
        "readOnlyPort": 0,
        "healthzPort": where.settings.port("kubelet health"),
        "healthzBindAddress": "127.0.0.1",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(where.keys / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{where.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        "enforceNodeAllocatable": [],
        # Since 1.35 the kubelet refuses cgroup version 1 unless told (KEP-5573).
        "failCgroupV1": False,
        "failSwapOn": False,
        # cadvisor does not know every root device; nothing is ever evicted for lack of disk.
        "localStorageCapacityIsolation": False,
        "evictionHard": {
            "imagefs.available": "0%",
            "memory.available": "1Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "maxPods": 200,
        "resolvConf": str(where.folder / "resolv.conf"),
        "clusterDNS": [dns],
        "clusterDomain": "cluster.local",
        "podLogsDir": str(where.folder / "pod-logs"),
        "volumePluginDir": str(where.folder / "volume-plugins"),
    }


def _proxy_settings(where: Layout) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(where.kubeconfig_of("kube-proxy"))},
        "clusterCIDR": layout.POD_NETWORK,
        "hostnameOverride": layout.NODE_NAME,
        "healthzBindAddress": f"127.0.0.1:{where.settings.port('kube-proxy health')}",
        "metricsBindAddress": f"127.0.0.1:{where.settings.port('kube-proxy metrics')}",
        "nodePortAddresses": [f"{layout.NODE_ADDRESS}/32"],
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        "iptables": {"minSyncPeriod": "100ms", "localhostNodePorts": False},
    }


def _container_processes(folder: Path) -> list[Process]:
    state = folder / "containerd" / "state" / "io.containerd.runtime.v2.task" / "k8s.io"
    containers = [path.name for path in state.glob("*")]
    found = []
    for path in PROC.glob("[0-9]*"):
        with suppress(OSError):
            cgroups = (path / "cgroup").read_text()
            if any(container in cgroups for container in containers):
                process = current(int(path.name))
                if (path / "cmdline").read_bytes():  # a zombie has none
                    found.append(process)
    return found


def _write_changed(path: Path, text: str) -> None:
    """Write a file only if that changes it: kube-proxy ends when its settings are rewritten."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
