"""Random histories on a real API server: what is called up to date is, what was missed is mended.

Upstream's own API server, Deployment controller and scheduler; the kubelets are simulated, since
only they know what each pod has read. HOTMAP_API_HISTORIES asks for another number of histories
(10,000 a night), HOTMAP_API_HISTORIES_FROM for other seeds, HOTMAP_API_HISTORIES_PROCESSES for how
many processes play them, each with a namespace and a controller of its own, and
HOTMAP_API_HISTORIES_AT_ONCE for how many of them share a controller.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import real_control_plane
from tests.simulation.api_server_histories import NOT_QUIET
from tests.simulation.api_server_play import play_histories

__all__ = ["real_control_plane"]

_COUNT = int(os.environ.get("HOTMAP_API_HISTORIES", "12"))
_FROM = int(os.environ.get("HOTMAP_API_HISTORIES_FROM", "0"))
_PROCESSES = int(os.environ.get("HOTMAP_API_HISTORIES_PROCESSES", "1" if _COUNT < 100 else "4"))
_AT_ONCE = int(os.environ.get("HOTMAP_API_HISTORIES_AT_ONCE", "100"))


@pytest.mark.cluster
@pytest.mark.timeout(12 * 3600)
async def test_histories_on_a_real_api_server_end_with_the_present_content(
    real_control_plane: Cluster, record_property: Callable[[str, object], None]
) -> None:
    """No history is called up to date that is not, and none is left behind without a reason."""
    seeds = range(_FROM, _FROM + _COUNT)
    played = await play_histories(
        real_control_plane.kubeconfig, seeds, at_once=_AT_ONCE, processes=_PROCESSES
    )
    states = Counter(history.state or "not played" for history in played)
    record_property("histories", dict(states))
    broken = [history.broken for history in played if history.broken]
    assert not broken, "\n".join(broken)
    failures = {history.seed: history.failure for history in played if history.failure}
    assert not failures, f"{failures}; the others: {states}"
    assert sorted(history.seed for history in played) == list(seeds)
    # A machine that is too busy for its rollouts proves nothing.
    assert sum(history.reason == NOT_QUIET for history in played) <= len(played) / 50
