"""Two real clusters behave alike: what the comparison kit still shows between them is its fault."""

import pytest
from tests.cluster import compare, versions
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import private_control_plane

pytestmark = pytest.mark.cluster

SCRIPT = """\
kubectl create namespace compared
kubectl -n compared create configmap settings --from-literal=log.level=debug
kubectl -n compared create configmap settings --from-literal=log.level=debug     # a second time
kubectl -n compared get configmap settings -o yaml
kubectl -n compared get configmap settings -o json
kubectl -n compared get configmap settings -o wide
kubectl -n compared get configmap absent
kubectl -n compared apply -f - <<'YAML'
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: hotmap.test/nginx:1
        envFrom: [{configMapRef: {name: settings}}]
YAML
kubectl -n compared wait --for=jsonpath={.status.unavailableReplicas}=2 deployment/web --timeout=30s
kubectl -n compared get deployments,replicasets,pods -o wide
kubectl -n compared get pods -o yaml
kubectl -n compared describe deployment web
kubectl -n compared rollout history deployment/web
kubectl -n compared patch deployment web --type=json -p '[{"op": "remove", "path": "/spec/none"}]'
kubectl -n compared apply -f - <<'YAML'
apiVersion: apps/v1
kind: Deployment
metadata: {name: wrong}
spec: {replicas: many}
YAML
kubectl version
kubectl delete namespace compared --wait=false
"""


def test_two_real_control_planes_do_not_differ(real_control_plane: Cluster) -> None:
    """Creation, tables, YAML, events, patches and error texts of one release, twice."""
    with private_control_plane(versions.DEFAULT_MINOR) as other:
        script = compare.read_script(SCRIPT)
        left, right = (
            compare.run(script, cluster.kubectl_path, cluster.kubeconfig)
            for cluster in (real_control_plane, other)
        )
    found = compare.differences(left, right, names=("one", "other"))
    assert not found, found
    assert [outcome.code for outcome in left] == [0, 0, 1, 0, 0, 0, 1] + [0] * 6 + [1, 1, 0, 0]
