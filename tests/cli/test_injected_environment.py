"""A supervised application gets the environment that the kubelet would have built.

The oracle is the kubelet's algorithm, written down from its source; what is held against it is the
manifest after injection, with its volumes as the kubelet would mount them, its container's
environment and command as the kubelet would make them, and then the agent's own code.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotmap.agent.process.environment import make_environment
from hotmap.agent.settings.flags import parse_arguments
from hotmap.agent.settings.loader import load_settings
from hotmap.cli.injection.agent_addition import add_agent
from hotmap.cli.injection.environment import convert_environment
from hotmap.cli.injection.injection import Injection
from hotmap.cli.injection.record import AgentNames
from hotmap.core.expansion import expand

Sources = dict[tuple[str, str], dict[str, str]]

SERVICES = {"SVC_PORT": "tcp://1"}


class DoesNotStart(Exception):
    """A source or data key that has to be there is not."""


def kubelet_environment(container: dict[str, Any], sources: Sources) -> dict[str, str]:
    """Build a container's environment (kubernetes: kubelet_pods.go, makeEnvironmentVariables)."""
    result: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        kind = "configMap" if "configMapRef" in source else "secret"
        reference = source[f"{kind}Ref"]
        found = sources.get((kind, reference["name"]))
        if found is None:
            if not reference.get("optional"):
                raise DoesNotStart
            continue
        result |= {source.get("prefix", "") + key: value for key, value in found.items()}
    for variable in container.get("env") or ():
        if variable.get("value"):
            result[variable["name"]] = expand(variable["value"], {**SERVICES, **result}.get)
            continue
        source = variable.get("valueFrom")
        value: str | None = ""
        for kind in ("configMap", "secret"):
            if source and f"{kind}KeyRef" in source:
                reference = source[f"{kind}KeyRef"]
                value = sources.get((kind, reference["name"]), {}).get(reference["key"])
                if value is None and not reference.get("optional"):
                    raise DoesNotStart
        if source and "fieldRef" in source:
            value = "of the pod"
        if value is not None:
            result[variable["name"]] = value
    return {**SERVICES, **result}


def mounted(volume: dict[str, Any], sources: Sources) -> dict[str, bytes]:
    """Show a volume's files (kubernetes: pkg/volume/{configmap,secret,projected}).

    The API server refuses a projected volume in which a path is named twice.
    """
    files: dict[str, bytes] = {}
    parts = volume["projected"]["sources"] if "projected" in volume else [volume]
    sources_of = [part.get("configMap") or part["secret"] for part in parts]
    paths = [item["path"] for source in sources_of for item in source.get("items", ())]
    assert len(set(paths)) == len(paths)
    for part in parts:
        kind = "configMap" if "configMap" in part else "secret"
        source = part[kind]
        found = sources.get((kind, source.get("secretName") or source["name"]))
        if found is None and not source.get("optional"):
            raise DoesNotStart
        everything = [{"key": key, "path": key} for key in found or ()]
        for item in source.get("items", everything):
            if found is None or item["key"] not in found:
                if not source.get("optional"):
                    raise DoesNotStart
                continue
            files[item["path"]] = found[item["key"]].encode()
    return files


def supervised(pod: dict[str, Any], sources: Sources) -> tuple[list[str], dict[str, str]]:
    """Start an injected pod's application: its words and its environment."""
    container = pod["spec"]["containers"][0]
    inherited = kubelet_environment(container, sources)
    command = [expand(argument, inherited.get) for argument in container["command"]]
    arguments = [expand(arg, inherited.get) for arg in container.get("args") or ()]
    settings = load_settings(parse_arguments([*command[2:], *arguments]))
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    places = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    application = settings.application
    contents = {
        item.directory: mounted(places[item.directory], sources) for item in application.env_from
    }
    environment = make_environment(inherited, contents, application.env_from, application.env)
    return [expand(argument, environment.get) for argument in application.command], environment


def plain(pod: dict[str, Any], sources: Sources) -> tuple[list[str], dict[str, str]]:
    container = pod["spec"]["containers"][0]
    environment = kubelet_environment(container, sources)
    words = [*container["command"], *(container.get("args") or ())]
    return [expand(word, environment.get) for word in words], environment


def both(pod: dict[str, Any], sources: Sources) -> list[object]:
    """Return the results without and with a supervisor."""
    injection = Injection("hotmap:1", "", (), "supervisor")
    new, _ = add_agent(pod, injection, "Pod/x", lambda _: None, names=AgentNames())
    outcomes: list[object] = []
    for start, which in ((plain, pod), (supervised, new)):
        try:
            outcomes.append(start(which, sources))
        except DoesNotStart:
            outcomes.append("does not start")
    return outcomes


def pod(**container: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "app", "image": "app", **container}]}}


NAMES = st.sampled_from(["A", "B", "C", "P_A"])
TEXTS = st.lists(
    st.sampled_from(
        ["x", "y", "$(A)", "$(B)", "$(C)", "$(P_A)", "$$(A)", "$", "$$", "$(SVC_PORT)", "$("]
    ),
    max_size=4,
).map("".join)
OBJECTS = st.sampled_from(["s", "t", "missing"])
KEYS = st.fixed_dictionaries(
    {"name": OBJECTS, "key": st.sampled_from(["A", "B", "k"])},
    optional={"optional": st.booleans()},
)
OBJECT = st.fixed_dictionaries({"name": OBJECTS}, optional={"optional": st.booleans()})
ENV = st.lists(
    st.one_of(
        st.fixed_dictionaries({"name": NAMES, "value": TEXTS}),
        st.fixed_dictionaries(
            {"name": NAMES, "valueFrom": st.fixed_dictionaries({"configMapKeyRef": KEYS})}
        ),
        st.fixed_dictionaries(
            {"name": NAMES, "valueFrom": st.fixed_dictionaries({"secretKeyRef": KEYS})}
        ),
        st.fixed_dictionaries(
            {"name": NAMES, "valueFrom": st.just({"fieldRef": {"fieldPath": "spec.nodeName"}})}
        ),
    ),
    max_size=5,
)
ENV_FROM = st.lists(
    st.one_of(
        st.fixed_dictionaries({"configMapRef": OBJECT}, optional={"prefix": st.just("P_")}),
        st.fixed_dictionaries({"secretRef": OBJECT}, optional={"prefix": st.just("P_")}),
    ),
    max_size=3,
)
VALUES = st.dictionaries(st.sampled_from(["A", "B", "k"]), st.sampled_from(["1", "$(A)", "$$"]))


def refers_forward(env: list[dict[str, Any]]) -> bool:
    """Return whether a text refers to a name that a later entry sets, and no earlier one."""
    for index, variable in enumerate(env):
        before = {other["name"] for other in env[:index]}
        later = {other["name"] for other in env[index + 1 :]} - before
        if any(f"$({name})" in str(variable.get("value") or "") for name in later):
            return True
    return False


def tangled(env: list[dict[str, Any]]) -> bool:
    """Return whether texts take part where a data key's variable goes over others of its name."""
    for index, variable in enumerate(env):
        others = [other for other in env[:index] if other["name"] == variable["name"]]
        if "KeyRef" in str(variable) and any("KeyRef" not in str(other) for other in others):
            texts = [str(other.get("value") or "") for other in others]
            everywhere = "".join(str(other.get("value") or "") for other in env)
            if any("$" in text for text in texts) or f"$({variable['name']})" in everywhere:
                return True
    return False


def refers_between(env: list[dict[str, Any]]) -> bool:
    """Return whether a text refers to a name that sources set before it and after it.

    Not where the one before is a data key that has to be there, and the one after is none.
    """
    for index, variable in enumerate(env):
        before = {other["name"]: other.get("valueFrom", {}) for other in env[:index]}
        for other in env[index + 1 :]:
            earlier, later = before.get(other["name"]), other.get("valueFrom")
            if not earlier or not later or f"$({other['name']})" not in str(variable.get("value")):
                continue
            if "KeyRef" in str(later) or "'optional': True" in str(earlier):
                return True
    return False


@settings(max_examples=100, deadline=None)
@given(ENV, ENV_FROM, st.lists(TEXTS, max_size=3), st.tuples(VALUES, VALUES, VALUES))
def test_converted_environment_equals_the_kubelets(
    env: list[dict[str, Any]],
    env_from: list[dict[str, Any]],
    words: list[str],
    values: tuple[dict[str, str], dict[str, str], dict[str, str]],
) -> None:
    """The same words and variables as without a supervisor, and the same refusal to start.

    Left out, as the notes say: a text that refers to a variable which an envFrom and a later entry
    both set, since data keys decide which of them it means; texts with references among several
    entries of one name of which one stays fixed; and a text that refers to a name which data keys
    set before it and after it.
    """
    sources: Sources = {
        ("configMap", "s"): values[0],
        ("configMap", "t"): values[1],
        ("secret", "s"): values[2],
    }
    if (refers_forward(env) and env_from) or tangled(env) or refers_between(env):
        return
    manifest = pod(command=["app", *words], args=words, env=env, envFrom=env_from)
    if not convert_environment(manifest["spec"]["containers"][0], AgentNames()).mounts:
        return  # nothing of a source in it, or nothing that files could say
    without, around = both(manifest, sources)
    assert around == without


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ([{"name": "A", "value": "own"}], "own"),
        ([{"name": "A", "value": "$(A)+"}], "file+"),
        ([{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}], "12"),
        ([{"name": "A", "value": "$$(A)"}], "$(A)"),
        (
            [{"name": "A", "value": "x"}, {"name": "B", "value": "$(A)"},
             {"name": "A", "value": "y"}],
            "y",
        ),
        (
            [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "none",
                                                            "optional": True}}}],
            "file",
        ),
        (
            [{"name": "A", "value": "own"},
             {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}}],
            "of a key",
        ),
        (
            [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
             {"name": "A", "value": "own"},
             {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "none",
                                                            "optional": True}}}],
            "own",
        ),
    ],
    ids=["env goes over", "of itself", "twice", "escaped", "in between", "optional key",
         "a key goes over", "three of one name"],
)  # fmt: skip
def test_environment_precedence_matches_the_kubelet(
    env: list[dict[str, Any]], expected: str
) -> None:
    """A few that are easily got wrong, by name."""
    manifest = pod(command=["app"], env=env, envFrom=[{"configMapRef": {"name": "s"}}])
    sources = {("configMap", "s"): {"A": "file", "k": "of a key"}}
    without, around = both(manifest, sources)
    assert around == without
    assert isinstance(around, tuple)
    assert around[1]["A"] == expected


def test_edit_changes_the_environment() -> None:
    """What was frozen in the container now comes from files: also a data key that is gone."""
    manifest = pod(command=["app"], envFrom=[{"configMapRef": {"name": "s"}}])
    injection = Injection("hotmap:1", "", (), "supervisor")
    new, notes = add_agent(manifest, injection, "Pod/x", lambda _: None, names=AgentNames())
    assert notes == []
    assert new["spec"]["containers"][0]["envFrom"] == []
    for values in ({"A": "1"}, {"B": "2"}, {}):
        assert supervised(new, {("configMap", "s"): values})[1] == {**SERVICES, **values}


def test_unconverted_variable_is_noted() -> None:
    """A variable that files cannot give stays in the container, and a note says which."""
    env = [
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "a/b", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}},
        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}},
    ]
    injection = Injection("hotmap:1", "", (), "supervisor")
    given = pod(command=["app"], env=env)
    new, notes = add_agent(given, injection, "Pod/x", lambda _: None, names=AgentNames())
    assert new["spec"]["containers"][0]["env"] == env[:3]
    assert notes == [
        "Pod/x: A of Secret/s, which overrides another A, stays fixed until the container restarts",
        "Pod/x: a/b of ConfigMap/s, which is not a valid file name, stays fixed until the "
        "container restarts",
    ]


def test_ambiguous_reference_is_noted() -> None:
    """Whether an envFrom sets a variable that a later entry sets is not in the manifest."""
    env = [
        {"name": "URL", "value": "http://$(HOST)"},
        {"name": "HOST", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}},
    ]
    injection = Injection("hotmap:1", "", (), "supervisor")
    manifest = pod(command=["app"], env=env, envFrom=[{"configMapRef": {"name": "s"}}])
    assert add_agent(manifest, injection, "Pod/x", lambda _: None, names=AgentNames())[1] == [
        "Pod/x: URL refers to HOST, which is set after it and possibly by an envFrom too; it gets "
        "the value that is set after it"
    ]


@pytest.mark.parametrize(
    ("first", "last", "noted"),
    [
        ({"configMapKeyRef": {"name": "s", "key": "j"}},
         {"configMapKeyRef": {"name": "s", "key": "k"}}, True),
        ({"configMapKeyRef": {"name": "s", "key": "j", "optional": True}},
         {"fieldRef": {"fieldPath": "spec.nodeName"}}, True),
        ({"configMapKeyRef": {"name": "s", "key": "j"}},
         {"fieldRef": {"fieldPath": "spec.nodeName"}}, False),
    ],
    ids=["two data keys", "an optional data key and a field", "a data key and a field"],
)  # fmt: skip
def test_reference_between_two_sources_is_noted(
    first: dict[str, Any], last: dict[str, Any], noted: bool
) -> None:
    """A file has one value, so a text between two sources of a variable may get the later one."""
    env = [
        {"name": "HOST", "valueFrom": first},
        {"name": "URL", "value": "http://$(HOST)"},
        {"name": "HOST", "valueFrom": last},
    ]
    note = (
        "Pod/x: URL refers to HOST, which is set before and after it; it may get the value that "
        "is set after it"
    )
    injection = Injection("hotmap:1", "", (), "supervisor")
    given = pod(command=["app"], env=env)
    _, notes = add_agent(given, injection, "Pod/x", lambda _: None, names=AgentNames())
    assert notes == [note] * noted
