"""Puts the agent around an application's command, in the application's own container."""

from __future__ import annotations

from typing import Any

from hotmap.cli.injection import additions
from hotmap.cli.injection.record import PROGRAM, Ledger, Path, protected
from hotmap.cli.injection.variables import Conversion

__all__ = ["wrap"]


def wrap(
    application: dict[str, Any],
    ledger: Ledger,
    flags: list[str],
    conversion: Conversion | None,
    *,
    restarts_all: bool,
) -> list[str]:
    """Change a container's command, arguments and environment; gives what to tell a person.

    Its arguments stay its arguments: they come after the command, as before.
    """

    def path(key: str) -> Path:
        return ("spec", "containers", application["name"], key)

    if conversion is not None:
        for key, taken in (("envFrom", conversion.env_from_taken), ("env", conversion.env_taken)):
            if taken:
                ledger.replacing(path(key), taken)
                application[key] = [
                    one for index, one in enumerate(application[key]) if index not in taken
                ]
    command = [protected(str(one)) for one in application["command"]]
    ledger.replacing(path("command"))
    application["command"] = [
        *("python3", PROGRAM), *(protected(one) for one in flags), "--", *command
    ]  # fmt: skip
    arguments = [str(one) for one in application.get("args") or ()]
    if [protected(one) for one in arguments] != arguments:
        ledger.replacing(path("args"))
        application["args"] = [protected(one) for one in arguments]
    if restarts_all:
        for key, value in (
            ("restartPolicy", "Always"),
            ("restartPolicyRules", additions.RESTART_RULES),
        ):
            ledger.replacing(path(key))
            application[key] = value
    return _without_variables(application) if conversion is not None else []


def _without_variables(application: dict[str, Any]) -> list[str]:
    """Tell of what the kubelet starts beside the application, with the container's environment."""
    hooks = application.get("lifecycle") or {}
    found = [
        *(f"{one}Probe" for one in ("startup", "liveness", "readiness")
          if "exec" in (application.get(f"{one}Probe") or {})),
        *(one for one in ("postStart", "preStop") if "exec" in (hooks.get(one) or {})),
    ]  # fmt: skip
    if not found:
        return []
    return [
        f"{' and '.join(found)} of container {application['name']} "
        f"{'runs' if len(found) == 1 else 'run'} without the variables that come from files now; "
        "only the application has them"
    ]
