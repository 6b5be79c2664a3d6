"""What `hotmap status` prints: formats, selection by label, and changes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml
from tests.cli.stage import Stage, running_stage

from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import CONFIGMAPS, DEPLOYMENTS

FOLLOW = {"hotmap.dev/follow": "auto"}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Return a cluster with two workloads that are followed, of which one has a label."""
    with running_stage(tmp_path_factory.mktemp("output")) as stage:
        asyncio.run(_fill(stage))
        assert stage.hotmap("status", "web", "db", "--wait=60s").status == 0
        yield stage


async def _fill(stage: Stage) -> None:
    await stage.create(CONFIGMAPS, metadata={"name": "app"}, data={"LEVEL": "info"})
    for name in ("web", "db"):
        await stage.deployment(name, **FOLLOW)
    async with Client(load_kubeconfig(str(stage.plane.kubeconfig))) as client:
        labels = {"metadata": {"labels": {"tier": "front"}}}
        await client.patch(DEPLOYMENTS, "default", "web", labels, type=dict)


def test_output_name_is_what_kubectl_takes(stage: Stage) -> None:
    """One workload a line, with its group; also for `why` and for named ones."""
    both = "deployment.apps/db\ndeployment.apps/web\n"
    assert stage.hotmap("status", "-o", "name").out == both
    assert stage.hotmap("status", "web", "-o", "name").out == "deployment.apps/web\n"
    assert stage.hotmap("why", "web", "-o", "name").out == "deployment.apps/web\n"


def test_output_yaml_is_the_document(stage: Stage) -> None:
    """The same as JSON."""
    document = yaml.safe_load(stage.hotmap("status", "-o", "yaml").out)
    same = json.loads(stage.hotmap("status", "-o", "json").out)
    # A check of the pods may change a state between the two.
    changing = {"state": "", "reason": "", "behind": 0, "actionRequired": False}
    assert document.keys() == same.keys()
    assert [{**workload, **changing} for workload in document["workloads"]] == [
        {**workload, **changing} for workload in same["workloads"]
    ]
    assert yaml.safe_load(stage.hotmap("why", "web", "-o", "yaml").out)["workloads"]


def test_output_wide_has_more_columns(stage: Stage) -> None:
    """And none of the tables has a space at the end of a line."""
    wide = stage.hotmap("status", "-o", "wide").out
    assert wide.split("\n")[0].split() == [
        "WORKLOAD",
        "STATE",
        "BEHIND",
        "STRATEGY",
        "REVISION",
        "REASON",
    ]
    for text in (wide, stage.hotmap("status").out, stage.hotmap("status", "web").out):
        assert not [line for line in text.split("\n") if line.endswith(" ")]
    # As in kubectl, names and reasons are not wrapped: one line for each workload.
    followed = json.loads(stage.hotmap("status", "-o", "json").out)["workloads"]
    assert wide.count("\n") == 1 + len(followed) + 1


def test_selector_shows_the_workloads_whose_labels_match(stage: Stage) -> None:
    """As the API server reads it, with their counts alone."""
    for arguments in (("-l", "tier=front"), ("-A", "--selector=tier")):
        done = stage.hotmap("status", "-o", "json", *arguments)
        document = json.loads(done.out)
        assert [workload["name"] for workload in document["workloads"]] == ["web"]
        assert sum(document["counts"].values()) == 1
    assert stage.hotmap("status", "-l", "tier!=front", "-o", "name").out == "deployment.apps/db\n"


@pytest.mark.parametrize("command", [("status", "web"), ("why", "web")])
def test_output_that_is_piped_is_not_wrapped(stage: Stage, command: tuple[str, ...]) -> None:
    """Nor is a wide one: a line that grep finds is whole. On a terminal lines are wrapped."""
    narrow = stage.hotmap(*command, columns="40").out
    piped = stage.hotmap(*command, columns="").out
    assert max(map(len, piped.splitlines())) > 60 > max(map(len, narrow.splitlines()))
    wide = stage.hotmap(*command, "-o", "wide", columns="40").out
    assert wide.count("\n") == piped.count("\n") < narrow.count("\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("web", "-l", "a=b"), "--selector cannot be used with NAME"),
        (("web", "-A"), "--all-namespaces cannot be used with NAME"),
        (("-w", "--wait=1s"), "--watch cannot be used with --wait"),
        (("-w", "-q"), "--watch cannot be used with --quiet"),
        (("-o", "xml"), "Invalid value for '--output'"),
    ],
)
def test_conflicting_options_are_rejected(
    stage: Stage, arguments: tuple[str, ...], words: str
) -> None:
    """One sentence, exit status 2."""
    done = stage.hotmap("status", *arguments)
    assert (done.status, done.out) == (2, "")
    assert words in done.err


@contextlib.contextmanager
def watching(stage: Stage) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "hotmap", "status", "--watch", "--url", stage.url],
        env={
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(stage.plane.kubeconfig),
            "COLUMNS": "200",
        },
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def test_watch_prints_each_change(stage: Stage) -> None:
    """First everything, then the workloads whose state or reason changes."""
    with watching(stage) as process:
        assert process.stdout is not None
        first = [process.stdout.readline() for _ in range(4)]
        assert first[0].split() == ["WORKLOAD", "STATE", "REASON"]
        assert first[3].startswith("2 workloads: ")
        asyncio.run(stage.edit(LEVEL="debug"))
        assert process.stdout.readline().split()[0] in ("deployment/web", "deployment/db")
