"""Where one cluster keeps its files, which ports it uses, and the settings it was started with.

Values only: nothing here starts or writes anything except the settings file.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.cluster import machine, versions
from tests.cluster.build import Programs
from tests.cluster.errors import TestBedError

# Offset from the base port, by who listens there.
PORTS = {
    "etcd": 0,
    "etcd peers": 1,
    "coredns": 2,
    "kube-apiserver": 3,
    "kube-controller-manager": 4,
    "kube-scheduler": 5,
    "kubelet": 6,
    "kubelet health": 7,
    "kube-proxy health": 8,
    "kube-proxy metrics": 9,
    "coredns health": 10,
    "kwok": 11,
}
NODE_BASE_PORT = 16440
CONTROL_PLANE_BASE_PORT = 16540

NODE_NAME = "node1"
# On the loopback device, since not every kernel has dummy devices; 127.* is refused as node
# address and as endpoint (kubernetes: pkg/kubelet/nodestatus, pkg/apis/core/validation).
NODE_ADDRESS = "10.99.0.1"
POD_NETWORK = "10.244.0.0/24"
SERVICE_NETWORK = "10.96.0.0/24"
API_SERVICE_ADDRESS = "10.96.0.1"
DNS_SERVICE_ADDRESS = "10.96.0.10"


@dataclass(frozen=True)
class Settings:
    """What `up` was asked for; written into the cluster's folder, compared by the next `up`."""

    base_port: int
    node: bool = True  # a kubelet with real containers; else the control plane alone
    minor: str = versions.DEFAULT_MINOR
    kwok_nodes: int = 0
    dns: bool = False  # CoreDNS; without it, names of services do not resolve in pods

    def port(self, listener: str) -> int:
        """Return the port of one of the `PORTS`."""
        return self.base_port + PORTS[listener]


@dataclass(frozen=True)
class Layout:
    """One cluster's folder and settings; every other path is derived from it."""

    folder: Path
    settings: Settings

    @property
    def programs(self) -> Programs:
        """The upstream programs of this cluster's version."""
        return Programs(self.settings.minor)

    @property
    def keys(self) -> Path:
        """Certificates, private keys and tokens."""
        return self.folder / "keys"

    @property
    def logs(self) -> Path:
        """One log per component; kept by `down`."""
        return self.folder / "log"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "admin.kubeconfig"

    @property
    def containerd_socket(self) -> Path:
        """Where containerd listens."""
        return self.folder / "containerd" / "containerd.sock"

    @property
    def server(self) -> str:
        """The API server's address for everything on this machine."""
        return f"https://127.0.0.1:{self.settings.port('kube-apiserver')}"

    def kubeconfig_of(self, user: str) -> Path:
        """Return the kubeconfig of a component, e.g. "kubelet"."""
        return self.folder / f"{user}.kubeconfig"


def default_folder(*, node: bool) -> Path:
    """Return the folder of a cluster for which none was named."""
    return machine.cache_folder() / "clusters" / ("node" if node else "control-plane")


def default_settings(*, node: bool) -> Settings:
    """Return the settings of a cluster for which none were named."""
    return Settings(NODE_BASE_PORT if node else CONTROL_PLANE_BASE_PORT, node=node)


def read_settings(folder: Path) -> Settings | None:
    """Return what the cluster in `folder` was started with, or None when there is none.

    Raises:
        TestBedError: the folder holds something that is not a cluster of this kit.
    """
    file = folder / "cluster.json"
    try:
        return Settings(**json.loads(file.read_text()))
    except FileNotFoundError:
        pass
    except (ValueError, TypeError) as error:
        raise TestBedError(
            f"{file} is not a settings file of this test bed ({error}); remove {folder}."
        ) from None
    strange = sorted(
        path.name
        for path in folder.glob("*")
        if path.name not in ("log", "lock", "cluster.partial")
    )
    if strange:
        raise TestBedError(
            f"{folder} is stale: it holds {strange[0]} but no cluster.json;"
            " remove the folder or choose another with --dir."
        )
    return None


def require_same(layout: Layout) -> None:
    """Check that the folder is free, or belongs to a cluster with these very settings.

    Raises:
        TestBedError: it belongs to another one; the message names each difference.
    """
    present = read_settings(layout.folder)
    if present is None or present == layout.settings:
        return
    wanted = asdict(layout.settings)
    differs = ", ".join(
        f"{name} {value} instead of {wanted[name]}"
        for name, value in asdict(present).items()
        if value != wanted[name]
    )
    raise TestBedError(
        f"{layout.folder} holds a cluster with {differs}; run `down` for it first,"
        " or choose another folder with --dir."
    )


def write_settings(layout: Layout) -> None:
    """Record what a cluster is started with; the first thing that is written of it."""
    partial = layout.folder / "cluster.partial"
    layout.folder.mkdir(parents=True, exist_ok=True)
    partial.write_text(json.dumps(asdict(layout.settings)))
    partial.rename(layout.folder / "cluster.json")
