"""`python -m tools.release VERSION`: everything that is attached to a release, in one folder.

Wheel and sdist, the agent as one file, the images, the chart's package, bills of materials, notes
out of CHANGELOG.md, and the checksums of all of them. Nothing is published and nothing is tagged.
An equal commit gives equal files.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import yaml
from tools.image.__main__ import WrittenImage, write_images
from tools.image.errors import ImageError
from tools.release.archive import chart_package, repack
from tools.release.sbom import (
    Component,
    bill_of_materials,
    python_components,
    runtime_distributions,
)
from tools.release.source_copy import copy_sources

from hotmap.agent import build as agent

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "hotmap"


class ReleaseError(Exception):
    """The release cannot be made; the text says why."""


def named_versions() -> dict[str, str]:
    """Return the version that each place in the tree names."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    package = re.search(r'"(.+)"', (ROOT / "src/hotmap/__init__.py").read_text().split("=", 1)[1])
    found = {
        "pyproject.toml": project[1] if project else "",
        "src/hotmap/__init__.py": package[1] if package else "",
        "charts/hotmap/Chart.yaml (version)": str(chart["version"]),
        "charts/hotmap/Chart.yaml (appVersion)": str(chart["appVersion"]),
    }
    for path in sorted((ROOT / "deploy" / "manifests").glob("*.yaml")):
        for tag in re.findall(r"image: hotmap:(\S+)", path.read_text()):
            found[str(path.relative_to(ROOT))] = tag
    return found


def release_notes(changelog: str, version: str) -> str:
    """Return the section of a version, or of what is unreleased where it has none yet.

    Raises:
        ReleaseError: there is neither, or it is empty.
    """
    sections = dict(re.findall(r"^## \[(.+?)\][^\n]*\n(.*?)(?=^## |\Z)", changelog, re.M | re.S))
    text = str(sections.get(version) or sections.get("Unreleased") or "").strip()
    if not text:
        raise ReleaseError(f"CHANGELOG.md has no section [{version}] and nothing unreleased")
    return f"# hotmap {version}\n\n{text}\n"


def check_versions(version: str) -> None:
    """Check that every place names the version of the release.

    Raises:
        ReleaseError: one does not; the text lists each.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        raise ReleaseError(f"invalid version {version!r}: expected a version such as 0.2.0")
    wrong = [f"{place}: {found}" for place, found in named_versions().items() if found != version]
    if wrong:
        raise ReleaseError(f"not of version {version}:\n  " + "\n  ".join(wrong))


def make_release(version: str, folder: Path, *, with_image: bool) -> list[Path]:
    """Write all files of a release into an empty folder; returns them.

    Raises:
        ReleaseError: a version or the notes do not fit, or a part cannot be built.
    """
    check_versions(version)
    notes = release_notes((ROOT / "CHANGELOG.md").read_text(), version)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    at = _commit_time()
    _build_distributions(folder, at)
    agent.build(str(folder / f"hotmap-agent-{version}.pyz"))
    (folder / f"hotmap-{version}.tgz").write_bytes(chart_package(CHART, at=at))
    subject = Component("hotmap", version, f"pkg:pypi/hotmap@{version}", "Apache-2.0")
    for name, extras in (("", frozenset[str]()), ("-local", frozenset({"local"}))):
        components = python_components(runtime_distributions("hotmap", extras))
        text = bill_of_materials(subject, components)
        (folder / f"hotmap{name}-{version}.cdx.json").write_text(text)
    if with_image:
        try:
            notes += image_notes(write_images(folder, version))
        except ImageError as error:
            raise ReleaseError(str(error)) from error
    (folder / "NOTES.md").write_text(notes)
    _write_checksums(folder)
    return sorted(folder.iterdir())


def _commit_time() -> int:
    """Return the time of the present commit; or what SOURCE_DATE_EPOCH says."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    return int(_git("log", "-1", "--format=%ct") or 315532800)


def _git(*words: str) -> str:
    """Return what git says, or "" outside of a repository."""
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _build_distributions(folder: Path, at: int) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(at)}
    with tempfile.TemporaryDirectory() as sources:
        copy_sources(ROOT, Path(sources))
        command = [sys.executable, "-m", "build", "--quiet", "--outdir", str(folder), sources]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip()
        raise ReleaseError(f"wheel and sdist could not be built: {reason[-2000:]}")
    for sdist in folder.glob("*.tar.gz"):
        repack(sdist, at=at)


def image_notes(images: Iterable[WrittenImage]) -> str:
    """Return the section of the notes with the digest of each image, for who pins them."""
    rows = [
        f"| `{image.name}` | {image.architecture or 'all'} | `{image.digest}` |" for image in images
    ]
    return (
        "\n## Images\n\n| image | architecture | digest |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    )


def _write_checksums(folder: Path) -> None:
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
    ]
    (folder / "SHA256SUMS").write_text("".join(lines))


def main() -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("version", help="such as 0.2.0")
    parser.add_argument("--output", type=Path, help="default: dist/VERSION")
    parser.add_argument("--no-image", action="store_true", help="leave the image out")
    options = parser.parse_args()
    folder = options.output or ROOT / "dist" / options.version
    try:
        files = make_release(options.version, folder, with_image=not options.no_image)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for path in files:
        print(f"{path.stat().st_size:>12,}  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
