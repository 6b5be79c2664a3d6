"""The state file: what was tried and loaded last, for the next start of the agent.

Written before and after each attempt, so that a kill at any moment leaves either "tried, not
loaded" (it is retried) or "loaded". Without a file the state is lost with the process.

What it says has to be true of the next start, so it is used only by an agent that holds its lock,
and removed when it cannot be written: another agent has loaded the content into another process,
and an outdated file would call content loaded after a later one had been.
"""

from __future__ import annotations

import os
import stat

from hotmap.agent.act.replace_file import replace_file
from hotmap.agent.decide.digest import KEY_LENGTH
from hotmap.agent.decide.progress import KeptAttempt
from hotmap.agent.runtime.clock import since_boot
from hotmap.core.errors import os_reason

__all__ = ["StateFile"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Version of the format. A file with another one is ignored.
_VERSION = 1

#: Bytes of a file that is read: 256 rules and directories take 100 KB.
_MAX_SIZE = 4 << 20


class StateFile:
    """Content of a state file; with path "" it is kept in memory only."""

    def __init__(self, path: str) -> None:
        self._path = path
        #: Why the file cannot be used; "" while it can.
        self.problem = ""
        #: Key of digests: equal digests of two starts mean equal content.
        self.key = os.urandom(KEY_LENGTH)
        #: By rule.
        self.attempts: dict[str, KeptAttempt] = {}
        #: By directory: what identifies the files that were read last, and their digest.
        self.revisions: dict[str, tuple[str, str]] = {}
        #: Seconds since boot at which it was written last; 0 where that is unknown.
        self.saved_at = 0.0
        self._written = b""
        #: Of the lock, which the kernel releases when the process ends; -1 without it.
        self._lock = -1
        if path and self._acquire():
            self._read()

    def close(self) -> None:
        """Release the lock."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _acquire(self) -> bool:
        """Lock the file for this process; it is not used otherwise.

        By a record lock, which children of the agent do not inherit.
        """
        if self._lock >= 0:
            return True
        import fcntl  # which few agents use

        lock = -1
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            lock = os.open(f"{self._path}.lock", flags, 0o600)
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if lock < 0:
                self.problem = f"cannot write {self._path}: {os_reason(error)}"
            else:
                os.close(lock)
                self.problem = f"{self._path} is used by another agent; set --state to another file"
            return False
        self._lock = lock
        return True

    def _read(self) -> None:
        import json

        try:
            found: Any = json.loads(_read_regular(self._path))
            if found["version"] != _VERSION:
                return
            key = bytes.fromhex(found["key"])
            is_same_boot = found.get("boot") == _boot() != "" and isinstance(found.get("at"), float)
            attempts = {
                str(name): _attempt(each, is_same_boot=is_same_boot)
                for name, each in found["rules"]
            }
            revisions = {
                str(directory): (str(name), str(digest))
                for directory, name, digest in found.get("directories", [])
            }
            if len(key) != KEY_LENGTH:
                raise ValueError("the key has another length")
        except FileNotFoundError:
            return
        except OSError as error:
            self.problem = f"cannot read {self._path}: {os_reason(error)}"
            return
        except RecursionError:
            self.problem = f"ignoring {self._path}, which is not a state file: nested too deeply"
            return
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.problem = f"ignoring {self._path}, which is not a state file: {error}"
            return
        self.key, self.attempts, self.revisions = key, attempts, revisions
        if is_same_boot:
            self.saved_at = found["at"]

    def save(
        self,
        attempts: dict[str, KeptAttempt],
        revisions: dict[str, tuple[str, str]] | None = None,
    ) -> None:
        """Write the file atomically, if anything differs; a failure is kept in `problem`."""
        revisions = revisions or {}
        is_same = attempts == self.attempts and revisions == self.revisions
        if is_same and self._written and not self.problem:
            return
        self.attempts, self.revisions = attempts, revisions
        if not self._path or not self._acquire():
            return
        import json

        text = json.dumps(
            {
                "version": _VERSION,
                "key": self.key.hex(),
                "boot": _boot(),
                "at": since_boot(),
                "rules": [
                    [
                        name,
                        {
                            "tried": kept.tried,
                            "done": kept.done,
                            "adopted": kept.is_adopted,
                            "exposed": kept.exposed_since,
                        },
                    ]
                    for name, kept in attempts.items()
                ],
                "directories": [[directory, *found] for directory, found in revisions.items()],
            }
        ).encode()
        if text == self._written:
            return
        draft = f"{self._path}.{os.getpid()}"
        try:
            replace_file(self._path, text, draft=draft, mode=0o600)
        except OSError as error:
            self.problem = f"cannot write {self._path}: {os_reason(error)}"
            _remove(draft)
            _remove(self._path)
            self._written = b""
            return
        self._written, self.problem = text, ""


def _attempt(found: Any, *, is_same_boot: bool) -> KeptAttempt:
    """Make what was kept of one rule; times of another boot say nothing."""
    exposed_since = found.get("exposed")
    is_time = is_same_boot and isinstance(exposed_since, float)
    return KeptAttempt(
        str(found["tried"]),
        found["done"] is True and (is_time or exposed_since is None),
        is_adopted=found.get("adopted") is True,
        exposed_since=exposed_since if is_time else None,
    )


def _read_regular(path: str) -> bytes:
    """Read a file; what another container put in its place must not block or fill the memory.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a regular file, or too large.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with open(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("not a regular file")
        data = file.read(_MAX_SIZE + 1)
    if len(data) > _MAX_SIZE:
        raise ValueError("it is too large")
    return data


def _boot() -> str:
    """Return what identifies this boot of the node: an emptyDir outlives it; "" if unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read(64).strip()
    except (OSError, ValueError):
        return ""


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        return
