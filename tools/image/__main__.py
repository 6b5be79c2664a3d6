"""`python -m tools.image`: the images of the controller and the agent, into one folder.

For each image an archive with both architectures, and for each architecture one that `docker load`
reads, with its bill of materials beside it. Nothing is published. An equal tree gives equal files.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tools.image.bill import image_bill
from tools.image.content import AGENT, CONTROLLER, agent_image, controller_image
from tools.image.errors import ImageError
from tools.image.oci import image_digest, write_archive
from tools.image.pins import ARCHITECTURES

from hotmap import __version__

__all__ = ["WrittenImage", "image_labels", "write_images"]

ROOT = Path(__file__).parents[2]


class WrittenImage(NamedTuple):
    """An image that was written, for one architecture, or for all."""

    #: such as hotmap:0.1.0
    name: str
    #: such as amd64; "" for the one with all
    architecture: str
    digest: str
    #: Bytes of its layers as they are transferred.
    size: int
    path: Path


def image_labels(version: str, revision: str, created: str) -> dict[str, str]:
    """Return the labels (opencontainers: image-spec, annotations.md)."""
    labels = {
        "title": "hotmap",
        "description": "Delivers ConfigMap and Secret edits to every process that uses them",
        "version": version,
        "revision": revision,
        "created": created,
        "licenses": "Apache-2.0",
    }
    return {f"org.opencontainers.image.{name}": value for name, value in labels.items() if value}


def write_images(
    folder: Path, version: str, architectures: Sequence[str] = ARCHITECTURES
) -> list[WrittenImage]:
    """Write all archives and bills of materials into a folder.

    Raises:
        ImageError: a part of an image cannot be downloaded or compiled.
    """
    folder.mkdir(parents=True, exist_ok=True)
    created = _created()
    labels = image_labels(version, _git("rev-parse", "HEAD"), created)
    written = []
    for name, make in ((CONTROLLER, controller_image), (AGENT, agent_image)):
        described = {**labels, "org.opencontainers.image.title": name}
        images = [make(architecture, described, created) for architecture in architectures]
        full_name = f"docker.io/library/{name}:{version}"
        for image in images:
            stem = f"{name}-image-{version}-{image.architecture}"
            digest = image_digest([image])
            write_archive(folder / f"{stem}.tar", [full_name], [image])
            bill = image_bill(name, version, image.architecture, digest)
            (folder / f"{stem}.cdx.json").write_text(bill)
            size = sum(len(layer.content) for layer in image.layers)
            written.append(
                WrittenImage(f"{name}:{version}", image.architecture, digest, size,
                             folder / f"{stem}.tar")
            )  # fmt: skip
        if len(images) > 1:
            path = folder / f"{name}-image-{version}.oci.tar"
            write_archive(path, [full_name], images)
            written.append(WrittenImage(f"{name}:{version}", "", image_digest(images), 0, path))
    return written


def _created() -> str:
    """Return SOURCE_DATE_EPOCH, or the time of the commit; "" outside of a repository."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct")
    if not seconds:
        return ""
    at = datetime.datetime.fromtimestamp(int(seconds), datetime.UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def main() -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.image", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--output", type=Path, default=Path("build/images"), metavar="FOLDER")
    parser.add_argument(
        "--architecture", action="append", choices=ARCHITECTURES, help="default: all of them"
    )
    options = parser.parse_args()
    architectures = tuple(dict.fromkeys(options.architecture or ARCHITECTURES))
    print("making the images; the first time, this downloads 200 MB …", file=sys.stderr)
    try:
        written = write_images(options.output, __version__, architectures)
    except ImageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for image in written:
        size = f"{image.size / 1e6:5.1f} MB" if image.size else 8 * " "
        print(f"{image.name:20} {image.architecture or 'all':6} {size} {image.digest} {image.path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
