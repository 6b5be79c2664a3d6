"""The reference pages name everything that can be typed, filtered or alerted on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.monitoring.exposition import controller_metrics

from hotmap.cli.main import hotmap
from hotmap.controller.report.reasons import Reason
from hotmap.core.model.annotations import ANNOTATIONS, OURS, WATCH_LABEL
from hotmap.core.reloader.annotations import EXCLUDES, LAST_RELOADED_FROM, ROLLOUT_STRATEGY, Names

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def page(name: str) -> str:
    return (REFERENCE / name).read_text()


@pytest.mark.parametrize(
    "annotation",
    [
        *ANNOTATIONS,
        *OURS,
        *Names(),
        *EXCLUDES.values(),
        ROLLOUT_STRATEGY,
        LAST_RELOADED_FROM,
    ],
    ids=str,
)
def test_each_annotation_is_explained(annotation: str) -> None:
    """Every annotation that is read or written stands in annotations.md."""
    assert f"`{annotation}`" in page("annotations.md")


def test_documented_annotations_exist() -> None:
    """annotations.md names nothing of ours that nothing reads or writes."""
    named = set(re.findall(r"`(hotmap\.dev/[a-z-]+)`", page("annotations.md")))
    assert named == {*ANNOTATIONS, *OURS, WATCH_LABEL}


def test_each_event_reason_is_explained() -> None:
    """events.md has exactly the reasons that are written."""
    named = set(re.findall(r"^\| `(\w+)` \|", page("events.md"), re.MULTILINE))
    assert named == {reason.value for reason in Reason}


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def sections(text: str) -> dict[str, str]:
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_each_command_has_its_section() -> None:
    """cli.md has exactly one section for each command."""
    found = {name for name in sections(page("cli.md")) if name.startswith("hotmap")}
    assert found == {name for name, _ in commands(hotmap, "hotmap")}


@pytest.mark.parametrize(("name", "command"), list(commands(hotmap, "hotmap")), ids=str)
def test_each_flag_is_explained(name: str, command: click.Command) -> None:
    """Each command's section has exactly its long flags."""
    words = {option for parameter in command.params for option in parameter.opts}
    flags = {word for word in words if word.startswith("--")}
    section = sections(page("cli.md"))[name]
    assert set(re.findall(r"^\| `(--[A-Za-z-]+)", section, re.MULTILINE)) == flags


def exposed_metrics() -> set[str]:
    types = re.findall(r"^# TYPE (\w+) (\w+)$", controller_metrics(), re.MULTILINE)
    return {name for name, _ in types if not name.endswith("_created")}


def test_each_metric_is_explained() -> None:
    """metrics.md has exactly the metrics that are exposed."""
    named = set(re.findall(r"`(hotmap_\w+)`", page("metrics.md")))
    assert named == exposed_metrics()
