"""What a pod is called, and what it finds in its /etc/hosts and /etc/hostname."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hotmap.local.kubelet.pod_names import hosts_text, pod_name, process_hostname

if TYPE_CHECKING:
    from tests.local.kubelet.conftest import LocalNode


def pod(name: str = "web-0", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "hostname", "domain"),
    [
        ({}, "web-0", ""),
        ({"hostname": "own"}, "own", ""),
        ({"subdomain": "web"}, "web-0", "web.shop.svc.cluster.local"),
        ({"hostnameOverride": "any.name", "hostname": "own", "subdomain": "web"}, "any.name", ""),
    ],
)
def test_name_of_a_pod(spec: dict[str, Any], hostname: str, domain: str) -> None:
    assert pod_name(pod(**spec)) == (hostname, domain)


def test_long_name_is_cut_to_a_hostname() -> None:
    """It does not end with a hyphen."""
    assert pod_name(pod("x" * 62 + "-more")).hostname == "x" * 62


@pytest.mark.parametrize(
    ("spec", "hostname"),
    [
        ({"subdomain": "web"}, "web-0"),
        ({"subdomain": "web", "setHostnameAsFQDN": True}, "web-0.web.shop.svc.cluster.local"),
        ({"setHostnameAsFQDN": True}, "web-0"),
        ({"hostNetwork": True, "hostname": "own"}, socket.gethostname()),
    ],
)
def test_hostname_of_processes(spec: dict[str, Any], hostname: str) -> None:
    assert process_hostname(pod(**spec)) == hostname


def test_hosts_file_has_the_pod_and_its_aliases() -> None:
    aliases = [{"ip": "10.1.2.3", "hostnames": ["a.local", "b"]}, {"ip": "10.1.2.4"}]
    text = hosts_text(pod(subdomain="web", hostAliases=aliases), "127.1.0.7")
    assert text.startswith("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\t")
    assert text.endswith(
        "127.1.0.7\tweb-0.web.shop.svc.cluster.local\tweb-0\n"
        "\n# Entries added by HostAliases.\n10.1.2.3\ta.local\tb\n10.1.2.4\n"
    )


def test_hosts_file_of_host_network_is_the_machines() -> None:
    aliases = [{"ip": "10.1.2.3", "hostnames": ["a.local"]}]
    text = hosts_text(pod(hostNetwork=True, hostAliases=aliases), "127.1.0.7")
    machine = Path("/etc/hosts").read_text()
    added = "\n# Entries added by HostAliases.\n10.1.2.3\ta.local\n"
    assert text == f"# Kubernetes-managed hosts file (host network).\n{machine}{added}"


async def test_pod_resolves_its_own_name_and_aliases(node: LocalNode) -> None:
    """All containers share the file, which they may write."""
    script = "getent hosts $(hostname) alias.example; echo '10.9.9.9 more' >> /etc/hosts"
    aliases = [{"ip": "10.1.2.3", "hostnames": ["alias.example"]}]
    output = await node.output("web", script, pod={"hostAliases": aliases})
    address, name, alias, target = output.split()
    assert address.startswith("127.")
    assert (name, alias, target) == ("web", "10.1.2.3", "alias.example")


async def test_hostname_file_has_the_hostname_of_the_pod(node: LocalNode) -> None:
    output = await node.output("web", "hostname; cat /etc/hostname; echo $HOSTNAME")
    assert output.split() == ["web"] * 3


async def test_pod_in_host_network_has_the_name_of_the_machine(node: LocalNode) -> None:
    """On Kubernetes it shares the node's UTS namespace."""
    script = "hostname; cat /etc/hostname; echo $HOSTNAME"
    output = await node.output("web", script, pod={"hostNetwork": True})
    assert output.split() == [socket.gethostname()] * 3


async def test_volume_takes_the_place_of_the_hosts_file(node: LocalNode) -> None:
    await node.config_map("hosts", {"hosts": "10.1.1.1 mine\n"})
    output = await node.output(
        "web",
        "cat /etc/hosts",
        pod={"volumes": [{"name": "v", "configMap": {"name": "hosts"}}]},
        volumeMounts=[{"name": "v", "mountPath": "/etc/hosts", "subPath": "hosts"}],
    )
    assert output == "10.1.1.1 mine\n"
