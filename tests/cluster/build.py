"""Builds the upstream programs into the cache folder, once per version.

A program gets its name only when it is complete: `go build` writes NAME.partial, which is then
renamed, and NAME.built records what it was built from. An interrupted build is therefore simply
run again, and Go's own cache keeps what was compiled.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from tests.cluster import lock, machine, versions
from tests.cluster.errors import TestBedError
from tests.cluster.versions import ModuleSet

# Go's build cache and module cache grow by about 6 GiB for a cluster's programs.
BUILD_GIB = 8


class Programs:
    """The programs of one Kubernetes minor release, in one cache folder."""

    def __init__(self, minor: str = versions.DEFAULT_MINOR, *, cache: Path | None = None) -> None:
        self.minor = minor
        self.folder = (cache or machine.cache_folder()) / "bin"

    def path(self, program: str) -> Path:
        """Return where `program` is, or will be once built."""
        return self.folder / versions.set_of(program, minor=self.minor).name / program

    def missing(self, programs: Iterable[str]) -> list[str]:
        """List those of `programs` that are absent, half-built, or built from other versions."""
        return [program for program in programs if self._why_build(program)]

    def require(self, programs: Iterable[str]) -> None:
        """Check that `programs` are built or can be.

        Raises:
            TestBedError: one is not built, and there is no Go or too old a Go.
        """
        for program in self.missing(programs):
            require_go(versions.set_of(program, minor=self.minor))

    def build(self, programs: Iterable[str]) -> None:
        """Build what is missing of `programs`, with a line for each.

        Raises:
            TestBedError: no Go or too old a Go, a disk too full, or a failed build.
        """
        if not (wanted := self.missing(programs)):
            return
        with lock.held(self.folder / "lock", waiting="Another build is running; waiting for it."):
            wanted = self.missing(wanted)
            if wanted:
                machine.require_disk(self.folder, BUILD_GIB, "to build Kubernetes")
            for program in wanted:
                self._build(program)

    def _why_build(self, program: str) -> str | None:
        path, modules = self.path(program), versions.set_of(program, minor=self.minor)
        if not path.exists():
            return "half-built" if path.with_suffix(".partial").exists() else "not built yet"
        try:
            built = json.loads(path.with_suffix(".built").read_text())
        except (FileNotFoundError, ValueError):
            return "half-built"
        if built.get("bytes") != path.stat().st_size:
            return "half-built"
        return None if built.get("recipe") == recipe(modules) else "built from other versions"

    def _build(self, program: str) -> None:
        modules, path = versions.set_of(program, minor=self.minor), self.path(program)
        require_go(modules)
        print(f"building {program} {modules.version} ({self._why_build(program)})", flush=True)
        began = time.monotonic()
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        _go_build(modules, program, partial)
        path.with_suffix(".built").unlink(missing_ok=True)
        size = partial.stat().st_size
        partial.rename(path)
        note = {"recipe": recipe(modules), "bytes": size}
        path.with_suffix(".built").write_text(json.dumps(note))
        seconds = time.monotonic() - began
        print(f"built {program}: {seconds:.0f} s, {size / 2**20:.0f} MiB", flush=True)


def recipe(modules: ModuleSet) -> str:
    """Return a digest of all that decides what a set's programs are: versions, sums, flags."""
    digest = hashlib.sha256(modules.linker_flags.encode())
    for path in sorted(modules.folder.iterdir()):
        digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def require_go(modules: ModuleSet) -> None:
    """Check that a Go is installed that can build `modules`.

    Raises:
        TestBedError: there is none, or it is too old.
    """
    needed = ".".join(map(str, modules.go))
    if shutil.which("go") is None:
        raise TestBedError(
            f"Go is not installed: {modules.name} is built from source with Go {needed}"
            " or newer; install it and make sure that `go` is on the PATH."
        )
    # In the module's folder, where Go 1.21 and newer fetch and become what go.mod asks for.
    done = subprocess.run(
        ["go", "env", "GOVERSION"], cwd=modules.folder, capture_output=True, text=True, check=False
    )
    found = re.match(r"go(\d+)\.(\d+)", done.stdout)
    if found and (int(found[1]), int(found[2])) < modules.go:
        raise TestBedError(
            f"Go {found[1]}.{found[2]} is too old: {modules.name} needs Go {needed} or newer."
        )
    if found is None:
        said = (done.stderr.strip().splitlines() or ["it does not say its version"])[-1]
        raise TestBedError(f"This Go cannot build {modules.name}: {said}")


def _go_build(modules: ModuleSet, program: str, target: Path) -> None:
    verb = ("test", "-c", "-vet=off") if program in modules.tests else ("build",)
    command = [
        *("nice", "go", *verb, "-buildvcs=false", "-trimpath", "-ldflags", modules.linker_flags),
        *("-o", str(target), modules.packages[program]),
    ]
    environment = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run(
        command, cwd=modules.folder, env=environment, stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode == 0:
        return
    if "no space left on device" in done.stderr:
        raise TestBedError(
            f"The disk became full while {program} was built; free some space and build again,"
            " which goes on where it stopped."
        )
    reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    raise TestBedError(f"{program} {modules.version} could not be built: {reason}")
