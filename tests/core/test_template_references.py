"""Every place of a pod template that uses a ConfigMap or Secret is found, with exact data keys."""

from __future__ import annotations

import pytest
from tests.support.objects import template

from hotmap.core.model.environment_uses import expansions
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.references import Keys, Use, UseKind
from hotmap.core.model.template_uses import find_uses


def shown(use: Use) -> str:
    """Write a use as the tables below do: kind, source, data keys, flags, place."""
    names = "all" if use.keys.names is None else "+".join(sorted(use.keys.names))
    hidden = f" but {'+'.join(sorted(use.keys.hidden))}" if use.keys.hidden else ""
    binary = "" if use.keys.binary else " (text)"
    flags = (" optional" if use.optional else "") + (" init" if use.init else "")
    source = f"{use.source.kind}/{use.source.name}"
    return f"{use.kind.value} {source} {names}{hidden}{binary}{flags}: {use.path}"


def uses(spec: str) -> list[str]:
    """Find the uses of a pod spec, as the tables show them."""
    return [shown(use) for use in find_uses(template(spec), "shop")]


def container(body: str, *, volumes: str = "[]") -> str:
    """Write a pod spec with one container `web` from its fields in flow style."""
    return f"{{containers: [{{name: web, {body}}}], volumes: {volumes}}}"


CONFIG = "[{name: v, configMap: {name: app}}]"
ITEMS = """[{name: v, configMap: {name: app, items: [
    {key: a, path: conf/a.yaml}, {key: b, path: conf/b.yaml}, {key: c, path: confer}]}}]"""
MOUNT = "volumeMounts: [{name: v, mountPath: /etc/app}]"
AT = "volumes[v] at containers[web]:/etc/app"


def mounted(fields: str) -> str:
    """Write the container fields of one mount of the volume `v` at /etc/app."""
    return f"volumeMounts: [{{name: v, mountPath: /etc/app, {fields}}}]"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            container("env: [{name: L, valueFrom: {configMapKeyRef: {name: app, key: LEVEL}}}]"),
            ["frozen ConfigMap/app LEVEL (text): containers[web].env[L]"],
            id="env from a ConfigMap: one data key, never binaryData",
        ),
        pytest.param(
            container("env: [{name: P, valueFrom: {secretKeyRef: {name: db, key: pw}}}]"),
            ["frozen Secret/db pw (text): containers[web].env[P]"],
            id="env from a Secret",
        ),
        pytest.param(
            container(
                "env: [{name: L, valueFrom: "
                "{configMapKeyRef: {name: app, key: k, optional: true}}}]"
            ),
            ["frozen ConfigMap/app k (text) optional: containers[web].env[L]"],
            id="env, optional",
        ),
        pytest.param(
            container(
                "env: [{name: L, value: x}, {name: N, valueFrom: {fieldRef: {fieldPath: n}}}]"
            ),
            [],
            id="literals and fieldRef use no source",
        ),
        pytest.param(
            container("envFrom: [{configMapRef: {name: app}}, {secretRef: {name: db}}]"),
            [
                "frozen ConfigMap/app all (text): containers[web].envFrom[0]",
                "frozen Secret/db all (text): containers[web].envFrom[1]",
            ],
            id="envFrom: every data key without binaryData",
        ),
        pytest.param(
            container("envFrom: [{configMapRef: {name: app, optional: true}}]"),
            ["frozen ConfigMap/app all (text) optional: containers[web].envFrom[0]"],
            id="envFrom, optional",
        ),
    ],
)
def test_env_references_are_found(spec: str, expected: list[str]) -> None:
    """Environment variables are frozen uses of the data keys that they read."""
    assert uses(spec) == expected


@pytest.mark.parametrize(
    ("env", "prefix", "hidden"),
    [
        pytest.param("[{name: A, value: x}]", "", {"A"}, id="a literal hides the data key"),
        pytest.param("[{name: A, value: ''}]", "", {"A"}, id="an empty literal too"),
        pytest.param("[{name: P_A, value: x}]", "P_", {"A"}, id="the prefix is taken off"),
        pytest.param("[{name: A, value: x}]", "P_", set(), id="without the prefix: another name"),
        pytest.param("[{name: P_, value: x}]", "P_", set(), id="a name that is only the prefix"),
        pytest.param(
            "[{name: A, valueFrom: {secretKeyRef: {name: db, key: a}}}]",
            "",
            {"A"},
            id="a reference that is not optional hides it",
        ),
        pytest.param(
            "[{name: A, valueFrom: {secretKeyRef: {name: db, key: a, optional: true}}}]",
            "",
            set(),
            id="an optional reference may leave the imported value",
        ),
        pytest.param(
            "[{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
            "",
            {"A"},
            id="a fieldRef hides it",
        ),
        pytest.param(
            "[{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: a}}}]",
            "",
            {"A"},
            id="a key of a file hides it",
        ),
        pytest.param(
            "[{name: A, valueFrom: {fileKeyRef: {path: p, key: a, optional: true}}}]",
            "",
            set(),
            id="an optional key of a file may leave the imported value",
        ),
        pytest.param("[{name: A, value: $(A)2}]", "", set(), id="A: $(A)2 reads the imported A"),
        pytest.param("[{name: A, value: $$(A)}]", "", {"A"}, id="$$(A) is an escape, no read"),
        pytest.param(
            "[{name: B, value: $(A)}, {name: A, value: x}]", "", {"B"}, id="read before hidden"
        ),
        pytest.param(
            "[{name: A, value: x}, {name: B, value: $(A)}]",
            "",
            {"A", "B"},
            id="hidden before read",
        ),
    ],
)
def test_env_entry_overrides_env_from(env: str, prefix: str, hidden: set[str]) -> None:
    """A data key that `env` always replaces is not used; one that may be read still is."""
    spec = container(f"envFrom: [{{prefix: '{prefix}', configMapRef: {{name: app}}}}], env: {env}")
    imported = next(use for use in find_uses(template(spec), "shop") if "envFrom" in use.path)
    assert imported.keys == Keys(hidden=frozenset(hidden), binary=False)


@pytest.mark.parametrize("name", ["STAKATER_APP_CONFIGMAP", "STAKATER_DB_SECRET"])
def test_uses_do_not_change_by_a_rollout_in_reloaders_way(name: str) -> None:
    """A rollout adds a variable, and its next one changes it; neither changes what is used."""
    before = container("envFrom: [{configMapRef: {name: app}}], env: [{name: A, value: x}]")
    for value in ("3f1c", "a90b"):
        after = container(
            "envFrom: [{configMapRef: {name: app}}], "
            f"env: [{{name: A, value: x}}, {{name: {name}, value: {value}}}]"
        )
        assert find_uses(template(after), "shop") == find_uses(template(before), "shop")
    others = container(
        "envFrom: [{configMapRef: {name: app}}], env: [{name: STAKATER_X, value: x}]"
    )
    (use,) = find_uses(template(others), "shop")
    assert use.keys.hidden == {"STAKATER_X"}


@pytest.mark.parametrize(
    ("fields", "through"),
    [
        pytest.param("command: [run, $(L)]", "command[1]", id="command"),
        pytest.param("args: [--level=$(L)]", "args[0]", id="args"),
        pytest.param("args: [$$(L)]", "", id="an escape is not a use"),
        pytest.param("args: ['$(L']", "", id="unterminated is literal"),
        pytest.param(
            "volumeMounts: [{name: v, mountPath: /d, subPathExpr: $(L)}]",
            "subPathExpr of /d",
            id="subPathExpr",
        ),
    ],
)
def test_expansion_names_where_a_variable_ends_up(fields: str, through: str) -> None:
    """A use says through which `$(NAME)` its value goes on."""
    env = "env: [{name: L, valueFrom: {configMapKeyRef: {name: app, key: LEVEL}}}]"
    suffix = f", through $(…) in {through}" if through else ""
    assert uses(container(f"{env}, {fields}", volumes="[{name: v, emptyDir: {}}]")) == [
        f"frozen ConfigMap/app LEVEL (text): containers[web].env[L]{suffix}"
    ]


def test_expansion_goes_through_other_variables() -> None:
    """A value that reaches args through two other variables names the whole way."""
    spec = container(
        """env: [
            {name: L, valueFrom: {configMapKeyRef: {name: app, key: LEVEL}}},
            {name: M, value: $(L)}, {name: N, value: $(M)}],
        args: [$(N)]"""
    )
    assert uses(spec) == [
        "frozen ConfigMap/app LEVEL (text): containers[web].env[L], "
        "through $(…) in args[0], env[M], env[N]"
    ]


def test_expansion_of_an_imported_variable_is_a_use() -> None:
    """A variable of an envFrom, prefix and all, is followed into args."""
    spec = container("envFrom: [{prefix: P_, configMapRef: {name: app}}], args: [$(P_L)]")
    assert uses(spec) == [
        "frozen ConfigMap/app all (text): containers[web].envFrom[0], through $(…) in args[0]"
    ]


def test_command_substitution_is_not_a_use_of_an_imported_variable() -> None:
    """A shell's `$(cat file)` stays as it is: no data key has such a name."""
    spec = container("envFrom: [{configMapRef: {name: app}}], args: [$(cat /etc/hosts)]")
    assert uses(spec) == ["frozen ConfigMap/app all (text): containers[web].envFrom[0]"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("$(A)$(B)", ["A", "B"]),
        ("a $(A) b", ["A"]),
        ("$$(A)", []),
        ("$$$(A)", ["A"]),
        ("$(A", []),
        ("$A", []),
        ("$", []),
        ("$($(A))", ["$(A"]),
        ("", []),
    ],
)
def test_expansion_follows_kubernetes_grammar(text: str, names: list[str]) -> None:
    """`$(NAME)` is read as upstream does (third_party/forked/golang/expansion/expand.go)."""
    assert list(expansions(text)) == names


@pytest.mark.parametrize(
    ("volumes", "fields", "expected"),
    [
        pytest.param(
            CONFIG, MOUNT, [f"live ConfigMap/app all: {AT}"], id="configMap: all, with binaryData"
        ),
        pytest.param(ITEMS, MOUNT, [f"live ConfigMap/app a+b+c: {AT}"], id="items: only those"),
        pytest.param(
            "[{name: v, secret: {secretName: db, optional: true, items: [{key: a, path: x}]}}]",
            MOUNT,
            [f"live Secret/db a optional: {AT}"],
            id="secret",
        ),
        pytest.param(
            """[{name: v, projected: {sources: [
                {configMap: {name: app, items: [{key: a, path: x}]}},
                {secret: {name: db, optional: true}},
                {downwardAPI: {}}, {serviceAccountToken: {path: token}}]}}]""",
            MOUNT,
            [f"live ConfigMap/app a: {AT}", f"live Secret/db all optional: {AT}"],
            id="projected: each of its sources",
        ),
        pytest.param(
            """[{name: kube-api-access-x7k2p, projected: {sources: [
                {serviceAccountToken: {path: token}},
                {configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}}]}}]""",
            "volumeMounts: [{name: kube-api-access-x7k2p, mountPath: /var/run/secrets}]",
            [],
            id="what admission adds to a Pod is not a use",
        ),
        pytest.param(
            "[{name: kube-api-access-x, projected: {sources: [{configMap: {name: app}}]}}]",
            "volumeMounts: [{name: kube-api-access-x, mountPath: /etc/app}]",
            ["live ConfigMap/app all: volumes[kube-api-access-x] at containers[web]:/etc/app"],
            id="another source under that name is one",
        ),
        pytest.param(CONFIG, "args: []", [], id="a volume that is not mounted is not a use"),
        pytest.param("[]", MOUNT, [], id="a mount without its volume is none"),
        pytest.param("[{name: v, emptyDir: {}}]", MOUNT, [], id="another kind of volume is none"),
        pytest.param(
            CONFIG,
            "volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /b, subPath: k}]",
            [
                "live ConfigMap/app all: volumes[v] at containers[web]:/a",
                "frozen ConfigMap/app k: volumes[v] at containers[web]:/b (subPath k)",
            ],
            id="mounted twice: two uses",
        ),
    ],
)
def test_volume_references_are_found(volumes: str, fields: str, expected: list[str]) -> None:
    """A mounted configMap, secret or projected volume is a live use of what it projects."""
    assert uses(container(fields, volumes=volumes)) == expected


@pytest.mark.parametrize(
    ("volumes", "sub_path", "expected"),
    [
        pytest.param(CONFIG, "a", "frozen ConfigMap/app a", id="a file"),
        pytest.param(CONFIG, "./a", "frozen ConfigMap/app a", id="written in another way"),
        pytest.param(CONFIG, "a/b", None, id="no data key can lie in a directory"),
        pytest.param(CONFIG, ".", "live ConfigMap/app all", id="the volume itself sees the swap"),
        pytest.param(CONFIG, "..data", "frozen ConfigMap/app all", id="..data pins the revision"),
        pytest.param(CONFIG, "..data/a", "frozen ConfigMap/app a", id="a file below ..data"),
        pytest.param(ITEMS, "conf/a.yaml", "frozen ConfigMap/app a", id="an item's file"),
        pytest.param(ITEMS, "conf", "frozen ConfigMap/app a+b", id="a directory of items"),
        pytest.param(ITEMS, "conf/", "frozen ConfigMap/app a+b", id="trailing slash"),
        pytest.param(ITEMS, "confer", "frozen ConfigMap/app c", id="whole path elements only"),
        pytest.param(ITEMS, "a", None, id="a data key that items place elsewhere"),
    ],
)
def test_sub_path_is_frozen(volumes: str, sub_path: str, expected: str | None) -> None:
    """A subPath pins the inode: a frozen use of the data keys that lie there."""
    found = uses(container(mounted(f"subPath: {sub_path}"), volumes=volumes))
    assert found == ([f"{expected}: {AT} (subPath {sub_path})"] if expected else [])


@pytest.mark.parametrize(
    ("env", "expression", "keys"),
    [
        pytest.param("[{name: S, value: a}]", "$(S)", "a", id="a literal variable"),
        pytest.param("[{name: S, value: conf}]", "$(S)/a", None, id="no such file"),
        pytest.param(
            "[{name: S, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
            "$(S)",
            "all",
            id="known only in the pod: every data key",
        ),
        pytest.param("[]", "$(S)", "all", id="a variable from elsewhere: every data key"),
        pytest.param(
            "[{name: T, value: a}, {name: S, value: $(T)}]", "$(S)", "all", id="through another one"
        ),
        pytest.param("[{name: S, value: b}]", "$(S)$(T)", "all", id="one of two is known"),
        pytest.param("[{name: S, value: b}]", "$$(S)-$(S)", "$(S)-b", id="an escape stays"),
        pytest.param("[{name: S, value: b}, {name: S, value: a}]", "$(S)", "a", id="last wins"),
    ],
)
def test_sub_path_expr_is_expanded(env: str, expression: str, keys: str | None) -> None:
    """A subPathExpr is expanded as far as literals carry, else every data key may be meant."""
    spec = container(f"env: {env}, {mounted(f'subPathExpr: {expression}')}", volumes=CONFIG)
    wanted = [f"frozen ConfigMap/app {keys}: {AT} (subPath {expression})"] if keys else []
    assert uses(spec) == wanted


def test_sub_path_expr_from_a_source_uses_every_data_key() -> None:
    """A subPathExpr that a source decides uses that source and every data key of the volume."""
    spec = container(
        f"envFrom: [{{secretRef: {{name: db}}}}], {mounted('subPathExpr: $(S)')}", volumes=CONFIG
    )
    assert uses(spec) == [
        "frozen Secret/db all (text): containers[web].envFrom[0], "
        "through $(…) in subPathExpr of /etc/app",
        f"frozen ConfigMap/app all: {AT} (subPath $(S))",
    ]


def test_init_containers_freeze_what_they_read() -> None:
    """An init container runs to completion, so its mounts are frozen uses too."""
    spec = """
        initContainers:
        - name: setup
          env: [{name: L, valueFrom: {configMapKeyRef: {name: app, key: LEVEL}}}]
          volumeMounts: [{name: v, mountPath: /etc/app}]
        containers: [{name: web}]
        volumes: [{name: v, configMap: {name: app}}]
    """
    assert uses(spec) == [
        "frozen ConfigMap/app LEVEL (text) init: initContainers[setup].env[L]",
        "frozen ConfigMap/app all init: volumes[v] at initContainers[setup]:/etc/app",
    ]


def test_restartable_init_containers_run_on() -> None:
    """A sidecar (init container with restartPolicy Always) sees its files change."""
    spec = """
        initContainers:
        - name: proxy
          restartPolicy: Always
          env: [{name: L, valueFrom: {configMapKeyRef: {name: app, key: LEVEL}}}]
          volumeMounts: [{name: v, mountPath: /etc/app}]
        containers: [{name: web}]
        volumes: [{name: v, configMap: {name: app}}]
    """
    assert uses(spec) == [
        "frozen ConfigMap/app LEVEL (text): initContainers[proxy].env[L]",
        "live ConfigMap/app all: volumes[v] at initContainers[proxy]:/etc/app",
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            "{imagePullSecrets: [{name: registry}]}",
            "credential Secret/registry all optional: imagePullSecrets[registry]",
            id="imagePullSecrets",
        ),
        pytest.param(
            "{volumes: [{name: v, csi: {driver: d, nodePublishSecretRef: {name: login}}}]}",
            "credential Secret/login all: volumes[v]",
            id="csi",
        ),
        pytest.param(
            "{volumes: [{name: v, azureFile: {secretName: login, shareName: s}}]}",
            "credential Secret/login all: volumes[v]",
            id="azureFile",
        ),
        *(
            pytest.param(
                f"{{volumes: [{{name: v, {driver}: {{secretRef: {{name: login}}}}}}]}}",
                "credential Secret/login all: volumes[v]",
                id=driver,
            )
            for driver in ("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")
        ),
    ],
)
def test_image_pull_secrets_are_credentials(spec: str, expected: str) -> None:
    """Secrets that the kubelet or a driver logs in with are seen by no process."""
    assert uses(spec) == [expected]


def test_csi_secret_stores_are_foreign() -> None:
    """A SecretProviderClass is noted where it is mounted; its content is not in Kubernetes."""
    volumes = "[{name: v, csi: {driver: d, volumeAttributes: {secretProviderClass: vault}}}]"
    assert uses(container(MOUNT, volumes=volumes)) == [
        f"foreign SecretProviderClass/vault all: {AT}"
    ]
    assert uses(container("args: []", volumes=volumes)) == []


def test_sources_lie_in_the_namespace_of_the_pod() -> None:
    """A use names its source by kind, the pod's namespace and name, and its reader."""
    spec = container("envFrom: [{configMapRef: {name: app}}]")
    (use,) = find_uses(template(spec), "shop")
    assert use.source == ObjectKey("ConfigMap", "shop", "app")
    assert (use.container, use.kind) == ("web", UseKind.FROZEN)


@pytest.mark.parametrize(
    ("keys", "data_key", "binary", "selected"),
    [
        (Keys(), "a", False, True),
        (Keys(), "a", True, True),
        (Keys(binary=False), "a", True, False),
        (Keys(frozenset("a")), "b", False, False),
        (Keys(hidden=frozenset("a")), "a", False, False),
        (Keys(hidden=frozenset("a")), "b", False, True),
    ],
)
def test_keys_select_exactly(keys: Keys, data_key: str, binary: bool, selected: bool) -> None:
    """A use selects the data keys that it names, without the hidden ones."""
    assert keys.select(data_key, binary=binary) is selected
