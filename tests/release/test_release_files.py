"""What `make release` writes: versions that agree, notes, packages, bills of materials."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path

import pytest
import yaml
from tests.chart.helm import CHART, helm
from tools.release.__main__ import (
    ReleaseError,
    check_versions,
    named_versions,
    release_notes,
)
from tools.release.archive import chart_package, repack
from tools.release.sbom import (
    Component,
    bill_of_materials,
    python_components,
    runtime_distributions,
)

from hotmap import __version__

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_every_place_names_the_same_version() -> None:
    """Package, chart and manifests."""
    assert set(named_versions().values()) == {__version__}
    assert len(named_versions()) >= 7
    check_versions(__version__)


def test_another_version_is_refused_with_every_place() -> None:
    """Who releases sees at once what to change."""
    with pytest.raises(ReleaseError) as error:
        check_versions("9.9.9")
    for place in named_versions():
        assert place in str(error.value)
    with pytest.raises(ReleaseError, match="invalid version 'v1'"):
        check_versions("v1")


def test_notes_are_the_section_of_the_version() -> None:
    """Otherwise what is unreleased; without that, there is no release."""
    text = "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [0.1.0] - 2026-01-01\n\n- old\n"
    assert release_notes(text, "0.1.0") == "# hotmap 0.1.0\n\n- old\n"
    assert release_notes(text, "0.2.0") == "# hotmap 0.2.0\n\n- new\n"
    with pytest.raises(ReleaseError, match="nothing unreleased"):
        release_notes("# Changelog\n\n## [Unreleased]\n\n## [0.1.0]\n\n- old\n", "0.2.0")


def test_chart_package_is_reproducible_and_whole(tmp_path: Path) -> None:
    """Equal bytes, and Helm renders the same from it as from the folder."""
    package = chart_package(CHART, at=1_700_000_000)
    assert chart_package(CHART, at=1_700_000_000) == package
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        names = archive.getnames()
    assert "hotmap/Chart.yaml" in names
    assert "hotmap/files/rules/cluster.yaml" in names
    path = tmp_path / "hotmap.tgz"
    path.write_bytes(package)
    assert helm("template", "a", str(path)).stdout == helm("template", "a", str(CHART)).stdout


def test_repacked_archive_depends_on_contents_only(tmp_path: Path) -> None:
    """An sdist has the times and the users of its build."""
    packed = []
    for number, names in enumerate((["a/x", "a/y"], ["a/y", "a/x"])):
        path = tmp_path / f"{number}.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size, member.mtime, member.uid = len(name), number, number
                archive.addfile(member, io.BytesIO(name.encode()))
        repack(path, at=1_700_000_000)
        packed.append(path.read_bytes())
    assert packed[0] == packed[1]
    with tarfile.open(fileobj=io.BytesIO(packed[0])) as archive:
        found = archive.extractfile("a/x")
        assert found is not None
        assert found.read() == b"a/x"


def test_bill_of_materials_lists_what_is_installed() -> None:
    """Each with version, license and package URL; cryptography only with the extra."""
    names = runtime_distributions("hotmap")
    assert {"httptools", "msgspec", "click", "google-re2"} <= set(names)
    assert not {"cryptography", "pytest"} & set(names)
    assert "cryptography" in runtime_distributions("hotmap", frozenset({"local"}))
    components = python_components(names)
    assert not [component.name for component in components if not component.license]
    subject = Component("hotmap", "1", "pkg:pypi/hotmap@1")
    document = json.loads(bill_of_materials(subject, components))
    assert document["bomFormat"] == "CycloneDX"
    assert [component["name"] for component in document["components"]] == names
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
                        document["serialNumber"])  # fmt: skip
    assert bill_of_materials(subject, components) == bill_of_materials(subject, components)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_runs_targets_that_exist(workflow: Path) -> None:
    """Each `make TARGET` is in the Makefile; no step has more permissions than it needs."""
    document = yaml.safe_load(workflow.read_text())
    targets = set(re.findall(r"^([a-z][\w.-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    steps = [step for job in document["jobs"].values() for step in job["steps"]]
    used = {
        target
        for step in steps
        for target in re.findall(r"^make ([a-z][\w.-]*)", step.get("run", ""), re.MULTILINE)
    }
    assert used
    assert used <= targets
    assert document["permissions"] == {"contents": "read"}
    for step in steps:
        if "uses" in step:
            assert re.search(r"@[0-9a-f]{40}$", step["uses"]), step["uses"]


def test_release_workflow_attaches_the_release_folder() -> None:
    """On a tag of a version."""
    document = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    # YAML 1.1 reads the key `on` as a boolean.
    assert document[True]["push"]["tags"] == ["v*"]
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "make release VERSION=" in text
    assert "dist/" in text
