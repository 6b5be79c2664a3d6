"""The rules that follow from flags and known programs."""

from __future__ import annotations

from hotmap.agent.settings.flag_values import FlagValues
from hotmap.agent.settings.known_programs import KnownProgram
from hotmap.agent.settings.probes import parse_probe
from hotmap.agent.settings.rules_file import parse_restart_mode
from hotmap.agent.settings.settings import FROZEN, Action, Call, EnvFrom, Probe, Rule
from hotmap.agent.settings.values import (
    InvalidValue,
    parse_header,
    parse_method,
    parse_path,
    parse_secret_path,
    parse_signal,
    parse_statuses,
    parse_url,
    require,
    split_command,
)

__all__ = ["flag_rules"]

_SUPERVISED = Action("restart", restart_mode="supervised")


def flag_rules(
    flags: FlagValues,
    directories: tuple[str, ...],
    env_from: tuple[EnvFrom, ...],
    *,
    has_tables: bool,
) -> tuple[Rule, ...]:
    """Make the rules of flags: default or one per URL, startup, environment and frozen."""
    actions = _flag_actions(flags)
    probes = flags.all("verify", parse_probe)
    files: tuple[str, ...] = ("*",)
    program = flags.program()
    if program is not None:
        files = program.files
        if not actions:
            _require_reloadable(flags, program, directories)
            actions = (_program_action(flags, program),)
        actions = tuple(_with_reply(action, program) for action in actions)
        probes = probes or _program_probes(flags, program)
    if not actions and flags.application and not has_tables:
        actions = (_SUPERVISED,)
    rules = []
    env_directories = tuple(dict.fromkeys(each.directory for each in env_from))
    if actions or probes or not has_tables:
        # A restart reads everything, so one rule for all directories is enough.
        joined = actions == (_SUPERVISED,)
        if directories or joined:
            own = () if joined else directories
            rules += [
                Rule(name, files, own, some, probes)
                for name, some in _split_calls(actions or (Action("none"),))
            ]
        if joined:
            env_directories = ()
    if program is not None and program.startup_files:
        rules.append(_startup_rule(program, actions, directories))
    if env_directories:
        rules.append(Rule("environment", ("*",), env_directories, (_SUPERVISED,), ()))
    if flags.last("restart-on", _parse_frozen, ""):
        rules.append(_frozen_rule(flags))
    return tuple(rules)


def _split_calls(actions: tuple[Action, ...]) -> list[tuple[str, tuple[Action, ...]]]:
    """Return each of several endpoints a rule of its own, so that one that fails delays no other.

    With a restart, the calls prepare for it, so they stay in its rule.
    """
    calls = [action for action in actions if action.kind == "http"]
    if len(calls) < 2 or any(action.kind == "restart" for action in actions):
        return [("default", actions)]
    others = tuple(action for action in actions if action.kind != "http")
    named = [(f"url-{number}", (call,)) for number, call in enumerate(calls, start=1)]
    return [*([("default", others)] if others else []), *named]


def _frozen_rule(flags: FlagValues) -> Rule:
    default = "supervised" if flags.application else "all-containers"
    mode = flags.last("restart", parse_restart_mode, default)
    drains = tuple(Action("http", call=Call(url)) for url in flags.all("drain-url", parse_url))
    return Rule(FROZEN, (), (), (*drains, _restart_action(flags, mode)), ())


def _require_reloadable(
    flags: FlagValues, program: KnownProgram, directories: tuple[str, ...]
) -> None:
    """Require that a reload loads the files: it would be confirmed, whatever they are."""
    for directory in directories:
        require(
            directory not in program.start_directories,
            f"--for {flags.last('for', str, '')} reloads the program, and what is in {directory} "
            "is used only when its container starts: mount finished configuration instead, or let "
            "changes roll out the workload, without an agent",
        )


def _program_action(flags: FlagValues, program: KnownProgram) -> Action:
    if program.command:
        return Action("exec", command=split_command(program.command))
    target = flags.process(program.process)
    return Action("signal", signal=parse_signal(program.signal), target=target)


def _program_probes(flags: FlagValues, program: KnownProgram) -> tuple[Probe, ...]:
    target = flags.process(program.process)
    return tuple(
        probe._replace(target=target) if probe.kind == "workers" else probe
        for probe in map(parse_probe, program.verify)
    )


def _with_reply(action: Action, program: KnownProgram) -> Action:
    """Mark the command of a program, also one with other options, whose success is its reply."""
    last = split_command(program.command)[-2:] if program.command else ()
    is_known = bool(last) and action.command[-2:] == last
    return action._replace(replies=True) if is_known else action


def _startup_rule(
    program: KnownProgram, actions: tuple[Action, ...], directories: tuple[str, ...]
) -> Rule:
    """Follow the files that a program reads only when it starts: only another start loads them."""
    client = next(
        (action.command[:-2] for action in actions if action.replies),
        split_command(program.command)[:-2],
    )
    probes = (
        Probe("exec", command=(*client, *split_command(program.running_query))),
        Probe("output", command=(*client, *split_command(program.startup_query))),
    )
    files = program.startup_files
    return Rule("startup", files, directories, (Action("none"),), probes, read_at_start=True)


def _flag_actions(flags: FlagValues) -> tuple[Action, ...]:
    actions: list[Action] = []
    for number in flags.all("signal", parse_signal):
        target = flags.process("")
        require(bool(target), "--signal requires --process: the process that gets the signal")
        actions.append(Action("signal", signal=number, target=target))
    for url in flags.all("url", parse_url):
        call = Call(
            url,
            method=flags.last("method", parse_method, "POST"),
            headers=flags.all("header", parse_header),
            body=flags.last("body", str, ""),
            statuses=flags.last("status", parse_statuses, (200,)),
            credentials=flags.last("credentials", parse_secret_path, ""),
            token=flags.last("token", parse_secret_path, ""),
        )
        actions.append(Action("http", call=call))
    actions += [Action("exec", command=words) for words in flags.all("exec", split_command)]
    actions += [Action("touch", path=path) for path in flags.all("touch", parse_path)]
    if flags.has("restart") and not flags.has("restart-on"):
        actions.append(_restart_action(flags, flags.last("restart", parse_restart_mode, "")))
    return tuple(actions)


def _restart_action(flags: FlagValues, mode: str) -> Action:
    require(
        mode != "supervised" or bool(flags.application),
        "--restart supervised requires an application: put it after --",
    )
    target = ""
    if mode == "term":
        require(flags.has("process"), "--restart term requires --process: the process to terminate")
        target = flags.process("")
    return Action("restart", restart_mode=mode, target=target)


def _parse_frozen(text: str) -> str:
    if text != "frozen":
        raise InvalidValue("restart condition", "expected frozen")
    return text
