"""The agent's settings as values: what flags, a rules file and the catalogue come to."""

from __future__ import annotations

from collections import namedtuple

from hotmap.agent.check import Bounds
from hotmap.agent.environment import EnvFrom, EnvSetting
from hotmap.agent.http import Call
from hotmap.agent.values import Address

__all__ = ["ALL_CONTAINERS_STATUS", "Action", "Check", "Probe", "Rule", "Settings"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    class Action(NamedTuple):
        kind: str
        signal: int = 0
        target: str = ""
        call: Call | None = None
        command: tuple[str, ...] = ()
        path: str = ""
        way: str = ""

    class Probe(NamedTuple):
        kind: str
        call: Call | None = None
        name: str = ""
        value: str | None = None
        path: str = ""
        target: str = ""
        command: tuple[str, ...] = ()

    class Check(NamedTuple):
        command: tuple[str, ...]
        seconds: float

    class Rule(NamedTuple):
        name: str
        files: tuple[str, ...]
        directories: tuple[str, ...]
        actions: tuple[Action, ...]
        probes: tuple[Probe, ...]

    class Settings(NamedTuple):
        directories: tuple[str, ...]
        rules: tuple[Rule, ...]
        checks: tuple[Check, ...]
        bounds: Bounds
        stage: str
        stage_mode: int
        work: str
        settle: float
        settle_max: float
        check_interval: float
        action_seconds: float
        verify_seconds: float
        retry_first: float
        retry_last: float
        grace: float
        listen: Address | None
        metrics_path: str
        socket: str
        state: str
        log_format: str
        target_file: str
        application: tuple[str, ...]
        env_from: tuple[EnvFrom, ...]
        env: tuple[EnvSetting, ...]
        forward_hup: bool
        once: bool
        notes: tuple[str, ...]

else:
    Action = namedtuple(
        "Action",
        "kind signal target call command path way",
        defaults=[0, "", None, (), "", ""],
    )
    Action.__doc__ = """One thing to do: signal, http, exec, touch, restart or none. target: the
    process, as `processes.find` takes it, or "child"; way: of restart, see `settings.WAYS`."""

    Probe = namedtuple(
        "Probe", "kind call name value path target command", defaults=[None, "", None, "", "", ()]
    )
    Probe.__doc__ = """What confirms an action: http, field, metric, file, log, workers, exec or
    output. value None: it has to be another one than before the action."""

    Check = namedtuple("Check", "command seconds")

    Rule = namedtuple("Rule", "name files directories actions probes")
    Rule.__doc__ = """What to do when files change. files: patterns; directories: only in these, ()
    for all. The rule FROZEN has no files: it goes by the announced frozen fingerprint."""

    Settings = namedtuple(
        "Settings",
        "directories rules checks bounds stage stage_mode work settle settle_max check_interval "
        "action_seconds verify_seconds retry_first retry_last grace listen metrics_path socket "
        "state log_format target_file application env_from env forward_hup once notes",
    )
    Settings.__doc__ = """Everything that a start of the agent needs. Times are seconds;
    check_interval 0 is the watcher's own."""

#: Ways to restart, cheapest first (docs/agent.md has what each costs).
WAYS = ("supervised", "all-containers", "term")

#: Our own exit status for which an injected pod has a rule RestartAllContainers.
ALL_CONTAINERS_STATUS = 88

#: Name of the rule that follows the announced frozen fingerprint.
FROZEN = "frozen"
