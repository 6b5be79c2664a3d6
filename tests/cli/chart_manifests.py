"""The manifests in the manner of published charts, and the injections that each of them takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hotmap.cli.inject import Injection
from hotmap.cli.injection.pod_templates import find_templates
from hotmap.cli.injection.stage_mounts import is_live
from hotmap.cli.injection.yaml_nodes import read_parts

__all__ = ["INJECTIONS", "Shape", "all_shapes", "chosen_container"]

CHARTS = Path(__file__).parent / "manifests" / "charts"

IMAGE = "hotmap:1"

INJECTIONS = {
    "webhook": Injection(IMAGE, "", ("--url", "http://127.0.0.1:9090/-/reload")),
    "staged": Injection(IMAGE, "", ("--check", "true {dir}"), stage=True),
    "all containers": Injection(IMAGE, "", ("--restart-on", "frozen")),
    "supervisor": Injection(IMAGE, "", (), "supervisor"),
}


class Shape(NamedTuple):
    """One document of a chart with a workload, or a List of some."""

    name: str
    text: str
    #: The pod templates in it, as data.
    templates: list[dict[str, Any]]


def all_shapes() -> Iterator[Shape]:
    """Yield every document with a pod template, in its own text."""
    for path in sorted(CHARTS.iterdir()):
        for number, part in enumerate(read_parts(path.read_bytes().decode())):
            found = [
                template for document in part.documents for template in find_templates(document)
            ]
            if found:
                name = f"{path.name}-{number}-{found[0].name}"
                yield Shape(name, part.text, [item.node.data for item in found])


def chosen_container(template: dict[str, Any]) -> str:
    """Choose the first container that mounts a source as a directory; "" without one."""
    spec = template["spec"]
    volumes = {volume["name"]: volume for volume in spec.get("volumes") or ()}
    for container in spec["containers"]:
        for mount in container.get("volumeMounts") or ():
            if is_live(volumes.get(mount["name"], {})) and "subPath" not in mount:
                return str(container["name"])
    return ""


def documents(text: str) -> list[dict[str, Any]]:
    """Parse a manifest with PyYAML itself, List items apart; tabs are JSON's."""
    found: list[dict[str, Any]] = []
    for item in yaml.safe_load_all(text.replace("\t", " ")):
        found += item["items"] if str(item["kind"]).endswith("List") else [item]
    return found
