"""Objects that several walkthroughs start from."""

from __future__ import annotations

__all__ = ["CONFIG", "ENVIRONMENT"]

CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: env-config}
data: {log_level: INFO}
---
"""

ENVIRONMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: my-nginx}
spec:
  selector: {matchLabels: {app: my-nginx}}
  template:
    metadata: {labels: {app: my-nginx}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: my-nginx
        image: hotmap.test/busybox:1
        command: [sleep, "3600"]
        envFrom: [{configMapRef: {name: env-config}}]
"""
