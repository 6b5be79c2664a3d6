"""A real API server takes what injection writes, in a namespace with restricted Pod Security."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from tests.cluster.cluster import Cluster
from tests.cluster.errors import TestBedError
from tests.cluster.fixtures import private_control_plane

from hotmap.cli.inject import Injection, inject

pytestmark = pytest.mark.cluster

NAMESPACE = "injected"
IMAGE = "hotmap:1"

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  selector: {matchLabels: {app: shop}}
  template:
    metadata:
      labels: {app: shop}
    spec:
      securityContext:
        runAsUser: 1000
        runAsNonRoot: true
        seccompProfile: {type: RuntimeDefault}
      terminationGracePeriodSeconds: 60
      containers:
      - name: app
        image: shop
        command: [python3, -m, shop, "--greeting=$(GREETING)"]
        securityContext:
          allowPrivilegeEscalation: false
          capabilities: {drop: [ALL]}
        envFrom:
        - configMapRef: {name: shop}
        - prefix: DB_
          secretRef: {name: db, optional: true}
        env:
        - name: GREETING
          valueFrom: {configMapKeyRef: {name: words, key: greeting}}
        - {name: GREETING_TWO, value: $(GREETING) and $(GREETING)}
        - name: PASSWORD
          valueFrom: {secretKeyRef: {name: db, key: password, optional: true}}
        volumeMounts:
        - {name: conf, mountPath: /etc/shop}
        - {name: parts, mountPath: /etc/parts, subPath: conf.d}
        - {name: parts, mountPath: /etc/top.conf, subPath: top.conf}
      volumes:
      - name: conf
        configMap: {name: shop-files, defaultMode: 0440}
      - name: parts
        projected:
          sources:
          - configMap:
              name: parts
              items: [{key: a, path: conf.d/a.conf}, {key: top, path: top.conf}]
"""

FROZEN = ("--restart-on", "frozen")
MODES = {
    "native-sidecar": Injection(IMAGE, "", ("--url", "http://127.0.0.1/-/reload")),
    "native-sidecar, signals": Injection(IMAGE, "", ("--for", "nginx")),
    "native-sidecar, staged": Injection(IMAGE, "", ("--check", "true"), stage=True),
    "term": Injection(
        IMAGE, "", (*FROZEN, "--restart", "term", "--process", "command:shop")
    ),
    "sidecar": Injection(IMAGE, "", (), "sidecar"),
    "sidecar, staged": Injection(IMAGE, "", ("--check", "true"), "sidecar", stage=True),
    "init": Injection(IMAGE, "", ("--check", "true"), "init"),
    "init, staged": Injection(IMAGE, "", ("--check", "true"), "init", stage=True),
    "supervisor": Injection(IMAGE, "", (), "supervisor"),
    "supervisor, staged": Injection(IMAGE, "", ("--check", "true"), "supervisor", stage=True),
    "supervisor, own environment": Injection(IMAGE, "", (), "supervisor", keep_env=True),
}  # fmt: skip

#: What needs Kubernetes 1.36.
RESTART_ALL = {
    "all containers": Injection(IMAGE, "", (*FROZEN, "--drain-url", "http://127.0.0.1/drain")),
    "all containers, plain sidecar": Injection(IMAGE, "", FROZEN, "sidecar"),
    "all containers, supervised": Injection(
        IMAGE, "", (*FROZEN, "--restart", "all-containers"), "supervisor", keep_env=True
    ),
}


def with_namespace(cluster: Cluster) -> Cluster:
    cluster.kubectl("create", "namespace", NAMESPACE)
    label = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", NAMESPACE, label)
    deadline = time.monotonic() + 60
    while "default" not in cluster.kubectl("get", "serviceaccounts", f"--namespace={NAMESPACE}"):
        assert time.monotonic() < deadline, "no service account within 60 s"
        time.sleep(0.1)
    return cluster


@pytest.fixture(scope="module")
def plane(real_control_plane: Cluster) -> Iterator[Cluster]:
    yield with_namespace(real_control_plane)
    real_control_plane.kubectl("delete", "namespace", NAMESPACE)


def submit(cluster: Cluster, injection: Injection) -> None:
    """Let the server check the Deployment and a pod of it, without keeping either.

    `strict`: a field that the server does not know is an error, not dropped.
    """
    text = inject(MANIFEST, injection, "shop.yaml")[0]
    create = ("create", f"--namespace={NAMESPACE}", "--dry-run=server", "--validate=strict")
    cluster.kubectl(*create, "--filename=-", stdin=text)
    shown = ("create", f"--namespace={NAMESPACE}", "--dry-run=client", "--output=json")
    template = json.loads(cluster.kubectl(*shown, "--filename=-", stdin=text))["spec"]["template"]
    template["metadata"]["name"] = "shop"
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    cluster.kubectl(*create, "--filename=-", stdin=json.dumps(pod))


@pytest.mark.parametrize("mode", [*MODES, *RESTART_ALL])
def test_apiserver_accepts_every_mode(plane: Cluster, mode: str) -> None:
    """Deployment and pod pass validation, and the agent's containers the restricted profile."""
    submit(plane, {**MODES, **RESTART_ALL}[mode])


def test_kubernetes_1_35_rejects_restart_all_containers() -> None:
    """1.35 takes every mode but the rule RestartAllContainers, and says so."""
    with private_control_plane("1.35") as cluster:
        with_namespace(cluster)
        for injection in MODES.values():
            submit(cluster, injection)
        for injection in RESTART_ALL.values():
            with pytest.raises(TestBedError, match="restartPolicyRules"):
                submit(cluster, injection)
