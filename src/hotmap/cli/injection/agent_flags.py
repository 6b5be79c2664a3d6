"""The flags that an injected agent gets, and what they come to."""

from __future__ import annotations

from typing import Any

from hotmap.agent.catalogue import CATALOGUE
from hotmap.agent.flags import read_words
from hotmap.agent.reading import read_settings
from hotmap.agent.settings import FROZEN, Settings
from hotmap.cli.injection.record import POD_PATH, RUN_PATH, STAGE_PATH
from hotmap.core.errors import ManifestError

__all__ = [
    "complete_flags", "flags_for_once", "frozen_way", "refuse_own_words", "restarts_all",
    "settings_of", "signals",
]  # fmt: skip

#: By flag of the agent that injection writes itself: what to do instead.
_OWN_WORDS = {
    "check-config": "injection checks the flags anyway; leave it out",
    "env": "it follows from the manifest's env; use --mode supervisor",
    "env-from": "it follows from the manifest's envFrom; use --mode supervisor",
    "help": "ask hotmap agent --help",
    "help-verify": "ask hotmap agent --help-verify",
    "once": "use --mode init",
    "stage": "write --stage before the --",
    "target-file": "injection always writes it; leave it out",
    "version": "ask hotmap agent --version",
}

#: What matters to an agent that only checks and publishes.
_ONCE = (
    "dir", "rules", "for", "check", "check-timeout", "max-size", "not-empty", "syntax", "stage",
    "stage-mode", "work-dir",
)  # fmt: skip


def refuse_own_words(flags: tuple[str, ...], *, mode: str) -> None:
    """Raise ManifestError for flags of the agent that do not go with an injection in this mode."""
    words = read_words(flags)
    for flag, spelled in words.given.items():
        if flag in _OWN_WORDS:
            raise ManifestError(f"{spelled} is no flag for an injected agent: {_OWN_WORDS[flag]}")
    if words.application:
        raise ManifestError(
            f"there is a second -- before {words.application[0]!r}: the application's words are "
            "in the manifest, from where --mode supervisor takes them"
        )
    if mode == "init" and ("restart" in words.values or "restart-on" in words.values):
        raise ManifestError(
            "--mode init ends before the application starts, so it restarts nothing; use another"
        )
    if words.values.get("restart") == ["supervised"] and mode != "supervisor":
        raise ManifestError("--restart supervised goes with --mode supervisor")


def complete_flags(
    directories: list[str],
    given: tuple[str, ...],
    *,
    once: bool,
    staged: bool,
    stage_mode: str,
    environment: list[str],
    grace: int | None,
) -> list[str]:
    """Put a person's flags and those that follow from the manifest together.

    `grace`: seconds that an application around which the agent is has to end; None where the
    manifest does not say.
    """
    values = read_words(given).values
    flags = [word for path in directories for word in ("--dir", path)]
    flags += given
    program = CATALOGUE.get(values.get("for", [""])[0])
    if values.get("restart") == ["term"] and "process" not in values and program:
        flags += ["--process", program.process] if program.process else []
    if staged:
        flags += ["--stage", STAGE_PATH]
        if stage_mode and "stage-mode" not in values:
            flags += ["--stage-mode", stage_mode]
    if once:
        return [*flags, "--once", "--listen", "none"]
    flags += ["--target-file", f"{POD_PATH}/annotations"]
    for flag, name in (("state", "state"), ("socket", "agent.sock")):
        if flag not in values:
            flags += [f"--{flag}", f"{RUN_PATH}/{name}"]
    flags += environment
    if grace is not None and "grace" not in values:
        # Before the kubelet's own KILL, so that the application's status is known.
        flags += ["--grace", f"{max(grace - 2, 1)}s"]
    return flags


def settings_of(flags: list[str], command: list[str]) -> Settings:
    """Read flags as the agent will, around a command or around none.

    All but a rules file, which is in the pod.

    Raises:
        SettingsError: they are wrong.
    """
    words = read_words([*flags, *(["--", *command] if command else [])])
    words.values.pop("rules", None)
    return read_settings(words)


def flags_for_once(flags: list[str]) -> list[str]:
    """Give the flags of an init container that fills the stage, from those of the sidecar."""
    values = read_words(flags).values
    kept = [
        word for name in _ONCE for value in values.get(name, ()) for word in (f"--{name}", value)
    ]
    return [*kept, "--once", "--listen", "none"]


def signals(settings: Settings) -> bool:
    """Tell whether the agent has to see the application's processes."""
    by_name = any(probe.kind == "workers" for rule in settings.rules for probe in rule.probes)
    return by_name or any(action.target not in ("", "child") for action in _actions(settings))


def frozen_way(settings: Settings) -> str:
    """Name the way in which the agent answers for frozen uses; "none" when it does not."""
    frozen = [action for rule in settings.rules if rule.name == FROZEN for action in rule.actions]
    return next((action.way for action in frozen if action.way), "none")


def restarts_all(settings: Settings) -> bool:
    """Tell whether the agent's end is to restart all containers of the pod."""
    return any(action.way == "all-containers" for action in _actions(settings))


def _actions(settings: Settings) -> list[Any]:
    return [action for rule in settings.rules for action in rule.actions]
