"""Workloads on a node that runs pods; the lines follow one another."""

from __future__ import annotations

FILES = {
    "web.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: host
        command: [sh, -c, "echo started; exec sleep 1000"]
""",
}

CLUSTER = """
$ apply -f web.yaml
deployment.apps/web created
$ rollout status deployment/web --timeout=60s
...deployment "web" successfully rolled out
$ wait --for=condition=Available deployment/web --timeout=60s
deployment.apps/web condition met
$ get deployment web
NAME   READY   UP-TO-DATE   AVAILABLE   AGE
web    2/2     2            2           ...s
$ describe deployment web
Name:                   web
...
Replicas:               2 desired | 2 updated | 2 total | 2 available | 0 unavailable
...
$ logs deployment/web
...started...
$ exec deployment/web -- echo inside
inside
$ exec deployment/web -- false
command terminated with exit code 1
[1]
$ set env deployment/web LEVEL=debug
deployment.apps/web env updated
$ rollout status deployment/web --timeout=60s
...deployment "web" successfully rolled out
$ rollout history deployment/web
deployment.apps/web...
REVISION  CHANGE-CAUSE
1         <none>
2         <none>
$ rollout undo deployment/web
...deployment.apps/web rolled back...
$ rollout restart deployment/web
deployment.apps/web restarted
$ set image deployment/web main=other
deployment.apps/web image updated
$ rollout pause deployment/web
deployment.apps/web paused
$ rollout resume deployment/web
deployment.apps/web resumed
$ scale deployment web --replicas=1
deployment.apps/web scaled
$ rollout status deployment/web --timeout=60s
...deployment "web" successfully rolled out
$ events --for deployment/web
LAST SEEN ...
...ScalingReplicaSet...
$ get events
LAST SEEN ...
$ run single --image=host --restart=Never --command -- sh -c exec\\ sleep\\ 1000
pod/single created
$ wait --for=condition=Ready pod/single --timeout=60s
pod/single condition met
$ cp app.txt single:/tmp/app.txt
$ exec single -- cat /tmp/app.txt
hello
$ delete pod single --grace-period=1
pod "single" deleted...
$ delete deployment web
deployment.apps "web" deleted...
"""
