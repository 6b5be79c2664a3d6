"""CustomResourceDefinitions in protobuf are those in JSON, by upstream's golden files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hotmap.local.apiserver.protobuf import decode_object

_MODULES = Path(os.environ.get("GOMODCACHE", Path.home() / "go/pkg/mod"))
_GOLDEN = "pkg/apis/testdata/HEAD/apiextensions.k8s.io.v1.CustomResourceDefinition"


def test_definition_in_protobuf_equals_that_in_json() -> None:
    folders = sorted((_MODULES / "k8s.io").glob("apiextensions-apiserver@v0.36.*"))
    files = [folder / _GOLDEN for folder in folders if (folder / f"{_GOLDEN}.pb").exists()]
    if not files:
        pytest.skip("needs the Go module k8s.io/apiextensions-apiserver")
    decoded = decode_object(Path(f"{files[0]}.pb").read_bytes())
    expected = json.loads(Path(f"{files[0]}.json").read_text())
    assert decoded["spec"] == expected["spec"]
    assert decoded["status"] == expected["status"]
    assert decoded["metadata"]["name"] == expected["metadata"]["name"]
