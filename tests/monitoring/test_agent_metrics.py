"""The agent's metrics keep Prometheus' conventions, as the controller's do."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.agent.agents import Volume, agent, eventually, webhook
from tests.support.requires import requires

#: Names of configmap-reload, which its dashboards and alerts use as they are.
_FOREIGN = "configmap_reload_"


def test_promtool_finds_nothing_in_the_agents_metrics(tmp_path: Path) -> None:
    """Units, suffixes and help texts, after a check and a load by a webhook."""
    promtool = shutil.which("promtool")
    requires("prometheus", available=promtool is not None, reason="there is no promtool")
    volume = Volume(tmp_path / "conf", text="one")
    with (
        webhook() as endpoint,
        agent(tmp_path / "agent", "--dir", volume, "--url", endpoint.url, "--check", "true") as run,
    ):
        volume.write(text="two")
        eventually(lambda: run.status().get("state") == "loaded" and run.rule()["loads"] > 0)
        status, page = run.get("/metrics")
    assert status == 200
    for name in (
        "loaded",
        "check_passed",
        "last_load_timestamp_seconds",
        "directory_pending_seconds",
    ):
        assert f"\nhotmap_agent_{name}" in f"\n{page}", name
    assert _FOREIGN in page
    own = "".join(f"{line}\n" for line in page.splitlines() if _FOREIGN not in line)
    done = subprocess.run(
        [str(promtool), "check", "metrics"], input=own, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
