"""What each mode of `hotmap inject` adds to a pod, and what it does not."""

from __future__ import annotations

import random
from typing import Any

import pytest
import yaml

from hotmap.agent.settings.flags import parse_arguments
from hotmap.agent.settings.loader import load_settings
from hotmap.agent.settings.settings import Settings
from hotmap.cli.inject import Injection, inject
from hotmap.core.errors import ManifestError, SettingsError

IMAGE = "hotmap:1"
FROZEN = ("--restart-on", "frozen")

BASE = """\
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata: {labels: {app: web}}
    spec:
      securityContext: {runAsUser: 1000}
      terminationGracePeriodSeconds: 40
      containers:
      - name: app
        image: app
        command: [app, --run]
        envFrom:
        - configMapRef: {name: all}
        volumeMounts:
        - {name: conf, mountPath: /etc/app}
        - {name: more, mountPath: /opt/conf.d/}
        - {name: cache, mountPath: /cache}
      volumes:
      - {name: conf, configMap: {name: app, defaultMode: 0440}}
      - {name: more, secret: {secretName: more, defaultMode: 0440}}
      - {name: cache, emptyDir: {}}
"""


#: An action, which needs no program in the agent's image and no process.
CALL = ("--url", "http://127.0.0.1:8080/reload")


def edited(change: str, by: str) -> str:
    assert change in BASE
    return BASE.replace(change, by)


def run(text: str = BASE, *flags: str, **fields: Any) -> tuple[dict[str, Any], list[str]]:
    """Inject and give the pod's spec, with the template's annotations in it, and the notes."""
    injection = Injection(IMAGE, fields.pop("container", ""), flags, **fields)
    result, notes = inject(text, injection, "web.yaml")
    assert inject(result, None, "web.yaml")[0] == text
    document = yaml.safe_load(result)
    template = document["spec"]["template"] if document["kind"] != "Pod" else document
    annotations = (template.get("metadata") or {}).get("annotations")
    return {**template["spec"], "annotations": annotations}, notes


def named(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = [item for item in items if item["name"] == name]
    return found


def agent(spec: dict[str, Any]) -> dict[str, Any]:
    everyone = [*spec.get("initContainers", ()), *spec["containers"]]
    return named(everyone, "hotmap-agent")


def app(spec: dict[str, Any]) -> dict[str, Any]:
    return named(spec["containers"], "app")


def settings_of(words: list[str]) -> Settings:
    return load_settings(parse_arguments(words))


def mounts(container: dict[str, Any]) -> dict[str, str]:
    return {
        mount["mountPath"]: "/".join(filter(None, (mount["name"], mount.get("subPath", ""))))
        for mount in container["volumeMounts"]
    }


# Beside the application


def test_native_sidecar_is_a_restarting_init_container() -> None:
    """An init container that restarts always; the application's container is not touched."""
    spec, _ = run()
    assert app(spec) == yaml.safe_load(BASE)["spec"]["template"]["spec"]["containers"][0]
    assert agent(spec)["restartPolicy"] == "Always"
    assert settings_of(agent(spec)["args"][1:]).watch.directories == ("/etc/app", "/opt/conf.d")
    assert agent(spec)["livenessProbe"] == {"httpGet": {"path": "/healthz", "port": 9533}}
    assert "readinessProbe" not in agent(spec)
    assert "startupProbe" not in agent(spec)
    assert spec["annotations"] == {"hotmap.dev/agent": "port=9533;container=app;restart=none"}


def test_sidecar_is_an_additional_container() -> None:
    """For clusters before 1.29: nothing of it is newer than that."""
    spec, _ = run(mode="sidecar")
    assert [container["name"] for container in spec["containers"]] == ["app", "hotmap-agent"]
    assert "initContainers" not in spec
    assert not {"restartPolicy", "restartPolicyRules", "startupProbe"} & set(agent(spec))


def test_init_mode_checks_once() -> None:
    """It has what it checks, no port, no annotation, and nothing of the pod's."""
    spec, _ = run(BASE, "--check", "true", mode="init")
    settings = settings_of(agent(spec)["args"][1:])
    assert settings.once
    assert settings.reports.listen is None
    assert spec["annotations"] is None
    assert not {"ports", "livenessProbe", "restartPolicy"} & set(agent(spec))
    volumes = [volume["name"] for volume in spec["volumes"]]
    assert volumes == ["conf", "more", "cache", "hotmap-run"]


def test_listen_flag_sets_the_port() -> None:
    """Probes, port and annotation follow --listen; with none there is none of them."""
    spec, _ = run(BASE, "--listen", ":7000")
    assert spec["annotations"]["hotmap.dev/agent"] == "port=7000;container=app;restart=none"
    assert agent(spec)["ports"][0]["containerPort"] == 7000
    assert agent(spec)["livenessProbe"]["httpGet"]["port"] == 7000
    spec, _ = run(BASE, "--listen", "none")
    assert spec["annotations"]["hotmap.dev/agent"] == "container=app;restart=none"
    assert not {"ports", "livenessProbe"} & set(agent(spec))


@pytest.mark.parametrize(
    ("text", "flags", "user", "expected"),
    [
        (BASE, (), None, (1000, True)),
        (edited("image: app\n", "image: app\n        securityContext: {runAsUser: 7}\n"),
         (), None, (7, True)),
        (edited("securityContext: {runAsUser: 1000}", "securityContext: {}"),
         (), None, (65532, True)),
        (edited("securityContext: {runAsUser: 1000}", "securityContext: {}"),
         ("--for", "nginx"), None, (None, None)),
        (edited("securityContext: {runAsUser: 1000}", "securityContext: {}"),
         ("--for", "nginx"), 0, (0, False)),
    ],
    ids=["the pod's", "the container's", "no user", "unknown, for signals", "as said"],
)  # fmt: skip
def test_agent_runs_as_the_applications_user(
    text: str, flags: tuple[str, ...], user: int | None, expected: tuple[Any, Any]
) -> None:
    """The application's, since signals and files may be for it alone; any, where that is open."""
    context = agent(run(text, *flags, user=user)[0])["securityContext"]
    assert (context.get("runAsUser"), context.get("runAsNonRoot")) == expected


def test_unreadable_volume_is_noted() -> None:
    """A volume for one user or group, where the manifest says neither."""
    without = edited("securityContext: {runAsUser: 1000}", "securityContext: {}")
    notes = run(without, *CALL)[1]
    assert [note.split(" and")[0] for note in notes] == [
        "web.yaml: Deployment/web: volume conf has mode 0440",
        "web.yaml: Deployment/web: volume more has mode 0440",
    ]
    assert run(edited("runAsUser: 1000", "fsGroup: 5"), *CALL)[1] == []


def test_agent_without_an_action_is_noted() -> None:
    """It reloads nothing; an application that reads a stage, or rules, may need no action."""
    expected = (
        "web.yaml: Deployment/web: the agent has no action (--for, --signal, --url, --exec, "
        "--restart), so the application must read changed files by itself"
    )
    assert run()[1] == [expected]
    assert run(BASE, "--check", "true")[1] == [expected]
    assert run(BASE, *CALL)[1] == []
    assert expected not in run(BASE, "--rules", "/etc/rules.toml")[1]
    assert run(stage=True)[1] == []
    assert run(mode="init")[1] == []


@pytest.mark.parametrize(
    ("flags", "fields", "limit"),
    [
        ((), {}, "64Mi"),
        (("--check", "true"), {}, "256Mi"),
        (tuple(f"--dir=/more/{number}" for number in range(8)), {}, "74Mi"),
        (("--check", "true"), {"mode": "supervisor"}, "64Mi"),
    ],
    ids=["two directories", "a checker", "ten directories", "the supervisor's init container"],
)
def test_memory_limit_grows_with_directories(
    flags: tuple[str, ...], fields: dict[str, Any], limit: str
) -> None:
    """Content lies in memory, and a checker runs in the agent's container."""
    assert agent(run(BASE, *flags, **fields)[0])["resources"]["limits"] == {"memory": limit}


def test_shared_process_namespace_is_kept() -> None:
    """With the node's, the API server refuses to share the pod's."""
    term = (*FROZEN, "--restart", "term", "--process", "pidfile:/run/app.pid")
    spec, _ = run(edited("      containers:\n", "      hostPID: true\n      containers:\n"), *term)
    assert "shareProcessNamespace" not in spec


def test_flags_are_escaped_for_the_kubelet() -> None:
    """The kubelet would expand $(NAME) in a flag; it is written so that it does not."""
    spec, _ = run(BASE, "--check", "sh -c 'test $(wc -c < {dir}/a) -gt 0 && echo $$ $HOME'")
    words = agent(spec)["args"]
    assert words[words.index("--check") + 1] == (
        "sh -c 'test $$(wc -c < {dir}/a) -gt 0 && echo $$$$ $$HOME'"
    )


def test_default_container_is_the_one_with_sources() -> None:
    """With several containers the name is needed only when more than one could be meant."""
    two = edited("      volumes:\n", "      - {name: proxy, image: proxy}\n      volumes:\n")
    assert settings_of(agent(run(two)[0])["args"][1:]).watch.directories[0] == "/etc/app"
    three = two.replace("image: proxy}", "image: proxy, envFrom: [{secretRef: {name: s}}]}")
    with pytest.raises(ManifestError, match=r"2 containers \(app, proxy\); choose one with --c"):
        run(three)
    with pytest.raises(ManifestError, match="container proxy mounts no ConfigMap or Secret"):
        run(three, container="proxy")
    none = "kind: Pod\nspec: {containers: [{name: a, image: a}, {name: b, image: b}]}\n"
    with pytest.raises(ManifestError, match="no container uses a ConfigMap or Secret"):
        run(none)


# A stage


def test_stage_replaces_the_source_mounts() -> None:
    """At the same paths, read-only; the agent has the sources, where it sees the same paths."""
    spec, notes = run(BASE, "--check", "true", stage=True)
    assert notes == []
    assert mounts(app(spec)) == {
        "/etc/app": "hotmap-stage/app",
        "/opt/conf.d/": "hotmap-stage/conf.d",
        "/cache": "cache",
    }
    assert all(mount.get("readOnly") for mount in app(spec)["volumeMounts"][:2])
    settings = settings_of(agent(spec)["args"][1:])
    assert settings.checks.stage == "/hotmap/stage"
    assert settings.checks.stage_mode is None  # each file keeps its own
    assert settings.watch.directories == ("/etc/app", "/opt/conf.d")
    probe = agent(spec)["startupProbe"]
    assert probe["httpGet"]["path"] == "/startupz"
    stage = named(spec["volumes"], "hotmap-stage")
    assert stage["emptyDir"] == {"medium": "Memory", "sizeLimit": "16Mi"}


def test_stage_separates_directories_of_the_same_name() -> None:
    """The stage has a folder for each, so the second is mounted for the agent elsewhere."""
    same = edited("/opt/conf.d/", "/other/app")
    spec, _ = run(same, stage=True)
    assert mounts(app(spec)) == {
        "/etc/app": "hotmap-stage/app",
        "/other/app": "hotmap-stage/more",
        "/cache": "cache",
    }
    assert mounts(agent(spec))["/hotmap/source/more"] == "more"


def test_volume_mounted_twice_is_staged_once() -> None:
    """All mounts show the same folder."""
    twice = edited("{name: more, mountPath: /opt/conf.d/}", "{name: conf, mountPath: /again}")
    spec, _ = run(twice, stage=True)
    assert mounts(app(spec)) == {
        "/etc/app": "hotmap-stage", "/again": "hotmap-stage", "/cache": "cache"
    }  # fmt: skip


def test_staged_subpath_directory_becomes_live() -> None:
    """The agent gets a volume of that folder's files alone; a single file stays what it is."""
    parts = edited(
        "secret: {secretName: more, defaultMode: 0440}",
        "projected: {sources: [{secret: {name: more, items: [{key: a, path: d/a}, "
        "{key: t, path: top}]}}, {configMap: {name: all}}]}",
    ).replace(
        "{name: more, mountPath: /opt/conf.d/}",
        "{name: more, mountPath: /d, subPath: d/}\n"
        "        - {name: more, mountPath: /top, subPath: top}",
    )
    spec, notes = run(parts, stage=True)
    assert mounts(app(spec)) == {
        "/etc/app": "hotmap-stage/app",
        "/d": "hotmap-stage/d",
        "/top": "more/top",
        "/cache": "cache",
    }
    assert named(spec["volumes"], "hotmap-source-0") == {
        "name": "hotmap-source-0",
        "projected": {
            "sources": [{"secret": {"name": "more", "items": [{"key": "a", "path": "a"}]}}]
        },
    }
    assert mounts(agent(spec))["/d"] == "hotmap-source-0"
    assert notes == [
        "web.yaml: Deployment/web: /top is a single file of volume more, which never "
        "changes while the container runs; mount a directory"
    ]


def test_volume_with_a_token_is_not_staged() -> None:
    """A refused token would expire."""
    token = edited(
        "secret: {secretName: more, defaultMode: 0440}",
        "projected: {sources: [{serviceAccountToken: {path: t}}, {configMap: {name: all}}]}",
    )
    spec, (note,) = run(token, stage=True)
    assert mounts(app(spec))["/opt/conf.d/"] == "more"
    assert "contains a service account token" in note
    assert settings_of(agent(spec)["args"][1:]).watch.directories == ("/etc/app",)


@pytest.mark.parametrize(
    ("mode", "flags"), [("sidecar", ()), ("native-sidecar", ("--listen", "none"))]
)
def test_stage_is_filled_before_the_application_starts(mode: str, flags: tuple[str, ...]) -> None:
    """An init container does it where no probe can hold the application back."""
    words = ("--check", "true", "--url", "http://x/", *flags)
    spec, _ = run(BASE, *words, mode=mode, stage=True)
    assert "startupProbe" not in agent(spec)
    first = named(spec["initContainers"], "hotmap-agent-first")
    settings = settings_of(first["args"][1:])
    assert settings.once
    assert settings.checks.stage == "/hotmap/stage"
    assert settings.checks.commands == (("true",),)
    assert mounts(first)["/hotmap/stage"] == "hotmap-stage"
    assert "/hotmap/pod" not in mounts(first)


# Around the application


def test_supervisor_starts_the_command() -> None:
    """An init container brings its program; the command and its arguments come after --."""
    words = "command: [app, $(A)]\n        args: [$$(A)]"
    spec, notes = run(edited("command: [app, --run]", words), mode="supervisor")
    assert notes == []
    command = app(spec)["command"]
    assert command[:2] == ["python3", "/hotmap/bin/agent.pyz"]
    assert command[command.index("--") + 1 :] == ["app", "$$(A)"]
    assert app(spec)["args"] == ["$$$$(A)"]
    assert agent(spec)["args"] == ["agent", "copy", "/hotmap/bin/agent.pyz"]
    settings = settings_of(command[2:])
    assert settings.actions.grace == 38.0
    assert settings.watch.directories == ("/etc/app", "/opt/conf.d", "/hotmap/env/hotmap-env-0")
    assert app(spec)["envFrom"] == []
    assert mounts(app(spec))["/hotmap/env/hotmap-env-0"] == "hotmap-env-0"
    assert "shareProcessNamespace" not in spec


def test_keep_env_leaves_the_environment() -> None:
    """--keep-env: nothing is converted."""
    spec, _ = run(mode="supervisor", keep_env=True)
    assert app(spec)["envFrom"] == [{"configMapRef": {"name": "all"}}]
    assert settings_of(app(spec)["command"][2:]).application.env_from == ()


def test_supervisor_with_a_stage_mounts_sources_apart() -> None:
    """Both share a root directory, so the sources are mounted apart."""
    spec, _ = run(mode="supervisor", stage=True)
    found = mounts(app(spec))
    assert found["/etc/app"] == "hotmap-stage/conf"
    assert found["/hotmap/source/conf"] == "conf"
    assert found["/hotmap/stage"] == "hotmap-stage"


def test_exec_probes_without_converted_variables_are_noted() -> None:
    """They are the kubelet's, and get the container's environment."""
    probed = edited(
        "image: app\n",
        "image: app\n        livenessProbe: {exec: {command: [check]}}\n"
        "        readinessProbe: {httpGet: {port: 80}}\n",
    )
    assert run(probed, mode="supervisor")[1] == [
        "web.yaml: Deployment/web: livenessProbe of container app runs without the variables that "
        "now come from files; only the application has them"
    ]


# Restarts for frozen uses


def test_restart_on_frozen_needs_no_files() -> None:
    """A pod without a mounted source is followed by its announcements."""
    alone = BASE[: BASE.index("        volumeMounts:")]
    with pytest.raises(ManifestError, match="nothing changes while the pod runs"):
        run(alone)
    spec, _ = run(alone, *FROZEN)
    assert settings_of(agent(spec)["args"][1:]).watch.directories == ("/hotmap/pod",)
    assert agent(spec)["restartPolicyRules"][0]["action"] == "RestartAllContainers"
    assert (
        spec["annotations"]["hotmap.dev/agent"] == "port=9533;container=app;restart=all-containers"
    )


@pytest.mark.parametrize(
    ("flags", "mode", "way", "rules_of"),
    [
        (FROZEN, "native-sidecar", "all-containers", "hotmap-agent"),
        (FROZEN, "sidecar", "all-containers", "hotmap-agent"),
        ((*FROZEN, "--restart", "term", "--process", "name:app"), "native-sidecar", "term", ""),
        (FROZEN, "supervisor", "supervised", ""),
        (
            (*FROZEN, "--restart", "all-containers"),
            "supervisor",
            "all-containers;files=restart",
            "app",
        ),
        (("--restart", "all-containers"), "native-sidecar", "none;files=restart", "hotmap-agent"),
        ((), "supervisor", "none;files=restart", ""),
    ],
)
def test_restart_way_adds_what_it_needs(
    flags: tuple[str, ...], mode: str, way: str, rules_of: str
) -> None:
    """The annotation says what the agent does for frozen uses, and whether it restarts for files.

    The rule stands where it ends.
    """
    spec, _ = run(BASE, *flags, mode=mode)
    assert spec["annotations"]["hotmap.dev/agent"] == f"port=9533;container=app;restart={way}"
    everyone = [*spec.get("initContainers", ()), *spec["containers"]]
    rules = [item["name"] for item in everyone if "restartPolicyRules" in item]
    assert rules == ([rules_of] if rules_of else [])
    assert all(item["restartPolicy"] == "Always" for item in everyone if item["name"] in rules)
    assert spec.get("shareProcessNamespace", False) is (way == "term")


def test_known_program_sets_the_process() -> None:
    """--for says which process gets TERM."""
    spec, _ = run(BASE, "--for", "nginx", *FROZEN, "--restart", "term")
    words = agent(spec)["args"]
    assert words[words.index("--process") + 1] == "name:nginx"


def test_supervisor_rejects_uses_it_cannot_restart() -> None:
    """A subPath file or a variable that stays is fixed until the container restarts."""
    with pytest.raises(ManifestError, match="envFrom is fixed until the container restarts"):
        run(BASE, *FROZEN, mode="supervisor", keep_env=True)
    part = edited("mountPath: /opt/conf.d/", "mountPath: /x, subPath: x")
    with pytest.raises(ManifestError, match=r"the mount /x is fixed .* use --restart all-contain"):
        run(part, *FROZEN, mode="supervisor")


# Refusals


@pytest.mark.parametrize(
    ("text", "flags", "fields", "words"),
    [
        (edited("        command: [app, --run]\n", ""), (), {"mode": "supervisor"},
         "container app has no command; --mode supervisor needs one, so add the image"),
        (edited("[app, --run]", "['', --run]"), (), {"mode": "supervisor"},
         "the command of container app starts with an empty word, so it cannot start"),
        (BASE.replace("kind: Deployment", "kind: Job").replace(
            "      securityContext", "      restartPolicy: Never\n      securityContext"),
         (), {"mode": "sidecar"}, "a plain sidecar prevents; use --mode native-sidecar"),
        (BASE, ("--stage", "/x"), {}, "--stage cannot be set on an injected agent: place --stag"),
        (BASE, ("--once",), {}, "use --mode init"),
        (BASE, ("-env-from=/x",), {}, "-env-from cannot be set on an injected agent"),
        (BASE, ("--", "app"), {}, "unexpected second -- before 'app'"),
        (BASE, FROZEN, {"mode": "init"}, "ends before the application starts"),
        (BASE, (*FROZEN, "--restart", "supervised"), {}, "requires --mode supervisor"),
        (edited("- name: app", "- name: hotmap-agent"), (), {},
         "already has hotmap-agent, a name that injection uses"),
        (edited("name: cache", "name: hotmap-run"), (), {}, "already has hotmap-run, a name"),
        (edited("metadata: {labels: {app: web}}", "metadata: {labels: {app: web}, annotations}"),
         (), {}, "cannot edit a part that injection changes"),
        (edited("- name: app", "- nam: app"), (), {}, "spec.containers[0] in the pod template "
         "requires name"),
        (edited("/etc/app}", "/etc/app}\n        - 7"), (), {},
         "volumeMounts[1] in the pod template must be a mapping"),
        (edited("configMapRef: {name: all}", "configMapRef: all"), (), {}, "must be a mapping"),
    ],
)  # fmt: skip
def test_unsupported_injection_is_an_error(
    text: str, flags: tuple[str, ...], fields: dict[str, Any], words: str
) -> None:
    """One sentence each."""
    with pytest.raises(ManifestError) as caught:
        run(text, *flags, **fields)
    assert words in str(caught.value)


def spoiled(value: Any, choose: random.Random) -> Any:
    """Replace one thing somewhere in a manifest by something that has no place there."""
    if isinstance(value, dict) and value and choose.random() < 0.9:
        key = choose.choice(list(value))
        return {**value, key: spoiled(value[key], choose)}
    if isinstance(value, list) and value and choose.random() < 0.9:
        index = choose.randrange(len(value))
        return [*value[:index], spoiled(value[index], choose), *value[index + 1 :]]
    return choose.choice([None, 7, True, "", "text", [], {}, [[]], [{}], {"name": 1}, [None]])


@pytest.mark.parametrize("seed", range(40))
def test_random_manifest_gives_no_traceback(seed: int) -> None:
    """Whatever is wrong in it: it is refused in words, or what comes out can be undone."""
    choose = random.Random(seed)
    for mode in ("native-sidecar", "sidecar", "supervisor"):
        injection = Injection(IMAGE, "", ("--check", "true"), mode, choose.random() < 0.5)
        text = yaml.safe_dump(spoiled(yaml.safe_load(BASE), choose), sort_keys=False)
        try:
            result = inject(text, injection, "web.yaml")[0]
        except (ManifestError, SettingsError) as error:
            assert "\n" not in str(error)
            continue
        assert inject(result, None, "web.yaml")[0] == text
        again = yaml.safe_dump(spoiled(yaml.safe_load(result), choose), sort_keys=False)
        try:
            inject(again, injection, "web.yaml")
        except (ManifestError, SettingsError) as error:
            assert "\n" not in str(error)
