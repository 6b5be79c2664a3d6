"""What other agents did in the same cases, measured once; shown beside our own figures.

2026-11-21, two shared cores, kubelet-style swap → webhook call. Compare ratios; for absolute times
each would have to run beside ours.
"""

from __future__ import annotations

__all__ = ["beside"]

_PEERS = (
    "configmap-reload 0.15",
    "prometheus-config-reloader 0.93",
    "k8s-sidecar 2.10",
    "consul-template 0.42",
)

_ROWS: dict[str, tuple[str, str, str, str]] = {
    "latency p50 / p99": (
        "0.9 / 2.7 ms",
        "1,003 / 1,007 ms (12 / 17 ms with --delay-interval=10ms)",
        "3.5 / 9.4 ms",
        "≤ 2 s (polls)",
    ),
    "1,000-file volume p50": (
        "1.4 ms (does not read it)",
        "1,076 ms (80 ms)",
        "265 ms",
        "≤ 2 s",
    ),
    "burst of 50 swaps → calls": ("50", "1", "50", "1"),
    "identical content, 10 swaps → calls": ("10", "10", "0", "0"),
    "away while it changed": (
        "lost",
        "found (lost with directories only)",
        "found",
        "found",
    ),
    "endpoint away 30 s": (
        "lost (found with 5 retries)",
        "found",
        "found",
        "the agent exits",
    ),
    "endpoint away 90 s": ("lost, also with 5 retries", "found", "lost", "the agent exits"),
    "500 for a while": ("lost", "found", "found", "the agent exits"),
    "hangs: the next change": ("never", "after 25 s", "after 5 s", "the agent exits"),
    "memory": ("12 MB", "34 MB", "74–86 MB", "18 MB"),
    "CPU per swap / idle per minute": (
        "0.9 ms / 0",
        "2.2 ms / 0",
        "3.7 ms / 20 ms",
        "1.8 ms / 0",
    ),
}


def beside(*beginnings: str) -> list[str]:
    """Return one sentence for each quantity whose name starts with the prefix."""
    return [
        f"Peers, {quantity}: "
        + "; ".join(f"{peer} {figure}" for peer, figure in zip(_PEERS, figures, strict=True))
        + "."
        for quantity, figures in _ROWS.items()
        if quantity.startswith(beginnings)
    ]
