"""What an injection leaves in the manifest, so that it can be undone.

Names tell most of it: containers and volumes of ours have names of ours. What cannot be told from
them, keys that were made and values that were replaced, is kept as JSON in an environment
variable of the agent's container: the text of each value, so that it comes back to the byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = [
    "AGENT", "ANNOTATION", "BIN", "BIN_PATH", "FIRST", "POD", "POD_PATH", "PROGRAM", "RUN",
    "RUN_PATH", "STAGE", "STAGE_PATH", "VARIABLE", "Change", "Ledger", "Path", "Record", "Texts",
    "is_our_mount", "is_ours", "parse_record", "protected", "unprotected",
]  # fmt: skip

#: The agent's container; for a supervisor, the one that brings its program.
AGENT = "hotmap-agent"

#: Fills the stage before the application starts, where the sidecar cannot be waited for.
FIRST = "hotmap-agent-first"

#: On the pod template: an agent answers for changes (docs/reference/annotations.md).
ANNOTATION = "hotmap.dev/agent"

#: In the agent's container: the record.
VARIABLE = "HOTMAP_INJECTED"

POD, RUN, STAGE, BIN = "hotmap-pod", "hotmap-run", "hotmap-stage", "hotmap-bin"
POD_PATH, RUN_PATH, STAGE_PATH = "/hotmap/pod", "/hotmap/run", "/hotmap/stage"
BIN_PATH = "/hotmap/bin"
PROGRAM = f"{BIN_PATH}/agent.pyz"

_OURS = re.compile(r"hotmap-(pod|run|stage|bin|(env|source)-[0-9]+)")

#: Where a value of a pod template is: keys, and a container's name after `containers`.
Path = tuple[str, ...]

#: Gives the text of the value at a path; None where the key does not stand in the manifest.
Texts = Callable[[Path], str | None]


class Change(NamedTuple):
    """One key that injection made, or whose value it replaced."""

    path: Path
    #: The text of the value before; None for a key that was not there.
    text: str | None
    #: Of a list: which of its items were taken out.
    taken: tuple[int, ...] = ()


class Record(NamedTuple):
    """All of it; `container` is the application's."""

    container: str
    changes: tuple[Change, ...]

    def written(self) -> str:
        """Write it for the environment variable."""
        changes = [
            [list(one.path), one.text, *([list(one.taken)] if one.taken else [])]
            for one in self.changes
        ]
        return json.dumps([self.container, changes], ensure_ascii=False, separators=(",", ":"))


class Ledger:
    """Takes note of changes while a template is worked out: before each of them is made."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self.changes: list[Change] = []

    def replacing(self, path: Path, taken: tuple[int, ...] = ()) -> None:
        """Note the text of a value that is about to be replaced, or that its key is new."""
        if not self._on_the_way(path):
            self._note(Change(path, self._texts(path), taken))

    def adding_to(self, path: Path) -> None:
        """Note what taking away what is added to a value would not bring back."""
        self._on_the_way((*path, ""))

    def _on_the_way(self, path: Path) -> bool:
        """Note the first value above the last that is missing, empty or an alias, if one is."""
        for length in range(1, len(path)):
            part = path[:length]
            text = self._texts(part)
            if text is None or text.strip().startswith("*") or _is_blank(text):
                if part[-2:-1] == ("containers",):  # an item: the list as a whole is put back
                    part = part[:-1]
                    text = self._texts(part)
                self._note(Change(part, text))
                return True
        return False

    def _note(self, change: Change) -> None:
        known = [one.path for one in self.changes]
        if not any(change.path[: len(one)] == one for one in known):
            self.changes.append(change)


def _is_blank(text: str) -> bool:
    """Tell whether a value's text means nothing: null, or an empty mapping or list."""
    nothing = r"\s*(~|null|Null|NULL|\[\s*\]|\{\s*\})?\s*(#.*)?"
    return re.fullmatch(nothing, text) is not None


def parse_record(text: str) -> Record | None:
    """Read what `written` wrote; None for anything else."""
    try:
        container, changes = json.loads(text)
        return Record(
            str(container),
            tuple(
                Change(tuple(map(str, path)), before, tuple(*taken))
                for path, before, *taken in changes
            ),
        )
    except (ValueError, TypeError):
        return None


def is_ours(volume: Any) -> bool:
    """Tell whether a volume has a name that injection gives."""
    name = volume.get("name") if isinstance(volume, dict) else None
    return isinstance(name, str) and _OURS.fullmatch(name) is not None


def is_our_mount(mount: Any) -> bool:
    """Tell whether a mount is of a volume of ours, or where only we mount anything."""
    path = mount.get("mountPath") if isinstance(mount, dict) else None
    return is_ours(mount) or (isinstance(path, str) and path.startswith("/hotmap/"))


def protected(word: str) -> str:
    """Write a word of `command` or `args` so that the kubelet leaves it as it is.

    The kubelet replaces `$(NAME)`, and makes `$$` a `$`, before the container starts
    (kubernetes: third_party/forked/golang/expansion/expand.go).
    """
    return word.replace("$", "$$") if "$(" in word or "$$" in word else word


def unprotected(word: str) -> str:
    """Give the word that `protected` was given."""
    return word.replace("$$", "$")
