"""The pages of the agent name every flag, probe, program and metric, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from tests.agent.agents import Volume, agent, webhook

from hotmap.agent.settings.flags import ALIASES, FLAGS
from hotmap.agent.settings.known_programs import KNOWN_PROGRAMS
from hotmap.agent.settings.probes import KINDS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "agent.md").read_text()
REFERENCE = (DOCS / "reference" / "agent.md").read_text()


def test_every_flag_is_documented() -> None:
    """The tables have exactly the flags there are."""
    assert set(re.findall(r"^\| `--([a-z-]+)", REFERENCE, re.MULTILINE)) == set(FLAGS)
    for flag in FLAGS.values():
        written = f"--{flag.name} {flag.value}".strip().replace("|", "\\|")
        text = f"{flag.text}{' Repeatable.' if flag.repeatable else ''}"
        assert f"| `{written}` | {text} |" in REFERENCE


def test_every_probe_and_program_is_documented() -> None:
    """The tables have exactly the probes and the catalogue's entries."""
    probes = PAGE.partition("## Probes")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+) ", probes, re.MULTILINE)) == set(KINDS)
    programs = PAGE.partition("## Known programs")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([\w.-]+)` \| .+ \| .+ \|$", programs, re.MULTILINE)) == set(
        KNOWN_PROGRAMS
    )


def test_every_metric_is_documented(tmp_path: Path) -> None:
    """The table has exactly the metrics that an agent with a webhook exposes."""
    volume = Volume(tmp_path / "volume", text="one")
    with webhook() as endpoint, agent(tmp_path, "--dir", volume, "--url", endpoint.url) as running:
        running.reaches("loaded")
        exposed = re.findall(r"^# TYPE (\w+)", running.get("/metrics")[1], re.MULTILINE)
    table = REFERENCE.partition("| metric | |")[2].partition("\n## ")[0]
    assert set(re.findall(r"`((?:hotmap|configmap)_\w+)`", table)) == set(exposed)


def test_every_configmap_reload_flag_is_documented() -> None:
    """The migration page shows each of them beside ours."""
    guide = (DOCS / "guides" / "configmap-reload.md").read_text()
    assert all(f"`--{name}=" in guide for name in ALIASES if len(name) > 1)
