"""Random histories on a real API server: what is called up to date is, what was missed is mended.

Upstream's own API server, Deployment controller and scheduler; the kubelets are simulated, since
only they know what each pod has read. HOTMAP_API_HISTORIES asks for another number of histories
(10,000 over some nights), HOTMAP_API_HISTORIES_FROM for other seeds, and
HOTMAP_API_HISTORIES_AT_ONCE for how many are played at the same time.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import real_control_plane
from tests.simulation.api_server_histories import play_histories
from tests.simulation.test_random_histories import broken_promise, report

__all__ = ["real_control_plane"]

_COUNT = int(os.environ.get("HOTMAP_API_HISTORIES", "12"))
_FROM = int(os.environ.get("HOTMAP_API_HISTORIES_FROM", "0"))
_AT_ONCE = int(os.environ.get("HOTMAP_API_HISTORIES_AT_ONCE", "12"))


@pytest.mark.cluster
@pytest.mark.timeout(12 * 3600)
async def test_histories_on_a_real_api_server_end_with_the_present_content(
    real_control_plane: Cluster, record_property: Callable[[str, object], None]
) -> None:
    """No history is called up to date that is not, and none is left behind without a reason."""
    seeds = range(_FROM, _FROM + _COUNT)
    results = await play_histories(real_control_plane.kubeconfig, seeds, at_once=_AT_ONCE)
    failures = {seed: found for seed, found in results.items() if isinstance(found, Exception)}
    played = {seed: found for seed, found in results.items() if not isinstance(found, Exception)}
    states = Counter(found.state.value for found in played.values())
    record_property("histories", {**states, "not played": len(failures)})
    broken = [
        report(seed, found) for seed, found in sorted(played.items()) if broken_promise(found)
    ]
    assert not broken, "\n".join(broken)
    assert not failures, f"{failures}; the others: {states}"
