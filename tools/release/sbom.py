"""A bill of materials in CycloneDX 1.5 JSON: components with version, license and package URL."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from email.message import Message
from importlib import metadata
from typing import Any, NamedTuple, cast

__all__ = [
    "Component",
    "bill_of_materials",
    "declared_license",
    "python_components",
    "runtime_distributions",
]


class Component(NamedTuple):
    """One package that is part of what is released."""

    name: str
    version: str
    #: such as pkg:pypi/aiohttp@3.11.0 (package-url/purl-spec)
    url: str
    #: an SPDX expression or the license's own name; "" where nothing is declared
    license: str = ""
    #: SHA-256 of its archive, in hexadecimal, where it is known
    digest: str = ""
    #: CycloneDX's type; "" for a library, or for the application that consists of them
    kind: str = ""


def runtime_distributions(name: str, extras: frozenset[str] = frozenset()) -> list[str]:
    """Return the names of the installed distributions that one needs, itself left out."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for requirement in metadata.distribution(waiting.pop()).requires or ():
            needed = re.match(r"[\w.-]+", requirement)
            extra = re.search(r"extra == [\"']([\w-]+)[\"']", requirement)
            if needed is None or (extra and extra[1] not in extras) or needed[0] == name:
                continue
            try:
                metadata.distribution(needed[0])
            except metadata.PackageNotFoundError:
                continue  # for another platform or Python
            normal = re.sub(r"[-_.]+", "-", needed[0]).lower()
            if normal not in found:
                found.add(normal)
                waiting.append(needed[0])
    return sorted(found)


def python_components(distributions: Iterable[str]) -> list[Component]:
    """Describe installed distributions."""
    return [
        Component(name, metadata.version(name), f"pkg:pypi/{name}@{metadata.version(name)}",
                  declared_license(cast(Message, metadata.metadata(name))))
        for name in distributions
    ]  # fmt: skip


def declared_license(described: Message) -> str:
    """Read the license of a distribution: the expression, else the field, else the classifiers."""
    if expression := described.get("License-Expression"):
        return str(expression)
    field = str(described.get("License") or "").strip()
    if field and "\n" not in field and len(field) < 80:
        return field
    classifiers = described.get_all("Classifier") or []
    names = [
        classifier.rpartition(" :: ")[2]
        for classifier in classifiers
        if classifier.startswith("License ::")
    ]
    return " AND ".join(names)


def bill_of_materials(subject: Component, components: Iterable[Component]) -> str:
    """Return the document; it has no time and no random number, so that it is reproducible."""
    parts = [_component(component, "library") for component in components]
    described = _component(subject, "application")
    content = json.dumps([described, parts], sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()
    serial = "-".join((digest[:8], digest[8:12], f"5{digest[13:16]}", f"8{digest[17:20]}",
                       digest[20:32]))  # fmt: skip
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": described},
        "components": parts,
        "dependencies": [
            {"ref": described["bom-ref"], "dependsOn": [part["bom-ref"] for part in parts]}
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _component(component: Component, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": component.kind or kind,
        "bom-ref": component.url,
        "name": component.name,
        "version": component.version,
        "purl": component.url,
    }
    if component.digest:
        found["hashes"] = [{"alg": "SHA-256", "content": component.digest}]
    if component.license:
        found["licenses"] = [{"license": {"name": component.license}}]
    return found
