"""Runs the command lines of `lines` and keeps what they print, without what must differ.

`python -m tests.conformance.kubectl_recording` records them from a control plane of the test bed,
whose scheduler is stopped: pods stay where they are created.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.conformance import administration_files, corner_files, manifest_files, volume_files
from tests.conformance.conftest import Kubectl, find_kubectl
from tests.conformance.line_files import FILES
from tests.conformance.lines import SUBJECTS
from tests.conformance.transcripts import FILES as OTHER_FILES

if TYPE_CHECKING:
    from collections.abc import Iterator

OUTPUTS = Path(__file__).with_name("outputs")
# A controller gets so long to do what a line shows.
_SECONDS = 15
_PAUSE = 0.3
_MASKS = (
    # client-go's log of a watch that ends at the same moment as the wait for it.
    (re.compile(r"^[IWE]\d{4} [\d:.]+ +\d+ reflector\.go:\d+\] .*\n?", re.MULTILINE), ""),
    # Descriptions are Kubernetes' own sentences, which the local API server does not publish.
    (re.compile(r"(?s)^DESCRIPTION:.*?(?=\n(?:FIELDS|ENUM):|\Z)", re.MULTILINE), "DESCRIPTION:"),
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"https?://127\.0\.0\.1:\d+"), "SERVER"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    # When diff's files were written.
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \+0000"), "TIME"),
    (re.compile(r"(?<![-\w.])(\d+[ydhms]){1,3}(?![-\w.])"), "AGE"),
    (
        re.compile(r"\b(web|applied|tick|d1|o1|duo|trio)-[a-z0-9]{8,10}(-[a-z0-9]{5})?\b"),
        r"\1-HASH",
    ),
    (re.compile(r"\b(from-cron|lone|manual)-[a-z0-9]{5}\b"), r"\1-HASH"),
    (re.compile(r"debugger-[a-z0-9]{5}"), "debugger-HASH"),
    (re.compile(r"kube-api-access-[a-z0-9]{5}"), "kube-api-access-HASH"),
    (re.compile(r"\b(10\.\d+|127\.\d+)\.\d+\.\d+\b"), "ADDRESS"),
    (re.compile(r"ADDRESS:\d+"), "ADDRESS:PORT"),
    (re.compile(r'("?resourceVersion"?: ?)"\d+"'), r'\1"N"'),
    (re.compile(r"resourceVersion:\d+"), "resourceVersion:N"),
    (re.compile(r'(resourceVersion\\":\\")\d+'), r"\1N"),
    (re.compile(r"/tmp/\S+?/(LIVE|MERGED)-\d+"), r"\1"),
    (re.compile(r"\b(LIVE|MERGED)-\d+"), r"\1"),
    (re.compile(r"[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \S+\] "), ""),
    (re.compile(r"eyJ[\w.-]+"), "TOKEN"),
    (re.compile(r"pod-template-hash=[0-9a-z]+"), "pod-template-hash=HASH"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} UTC"), "TIME"),
    (re.compile(r"Resource Version: +\d+"), "Resource Version: N"),
    (re.compile(r"(resource version to be \d+, was) \d+"), r"\1 N"),
    (re.compile(r"\b(hotmap-local|testbed)\b"), "CLUSTER"),
    (re.compile(r"/\S+/kubeconfig\b"), "KUBECONFIG"),
    (re.compile(r"(range of valid ports is) \d+-\d+"), r"\1 RANGE"),
    # What stands in one column depends on the width of another that is masked.
    (re.compile(r"[ \t]{2,}"), "  "),
    (re.compile(r" +$", re.MULTILINE), ""),
)


class Output(NamedTuple):
    """What a line gave."""

    status: int
    text: str


def masked(text: str, namespace: str) -> str:
    """Replace what must differ between two clusters."""
    for pattern, instead in _MASKS:
        text = pattern.sub(instead, text)
    # Upstream finds what is wrong with a custom resource in the order of a Go map.
    text = re.sub(r"^\* .*(\n\* .*)*", _sorted_lines, text, flags=re.MULTILINE)
    # kubectl goes through the keys of a ConfigMap in the order of a Go map.
    text = re.sub(r"^Warning: key .*(\nWarning: key .*)*", _sorted_lines, text, flags=re.MULTILINE)
    return text.replace(namespace, "NS").strip("\n")


def _sorted_lines(found: re.Match[str]) -> str:
    return "\n".join(sorted(found[0].split("\n")))


def write_files(kubectl: Kubectl) -> None:
    """Write what the lines refer to."""
    for name, content in {
        **OTHER_FILES,
        **FILES,
        **manifest_files.FILES,
        **administration_files.FILES,
        **volume_files.FILES,
        **corner_files.FILES,
    }.items():
        path = Path(kubectl.directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def run_subject(
    kubectl: Kubectl, subject: str, expected: dict[str, Output] | None = None
) -> Iterator[tuple[str, Output]]:
    """Run the lines of a subject; a line of `~` until it gives what is expected, if that is known.

    The names are the lines, with their number where one comes again.
    """
    namespace = f"lines-{subject}"
    kubectl.run("create", "namespace", namespace)
    # Controllers make these a moment after the namespace.
    for obj in ("serviceaccount/default", "configmap/kube-root-ca.crt"):
        made = kubectl.run("wait", "--for=create", obj, "--timeout=240s", namespace=namespace)
        assert made.status == 0, made.output
    kubectl.run("config", "set-context", "--current", f"--namespace={namespace}")
    for name, line in numbered(subject):
        waits = line.startswith("~")
        arguments = shlex.split(line.removeprefix("~").replace("NS", namespace), posix=True)
        if "{" in line:
            arguments = _split(line.removeprefix("~").replace("NS", namespace))
        if waits and expected is None:
            time.sleep(3)
        until = time.monotonic() + _SECONDS
        while True:
            done = kubectl.run(*arguments, namespace=namespace)
            output = Output(done.status, masked(done.output, namespace))
            wanted = None if expected is None else expected.get(name)
            if not waits or wanted in (None, output) or time.monotonic() > until:
                break
            time.sleep(_PAUSE)
        yield name, output


def numbered(subject: str) -> Iterator[tuple[str, str]]:
    """Name each line of a subject; a line that comes again gets a number."""
    seen: dict[str, int] = {}
    for line in SUBJECTS[subject]:
        seen[line] = seen.get(line, 0) + 1
        yield (line if seen[line] == 1 else f"{line} #{seen[line]}"), line


def _split(line: str) -> list[str]:
    """Split at spaces outside of single quotes; double quotes are part of JSON."""
    found = re.findall(r"(?:[^\s']|'[^']*')+", line)
    return [part.replace("'", "") for part in found]


def read_outputs(subject: str) -> dict[str, Output]:
    """Read what the real API server made of the lines of a subject."""
    recorded = json.loads((OUTPUTS / f"{subject}.json").read_text())
    # Masked once more, by what was added since they were recorded.
    return {
        each["line"]: Output(each["status"], masked(each["text"], f"lines-{subject}"))
        for each in recorded
    }


def write_outputs(subject: str, outputs: dict[str, Output]) -> None:
    """Write what the lines of a subject gave, one to a line."""
    lines = [
        json.dumps({"line": name, **output._asdict()}, ensure_ascii=False)
        for name, output in outputs.items()
    ]
    OUTPUTS.mkdir(exist_ok=True)
    (OUTPUTS / f"{subject}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


def main() -> None:
    """Record from a real control plane."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.kubectl_recording")
    parser.add_argument("subject", nargs="*", help="default: all")
    subjects = parser.parse_args().subject or list(SUBJECTS)
    from tests.cluster import layout
    from tests.cluster.fixtures import private_control_plane

    program = find_kubectl()
    assert program is not None
    with (
        private_control_plane(layout.Settings(0).minor) as cluster,
        tempfile.TemporaryDirectory() as folder,
    ):
        cluster.stop("kube-scheduler")
        kubeconfig = Path(folder, "kubeconfig")
        kubeconfig.write_text(cluster.kubeconfig.read_text())
        kubectl = Kubectl(program, kubeconfig, Path(folder))
        write_files(kubectl)
        for subject in subjects:
            outputs = dict(run_subject(kubectl, subject))
            write_outputs(subject, outputs)
            print(f"{subject}: {len(outputs)} lines", flush=True)


if __name__ == "__main__":
    main()
