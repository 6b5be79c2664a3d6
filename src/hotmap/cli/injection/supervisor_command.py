"""The command of an application's container with the agent as supervisor."""

from __future__ import annotations

from typing import Any

from hotmap.cli.injection.containers import RESTART_RULES
from hotmap.cli.injection.environment import Conversion
from hotmap.cli.injection.record import PROGRAM, ChangeRecorder, Path, escape_references

__all__ = ["wrap_command"]


def wrap_command(
    application: dict[str, Any],
    recorder: ChangeRecorder,
    flags: list[str],
    conversion: Conversion | None,
    *,
    restarts_all: bool,
) -> list[str]:
    """Change a container's command, arguments and environment; returns notes for the user.

    `args` stay in place: they follow the command, as before.
    """

    def path(key: str) -> Path:
        return ("spec", "containers", application["name"], key)

    if conversion is not None:
        for key, taken in (("envFrom", conversion.env_from_taken), ("env", conversion.env_taken)):
            if taken:
                recorder.record_replacement(path(key), taken)
                application[key] = [
                    item for index, item in enumerate(application[key]) if index not in taken
                ]
    command = [escape_references(str(argument)) for argument in application["command"]]
    recorder.record_replacement(path("command"))
    application["command"] = [
        *("python3", PROGRAM), *(escape_references(flag) for flag in flags), "--", *command
    ]  # fmt: skip
    arguments = [str(arg) for arg in application.get("args") or ()]
    if [escape_references(argument) for argument in arguments] != arguments:
        recorder.record_replacement(path("args"))
        application["args"] = [escape_references(argument) for argument in arguments]
    if restarts_all:
        for key, value in (
            ("restartPolicy", "Always"),
            ("restartPolicyRules", RESTART_RULES),
        ):
            recorder.record_replacement(path(key))
            application[key] = value
    return _note_exec_hooks(application) if conversion is not None else []


def _note_exec_hooks(application: dict[str, Any]) -> list[str]:
    """Name the probes and hooks that run in the container without the converted variables."""
    hooks = application.get("lifecycle") or {}
    found = [
        *(f"{item}Probe" for item in ("startup", "liveness", "readiness")
          if "exec" in (application.get(f"{item}Probe") or {})),
        *(item for item in ("postStart", "preStop") if "exec" in (hooks.get(item) or {})),
    ]  # fmt: skip
    if not found:
        return []
    return [
        f"{' and '.join(found)} of container {application['name']} "
        f"{'runs' if len(found) == 1 else 'run'} without the variables that now come from files; "
        "only the application has them"
    ]
