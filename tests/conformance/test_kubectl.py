"""The real kubectl cannot tell the local API server from Kubernetes: outputs and exit statuses."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.conformance.transcripts import CLUSTER, FILES, PLANE

if TYPE_CHECKING:
    from tests.conformance.conftest import Kubectl

#: Minutes of waiting or of processor time, too much after each edit.
pytestmark = pytest.mark.slow


class Line(NamedTuple):
    """One command line and what it has to give."""

    arguments: list[str]
    output: str
    status: int


def parse(transcript: str) -> list[Line]:
    lines = []
    for part in re.split(r"^\$ ", transcript, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        output, status = output.strip("\n"), 0
        if match := re.search(r"(^|\n)\[(\d+)\]$", output):
            output, status = output[: match.start()], int(match[2])
        lines.append(Line(_split(command), output, status))
    return lines


def _split(command: str) -> list[str]:
    lexer = shlex.shlex(command, posix=True)
    lexer.whitespace_split = True
    lexer.quotes = lexer.commenters = ""
    return list(lexer)


def check(kubectl: Kubectl, transcript: str, namespace: str) -> None:
    for line in parse(transcript):
        result = kubectl.run(*line.arguments, namespace=namespace)
        pattern = re.escape(line.output).replace(r"\.\.\.", ".*")
        shown = f"kubectl {' '.join(line.arguments)}\n{result.output}"
        assert result.status == line.status, shown
        assert re.fullmatch(pattern, result.output.strip("\n"), flags=re.DOTALL), shown


def write_files(kubectl: Kubectl) -> None:
    for name, content in FILES.items():
        Path(kubectl.directory, name).write_text(content)


@pytest.mark.parametrize("subject", PLANE)
def test_kubectl_without_node(plane: Kubectl, subject: str) -> None:
    write_files(plane)
    assert plane.run("create", "namespace", subject).status == 0
    check(plane, PLANE[subject], subject)


def test_kubectl_with_pods(cluster: Kubectl) -> None:
    write_files(cluster)
    check(cluster, CLUSTER, "default")


def test_transcripts_have_enough_command_lines() -> None:
    assert sum(len(parse(transcript)) for transcript in (*PLANE.values(), CLUSTER)) >= 250
