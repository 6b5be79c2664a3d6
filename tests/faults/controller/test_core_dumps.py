"""A controller that crashes leaves no core file with the Secrets that it has decoded."""

from __future__ import annotations

from pathlib import Path

from tests.support.scenario import Scenario


async def test_controller_process_writes_no_core_dumps(podless_scenario: Scenario) -> None:
    """Both limits are zero, so that nothing in the process can raise them again."""
    await podless_scenario.set_up()
    async with podless_scenario.controller() as controller:
        await controller.ready()
        limits = Path(f"/proc/{controller.process.pid}/limits").read_text().splitlines()
    (line,) = [line for line in limits if line.startswith("Max core file size")]
    assert line.split()[4:6] == ["0", "0"]
