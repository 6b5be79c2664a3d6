"""`hotmap preview` on a real plane and controller: what an edit would do, and exit statuses."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from tests.cli.stage import Result, Stage, running_stage

from hotmap.cli.printers import print_preview
from hotmap.core.status.status_document import EditPreview, PreviewedWorkload
from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import CONFIGMAPS

MANIFESTS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: app}
data: {LEVEL: %s, OTHER: "1"}
---
apiVersion: v1
kind: Secret
metadata: {name: new}
stringData: {PASSWORD: tiger}
---
apiVersion: v1
kind: Service
metadata: {name: web}
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A ConfigMap that one followed workload uses, and one that is not followed."""
    with running_stage(tmp_path_factory.mktemp("preview"), authorization="rbac") as stage:
        asyncio.run(_prepare(stage))
        yield stage


async def _prepare(stage: Stage) -> None:
    data = {"LEVEL": "info", "OTHER": "1"}
    await stage.create(CONFIGMAPS, metadata={"name": "app"}, data=data)
    await stage.deployment("web", **{"hotmap.dev/follow": "auto"})
    await stage.deployment("unfollowed")
    assert stage.hotmap("status", "web", "--wait=30s").status == 0


def lines(result: Result) -> list[list[str]]:
    """Split a table into words, without its wrapped lines."""
    return [line.split() for line in result.out.splitlines() if line.startswith("deployment/")]


def test_preview_names_action_and_reason(stage: Stage) -> None:
    """Of every workload that uses the source; as wide as the terminal."""
    result = stage.hotmap("preview", "configmap/app", "--key=LEVEL")
    assert result.status == 0, result.err
    assert result.out.splitlines()[0] == "configmap/app in default: an edit of LEVEL"
    assert [words[:2] for words in lines(result)] == [
        ["deployment/unfollowed", "none"],
        ["deployment/web", "rollout"],
    ]
    assert "rolling out" in result.out
    assert "not followed" in result.out
    assert max(map(len, result.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("limit", "last"),
    [
        (0, "deployment/two"),
        (1, "2 rollouts, 1 at a time (hotmap.dev/max-concurrent-rollouts)"),
        (2, "deployment/two"),
    ],
)
def test_preview_names_a_limit_of_rollouts(limit: int, last: str) -> None:
    """Where more workloads are rolled out than at a time; one that is nudged does not count."""
    workloads = [
        PreviewedWorkload("Deployment", "shop", name, True, [action], False, "app changed")
        for name, action in (("files", "nudge"), ("one", "rollout"), ("two", "rollout"))
    ]
    preview = EditPreview(
        "ConfigMap", "shop", "app", False, [], workloads, max_concurrent_rollouts=limit
    )
    out = io.StringIO()
    print_preview(Console(file=out, width=100), preview)
    assert out.getvalue().splitlines()[-1].startswith(last)


def test_preview_of_a_source_that_does_not_exist(stage: Stage) -> None:
    """It says so, since the name may be mistyped; a source that nothing uses exists."""
    result = stage.hotmap("preview", "configmap/ap", columns="")
    assert result.status == 0, result.err
    assert result.out == (
        "configmap/ap in default: does not exist, and would be created\n"
        "no workload in the cluster uses it\n"
    )
    result = stage.hotmap("preview", "configmap/kube-root-ca.crt", columns="")
    assert result.out == (
        "configmap/kube-root-ca.crt in default: an edit of every data key\n"
        "no workload in the cluster uses it\n"
    )


def test_preview_of_an_unused_data_key_shows_no_action(stage: Stage) -> None:
    """Nothing is done, and the reason says why."""
    result = stage.hotmap("preview", "cm/app", "--key=OTHER", columns="")
    assert lines(result)[-1][1] == "none"
    assert "OTHER changed, but is not used" in result.out


def test_preview_of_a_removal_that_would_be_held_exits_with_1(stage: Stage) -> None:
    """Exit status 1, so that a pipeline can stop."""
    result = stage.hotmap("preview", "cm/app", "--remove-key=LEVEL", columns="")
    assert result.status == 1
    assert lines(result)[-1][1] == "held"
    assert "new pods could not start" in result.out


def test_manifests_are_compared_with_the_cluster(stage: Stage, tmp_path: Path) -> None:
    """By data key; other kinds are left out, and no value is printed."""
    manifest = tmp_path / "app.yaml"
    manifest.write_text(MANIFESTS % "debug")
    result = stage.hotmap("preview", "--filename", str(manifest), "--output=json")
    assert result.status == 0, result.err
    app, new = json.loads(result.out)["items"]
    assert (app["name"], app["changed"], app["removed"]) == ("app", ["LEVEL"], [])
    assert [workload["actions"] for workload in app["workloads"]] == [[], ["rollout"]]
    assert (new["name"], new["creates"], new["changed"]) == ("new", True, ["PASSWORD"])
    assert new["workloads"] == []
    assert "tiger" not in result.out
    assert "debug" not in result.out


def test_manifest_without_a_difference_lists_no_workload(stage: Stage, tmp_path: Path) -> None:
    """It would change nothing, and no workload is listed."""
    manifest = tmp_path / "app.yaml"
    manifest.write_text(MANIFESTS.partition("---")[0] % "info")
    result = stage.hotmap("preview", "-f", str(manifest))
    assert (result.status, result.out) == (0, "configmap/app in default: unchanged\n")


def preview_of(stage: Stage, directory: Path, text: str) -> Result:
    manifest = directory / "edited.yaml"
    manifest.write_text(text)
    return stage.hotmap("preview", "-f", str(manifest), columns="")


def test_manifests_are_read_as_the_api_server_reads_them(stage: Stage, tmp_path: Path) -> None:
    """Base64 may have line breaks, and fields may be null."""
    wrapped = "kind: Secret\ndata:\n  tls.crt: |\n    dGln\n    ZXI=\n"
    result = preview_of(stage, tmp_path, f"apiVersion: v1\nmetadata: {{name: new}}\n{wrapped}")
    assert (result.status, result.err) == (0, "")
    nulls = "kind: ConfigMap\nmetadata: {name: app, namespace: }\ndata: {LEVEL: , OTHER: '1'}\n"
    result = preview_of(stage, tmp_path, f"apiVersion: v1\n{nulls}")
    assert (result.status, result.err) == (0, "")
    assert result.out.startswith("configmap/app in default: an edit of LEVEL\n")


def test_items_of_a_config_map_list_need_no_kind(stage: Stage, tmp_path: Path) -> None:
    """As for kubectl, which takes it from the list; `kubectl get --raw` prints such lists."""
    items = "items: [{metadata: {name: app}, data: {LEVEL: debug, OTHER: '1'}}]\n"
    result = preview_of(stage, tmp_path, f"apiVersion: v1\nkind: ConfigMapList\n{items}")
    assert (result.status, result.err) == (0, "")
    assert result.out.startswith("configmap/app in default: an edit of LEVEL\n")


def test_value_that_moves_to_binary_data_is_held(stage: Stage, tmp_path: Path) -> None:
    """The same bytes are a file as before, and no environment variable any more."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\n"
    result = preview_of(
        stage, tmp_path, f"{text}binaryData: {{LEVEL: aW5mbw==}}\ndata: {{OTHER: '1'}}\n"
    )
    assert result.status == 1, result.err
    assert "configmap/app in default: an edit of LEVEL\n" in result.out
    assert "new pods could not start" in result.out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: Secret\nmetadata: {name: new}\ndata: {a: é}", "a value is not valid base64"),
        ("kind: Secret\nmetadata: {name: new}\ndata: {a: b}", "a value is not valid base64"),
        (
            "kind: ConfigMap\nmetadata: {name: app}\ndata: {LEVEL: 1}",
            'ConfigMap/app: data "LEVEL" is a number, not a text; put it in quotes',
        ),
        (
            "kind: ConfigMap\nmetadata: {name: app}\ndata: [LEVEL]",
            "ConfigMap/app: data is a list, not a mapping",
        ),
        ("kind: ConfigMap\nmetadata: {name: a/b}", 'ConfigMap: invalid name "a/b"'),
        ("kind: ConfigMap\nmetadata: {generateName: a-}", "ConfigMap: metadata.name is missing"),
        ("kind: ConfigMap\nmetadata: {name: a, namespace: ..}", 'invalid namespace ".."'),
    ],
)
def test_invalid_manifest_is_one_sentence(
    stage: Stage, tmp_path: Path, text: str, words: str
) -> None:
    """Exit status 2, since 1 means that a workload would be held."""
    result = preview_of(stage, tmp_path, f"apiVersion: v1\n{text}\n")
    assert (result.status, result.out) == (2, "")
    assert words in result.err


def test_source_that_cannot_be_read_is_not_held(stage: Stage, tmp_path: Path) -> None:
    """Exit status 2, as for a user who may not read Secrets."""
    text = stage.plane.kubeconfig.read_text()
    refused = tmp_path / "kubeconfig"
    refused.write_text(re.sub("token: .*", "token: invalid", text))
    manifest = tmp_path / "edited.yaml"
    manifest.write_text(MANIFESTS % "debug")
    result = stage.hotmap("preview", "-f", str(manifest), "--kubeconfig", str(refused))
    assert (result.status, result.out) == (2, "")
    assert "cannot read ConfigMap/default/app: " in result.err


async def _kubeconfig_of_viewer(stage: Stage) -> str:
    """Bind the ClusterRole view, which excludes Secrets; return the user's kubeconfig."""
    text = stage.plane.kubeconfig.read_text()
    namespace = "/api/v1/namespaces/default"
    async with Client(load_kubeconfig(str(stage.plane.kubeconfig))) as client:
        account = {"metadata": {"name": "jane"}}
        binding = {
            **account,
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "view",
            },
            "subjects": [{"kind": "ServiceAccount", "name": "jane", "namespace": "default"}],
        }
        rolebindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
        for path, body in (
            (f"{namespace}/serviceaccounts", account),
            (rolebindings, binding),
            (f"{namespace}/serviceaccounts/jane/token", {"spec": {}}),
        ):
            answer = await client.request("POST", path, body=json.dumps(body).encode())
    return re.sub("token: .*", f"token: {json.loads(answer)['status']['token']}", text)


@pytest.fixture(scope="module")
def viewer(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("viewer") / "kubeconfig"
    path.write_text(asyncio.run(_kubeconfig_of_viewer(stage)))
    return str(path)


@pytest.mark.parametrize(
    ("output", "title"),
    [("table", "configmap/app in default: an edit of LEVEL\n"), ("json", '"kind": "ConfigMap"')],
)
def test_source_that_may_not_be_read_is_named_after_the_others(
    stage: Stage, viewer: str, tmp_path: Path, output: str, title: str
) -> None:
    """As for most users, who may not read Secrets; the whole edit is unknown: exit status 2."""
    manifest = tmp_path / "edited.yaml"
    manifest.write_text(MANIFESTS % "debug")
    call = ("preview", "-f", str(manifest), "--kubeconfig", viewer, "-o", output)
    result = stage.hotmap(*call)
    assert result.status == 2
    assert title in result.out
    assert re.fullmatch(
        r"hotmap: cannot read secret/default/new: .*forbidden.*; "
        r"'hotmap preview secret/default/new' shows what an edit of it would do\n",
        result.err,
    )
    assert stage.hotmap("preview", "secret/default/new").status == 0


def test_mistyped_data_key_is_noted(stage: Stage) -> None:
    """Nothing uses it, which is not an answer to what an edit of the other would do."""
    result = stage.hotmap("preview", "cm/app", "--key=LEVL", "--key=LEVEL", "--remove-key=x")
    assert result.status == 0
    assert result.err == (
        "hotmap: note: configmap/app has no data key LEVL; did you mean 'LEVEL'\n"
        "hotmap: note: configmap/app has no data key x\n"
    )
    assert stage.hotmap("preview", "cm/app", "--key=LEVEL").err == ""


def test_data_keys_of_others_are_not_removed(stage: Stage, tmp_path: Path) -> None:
    """`kubectl apply` removes those alone that it has applied before."""
    applied = json.dumps({"data": {"LEVEL": "info"}})
    metadata = {
        "name": "applied",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied},
    }
    data = {"LEVEL": "info", "FOREIGN": "1"}
    asyncio.run(stage.create(CONFIGMAPS, metadata=metadata, data=data))
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}\n"
    result = preview_of(stage, tmp_path, f"{text}data: {{LEVEL: info}}\n")
    assert result.out == "configmap/applied in default: unchanged\n"
    result = preview_of(stage, tmp_path, text)
    assert result.out.startswith("configmap/applied in default: the removal of LEVEL\n")


def test_removal_among_thousands_of_data_keys_is_held(stage: Stage, tmp_path: Path) -> None:
    """However many data keys an edit has, each removed one is asked for."""
    added = "".join(f"  key-{number:04}: x\n" for number in range(1000))
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: app}}\ndata:\n{added}"
    result = preview_of(stage, tmp_path, text)
    assert result.status == 1
    assert lines(result)[-1][1] == "held"
    removed = [f"--remove-key=key-{number:04}" for number in range(1000)]
    result = stage.hotmap("preview", "cm/app", *removed, "--remove-key=LEVEL", columns="")
    assert result.status == 1
    assert lines(result)[-1][1] == "held"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name a source, such as configmap/app, or manifests with --filename"),
        (["cm/app", "-f", "app.yaml"], '"cm/app" and --filename cannot be used together'),
        (["app.yaml"], "expected configmap/NAME or secret/NAME, or a manifest with --filename"),
        (
            ["-f", "app.yaml", "--key", "LEVEL"],
            "--key and --remove-key cannot be used with --filename",
        ),
        (["deployment/web"], 'invalid source "deployment/web": expected configmap/NAME'),
        (["cm/.."], 'invalid name "..": expected lowercase letters, digits, - and .'),
        (["cm/app", "-n", "a b"], '"a b" is not the name of a namespace: expected at most 63'),
        (
            ["cm/app", "--key", "a b"],
            'invalid data key "a b": expected letters, digits, -, _ and .',
        ),
        (
            ["cm/app", "--key=LEVEL", "--remove-key=LEVEL"],
            '--key and --remove-key both name "LEVEL"',
        ),
    ],
)
def test_invalid_preview_is_refused(stage: Stage, arguments: list[str], words: str) -> None:
    """One sentence, exit status 2."""
    result = stage.hotmap("preview", *arguments)
    assert result.status == 2
    assert words in result.err
    assert result.out == ""


def test_interrupt_ends_the_wait_for_standard_input(stage: Stage) -> None:
    """At the first Ctrl-C, as `kubectl kustomize` before the pipe may hang."""
    command = [sys.executable, "-m", "hotmap", "preview", "-f", "-", "--url", stage.url]
    env = {"PATH": os.environ["PATH"], "KUBECONFIG": str(stage.plane.kubeconfig)}
    with subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"# more than a pipe holds: it is being read\n" * 10_000)
        process.stdin.flush()
        stat = Path(f"/proc/{process.pid}/stat")
        # Python loses a signal that comes between two reads, so that it has to wait for the next.
        while stat.read_text().rpartition(")")[2].split()[0] != "S":
            time.sleep(0.01)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(timeout=20) == 130
        finally:
            process.kill()
