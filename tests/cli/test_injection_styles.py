"""However a manifest is written, injection and removal give the text back, or refuse in words."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from tests.cli.yaml_styles import write_stream

from hotmap.cli.inject import Injection, inject
from hotmap.cli.injection import yaml_nodes
from hotmap.cli.injection.yaml_nodes import InvalidYaml, Node, read_documents
from hotmap.core.errors import ManifestError

IMAGE = "hotmap:1"

INJECTIONS = {
    "native-sidecar": Injection(IMAGE, "app", ("--for", "nginx")),
    "staged": Injection(IMAGE, "app", ("--check", "sh -c 'echo $$ $(X)'"), stage=True),
    "sidecar": Injection(IMAGE, "app", ("--url", "http://127.0.0.1/$$"), "sidecar"),
    "init": Injection(IMAGE, "app", ("--check", "true"), "init", stage=True),
    "supervisor": Injection(IMAGE, "app", (), "supervisor"),
    "supervisor, staged": Injection(IMAGE, "app", ("--check", "x"), "supervisor", stage=True),
}

NOTES = [
    "one\ntwo\n",
    "a\n\n  b\n\n\n",
    "# no comment\n- no list\n",
    "last",
    "x\n\n\n\n",
    "--- no\n",
]


def container(choose: random.Random, name: str) -> dict[str, Any]:
    paths = ["/etc/app", "/tmp", "/etc", "/usr/local/bin", "/conf.d/", "/a b"]
    given: dict[str, Any] = {
        "name": name,
        "image": choose.choice(["app:1", "registry.example.com:5000/app@sha256:0123", "app"]),
        "command": choose.choice([["run"], ["tini", "--", "sh", "-c", "echo $$ $(A) $B"]]),
        "volumeMounts": [
            {"name": "conf", "mountPath": choose.choice(paths)},
            {"name": "cache", "mountPath": "/cache"},
        ],
    }
    optional = {
        "args": ["--flag=$(A)", "$$$$", "a: b", "#c", ""],
        "env": [
            {"name": "A", "value": choose.choice(["1", "yes", "", "0x1f", "a\tb", "é😀"])},
            {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
        ],
        "envFrom": [{"configMapRef": {"name": "c"}}],
        "resources": {},
        "ports": [{"containerPort": 8080}],
    }
    given |= {key: value for key, value in optional.items() if choose.random() < 0.4}
    keys = list(given)
    choose.shuffle(keys)
    return {key: given[key] for key in keys}


def workload(choose: random.Random) -> dict[str, Any]:
    """Make a workload with values that occur twice, so that anchors can be used."""
    labels = {"app": "web", "tier": "a-b"}
    names = ["app"] if choose.random() < 0.6 else ["app", "other"]
    spec: dict[str, Any] = {
        "containers": [container(choose, name) for name in names],
        "volumes": [
            {"name": "conf", "configMap": {"name": "c"}},
            {"name": "cache", "emptyDir": {}},
        ],
    }
    if choose.random() < 0.3:
        spec["initContainers"] = choose.choice([[], None, [{"name": "i", "image": "i"}]])
    metadata: dict[str, Any] = {"labels": labels}
    if choose.random() < 0.6:
        metadata["annotations"] = choose.choice(
            [None, {}, {"note": choose.choice(NOTES)}, {"a/b": "c", "note": choose.choice(NOTES)}]
        )
    template = {"metadata": metadata, "spec": spec}
    if choose.random() < 0.4:
        template = {"spec": spec, "metadata": metadata}
    body = {"selector": {"matchLabels": labels}, "template": template}
    if choose.random() < 0.4:
        body = {"template": template, "selector": {"matchLabels": labels}}
    named = {"name": "web", "labels": labels}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": named, "spec": body}


def stream(choose: random.Random) -> list[dict[str, Any]]:
    source = {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"},
        "data": {"k": "v", "text": choose.choice(NOTES)},
    }  # fmt: skip
    found = [workload(choose), source, workload(choose)][: choose.choice([1, 1, 2, 3])]
    choose.shuffle(found)
    if choose.random() < 0.15:
        return [{"apiVersion": "v1", "kind": "List", "items": found}]
    return found


def check_round_trip(text: str, injection: Injection) -> bool:
    """Inject, inject again and remove; False where injection refuses, in one sentence."""
    try:
        once, _ = inject(text, injection, "app.yaml")
    except ManifestError as error:
        assert "\n" not in str(error)
        assert str(error).startswith("app.yaml")
        return False
    assert inject(once, None, "app.yaml")[0] == text
    assert inject(once, injection, "app.yaml")[0] == once
    assert len(list(read_documents(once))) == len(list(read_documents(text)))
    return True


PHASES = [Phase.explicit, Phase.reuse, Phase.generate]


@settings(max_examples=30, deadline=None, phases=PHASES)
@given(st.integers(0, 1 << 30), st.sampled_from(sorted(INJECTIONS)))
def test_any_style_is_restored_or_refused(seed: int, mode: str) -> None:
    """Anchors, block scalars, comments, odd indentation, CRLF, byte order marks, Lists, JSON."""
    choose = random.Random(seed)
    documents = stream(choose)
    if not any(document["kind"] != "ConfigMap" for document in documents):
        return
    text = write_stream(documents, seed)
    anchors = re.findall(r"&(\w+)", text)
    assume(len(anchors) == len(set(anchors)))  # an alias of a repeated one has another value
    found = [document.data for document in read_documents(text) if document.data is not None]
    assert found == documents, "the writer of this test"
    check_round_trip(text, INJECTIONS[mode])


def test_most_styles_are_taken() -> None:
    """A refusal is for anchors that others use, not for what is merely unusual."""
    taken = []
    for seed in range(60):
        documents = [workload(random.Random(seed))]
        text = write_stream(documents, seed)
        if "&a" not in text:
            taken.append(check_round_trip(text, INJECTIONS["native-sidecar"]))
    assert all(taken)
    assert len(taken) > 20


MERGED = """\
x-defaults:
  container: &container
    name: app
    image: app
    volumeMounts:
    - {name: conf, mountPath: /etc/app}
  pod: &pod
    volumes:
    - {name: conf, configMap: {name: c}}
  metadata: &metadata {labels: {a: b}, annotations: {note: text}}
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata:
      <<: *metadata
    spec:
      <<: *pod
      containers:
      - <<: *container
        command: [run]
"""

KEPT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      containers:
      - name: app
        image: app
        command: [run, $$, --, $(A)]
        volumeMounts:
        - {name: conf, mountPath: /etc/app}
      volumes:
      - {name: conf, configMap: {name: c}}
    metadata:
      annotations:
        note: |+
          a

          b


"""


@pytest.mark.parametrize("mode", INJECTIONS)
@pytest.mark.parametrize(
    "text",
    [MERGED, KEPT, f"{KEPT}---\na: b\n", KEPT.replace("\n", "\r\n")],
    ids=["merge keys", "kept line ends", "kept line ends and a document", "CRLF"],
)
def test_merge_keys_and_kept_line_ends_are_restored(text: str, mode: str) -> None:
    """`<<` gives values that injection extends; `|+` keeps the blank lines after it."""
    assert check_round_trip(text, INJECTIONS[mode])
    before, after = read_documents(text), read_documents(inject(text, INJECTIONS[mode], "f")[0])
    note = ("spec", "template", "metadata")
    assert (
        value_at(after[0], note)["annotations"]["note"]
        == value_at(before[0], note)["annotations"]["note"]
    )


def test_keys_that_are_booleans_or_numbers_stay_as_they_are() -> None:
    """They are texts for kubectl, which an addition beside them does not rewrite."""
    text = KEPT.replace(
        "      annotations:\n", "      annotations:\n        on: a\n        8080: b\n"
    )
    once, _ = inject(text, INJECTIONS["supervisor"], "app.yaml")
    assert "        on: a\n        8080: b\n        note: |+\n" in once
    alone = text[: text.index("        8080")]
    once, _ = inject(alone, INJECTIONS["supervisor"], "app.yaml")
    assert "        on: a\n        hotmap.dev/agent: " in once


def test_arguments_that_are_written_again_keep_their_text() -> None:
    """A supervisor may rewrite the list: a time of day is a text, as for kubectl."""
    text = KEPT.replace("[run, $$, --, $(A)]", "[run]\n        args: [$(A), --at, 22:30]").replace(
        "image: app",
        "env: [{name: A, valueFrom: {configMapKeyRef: {name: c, key: k}}}]",
    )
    once, _ = inject(text, INJECTIONS["supervisor"], "app.yaml")
    (container,) = yaml.safe_load(once)["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["$$(A)", "--at", "22:30"]


def value_at(node: Node, path: tuple[str, ...]) -> Any:
    found = node.data
    for key in path:
        found = found[key]
    return found


@pytest.mark.parametrize("indent", [None, "\t", 2])
@pytest.mark.parametrize("mode", INJECTIONS)
def test_json_styles_are_kept(mode: str, indent: str | int | None) -> None:
    """Compact JSON stays compact; JSON that is indented with tabs is read."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(yaml.safe_load(KEPT), indent=indent, separators=separators)
    assert check_round_trip(text, INJECTIONS[mode])
    once, _ = inject(text, INJECTIONS[mode], "app.json")
    if indent is None:
        assert json.dumps(json.loads(once), separators=separators, ensure_ascii=False) == once


@pytest.mark.parametrize("path", ["/tmp", "/etc", "/usr/local/bin", "/", "/dev/shm", "/run/"])
@pytest.mark.parametrize("mode", ["native-sidecar", "staged", "sidecar", "init"])
def test_source_at_a_system_path_hides_nothing_from_the_agent(path: str, mode: str) -> None:
    """The agent's container has it elsewhere, and no mount path twice."""
    text = KEPT.replace("/etc/app", path)
    once, _ = inject(text, INJECTIONS[mode], "app.yaml")
    assert check_round_trip(text, INJECTIONS[mode])
    spec = yaml.safe_load(once)["spec"]["template"]["spec"]
    everyone = [*spec["containers"], *spec.get("initContainers", ())]
    for item in everyone:
        paths = [mount["mountPath"] for mount in item["volumeMounts"]]
        assert len(paths) == len(set(paths))
    agent = next(item for item in everyone if item["name"] == "hotmap-agent")
    assert "/hotmap/source/conf" in agent["args"]
    assert path not in agent["args"]


def test_mounts_below_hotmap_are_refused() -> None:
    """Those paths are the injection's."""
    text = KEPT.replace("/etc/app", "/hotmap/run")
    with pytest.raises(ManifestError, match="injection uses the paths below /hotmap"):
        inject(text, INJECTIONS["native-sidecar"], "app.yaml")


STYLES = [
    *("a: |+\n  x\n\n\n", "a: >-\n  x\n\nb: c\n", "a: &x\n- 1\n- b   # - c\n\n# d\nc: *x\n"),
    *("é: '😀\n\n  b'\n", "a: [b, {c, d: e}]\n", "a:\nb:\n- \n- c\n", "? a\n: b\n"),
    *("- - a\n  - b\n", '{"a":1,"b":[]}', "a: b\r\nc: |\r\n  d\r\ne: f\r\n"),
    *("\ufeffa: b\n", "--- {a: b}\n...\n"),
]


@pytest.mark.parametrize("text", STYLES)
def test_both_parsers_give_equal_values_and_positions(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libyaml and PyYAML give the same values, at the same places."""

    def places(node: Node) -> list[Any]:
        inner = [places(item) for item in node.items]
        inner += [[places(entry.key), places(entry.value)] for entry in node.entries]
        return [node.kind, node.start, node.scalar, node.alias, node.flow, inner]

    fast = [(places(document), document.data) for document in read_documents(text)]
    monkeypatch.setattr(yaml_nodes, "_FAST", None)
    assert [(places(document), document.data) for document in read_documents(text)] == fast


def test_deeply_nested_manifest_is_refused() -> None:
    """In words, by either parser."""
    with pytest.raises(InvalidYaml):
        read_documents("[" * 100_000)


def large_manifest(workloads: int) -> str:
    """A manifest of which half the lines are workloads, and half large ConfigMaps."""
    documents = []
    for number in range(workloads):
        name = f"web-{number}"
        text = KEPT.replace("name: web", f"name: {name}").rstrip("\n")
        documents.append(f"{text}\n")
        documents.append("kind: ConfigMap\ndata:\n  text: |\n" + "    a line of text\n" * 41)
    return "---\n".join(documents)


def injection_seconds(workloads: int) -> float:
    """Inject into a large manifest and take it back; returns the CPU seconds of the injection."""
    text = large_manifest(workloads)
    began = time.process_time()
    once, _ = inject(text, INJECTIONS["native-sidecar"], "app.yaml")
    seconds = time.process_time() - began
    assert inject(once, None, "app.yaml")[0] == text
    return seconds


@pytest.mark.parametrize(
    ("few", "many"), [(15, 150), pytest.param(115, 1150, marks=pytest.mark.slow)]
)
def test_injection_time_grows_with_the_manifest(
    few: int, many: int, record_property: Callable[[str, object], None]
) -> None:
    """Ten times as many lines, 10,000 or 75,000, cost ten times as much, not a hundred times."""
    assert large_manifest(many).count("\n") > 65 * many
    injection_seconds(1)  # what is read or compiled once
    seconds = injection_seconds(few), injection_seconds(many)
    record_property("CPU seconds", f"{seconds[0]:.2f} s, {seconds[1]:.2f} s")
    assert seconds[1] < 40 * seconds[0]
