"""For any manifest, injecting twice equals injecting once, and removing restores the text."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from hotmap.cli.inject import Injection, inject
from hotmap.cli.injection.yaml_nodes import read_documents
from hotmap.core.errors import ManifestError

MANIFESTS = sorted(
    path for path in (Path(__file__).parent / "manifests").iterdir() if path.is_file()
)
IMAGE = "hotmap:1"

INJECTIONS = {
    "native-sidecar": Injection(IMAGE, "", ("--for", "nginx")),
    "native-sidecar, staged": Injection(IMAGE, "", ("--check", "true $(X)"), stage=True),
    "all containers": Injection(IMAGE, "", ("--restart-on", "frozen")),
    "term": Injection(
        IMAGE,
        "",
        ("--restart-on", "frozen", "--restart", "term", "--process", "name:x"),
        user=0,
    ),
    "sidecar": Injection(IMAGE, "", ("--url", "http://127.0.0.1/-/reload"), "sidecar"),
    "sidecar, staged": Injection(IMAGE, "", ("--touch", "/tmp/x"), "sidecar", stage=True),
    "init": Injection(IMAGE, "", ("--check", "true"), "init"),
    "init, staged": Injection(IMAGE, "", (), "init", stage=True),
    "supervisor": Injection(IMAGE, "", (), "supervisor"),
    "supervisor, staged": Injection(IMAGE, "", ("--for", "nginx"), "supervisor", stage=True),
    "supervisor, own environment": Injection(IMAGE, "", (), "supervisor", keep_env=True),
    "supervisor, all containers": Injection(
        IMAGE, "", ("--restart-on", "frozen", "--restart", "all-containers"), "supervisor"
    ),
}


def injected(text: str, injection: Injection) -> str | None:
    """Inject; None where the manifest cannot take it."""
    try:
        return inject(text, injection, "app.yaml")[0]
    except ManifestError:
        return None


def removed(text: str) -> str:
    return inject(text, None, "app.yaml")[0]


def read(path: Path) -> str:
    return path.read_bytes().decode()


def check_all(text: str, injection: Injection, other: Injection) -> bool:
    """Hold every promise against one manifest; tells whether it could be injected at all."""
    once = injected(text, injection)
    if once is None:
        return False
    assert removed(once) == text
    assert injected(once, injection) == once
    differently = injected(text, other)
    if differently is not None:
        assert injected(differently, injection) == once
    return True


@pytest.mark.parametrize("mode", INJECTIONS)
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_removal_restores_manifests(path: Path, mode: str) -> None:
    """Comments, blank lines, anchors, merges, brackets, JSON, CRLF, no last newline: all stay."""
    text = read(path)
    other = "supervisor" if mode != "supervisor" else "native-sidecar, staged"
    took = check_all(text, INJECTIONS[mode], INJECTIONS[other])
    refused = ("sidecar", "sidecar, staged")
    if mode in refused and path.name in ("job.yaml", "indented.yml"):
        assert not took  # a plain sidecar would keep a Job from ending
    elif path.name != "job.yaml" or mode in ("supervisor", "all containers"):
        assert took


def test_manifests_are_injectable() -> None:
    """Every file is YAML that another reader takes, too, before and after."""
    for path in MANIFESTS:
        before = list(yaml.safe_load_all(read(path)))
        after = [injected(read(path), item) for item in INJECTIONS.values()]
        for text in filter(None, after):
            assert len(list(yaml.safe_load_all(text))) == len(before)
            if path.suffix == ".json":
                json.loads(text)


def test_added_values_parse_equally_elsewhere() -> None:
    """Anchors, merges, numbers, texts of several lines: as PyYAML itself composes them."""
    for path in MANIFESTS:
        if path.suffix != ".json":  # JSON writes some characters as two
            values = [document.data for document in read_documents(read(path))]
            assert values == list(yaml.safe_load_all(read(path)))
        else:
            assert read_documents(read(path))[0].data == json.loads(read(path))


# Generated manifests

NAMES = st.sampled_from(["A", "B", "LOG.level", "C_1"])
WORDS = st.text(st.sampled_from("ab $()'\"#:-{}[],&*!|>%@`\\\t\n~é😀"), max_size=12)
REFERENCES = st.fixed_dictionaries(
    {"name": st.sampled_from(["s", "t"]), "key": st.just("k")}, optional={"optional": st.booleans()}
)
VARIABLES = st.one_of(
    st.fixed_dictionaries({"name": NAMES, "value": WORDS}),
    st.fixed_dictionaries(
        {
            "name": NAMES,
            "valueFrom": st.one_of(
                st.fixed_dictionaries({"configMapKeyRef": REFERENCES}),
                st.fixed_dictionaries({"secretKeyRef": REFERENCES}),
                st.just({"fieldRef": {"fieldPath": "metadata.name"}}),
            ),
        }
    ),
)
ENV_FROM = st.one_of(
    st.fixed_dictionaries({"configMapRef": st.just({"name": "s"})}),
    st.fixed_dictionaries({"prefix": st.just("P_"), "secretRef": st.just({"name": "t"})}),
)
VOLUMES: list[dict[str, Any]] = [
    {"name": "conf", "configMap": {"name": "s"}},
    {"name": "secret", "secret": {"secretName": "t", "items": [{"key": "k", "path": "d/k"}]}},
    {"name": "cache", "emptyDir": {}},
]
MOUNTS = st.one_of(
    st.sampled_from(VOLUMES).map(lambda volume: {"name": volume["name"]}),
    st.just({"name": "secret", "subPath": "d"}),
    st.just({"name": "conf", "subPath": "k"}),
)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    mounts = draw(st.lists(MOUNTS, max_size=4))
    container: dict[str, Any] = {
        "name": "app",
        "image": "app:1",
        "command": draw(st.lists(WORDS, min_size=1, max_size=3)),
    }
    fields = {
        "args": draw(st.none() | st.lists(WORDS, max_size=3)),
        "env": draw(st.none() | st.lists(VARIABLES, max_size=4)),
        "envFrom": draw(st.none() | st.lists(ENV_FROM, max_size=2)),
        "volumeMounts": [
            {"mountPath": f"/m/{index}", **mount} for index, mount in enumerate(mounts)
        ],
    }
    kept = draw(st.permutations([key for key in fields if draw(st.booleans())]))
    container |= {key: fields[key] for key in kept}
    spec: dict[str, Any] = {"containers": [container]}
    optional = {
        "volumes": VOLUMES,
        "initContainers": draw(st.sampled_from([None, [], [{"name": "i", "image": "i"}]])),
        "shareProcessNamespace": draw(st.booleans()),
        "securityContext": {"runAsUser": 7},
        "terminationGracePeriodSeconds": 5,
    }
    spec |= {key: value for key, value in optional.items() if draw(st.booleans())}
    metadata = draw(st.sampled_from([None, {}, {"labels": {"a": "b"}}, {"annotations": None},
                                     {"annotations": {"x/y": "z"}, "labels": {}}]))  # fmt: skip
    template = {"spec": spec} | ({"metadata": metadata} if draw(st.booleans()) else {})
    order = draw(st.permutations(list(template)))
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {key: template[key] for key in order}},
    }


class Indented(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def commented(text: str, seed: int) -> str:
    """Put comments and blank lines between lines, where no text of several lines is."""
    choose = random.Random(seed)
    lines = []
    for line in text.splitlines():
        if choose.random() < 0.2:
            lines.append(choose.choice(["", "# left", "          # right"]))
        lines.append(line + choose.choice(["", "", "", "   # after"]))
    return "\n".join([*lines, ""])


def written(manifest: dict[str, Any], how: str, seed: int) -> str:
    """Write a manifest in one of the ways that people and programs do."""
    if how.startswith("json"):
        return json.dumps(manifest, indent=2 if how == "json" else None)
    dumper = Indented if "indented" in how else yaml.SafeDumper
    flow = None if "mixed" in how else "flow" in how
    text: str = yaml.dump(
        manifest, Dumper=dumper, default_flow_style=flow, sort_keys=False, width=1 << 20
    )
    scalars = (item for item in yaml.parse(text) if isinstance(item, yaml.ScalarEvent))
    several = any(
        scalar.start_mark and scalar.end_mark and scalar.start_mark.line != scalar.end_mark.line
        for scalar in scalars
    )
    if "commented" in how and not several:
        text = commented(text, seed)
    if "crlf" in how:
        text = text.replace("\n", "\r\n")
    return text.removesuffix("\n") if "open" in how else text


WAYS = ["block", "indented", "mixed", "flow", "json", "json compact", "commented",
        "indented commented crlf", "mixed commented open", "flow crlf open"]  # fmt: skip


@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    pods(),
    st.sampled_from(WAYS),
    st.integers(0, 1 << 16),
    st.sampled_from(sorted(INJECTIONS)),
    st.sampled_from(sorted(INJECTIONS)),
)
def test_removal_restores_generated_manifests(
    manifest: dict[str, Any], how: str, seed: int, mode: str, other: str
) -> None:
    """The same for any pod, in any style of writing."""
    text = written(manifest, how, seed)
    assert (json.loads(text) if "json" in how else yaml.safe_load(text)) == manifest
    check_all(text, INJECTIONS[mode], INJECTIONS[other])
