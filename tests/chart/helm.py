"""The Helm that the test bed builds, for tests of the chart."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml
from tests.cluster.build import Programs
from tests.support.requires import requires

__all__ = ["CHART", "ROOT", "Objects", "helm", "render", "render_objects", "require_helm"]

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "hotmap"

#: Objects by kind and name.
Objects = dict[tuple[str, str], dict[str, Any]]


def require_helm() -> Path:
    """Return the program; skip the test where it is not built, or fail where it is promised."""
    path = Programs().path("helm")
    reason = "it is not built; run python -m tests.cluster build helm"
    requires("helm", available=path.exists(), reason=reason)
    return path


def helm(
    *arguments: str, kubeconfig: Path | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run helm without the caller's settings; its output is text."""
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [require_helm(), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={"HOME": home, "PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig or "")},
        )
    assert not check or done.returncode == 0, done.stderr
    return done


def render(*arguments: str, namespace: str = "hotmap", release: str = "hotmap") -> str:
    """Return the manifests of a release."""
    done = helm("template", release, str(CHART), f"--namespace={namespace}", *arguments)
    return done.stdout


def render_objects(*arguments: str, namespace: str = "hotmap", release: str = "hotmap") -> Objects:
    """Return the objects of a release, those of `helm test` left out."""
    text = render("--skip-tests", *arguments, namespace=namespace, release=release)
    found = [document for document in yaml.safe_load_all(text) if document]
    objects = {(item["kind"], item["metadata"]["name"]): item for item in found}
    assert len(objects) == len(found), "two objects of the same kind and name"
    return objects
