"""How etcd, the API server, the controllers and the scheduler are run.

Flags only. Those that are not obvious carry their reason; the rest follow kubeadm's.
"""

import json

from tests.cluster import health, keys
from tests.cluster.components import Component
from tests.cluster.layout import NODE_ADDRESS, SERVICE_NETWORK, Layout

# Client requests per second of controllers and scheduler. The default of 20 would dominate every
# measurement with thousands of pretended pods; beside a real kubelet it would starve the machine.
QUERIES_PER_SECOND = {True: 50, False: 500}  # by Settings.node


def components(layout: Layout) -> list[Component]:
    """Return the control plane's components in the order in which they are started."""
    return [_etcd(layout), _apiserver(layout), _controllers(layout), _scheduler(layout)]


def write_files(layout: Layout) -> None:
    """Write the files that the components' flags name, apart from keys and kubeconfigs."""
    rate = QUERIES_PER_SECOND[layout.settings.node]
    scheduler = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {
            "kubeconfig": str(layout.kubeconfig_of("kube-scheduler")),
            "qps": rate,
            "burst": 2 * rate,
        },
    }
    (layout.folder / "kube-scheduler.json").write_text(json.dumps(scheduler))


def _etcd(layout: Layout) -> Component:
    clients = f"http://127.0.0.1:{layout.settings.port('etcd')}"
    peers = f"http://127.0.0.1:{layout.settings.port('etcd peers')}"
    command = (
        str(layout.programs.path("etcd")),
        "--name=testbed",
        f"--data-dir={layout.folder / 'etcd'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=testbed={peers}",
        "--unsafe-no-fsync",  # a cluster that dies with its machine is simply made again
        "--quota-backend-bytes=8589934592",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=5m",
        "--log-level=warn",
    )
    return Component(
        "etcd",
        command,
        lambda: health.of_http(f"{clients}/health"),
        listens=("etcd", "etcd peers"),
        seconds=30,
    )


def _apiserver(layout: Layout) -> Component:
    folder, port = layout.keys, layout.settings.port("kube-apiserver")
    addresses: tuple[str, ...]
    if layout.settings.node:
        # Pods and the kubelet reach it at the node's address, which "kubernetes" then lists.
        addresses = ("--bind-address=0.0.0.0", f"--advertise-address={NODE_ADDRESS}")
    else:
        addresses = (
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",  # 127.* is not allowed as an endpoint
        )
    command = (
        str(layout.programs.path("kube-apiserver")),
        f"--etcd-servers=http://127.0.0.1:{layout.settings.port('etcd')}",
        *addresses,
        f"--secure-port={port}",
        f"--service-cluster-ip-range={SERVICE_NETWORK}",
        "--service-node-port-range=30000-30999",
        f"--tls-cert-file={folder / 'apiserver.crt'}",
        f"--tls-private-key-file={folder / 'apiserver.key'}",
        f"--client-ca-file={folder / 'ca.crt'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={folder / 'accounts.pub'}",
        f"--service-account-signing-key-file={folder / 'accounts.key'}",
        f"--kubelet-client-certificate={folder / 'kubelet-client.crt'}",
        f"--kubelet-client-key={folder / 'kubelet-client.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--requestheader-client-ca-file={folder / 'ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        f"--proxy-client-cert-file={folder / 'front-proxy.crt'}",
        f"--proxy-client-key-file={folder / 'front-proxy.key'}",
    )

    def ask() -> str | None:
        return health.of_http(
            f"{layout.server}/readyz", ca=folder / "ca.crt", token=keys.token(layout, "admin")
        )

    return Component("kube-apiserver", command, ask, listens=("kube-apiserver",), seconds=90)


def _controllers(layout: Layout) -> Component:
    folder, port = layout.keys, layout.settings.port("kube-controller-manager")
    kubeconfig = layout.kubeconfig_of("kube-controller-manager")
    rate = QUERIES_PER_SECOND[layout.settings.node]
    command = (
        str(layout.programs.path("kube-controller-manager")),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={folder / 'accounts.key'}",
        f"--root-ca-file={folder / 'ca.crt'}",
        f"--cluster-signing-cert-file={folder / 'ca.crt'}",
        f"--cluster-signing-key-file={folder / 'ca.key'}",
        "--cluster-name=testbed",
        f"--kube-api-qps={rate}",
        f"--kube-api-burst={2 * rate}",
    )
    name = "kube-controller-manager"
    return Component(
        name, command, lambda: health.of_http(f"https://127.0.0.1:{port}/healthz"), listens=(name,)
    )


def _scheduler(layout: Layout) -> Component:
    port = layout.settings.port("kube-scheduler")
    kubeconfig = layout.kubeconfig_of("kube-scheduler")
    command = (
        str(layout.programs.path("kube-scheduler")),
        f"--config={layout.folder / 'kube-scheduler.json'}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
    )
    name = "kube-scheduler"
    return Component(
        name, command, lambda: health.of_http(f"https://127.0.0.1:{port}/healthz"), listens=(name,)
    )
