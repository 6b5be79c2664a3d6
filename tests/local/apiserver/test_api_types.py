"""The table of types: complete for the served kinds, and what its generator makes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.requires import requires

from hotmap.local.apiserver.api_types import api_types, type_of
from hotmap.local.apiserver.kinds import BUILT_IN
from hotmap.local.scheme import Kind

ROOT = Path(__file__).resolve().parents[3]
# A CustomResourceDefinition holds schemas, which no table describes.
TYPED = [kind for kind in BUILT_IN if kind.strategy.typed]
_MODULES = Path(os.environ.get("GOMODCACHE", Path.home() / "go/pkg/mod"))


@pytest.mark.parametrize("kind", TYPED, ids=lambda kind: kind.resource)
def test_every_served_kind_has_type(kind: Kind) -> None:
    name = type_of(kind)
    assert name is not None
    assert {"kind", "apiVersion", "metadata"} <= api_types().types[name].keys()


def test_every_type_that_fields_name_is_known_or_special() -> None:
    table = api_types().types
    named = {
        field.type.rpartition("#")[2]
        for fields in table.values()
        for field in fields.values()
        if "#" in field.type
    }
    assert {name.rpartition(".")[2] for name in named - table.keys()} == {
        "FieldsV1",
        "IntOrString",
        "MicroTime",
        "Quantity",
        "RawExtension",
        "Time",
    }


@pytest.mark.slow  # Go compiles all of k8s.io/api where nothing did so before
def test_table_equals_the_generated_one() -> None:
    found = (_MODULES / f"k8s.io/kubernetes@{api_types().version}").is_dir()
    available = found and shutil.which("go") is not None
    requires("go-modules", available=available, reason="Go or Kubernetes' modules are not there")
    command = [sys.executable, str(ROOT / "tools/generate_api_types.py"), "--check"]
    # Offline; whoever downloaded the module has verified it by a go.sum, not by the database.
    environment = {**os.environ, "GOPROXY": "off", "GONOSUMDB": "*"}
    # Raises where the two differ.
    subprocess.run(command, env=environment, timeout=900, check=True)
