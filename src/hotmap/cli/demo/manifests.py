"""The demo's objects."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import hotmap

__all__ = ["WORKLOADS", "make_manifests"]

#: The demo's workloads, and what each of them uses.
WORKLOADS = {
    "api": "variable LOG_LEVEL",
    "site": "file greeting",
    "batch": "variable BATCH_SIZE",
    "proxy": "routes, with an agent",
    "clock": "another ConfigMap",
}

_MANIFESTS = """
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
apiVersion: v1
kind: ConfigMap
metadata: {name: proxy-config}
data: {routes: v1}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: proxy
  annotations: {hotmap.dev/follow: auto}
spec:
  selector: {matchLabels: {app: proxy}}
  template:
    metadata:
      labels: {app: proxy}
      annotations: {hotmap.dev/agent: port=9533;restart=none}
    spec:
      terminationGracePeriodSeconds: 1
      volumes:
      - name: conf
        configMap: {name: proxy-config}
      - name: work
        emptyDir: {}
      - name: pod
        downwardAPI:
          items:
          - {path: annotations, fieldRef: {fieldPath: metadata.annotations}}
          - {path: uid, fieldRef: {fieldPath: metadata.uid}}
      containers:
      - name: proxy
        image: host
        env:
        - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        - {name: PYTHONPATH, value: PACKAGES}
        volumeMounts:
        - {name: conf, mountPath: /etc/proxy}
        - {name: work, mountPath: /run/proxy}
        - {name: pod, mountPath: /hotmap/pod}
        # Like nginx: it reads its file at start and at SIGHUP, and keeps running in between.
        args:
        - --dir=/etc/proxy
        - --check=sh -c '! grep -q broken {dir}/routes'
        - --signal=HUP
        - --verify=file /run/proxy/loaded
        - --target-file=/hotmap/pod/annotations
        - --work-dir=/run/proxy
        - --listen=$(POD_IP):9533
        - --settle=0
        - --
        - sh
        - -c
        - |
          load() {
            cat /etc/proxy/routes >/run/proxy/loaded
            echo "serving $(cat /run/proxy/loaded)"
          }
          trap load HUP
          load
          while :; do sleep 3600 & wait $!; done
        command: [PYTHON, -m, hotmap, agent]
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


def make_manifests() -> str:
    """Return all of them as a YAML stream; the agent is this Python's, at a free port."""
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
    # A container does not inherit the environment in which hotmap was found.
    packages = str(Path(hotmap.__file__).parents[1])
    text = _MANIFESTS.replace("[PYTHON", f"[{json.dumps(sys.executable)}")
    text = text.replace("PACKAGES", json.dumps(packages))
    return text.replace("9533", str(port))
