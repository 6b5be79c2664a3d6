"""`python -m hotmap.agent.build FILE`: the agent as one file, for images that have Python only.

An init container copies it into an emptyDir; the application's container runs `python3
/hotmap/agent.pyz …`. It contains the agent's package and the few modules that it imports: as
sources for any Python from 3.11 on, and compiled for the one that builds it, which then starts in
less than half of the time.
"""

from __future__ import annotations

import os
import sys

__all__ = ["build"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The files of the archive, relative to the package: the agent's layer of pyproject.toml.
_PARTS = (
    "__init__.py",
    "agent",
    "volume",
    "core/__init__.py",
    "core/duration.py",
    "core/errors.py",
    "core/expansion.py",
    "core/payload.py",
    "core/payload_digest.py",
    "core/target.py",
    "core/text.py",
    "core/value.py",
)

#: Every file has this time, so that equal sources give an equal file.
_TIME = (2026, 1, 1, 0, 0, 0)

#: Takes `hotmap agent …` as well, so that an image may call the file `hotmap`.
_START = """\
import sys

if sys.version_info < (3, 11):
    sys.exit("hotmap agent needs Python 3.11 or newer; this is " + sys.version.split()[0])

from hotmap.agent.main import main

words = sys.argv[1:]
called = sys.argv[0].rpartition("/")[2]
if called in ("configmap-reload", "prometheus-config-reloader"):
    words = [called, *words]
sys.exit(main(words[1:] if words[:1] == ["agent"] else words))
"""


def build(target: str) -> None:
    """Write the zipapp; it can be executed, and needs Python 3.11 or newer and nothing else."""
    import zipfile

    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not os.path.isdir(package):
        _copy(os.path.dirname(package), target)  # this process runs from such a file
        return
    with open(target, "wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(zipfile.ZipInfo("__main__.py", _TIME), _START)
            for path in sorted(_sources(package)):
                with open(os.path.join(package, path), "rb") as file_of_source:
                    source = file_of_source.read()
                name = f"hotmap/{path}"
                for stored, data in ((name, source), (f"{name}c", _compiled(source, name))):
                    entry = zipfile.ZipInfo(stored, _TIME)
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    archive.writestr(entry, data)
    os.chmod(target, 0o755)


def _copy(program: str, target: str) -> None:
    with open(program, "rb") as source, open(target, "wb") as file:
        file.write(source.read())
    os.chmod(target, 0o755)


def _compiled(source: bytes, name: str) -> bytes:
    """Compile a module as an unchecked hash-based .pyc (PEP 552).

    A Python of another version knows by the magic number that it is not its own, and compiles the
    source instead (zipimport). Marshal's version 2 has no references between objects, which would
    depend on what else the process that builds has in its memory.
    """
    import importlib.util
    import marshal

    unchecked = (1).to_bytes(4, "little")
    digest = importlib.util.source_hash(source)
    code = marshal.dumps(compile(source, name, "exec", dont_inherit=True, optimize=0), 2)
    return importlib.util.MAGIC_NUMBER + unchecked + digest + code


def _sources(package: str) -> list[str]:
    """List the source files of all parts, relative to the package."""
    found = []
    for part in _PARTS:
        if part.endswith(".py"):
            found.append(part)
            continue
        for folder, _, names in os.walk(os.path.join(package, part)):
            place = os.path.relpath(folder, package)
            found += [f"{place}/{name}" for name in names if name.endswith(".py")]
    return found


def main(arguments: Sequence[str]) -> int:
    """Build the file that the command line names."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.stderr.write("usage: python -m hotmap.agent.build FILE\n")
        return 2
    build(arguments[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
