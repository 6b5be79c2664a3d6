"""Reloader's strategies: digests, names, containers and payloads are its own, byte for byte."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

import pytest
from tests.support.objects import NAMESPACE, template

from hotmap.core.model.objects import ObjectKey, PodTemplate
from hotmap.core.reloader.annotations import LAST_RELOADED_FROM, Writing
from hotmap.core.reloader.patch import (
    DELETED,
    Stamp,
    Traces,
    carries,
    digest_of,
    find_traces,
    stamp_patch,
    variable_name,
)

NEW = "dc30e0faa89a70dec1033016a2309bbeb9efcbd0"
APP = ObjectKey("ConfigMap", NAMESPACE, "app")
DB = ObjectKey("Secret", NAMESPACE, "db")


def traces(spec: str, *, annotations: Mapping[str, str] | None = None) -> Traces:
    """Find the traces in a pod template, given as the YAML of its pod spec."""
    made = template(spec)
    if annotations:
        made = PodTemplate(type(made.metadata)(annotations=dict(annotations)), made.spec)
    found = find_traces(made, NAMESPACE)
    assert found is not None
    return found


def digest(data: Mapping[str, str], binary: Mapping[str, bytes] | None = None) -> str:
    entries = [(key.encode(), value.encode()) for key, value in data.items()]
    entries += [(key.encode(), b64encode(value)) for key, value in (binary or {}).items()]
    return digest_of(entries)


# -- the digest -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ({"key": "value"}, "dc30e0faa89a70dec1033016a2309bbeb9efcbd0"),
        ({"a": "1", "b": "2"}, "f83e99e324ba68ccc373a58ef1eb42f8ab88646a"),
        ({"b": "2", "a": "1"}, "f83e99e324ba68ccc373a58ef1eb42f8ab88646a"),
    ],
)
def test_digests_are_equal_to_reloaders(data: dict[str, str], expected: str) -> None:
    """The values that Reloader computes, whatever the order of the data keys."""
    assert digest(data) == expected


def test_entries_are_sorted_as_whole_lines() -> None:
    """`a=` sorts after `a-b=`, since Go sorts the joined texts and not the data keys."""
    assert digest({"a": "1", "a-b": "2"}) == digest_of([(b"a-b", b"2"), (b"a", b"1")])
    assert digest({"a": "1", "a-b": "2"}) == digest({"a-b": "2;a=1"})


def test_its_collisions_are_kept() -> None:
    """Two different contents can share a digest; hotmap therefore never decides by it."""
    assert digest({"a": "1;b=2"}) == digest({"a": "1", "b": "2"})
    assert digest({"k": "aGk="}) == digest({}, {"k": b"hi"})


def test_deleted_source_has_a_digest_of_its_own() -> None:
    """The strategy `annotations` has a digest of its own for a deletion."""
    assert DELETED == "aae45badef99284e4dae01d6046154ea9d99532f"


# -- the variable -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("ConfigMap", "my-config", "STAKATER_MY_CONFIG_CONFIGMAP"),
        ("Secret", "db", "STAKATER_DB_SECRET"),
        ("ConfigMap", "my.config", "STAKATER_MY_CONFIG_CONFIGMAP"),
        ("ConfigMap", "a--b..c", "STAKATER_A_B_C_CONFIGMAP"),
        ("Secret", "v1", "STAKATER_V1_SECRET"),
    ],
)
def test_names_of_variables(kind: str, name: str, expected: str) -> None:
    """Upper case, and each run of signs is one underscore."""
    assert variable_name(ObjectKey(kind, NAMESPACE, name)) == expected


# -- the container ----------------------------------------------------------------------------

MOUNTED_IN_SECOND = """
    containers:
    - name: first
      env:
      - {name: LEVEL, valueFrom: {configMapKeyRef: {name: app, key: LEVEL}}}
    - name: second
      volumeMounts:
      - {name: config, mountPath: /etc/app}
    volumes:
    - {name: config, configMap: {name: app}}
"""
ENV_IN_SECOND = """
    containers:
    - name: first
    - name: second
      envFrom:
      - configMapRef: {name: app}
"""
PROJECTED = """
    containers:
    - name: first
    - name: second
      volumeMounts:
      - {name: all, mountPath: /etc/app}
    volumes:
    - name: all
      projected:
        sources:
        - secret: {name: db}
        - configMap: {name: app}
"""
INIT_ONLY = """
    initContainers:
    - name: prepare
      envFrom:
      - configMapRef: {name: app}
    containers:
    - name: first
    - name: second
"""
INIT_MOUNT = """
    initContainers:
    - name: prepare
      volumeMounts:
      - {name: config, mountPath: /etc/app}
    containers:
    - name: first
    - name: second
      envFrom:
      - configMapRef: {name: app}
    volumes:
    - {name: config, configMap: {name: app}}
"""
VOLUME_WITHOUT_MOUNT = """
    containers:
    - name: first
    - name: second
      envFrom:
      - configMapRef: {name: app}
    volumes:
    - {name: config, configMap: {name: app}}
"""
TWO_VOLUMES = """
    containers:
    - name: first
      volumeMounts:
      - {name: other, mountPath: /b}
    - name: second
      volumeMounts:
      - {name: one, mountPath: /a}
    volumes:
    - {name: one, configMap: {name: app}}
    - {name: other, configMap: {name: app}}
"""
UNUSED = """
    containers:
    - name: first
    - name: second
"""


@pytest.mark.parametrize(
    ("spec", "container"),
    [
        pytest.param(MOUNTED_IN_SECOND, "second", id="a mount goes over an environment"),
        pytest.param(ENV_IN_SECOND, "second", id="environment"),
        pytest.param(PROJECTED, "second", id="projected"),
        pytest.param(INIT_ONLY, "first", id="init containers alone"),
        pytest.param(INIT_MOUNT, "first", id="a mount in an init container"),
        pytest.param(VOLUME_WITHOUT_MOUNT, "second", id="a volume that nothing mounts"),
        pytest.param(TWO_VOLUMES, "second", id="the first volume decides"),
        pytest.param(UNUSED, "first", id="named, not used"),
    ],
)
def test_container_that_is_marked(spec: str, container: str) -> None:
    """The same one that Reloader picks (getContainerUsingResource)."""
    assert traces(spec).container_of(APP) == container


def test_template_without_containers_gets_no_mark() -> None:
    """There is nothing to mark."""
    assert find_traces(PodTemplate(), NAMESPACE) is None


# -- payloads ---------------------------------------------------------------------------------

MARKED = f"""
    containers:
    - name: web
      env:
      - {{name: OTHER, value: kept}}
      - {{name: STAKATER_APP_CONFIGMAP, value: {NEW}}}
"""


def test_variable_that_is_written() -> None:
    """One container, one variable, nothing else."""
    patch = stamp_patch(
        traces(ENV_IN_SECOND), [Stamp(APP, NEW)], Writing.ENV_VARS, namespace=NAMESPACE, now=0
    )
    env = [{"name": "STAKATER_APP_CONFIGMAP", "value": NEW}]
    containers = [{"name": "second", "env": env}]
    assert patch == {"spec": {"template": {"spec": {"containers": containers}}}}


def test_several_sources_are_one_patch() -> None:
    """What changed together is one rollout; each container has its own entries."""
    patch = stamp_patch(
        traces(MOUNTED_IN_SECOND),
        [Stamp(APP, "1"), Stamp(DB, "2")],
        Writing.ENV_VARS,
        namespace=NAMESPACE,
        now=0,
    )
    assert patch["spec"]["template"]["spec"]["containers"] == [
        {"name": "second", "env": [{"name": "STAKATER_APP_CONFIGMAP", "value": "1"}]},
        {"name": "first", "env": [{"name": "STAKATER_DB_SECRET", "value": "2"}]},
    ]


def test_two_sources_that_share_a_variable() -> None:
    """A patch names a variable once, also where two sources' names differ in their signs only."""
    stamps = [Stamp(ObjectKey("ConfigMap", NAMESPACE, n), n) for n in ("my-app", "my.app")]
    patch = stamp_patch(traces(UNUSED), stamps, Writing.ENV_VARS, namespace=NAMESPACE, now=0)
    (container,) = patch["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "STAKATER_MY_APP_CONFIGMAP", "value": "my.app"}]


def test_variable_that_is_right_is_left_alone() -> None:
    """The same value again would write nothing, so nothing is sent."""
    found = traces(MARKED)
    assert carries(found, Stamp(APP, NEW), Writing.ENV_VARS)
    stamps = [Stamp(APP, NEW)]
    assert stamp_patch(found, stamps, Writing.ENV_VARS, namespace=NAMESPACE, now=0) == {}


@pytest.mark.parametrize(
    "stamp", [Stamp(APP, "other"), Stamp(DB, NEW), Stamp(APP, "")], ids=["value", "source", "gone"]
)
def test_variable_that_is_not_right(stamp: Stamp) -> None:
    """Another value, another source, or a source that is gone are not what stands there."""
    assert not carries(traces(MARKED), stamp, Writing.ENV_VARS)


def test_variable_is_removed_by_its_name() -> None:
    """Never by its position, which may be a neighbour's by the time the patch arrives."""
    patch = stamp_patch(
        traces(MARKED), [Stamp(APP, "")], Writing.ENV_VARS, namespace=NAMESPACE, now=0
    )
    (container,) = patch["spec"]["template"]["spec"]["containers"]
    gone = {"name": "STAKATER_APP_CONFIGMAP", "$patch": "delete"}
    assert container == {"name": "web", "env": [gone]}


def test_removal_of_an_unmarked_source_changes_nothing() -> None:
    """A source that was never marked leaves nothing behind."""
    stamps = [Stamp(DB, "")]
    assert stamp_patch(traces(MARKED), stamps, Writing.ENV_VARS, namespace=NAMESPACE, now=0) == {}


def test_annotation_that_is_written() -> None:
    """Go's field order, no spaces, whole seconds."""
    patch = stamp_patch(
        traces(ENV_IN_SECOND),
        [Stamp(APP, NEW)],
        Writing.ANNOTATIONS,
        namespace=NAMESPACE,
        now=1700000000.9,
    )
    assert patch["spec"]["template"]["metadata"]["annotations"] == {
        LAST_RELOADED_FROM: '{"type":"CONFIGMAP","name":"app","namespace":"shop",'
        f'"hash":"{NEW}","containerRefs":["second"],"observedAt":1700000000}}'
    }


def test_annotation_of_a_deleted_source_has_the_digest_of_a_deletion() -> None:
    """It carries the digest that stands for nothing; of several sources the last one stays."""
    patch = stamp_patch(
        traces(UNUSED),
        [Stamp(APP, NEW), Stamp(DB, "")],
        Writing.ANNOTATIONS,
        namespace=NAMESPACE,
        now=0,
    )
    text = patch["spec"]["template"]["metadata"]["annotations"][LAST_RELOADED_FROM]
    assert '"type":"SECRET","name":"db"' in text
    assert f'"hash":"{DELETED}"' in text


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (f'{{"type":"CONFIGMAP","name":"app","namespace":"shop","hash":"{NEW}",'
         '"containerRefs":["web"],"observedAt":1}', True),
        ('{"type":"CONFIGMAP","name":"app","namespace":"shop","hash":"0",'
         '"containerRefs":["web"],"observedAt":1}', False),
        (f'{{"type":"SECRETPROVIDERCLASS","name":"app","namespace":"shop","hash":"{NEW}",'
         '"containerRefs":["web"],"observedAt":1}', False),
        ("{", False),
        ("", False),
    ],
)  # fmt: skip
def test_existing_annotation_proves_matching_content_only(text: str, right: bool) -> None:
    """It proves content only if it can be read and names the same source and digest."""
    found = traces(UNUSED, annotations={LAST_RELOADED_FROM: text})
    assert carries(found, Stamp(APP, NEW), Writing.ANNOTATIONS) is right


def test_hotmaps_own_way_leaves_no_stamp() -> None:
    """Under `revision` a variable of Reloader's proves nothing."""
    assert not carries(traces(MARKED), Stamp(APP, NEW), Writing.REVISION)
