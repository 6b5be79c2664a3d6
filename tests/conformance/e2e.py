"""Runs upstream's own tests of a cluster (e2e.test) against a local plane: `make conformance`.

Builds the program if it is not in the cache, starts a plane with its node, runs the specs of
`FOCUS`, and holds what failed against `known_e2e_failures`. Exit code 1: a spec failed that is not
on that list, or one on it passed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.cluster.build import Programs
from tests.conformance.known_e2e_failures import FAILURES

#: What is run: groups that need neither a network of their own nor images.
FOCUS = (
    r"\[sig-api-machinery\] Watchers",
    r"\[sig-api-machinery\] Discovery",
    r"\[sig-api-machinery\] (Namespaces|OrderedNamespaceDeletion)",
    r"\[sig-api-machinery\] server version",
    r"\[sig-api-machinery\] Generated clientset",
    r"\[sig-api-machinery\] Garbage collector",
    r"\[sig-api-machinery\] ResourceQuota",
    r"\[sig-api-machinery\] FieldValidation",
    r"\[sig-api-machinery\] ServerSideApply",
    r"\[sig-api-machinery\] Servers with support for (Table)",
    r"\[sig-api-machinery\] Server request timeout",
    r"\[sig-api-machinery\] CustomResource",
    r"\[sig-auth\] ServiceAccounts .*(lifecycle|should update a ServiceAccount|root CA)",
    r"\[sig-auth\] SelfSubjectReview",
    r"\[sig-auth\] SubjectReview",
    r"\[sig-architecture\] Conformance Tests",
    r"\[sig-node\] (Lease|RuntimeClass .*API|PodTemplates|ConfigMap should (fail|update|run))",
    r"\[sig-node\] Secrets should (fail|patch)",
    r"\[sig-instrumentation\] Events",
    r"\[sig-network\] (EndpointSlice|Ingress|IngressClass|NetworkPolicy) API",
    r"\[sig-network\] Services should (provide secure|find a service|delete a collection)",
    r"\[sig-network\] Services should (complete a service status lifecycle)",
    r"\[sig-network\] Service endpoints latency",
    r"\[sig-storage\] (Projected configMap|ConfigMap|Secrets) .*immutable",
    r"\[sig-apps\] ControllerRevision",
    r"\[sig-apps\] (Deployment|ReplicaSet|StatefulSet|DaemonSet|Job|CronJob) .*API",
    r"\[sig-apps\] DisruptionController .*(create a PodDisruptionBudget|update/patch|Listing)",
    r"\[sig-scheduling\] LimitRange",
)
# What needs images, or controllers that the plane does not have, and waits minutes for them.
SKIP = (
    r"\[Serial\]|\[Disruptive\]|\[Slow\]|\[Feature:|\[FeatureGate:|\[Alpha\]|\[Flaky\]"
    r"|ConversionWebhook|created by (cronjob|rc)|[Cc]hunking"
)
_READY = re.compile(r"ready in .* at (\S+);")


class Result(NamedTuple):
    """How one spec ended."""

    spec: str
    state: str  # passed, failed, timedout, …
    message: str


def run(focus: str, *, minutes: int = 60, verbose: bool = False) -> list[Result]:
    """Run the specs that match an expression on a plane of their own."""
    programs = Programs()
    programs.build(["e2e.test"])
    with tempfile.TemporaryDirectory(prefix="hotmap-e2e-") as folder:
        directory = Path(folder)
        report = directory / "report.json"
        log = directory / "plane.log"
        with (
            log.open("w") as output,
            subprocess.Popen(
                [sys.executable, "-m", "hotmap", "local", "up", "--dir", str(directory / "plane")],
                stdout=output,
                stderr=output,
            ) as plane,
        ):
            try:
                _wait_until_ready(plane, log)
                _run_specs(programs.path("e2e.test"), directory, focus, minutes, verbose=verbose)
            finally:
                plane.send_signal(signal.SIGTERM)
        return read_report(report.read_text())


def _wait_until_ready(plane: subprocess.Popen[bytes], log: Path) -> None:
    while _READY.search(log.read_text()) is None:
        if plane.poll() is not None:
            raise RuntimeError(f"the local plane did not start: {log.read_text()}")
        time.sleep(0.1)


def _run_specs(program: Path, directory: Path, focus: str, minutes: int, *, verbose: bool) -> None:
    command = [
        *(str(program), f"--kubeconfig={directory / 'plane' / 'kubeconfig'}"),
        *("--provider=skeleton", "--allowed-not-ready-nodes=0", "--disable-log-dump"),
        *(f"--ginkgo.focus={focus}", f"--ginkgo.skip={SKIP}", "--ginkgo.no-color"),
        *(f"--ginkgo.timeout={minutes}m", f"--ginkgo.json-report={directory / 'report.json'}"),
    ]
    environment = {**os.environ, "HOME": str(directory)}
    with (directory / "e2e.log").open("w") as log:
        subprocess.run(
            command, env=environment, stdout=None if verbose else log, stderr=log, check=False
        )


def read_report(text: str) -> list[Result]:
    """Read the specs that ran out of a report of Ginkgo."""
    found = []
    for suite in json.loads(text):
        for report in suite["SpecReports"] or ():
            if report["LeafNodeType"] == "It" and report["State"] not in ("skipped", "pending"):
                name = " ".join(
                    [*(report["ContainerHierarchyTexts"] or ()), report["LeafNodeText"]]
                )
                message = (report.get("Failure") or {}).get("Message", "")
                found.append(Result(name, report["State"], message))
    return sorted(found)


def main() -> int:
    """Run, print and compare; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.e2e", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--focus", default="|".join(FOCUS), help="a regular expression")
    parser.add_argument("--minutes", type=int, default=60, help="how long it may take")
    parser.add_argument("--verbose", action="store_true", help="show what the specs print")
    options = parser.parse_args()
    results = run(options.focus, minutes=options.minutes, verbose=options.verbose)
    wrong = 0
    for result in results:
        known = FAILURES.get(result.spec)
        if result.state == "passed" and known is None:
            continue
        wrong += (result.state == "passed") is not (known is None)
        first = result.message.strip().split("\n")[0][:200]
        print(f"{result.state}: {result.spec}\n    {known or 'NOT KNOWN'}\n    {first}")
    counts = Counter(result.state for result in results)
    print(f"{len(results)} specs ran: " + ", ".join(f"{n} {state}" for state, n in counts.items()))
    return 1 if wrong or not results else 0


if __name__ == "__main__":
    sys.exit(main())
