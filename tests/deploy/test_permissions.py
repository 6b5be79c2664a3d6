"""The roles grant what docs/reference/rbac.md lists, no less and no more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from hotmap.controller.leadership import LEASE
from hotmap.controller.reconcile.job_recreation import PENDING_SECRET
from hotmap.controller.storage.keyring import KEY_SECRET
from hotmap.core.model.state import SHARDS
from hotmap.core.reloader.meta_info import META_INFO
from hotmap.kube.resources import BY_KIND

ROOT = Path(__file__).parents[2]
GROUPS = {resource.plural: resource.group for resource in BY_KIND.values()}
#: RBAC cannot limit it by name (kubernetes: docs, "Referring to resources").
NAMELESS = "create"


class Right(NamedTuple):
    group: str
    resource: str
    #: "" for all of them
    name: str
    verb: str


def rules(manifest: str, *, kind: str, name: str) -> Iterator[dict[str, Any]]:
    text = (ROOT / "deploy" / "manifests" / manifest).read_text()
    for item in yaml.safe_load_all(text):
        if (item["kind"], item["metadata"]["name"]) == (kind, name):
            yield from item["rules"]


def granted(manifest: str, *, kind: str, name: str) -> list[Right]:
    return [
        Right(group, resource, item, verb)
        for rule in rules(manifest, kind=kind, name=name)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for item in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    ]


def listed(*, own: bool) -> list[Right]:
    """Read the table of the reference: rights on its own objects, or on everybody's."""
    text = (ROOT / "docs" / "reference" / "rbac.md").read_text().partition("\n## ")[0]
    rows = re.findall(r"^\| ([a-z].*?) \| ([a-z, ]+) \| .* \|$", text, re.MULTILINE)[1:]
    return [
        Right(GROUPS[resource], resource, "" if verb == NAMELESS else name, verb)
        for what, verbs in rows
        if what.endswith("in its own namespace") == own
        for resource in re.findall(r"\w+", what.partition(" `")[0])
        for name in names(what)
        for verb in verbs.split(", ")
    ]


def names(what: str) -> Iterable[str]:
    """Read the names of objects: `a`, or `b-00` … `-31` for all between; none means all."""
    found = re.findall(r"`([\w-]+)`(?: … `-(\d+)`)?", what)
    for name, last in found:
        prefix, _, first = name.rpartition("-")
        yield from (
            (f"{prefix}-{n:02d}" for n in range(int(first), int(last) + 1)) if last else ([name])
        )
    if not found:
        yield ""


def test_cluster_role_has_the_documented_permissions() -> None:
    """The ClusterRole is the first part of the table."""
    assert set(granted("base.yaml", kind="ClusterRole", name="hotmap")) == set(listed(own=False))


def test_rights_on_user_objects_are_the_same_in_one_namespace() -> None:
    """The Role of the namespaced installation is the same for what lies in every namespace.

    Argo Rollouts may not exist, and a user can grant only rights that he has.
    """
    elsewhere = ("namespaces", "rollouts")
    wanted = {right for right in listed(own=False) if right.resource not in elsewhere}
    assert set(granted("namespaced.yaml", kind="Role", name="hotmap")) == wanted


@pytest.mark.parametrize("manifest", ["base.yaml", "ha.yaml", "namespaced.yaml"])
def test_role_has_the_documented_permissions(manifest: str) -> None:
    """The Role beside it is the second part, name by name."""
    found = set(granted(manifest, kind="Role", name="hotmap-own"))
    assert found == set(listed(own=True))


def test_own_objects_are_those_that_the_code_names() -> None:
    """The shards, the keys, the pending Jobs, the Lease; what more would be granted were unused."""
    found = {right.name for right in listed(own=True) if right.name}
    shards = {f"hotmap-state-{shard:02d}" for shard in range(SHARDS)}
    assert found == shards | {KEY_SECRET, PENDING_SECRET, LEASE}


@pytest.mark.parametrize(
    ("manifest", "kind", "name"),
    [
        ("base.yaml", "ClusterRole", "hotmap"),
        ("base.yaml", "Role", "hotmap-own"),
        ("namespaced.yaml", "Role", "hotmap"),
    ],
)
def test_nothing_is_granted_twice_or_by_wildcard(manifest: str, kind: str, name: str) -> None:
    """A rule can be read for itself."""
    found = granted(manifest, kind=kind, name=name)
    assert len(found) == len(set(found))
    assert not [right for right in found if "*" in right]


def test_own_objects_are_granted_by_name_except_create() -> None:
    """On its own objects every verb but create is limited to a name."""
    own = granted("base.yaml", kind="Role", name="hotmap-own")
    assert {right.verb for right in own if not right.name} == {NAMELESS}


def added(component: str) -> set[Right]:
    """Read what a component adds to the role."""
    path = ROOT / "deploy" / "components" / component / "kustomization.yaml"
    (patch,) = yaml.safe_load(path.read_text())["patches"]
    assert patch["target"]["name"] == "hotmap"
    operations = yaml.safe_load(patch["patch"])
    assert {(operation["op"], operation["path"]) for operation in operations} == {
        ("add", "/rules/-")
    }
    return {
        Right(group, resource, "", verb)
        for operation in operations
        for group in operation["value"]["apiGroups"]
        for resource in operation["value"]["resources"]
        for verb in operation["value"]["verbs"]
    }


def listed_for(component: str) -> set[Right]:
    """Read the rows of the reference that a component has."""
    text = (ROOT / "docs" / "reference" / "rbac.md").read_text()
    row = rf"^\| `{component}` \| (\S+) \| ([a-z, ]+) \| .* \|$"
    return {
        Right(GROUPS[resource.partition("/")[0]], resource, "", verb)
        for resource, verbs in re.findall(row, text, re.MULTILINE)
        for verb in verbs.split(", ")
    }


#: Those that add rules to the role for everybody's objects.
COMPONENTS = sorted(
    path.name for path in (ROOT / "deploy" / "components").iterdir() if path.name != "reloader"
)


@pytest.mark.parametrize("component", COMPONENTS)
def test_component_adds_its_documented_permissions(component: str) -> None:
    """Each is the rows of the reference that name it, and grants what the base does not."""
    found = added(component)
    assert found == listed_for(component)
    without = "namespaced.yaml" if component == "argo-rollouts" else "base.yaml"
    kind = "Role" if component == "argo-rollouts" else "ClusterRole"
    assert found.isdisjoint(granted(without, kind=kind, name="hotmap"))


def test_component_reloader_grants_one_config_map_of_its_own() -> None:
    """By its name, in the role for the controller's own objects; create cannot have one."""
    path = ROOT / "deploy" / "components" / "reloader" / "kustomization.yaml"
    role, _ = yaml.safe_load(path.read_text())["patches"]
    assert role["target"]["name"] == "hotmap-own"
    rules = [operation["value"] for operation in yaml.safe_load(role["patch"])]
    assert rules == [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [META_INFO],
            "verbs": ["get", "update"],
        },
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
    ]
    listed = {right._replace(name="") for right in listed_for("reloader")}
    assert {right.verb for right in listed} == {"get", "update", "create"}
    assert {right.resource for right in listed} == {"configmaps"}


def test_default_roles_delete_and_create_no_user_objects() -> None:
    """Who wants Jobs run or Pods evicted has to say so when installing."""
    verbs = {(right.resource, right.verb) for right in listed(own=False)}
    assert {verb for _, verb in verbs} == {"list", "watch", "patch", "create"}
    assert {resource for resource, verb in verbs if verb == "create"} == {"events"}
