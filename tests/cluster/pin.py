"""Writes the `go.mod` of a Kubernetes release into `modules/`.

k8s.io/kubernetes replaces its staging modules by local folders, and replacements do not reach
those who require it: our module must repeat each of them with the published version, which is
v0.X.Y for release 1.X.Y (kubernetes: go.mod). Run by a person who wants another release, never
by a build: builds read what is committed.
"""

import json
import re
import subprocess
from pathlib import Path

from tests.cluster import versions
from tests.cluster.errors import TestBedError

STAGING = re.compile(r"^\s*(\S+) => \./staging/\S+$", re.MULTILINE)
GO_LINE = re.compile(r"^go \S+$", re.MULTILINE)
DEBUG_LINE = re.compile(r"^godebug \S+$", re.MULTILINE)


def kubernetes_go_mod(upstream: str, release: str) -> str:
    """Compose our go.mod from upstream's for `release` (e.g. "1.36.3"), before tidying."""
    minor, published = release.rpartition(".")[0], f"v0.{release.partition('.')[2]}"
    go_line, debug_line = GO_LINE.search(upstream), DEBUG_LINE.search(upstream)
    if go_line is None or debug_line is None:
        raise TestBedError(f"The go.mod of Kubernetes {release} has no go or godebug line.")
    programs = sorted((*versions.CONTROL_PLANE, *versions.NODE))
    tools = "".join(f"\tk8s.io/kubernetes/cmd/{program}\n" for program in programs)
    replaced = "".join(
        f"\t{module} => {module} {published}\n" for module in STAGING.findall(upstream)
    )
    return (
        f"module hotmap.test/testbed/kubernetes-{minor}\n\n{go_line[0]}\n\n{debug_line[0]}\n\n"
        f"tool (\n{tools})\n\nrequire k8s.io/kubernetes v{release}\n\nreplace (\n{replaced})\n"
    )


def pin_kubernetes(release: str) -> Path:
    """Write and tidy `modules/kubernetes-MINOR` for `release`; return that folder."""
    folder = versions.MODULES / f"kubernetes-{release.rpartition('.')[0]}"
    found = _go("mod", "download", "-json", f"k8s.io/kubernetes@v{release}", at=Path("/"))
    upstream = Path(json.loads(found)["GoMod"]).read_text()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text(kubernetes_go_mod(upstream, release))
    (folder / "go.sum").unlink(missing_ok=True)
    _go("mod", "tidy", at=folder)
    return folder


def _go(*arguments: str, at: Path) -> str:
    done = subprocess.run(["go", *arguments], cwd=at, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise TestBedError(f"go {' '.join(arguments)} failed: {' '.join(reason)}")
    return done.stdout
