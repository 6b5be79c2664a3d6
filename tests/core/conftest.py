"""Property tests check results, not the speed of a machine that other work shares."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "core", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("core")
