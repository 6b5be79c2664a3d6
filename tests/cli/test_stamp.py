"""`hotmap stamp`: the annotation changes exactly when content that a workload uses does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.support.warm_process import run_warm

APP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: app}   # shared
data:
  LEVEL: info
  COLOUR: red
  app.toml: |
    size = 1
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: main   # the only one
        image: app
        env:
        - {name: LEVEL, valueFrom: {configMapKeyRef: {name: app, key: LEVEL}}}
        volumeMounts: [{name: files, mountPath: /etc/app}]
      volumes:
      - name: files
        configMap: {name: app, items: [{key: app.toml, path: app.toml}]}
"""

SECRET = """\
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {PASSWORD: hunter2}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  template:
    spec:
      containers:
      - {name: main, image: db, envFrom: [{secretRef: {name: login}}]}
"""


#: A file with more bytes than a key needs.
KEY_FILE = __file__


def stamp(*arguments: str | Path, stdin: str = "") -> tuple[int, str, str]:
    status, out, problems = run_warm(
        "stamp", *map(str, arguments), env=os.environ, stdin=stdin.encode()
    )
    return status, out.decode(), problems.decode()


def name_of(text: str, annotation: str = "hotmap.dev/content", *arguments: str | Path) -> str:
    """Stamp a manifest; returns the annotation of its workload, or ""."""
    status, out, _ = stamp("-f", "-", *arguments, stdin=text)
    assert status == 0
    (template,) = [
        item["spec"]["template"]
        for item in yaml.safe_load_all(out)
        if "template" in item.get("spec", {})
    ]
    return str((template.get("metadata") or {}).get("annotations", {}).get(annotation, ""))


def test_stamp_adds_only_the_annotation() -> None:
    """Comments and quotes stay; stamping again changes nothing."""
    status, out, problems = stamp("-f", "-", stdin=APP)
    assert (status, problems) == (0, "")
    added = [line for line in out.splitlines() if line not in APP.splitlines()]
    assert [line.split(":")[0].strip() for line in added] == ["annotations", "hotmap.dev/content"]
    assert [line for line in out.splitlines() if line not in added] == APP.splitlines()
    assert stamp("-f", "-", stdin=out)[1] == out


@pytest.mark.parametrize(
    ("old", "new"),
    [("LEVEL: info", "LEVEL: debug"), ("size = 1", "size = 2"), ("  LEVEL: info\n", "")],
)
def test_name_changes_with_used_content(old: str, new: str) -> None:
    assert name_of(APP) != name_of(APP.replace(old, new))


def test_name_stays_while_used_content_does() -> None:
    """Other data keys, their order, labels, and the namespace are not content."""
    before = name_of(APP)
    assert name_of(APP.replace("red", "blue")) == before
    assert name_of(APP.replace("{name: app}", "{name: app, labels: {a: b}}", 1)) == before
    assert name_of(APP.replace("{name: app}", "{name: app, namespace: shop}", 1)) == before
    first = "  LEVEL: info\n"
    moved = APP.replace(first, "").replace("    size = 1\n", f"    size = 1\n{first}")
    assert name_of(moved) == before


def test_data_keys_that_another_source_replaces_are_not_used() -> None:
    """As with defaults and the values of one environment, of which the later ones count."""
    text = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: defaults}
data: {LEVEL: info, COLOUR: red}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: own}
data: {LEVEL: debug}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      containers:
      - name: main
        envFrom: [{configMapRef: {name: defaults}}, {configMapRef: {name: own}}]
"""
    name = name_of(text)
    assert name_of(text.replace("LEVEL: info", "LEVEL: warn")) == name
    assert name_of(text.replace("COLOUR: red", "COLOUR: blue")) != name
    assert name_of(text.replace("LEVEL: debug", "LEVEL: warn")) != name
    assert name_of(text.replace("{LEVEL: debug}", "{}")) != name


def test_values_that_the_api_server_takes_for_empty_are_empty() -> None:
    """A chart often renders a value that is not set as null."""
    empty = APP.replace("LEVEL: info", 'LEVEL: ""')
    assert name_of(APP.replace("LEVEL: info", "LEVEL:")) == name_of(empty)


@pytest.mark.parametrize(
    ("plain", "text"), [("9000", '"9000"'), ("1.5", '"1.5"'), ("on", '"true"'), ("NO", '"false"')]
)
def test_data_keys_that_are_numbers_or_booleans_are_texts(plain: str, text: str) -> None:
    """As for kubectl; a list of ports is often written with plain numbers as data keys."""
    app = APP.replace("key: LEVEL", f"key: {text}")
    assert name_of(app.replace("LEVEL: info", f"{plain}: info")) == name_of(
        app.replace("LEVEL: info", f"{text}: info")
    )


def test_document_that_cannot_be_edited_is_named() -> None:
    """What else has the annotations would change with them."""
    shared = APP.replace("    metadata:\n      labels", "    metadata: &shared\n      labels")
    status, out, problems = stamp("-f", "-", stdin=f"{APP}---\n{shared}  other: *shared\n")
    assert (status, out) == (2, "")
    assert problems.startswith(
        "hotmap: standard input, document 4: cannot edit only the annotations"
    )


def test_custom_resource_of_the_same_name_needs_containers() -> None:
    """Of the kind Deployment there are many, and not all of them have a pod template."""
    custom = APP.replace("apps/v1", "apps.kruise.io/v1beta1")
    assert name_of(custom) == name_of(APP)
    other = "kind: Deployment\napiVersion: example.com/v1\nspec: {template: {name: a}}\n"
    status, out, problems = stamp("-f", "-", stdin=f"{APP}---\n{other}")
    assert (status, problems) == (0, "")
    assert out.endswith(f"---\n{other}")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LEVEL: info", "LEVEL: 22:30"),
        ("items: [{key", "defaultMode: 0o400, items: [{key"),
        ("key: LEVEL}", "key: LEVEL, optional: n}"),
    ],
)
def test_plain_values_are_read_as_kubectl_does(old: str, new: str) -> None:
    """A time of day is a text; `n` is a boolean; YAML 1.2 writes octal numbers as `0o400`."""
    assert name_of(APP.replace(old, new))


def test_merged_data_keys_replace_those_that_precede_them() -> None:
    """As for kubectl; a merge key usually precedes the data keys of the mapping itself."""
    app = APP.replace("LEVEL: info", "LEVEL: info\n  <<: {LEVEL: warn}")
    assert name_of(app) == name_of(APP.replace("LEVEL: info", "LEVEL: warn"))


def test_files_that_are_reread_are_not_included() -> None:
    """An edit of them reaches the processes without new pods; one of a variable does not."""
    rereads = APP.replace(
        "  name: web\n", "  name: web\n  annotations: {hotmap.dev/rereads: 30s}\n"
    )
    before = name_of(rereads)
    assert before
    assert name_of(rereads.replace("size = 1", "size = 2")) == before
    assert name_of(rereads.replace("LEVEL: info", "LEVEL: debug")) != before


def test_source_of_another_namespace_is_not_used() -> None:
    both = APP.replace("{name: app}   #", "{name: app, namespace: other}   #")
    status, _, problems = stamp(
        "-f", "-", stdin=both.replace("  name: web\n", "  name: web\n  namespace: shop\n")
    )
    assert status == 0
    assert "ConfigMap app, which is not in the manifests" in problems


def test_source_outside_of_the_manifests_is_noted() -> None:
    alone = APP[APP.index("---") :]
    status, out, problems = stamp("-f", "-", stdin=alone)
    assert (status, out) == (0, alone)
    assert problems == (
        "hotmap: note: standard input: Deployment/web: not included: ConfigMap app, which is not "
        "in the manifests\n"
    )


def test_secrets_need_a_key(tmp_path: Path) -> None:
    """A digest of a Secret without one could be guessed from the manifest."""
    key = tmp_path / "key"
    key.write_text("0123456789abcdef\n")
    status, out, problems = stamp("-f", "-", stdin=SECRET)
    assert (status, out) == (0, SECRET)
    assert problems.endswith("not included: Secret login (use --key-file to include Secrets)\n")
    before = name_of(SECRET, "hotmap.dev/content", "--key-file", key)
    assert before
    assert "hunter2" not in stamp("-f", "-", "--key-file", key, stdin=SECRET)[2]
    encoded = SECRET.replace("stringData: {PASSWORD: hunter2}", "data: {PASSWORD: aHVudGVyMg==}")
    assert name_of(encoded, "hotmap.dev/content", "--key-file", key) == before
    key.write_text("fedcba9876543210")
    assert name_of(SECRET, "hotmap.dev/content", "--key-file", key) != before


def test_secret_that_is_not_included_may_have_placeholders(tmp_path: Path) -> None:
    """A later step of the pipeline replaces them, or decrypts the values."""
    sealed = SECRET.replace("stringData: {PASSWORD: hunter2}", "data: {PASSWORD: <password>}")
    status, out, problems = stamp("-f", "-", stdin=APP + "---\n" + sealed)
    assert (status, "hotmap.dev/content" in out) == (0, True)
    assert "not included: Secret login" in problems


def test_annotation_flag_names_the_annotation() -> None:
    assert name_of(APP, "example.com/config-hash", "--annotation", "example.com/config-hash")


def test_directories_in_a_directory_are_left_out(tmp_path: Path) -> None:
    """Whatever their names; kubectl reads files alone, without --recursive."""
    (tmp_path / "nested.yaml").mkdir()
    (tmp_path / "a.yaml").write_text(APP)
    status, output, problems = stamp("--filename", tmp_path)
    assert (status, problems) == (0, "")
    assert "hotmap.dev/content" in output


def test_lists_and_several_files_are_one_set_of_sources(tmp_path: Path) -> None:
    """A List as `kubectl get -o json` prints it, and a ConfigMap in a file of its own."""
    source, workload = yaml.safe_load_all(APP)
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(source))
    (tmp_path / "b.json").write_text(json.dumps({"kind": "List", "items": [workload]}))
    status, _, problems = stamp("-f", tmp_path, "--in-place")
    assert (status, problems) == (0, "")
    (item,) = json.loads((tmp_path / "b.json").read_text())["items"]
    annotations = item["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {"hotmap.dev/content": name_of(APP)}


def test_items_of_a_deployment_list_need_no_kind() -> None:
    """As for kubectl, which takes it from the list; `kubectl get --raw` prints such lists."""
    source, workload = yaml.safe_load_all(APP)
    head = {"apiVersion": workload.pop("apiVersion"), "kind": f"{workload.pop('kind')}List"}
    text = yaml.safe_dump_all([source, {**head, "items": [workload]}])
    status, out, problems = stamp("--filename", "-", stdin=text)
    assert (status, problems) == (0, "")
    assert f"hotmap.dev/content: {name_of(APP)}" in out


@pytest.mark.parametrize("kind", ["Job", "CronJob", "Pod"])
def test_kinds_without_rollouts_are_unchanged(kind: str) -> None:
    """The template of a Job cannot be changed, so applying it would fail."""
    other = APP[APP.index("---") :].replace("kind: Deployment", f"kind: {kind}")
    status, out, _ = stamp("-f", "-", stdin=f"{APP}{other}")
    assert status == 0
    assert out.endswith(other)


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        ((), "kind: Service\n", "standard input: no Deployment, StatefulSet, DaemonSet or Rollout"),
        (
            (),
            APP.replace("LEVEL: info", "LEVEL: 5"),
            'document 1: ConfigMap/app: data "LEVEL" is a number, not a text; put it in quotes',
        ),
        (
            (),
            SECRET.replace("hunter2", "yes"),
            'Secret/login: stringData "PASSWORD" is a boolean, not a text; put it in quotes',
        ),
        (
            (),
            SECRET.replace("{PASSWORD: hunter2}", "hunter2"),
            "Secret/login: stringData is a text, not a mapping",
        ),
        ((), APP.replace("LEVEL: info", "LEVEL: [5]"), '"LEVEL" is a list, not a text\n'),
        (
            ("--key-file", KEY_FILE),
            SECRET.replace("stringData: {PASSWORD: hunter2}", "data: {PASSWORD: é}"),
            "not valid b",
        ),
        (
            ("--key-file", KEY_FILE),
            SECRET.replace("stringData: {PASSWORD: hunter2}", "data: {PASSWORD: pa-ss}"),
            "Secret/login: a value is not valid base64",
        ),
        (
            (),
            APP.replace("\ndata:", "\nbinaryData: {ICON: '%%'}\ndata:"),
            "ConfigMap/app: a value is not valid base64",
        ),
        ((), APP.replace("info\n", "info\n  : [\n"), "standard input: invalid YAML at line"),
        (
            (),
            APP.replace("labels: {app: web}", "annotations: [app]"),
            "Deployment/web: metadata.annotations in the pod template must be a mapping",
        ),
        (("--annotation", "hash"), APP, '--annotation: invalid name "hash": expected DOMAIN/NAME'),
        (("--annotation", "hotmap.dev/revision"), APP, "has another meaning"),
        (("--key-file", "/dev/null"), APP, "--key-file: /dev/null has 0 bytes; 16 or more"),
        (("--key-file", "/nowhere"), APP, "--key-file: cannot read /nowhere: no such file"),
        (("--key-file", "/dev/zero"), APP, "--key-file: /dev/zero has more than 65,536 bytes"),
        (("-f", "/dev/zero"), APP, "cannot read /dev/zero: it has more than 64 MiB"),
        (("--key-file", ""), SECRET, '--key-file: invalid file "": expected the name of a file'),
        (("--filename", ""), APP, '--filename: invalid file "": expected a file, a directory or -'),
        (("--output", ""), APP, '--output: invalid file "": expected the name of a file or -'),
        (("--in-place",), APP, "--in-place cannot be used with --output or standard input"),
    ],
)
def test_invalid_input_is_one_sentence(arguments: tuple[str, ...], text: str, message: str) -> None:
    status, out, problems = stamp("-f", "-", *arguments, stdin=text)
    assert (status, out) == (2, "")
    assert message in problems
    assert problems.count("\n") == 1


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_output_is_utf_8_in_any_locale(encoding: str) -> None:
    """As kubectl reads it; not an internal error, and not bytes of the locale's encoding."""
    text = APP.replace("# the only one", "# für ‘app’")
    ended = subprocess.run(
        [sys.executable, "-m", "hotmap", "stamp", "-f", "-"],
        input=text.encode(), env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "# für ‘app’" in ended.stdout.decode()
