"""The environment of a container, case by case as a real kubelet resolves it."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotmap.core.errors import NotFound
from hotmap.core.expansion import expand
from hotmap.local.kubelet.environment import (
    ConfigError,
    SourceName,
    expand_command,
    expand_sub_path,
    make_environment,
    service_variables,
    visible_services,
    wanted_sources,
    with_runtime_defaults,
)

POD: dict[str, Any] = {
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "uid": "u-1",
        "labels": {"app": "web"},
        "annotations": {"team": "blue"},
    },
    "spec": {
        "nodeName": "local",
        "serviceAccountName": "default",
        "containers": [{"name": "app"}, {"name": "other", "resources": {"limits": {"cpu": "2"}}}],
    },
    "status": {"podIP": "127.1.0.1", "podIPs": [{"ip": "127.1.0.1"}], "hostIP": "127.0.0.1"},
}
SOURCES: dict[SourceName, dict[str, Any] | NotFound] = {
    SourceName("ConfigMap", "cfg"): {
        "data": {"level": "very", "a.b": "dotted"},
        "binaryData": {"blob": base64.b64encode(b"x").decode()},
    },
    SourceName("ConfigMap", "second"): {"data": {"level": "less"}},
    SourceName("Secret", "key"): {"data": {"token": base64.b64encode(b"\xff\xfe").decode()}},
    SourceName("ConfigMap", "nope"): NotFound('configmap "nope" not found'),
    SourceName("Secret", "nope"): NotFound('secret "nope" not found'),
}


def from_map(name: str, **more: Any) -> dict[str, Any]:
    return {"configMapRef": {"name": name}, **more}


def key(name: str, data_key: str, *, kind: str = "configMap", **more: Any) -> dict[str, Any]:
    return {"valueFrom": {f"{kind}KeyRef": {"name": name, "key": data_key, **more}}}


def field(path: str) -> dict[str, Any]:
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}


def environment(**container: Any) -> dict[str, str]:
    return make_environment(POD, {"name": "app", **container}, SOURCES, allocatable={"cpu": "4"})


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"envFrom": [from_map("cfg")]}, {"level": "very", "a.b": "dotted"}),
        (
            {"envFrom": [from_map("cfg", prefix="P_")]},
            {"P_level": "very", "P_a.b": "dotted"},
        ),
        (
            {"envFrom": [from_map("cfg"), from_map("second")]},
            {"level": "less", "a.b": "dotted"},
        ),
        (
            {"envFrom": [from_map("second")], "env": [{"name": "level", "value": "own"}]},
            {"level": "own"},
        ),
        (
            {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]},
            {"A": "12"},
        ),
        (
            {"env": [{"name": "A", "value": "$(B)"}, {"name": "B", "value": "b"}]},
            {"A": "$(B)", "B": "b"},
        ),
        (
            {"envFrom": [from_map("second")], "env": [{"name": "A", "value": "is $(level)"}]},
            {"level": "less", "A": "is less"},
        ),
        (
            {"env": [{"name": "A", **key("cfg", "level")}, {"name": "B", "value": "$(A)!"}]},
            {"A": "very", "B": "very!"},
        ),
        (
            {
                "envFrom": [from_map("second")],
                "env": [{"name": "level", **key("cfg", "gone", optional=True)}],
            },
            {"level": "less"},
        ),
        (
            {"env": [{"name": "A", **key("nope", "gone", optional=True)}]},
            {},
        ),
        ({"envFrom": [{"configMapRef": {"name": "nope", "optional": True}}]}, {}),
        ({"env": [{"name": "A", "value": ""}]}, {"A": ""}),
        ({"env": [{"name": "A"}]}, {"A": ""}),
        ({"env": [{"name": "A", **key("key", "token", kind="secret")}]}, {"A": "\udcff\udcfe"}),
        (
            {"env": [{"name": "A", **field("metadata.name")}]},
            {"A": "web-1"},
        ),
        ({"env": [{"name": "A", **field("metadata.labels['app']")}]}, {"A": "web"}),
        ({"env": [{"name": "A", **field("metadata.annotations['none']")}]}, {"A": ""}),
        ({"env": [{"name": "A", **field("status.podIPs")}]}, {"A": "127.1.0.1"}),
        ({"env": [{"name": "A", **field("spec.nodeName")}]}, {"A": "local"}),
    ],
    ids=[
        "every data key of envFrom, binaryData ignored",
        "a prefix goes before each name",
        "a later envFrom wins",
        "env wins over envFrom",
        "a later entry sees the earlier value of its own name",
        "a forward reference stays as it is",
        "a value may refer to a name from envFrom",
        "a value may refer to a name from a source",
        "an optional missing data key leaves what was there",
        "an optional missing object sets nothing",
        "an optional missing envFrom object sets nothing",
        "an empty value is set",
        "a name without value is set to nothing",
        "bytes that are not valid UTF-8 are kept",
        "a field of the pod",
        "a label",
        "a missing annotation is an empty text",
        "a list of addresses",
        "the node's name",
    ],
)
def test_container_has_exactly_these_variables(
    container: dict[str, Any], expected: dict[str, str]
) -> None:
    """A container's variables are these, and no others."""
    assert environment(**container) == expected


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({"envFrom": [from_map("nope")]}, 'configmap "nope" not found'),
        ({"envFrom": [{"secretRef": {"name": "nope"}}]}, 'secret "nope" not found'),
        (
            {"env": [{"name": "A", **key("cfg", "zz")}]},
            "couldn't find key zz in ConfigMap shop/cfg",
        ),
        (
            {"env": [{"name": "A", **key("key", "zz", kind="secret")}]},
            "couldn't find key zz in Secret shop/key",
        ),
        ({"env": [{"name": "A", **field("spec.what")}]}, "unsupported fieldPath: spec.what"),
    ],
)
def test_missing_source_has_kubelet_message(container: dict[str, Any], message: str) -> None:
    """A missing source or data key that is not optional stops the container, with its name."""
    with pytest.raises(ConfigError) as raised:
        environment(**container)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("resource", "divisor", "limits", "expected"),
    [
        ("limits.cpu", "1", {"cpu": "1250m"}, "2"),
        ("limits.cpu", "1m", {"cpu": "1250m"}, "1250"),
        ("limits.memory", "1Mi", {"memory": "64Mi"}, "64"),
        ("limits.memory", "", {"memory": "1Ki"}, "1024"),
        ("limits.cpu", "", {}, "4"),
        ("requests.cpu", "", {}, "0"),
    ],
)
def test_resource_divisor_rounds_up(
    resource: str, divisor: str, limits: dict[str, str], expected: str
) -> None:
    """A resourceFieldRef counts in its divisor; a limit not set is what the node offers."""
    reference = {"resource": resource, "divisor": divisor}
    env = [{"name": "A", "valueFrom": {"resourceFieldRef": reference}}]
    assert environment(env=env, resources={"limits": limits}) == {"A": expected}


def test_resource_of_other_container_is_named_by_container_name() -> None:
    """containerName says whose limit is meant."""
    reference = {"resource": "limits.cpu", "containerName": "other"}
    env = [{"name": "A", "valueFrom": {"resourceFieldRef": reference}}]
    assert environment(env=env) == {"A": "2"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$(A)", "$$(A)"),
        ("$(NO)", "$(NO)"),
        ("$(A", "$(A"),
        ("$A ${A}", "$A ${A}"),
        ("100$", "100$"),
        ("$$", "$"),
        ("$(B)", "$(A)"),
        ("$()", "$()"),
        ("x$(A)y$(A)z", "x1y1z"),
        ("$(A)$", "1$"),
    ],
)
def test_references_are_replaced_in_one_pass(text: str, expected: str) -> None:
    """References are replaced in one pass; everything else stays byte for byte."""
    assert expand(text, {"A": "1", "B": "$(A)"}.get) == expected


@given(st.text(alphabet="ab(){ \\"))
def test_expansion_keeps_text_without_dollars(text: str) -> None:
    """Only a dollar sign has a meaning."""
    assert expand(text, {"a": "1"}.get) == text


@given(st.text(alphabet="a$()b"))
def test_expansion_reads_double_dollar_as_one(text: str) -> None:
    """`$$` stands for `$`, so a text whose dollars are doubled comes out as it was."""
    assert expand(text.replace("$", "$$"), {"a": "1", "": "2"}.get) == text


@given(st.text(alphabet="a$()b"))
def test_expansion_without_variables_replaces_nothing(text: str) -> None:
    """Without variables only `$$` is shortened, and nothing is ever lost or added."""
    nothing: dict[str, str] = {}
    result = expand(text, nothing.get)
    assert result.replace("$", "") == text.replace("$", "")
    assert len(text) - text.count("$") // 2 <= len(result) <= len(text)


def test_command_and_arguments_use_the_final_environment() -> None:
    """W3: `echo $(SPECIAL_LEVEL_KEY)` is expanded before the command starts."""
    container = {"command": ["sh", "-c", "echo $(K) $K"], "args": ["$(K)", "$$(K)"]}
    assert expand_command(container, {"K": "v"}) == ["sh", "-c", "echo v $K", "v", "$(K)"]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("$(NO)", "missing value for NO"),
        ("$(EMPTY)", "missing value for EMPTY"),
        ("$(UP)/x", "subPath `../x` must not contain '..'"),
        ("$(ROOT)", "subPath `/etc` must not be an absolute path"),
    ],
)
def test_invalid_sub_path_is_refused(expression: str, message: str) -> None:
    """A subPathExpr needs all its variables and stays inside the volume."""
    with pytest.raises(ConfigError) as raised:
        expand_sub_path(expression, {"EMPTY": "", "UP": "..", "ROOT": "/etc"})
    assert str(raised.value) == message


def test_sub_path_expression_is_expanded() -> None:
    """A subPathExpr may hold several references."""
    assert expand_sub_path("$(A)/$(B)", {"A": "x", "B": "y"}) == "x/y"


def test_sources_are_collected_once() -> None:
    """What has to be fetched for a container, without repetition."""
    container = {
        "envFrom": [from_map("cfg"), {"secretRef": {"name": "key"}}],
        "env": [{"name": "A", **key("cfg", "level")}, {"name": "B", "value": "b"}],
    }
    assert wanted_sources(container) == [
        SourceName("ConfigMap", "cfg"),
        SourceName("Secret", "key"),
    ]


SERVICE = {
    "metadata": {"name": "my-db", "namespace": "shop"},
    "spec": {
        "clusterIP": "10.0.0.9",
        "ports": [{"name": "sql", "port": 5432}, {"port": 53, "protocol": "UDP"}],
    },
}


def test_service_variables_have_both_forms() -> None:
    """The Kubernetes form and the link form of each Service."""
    assert service_variables([SERVICE]) == {
        "MY_DB_SERVICE_HOST": "10.0.0.9",
        "MY_DB_SERVICE_PORT": "5432",
        "MY_DB_SERVICE_PORT_SQL": "5432",
        "MY_DB_PORT": "tcp://10.0.0.9:5432",
        "MY_DB_PORT_5432_TCP": "tcp://10.0.0.9:5432",
        "MY_DB_PORT_5432_TCP_PROTO": "tcp",
        "MY_DB_PORT_5432_TCP_PORT": "5432",
        "MY_DB_PORT_5432_TCP_ADDR": "10.0.0.9",
        "MY_DB_PORT_53_UDP": "udp://10.0.0.9:53",
        "MY_DB_PORT_53_UDP_PROTO": "udp",
        "MY_DB_PORT_53_UDP_PORT": "53",
        "MY_DB_PORT_53_UDP_ADDR": "10.0.0.9",
    }


def test_pod_variable_overrides_service_variable() -> None:
    """Services fill in names that the pod does not set, and can be referred to."""
    container = {"name": "app", "env": [{"name": "A", "value": "$(MY_DB_SERVICE_HOST)"}]}
    env = make_environment(POD, container, {}, services=[SERVICE])
    assert env["A"] == "10.0.0.9"
    container["env"] = [{"name": "MY_DB_SERVICE_HOST", "value": "mine"}]
    env = make_environment(POD, container, {}, services=[SERVICE])
    assert env["MY_DB_SERVICE_HOST"] == "mine"


def test_services_of_the_namespace_are_visible_unless_disabled() -> None:
    """default/kubernetes always; those of the namespace unless service links are off."""
    master: dict[str, Any] = {
        "metadata": {"name": "kubernetes", "namespace": "default"},
        "spec": {"clusterIP": "10.0.0.1"},
    }
    headless: dict[str, Any] = {
        "metadata": {"name": "headless", "namespace": "shop"},
        "spec": {"clusterIP": "None"},
    }
    elsewhere = {**SERVICE, "metadata": {"name": "my-db", "namespace": "other"}}
    services = [SERVICE, master, headless, elsewhere]
    assert visible_services(POD, services) == [SERVICE, master]
    unlinked = {**POD, "spec": {**POD["spec"], "enableServiceLinks": False}}
    assert visible_services(unlinked, services) == [master]


def test_runtime_adds_unset_variables_only() -> None:
    """PATH, HOSTNAME, HOME and TERM come from the runtime, unless the pod sets them."""
    env = with_runtime_defaults({"PATH": "/mine"}, hostname="web-1", home="/root")
    assert env == {"PATH": "/mine", "HOSTNAME": "web-1", "HOME": "/root"}
    of_terminal = with_runtime_defaults({}, hostname="web-1", home="/root", tty=True)
    assert of_terminal["TERM"] == "xterm"
    own = with_runtime_defaults({"TERM": "vt100"}, hostname="web-1", home="/root", tty=True)
    assert own["TERM"] == "vt100"
