"""The commands of the guide that injects the agent into an application are accepted as printed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hotmap.agent.settings.flags import parse_arguments
from hotmap.agent.settings.loader import load_settings

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "your-application.md"

#: The commands up to the pipe to kubectl, as words of a shell.
INJECTIONS = re.findall(r"^hotmap (inject [^|]*)\|", GUIDE.read_text(), re.M)

#: The flags in its table of programs.
FLAGS = re.findall(r"^\| [^|]+ \| `(--[^`]+)` \|", GUIDE.read_text(), re.M)


@pytest.mark.parametrize("command", INJECTIONS)
def test_injection_is_accepted_for_the_manifest_of_the_guide(command: str, tmp_path: Path) -> None:
    """Without a note, which would say that something is missing."""
    (manifest,) = re.findall(r"^```yaml\n(.*?)^```$", GUIDE.read_text(), re.M | re.S)
    (tmp_path / "shop.yaml").write_text(manifest)
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m hotmap {command}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    _, deployment = yaml.safe_load_all(done.stdout)
    (agent,) = deployment["spec"]["template"]["spec"]["initContainers"]
    assert agent["name"] == "hotmap-agent"


def test_guide_has_a_command_for_each_kind_of_application() -> None:
    """gunicorn, uvicorn, a handler of a signal, an HTTP endpoint."""
    assert len(INJECTIONS) == 4


@pytest.mark.parametrize("flags", FLAGS)
def test_flags_of_other_programs_are_accepted(flags: str) -> None:
    settings = load_settings(parse_arguments(["--dir", "/etc/app", *shlex.split(flags)]))
    assert (len(settings.rules), settings.warnings) == (1, ())


def test_guide_has_flags_for_other_programs() -> None:
    """All but those that read their configuration only when they start."""
    assert len(FLAGS) == 21
