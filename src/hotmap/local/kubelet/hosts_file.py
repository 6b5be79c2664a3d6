"""The names of a pod: its hostname, and its /etc/hosts, in which it finds itself and its aliases.

kubernetes: pkg/kubelet/kubelet_pods.go (GeneratePodHostNameAndDomain, makeHostsMount).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotmap.local.kubelet.sandbox import Mount

__all__ = ["PATH", "PodName", "hosts_text", "pod_name", "write_hosts_file"]

PATH = "/etc/hosts"
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


def write_hosts_file(pod: Mapping[str, Any], address: str, path: Path) -> Mount:
    """Write the file that all containers of a pod share; return its mount.

    Raises:
        OSError: it cannot be written, or that of the machine cannot be read.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(hosts_text(pod, address), errors="surrogateescape")
    path.chmod(0o644)
    return {"source": str(path.resolve()), "target": PATH, "read_only": False}


def hosts_text(pod: Mapping[str, Any], address: str) -> str:
    """Return the content of a pod's file; with `hostNetwork` it begins with the machine's."""
    spec = pod["spec"]
    if spec.get("hostNetwork"):
        text = _HEADER_OF_HOST_NETWORK + Path(PATH).read_text(errors="surrogateescape")
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
