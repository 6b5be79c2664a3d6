"""The node's address and firewall rules on this machine.

No bridge and no masquerading: pods reach each other, the node and the API, not the world.
"""

import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.cluster.errors import TestBedError
from tests.cluster.layout import NODE_ADDRESS

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
TABLES = ("nat", "filter", "mangle", "raw")
# Chains of kube-proxy and the kubelet, and of the portmap plugin (kubernetes: pkg/proxy/iptables;
# containernetworking: plugins/meta/portmap).
CHAINS = ("KUBE-", "CNI-")


def has_address() -> bool:
    """Return whether the node's address is on the loopback device."""
    return f" {NODE_ADDRESS}/32 " in _run("ip", "-4", "address", "show", "dev", "lo")


def add_address() -> None:
    """Put the node's address on the loopback device unless it is there."""
    if not has_address():
        _run("ip", "address", "add", f"{NODE_ADDRESS}/32", "dev", "lo")


def remove_address() -> None:
    """Take the node's address away if it is there."""
    if has_address():
        _run("ip", "address", "del", f"{NODE_ADDRESS}/32", "dev", "lo")


class Rules(NamedTuple):
    """One table of the firewall that holds rules or chains of ours."""

    version: str  # "ip" or "ip6"
    table: str
    saved: str  # what iptables-save says of it


def saved_rules() -> list[Rules]:
    """List the tables in which kube-proxy, kubelet or CNI plugins have left something."""
    found = []
    for version in ("ip", "ip6"):
        if not Path(f"/usr/sbin/{version}tables-save").exists():
            continue
        for table in TABLES:
            # A kernel without IPv6 or without a table says so by failing; then it holds nothing.
            done = subprocess.run(
                [f"/usr/sbin/{version}tables-save", "-t", table],
                capture_output=True,
                text=True,
                check=False,
            )
            if any(chain in done.stdout for chain in CHAINS):
                found.append(Rules(version, table, done.stdout))
    return found


def remove_rules() -> None:
    """Remove every firewall rule and chain that kube-proxy, kubelet and CNI plugins made."""
    for version, table, saved in saved_rules():
        kept = without_rules(saved)
        _run(f"/usr/sbin/{version}tables-restore", "-w", "-T", table, stdin=kept)


def without_rules(saved: str) -> str:
    """Return the output of iptables-save without the lines that speak of our chains."""
    lines = saved.splitlines(keepends=True)
    return "".join(line for line in lines if not any(chain in line for chain in CHAINS))


def _run(*command: str, stdin: str | None = None) -> str:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise TestBedError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout
