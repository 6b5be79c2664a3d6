"""W9: hotmap's controller restarts what names its ConfigMaps in Reloader's annotation."""

from __future__ import annotations

from tests.walkthroughs.backend import Backend
from tests.walkthroughs.steps import replaced, running_pod, variable

MANIFESTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: demo-config}
data:
  READ_TIMEOUT_SECONDS: "30"
  WRITE_TIMEOUT_SECONDS: "30"
  NAME: demo
---
apiVersion: v1
kind: ConfigMap
metadata: {name: nginx-config}
data:
  nginx.conf: "events {}\\n"
  mime.types: "types {}\\n"
  conf.d__default.conf: "server { listen 8080; }\\n"
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other-config}
data: {NAME: other}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: demo
  annotations:
    configmap.reloader.stakater.com/reload: "nginx-config, demo-config"
spec:
  selector: {matchLabels: {app: demo}}
  template:
    metadata: {labels: {app: demo}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: demo
        image: hotmap.test/busybox:1
        command: [sleep, "3600"]
        envFrom: [{configMapRef: {name: demo-config}}]
        volumeMounts: [{name: nginx-config, mountPath: /etc/nginx}]
      volumes:
      - name: nginx-config
        configMap:
          name: nginx-config
          items:
          - {key: nginx.conf, path: nginx.conf}
          - {key: mime.types, path: mime.types}
          - {key: conf.d__default.conf, path: conf.d/default.conf}
"""
DEFAULT_CONF = "/etc/nginx/conf.d/default.conf"


async def test_edit_of_either_config_map_restarts_pod(backend: Backend) -> None:
    """Long before the sync period is over there is a new pod with new variables or files."""
    await backend.create(MANIFESTS)
    first = await running_pod(backend, "demo")
    async with backend.running_controller():
        await backend.patch("ConfigMap", "demo-config", {"data": {"READ_TIMEOUT_SECONDS": "60"}})
        second = await replaced(backend, "demo", first)
        assert await variable(backend, second, "READ_TIMEOUT_SECONDS") == "60"
        assert await variable(backend, second, "WRITE_TIMEOUT_SECONDS") == "30"
        served = "server { listen 9090; }\n"
        await backend.patch("ConfigMap", "nginx-config", {"data": {"conf.d__default.conf": served}})
        third = await replaced(backend, "demo", second)
        assert await backend.exec(third.name, "cat", DEFAULT_CONF) == served


async def test_config_map_that_is_not_named_restarts_nothing(backend: Backend) -> None:
    """After an edit of another ConfigMap, and of a named one, there was one rollout."""
    await backend.create(MANIFESTS)
    first = await running_pod(backend, "demo")
    async with backend.running_controller():
        await backend.patch("ConfigMap", "other-config", {"data": {"NAME": "edited"}})
        await backend.patch("ConfigMap", "demo-config", {"data": {"NAME": "edited"}})
        second = await replaced(backend, "demo", first)
        assert await variable(backend, second, "NAME") == "edited"
        await backend.rolled_out("demo")
        assert await backend.history("demo") == [1, 2]
