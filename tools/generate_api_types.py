"""Write the table of the built-in kinds' types from Kubernetes' own Go modules.

Facts only: struct tags by reflection (`tools/api_types`), list types and required fields from the
published OpenAPI document, the values of enumerations from the Go code that the API server's own
document is made of. Needs Go and the modules of `VERSION`, which Go fetches.

    python tools/generate_api_types.py            writes the table
    python tools/generate_api_types.py --check    exits 1 if the committed table is another one
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "src/hotmap/local/apiserver/api_types.json"
# The modules that tools/api_types/go.mod requires have the same minor version and patch.
VERSION = "v1.36.3"

JsonObject = dict[str, Any]

_EXTENSIONS = {
    "x-kubernetes-list-type": "list_type",
    "x-kubernetes-list-map-keys": "list_keys",
    "x-kubernetes-map-type": "map_type",
}
# Of zz_generated.openapi.go: a type's function, a property of it, and the values of a string.
_TYPE = re.compile(r"^func schema_k8sio_api_(\w+)\(ref ")
_PROPERTY = re.compile(r'^\t{5}"([^"]+)": \{$')
_VALUES = re.compile(r"^\s+Enum: +\[\]interface\{\}\{(.*)\},$")


def read_struct_tags() -> JsonObject:
    """Run the Go program; only modules that are already on this machine are used if offline."""
    done = subprocess.run(
        ["go", "run", "."],
        cwd=ROOT / "tools/api_types",
        env={**os.environ, "GOFLAGS": "-mod=readonly"},
        stdout=subprocess.PIPE,
        check=True,
    )
    tags: JsonObject = json.loads(done.stdout)
    return tags


def find_sources() -> Path:
    """Find the folder of Kubernetes' module, which Go fetches if it is not on this machine."""
    done = subprocess.run(
        ["go", "mod", "download", "-json", f"k8s.io/kubernetes@{VERSION}"],
        cwd=ROOT / "tools/api_types",
        stdout=subprocess.PIPE,
        check=True,
    )
    return Path(json.loads(done.stdout)["Dir"])


def read_schemas(sources: Path) -> JsonObject:
    """Collect the schemas of every published group version."""
    schemas: JsonObject = {}
    for path in sorted((sources / "api/openapi-spec/v3").glob("*_openapi.json")):
        schemas |= json.loads(path.read_text()).get("components", {}).get("schemas", {})
    return schemas


def read_enumerations(sources: Path) -> dict[tuple[str, str], list[str]]:
    """Collect the values of each string, or list of strings, that has only some.

    The keys are the end of a type's name (`batch.v1.JobSpec`) and a field.
    """
    found = {}
    type_name = field = ""
    text = (sources / "pkg/generated/openapi/zz_generated.openapi.go").read_text()
    for line in text.splitlines():
        if function := _TYPE.match(line):
            type_name = function[1].replace("_", ".")
        elif line.startswith("func "):
            type_name = ""
        elif named := _PROPERTY.match(line):
            field = named[1]
        elif type_name and (values := _VALUES.match(line)):
            found[type_name, field] = json.loads(f"[{values[1]}]")
    return found


def make_table() -> str:
    """Make the table: one line per kind and per type, so that its changes can be read."""
    sources = find_sources()
    tags, schemas = read_struct_tags(), read_schemas(sources)
    enumerations = read_enumerations(sources)
    for name, fields in tags["types"].items():
        schema = schemas.get(name, {})
        for field, known in fields.items():
            _add_schema_facts(known, schema.get("properties", {}).get(field, {}))
            if field in schema.get("required", ()):
                known["required"] = True
            values = enumerations.get((name.removeprefix("io.k8s.api."), field))
            if values:
                known["enum"] = values
    kinds = sorted(tags["kinds"], key=lambda kind: (kind["group"], kind["version"], kind["kind"]))
    atomic = sorted(
        name
        for name in tags["types"]
        if schemas.get(name, {}).get("x-kubernetes-map-type") == "atomic"
    )
    lines = [f'{{"version":{json.dumps(VERSION)},', '"kinds":[']
    lines.append(",\n".join(_compact(kind) for kind in kinds))
    lines += [f'],"atomic_types":{_compact(atomic)},', '"types":{']
    lines.append(
        ",\n".join(
            f"{json.dumps(name)}:{_compact(tags['types'][name])}" for name in sorted(tags["types"])
        )
    )
    return "\n".join(lines) + "\n}}\n"


def _add_schema_facts(known: JsonObject, schema: JsonObject) -> None:
    for extension, name in _EXTENSIONS.items():
        if extension in schema:
            known[name] = schema[extension]
    default = schema.get("default")
    if isinstance(default, str) and default:
        known["default"] = default


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    table = make_table()
    if parser.parse_args().check:
        return 0 if TABLE.read_text() == table else 1
    TABLE.write_text(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
