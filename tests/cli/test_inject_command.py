"""`hotmap inject` as a command: where it reads and writes, and what it does with later edits."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.warm_process import run_warm

from hotmap.cli.inject import Injection, inject
from hotmap.cli.manifest_files import write_manifest
from hotmap.core.errors import ManifestError

WEB = """\
# the web tier
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: app   # ours
    image: app
    command: [app]
    envFrom:
    - secretRef: {name: s}   # all of it
    env:
    - {name: KEPT, value: one}
    - name: TAKEN
      valueFrom: {secretKeyRef: {name: s, key: k}}
    volumeMounts:
    - {name: conf, mountPath: /etc/app}
  volumes:
  - {name: conf, configMap: {name: app}}
"""

PLAIN = "kind: Pod\nmetadata: {name: plain}\nspec: {containers: [{name: a, image: a}]}\n"


def hotmap(*arguments: str | Path, stdin: bytes = b"") -> tuple[int, bytes, str]:
    status, out, problems = run_warm("inject", *map(str, arguments), env=os.environ, stdin=stdin)
    return status, out, problems.decode()


def test_output_to_a_pipe_without_a_name_is_written(tmp_path: Path) -> None:
    """As /dev/stdout in a pipeline, and `>(...)` of a shell: its link points to no path."""
    reader, writer = os.pipe()
    try:
        write_manifest(f"/dev/fd/{writer}", WEB)
        assert os.read(reader, 1 << 16) == WEB.encode()
    finally:
        os.close(reader)
        os.close(writer)


def test_output_to_links_in_a_circle_is_refused(tmp_path: Path) -> None:
    """They are not replaced, and nothing is left beside them."""
    for name, target in (("a", "b"), ("b", "a")):
        (tmp_path / name).symlink_to(target)
    with pytest.raises(ManifestError, match="too many levels of symbolic links"):
        write_manifest(str(tmp_path / "a"), WEB)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_symlink()) == ["a", "b"]
    assert len(list(tmp_path.iterdir())) == 2


def test_output_to_a_pipe_does_not_replace_it(tmp_path: Path) -> None:
    """Nor a device: `--output /dev/null` as root must leave the machine as it is."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        status, output, _ = hotmap("-f", "-", "--output", pipe, stdin=WEB.encode())
        written = os.read(reader, 1 << 16)
    finally:
        os.close(reader)
    assert (status, output) == (0, b"")
    assert b"hotmap-agent" in written
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


#: Without one, a note says that the application must read files by itself.
ACTION = ("--", "--url", "http://127.0.0.1:8080/reload")


def test_output_named_dash_is_standard_output() -> None:
    status, output, _ = hotmap("-f", "-", "--output", "-", stdin=WEB.encode())
    assert status == 0
    assert b"hotmap-agent" in output


def test_files_and_directories_become_one_stream(tmp_path: Path) -> None:
    """In order, each once; a directory's manifests by name, and nothing else in it."""
    (tmp_path / "b.yml").write_text(WEB)
    (tmp_path / "a.json").write_text(json.dumps(yaml.safe_load(WEB)))
    (tmp_path / "notes.txt").write_text("not: [yaml")
    other = tmp_path / "other"
    other.write_text("kind: Service\nmetadata: {name: s}\n")
    status, output, notes = hotmap(
        *("-f", other, "-f", tmp_path, "-f", "-"), *ACTION, stdin=WEB.encode()
    )
    assert (status, notes) == (0, "")
    documents = list(yaml.safe_load_all(output))
    assert [document["kind"] for document in documents] == ["Service", "Pod", "Pod", "Pod"]
    assert documents[1] == documents[2] == documents[3]


def test_in_place_writes_each_file(tmp_path: Path) -> None:
    """As a whole, with their permissions, through a link; and back to the byte."""
    manifest, link = tmp_path / "web.yaml", tmp_path / "link.yaml"
    manifest.write_bytes(WEB.replace("\n", "\r\n").encode())
    manifest.chmod(0o640)
    link.symlink_to(manifest)
    before = manifest.read_bytes()
    assert hotmap("-i", "-f", link, *ACTION) == (0, b"", "")
    assert b"hotmap-agent" in manifest.read_bytes()
    assert b"\n" not in manifest.read_bytes().replace(b"\r\n", b"")
    assert manifest.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert hotmap("-i", "-f", manifest, "--remove") == (0, b"", "")
    assert manifest.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.yaml", "web.yaml"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_in_place_keeps_the_owner(tmp_path: Path) -> None:
    """As root in a container with the files of a user."""
    manifest = tmp_path / "web.yaml"
    manifest.write_text(WEB)
    os.chown(manifest, 1234, 2345)
    manifest.chmod(0o4640)
    assert hotmap("-i", "-f", manifest, *ACTION) == (0, b"", "")
    status = manifest.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (1234, 2345, 0o4640)


def test_stream_keeps_its_bytes(tmp_path: Path) -> None:
    """Line ends and a byte order mark pass through standard input and output."""
    text = ("\ufeff" + WEB).replace("\n", "\r\n").encode()
    _, injected, _ = hotmap("-f", "-", "--mode", "supervisor", stdin=text)
    assert hotmap("-f", "-", "--remove", stdin=injected) == (0, text, "")
    target = tmp_path / "web.yaml"
    assert hotmap("-f", "-", "--mode", "supervisor", "-o", target, stdin=text) == (0, b"", "")
    assert target.read_bytes() == injected


def test_error_in_one_file_writes_nothing(tmp_path: Path) -> None:
    """Not even the files that were right."""
    (tmp_path / "a.yaml").write_text(WEB)
    (tmp_path / "b.yaml").write_text("a: [\n")
    status, output, message = hotmap("-i", "-f", tmp_path)
    assert (status, output) == (2, b"")
    assert message.startswith(f"hotmap: {tmp_path / 'b.yaml'}: invalid YAML at line 2: ")
    assert (tmp_path / "a.yaml").read_text() == WEB


def test_pod_with_nothing_to_follow_is_unchanged() -> None:
    """With a note; it is an error only if there is no other pod."""
    status, output, notes = hotmap(*("-f", "-"), *ACTION, stdin=f"{PLAIN}---\n{WEB}".encode())
    assert status == 0
    assert output.decode().startswith(PLAIN)
    assert notes == (
        "hotmap: note: standard input, document 1: Pod/plain: container a mounts no ConfigMap or "
        "Secret as a directory, so nothing changes while the pod runs; it is left unchanged\n"
    )
    status, output, notes = hotmap("-f", "-", stdin=PLAIN.encode())
    assert (status, output) == (2, b"")
    assert notes.endswith("so nothing changes while the pod runs\n")


def test_mount_of_a_volume_that_the_pod_lacks_is_named() -> None:
    """Such as one whose name is misspelled."""
    container = "{name: a, image: a, volumeMounts: [{name: cofig, mountPath: /etc/app}]}"
    pod = f"kind: Pod\nmetadata: {{name: plain}}\nspec: {{containers: [{container}]}}\n"
    status, output, notes = hotmap("-f", "-", stdin=pod.encode())
    assert (status, output) == (2, b"")
    assert "as a directory (spec.volumes has no cofig), so nothing changes" in notes


@pytest.mark.parametrize(
    ("mode", "fields"),
    [
        ("sidecar", "restartPolicy: Never"),  # as in the test of a new Helm chart
        ("supervisor", "terminationGracePeriodSeconds: 1"),  # the container has no command
        ("native-sidecar", "nodeSelector: {kubernetes.io/os: windows}"),
    ],
)
def test_pod_with_nothing_to_follow_may_be_unsupported(mode: str, fields: str) -> None:
    """It is left unchanged, so that what other pods need is not required of it."""
    other = PLAIN.replace("spec: {", f"spec: {{{fields}, ")
    status, output, notes = hotmap(
        *("-f", "-", "--mode", mode), *ACTION, stdin=f"{other}---\n{WEB}".encode()
    )
    assert status == 0, notes
    assert output.decode().startswith(other)
    assert "it is left unchanged" in notes


#: 9 to the power of 7 values.
ALIASES = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (name, name, b",".join([b"*%c" % (name - 1)] * 9))
    for name in range(ord("b"), ord("h"))
)


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        ("-f -", b"a:\n\t- b\n", "standard input: invalid YAML at line 2: indented with a "
         "tab; YAML requires spaces"),
        ("-f -", b"a: \x01\n", "standard input: invalid YAML at line 1: the character U+0001 is "
         "not allowed"),
        ("-f -", b"a: \xff\n", "cannot read standard input: not valid UTF-8"),
        ("-f -", ALIASES, "standard input: invalid YAML at line 7: aliases stand for more than "
         "1,000,000 values"),
        (
            "-f -",
            b'{"a": 1}\n{"b": 2}\n',
            "standard input: invalid YAML at line 2: a document ends here; separate two with a "
            "line ---",
        ),
        ("-f -", b"a: *hunter2\n", "standard input: invalid YAML at line 1: an alias (*) has no "
         "anchor (&); put a text that begins with * in quotes"),
        ("-f -", b"a: !hunter2!x\n", "standard input: invalid YAML at line 1: a tag (!) is not "
         "defined; put a text that begins with ! in quotes"),
        ("-f -", b"kind: Service\n", "standard input: no pod template found, nothing to inject "
         "into"),
        ("-f /nowhere", b"", "cannot read /nowhere: no such file or directory"),
        (f"-f /{'x' * 300}", b"", f"cannot read /{'x' * 300}: file name too long"),
        ("-f -", b"{{- if .Values.x }}", "standard input: invalid YAML at line 1: expected the "
         "node content, but found '-'; of a Helm chart, read the output of 'helm template'"),
        ("-f -", b"kind: Pod\nmetadata: {name: {{ .Values.x }}}\n", "standard input: invalid YAML "
         "at line 2: a key is not a text; of a Helm chart, read the output of 'helm template'"),
        ("-f -", b"kind: Pod\n[a]: b\n", "standard input: invalid YAML at line 2: a key is not a "
         "text"),
        ("-f - -f -", b"", "standard input can be read only once; use one -f -"),
        ("-f - -i", b"", "--in-place cannot be used with --output or standard input (-f -)"),
        ("-f - -o /nowhere/x", WEB.encode(), "cannot write /nowhere/x: no such file or "
         "directory"),
        ("-f - -o /dev/null/x", WEB.encode(), "cannot write /dev/null/x: not a directory"),
        (f"-f - -o /{'x' * 300}", WEB.encode(), f"cannot write /{'x' * 300}: file name too long"),
        ("-f - --keep-env", WEB.encode(), "--keep-env requires --mode supervisor"),
        ("-f - --remove --stage", WEB.encode(), "--remove cannot be used with options that add "
         "the agent; omit them"),
        ("-f - --mode beside", b"", "Invalid value for '--mode': 'beside' is not one of "
         "'native-sidecar', 'sidecar', 'init', 'supervisor'; see 'hotmap inject --help'"),
        ("-f - --url http://127.0.0.1/", b"", "No such option '--url'; put flags of the agent "
         "after --, as in '-- --url'; see 'hotmap inject --help'"),
        ("-f - --restart=", WEB.encode(), '--restart: invalid restart mode "": expected '
         "supervised, all-containers or term"),
        ("-f - -- --settle soon", WEB.encode(), '--settle: invalid duration "soon": expected a '
         "number with a unit, such as 500ms or 5s"),
    ],
)  # fmt: skip
def test_invalid_input_is_one_sentence(arguments: str, stdin: bytes, message: str) -> None:
    """Exit status 2."""
    assert hotmap(*arguments.split(), stdin=stdin) == (2, b"", f"hotmap: {message}\n")


def test_json_is_written_as_json() -> None:
    """Also after a byte order mark."""
    text = "\ufeff" + json.dumps(yaml.safe_load(WEB))
    found = json.loads(supervised(text).removeprefix("\ufeff"))
    assert found["spec"]["containers"][0]["command"][0] == "python3"
    assert removed(supervised(text)) == text


# Changes of a manifest after the injection


def supervised(text: str = WEB) -> str:
    return inject(text, Injection("hotmap:1", "", (), "supervisor", True), "web.yaml")[0]


def removed(text: str) -> str:
    return inject(text, None, "web.yaml")[0]


def test_removal_keeps_later_additions() -> None:
    """Variables, mounts, volumes, containers, annotations and words of the command."""
    text = supervised()
    for place, line in (
        ("    - {name: KEPT, value: one}\n", "    - {name: NEW, value: two}\n"),
        ("      mountPath: /hotmap/run\n", "    - {name: data, mountPath: /data}\n"),
        ("  volumes:\n", "  - {name: data, emptyDir: {}}\n"),
        ("  containers:\n", "  - {name: second, image: second}\n"),
        ("  annotations:\n", "    mine: kept\n"),
        ("    - --\n", "    - nice\n"),
    ):
        assert text.count(place) == 1
        text = text.replace(place, place + line)
    expected: dict[str, Any] = yaml.safe_load(WEB)
    expected["metadata"]["annotations"] = {"mine": "kept"}
    app = expected["spec"]["containers"][0]
    app["env"].append({"name": "NEW", "value": "two"})
    app["command"] = ["nice", "app"]
    app["volumeMounts"].append({"name": "data", "mountPath": "/data"})
    expected["spec"]["volumes"].insert(0, {"name": "data", "emptyDir": {}})
    expected["spec"]["containers"].insert(0, {"name": "second", "image": "second"})
    assert yaml.safe_load(removed(text)) == expected
    assert "# ours" in removed(text)


def test_removal_keeps_later_deletions() -> None:
    """A variable that was left in the container stays deleted; converted ones are restored."""
    text = supervised()
    assert "    env:\n    - {name: KEPT, value: one}\n" in text
    text = text.replace("    env:\n    - {name: KEPT, value: one}\n", "")
    (app,) = yaml.safe_load(removed(text))["spec"]["containers"]
    (before,) = yaml.safe_load(WEB)["spec"]["containers"]
    assert app["env"] == before["env"][1:]


@pytest.mark.parametrize("write", [yaml.safe_dump, json.dumps], ids=["yaml", "json"])
def test_removal_after_reformatting_restores_values(write: Any) -> None:
    """The original texts do not fit any more, so the values are restored."""
    text = write(yaml.safe_load(supervised()))
    assert yaml.safe_load(removed(text)) == yaml.safe_load(WEB)


def test_shared_part_is_an_error() -> None:
    """An anchor in what is replaced, with an alias elsewhere, would change both."""
    shared = WEB.replace("envFrom:\n", "envFrom: &all\n").replace(
        "  volumes:", "  initContainers:\n  - {name: i, image: i, envFrom: *all}\n  volumes:"
    )
    with pytest.raises(ManifestError) as caught:
        supervised(shared)
    assert str(caught.value) == (
        "web.yaml: cannot edit a part that injection changes, such as one shared by an anchor (&) "
        "or in unusual syntax; write it out where it is used"
    )
