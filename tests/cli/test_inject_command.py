"""`hotmap inject` as a command: where it reads and writes, and what it does with later edits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hotmap.cli.inject import Injection, inject
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
    done = subprocess.run(
        [sys.executable, "-m", "hotmap", "inject", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr.decode()


def test_several_files_and_directories_are_one_stream(tmp_path: Path) -> None:
    """In order, each once; a directory's manifests by name, and nothing else in it."""
    (tmp_path / "b.yml").write_text(WEB)
    (tmp_path / "a.json").write_text(json.dumps(yaml.safe_load(WEB)))
    (tmp_path / "notes.txt").write_text("not: [yaml")
    other = tmp_path / "other"
    other.write_text("kind: Service\nmetadata: {name: s}\n")
    status, output, notes = hotmap("-f", other, "-f", tmp_path, "-f", "-", stdin=WEB.encode())
    assert (status, notes) == (0, "")
    documents = list(yaml.safe_load_all(output))
    assert [one["kind"] for one in documents] == ["Service", "Pod", "Pod", "Pod"]
    assert documents[1] == documents[2] == documents[3]


def test_files_are_written_where_they_came_from(tmp_path: Path) -> None:
    """As a whole, with their permissions, through a link; and back to the byte."""
    manifest, link = tmp_path / "web.yaml", tmp_path / "link.yaml"
    manifest.write_bytes(WEB.replace("\n", "\r\n").encode())
    manifest.chmod(0o640)
    link.symlink_to(manifest)
    before = manifest.read_bytes()
    assert hotmap("-i", "-f", link) == (0, b"", "")
    assert b"hotmap-agent" in manifest.read_bytes()
    assert b"\n" not in manifest.read_bytes().replace(b"\r\n", b"")
    assert manifest.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert hotmap("-i", "-f", manifest, "--remove") == (0, b"", "")
    assert manifest.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link.yaml", "web.yaml"]


def test_a_stream_keeps_its_bytes(tmp_path: Path) -> None:
    """Line ends and a byte order mark pass through standard input and output."""
    text = ("\ufeff" + WEB).replace("\n", "\r\n").encode()
    _, injected, _ = hotmap("-f", "-", "--mode", "supervisor", stdin=text)
    assert hotmap("-f", "-", "--remove", stdin=injected) == (0, text, "")
    target = tmp_path / "web.yaml"
    assert hotmap("-f", "-", "--mode", "supervisor", "-o", target, stdin=text) == (0, b"", "")
    assert target.read_bytes() == injected


def test_nothing_is_written_when_something_is_wrong(tmp_path: Path) -> None:
    """Not even the files that were right."""
    (tmp_path / "a.yaml").write_text(WEB)
    (tmp_path / "b.yaml").write_text("a: [\n")
    status, output, sentence = hotmap("-i", "-f", tmp_path)
    assert (status, output) == (2, b"")
    assert sentence.startswith(f"hotmap: {tmp_path / 'b.yaml'} is no YAML at line 2: ")
    assert (tmp_path / "a.yaml").read_text() == WEB


def test_pods_without_anything_to_follow_pass_through() -> None:
    """With a note; it is an error only when there is no other."""
    status, output, notes = hotmap("-f", "-", stdin=f"{PLAIN}---\n{WEB}".encode())
    assert status == 0
    assert output.decode().startswith(PLAIN)
    assert notes == (
        "hotmap: standard input, document 1: Pod/plain: container a mounts no ConfigMap or Secret "
        "as a directory, so there is nothing that changes in a running pod; it is left as it is\n"
    )
    status, output, notes = hotmap("-f", "-", stdin=PLAIN.encode())
    assert (status, output) == (2, b"")
    assert notes.endswith("so there is nothing that changes in a running pod\n")


@pytest.mark.parametrize(
    ("arguments", "stdin", "sentence"),
    [
        ("-f -", b"a:\n\t- b\n", "standard input is no YAML at line 2: a tab indents; YAML wants "
         "spaces"),
        ("-f -", b"a: \x01\n", "standard input is no YAML at line 1: the character U+0001 may not "
         "be in it"),
        ("-f -", b"a: \xff\n", "standard input cannot be read: it is not UTF-8"),
        ("-f -", b"a: *b\n", "standard input is no YAML at line 1: nothing has the anchor &b that "
         "an alias names"),
        ("-f -", b"kind: Service\n", "standard input holds no pod template, so there is nothing to "
         "inject into"),
        ("-f /nowhere", b"", "/nowhere cannot be read: no such file or directory"),
        ("-f - -f -", b"", "standard input can be read only once; give one -f -"),
        ("-f - -i", b"", "--in-place writes files to where they came from; leave -o and - out"),
        ("-f - -o /nowhere/x", WEB.encode(), "/nowhere/x cannot be written: no such file or "
         "directory"),
        ("-f - --remove --stage", WEB.encode(), "--remove takes out whatever was injected; leave "
         "the other flags out"),
        ("-f - --mode beside", b"", "Invalid value for '--mode': 'beside' is not one of "
         "'native-sidecar', 'sidecar', 'init', 'supervisor'; see 'hotmap inject --help'"),
        ("-f - -- --settle soon", WEB.encode(), '--settle: invalid duration "soon": expected a '
         "number with a unit, such as 500ms or 5s"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(arguments: str, stdin: bytes, sentence: str) -> None:
    """Exit status 2, and what to do."""
    assert hotmap(*arguments.split(), stdin=stdin) == (2, b"", f"hotmap: {sentence}\n")


def test_json_stays_json() -> None:
    """With a byte order mark before it, too; other readers of JSON take it."""
    text = "\ufeff" + json.dumps(yaml.safe_load(WEB))
    found = json.loads(supervised(text).removeprefix("\ufeff"))
    assert found["spec"]["containers"][0]["command"][0] == "python3"
    assert removed(supervised(text)) == text


# What a person, or another program, does with a manifest after the injection


def supervised(text: str = WEB) -> str:
    return inject(text, Injection("hotmap:1", "", (), "supervisor", True), "web.yaml")[0]


def removed(text: str) -> str:
    return inject(text, None, "web.yaml")[0]


def test_what_a_person_adds_later_stays() -> None:
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


def test_what_a_person_takes_away_later_stays_away() -> None:
    """A variable that was left in the container is gone, one that was converted comes back."""
    text = supervised()
    assert "    env:\n    - {name: KEPT, value: one}\n" in text
    text = text.replace("    env:\n    - {name: KEPT, value: one}\n", "")
    (app,) = yaml.safe_load(removed(text))["spec"]["containers"]
    (before,) = yaml.safe_load(WEB)["spec"]["containers"]
    assert app["env"] == before["env"][1:]


@pytest.mark.parametrize("write", [yaml.safe_dump, json.dumps], ids=["yaml", "json"])
def test_another_program_may_write_it_anew(write: Any) -> None:
    """Old texts do not fit any more, so the values come back instead."""
    text = write(yaml.safe_load(supervised()))
    assert yaml.safe_load(removed(text)) == yaml.safe_load(WEB)


def test_shared_parts_are_refused() -> None:
    """An anchor in what is replaced, with an alias elsewhere, would change both."""
    shared = WEB.replace("envFrom:\n", "envFrom: &all\n").replace(
        "  volumes:", "  initContainers:\n  - {name: i, image: i, envFrom: *all}\n  volumes:"
    )
    with pytest.raises(ManifestError) as caught:
        supervised(shared)
    assert str(caught.value) == (
        "web.yaml: a part that injection changes is written so that others would change with it "
        "(an anchor, &) or cannot be edited; write it out plainly where it is used"
    )
