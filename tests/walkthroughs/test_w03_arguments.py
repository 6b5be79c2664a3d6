"""W3: a ConfigMap's values in a container's command."""

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
kind: Pod
metadata: {name: dapi-test-pod}
spec:
  restartPolicy: Never
  containers:
  - name: test-container
    image: hotmap.test/busybox:1
    command: ["/bin/sh", "-c", "echo $(SPECIAL_LEVEL_KEY) $(SPECIAL_TYPE_KEY)"]
    env:
    - name: SPECIAL_LEVEL_KEY
      valueFrom: {configMapKeyRef: {name: special-config, key: special.how}}
    - name: SPECIAL_TYPE_KEY
      valueFrom: {configMapKeyRef: {name: special-config, key: special.type}}
"""


async def test_variables_are_expanded_in_the_command(backend: Backend) -> None:
    """`$(NAME)` is replaced before the shell runs, which would take it for a command."""
    await backend.create(MANIFESTS)
    assert await finished_log(backend, "dapi-test-pod") == "very charm\n"
