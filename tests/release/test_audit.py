"""Licenses and advisories: what fails, what is allowed, and what is only said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.audit import advisory_report, main, unknown_licenses
from tools.release.sbom import Component, python_components, runtime_distributions


def component(license_: str) -> Component:
    return Component("a", "1", "pkg:pypi/a@1", license_)


@pytest.mark.parametrize(
    "license_",
    ["MIT", "Apache-2.0 AND MIT", "Apache-2.0 OR BSD-3-Clause", "GPL-3.0-only OR MIT"],
)
def test_permissive_licenses_are_allowed(license_: str) -> None:
    """All parts, or one alternative."""
    assert unknown_licenses([component(license_)]) == []


@pytest.mark.parametrize("license_", ["", "GPL-3.0-only", "MIT AND GPL-3.0-only", "UNKNOWN"])
def test_other_licenses_are_reported(license_: str) -> None:
    """Also a package that declares none."""
    assert unknown_licenses([component(license_)]) == [f"a 1: {license_ or 'no license'}"]


def test_all_dependencies_have_permissive_licenses() -> None:
    """Of controller, agent and local plane."""
    names = runtime_distributions("hotmap", frozenset({"local"}))
    assert unknown_licenses(python_components(names)) == []


def test_advisories_are_read() -> None:
    """What is vulnerable with the version that mends it, and what was not checked."""
    answer = {
        "dependencies": [
            {
                "name": "a",
                "version": "1",
                "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"], "aliases": []}],
            },
            {"name": "b", "version": "1", "vulns": []},
            {"name": "c", "skip_reason": "not found"},
        ],
        "fixes": [],
    }
    assert advisory_report(json.dumps(answer)) == (["a 1: PYSEC-1, fixed in 2"], ["c"])


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        ('{"dependencies": [{"name": "c", "skip_reason": "x"}]}', 0, "NOT CHECKED for 1 packages"),
        ("no connection", 0, "NOT CHECKED; pip-audit is missing"),
        ('{"dependencies": [{"name": "b", "version": "1", "vulns": []}]}', 0, "none known"),
        (
            '{"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "X", '
            '"fix_versions": []}]}]}',
            1,
            "vulnerable: a 1: X, fixed in no version",
        ),
    ],
)
def test_exit_status_follows_vulnerabilities_only(
    answer: str,
    status: int,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without an advisory service the check says so and passes, but not for a release."""
    program = tmp_path / "pip-audit"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.argv", ["audit", str(program)])
    assert main() == status
    assert text in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["audit", str(program), "--strict"])
    assert main() == (0 if text == "none known" else 1)
