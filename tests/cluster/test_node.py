"""A real node: real containers with real volumes, faults of its parts, and no trace afterwards."""

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.cluster import footprint, images, layout, network
from tests.cluster.cluster import Cluster
from tests.cluster.components import State
from tests.cluster.errors import TestBedError
from tests.support.polling import poll_until

pytestmark = pytest.mark.cluster

SECONDS = 90.0
NAMESPACE = "node-tests"
SLEEP = ["sh", "-c", "exec sleep 100000"]


@pytest.fixture(scope="module")
def cluster(real_cluster: Cluster) -> Iterator[Cluster]:
    """The shared cluster with a namespace for this file and the ConfigMap `settings` in it."""
    real_cluster.kubectl("create", "namespace", NAMESPACE)
    apply(real_cluster, config_map({"log.level": "debug"}))
    yield real_cluster
    real_cluster.kubectl(
        "delete", "namespace", NAMESPACE, f"--timeout={SECONDS:.0f}s", seconds=SECONDS + 10
    )


def apply(cluster: Cluster, manifest: Mapping[str, object]) -> None:
    in_namespace(cluster, "apply", "--filename=-", stdin=json.dumps(manifest))


def in_namespace(cluster: Cluster, *arguments: str, stdin: str | None = None) -> str:
    return cluster.kubectl(f"--namespace={NAMESPACE}", *arguments, stdin=stdin, seconds=SECONDS)


def config_map(data: dict[str, str]) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": data,
    }


def run(cluster: Cluster, name: str, image: str, command: list[str], **spec: object) -> None:
    """Start a Pod that mounts the ConfigMap at /settings and has it in its environment."""
    container = {
        "name": name,
        "image": images.reference(image),
        "command": command,
        "envFrom": [{"configMapRef": {"name": "settings"}}],
        "volumeMounts": [{"name": "settings", "mountPath": "/settings"}],
    }
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "containers": [container],
            "volumes": [{"name": "settings", "configMap": {"name": "settings"}}],
            "terminationGracePeriodSeconds": 1,
            "restartPolicy": "Never",
            **spec,
        },
    }
    apply(cluster, manifest)


def wait_ready(cluster: Cluster, name: str) -> None:
    in_namespace(cluster, "wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")


def wait_done(cluster: Cluster, name: str) -> str:
    wait = f"pod/{name}", "--timeout=60s"
    in_namespace(cluster, "wait", "--for=jsonpath={.status.phase}=Succeeded", *wait)
    return in_namespace(cluster, "logs", name)


def answers(cluster: Cluster, pod: str) -> bool:
    """Return whether a command can be run in a Pod; a kubelet that has just started knows none."""
    try:
        return in_namespace(cluster, "exec", pod, "--", "echo", "alive") == "alive\n"
    except TestBedError:
        return False


def test_pod_sees_config_map_as_files_and_environment(cluster: Cluster) -> None:
    """Data keys that are not identifiers survive in the environment; files appear by symlink."""
    run(cluster, "sees", "busybox", SLEEP)
    wait_ready(cluster, "sees")
    assert in_namespace(cluster, "exec", "sees", "--", "cat", "/settings/log.level") == "debug"
    assert "log.level=debug" in in_namespace(cluster, "exec", "sees", "--", "env").splitlines()
    found = in_namespace(cluster, "exec", "sees", "--", "readlink", "/settings/log.level")
    assert found.strip() == "..data/log.level"


def test_annotated_pod_gets_edit_at_once(cluster: Cluster) -> None:
    """The nudge on which hotmap rests: without it the kubelet may take more than a minute."""
    run(cluster, "nudged", "busybox", SLEEP)
    wait_ready(cluster, "nudged")
    apply(cluster, config_map({"log.level": "info"}))
    in_namespace(cluster, "annotate", "pod", "nudged", "hotmap.test/nudge=1")
    read = ("exec", "nudged", "--", "cat", "/settings/log.level")
    began = time.monotonic()
    poll_until(lambda: in_namespace(cluster, *read) == "info", "the edit arrives", within=SECONDS)
    assert time.monotonic() - began < 60, "that was the periodic sync, not the nudge"
    apply(cluster, config_map({"log.level": "debug"}))


def test_python_speaks_to_the_api_with_its_service_account(cluster: Cluster) -> None:
    """Token, certificate and service address, as the controller uses them in a cluster."""
    code = """\
import os, ssl, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
context = ssl.create_default_context(cafile=folder + "/ca.crt")
context.verify_flags &= ~ssl.VERIFY_X509_STRICT
request = urllib.request.Request(
    f"https://{os.environ['KUBERNETES_SERVICE_HOST']}/version",
    headers={"Authorization": "Bearer " + open(folder + "/token").read()},
)
print(urllib.request.urlopen(request, context=context, timeout=20).read().decode())
"""
    run(cluster, "speaks", "python", ["python3", "-c", code])
    release = json.loads(wait_done(cluster, "speaks"))["gitVersion"]
    assert release.startswith("v1.")


def test_nginx_serves_through_a_service(cluster: Cluster) -> None:
    """kube-proxy forwards from the Service's address to the Pod's."""
    server = "server { listen 8080; location / { return 200 'served'; } }"
    apply(cluster, config_map({"default.conf": server}))
    apply(
        cluster,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "serves", "labels": {"app": "serves"}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {
                        "name": "nginx",
                        "image": images.reference("nginx"),
                        "volumeMounts": [{"name": "conf", "mountPath": "/etc/nginx/conf.d"}],
                    }
                ],
                "volumes": [{"name": "conf", "configMap": {"name": "settings"}}],
            },
        },
    )
    in_namespace(cluster, "expose", "pod", "serves", "--port=80", "--target-port=8080")
    wait_ready(cluster, "serves")
    apply(cluster, config_map({"log.level": "debug"}))
    run(cluster, "asks", "busybox", SLEEP)
    wait_ready(cluster, "asks")
    address = in_namespace(cluster, "get", "service", "serves", "-o=jsonpath={.spec.clusterIP}")
    ask = f"until wget -q -O- http://{address}; do sleep 0.1; done"
    assert in_namespace(cluster, "exec", "asks", "--", "timeout", "30", "sh", "-c", ask) == "served"


def test_names_of_services_resolve_or_fail_at_once(cluster: Cluster) -> None:
    """With CoreDNS they resolve; without it a lookup must not hold up a program for seconds."""
    code = """\
import socket, time
began = time.monotonic()
try:
    found = socket.gethostbyname("kubernetes.default.svc.cluster.local")
except socket.gaierror:
    found = "unknown"
print(found, "at once" if time.monotonic() - began < 4 else "late")
"""
    run(cluster, "resolves", "python", ["python3", "-c", code])
    wanted = layout.API_SERVICE_ADDRESS if cluster.layout.settings.dns else "unknown"
    assert wait_done(cluster, "resolves") == f"{wanted} at once\n"


def test_pause_process_reaps_orphans(cluster: Cluster) -> None:
    """With a shared process namespace it is PID 1, and orphans would stay as zombies."""
    run(cluster, "reaps", "busybox", SLEEP, shareProcessNamespace=True)
    wait_ready(cluster, "reaps")
    orphan = "sh -c 'sleep 0.1 &'; sleep 0.5; cat /proc/[0-9]*/stat"
    found = in_namespace(cluster, "exec", "reaps", "--", "sh", "-c", orphan)
    assert "(pause)" in found
    assert not [line for line in found.splitlines() if line.split()[2] == "Z"]


def test_pause_process_of_unprivileged_pod_costs_nothing(cluster: Cluster) -> None:
    """It sleeps for good: its processor time, in hundredths of a second, stands still."""
    context = {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532}
    run(cluster, "idle", "busybox", SLEEP, shareProcessNamespace=True, securityContext=context)
    wait_ready(cluster, "idle")
    script = "cut -d' ' -f14,15 /proc/1/stat; sleep 1; cut -d' ' -f14,15 /proc/1/stat"
    before, after = in_namespace(cluster, "exec", "idle", "--", "sh", "-c", script).splitlines()
    assert before == after


def test_hotmap_image_holds_hotmap_and_what_it_needs(cluster: Cluster) -> None:
    """Compiled dependencies of this Python load in the image's."""
    modules = "httptools, click, hotmap, msgspec, prometheus_client, rich, yaml"
    run(cluster, "imports", "hotmap", ["python3", "-c", f"import {modules}; print('ok')"])
    assert wait_done(cluster, "imports") == "ok\n"


@pytest.mark.parametrize("name", ["kubelet", "containerd", "kube-proxy"])
def test_pods_survive_the_death_of_a_node_component(cluster: Cluster, name: str) -> None:
    """It is named, `restart` brings it back, and the Pod's container is still the same."""
    pod = f"survives-{name}"
    run(cluster, pod, "busybox", SLEEP)
    wait_ready(cluster, pod)
    identity = ("get", "pod", pod, "-o=jsonpath={.status.containerStatuses[0].containerID}")
    before = in_namespace(cluster, *identity)
    cluster.kill(name)
    assert cluster.processes.state(name) is State.KILLED
    assert f"{name} is killed" in cluster.unhealthy()
    cluster.restart(name)
    poll_until(lambda: cluster.unhealthy() == [], "all components healthy", within=SECONDS)
    poll_until(lambda: answers(cluster, pod), "the Pod answers again", within=SECONDS)
    assert in_namespace(cluster, *identity) == before


def test_down_leaves_no_trace_and_up_brings_pods_back(cluster: Cluster) -> None:
    """No process, mount, address, rule or cgroup; with the objects kept, pods start again."""
    run(cluster, "returns", "busybox", SLEEP, restartPolicy="Always")
    wait_ready(cluster, "returns")
    before = footprint.noted()
    assert before is not None
    cluster.down(keep=True)
    try:
        assert cluster.processes.leftovers() == []
        assert footprint.mounts_below(cluster.layout.folder) == []
        assert not network.has_address()
        assert network.FORWARDING.read_text().strip() == before["forwarding"]
        assert footprint.present(before["absent"]) == []
        assert network.saved_rules() == []
        assert footprint.cgroups() == []
        assert footprint.noted() is None
    finally:
        cluster.up()
    poll_until(lambda: answers(cluster, "returns"), "the Pod is back", within=SECONDS)


def test_second_node_per_machine_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    """A second one is refused by naming the first one's folder."""
    second = Cluster(tmp_path / "second", layout.Settings(18000))
    wanted = f"already the node of the cluster in {cluster.layout.folder}"
    with pytest.raises(TestBedError, match=wanted):
        second.up()
