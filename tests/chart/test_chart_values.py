"""What the chart makes of values, its own and those of a values file of Reloader."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chart.helm import CHART, Objects, helm, render, render_objects

from hotmap import __version__
from hotmap.cli.main import hotmap
from hotmap.cli.reloader_flags import ReloaderFlags
from hotmap.cli.reloader_settings import read_reloader_flags
from hotmap.core.errors import SettingsError

#: Minutes of waiting or of processor time, too much after each edit.
pytestmark = pytest.mark.slow

RELOADER_VALUES = Path(__file__).with_name("data") / "reloader-values.yaml"


def container(objects: Objects, name: str = "hotmap") -> dict[str, Any]:
    (found,) = objects["Deployment", name]["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def arguments(*values: str) -> list[str]:
    found: list[str] = container(render_objects(*values))["args"]
    parse(found)
    return found[3:]


def parse(args: list[str]) -> dict[str, Any]:
    """Parse the controller's arguments as `hotmap` does; raises where one is unknown."""
    command = hotmap.commands[args[0]]
    return command.make_context("controller", args[1:]).params


def notes(*values: str) -> str:
    done = helm("install", "hotmap", str(CHART), "--namespace=hotmap", "--dry-run=client", *values)
    return done.stdout.partition("NOTES:\n")[2]


def ignored(*values: str) -> list[str]:
    """List the values that the notes call ignored."""
    _, _, rest = notes(*values).partition("Values without effect:\n")
    lines = rest.partition("\n\n")[0].splitlines()
    return [line.removeprefix("  * ") for line in lines]


def test_lint_finds_nothing() -> None:
    """With defaults and with every value of Reloader."""
    for values in ([], [f"--values={RELOADER_VALUES}"]):
        done = helm("lint", "--strict", str(CHART), *values)
        assert "0 chart(s) failed" in done.stdout
        assert "[WARNING]" not in done.stdout


def test_version_is_that_of_the_package() -> None:
    """Chart, image and package are released together."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


def test_defaults_are_hotmaps() -> None:
    """No flag of Reloader is set, and its image is this version's."""
    assert arguments() == ["--status-listen=:9534"]
    assert container(render_objects())["image"] == f"hotmap:{__version__}"
    assert ignored() == []


def test_notes_have_the_next_three_commands() -> None:
    """Ready, follow, status; and what `helm uninstall` leaves."""
    text = notes("--set=watchGlobally=false,namespaces={a,b}")
    assert "serves the namespaces a, b." in text
    assert "serves the namespace hotmap." in notes("--set=watchGlobally=false")
    for command in (
        "kubectl --namespace=hotmap rollout status deployment/hotmap",
        "annotate deployment NAME hotmap.dev/follow=auto",
        "hotmap status --namespace=NAMESPACE --controller-namespace=hotmap",
        "kubectl --namespace=hotmap delete lease hotmap-controller",
    ):
        assert command in text


def test_notes_of_shadow_mode_keep_reloader_and_name_the_log() -> None:
    """There is nothing to opt in, and no state that stays."""
    text = notes("--set=shadow=true,reloaderCompat=true")
    assert "kubectl --namespace=hotmap logs deployment/hotmap" in text
    assert "stop it" not in text
    assert "delete" not in text
    assert "If Reloader still runs, stop it" in notes("--set=reloaderCompat=true")


def test_notes_say_that_a_webhook_replaces_rollouts() -> None:
    """Reloader's chart ignores the URL without `custom_annotations`."""
    sentence = "It sends each change to webhookUrl and rolls out nothing."
    assert sentence in notes("--set=reloader.webhookUrl=http://a")
    assert sentence not in notes()


def test_names_that_look_like_other_values_stay_text() -> None:
    """A namespace may be named y, or 1234; so may a release."""
    values = ("--set=watchGlobally=false,namespaces=y\\,1e3", "--set=agents.namespaces={on}")
    text = render(*values, namespace="1234", release="42")
    objects = [item for item in yaml.safe_load_all(text) if item]
    assert {item["metadata"]["namespace"] for item in objects} == {"1234", "y", "1e3", "on"}
    assert not [found for item in objects for found in other_than_text(item)]


def other_than_text(value: Any, key: str = "") -> Iterator[Any]:
    """Find namespaces and labels that are not text."""
    inner = value.items() if isinstance(value, dict) else ()
    for name, item in inner:
        if name == "namespace" or key.lower().endswith("labels"):
            yield from [] if isinstance(item, str) else [item]
        yield from other_than_text(item, name)
    for item in value if isinstance(value, list) else ():
        yield from other_than_text(item, key)


def test_complete_values_of_reloader_install_what_reloader_does() -> None:
    """Reloader's defaults hold, its image is replaced, and the notes say so."""
    values = f"--values={RELOADER_VALUES}"
    assert arguments(values) == [
        "--status-listen=:9534",
        "--reloader-compat",
        "--is-Argo-Rollouts=false",
        "--reload-on-create=false",
        "--reload-on-delete=false",
    ]
    objects = render_objects(values)
    assert container(objects)["image"] == f"hotmap:{__version__}"
    assert {kind for kind, _ in objects}.isdisjoint({"NetworkPolicy", "PodDisruptionBudget"})
    rules = objects["ClusterRole", "hotmap"]["rules"]
    granted = {
        (name, verb) for rule in rules for name in rule["resources"] for verb in rule["verbs"]
    }
    assert ("jobs", "create") in granted
    assert not [name for name, _ in granted if name == "rollouts"]
    assert ignored(values) == [
        "image: it is Reloader's; set image.repository and image.tag to hotmap's"
    ]


def test_image_of_hotmap_replaces_the_one_in_values_of_reloader() -> None:
    """As in docs/reloader.md: the parts of Reloader's image that are left have no effect."""
    values = f"--values={RELOADER_VALUES}", "--set=image.repository=example.com/hotmap"
    assert container(render_objects(*values))["image"] == f"example.com/hotmap:{__version__}"
    assert ignored(*values) == ["image.name: it is Reloader's", "image.tag: it is Reloader's"]
    tagged = *values, "--set=image.tag=7"
    assert container(render_objects(*tagged))["image"] == "example.com/hotmap:7"
    assert ignored(*tagged) == ["image.name: it is Reloader's"]
    digest = f"sha256:{64 * 'a'}"
    pinned = *values, f"--set=image.digest={digest}"
    assert container(render_objects(*pinned))["image"] == f"example.com/hotmap@{digest}"
    assert ignored(*pinned) == ignored(*values)
    named = f"--values={RELOADER_VALUES}", "--set=image.name=hotmap,global.imageRegistry=a.example"
    assert container(render_objects(*named))["image"] == f"a.example/hotmap:{__version__}"


#: Values of Reloader and the flags that they set.
FLAGS = {
    "autoReloadAll=true": "--auto-reload-all=true",
    "isArgoRollouts=true": "--is-Argo-Rollouts=true",
    "ignoreSecrets=true": "--resources-to-ignore=secrets",
    "ignoreJobs=true": "--ignored-workload-types=jobs",
    "ignoreCronJobs=true": "--ignored-workload-types=cronjobs",
    "enableCSIIntegration=true": "--enable-csi-integration=true",
    "reloadOnCreate=true": "--reload-on-create=true",
    "reloadOnDelete=true": "--reload-on-delete=true",
    "syncAfterRestart=true": "--sync-after-restart=true",
    "reloadStrategy=annotations": "--reload-strategy=annotations",
    "ignoreNamespaces=a\\,b": "--namespaces-to-ignore=a,b",
    "namespaceSelector=team=a": "--namespace-selector=team=a",
    "resourceLabelSelector=team=a": "--resource-label-selector=team=a",
    "logFormat=json": "--log-format=json",
    "logLevel=Debug": "--log-level=debug",
    "webhookUrl=http://a": "--webhook-url=http://a",
    "custom_annotations.configmap=a/b": "--configmap-annotation=a/b",
    "custom_annotations.secret=a/b": "--secret-annotation=a/b",
    "custom_annotations.auto=a/b": "--auto-annotation=a/b",
    "custom_annotations.configmap_auto=a/b": "--configmap-auto-annotation=a/b",
    "custom_annotations.secret_auto=a/b": "--secret-auto-annotation=a/b",
    "custom_annotations.ignore=a/b": "--ignore-annotation=a/b",
    "custom_annotations.search=a/b": "--auto-search-annotation=a/b",
    "custom_annotations.match=a/b": "--search-match-annotation=a/b",
    "custom_annotations.pausePeriod=a/b": "--pause-deployment-annotation=a/b",
    "custom_annotations.pauseTime=a/b": "--pause-deployment-time-annotation=a/b",
    "leaderElection.leaseDuration=30s": "--leader-election-lease-duration=30s",
    "leaderElection.renewDeadline=20s": "--leader-election-renew-deadline=20s",
    "leaderElection.retryPeriod=4s": "--leader-election-retry-period=4s",
}


def test_values_of_reloader_set_their_flags() -> None:
    """At both places: below `reloader` with Reloader's defaults, at the top level with hotmap's."""
    expected = {"--status-listen=:9534", *FLAGS.values()}
    assert set(arguments(*(f"--set={value}" for value in FLAGS))) == expected
    below = arguments(*(f"--set=reloader.{value}" for value in FLAGS))
    assert set(below) == {*expected, "--reloader-compat"}
    assert arguments("--set=ignoreConfigMaps=true,enableHA=true,reloadStrategy=revision") == [
        "--status-listen=:9534",
        "--reload-strategy=revision",
        "--resources-to-ignore=configmaps",
    ]


def variables(*values: str) -> dict[str, Any]:
    """Return the environment of the controller: values, or where they are from."""
    entries = container(render_objects(*values))["env"]
    return {entry["name"]: entry.get("value") or entry["valueFrom"] for entry in entries}


def test_metrics_by_namespace_are_enabled_by_their_variable() -> None:
    """With Reloader's defaults alone, which is said where they do not hold."""
    name = "METRICS_COUNT_BY_NAMESPACE"
    assert variables("--set=reloader.enableMetricsByNamespace=true")[name] == "enabled"
    assert name not in variables("--set=reloader.enableMetricsByNamespace=false")
    assert name not in variables("--set=enableMetricsByNamespace=true")
    assert ignored("--set=enableMetricsByNamespace=true") == [
        "enableMetricsByNamespace: Reloader's metrics exist with reloaderCompat"
    ]


def test_alerts_are_set_by_the_variables_of_reloader(tmp_path: Path) -> None:
    """As its values file has them: in the open, in a Secret of the release, in an existing one."""
    values = {
        "reloader": {
            "deployment": {
                "env": {
                    "open": {"ALERT_ON_RELOAD": True, "ALERT_SINK": "slack"},
                    "secret": {"ALERT_ADDITIONAL_INFO": "one"},
                    "existing": {"chat": {"ALERT_WEBHOOK_URL": "url"}},
                }
            }
        }
    }
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    found = variables(f"--values={path}")
    assert (found["ALERT_ON_RELOAD"], found["ALERT_SINK"]) == ("true", "slack")
    assert found["ALERT_WEBHOOK_URL"] == {"secretKeyRef": {"name": "chat", "key": "url"}}
    assert found["ALERT_ADDITIONAL_INFO"] == {
        "secretKeyRef": {"name": "hotmap-env", "key": "ALERT_ADDITIONAL_INFO"}
    }
    assert ignored(f"--values={path}") == []


def test_variables_without_a_value_are_left_out(tmp_path: Path) -> None:
    """As in Reloader's chart; a number and a name that YAML reads otherwise stay text."""
    numbers = "PORT: 8080, ID: 12345678"
    texts = f"ALERT_SINK: , EMPTY: '', {numbers}, 'on': a"
    env = f"open: {{{texts}}}, secret: {{TOKEN: }}, field: {{NODE: }}"
    path = tmp_path / "values.yaml"
    path.write_text(f"reloader: {{deployment: {{env: {{{env}}}}}}}")
    found = variables(f"--values={path}")
    assert (found["PORT"], found["ID"], found["on"]) == ("8080", "12345678", "a")
    assert found.keys().isdisjoint({"ALERT_SINK", "EMPTY", "TOKEN", "NODE"})
    assert ("Secret", "hotmap-env") not in render_objects(f"--values={path}")


def test_kind_of_variables_that_is_null_is_left_out() -> None:
    """Helm leaves the default of the map out then."""
    values = "--set=deployment.env.open=null,deployment.env.field.NODE=spec.nodeName"
    assert "NODE" in variables(values)


def test_values_of_hotmap_set_their_flags() -> None:
    """Numbers, durations and further arguments."""
    assert arguments(
        "--set=follow=auto,settle=2s,settleMax=10s,workers=8,flapLimit=0",
        "--set-json=podCheckRate=0.5",
        "--set=extraArgs={--reload-on-delete=true}",
    ) == [
        "--status-listen=:9534",
        "--flap-limit=0",
        "--follow=auto",
        "--pod-check-rate=0.5",
        "--settle=2s",
        "--settle-max=10s",
        "--workers=8",
        "--reload-on-delete=true",
    ]


def test_empty_keys_of_a_values_file_change_nothing(tmp_path: Path) -> None:
    """People leave keys without a value."""
    path = tmp_path / "values.yaml"
    path.write_text(
        "reloader:\n  deployment:\n    env:\n    pod:\n    resources:\n  podMonitor:\n"
        "  serviceAccount:\n  netpol:\n  custom_annotations:\n  namespaces:\n"
    )
    assert render(f"--values={path}") == render("--set=reloaderCompat=true")
    path.write_text("reloader:\n  deployment:\n  rbac:\nglobal:\n")
    assert render(f"--values={path}") == render("--set=reloaderCompat=true")


def test_shadow_mode_elects_no_leader() -> None:
    """The two flags exclude each other; `helm test`, which waits for a leader, has no pod."""
    text = render("--set=shadow=true")
    assert "kind: Pod\n" not in text
    assert "kind: Pod\n" in render()
    values = "reloader.autoReloadAll=true,reloader.leaderElection.retryPeriod=4s,shadow=true"
    found = container(render_objects(f"--set={values}"))["args"]
    assert "--shadow" in found
    assert not any(argument.startswith("--leader-elect") for argument in found)


@pytest.mark.parametrize("scope", ["true", "false"])
def test_shadow_mode_is_granted_no_writes(scope: str) -> None:
    """It writes nothing, so a cluster can try it with permissions to read."""
    values = f"shadow=true,watchGlobally={scope},reloaderCompat=true,permissions.evict=true"
    objects = render_objects(f"--set={values},status.enabled=false,isArgoRollouts=true")
    roles = [item for (kind, _), item in objects.items() if kind in ("ClusterRole", "Role")]
    verbs = {verb for role in roles for rule in role["rules"] for verb in rule["verbs"]}
    assert verbs == {"list", "watch"}


def test_ignored_kinds_are_not_granted() -> None:
    """A controller that follows no Secrets may not read them."""
    rules = render_objects("--set=ignoreSecrets=true,ignoreCronJobs=true")["ClusterRole", "hotmap"]
    names = {name for rule in rules["rules"] for name in rule["resources"]}
    assert names.isdisjoint({"secrets", "cronjobs"})
    assert {"configmaps", "jobs"} <= names


def test_listed_namespaces_have_a_role_each() -> None:
    """Also as text with commas; the ServiceAccount stays in the release's namespace."""
    for value in ("namespaces={b,a,a}", "namespaces=b\\, a"):
        text = render(f"--set=watchGlobally=false,{value}", "--skip-tests")
        objects = [item for item in yaml.safe_load_all(text) if item]
        roles = [item for item in objects if item["kind"] == "Role"]
        found = [(role["metadata"]["namespace"], role["metadata"]["name"]) for role in roles]
        assert sorted(found) == [("a", "hotmap"), ("b", "hotmap"), ("hotmap", "hotmap-own")]
        bindings = [item for item in objects if item["kind"] == "RoleBinding"]
        assert {binding["subjects"][0]["namespace"] for binding in bindings} == {"hotmap"}
        assert not [item for item in objects if item["kind"].startswith("Cluster")]
        (deployment,) = (item for item in objects if item["kind"] == "Deployment")
        (found_container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert found_container["args"][3:] == ["--namespaces=a,b"]


def test_environment_of_reloader_reaches_the_pod() -> None:
    """Plain values, values of a Secret of the release, of fields and of other Secrets."""
    base = "--set=reloader.deployment.env"
    objects = render_objects(
        f"{base}.open.ALERT_ON_RELOAD=true",
        f"{base}.secret.ALERT_WEBHOOK_URL=http://a",
        f"{base}.field.NODE=spec.nodeName",
        f"{base}.existing.creds.ALERT_ADDITIONAL_INFO=info",
    )
    found = {variable.pop("name"): variable for variable in container(objects)["env"]}
    assert found["ALERT_ON_RELOAD"] == {"value": "true"}
    assert found["ALERT_WEBHOOK_URL"]["valueFrom"]["secretKeyRef"]["name"] == "hotmap-env"
    assert found["NODE"]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
    assert found["ALERT_ADDITIONAL_INFO"]["valueFrom"]["secretKeyRef"] == {
        "name": "creds",
        "key": "info",
    }
    assert objects["Secret", "hotmap-env"]["stringData"] == {"ALERT_WEBHOOK_URL": "http://a"}


def test_changed_secret_value_replaces_the_pods_without_a_plain_hash_of_it() -> None:
    """Who can read a Deployment often may not read Secrets, and could test guesses by a hash."""

    def pod_annotations(value: str) -> dict[str, str]:
        objects = render_objects(f"--set=deployment.env.secret.PIN={value}")
        template = objects["Deployment", "hotmap"]["spec"]["template"]
        found: dict[str, str] = template["metadata"]["annotations"]
        return found

    first = pod_annotations("pin-1")
    assert first == pod_annotations("pin-1")
    assert first != pod_annotations("pin-2")
    assert hashlib.sha256(b'{"PIN":"pin-1"}').hexdigest() not in first.values()


def test_pod_settings_reach_the_pod() -> None:
    """Scheduling, priority, resources, probes, security contexts, volumes, labels."""
    values = {
        "matchLabels": {"team": "a"},
        "volumes": [{"name": "one", "emptyDir": {}}],
        "deployment": {
            "priorityClassName": "system-cluster-critical",
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "topologySpreadConstraints": [{"maxSkew": 2}],
            "hostUsers": False,
            "securityContext": {"runAsUser": None, "fsGroup": 7},
            "containerSecurityContext": {"privileged": False},
            "readinessProbe": {"periodSeconds": 9},
            "volumeMounts": [{"name": "one", "mountPath": "/one"}],
            "labels": {"group": "b"},
            "pod": {"annotations": {"c": "d"}},
        },
    }
    template = render_objects(f"--set-json={json.dumps(values)}")["Deployment", "hotmap"]["spec"][
        "template"
    ]
    pod = template["spec"]
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["affinity"] == {"nodeAffinity": {}}
    assert pod["topologySpreadConstraints"] == [{"maxSkew": 2}]
    assert pod["hostUsers"] is False
    assert pod["securityContext"].get("runAsUser") is None
    assert pod["securityContext"]["fsGroup"] == 7
    assert pod["volumes"] == [{"name": "one", "emptyDir": {}}]
    (found,) = pod["containers"]
    assert found["securityContext"]["privileged"] is False
    assert found["securityContext"]["readOnlyRootFilesystem"] is True
    assert found["readinessProbe"]["periodSeconds"] == 9
    assert found["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert found["volumeMounts"] == [{"name": "one", "mountPath": "/one"}]
    labels = template["metadata"]["labels"]
    assert (labels["team"], labels["group"]) == ("a", "b")
    assert template["metadata"]["annotations"]["c"] == "d"


def test_monitors_select_the_metrics_port() -> None:
    """A PodMonitor the pods, a ServiceMonitor the Service, which then has the port."""
    objects = render_objects(
        "--set=podMonitor.enabled=true,podMonitor.interval=10s,podMonitor.labels.release=p",
        "--set=serviceMonitor.enabled=true,serviceMonitor.namespace=monitoring",
    )
    pods = objects["PodMonitor", "hotmap"]
    assert pods["spec"]["podMetricsEndpoints"][0]["interval"] == "10s"
    assert pods["metadata"]["labels"]["release"] == "p"
    template = objects["Deployment", "hotmap"]["spec"]["template"]
    assert pods["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    services = objects["ServiceMonitor", "hotmap"]
    assert services["metadata"]["namespace"] == "monitoring"
    service = objects["Service", "hotmap"]
    assert (
        services["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    )
    assert [port["name"] for port in service["spec"]["ports"]] == ["status", "metrics"]


def test_alerts_and_dashboard_are_installed_as_they_are() -> None:
    """The files' content, with the address of the runbooks."""
    objects = render_objects(
        "--set=prometheusRule.enabled=true,prometheusRule.runbookUrl=https://example.com/runbooks/",
        "--set=dashboard.enabled=true,dashboard.namespace=monitoring",
    )
    files = CHART / "files" / "monitoring"
    (expected,) = yaml.safe_load((files / "alerts.yaml").read_text())["groups"]
    for rule in expected["rules"]:
        url = f"https://example.com/runbooks/{rule['alert']}.md"
        rule["annotations"]["runbook_url"] = url
    assert objects["PrometheusRule", "hotmap"]["spec"] == {"groups": [expected]}
    dashboard = objects["ConfigMap", "hotmap-dashboard"]
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert dashboard["metadata"]["namespace"] == "monitoring"
    content = json.loads(dashboard["data"]["hotmap.json"])
    assert content == json.loads((files / "dashboard.json").read_text())


def test_two_releases_do_not_share_cluster_wide_names() -> None:
    """Of the same name in two namespaces, as GitOps tools make them."""
    first = render_objects(namespace="a")
    second = render_objects(namespace="b")
    cluster_wide = {key for key in first if key[0].startswith("Cluster")}
    assert cluster_wide
    assert not cluster_wide & set(second)


INVALID_ELECTIONS = (
    ("leaseDuration=1h", 'leaseDuration "1h": expected whole seconds from 1s to 10m'),
    ("leaseDuration=10.5s", 'leaseDuration "10.5s": expected whole seconds from 1s to 10m'),
    ("leaseDuration=7s", "renewDeadline, 7s, must be shorter than leaseDuration, 7s"),
    ("leaseDuration=9s,reloaderCompat=true", "renewDeadline, 10s, must be shorter than lease"),
    ("retryPeriod=99ms", 'retryPeriod "99ms": expected 100ms or more'),
    ("retryPeriod=6s", "1.2 times leaderElection.retryPeriod, 6s, must be shorter than renew"),
)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("ignoreSecrets=true,ignoreConfigMaps=true", "cannot both be true"),
        ("namespaces={a}", "watchGlobally is true"),
        ("watchGlobaly=false", "watchGlobaly"),
        ("reloadStrategy=restart", "reloadStrategy"),
        ("replicas=two", "replicas"),
        ("settle=soon", "settle"),
        ("reloader.reloadStrategy=restart", "reloadStrategy"),
        ("reloader=on", "at '/reloader': got string, want null or object"),
        ("permissions.job=true", "'/permissions': additional properties 'job' not allowed"),
        ("deployment.resorces.limits.memory=1Gi", "additional properties 'resorces' not allowed"),
        ("deployment.env.TZ=UTC", "'/deployment/env': additional properties 'TZ' not allowed"),
        (
            "deployment.pod.labels.a=b",
            "'/deployment/pod': additional properties 'labels' not allowed",
        ),
        ("image=hotmap:1", "/image"),
        ("extraArgs=--x", "/extraArgs"),
        ("enableHA=true,replicas=1", "enableHA is true and replicas is 1: set replicas to 2"),
        ("watchGlobally=false,namespaces={a,Team B}", 'invalid name "Team B" in namespaces'),
        ("watchGlobally=false,namespaces=a;b", 'invalid name "a;b" in namespaces'),
        ("fullnameOverride=My_Name", 'invalid fullnameOverride "My_Name"'),
        ("logLevel=loud", 'invalid logLevel "loud"'),
        (
            "namespaceSelector=team b",
            'invalid namespaceSelector "team b": expected a label selector',
        ),
        ("reloader.resourceLabelSelector=a=b=c", 'invalid resourceLabelSelector "a=b=c": expected'),
        ("ignoreNamespaces=kube-*", 'invalid ignoreNamespaces "kube-*": expected names of'),
        ("follow=app", 'invalid follow "app": expected auto, off or a list'),
        ("follow=auto\\,off", 'invalid follow "auto,off": expected auto, off or a list'),
        ("follow=auto\\,cm/a", 'invalid follow "auto,cm/a": expected auto, off or a list'),
        ("follow=cm/[a", 'invalid follow "cm/[a": expected auto, off or a list'),
        ("follow=cm/!a", 'invalid follow "cm/!a": expected auto, off or a list'),
        ("follow='off'", "invalid follow \"'off'\": expected auto, off or a list"),
        ("follow='cm/a'", "invalid follow \"'cm/a'\": expected auto, off or a list"),
        ("follow= auto", 'invalid follow " auto": expected auto, off or a list'),
        (
            "custom_annotations.auto=a/b/c",
            'invalid custom_annotations.auto "a/b/c": expected a name',
        ),
        *(
            (f"webhookUrl={url}", "invalid webhookUrl (not shown): expected an http or https URL")
            for url in (
                "example.com/token",
                "http://:80",
                "http://a:x/token",
                "http://a:0",
                "http://token@",
                "http://[::1",
                "http://[token]",
            )
        ),
        ("image.digest=abc", "/image/digest"),
        ("image.repository=a b", 'invalid image "a b:0.1.0": expected a repository such as'),
        ("image.repository=a/hotmap:1", 'invalid image "a/hotmap:1:0.1.0": expected a repository'),
        ("image.repository=hotmap:1", 'invalid image "hotmap:1:0.1.0": expected a repository'),
        ("image.tag=:7", 'invalid image "hotmap::7": expected a repository'),
        ("global.imageRegistry=https://a.b", 'invalid image "https://a.b/hotmap:0.1.0": expected'),
        ("settle=5", "/settle"),
        ("settle=61m", 'invalid settle "61m": must not exceed 1h'),
        ("reloader.settleMax=2h", 'invalid settleMax "2h": must not exceed 1h'),
        ("settleMax=100ms", 'settleMax "100ms": must not be shorter than settle, which is 500ms'),
        ("settle=1m30s,settleMax=1.4m", "must not be shorter than settle, which is 1m30s"),
        ("podCheckRate=101", "/podCheckRate"),
        ("podCheckRate=100.5", "/podCheckRate"),
        ("reloader.leaderElection.leaseDuration=15", "/leaderElection/leaseDuration"),
        *((f"leaderElection.{time}", message) for time, message in INVALID_ELECTIONS),
    ],
)
def test_invalid_value_is_refused(values: str, message: str) -> None:
    """By the schema or by the templates, with the name of the value."""
    done = helm("template", "hotmap", str(CHART), f"--set={values}", check=False)
    assert done.returncode != 0
    assert message in done.stderr
    # Lint logs what a template refuses, with its quotes escaped, and goes on.
    done = helm("lint", str(CHART), f"--set={values}", check=False)
    assert message in (done.stdout + done.stderr).replace('\\"', '"')


def test_longest_and_shortest_times_are_allowed() -> None:
    """As by the controller, which has the same bounds."""
    for values in (
        "settle=1h,settleMax=60m,leaderElection.leaseDuration=10m",
        "settle=0s,settleMax=0s,leaderElection.retryPeriod=100ms,podCheckRate=0.5",
        "settle=500ms,leaderElection.leaseDuration=9s,leaderElection.renewDeadline=2.5s",
        "settleMax=1h0ms,reloaderCompat=true,podCheckRate=100",
        "shadow=true,leaderElection.leaseDuration=1h",
        "settleMax=100ms,extraArgs={--settle=50ms}",
    ):
        helm("template", "hotmap", str(CHART), f"--set={values}")


SELECTORS = (
    *("team=a", "team==a", "team!=a", "team", "!team", "a=b,c!=d", "a.b/c=d", "n>5", "team="),
    *("team in (a, b)", "team notin (a)", "team in ()", "team:a", "team:*", "team=*", '"team=a"'),
    *("a,,b", ",", "team b", "team=a=b", "a/b/c=d", "A.b/c=d", "team in a", "team!=*", "team=ä"),
)


@pytest.mark.parametrize("value", ["namespaceSelector", "resourceLabelSelector"])
def test_chart_and_controller_refuse_the_same_selectors(value: str) -> None:
    """An installation is refused, instead of a controller that ends at each start."""
    flag = re.sub("([A-Z])", r"-\1", value).lower().replace("-", "_")

    def is_read(selector: str) -> bool:
        given: dict[str, Any] = {flag: (selector,)}
        try:
            read_reloader_flags(ReloaderFlags(**given), {})
        except SettingsError:
            return False
        return True

    def is_installed(selector: str) -> bool:
        values = f"--set-json={json.dumps({value: selector})}"
        return helm("template", "hotmap", str(CHART), values, check=False).returncode == 0

    assert {each: is_installed(each) for each in SELECTORS} == {
        each: is_read(each) for each in SELECTORS
    }


@pytest.mark.parametrize("name", ["deployment", "deployment.env", "podMonitor", "image"])
def test_null_in_place_of_a_map_is_refused(name: str) -> None:
    """Helm leaves the defaults out then; lint does not."""
    done = helm("template", "hotmap", str(CHART), f"--set={name}=null", check=False)
    assert done.returncode != 0
    assert f"{name} is null: leave it out" in done.stderr


def test_empty_lists_and_repeated_names_are_allowed() -> None:
    """An empty list of namespaces is the release's own; a name twice is one role."""
    own = render_objects("--set-json=namespaces=[]", "--set=watchGlobally=false")
    assert own == render_objects("--set=watchGlobally=false")
    twice = render("--set=watchGlobally=false", "--set=namespaces={b,a,b}")
    assert twice == render("--set=watchGlobally=false", "--set=namespaces=a\\,b")
    empty = ("volumes", "extraArgs", "deployment.tolerations", "netpol.from", "agents.namespaces")
    assert render_objects(*(f"--set-json={name}=[]" for name in empty)) == render_objects()


def test_labels_of_the_chart_cannot_be_replaced() -> None:
    """Selectors and `hotmap status` find the pods by them."""
    labels = {"app.kubernetes.io/name": "mine", "team": "a"}
    values = f"--set-json={json.dumps({'deployment': {'labels': labels}, 'matchLabels': labels})}"
    text = render("--set=enableHA=true", values)
    assert "mine" not in text
    deployment = render_objects(values)["Deployment", "hotmap"]
    found = deployment["spec"]["template"]["metadata"]["labels"]
    assert (found["app.kubernetes.io/name"], found["team"]) == ("hotmap", "a")
    assert deployment["spec"]["selector"]["matchLabels"].items() <= found.items()
    assert ignored(values) == [
        "deployment.labels.app.kubernetes.io/name: the chart sets it",
        "matchLabels.app.kubernetes.io/name: the chart sets it",
    ]


def test_label_at_two_places_is_written_once() -> None:
    """A selector's label that is one of the Deployment's, too."""
    values = "--set=deployment.labels.team=a,matchLabels.team=b"
    text = render(values)
    assert text.count("team: a") == 1
    found = render_objects(values)["Deployment", "hotmap"]["spec"]["template"]["metadata"]["labels"]
    assert found["team"] == "b"


def test_reloaders_high_availability_with_one_replica_is_named() -> None:
    """Reloader accepts it, and so does its values file here."""
    assert ignored("--set=reloader.enableHA=true,reloader.deployment.replicas=1") == [
        "reloader.enableHA: replicas is 1"
    ]


def test_what_has_no_effect_is_named() -> None:
    """Each value of Reloader that hotmap does not have, and each unknown one."""
    assert ignored(
        "--set=reloader.enablePProf=true,reloader.isOpenshift=true,reloader.frobnicate=1",
        "--set=reloader.deployment.gomaxprocsOverride=1,reloader.deployment.other=1",
        "--set=reloader.deployment.image.tag=v1,reloader.legacy.rbac=true,image.tag=v1.0.0",
        "--set=reloader.deployment.env.TZ=UTC,reloader.deployment.pod.labels.a=b",
        "--set=kubernetes.host=https://a,reloader.custom_annotations.other=a/b",
        "--set=reloader.watchGlobally=false,reloader.ignoreNamespaces=a,namespace=reloader",
    ) == [
        "ignoreNamespaces: not all namespaces are watched (watchGlobally)",
        "image: it is Reloader's; set image.repository and image.tag to hotmap's",
        "kubernetes.host: the pod's own API server is used",
        "namespace: the release's is used; install with --namespace=reloader",
        "reloader.custom_annotations.other: unknown",
        "reloader.deployment.env.TZ: unknown",
        "reloader.deployment.gomaxprocsOverride: hotmap is not written in Go",
        "reloader.deployment.image: set image.repository and image.tag to hotmap's",
        "reloader.deployment.other: unknown",
        "reloader.deployment.pod.labels: unknown",
        "reloader.enablePProf: there are no debug endpoints",
        "reloader.frobnicate: unknown",
        "reloader.isOpenshift: DeploymentConfigs are not served",
        "reloader.legacy.rbac: rbac.authorization.k8s.io/v1 is used",
    ]


@pytest.mark.parametrize(
    ("values", "image"),
    [
        ("image.repository=example.com/hotmap,image.tag=7", "example.com/hotmap:7"),
        ("global.imageRegistry=example.com", f"example.com/hotmap:{__version__}"),
        ("global.imageRegistry=example.com,image.name=a/hotmap", "example.com/a/hotmap"),
        (f"image.digest=sha256:{64 * 'a'}", f"hotmap@sha256:{64 * 'a'}"),
        ("image.name=stakater/reloader", f"hotmap:{__version__}"),
        ("image.repository=a:5000/b-c/h_m", "a:5000/b-c/h_m"),
        ("image.tag=20261130", "hotmap:20261130"),
        ("image.tag=V_1.0-rc", "hotmap:V_1.0-rc"),
        (f"image.tag=1.0@sha256:{64 * 'a'}", f"hotmap:1.0@sha256:{64 * 'a'}"),
        (f"image.tag=v1@sha256:{64 * 'a'}", f"hotmap:v1@sha256:{64 * 'a'}"),
        (f"image.tag=v1.4.22@sha256:{64 * 'a'}", f"hotmap:{__version__}"),
    ],
)
def test_image_reference_is_made_of_registry_name_tag_or_digest(values: str, image: str) -> None:
    """A registry, a name below it, a tag or a digest."""
    found = container(render_objects(f"--set={values}"))["image"]
    assert found == image or found == f"{image}:{__version__}"


def test_every_value_has_a_type_and_a_comment_or_an_example() -> None:
    """The schema knows every value of values.yaml, and no other."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    settings = schema["definitions"]["settings"]["properties"]
    assert set(schema["propertyNames"]["enum"]) == {*values, "kubernetes", "namespace"}
    assert {*settings, *schema["properties"]} == {*values, "kubernetes", "namespace"}
    for name, value in values.items():
        if isinstance(value, dict) and name in settings and value:
            assert set(settings[name]["properties"]) == set(value), name


@pytest.mark.parametrize(("version", "known"), [("1.25.16", False), ("1.26.0", True)])
def test_kubernetes_1_25_gets_no_field_that_it_does_not_know(version: str, known: bool) -> None:
    """kubectl and Helm refuse unknown fields there."""
    objects = render_objects("--set=replicas=2", f"--kube-version={version}")
    budget = objects["PodDisruptionBudget", "hotmap"]["spec"]
    assert ("unhealthyPodEvictionPolicy" in budget) is known
