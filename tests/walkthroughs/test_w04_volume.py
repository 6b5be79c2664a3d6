"""W4: a ConfigMap's data keys as files."""

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
metadata: {name: whole}
spec:
  restartPolicy: Never
  containers:
  - name: test-container
    image: hotmap.test/busybox:1
    command: [/bin/sh, -c, cat /etc/config/special.how; echo; ls /etc/config]
    volumeMounts:
    - {name: config-volume, mountPath: /etc/config}
  volumes:
  - name: config-volume
    configMap: {name: special-config}
---
apiVersion: v1
kind: Pod
metadata: {name: items}
spec:
  restartPolicy: Never
  containers:
  - name: test-container
    image: hotmap.test/busybox:1
    command: [/bin/sh, -c, cat /etc/config/path/to/special-key; echo; ls /etc/config]
    volumeMounts:
    - {name: config-volume, mountPath: /etc/config}
  volumes:
  - name: config-volume
    configMap:
      name: special-config
      items: [{key: special.how, path: path/to/special-key}]
"""


async def test_data_keys_become_files(backend: Backend) -> None:
    """All of them under their own names, or the chosen ones at paths of one's own."""
    await backend.create(MANIFESTS)
    assert await finished_log(backend, "whole") == "very\nspecial.how\nspecial.type\n"
    assert await finished_log(backend, "items") == "very\npath\n"
