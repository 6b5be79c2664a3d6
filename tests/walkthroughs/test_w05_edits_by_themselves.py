"""W5: what an edit does by itself: nothing to an environment, to files after a while."""

from __future__ import annotations

from tests.walkthroughs.backend import Backend
from tests.walkthroughs.manifests import CONFIG, ENVIRONMENT
from tests.walkthroughs.steps import (
    finished_log,
    restarted,
    running_pod,
    variable,
    wait_until_shown,
)

# The container ends on request, so that it is restarted.
FILES = """
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
        command: [sh, -c, 'rm -f /scratch/end; until [ -e /scratch/end ]; do sleep 0.05; done']
        volumeMounts:
        - {name: config-volume, mountPath: /etc/config}
        - {name: config-volume, mountPath: /etc/pinned/log_level, subPath: log_level}
        - {name: work, mountPath: /scratch}
      volumes:
      - name: config-volume
        configMap: {name: env-config}
      - name: work
        emptyDir: {}
"""

# A later pod on the same node; what it reads is what the node knows.
LATER = """
apiVersion: v1
kind: Pod
metadata: {name: later}
spec:
  restartPolicy: Never
  containers:
  - name: later
    image: hotmap.test/busybox:1
    command: [cat, /etc/config/log_level]
    volumeMounts: [{name: config-volume, mountPath: /etc/config}]
  volumes:
  - name: config-volume
    configMap: {name: env-config}
"""


async def test_environment_of_a_running_pod_is_unchanged(backend: Backend) -> None:
    """A new pod has the edit; the running one keeps what it was started with."""
    await backend.create(CONFIG + ENVIRONMENT)
    pod = await running_pod(backend, "my-nginx")
    await backend.patch("ConfigMap", "env-config", {"data": {"log_level": "DEBUG"}})
    await backend.create(LATER)
    assert await finished_log(backend, "later") == "DEBUG"
    assert await variable(backend, pod, "log_level") == "INFO"
    assert await running_pod(backend, "my-nginx") == pod


async def test_files_do_not_follow_at_once(backend: Backend) -> None:
    """The node knows the edit, as a new pod shows, and still leaves the running pod's files."""
    await backend.create(CONFIG + FILES)
    pod = await running_pod(backend, "my-nginx")
    await backend.start_settled()
    await backend.patch("ConfigMap", "env-config", {"data": {"log_level": "DEBUG"}})
    await backend.create(LATER)
    assert await finished_log(backend, "later") == "DEBUG"
    assert await backend.exec(pod.name, "cat", "/etc/config/log_level") == "INFO"


async def test_files_follow_after_the_sync_period(waitable: Backend) -> None:
    """With nothing but time the mounted directory has the edit, and a subPath never has.

    Not until its container is restarted, in the same pod.
    """
    await waitable.create(CONFIG + FILES)
    pod = await running_pod(waitable, "my-nginx")
    await waitable.start_settled()
    await waitable.patch("ConfigMap", "env-config", {"data": {"log_level": "DEBUG"}})
    limit = waitable.sync_limit
    await wait_until_shown(waitable, pod, "/etc/config/log_level", "DEBUG", within=limit)
    assert await waitable.exec(pod.name, "cat", "/etc/pinned/log_level") == "INFO"
    assert await running_pod(waitable, "my-nginx") == pod
    # In a moment: an exec still under way when its container ends fails.
    end = "(sleep 0.5; touch /scratch/end) >/dev/null 2>&1 &"
    await waitable.exec(pod.name, "sh", "-c", end)
    await restarted(waitable, "my-nginx", pod)
    assert await waitable.exec(pod.name, "cat", "/etc/pinned/log_level") == "DEBUG"
