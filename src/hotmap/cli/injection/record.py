"""The record of an injection in the manifest, from which it is undone.

Added containers and volumes are known by their names. Keys that were added and values that were
replaced are recorded as JSON in an environment variable of the agent's container: the text of each
value, so that the removal restores it byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = [
    "ANNOTATION",
    "BIN_PATH",
    "MERGED",
    "POD_PATH",
    "PROGRAM",
    "RUN_PATH",
    "STAGE_PATH",
    "VARIABLE",
    "AgentNames",
    "Change",
    "ChangeRecorder",
    "Path",
    "Record",
    "Texts",
    "agent_number",
    "escape_references",
    "is_our_mount",
    "is_our_volume",
    "parse_record",
    "unescape_references",
]  # fmt: skip

#: On the pod template: an agent handles changes (docs/reference/annotations.md).
ANNOTATION = "hotmap.dev/agent"

#: In the agent's container: the record.
VARIABLE = "HOTMAP_INJECTED"

POD_PATH, RUN_PATH, STAGE_PATH = "/hotmap/pod", "/hotmap/run", "/hotmap/stage"
BIN_PATH = "/hotmap/bin"
PROGRAM = f"{BIN_PATH}/agent.pyz"

#: The names of containers and volumes of any agent.
_CONTAINER = re.compile(r"hotmap-agent(?:-first)?(?:-([0-9]+))?")
_VOLUME = re.compile(
    r"hotmap-(?:(?:pod|run|stage|bin)(?:-([0-9]+))?|(?:env|source)-(?:([0-9]+)-)?[0-9]+)"
)

#: Where a value of a pod template is: keys, and a container's name after `containers`.
Path = tuple[str, ...]

#: Gives the text of the value at a path; None where the key does not stand in the manifest.
Texts = Callable[[Path], str | None]


#: Before the JSON of a value that a merge key gave: no text begins like that, since a blank or a
#: quotation mark follows the colon.
MERGED = "<<="


class AgentNames(NamedTuple):
    """The names of one agent's containers and volumes; further agents of a pod have a number."""

    number: int = 1

    def _name(self, base: str) -> str:
        return base if self.number == 1 else f"{base}-{self.number}"

    @property
    def container(self) -> str:
        """The agent's container; for a supervisor, the init container that copies its program."""
        return self._name("hotmap-agent")

    @property
    def first(self) -> str:
        """Fills the stage before the application starts, where no probe waits for the sidecar."""
        return self._name("hotmap-agent-first")

    @property
    def port(self) -> str:
        """The name of the agent's port."""
        return self._name("hotmap")

    @property
    def pod(self) -> str:
        """The volume with the pod's annotations."""
        return self._name("hotmap-pod")

    @property
    def run(self) -> str:
        """The volume for state and socket."""
        return self._name("hotmap-run")

    @property
    def stage(self) -> str:
        """The volume between the sources and the application."""
        return self._name("hotmap-stage")

    @property
    def bin(self) -> str:
        """The volume for the agent's program."""
        return self._name("hotmap-bin")

    def environment(self, index: int) -> str:
        """Name a volume with environment variables."""
        return f"{self._name('hotmap-env')}-{index}"

    def source(self, index: int) -> str:
        """Name a volume with a directory of another one."""
        return f"{self._name('hotmap-source')}-{index}"

    def has_volume(self, volume: Any) -> bool:
        """Return whether a volume is this agent's."""
        return _number(_VOLUME, volume) == self.number


class Change(NamedTuple):
    """One key that injection added, or whose value it replaced."""

    path: Path
    #: The text of the value before, or MERGED with the value; None for a key that was not there.
    text: str | None
    #: Of a list: the indexes of the items that were removed.
    taken: tuple[int, ...] = ()


class Record(NamedTuple):
    """All changes of one pod template by one agent; `container` is the application's."""

    container: str
    changes: tuple[Change, ...]
    #: How it was injected, where it has to be injected again when one before it changes.
    injection: tuple[Any, ...] = ()

    def to_json(self) -> str:
        """Encode it for the environment variable."""
        changes = [
            [list(change.path), change.text, *([list(change.taken)] if change.taken else [])]
            for change in self.changes
        ]
        injection = [self.injection] if self.injection else []
        return json.dumps(
            [self.container, changes, *injection], ensure_ascii=False, separators=(",", ":")
        )


class ChangeRecorder:
    """Records each change of a template before it is made."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self.changes: list[Change] = []

    def record_replacement(self, path: Path, taken: tuple[int, ...] = ()) -> None:
        """Record the text of a value that will be replaced, or that its key is new."""
        if not self._record_missing_parent(path):
            self._append(Change(path, self._texts(path), taken))

    def record_addition(self, path: Path) -> None:
        """Record what removing an addition to a value would not restore."""
        self._record_missing_parent((*path, ""))

    def _record_missing_parent(self, path: Path) -> bool:
        """Record the first parent that is missing, empty or an alias; True if there is one."""
        for length in range(1, len(path)):
            part = path[:length]
            text = self._texts(part)
            missing = text is None or text.startswith(MERGED) or text.strip().startswith("*")
            if text is None or missing or _is_blank(text):
                if part[-2:-1] == ("containers",):  # an item: the list as a whole is restored
                    part = part[:-1]
                    text = self._texts(part)
                self._append(Change(part, text))
                return True
        return False

    def _append(self, change: Change) -> None:
        known = [item.path for item in self.changes]
        if not any(change.path[: len(item)] == item for item in known):
            self.changes.append(change)


def _is_blank(text: str) -> bool:
    """Return whether a value's text means nothing: null, or an empty mapping or list."""
    nothing = r"\s*(~|null|Null|NULL|\[\s*\]|\{\s*\})?\s*(#.*)?"
    return re.fullmatch(nothing, text) is not None


def parse_record(text: str) -> Record | None:
    """Read what `to_json` wrote; None for anything else."""
    try:
        container, changes, *injection = json.loads(text)
        return Record(
            str(container),
            tuple(
                Change(tuple(map(str, path)), before, tuple(*taken))
                for path, before, *taken in changes
            ),
            tuple(*injection),
        )
    except (ValueError, TypeError):
        return None


def agent_number(container: Any) -> int | None:
    """Return the number of the agent in this container; None if it is not an agent's container."""
    return _number(_CONTAINER, container)


def is_our_volume(volume: Any) -> bool:
    """Return whether a volume has a name that injection gives."""
    return _number(_VOLUME, volume) is not None


def is_our_mount(mount: Any) -> bool:
    """Return whether a mount is of a volume of ours, or below /hotmap, which is ours."""
    path = mount.get("mountPath") if isinstance(mount, dict) else None
    return is_our_volume(mount) or (isinstance(path, str) and path.startswith("/hotmap/"))


def _number(pattern: re.Pattern[str], item: Any) -> int | None:
    """Return the number in the name of a container, volume or mount; None for another name."""
    name = item.get("name") if isinstance(item, dict) else None
    found = pattern.fullmatch(name) if isinstance(name, str) else None
    return int(next(filter(None, found.groups()), "1")) if found else None


def escape_references(word: str) -> str:
    """Escape a word of `command` or `args` so that the kubelet does not expand it.

    The kubelet replaces `$(NAME)` and turns `$$` into `$` before the container starts
    (kubernetes: third_party/forked/golang/expansion/expand.go).
    """
    return word.replace("$", "$$") if "$(" in word or "$$" in word else word


def unescape_references(word: str) -> str:
    """Undo `escape_references`."""
    return word.replace("$$", "$")
