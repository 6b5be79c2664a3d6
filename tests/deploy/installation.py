"""hotmap installed on a real Kubernetes, by the very commands of deploy/README.md."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cluster import images
from tests.cluster.cluster import Cluster

__all__ = ["ROOT", "Installation", "installed", "refusals"]

ROOT = Path(__file__).parents[2]
_PORT = 9533
_JsonObject = dict[str, Any]


class Installation:
    """An installed controller, as its operator sees it."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def pods(self) -> list[_JsonObject]:
        """List the controller's pods, those that end left out."""
        chosen = "--selector=app.kubernetes.io/name=hotmap"
        found = json.loads(self.kubectl("get", "pods", chosen, "--output=json"))
        return [pod for pod in found["items"] if "deletionTimestamp" not in pod["metadata"]]

    def restarts(self) -> int:
        """Count how often a container was started again."""
        statuses = [pod["status"]["containerStatuses"][0] for pod in self.pods()]
        return sum(status["restartCount"] for status in statuses)

    def ask(self, path: str) -> list[str]:
        """Read a path of each replica, by way of the API server."""
        root = f"/api/v1/namespaces/{self.namespace}/pods"
        names = [pod["metadata"]["name"] for pod in self.pods()]
        return [self.kubectl("get", f"--raw={root}/{name}:{_PORT}/proxy/{path}") for name in names]

    def leader(self) -> str:
        """Return the identity that holds the Lease: the pod's name and a random word."""
        holder = "--output=jsonpath={.spec.holderIdentity}"
        return self.kubectl("get", "lease", "hotmap-controller", holder)

    def state(self) -> str:
        """Return the text of all state Secrets."""
        secrets = json.loads(self.kubectl("get", "secrets", "--output=json"))["items"]
        shards = [secret for secret in secrets if secret["type"] == "hotmap.dev/state"]
        return "".join(b64decode(shard["data"]["state"]).decode() for shard in shards)

    def kill_leader(self) -> None:
        """Kill the leader as a crash would; the node is this machine."""
        leader = self.leader().rpartition("_")[0]
        (pod,) = [pod for pod in self.pods() if pod["metadata"]["name"] == leader]
        container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        killed = 0
        for cgroups in Path("/proc").glob("[0-9]*/cgroup"):
            with contextlib.suppress(OSError):
                if container in cgroups.read_text():
                    os.kill(int(cgroups.parent.name), signal.SIGKILL)
                    killed += 1
        assert killed, f"no process of {leader} was found"

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl as administrator in the controller's namespace."""
        return self.cluster.kubectl(f"--namespace={self.namespace}", *arguments)


def refusals(metrics: str) -> list[str]:
    """List what a replica says of answers that it was not allowed something."""
    answers = [
        line for line in metrics.splitlines() if line.startswith("hotmap_api_requests_total{")
    ]
    assert any('status="200"' in line for line in answers), "the metric has another name now"
    return [line for line in answers if 'status="403"' in line]


@contextlib.contextmanager
def installed(
    cluster: Cluster,
    manifest: str,
    *,
    namespace: str,
    section: str = "Install",
    removal: int = 0,
    kubeconfig: Path | None = None,
) -> Iterator[Installation]:
    """Run the commands of a README section, and at the end those that uninstall.

    `manifest` replaces base.yaml, `removal` counts the blocks of the section Uninstall. The
    controller's log is shown by pytest when something fails.
    """
    installation = Installation(cluster, namespace)

    def run(commands: str) -> None:
        commands = re.sub("^IMAGE=.*$", f"IMAGE={images.reference('hotmap')}", commands, flags=re.M)
        commands = re.sub("^NAMESPACE=.*$", f"NAMESPACE={namespace}", commands, flags=re.M)
        commands = commands.replace("manifests/base.yaml", f"manifests/{manifest}")
        path = f"{cluster.kubectl_path.parent}:{os.environ['PATH']}"
        environment = {
            "PATH": path,
            "KUBECONFIG": str(kubeconfig or cluster.kubeconfig),
            # Else in the present directory, where there is no HOME.
            "KUBECACHEDIR": str(cluster.layout.folder / "kubectl"),
        }
        subprocess.run(
            ["sh", "-eu", "-c", commands],
            stdin=subprocess.DEVNULL,
            env=environment,
            cwd=ROOT,
            check=True,
        )

    try:
        run(_commands(section)[0])
        yield installation
    finally:
        with contextlib.suppress(Exception):
            log = ("logs", "deployment/hotmap", "--all-pods", "--prefix", "--tail=-1")
            sys.stderr.write(installation.kubectl(*log))
        run(_commands("Uninstall")[removal])


def _commands(section: str) -> list[str]:
    """Return the shell commands of a section of deploy/README.md, block by block."""
    text = (ROOT / "deploy" / "README.md").read_text()
    _, _, rest = text.partition(f"\n## {section}\n")
    return re.findall("^```sh\n(.*?)^```$", rest.partition("\n## ")[0], re.M | re.S)
