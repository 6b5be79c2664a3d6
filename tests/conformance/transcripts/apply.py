"""`kubectl apply`, on either side."""

from __future__ import annotations

FILES = {
    "unknown-field.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: wrong}
spec:
  replica: 2
  selector: {matchLabels: {app: wrong}}
  template:
    metadata: {labels: {app: wrong}}
    spec: {containers: [{name: main, image: host}]}
""",
}

PLANE = {
    "apply": """
$ apply -f configmap.yaml
configmap/app created
$ apply -f configmap.yaml
configmap/app unchanged
$ diff -f configmap.yaml
$ diff -f configmap-changed.yaml
...
-  colour: red
-  level: info
+  level: debug
...
[1]
$ apply -f configmap-changed.yaml
configmap/app configured
$ get configmap app -o jsonpath={.data}
{"level":"debug"}
$ apply view-last-applied configmap app
...
  level: debug
...
$ apply -f unknown-field.yaml
Error from server (BadRequest): error when creating "unknown-field.yaml": Deployment in version ...
[1]
$ apply -f unknown-field.yaml --validate=warn
deployment.apps/wrong created
Warning: unknown field "spec.replica"
$ delete -f configmap.yaml
configmap "app" deleted...
""",
    "server-side-apply": """
$ apply --server-side -f configmap.yaml
configmap/app serverside-applied
$ apply --server-side -f configmap-changed.yaml --field-manager=other
error: Apply failed with 1 conflict: conflict with "kubectl": .data.level
...
[1]
$ apply --server-side -f configmap-changed.yaml --field-manager=other --force-conflicts
configmap/app serverside-applied
$ get configmap app -o jsonpath={.data}
{"colour":"red","level":"debug"}
$ get configmap app -o jsonpath={.metadata.managedFields[*].manager} --show-managed-fields
kubectl other
$ diff --server-side -f configmap-changed.yaml --field-manager=other
""",
    "apply-migration": """
$ apply -f configmap.yaml
configmap/app created
$ apply --server-side -f configmap-changed.yaml
configmap/app serverside-applied
$ get configmap app -o jsonpath={.data}
{"level":"debug"}
""",
}
