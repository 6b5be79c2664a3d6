"""The comparison kit shows differences in behaviour and nothing else."""

import stat
from pathlib import Path

import pytest
from tests.cluster import compare
from tests.cluster.__main__ import main
from tests.cluster.compare import Command

# Stands for kubectl: answers from a file named after the kubeconfig and the first argument.
KUBECTL = """\
#!/bin/sh
config=${1#--kubeconfig=}; shift
cat "$config.$1" 2>/dev/null && exit 0
cat >&2; echo "no answer to $*" >&2; exit 1
"""
POD = """\
apiVersion: v1
kind: Pod
metadata:
  creationTimestamp: "{time}"
  labels:
    pod-template-hash: {template}
  name: web-{template}-{random}
  resourceVersion: "{version}"
  uid: {uid}
status:
  podIP: {ip}
  phase: {phase}
"""
ONE = {
    "time": "2026-11-21T17:10:34Z",
    "template": "59f746b864",
    "random": "blwnw",
    "version": "4711",
    "uid": "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed",
    "ip": "10.244.0.3",
    "phase": "Running",
}
OTHER = {
    "time": "2027-01-01T00:00:00.123456Z",
    "template": "7d4b9c6f5",
    "random": "x2x4z",
    "version": "12",
    "uid": "0b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bee",
    "ip": "172.16.0.9",
    "phase": "Running",
}


@pytest.fixture
def kubectl(tmp_path: Path) -> Path:
    path = tmp_path / "kubectl"
    path.write_text(KUBECTL)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_two_pods_that_differ_in_accident_only_are_equal() -> None:
    """Ids, times, versions, addresses and generated names are masked."""
    assert compare.masked(POD.format(**ONE)) == compare.masked(POD.format(**OTHER))


def test_difference_in_behaviour_is_not_masked() -> None:
    """The phase of a Pod is what we are after."""
    left = compare.masked(POD.format(**ONE))
    right = compare.masked(POD.format(**{**OTHER, "phase": "Pending"}))
    assert left != right


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("web   1/1   Running   0   3m12s", "web 1/1 Running 0 AGE"),
        ("web 1/1 Running 2 (5s ago) 10m", "web 1/1 Running 2 (AGE ago) AGE"),
        ('"resourceVersion":"123"', '"resourceVersion":"N"'),
        ("Server Version: v1.36.3", "Server Version: VERSION"),
        ("Start Time: Sat, 21 Nov 2026 17:10:34 +0000", "Start Time: TIME"),
        ("configmap/settings created", "configmap/settings created"),
        ("frontend-production 2 of 3", "frontend-production 2 of 3"),
        ("replicas: 3", "replicas: 3"),
        ("name: kube-api-access-d9vhm", "name: kube-api-access-RANDOM"),
        ("name: log-agent-nginx-cache", "name: log-agent-nginx-cache"),
    ],
)
def test_masks_hide_variable_parts_only(text: str, masked: str) -> None:
    """One example for each mask, and some that look like one."""
    assert compare.masked(text) == masked


def test_script_is_one_command_per_line_with_comments_and_input() -> None:
    """kubectl may be written or left out; a here-document becomes the command's input."""
    script = """\
# who is there?
kubectl get pods -l 'app in (a, b)'   # quoted as in a shell

apply --filename=- <<'YAML'
kind: ConfigMap
YAML
"""
    assert compare.read_script(script) == [
        Command(("get", "pods", "-l", "app in (a, b)")),
        Command(("apply", "--filename=-"), "kind: ConfigMap\n"),
    ]


def test_here_document_that_never_ends_is_refused() -> None:
    """The word that is missing is named."""
    with pytest.raises(ValueError, match="ends before YAML"):
        compare.read_script("apply -f - <<'YAML'\nkind: ConfigMap\n")


def test_equal_answers_give_no_difference(kubectl: Path, tmp_path: Path) -> None:
    """Both clusters are asked the same commands in the same order."""
    for side, values in (("left", ONE), ("right", OTHER)):
        (tmp_path / f"{side}.get").write_text(POD.format(**values))
    script = compare.read_script("get pod\ndelete pod")
    left, right = (compare.run(script, kubectl, tmp_path / side) for side in ("left", "right"))
    assert [outcome.code for outcome in left] == [0, 1]
    assert compare.differences(left, right, names=("left", "right")) == ""


def test_difference_is_shown_below_its_command(kubectl: Path, tmp_path: Path) -> None:
    """Exit codes and error texts count as well as output."""
    (tmp_path / "left.get").write_text("found\n")
    script = compare.read_script("get pod")
    left, right = (compare.run(script, kubectl, tmp_path / side) for side in ("left", "right"))
    found = compare.differences(left, right, names=("left", "right")).splitlines()
    assert found[:2] == ["--- left", "+++ right"]
    for line in (" $ kubectl get pod", "-found", "+stderr: no answer to get pod", "+exit code 1"):
        assert line in found


def test_exit_code_shows_differences(
    kubectl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 without differences, 1 with some: usable in a script."""
    (tmp_path / "left.get").write_text("found\n")
    (tmp_path / "script").write_text("get pod\n")
    left, right, script = (str(tmp_path / name) for name in ("left", "right", "script"))
    command = ["compare", "--kubectl", str(kubectl)]
    assert main([*command, left, left, script]) == 0
    assert "no differences in 1 commands" in capsys.readouterr().out
    assert main([*command, left, right, script]) == 1
    assert "-found" in capsys.readouterr().out
