"""The flags of an injected agent."""

from __future__ import annotations

from typing import Any

from hotmap.agent.settings.flags import parse_arguments
from hotmap.agent.settings.known_programs import KNOWN_PROGRAMS
from hotmap.agent.settings.loader import load_settings
from hotmap.agent.settings.settings import FROZEN, Settings
from hotmap.cli.injection.record import POD_PATH, RUN_PATH, STAGE_PATH
from hotmap.core.errors import ManifestError

__all__ = [
    "acts", "complete_flags", "flags_for_once", "frozen_way", "reject_reserved_flags",
    "restarts_all", "restarts_for_files", "settings_of", "signals", "targets", "used_files",
]  # fmt: skip

#: Flags of the agent that injection sets itself, with what to do instead.
_RESERVED_FLAGS = {
    "check-config": "injection validates the flags anyway; omit it",
    "env": "it is derived from the manifest's env; use --mode supervisor",
    "env-from": "it is derived from the manifest's envFrom; use --mode supervisor",
    "help": "run 'hotmap agent --help'",
    "help-verify": "run 'hotmap agent --help-verify'",
    "once": "use --mode init",
    "stage": "place --stage before the --",
    "target-file": "injection always sets it; omit it",
    "version": "run 'hotmap agent --version'",
}

#: The flags that apply to an agent that only checks and publishes.
_ONCE_FLAGS = (
    "dir", "rules", "for", "check", "check-timeout", "max-size", "not-empty", "syntax", "stage",
    "stage-mode", "work-dir",
)  # fmt: skip


def reject_reserved_flags(flags: tuple[str, ...], *, mode: str) -> None:
    """Raise ManifestError for flags of the agent that this mode of injection does not allow."""
    words = parse_arguments(flags)
    for flag, spelled in words.spelling.items():
        if flag in _RESERVED_FLAGS:
            raise ManifestError(
                f"{spelled} cannot be set on an injected agent: {_RESERVED_FLAGS[flag]}"
            )
    if words.application:
        raise ManifestError(
            f"unexpected second -- before {words.application[0]!r}: the application's command is "
            "in the manifest, where --mode supervisor reads it"
        )
    if mode == "init" and ("restart" in words.values or "restart-on" in words.values):
        raise ManifestError(
            "--mode init ends before the application starts and cannot restart it; use another mode"
        )
    if words.values.get("restart") == ["supervised"] and mode != "supervisor":
        raise ManifestError("--restart supervised requires --mode supervisor")


def complete_flags(
    directories: list[str],
    given: tuple[str, ...],
    *,
    once: bool,
    staged: bool,
    environment: list[str],
    grace: int | None,
) -> list[str]:
    """Combine the given flags with those derived from the manifest.

    `grace`: the termination grace period of a supervised application in seconds; None where the
    manifest does not set it.
    """
    values = parse_arguments(given).values
    flags = [word for path in directories for word in ("--dir", path)]
    flags += given
    program = KNOWN_PROGRAMS.get(values.get("for", [""])[0])
    if values.get("restart") == ["term"] and "process" not in values and program:
        flags += ["--process", program.process] if program.process else []
    if staged:
        flags += ["--stage", STAGE_PATH]
    if once:
        return [*flags, "--once", "--listen", "none"]
    flags += ["--target-file", f"{POD_PATH}/annotations"]
    for flag, name in (("state", "state"), ("socket", "agent.sock")):
        if flag not in values:
            flags += [f"--{flag}", f"{RUN_PATH}/{name}"]
    flags += environment
    if grace is not None and "grace" not in values:
        # Before the kubelet sends SIGKILL, so that the exit status of the application is known.
        flags += ["--grace", f"{max(grace - 2, 1)}s"]
    return flags


def settings_of(flags: list[str], command: list[str]) -> Settings:
    """Read flags as the agent will, with or without a supervised command.

    A rules file is not read, since it is in the pod.

    Raises:
        SettingsError: they are invalid.
    """
    words = parse_arguments([*flags, *(["--", *command] if command else [])])
    words.values.pop("rules", None)
    return load_settings(words)


def flags_for_once(flags: list[str]) -> list[str]:
    """Return the flags of an init container that fills the stage, from those of the sidecar."""
    values = parse_arguments(flags).values
    kept = [
        word
        for name in _ONCE_FLAGS
        for value in values.get(name, ())
        for word in (f"--{name}", value)
    ]
    return [*kept, "--once", "--listen", "none"]


def acts(settings: Settings) -> bool:
    """Return whether the agent does anything but check and report."""
    return any(action.kind != "none" for action in _actions(settings))


def signals(settings: Settings) -> bool:
    """Return whether the agent needs to see the application's processes."""
    by_name = any(probe.kind == "workers" for rule in settings.rules for probe in rule.probes)
    return by_name or any(action.target not in ("", "child") for action in _actions(settings))


def targets(settings: Settings) -> list[str]:
    """List the processes of others that the agent sends signals to or inspects."""
    found = [action.target for action in _actions(settings)]
    found += [probe.target for rule in settings.rules for probe in rule.probes]
    return [target for target in dict.fromkeys(found) if target not in ("", "child")]


def used_files(settings: Settings) -> list[str]:
    """List the files of the application that actions and probes use beside what is watched."""
    found: list[str] = []
    for step in (*_actions(settings), *(p for rule in settings.rules for p in rule.probes)):
        kind, _, name = step.target.partition(":")
        socket = step.call.url.socket if step.call else ""
        found += [step.path, socket, name if kind == "pidfile" else ""]
    return [path for path in dict.fromkeys(found) if path.startswith("/")]


def frozen_way(settings: Settings) -> str:
    """Name how the agent restarts for frozen uses; "none" when it does not."""
    frozen = [action for rule in settings.rules if rule.name == FROZEN for action in rule.actions]
    return next((action.restart_mode for action in frozen if action.restart_mode), "none")


def restarts_for_files(settings: Settings) -> bool:
    """Return whether the agent restarts the application when files have changed."""
    return any(
        action.kind == "restart"
        for rule in settings.rules
        if rule.name != FROZEN
        for action in rule.actions
    )


def restarts_all(settings: Settings) -> bool:
    """Return whether the agent's exit restarts all containers of the pod."""
    return any(action.restart_mode == "all-containers" for action in _actions(settings))


def _actions(settings: Settings) -> list[Any]:
    return [action for rule in settings.rules for action in rule.actions]
