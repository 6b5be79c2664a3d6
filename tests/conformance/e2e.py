"""Runs upstream's own tests of a cluster (e2e.test) against a local plane: `make conformance`.

Builds the programs if they are not in the cache, starts a plane with its node and with upstream's
images (agnhost, and busybox of the test bed), runs the specs of `FOCUS` in parallel, and holds what
failed against `known_e2e_failures`. Exit code 1: a spec failed that is not on that list, one on it
passed, or the run did not come to its end; 2: port 80 is taken, which specs use. The list of specs
and the log stay in --output.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from tests.cluster import images
from tests.cluster.build import Programs
from tests.cluster.machine import used_ports
from tests.conformance.known_e2e_failures import FAILURES, OUT_OF_REACH

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The configuration of pods: all of it runs.
CONFIGURATION = (
    r"(ConfigMap|Secrets|Projected configMap|Projected secret|Projected combined"
    r"|Variable Expansion|Subpath Atomic|Watchers|Downward API).*\[Conformance\]"
)
#: What is run: groups that need neither a network of their own nor more than one node.
FOCUS = (
    CONFIGURATION,
    r"\[sig-api-machinery\]",
    r"\[sig-auth\] (ServiceAccounts|SelfSubjectReview|SubjectReview|Certificates)",
    r"\[sig-architecture\] Conformance Tests",
    r"\[sig-node\] (Lease|RuntimeClass|PodTemplates|ConfigMap|Secrets)",
    r"\[sig-instrumentation\] Events",
    r"\[sig-network\] (EndpointSlice|Ingress|IngressClass|NetworkPolicy) API",
    r"\[sig-network\] Services should (provide secure|find a service|delete a collection)",
    r"\[sig-network\] Services should (complete a service status lifecycle)",
    r"\[sig-storage\] (Projected configMap|ConfigMap|Secrets) .*immutable",
    r"\[sig-apps\] (ControllerRevision|Job|CronJob|ReplicationController|StatefulSet|Daemon set)",
    r"\[sig-apps\] (Deployment|ReplicaSet) .*API",
    r"\[sig-apps\] DisruptionController .*(create a PodDisruptionBudget|update/patch|Listing)",
    r"\[sig-scheduling\] LimitRange",
)
#: One at a time: their pods listen on all addresses, and pods share the machine's network.
ALONE = r"\[sig-api-machinery\] AdmissionWebhook"
#: Never run: what breaks or takes a machine, needs a feature gate, or is not required to pass.
SKIP = r"\[Disruptive\]|\[Feature:|\[FeatureGate:|\[Alpha\]|\[Flaky\]"
_REGISTRY = "registry.k8s.io"
#: What the image of agnhost runs. Its web server listens on port 80 of all addresses, which pods
#: share with the machine; so busybox's takes its place, at the pod's own address.
_ENTRYPOINT = """#!/bin/sh
[ $# -gt 0 ] || set -- pause
[ "$*" = test-webserver ] || exec /agnhost "$@"
space=$(cat /var/run/secrets/kubernetes.io/serviceaccount/namespace)
until [ "$address" ]; do
    address=$(/kubectl get pod --namespace="$space" "$(hostname)" -o jsonpath={.status.podIP})
done
trap exit TERM
busybox httpd -f -p "$address:80" -h / &
wait
"""
_READY = re.compile(r"ready in .* at (\S+);")


class Result(NamedTuple):
    """How one spec ended."""

    spec: str
    state: str  # passed, failed, timedout, …
    message: str


def run(focus: str, *, output: Path, nodes: int, minutes: int) -> list[Result]:
    """Run the specs that match an expression on a plane of their own, but those out of reach."""
    programs = Programs()
    programs.build(["e2e.test", "agnhost", "ginkgo", "kubectl"])
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hotmap-e2e-") as folder:
        directory = Path(folder)
        listed = directory / "images"
        listed.write_text(_write_images(directory, programs))
        with _plane(directory, listed, output / "plane.log"):
            specs = _Specs(programs, directory, output, minutes)
            results = specs.run("parallel", focus, f"{SKIP}|{ALONE}", nodes=nodes)
            if re.search(focus, re.sub(r"\\", "", ALONE)):
                results += specs.run("alone", ALONE, SKIP, nodes=1)
    return sorted(results)


def _write_images(directory: Path, programs: Programs) -> str:
    """Make the roots of upstream's images, and list them as `hotmap local up --images` reads it."""
    busybox, agnhost = directory / "busybox", directory / "agnhost"
    with tarfile.open(images.tar("busybox")) as archive:
        manifest = json.load(_member(archive, "manifest.json"))
        for name in manifest[0]["Layers"]:
            with tarfile.open(fileobj=_member(archive, name)) as layer:
                layer.extractall(busybox, filter="tar")
    shutil.copytree(busybox, agnhost, symlinks=True)
    shutil.copy2(programs.path("agnhost"), agnhost / "agnhost")
    shutil.copy2(programs.path("kubectl"), agnhost / "kubectl")
    # A document of that web server, and a folder that busybox's image does not have.
    (agnhost / "localhost.crt").touch()
    (agnhost / "var/tmp").mkdir(parents=True, exist_ok=True)
    entrypoint = agnhost / "entrypoint"
    entrypoint.write_text(_ENTRYPOINT)
    entrypoint.chmod(0o755)
    return "\n".join(
        (
            f"{_REGISTRY}/e2e-test-images/busybox={busybox}",
            f"{_REGISTRY}/e2e-test-images/agnhost={agnhost}:/entrypoint",
            f"{_REGISTRY}/pause={agnhost}:/agnhost pause",
        )
    )


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    file = archive.extractfile(name)
    assert file is not None, f"the image has no {name}"
    return file


@contextlib.contextmanager
def _plane(directory: Path, listed: Path, log: Path) -> Iterator[None]:
    command = [
        *(sys.executable, "-m", "hotmap", "local", "up"),
        *("--dir", str(directory / "plane"), "--images", str(listed)),
    ]
    with (
        log.open("w") as output,
        subprocess.Popen(command, stdout=output, stderr=output) as plane,
    ):
        try:
            while _READY.search(log.read_text()) is None:
                if plane.poll() is not None:
                    raise RuntimeError(f"the local plane did not start: {log.read_text()}")
                time.sleep(0.1)
            yield
        finally:
            plane.send_signal(signal.SIGTERM)


class _Specs(NamedTuple):
    """Runs specs on a plane whose kubeconfig is below *directory*."""

    programs: Programs
    directory: Path
    output: Path
    minutes: int

    def run(self, name: str, focus: str, skip: str, *, nodes: int) -> list[Result]:
        """Run what one expression matches and the other does not, but what is out of reach."""
        skipped = "|".join((skip, *(expression for expression, _ in OUT_OF_REACH)))
        command = [
            *(str(self.programs.path("ginkgo")), f"--nodes={nodes}", "--no-color"),
            *("--silence-skips", f"--focus={focus}", f"--skip={skipped}"),
            *(f"--timeout={self.minutes}m", f"--json-report={name}.json"),
            *(f"--output-dir={self.output}", str(self.programs.path("e2e.test")), "--"),
            f"--kubeconfig={self.directory / 'plane' / 'kubeconfig'}",
            f"--kubectl-path={self.programs.path('kubectl')}",
            *("--provider=skeleton", "--allowed-not-ready-nodes=0", "--disable-log-dump"),
        ]
        report = self.output / f"{name}.json"
        report.unlink(missing_ok=True)
        environment = {**os.environ, "HOME": str(self.directory)}
        with (self.output / f"{name}.log").open("w") as log:
            subprocess.run(
                command, cwd=self.directory, env=environment, stdout=log, stderr=log, check=False
            )
        return read_report(report.read_text()) if report.exists() else []


def read_report(text: str) -> list[Result]:
    """Read the specs that ran out of a report of Ginkgo, each once.

    One that was retried, or was not reached before the time was over, is there as well.
    """
    found = {}
    for suite in json.loads(text):
        for report in suite["SpecReports"] or ():
            if report["LeafNodeType"] == "It" and report["State"] not in ("skipped", "pending"):
                name = " ".join(
                    [*(report["ContainerHierarchyTexts"] or ()), report["LeafNodeText"]]
                )
                message = (report.get("Failure") or {}).get("Message", "")
                found[name] = Result(name, report["State"], message)
    return sorted(found.values())


def main() -> int:
    """Run, print and compare; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.e2e", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--focus", default="|".join(FOCUS), help="a regular expression")
    parser.add_argument("--minutes", type=int, default=90, help="how long it may take")
    parser.add_argument("--nodes", type=int, default=4, help="how many specs run at a time")
    parser.add_argument("--output", type=Path, default=Path("build/conformance"))
    options = parser.parse_args()
    if used_ports([80]):
        print("port 80 of this machine is taken, and pods need it; stop what listens there")
        return 2
    results = run(
        options.focus,
        output=options.output.resolve(),
        nodes=options.nodes,
        minutes=options.minutes,
    )
    return report_results(results, whole=options.focus == "|".join(FOCUS))


def report_results(results: list[Result], *, whole: bool) -> int:
    """Print what differs from `FAILURES`, and the counts; return the exit code.

    Of a *whole* run each listed failure must have been seen.
    """
    wrong = 0
    for result in results:
        known = FAILURES.get(result.spec)
        if result.state == "passed" and known is None:
            continue
        wrong += (result.state == "passed") is not (known is None)
        first = result.message.strip().split("\n")[0][:200]
        print(f"{result.state}: {result.spec}\n    {known or 'NOT KNOWN'}\n    {first}")
    missed = set(FAILURES) - {result.spec for result in results} if whole else ()
    for spec in sorted(missed):
        wrong += 1
        print(f"not run: {spec}\n    {FAILURES[spec]}")
    for expression, reason in OUT_OF_REACH:
        print(f"not run: {expression}\n    {reason}")
    print(summary(results))
    return 1 if wrong or not results else 0


def summary(results: list[Result]) -> str:
    """Count the specs of the configuration of pods, the others, and all; one line each."""
    configuration = [each for each in results if re.search(CONFIGURATION, each.spec)]
    others = [each for each in results if each not in configuration]
    lines = []
    for name, group in (("configuration", configuration), ("others", others), ("all", results)):
        passed = sum(each.state == "passed" for each in group)
        known = sum(each.state != "passed" and each.spec in FAILURES for each in group)
        share = f"{passed / len(group):.1%}" if group else "none"
        lines.append(
            f"{name}: {len(group)} runnable, {passed} passed ({share}), "
            f"{len(group) - passed} failed, of which {known} known"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
