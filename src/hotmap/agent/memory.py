"""The state file: what was last tried and loaded, for the next start of the agent.

Written before and after each attempt, so a kill at any moment leaves either "tried, not
confirmed" (it is tried again) or "loaded". Without a file all of it is lost with the process.
"""

from __future__ import annotations

import os

from hotmap.agent.digest import KEY_LENGTH

__all__ = ["Memory"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Version of the file. One that says another is not read.
_VERSION = 1


class Memory:
    """Content of a state file; `path` "" keeps it in memory alone."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.problem = ""
        self.key = os.urandom(KEY_LENGTH)
        #: By rule: the digest last tried, and whether it was confirmed.
        self.rules: dict[str, tuple[str, bool]] = {}
        self._written = b""
        if path:
            self._read()

    def _read(self) -> None:
        import json

        try:
            with open(self._path, "rb") as file:
                found: Any = json.load(file)
            if found["version"] != _VERSION:
                return
            key = bytes.fromhex(found["key"])
            rules = {str(n): (str(one["tried"]), one["done"] is True) for n, one in found["rules"]}
            if len(key) != KEY_LENGTH:
                raise ValueError("it was not written by this program")
        except FileNotFoundError:
            return
        except OSError as error:
            self.problem = f"{self._path} cannot be read: {(error.strerror or '').lower()}"
            return
        except (ValueError, KeyError, TypeError) as error:
            self.problem = f"{self._path} is not used, since it is no state of ours: {error}"
            return
        self.key, self.rules = key, rules

    def write(self) -> None:
        """Write what is known, as a whole or not at all; a failure is kept in `problem`."""
        if not self._path:
            return
        import json

        text = json.dumps(
            {
                "version": _VERSION,
                "key": self.key.hex(),
                "rules": [[n, {"tried": t, "done": d}] for n, (t, d) in self.rules.items()],
            }
        ).encode()
        if text == self._written:
            return
        draft = f"{self._path}.{os.getpid()}"
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(text)
            os.rename(draft, self._path)
        except OSError as error:
            self.problem = f"{self._path} cannot be written: {(error.strerror or '').lower()}"
            _remove(draft)
            return
        self._written, self.problem = text, ""


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        return
