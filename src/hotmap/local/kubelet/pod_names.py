"""The names of a pod: its hostname, and the files in /etc in which it finds itself and its aliases.

kubernetes: pkg/kubelet/kubelet_pods.go (GeneratePodHostNameAndDomain, makeHostsMount),
kuberuntime/kuberuntime_sandbox.go (generatePodSandboxConfig).
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotmap.local.kubelet.sandbox import Mount

__all__ = ["PodName", "hosts_text", "pod_name", "process_hostname", "write_name_files"]

_HOSTS = "/etc/hosts"
_HOSTNAME = "/etc/hostname"
#: --cluster-domain
_CLUSTER_DOMAIN = "cluster.local"
_MAX_HOSTNAME = 63
_HEADER = "# Kubernetes-managed hosts file.\n"
_HEADER_OF_HOST_NETWORK = "# Kubernetes-managed hosts file (host network).\n"
_LOCAL_NAMES = """\
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""


class PodName(NamedTuple):
    """The hostname of a pod, and its domain where it has a subdomain."""

    hostname: str
    domain: str


def pod_name(pod: Mapping[str, Any]) -> PodName:
    """Return the name that a pod has for itself."""
    metadata, spec = pod["metadata"], pod["spec"]
    override = spec.get("hostnameOverride")
    hostname = override or spec.get("hostname") or metadata["name"]
    if len(hostname) > _MAX_HOSTNAME:
        hostname = hostname[:_MAX_HOSTNAME].rstrip("-.")
    if override or not spec.get("subdomain"):
        return PodName(hostname, "")
    return PodName(hostname, f"{spec['subdomain']}.{metadata['namespace']}.svc.{_CLUSTER_DOMAIN}")


def process_hostname(pod: Mapping[str, Any]) -> str:
    """Return the hostname that the processes of a pod see; with `hostNetwork` the machine's."""
    spec = pod["spec"]
    if spec.get("hostNetwork"):
        return socket.gethostname()
    hostname, domain = pod_name(pod)
    return f"{hostname}.{domain}" if domain and spec.get("setHostnameAsFQDN") else hostname


def write_name_files(pod: Mapping[str, Any], address: str, directory: Path) -> list[Mount]:
    """Write the files that all containers of a pod share; return their mounts.

    A runtime adds the one with the hostname (containerd: setupSandboxFiles).

    Raises:
        OSError: one cannot be written, or the hosts file of the machine cannot be read.
    """
    directory.mkdir(parents=True, exist_ok=True)
    texts = {_HOSTS: hosts_text(pod, address), _HOSTNAME: f"{process_hostname(pod)}\n"}
    mounts: list[Mount] = []
    for target, text in texts.items():
        path = directory / target[1:].replace("/", "-")
        path.write_text(text, errors="surrogateescape")
        path.chmod(0o644)
        mounts.append({"source": str(path.resolve()), "target": target, "read_only": False})
    return mounts


def hosts_text(pod: Mapping[str, Any], address: str) -> str:
    """Return the content of a pod's file; with `hostNetwork` it begins with the machine's."""
    spec = pod["spec"]
    if spec.get("hostNetwork"):
        text = _HEADER_OF_HOST_NETWORK + Path(_HOSTS).read_text(errors="surrogateescape")
    else:
        hostname, domain = pod_name(pod)
        names = f"{hostname}.{domain}\t{hostname}" if domain else hostname
        text = f"{_HEADER}{_LOCAL_NAMES}{address}\t{names}\n"
    aliases = spec.get("hostAliases") or ()
    if aliases:
        text += "\n# Entries added by HostAliases.\n"
    for alias in aliases:
        text += "\t".join((alias["ip"], *(alias.get("hostnames") or ()))) + "\n"
    return text
