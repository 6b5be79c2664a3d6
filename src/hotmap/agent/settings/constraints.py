"""What flags, directories and rules require of each other."""

from __future__ import annotations

import os

from hotmap.agent.settings.flag_values import FlagValues
from hotmap.agent.settings.settings import Rule
from hotmap.agent.settings.values import require

__all__ = [
    "require_combinable",
    "require_directories",
    "require_outside",
    "require_stageable",
    "require_unique_names",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def require_combinable(flags: FlagValues) -> None:
    """Require that each flag is given with those that it needs, and without those it excludes."""
    for name in ("env-from", "env", "forward-hup", "stop-signal", "min-uptime"):
        require(
            bool(flags.application) or not flags.has(name),
            f"{flags.spelling_of(name)} requires an application: put it after --",
        )
    require(
        not (flags.switch("once") and flags.application),
        "--once cannot be used with an application",
    )
    require(
        not flags.has("restart-on") or flags.has("target-file"),
        "--restart-on requires --target-file",
    )
    users_of_process = ("signal", "restart", "for")
    require(
        not flags.has("process") or any(flags.has(name) for name in users_of_process),
        "--process requires --signal, --restart term or --for",
    )
    for flag, required in (
        ("drain-url", "restart-on"),
        ("client-key", "client-cert"),
        ("stage-mode", "stage"),
        *((name, "url") for name in ("method", "body", "header", "status")),
        *((name, "url") for name in ("credentials", "token")),
    ):
        require(flags.has(required) or not flags.has(flag), f"--{flag} requires --{required}")
    require(
        not (flags.has("credentials") and flags.has("token")),
        "--credentials and --token cannot be used together",
    )
    callers = ("url", "verify", "drain-url", "rules")
    for flag in ("ca", "client-cert"):
        require(
            not flags.has(flag) or any(flags.has(name) for name in callers),
            f"--{flag} requires --url, --verify or --drain-url",
        )


def require_unique_names(rules: tuple[Rule, ...]) -> None:
    """Require that no two rules have one name, under which their state is kept."""
    names = [rule.name for rule in rules]
    for name in names:
        require(names.count(name) == 1, f"two rules have the name {name!r}")


def require_stageable(flags: FlagValues, directories: tuple[str, ...]) -> None:
    """Require that the stage can have a subdirectory for each directory, apart from all of them."""
    stage = flags.path("stage")
    if not stage:
        return
    names = [os.path.basename(directory) for directory in directories]
    require(
        len(set(names)) == len(names),
        "--stage: two directories have the same base name: mount one of them elsewhere",
    )
    for directory in directories:
        nested = stage.startswith(f"{directory}/") or directory.startswith(f"{stage}/")
        require(
            stage != directory and not nested,
            f"--stage: {stage} and {directory} must not contain each other",
        )


def require_outside(
    flags: FlagValues, directories: tuple[str, ...], rules: tuple[Rule, ...], rules_file: str
) -> None:
    """Require that the agent writes nothing into what it watches: it would reload forever."""
    written = [
        *((flags.spelling_of(name), flags.path(name)) for name in ("state", "socket", "work-dir")),
        *((flags.spelling_of("touch"), path) for path in flags.paths("touch")),
        *(
            (f"{rules_file}: rule {rule.name}: touch", action.path)
            for rule in rules
            for action in rule.actions
            if action.kind == "touch"
        ),
    ]
    for where, path in written:
        for directory in directories if path else ():
            require(
                not f"{path}/".startswith(f"{directory.rstrip('/')}/"),
                f"{where}: {path} is in the watched directory {directory}, so each write to it "
                "would be a change: use another directory, such as an emptyDir",
            )


def require_directories(commands: Iterable[tuple[str, ...]], count: int) -> None:
    """Require that {dir2}, {dir3} … name directories: a check would get the words as they are."""
    known = ("dir", *(f"dir{number}" for number in range(2, count + 1)))
    for part in (part for command in commands for word in command for part in word.split("{")):
        name, end, _ = part.partition("}")
        if end and name.startswith("dir") and not name[3:].strip("0123456789"):
            expected = ", ".join(f"{{{each}}}" for each in known)
            require(name in known, f"check: unknown directory {{{name}}}, expected {expected}")
