"""One rule at run time: the files it is about, its progress and its counts."""

from __future__ import annotations

from hotmap.agent.decide.digest import tree_digest
from hotmap.agent.decide.patterns import select_files
from hotmap.agent.decide.progress import Progress
from hotmap.agent.settings.settings import FROZEN

__all__ = ["RuleState"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotmap.agent.settings.settings import Rule


class RuleState:
    """One rule with its progress and its counts."""

    def __init__(self, rule: Rule, directories: tuple[str, ...], progress: Progress) -> None:
        self.rule = rule
        self.progress = progress
        #: Those that the rule is about; none for the rule that follows an announcement.
        self.directories = () if self.is_frozen else rule.directories or directories
        #: Digests by file: desired now, in the current attempt, loaded last.
        self.files: dict[str, str] = {}
        #: All files of which the rule's were selected last; these, and the digest of them.
        self._selected: tuple[Mapping[str, str], dict[str, str], str] | None = None
        self.attempted_files: dict[str, str] = {}
        self.loaded_files: dict[str, str] = {}
        self.loads = self.failures = 0
        #: Number of attempts that were given up for newer content.
        self.superseded = 0
        #: Whether the process had loaded the content at its start, so that nothing was done.
        self.loaded_by_itself = False
        #: Why it is not certain that the process has read the content at its start, though nothing
        #: else is to be done; "" where it is, or where the process was told.
        self.doubt = ""
        #: The doubts of all rules when the current attempt began, if it restarts the process.
        self.doubts_before: dict[str, str] = {}
        #: Whether probes have confirmed the last load.
        self.is_proven = False
        #: Digest of the first content that this agent has read, until an attempt has succeeded:
        #: the process may have read it before. None before it, "" afterwards.
        self.at_start: str | None = None
        #: Whether the current attempt is about content that had been loaded before.
        self.doubted = False
        #: POSIX seconds of the last load; 0 before the first.
        self.loaded_at = 0.0

    @property
    def is_frozen(self) -> bool:
        """Whether the rule follows the announced frozen fingerprint."""
        return self.rule.name == FROZEN

    def covers(self, directory: str) -> bool:
        """Whether the rule is about all files of a directory."""
        return "*" in self.rule.files and directory in self.directories

    def select(self, files: Mapping[str, str], key: bytes) -> tuple[dict[str, str], str]:
        """Select the files that the rule is about, of all digests by path; and digest them.

        `files` does not change afterwards: what was selected from them last is kept.
        """
        if self._selected is None or self._selected[0] is not files:
            roots = tuple(f"{root}/" for root in self.directories)
            below = {path: digest for path, digest in files.items() if path.startswith(roots)}
            chosen = select_files(below, self.rule.files, self.directories)
            if len(chosen) < len(below):
                below = {path: below[path] for path in chosen}
            self._selected = files, below, tree_digest(below, key)
        _, selected, digest = self._selected
        return selected, digest

    def changed_files(self) -> list[str]:
        """List the files that are new, deleted or different since the last load."""
        before, now = self.loaded_files, self.files
        return [
            path for path in sorted(before.keys() | now.keys()) if before.get(path) != now.get(path)
        ]

    def adopt(self) -> None:
        """Record that the process has loaded what is desired without an action of ours."""
        if self.progress.desired is not None:
            self.progress.adopt(self.progress.desired)
            self.loaded_by_itself = True
            self.doubt = self.at_start = ""
            self.is_proven = False
            self.loaded_files = self.files

    @property
    def signals_only(self) -> bool:
        """Whether all that the rule does is to send signals to one process."""
        kinds = {action.kind for action in self.rule.actions} - {"none"}
        targets = {action.target for action in self.rule.actions if action.kind == "signal"}
        return kinds == {"signal"} and len(targets) == 1

    @property
    def reads_later(self) -> bool:
        """Whether the process reads its files at some time after the rule has succeeded.

        A signal is delivered before its handler has read anything, and no probe waits for that.
        """
        return self.signals_only and not self.rule.probes

    @property
    def restarts_process(self) -> bool:
        """Whether all that the rule does is to restart one process that it knows."""
        actions = [action for action in self.rule.actions if action.kind != "none"]
        known = all(action.target or action.restart_mode == "supervised" for action in actions)
        return self.restarts and known and len(actions) == 1

    @property
    def knows_process(self) -> bool:
        """Whether all that the rule does is about one process that it can look up."""
        return self.signals_only or (self.restarts_process and not self.is_frozen)

    @property
    def process(self) -> str:
        """The one process that the rule is about, as it is named there; "" for other rules."""
        targets = [each.target or "child" for each in self.rule.actions if each.kind != "none"]
        return targets[0] if self.knows_process else ""

    @property
    def is_called(self) -> bool:
        """Whether the rule acts on processes that it does not know, and restarts none."""
        return not self.restarts and not self.knows_process

    @property
    def restarts(self) -> bool:
        """Whether the rule restarts its process."""
        return any(action.kind == "restart" for action in self.rule.actions)

    @property
    def restarts_all_containers(self) -> bool:
        """Whether the rule ends the agent, for the kubelet to restart all containers."""
        return any(action.restart_mode == "all-containers" for action in self.rule.actions)

    @property
    def is_about_application(self) -> bool:
        """Whether a start of the supervised application loads what the rule is about.

        Not where the rule names another process, or where other containers have to start too.
        """
        actions = self.rule.actions
        if self.is_frozen or self.restarts_all_containers:
            return False
        is_named = any(action.target not in ("", "child") for action in actions)
        return not is_named or any(action.restart_mode == "supervised" for action in actions)

    @property
    def is_confirmed(self) -> bool:
        """Whether the application itself confirmed the last load.

        By a probe, by the response of its endpoint, or by reading the content at its start. A
        signal that was delivered and a command that succeeded confirm nothing; and where a process
        gets a signal, the response is that of another one. The agent that requests a restart of all
        containers does not see its end; for announced content, the controller does.
        """
        if self.doubt:
            return False
        if self.rule.probes or self.loaded_by_itself or self.is_frozen:
            return True
        actions = self.rule.actions
        if self.restarts:
            return not self.restarts_all_containers
        if any(action.kind == "signal" for action in actions):
            return False
        return any(action.kind == "http" or action.replies for action in actions)

    @property
    def state(self) -> str:
        """The rule's state: waiting, loaded, told, pending or failing."""
        progress = self.progress
        if progress.desired is None:
            return "waiting"
        if not progress.pending:
            return "loaded" if self.is_confirmed else "told"
        return "failing" if progress.error else "pending"
