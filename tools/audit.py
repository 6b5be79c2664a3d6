"""Checks the licenses and known vulnerabilities of what hotmap depends on: `make audit`.

Licenses are read from the installed distributions. Vulnerabilities come from pip-audit; where its
advisory service cannot be reached, or does not know a package, that is said, and fails with
--strict, as for a release.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tools.release.sbom import Component, python_components, runtime_distributions

__all__ = ["advisory_report", "unknown_licenses"]

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"

#: Permissive licenses, by SPDX identifier and by the names that distributions use for them.
ALLOWED = frozenset(
    {
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "PSF-2.0"),
        *("Apache 2.0", "Apache Software License", "BSD License", "MIT License"),
    }
)


def unknown_licenses(components: Iterable[Component]) -> list[str]:
    """List the components without a license of `ALLOWED`; of alternatives, one is enough."""
    return [
        f"{component.name} {component.version}: {component.license or 'no license'}"
        for component in components
        if not any(_is_allowed(choice) for choice in re.split(r"\s+OR\s+", component.license))
    ]


def _is_allowed(license_: str) -> bool:
    parts = re.split(r"\s+AND\s+", license_.strip("() "))
    return all(part.strip("() ") in ALLOWED for part in parts)


def advisory_report(answer: str) -> tuple[list[str], list[str]]:
    """Read pip-audit's JSON: the vulnerabilities found, and the packages that were not checked.

    Raises:
        ValueError: it is not pip-audit's JSON.
    """
    found: dict[str, Any] = json.loads(answer)
    vulnerable, unchecked = [], []
    for dependency in found["dependencies"]:
        if "skip_reason" in dependency:
            unchecked.append(dependency["name"])
        for advisory in dependency.get("vulns", ()):
            fixed = ", ".join(advisory["fix_versions"]) or "no version"
            vulnerable.append(
                f"{dependency['name']} {dependency['version']}: {advisory['id']}, fixed in {fixed}"
            )
    return vulnerable, unchecked


def _check_licenses() -> bool:
    components = python_components(runtime_distributions("hotmap", frozenset({"local"})))
    wrong = unknown_licenses(components)
    for line in wrong:
        print(f"license not allowed: {line}")
    if not wrong:
        print(f"licenses: {len(components)} packages, all permissive")
    return not wrong


def _check_advisories(program: str, *, strict: bool) -> bool:
    command = [program, "--no-deps", "--disable-pip", "--progress-spinner=off", "--format=json"]
    try:
        done = subprocess.run(
            [*command, f"--requirement={CONSTRAINTS}"],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        vulnerable, unchecked = advisory_report(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError):
        print("vulnerabilities: NOT CHECKED; pip-audit is missing, or has no advisory service")
        return not strict
    for line in vulnerable:
        print(f"vulnerable: {line}")
    if unchecked:
        names = ", ".join(unchecked)
        print(f"vulnerabilities: NOT CHECKED for {len(unchecked)} packages, which the advisory "
              f"service does not have: {names}")  # fmt: skip
    elif not vulnerable:
        print("vulnerabilities: none known")
    return not vulnerable and not (strict and unchecked)


def main() -> int:
    """Run both checks; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.audit", description=__doc__)
    parser.add_argument("program", nargs="?", default="pip-audit")
    parser.add_argument("--strict", action="store_true", help="fail for what was not checked")
    options = parser.parse_args()
    results = [_check_licenses(), _check_advisories(options.program, strict=options.strict)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
