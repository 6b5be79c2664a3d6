"""What a container leaves behind as its last words: `terminationMessagePath` and its policy.

kubernetes: pkg/kubelet/kuberuntime/kuberuntime_container.go (getTerminationMessage) and
pkg/kubelet/container/runtime.go (limits). The file lies on the node and is mounted into the
container, so it outlives it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hotmap.local.kubelet.sandbox import Mount

#: Bytes of a message (MaxContainerTerminationMessageLength).
FILE_LIMIT = 4096
#: Bytes and lines taken from the log instead (MaxContainerTerminationMessageLogLength, …LogLines).
LOG_LIMIT, LOG_LINES = 2048, 80
DEFAULT_PATH = "/dev/termination-log"


class TerminationMessage:
    """The file of one run of a container."""

    def __init__(self, container: Mapping[str, Any], path: Path) -> None:
        self._path = path
        self._policy = container.get("terminationMessagePolicy") or "File"
        self._target = container.get("terminationMessagePath") or DEFAULT_PATH

    def create(self) -> Mount:
        """Create it empty, writable for whatever user the container has; return its mount."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.touch()
        self._path.chmod(0o666)
        return {"source": str(self._path.resolve()), "target": self._target, "read_only": False}

    def read(self, *, exit_code: int, log: Path) -> str:
        """Return the message of a run that has ended; the log's end where the policy says so."""
        text = _read_end(self._path, FILE_LIMIT)
        if text or self._policy != "FallbackToLogsOnError" or exit_code == 0:
            return text.decode(errors="replace")
        # Lines of a log have a time and a stream before their text.
        records = _read_end(log, 4 * LOG_LIMIT + LOG_LINES * 64).splitlines()
        lines = [record.split(b" ", 3)[-1] + b"\n" for record in records if record.count(b" ") >= 3]
        return b"".join(lines[-LOG_LINES:])[-LOG_LIMIT:].decode(errors="replace")

    def remove(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)


def _read_end(path: Path, limit: int) -> bytes:
    """Return the last bytes of a file, b"" where there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - limit))
            return file.read(limit)
    except OSError:
        return b""
