"""W2: a ConfigMap's values are a container's environment."""

from __future__ import annotations

from tests.walkthroughs.backend import Backend
from tests.walkthroughs.steps import finished_log

MANIFESTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: special-config}
data: {special.how: very, special.type: charm}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: env-config}
data: {log_level: INFO}
---
apiVersion: v1
kind: Pod
metadata: {name: dapi-test-pod}
spec:
  restartPolicy: Never
  containers:
  - name: test-container
    image: hotmap.test/busybox:1
    command: [/bin/sh, -c, env]
    env:
    - name: SPECIAL_LEVEL_KEY
      valueFrom: {configMapKeyRef: {name: special-config, key: special.how}}
    - name: SPECIAL_TYPE_KEY
      valueFrom: {configMapKeyRef: {name: special-config, key: special.type}}
    envFrom:
    - configMapRef: {name: env-config}
"""


async def test_keys_and_whole_config_maps_become_variables(backend: Backend) -> None:
    """Single data keys under names of one's own, and all of a ConfigMap under its own names."""
    await backend.create(MANIFESTS)
    variables = (await finished_log(backend, "dapi-test-pod")).splitlines()
    wanted = {"SPECIAL_LEVEL_KEY=very", "SPECIAL_TYPE_KEY=charm", "log_level=INFO"}
    assert wanted <= set(variables)
