"""The guide to nginx does what it says, command by command as printed: locally and on a node.

Only the ports are others, so that several can run on one machine, and with them the controller's
address.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.agent.agents import free_port
from tests.cluster.build import Programs
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import real_cluster
from tests.support.requires import requires
from tests.walkthroughs.local import Plane, running_plane

__all__ = ["real_cluster"]

pytestmark = pytest.mark.cluster  # for its kubectl

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "reload-in-the-pod.md"

UP, CONTROLLER, INSTALL, EDIT, BREAKAGE, CORRECTION, SITE = range(7)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with running_plane(tmp_path_factory.mktemp("guide") / "plane") as plane:
        yield plane


def blocks(language: str) -> list[str]:
    """Read the guide's blocks of a language."""
    return re.findall(f"^```{language}\n(.*?)^```$", GUIDE.read_text(), re.M | re.S)


class Reader(NamedTuple):
    """A reader of the guide at a shell."""

    folder: Path
    environment: dict[str, str]
    #: The port of nginx instead of 8080, and of the controller.
    port: int
    status_port: int

    def save(self, name: str, text: str) -> None:
        (self.folder / name).write_text(self._with_ports(text))

    def run(self, commands: str) -> str:
        """Run commands of the guide; returns what they print."""
        done = subprocess.run(
            ["sh", "-eu", "-c", self._with_ports(commands)],
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    def _with_ports(self, text: str) -> str:
        address = f"--url http://127.0.0.1:{self.status_port}"
        text = re.sub(r"(hotmap status \w+)", rf"\1 {address}", text)
        return text.replace("8080", str(self.port))

    @contextmanager
    def running_controller(self, *flags: str) -> Iterator[subprocess.Popen[str]]:
        """Run the guide's controller, ready; its log comes from `stderr`."""
        command = [*blocks("sh")[CONTROLLER].split(), *flags]
        with subprocess.Popen(
            [*command, f"--listen=127.0.0.1:{self.status_port}"],
            env=self.environment,
            cwd=self.folder,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                wait_for_log(process, "ready")
                yield process
            finally:
                process.terminate()


def wait_for_log(process: subprocess.Popen[str], words: str) -> None:
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        if words in line:
            return
        lines.append(line)
    raise AssertionError(f"it ended: {''.join(lines)}")


@contextmanager
def reading(folder: Path, kubeconfig: Path, port: int) -> Iterator[Reader]:
    kubectl = Programs().path("kubectl")
    requires("cluster", available=kubectl.exists(), reason="kubectl is not built")
    copied = folder / "kubeconfig"
    shutil.copyfile(kubeconfig, copied)
    environment = {
        "PATH": f"{kubectl.parent}:{sys.prefix}/bin:{os.environ['PATH']}",
        "KUBECONFIG": str(copied),
        "KUBECACHEDIR": str(folder / "kubectl"),
    }
    yield Reader(folder, environment, port, free_port())


def read_first_part(reader: Reader, *flags: str) -> None:
    """Follow the guide up to the correction of the invalid edit."""
    commands = blocks("sh")
    assert commands[UP] == "hotmap local up\n"
    reader.save("web.yaml", blocks("yaml")[0])
    with reader.running_controller(*flags) as controller:
        reader.run(commands[INSTALL])
        # A person takes longer than this to type the next command.
        wait_for_log(controller, "is new to hotmap")
        edit = reader.run(commands[EDIT])
        assert re.match(r"configmap/web patched\ndeployment/web in \S+: current\n", edit), edit
        assert "content is up to date (proven)" in edit
        assert re.search(r"^two\s*NAME(.*\n)+web-\S+ +2/2 +Running +0 ", edit, re.M), edit
        broken = reader.run(commands[BREAKAGE])
        assert re.search(r"deployment/web in \S+: refused\n", broken), broken
        said, _, output = broken.partition("\nexit status 1\n")
        assert "(exit status 1); see kubectl exec -n " in " ".join(said.split())
        assert re.search(r"unexpected end of file(.*\n)+exit status 1\n", output), broken
        assert served(reader, commands[EDIT]) == "two"
        corrected = reader.run(commands[CORRECTION])
        assert re.search(r"deployment/web in \S+: current\n", corrected), corrected
        assert served(reader, commands[EDIT]) == "three"


def served(reader: Reader, commands: str) -> str:
    """Run the guide's request to nginx alone."""
    (request,) = [line for line in commands.splitlines() if line.startswith("curl ")]
    return reader.run(request).strip()


def test_nginx_is_reloaded_in_its_pod_locally(plane: Plane, tmp_path: Path) -> None:
    """The edit is served and current, the invalid one refused, the correction current."""
    with reading(tmp_path, plane.kubeconfig, free_port()) as reader:
        read_first_part(reader)


@pytest.fixture
def node_reader(real_cluster: Cluster, tmp_path: Path) -> Iterator[Reader]:
    """A reader with a namespace of the real cluster as the context's own."""
    namespace = f"guide-{uuid.uuid4().hex[:8]}"
    real_cluster.kubectl("create", "namespace", namespace)
    with reading(tmp_path, real_cluster.kubeconfig, 8080) as reader:
        reader.run(f"kubectl config set-context --current --namespace={namespace}")
        yield reader
    real_cluster.kubectl("delete", "namespace", namespace, "--wait=false")


def own_flags(reader: Reader) -> tuple[str, str]:
    """Limit a controller to the context's namespace, since the cluster has others."""
    namespace = reader.run("kubectl config view --minify --output=jsonpath={..namespace}")
    return f"--namespace={namespace}", f"--namespaces={namespace}"


def test_nginx_is_reloaded_in_its_pod_on_a_node(node_reader: Reader) -> None:
    """The same, in images with the layout of the published ones."""
    read_first_part(node_reader, *own_flags(node_reader))


def test_nginx_with_the_nginx_conf_of_its_image_is_reloaded_on_a_node(node_reader: Reader) -> None:
    """Read-only root, port 80, the image's users."""
    commands = blocks("sh")[SITE]
    install, edit = commands.split("kubectl patch", 1)
    node_reader.save("site.yaml", blocks("yaml")[1])
    with node_reader.running_controller(*own_flags(node_reader)) as controller:
        node_reader.run(install)
        wait_for_log(controller, "is new to hotmap")
        shown = node_reader.run(f"kubectl patch{edit}")
    assert re.search(r"deployment/site in \S+: current\n", shown), shown
    assert shown.endswith("two")


def test_every_block_of_the_guide_is_run() -> None:
    assert len(blocks("sh")) == SITE + 1
    assert len(blocks("yaml")) == 2
