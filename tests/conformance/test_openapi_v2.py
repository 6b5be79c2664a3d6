"""The real kubectl reads the OpenAPI v2 document in protobuf, as Helm and older clients do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conformance.transcripts import FILES

if TYPE_CHECKING:
    from tests.conformance.conftest import Kubectl

EXPLAIN = ("explain", "--output=plaintext-openapiv2")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (
            ("configmap",),
            ("KIND:     ConfigMap\nVERSION:  v1\n", "binaryData\t<map[string]string>"),
        ),
        (("deploy.spec.strategy",), ("RESOURCE: strategy <Object>", "rollingUpdate\t<Object>")),
        (("deploy.spec.strategy.rollingUpdate",), ("maxSurge\t<string>",)),
        (("pod.spec.containers",), ("RESOURCE: containers <[]Object>", "image\t<string>")),
        (("pod.spec.containers.resources",), ("limits\t<map[string]string>",)),
    ],
)
def test_explain_reads_version_2(
    plane: Kubectl, arguments: tuple[str, ...], shown: tuple[str, ...]
) -> None:
    result = plane.run(*EXPLAIN, *arguments)
    assert result.status == 0, result.output
    for text in shown:
        assert text in result.output


def test_explain_of_custom_kind_reads_version_2(plane: Kubectl) -> None:
    """A definition changes the document, which a client asks for again."""
    Path(plane.directory, "crd.yaml").write_text(FILES["crd.yaml"])
    assert plane.run("apply", "-f", "crd.yaml").status == 0
    assert plane.run("wait", "--for=condition=Established", "crd/widgets.example.com").status == 0
    result = plane.run(*EXPLAIN, "widget.spec")
    assert result.status == 0, result.output
    assert "color\t<string> -required-" in result.output
    assert "port\t<string>" in result.output
