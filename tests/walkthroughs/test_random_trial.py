"""No history of edits and disturbances makes status say current when a process has old content.

`HOTMAP_TRIALS` runs so many histories, from the seed in `HOTMAP_TRIAL_SEED` on; each takes two to
four minutes. A failed test names the seed and shows the history.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.walkthroughs.local import Plane
from tests.walkthroughs.random_trial import Trial, choose_shapes, run_trial
from tests.walkthroughs.trial_workloads import Shape

#: Whatever a history leaves undone gets the time of a kubelet's sync, after its steps.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

_FIRST = int(os.environ.get("HOTMAP_TRIAL_SEED", "0"))
_COUNT = int(os.environ.get("HOTMAP_TRIALS", "1"))

_STEPS, _WORKLOADS = 20, 6


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _COUNT))
def test_no_history_makes_old_content_current(plane: Plane, tmp_path: Path, seed: int) -> None:
    """Everything becomes current again, no output has a traceback or a value of a Secret."""
    shapes = choose_shapes(seed, _WORKLOADS)
    report = asyncio.run(run_trial(plane.kubeconfig, tmp_path, seed, shapes, steps=_STEPS))
    assert not report.problems, f"seed {seed}"
    assert report.comparisons


def test_trial_detects_a_process_that_does_not_load(plane: Plane, tmp_path: Path) -> None:
    """The endpoint answers 200 and loads nothing, which no agent can know."""
    shape = Shape("Deployment", "file", "url", "ConfigMap")

    async def lie() -> list[str]:
        trial = Trial(plane.kubeconfig, tmp_path, 1, [shape])
        async with trial.running():
            await trial.edit_unloaded()
        return trial.report.false_current

    assert asyncio.run(lie())
