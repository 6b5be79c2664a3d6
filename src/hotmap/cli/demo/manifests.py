"""The demo's objects."""

from __future__ import annotations

__all__ = ["MANIFESTS", "WORKLOADS"]

#: The demo's workloads, and what each of them uses.
WORKLOADS = {
    "api": "variable LOG_LEVEL",
    "site": "file greeting",
    "batch": "variable BATCH_SIZE",
    "clock": "another ConfigMap",
}

MANIFESTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: app-config}
data:
  LOG_LEVEL: INFO
  BATCH_SIZE: "100"
  greeting: hello
---
apiVersion: v1
kind: ConfigMap
metadata: {name: clock-config}
data: {FORMAT: 24h}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: api
  annotations: {hotmap.dev/follow: auto}
spec:
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: api
        image: host
        command: [sh, -c, 'echo "LOG_LEVEL is $LOG_LEVEL"; exec sleep 3600']
        env:
        - name: LOG_LEVEL
          valueFrom: {configMapKeyRef: {name: app-config, key: LOG_LEVEL}}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: site
  annotations: {hotmap.dev/follow: auto, hotmap.dev/rereads: "true"}
spec:
  selector: {matchLabels: {app: site}}
  template:
    metadata: {labels: {app: site}}
    spec:
      terminationGracePeriodSeconds: 1
      volumes:
      - name: pages
        configMap: {name: app-config, items: [{key: greeting, path: greeting}]}
      containers:
      - name: site
        image: host
        volumeMounts: [{name: pages, mountPath: /etc/site}]
        command:
        - sh
        - -c
        - |
          shown=
          while :; do
            now=$(cat /etc/site/greeting)
            [ "$now" = "$shown" ] || echo "greeting is $now"
            shown=$now
            sleep 0.02
          done
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: batch
  annotations: {hotmap.dev/follow: auto}
spec:
  selector: {matchLabels: {app: batch}}
  template:
    metadata: {labels: {app: batch}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: batch
        image: host
        command: [sleep, "3600"]
        env:
        - name: BATCH_SIZE
          valueFrom: {configMapKeyRef: {name: app-config, key: BATCH_SIZE}}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: clock
  annotations: {hotmap.dev/follow: auto}
spec:
  selector: {matchLabels: {app: clock}}
  template:
    metadata: {labels: {app: clock}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: clock
        image: host
        command: [sleep, "3600"]
        envFrom: [{configMapRef: {name: clock-config}}]
"""
