"""The agent's settings as values. Times are seconds, paths absolute."""

from __future__ import annotations

from hotmap.agent.settings.values import Address, Url
from hotmap.core.value import Value

__all__ = [
    "ALL_CONTAINERS_STATUS",
    "FROZEN",
    "RESTART_MODES",
    "Action",
    "ActionSettings",
    "ApplicationSettings",
    "Call",
    "CheckSettings",
    "ContentLimits",
    "EnvFrom",
    "EnvSetting",
    "Probe",
    "RenderSettings",
    "ReportSettings",
    "Rule",
    "Settings",
    "WatchSettings",
    "WebSettings",
]

#: How to restart, cheapest first (docs/agent.md has what each costs).
RESTART_MODES = ("supervised", "all-containers", "term")

#: Our own exit status for which an injected pod has a rule RestartAllContainers.
ALL_CONTAINERS_STATUS = 88

#: Name of the rule that follows the announced frozen fingerprint.
FROZEN = "frozen"


class Call(Value):
    """An HTTP request to send. Files are read again for each call.

    ca, certificate, private_key: PEM files
    credentials: a file with user:password
    token: a file with a bearer token
    statuses: those that count as success
    redirects: how many are followed
    verify: the endpoint's certificate has to be trusted
    """

    url: Url
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    statuses: tuple[int, ...] = (200,)
    ca: str = ""
    certificate: str = ""
    private_key: str = ""
    credentials: str = ""
    token: str = ""
    redirects: int = 0
    verify: bool = True


class Action(Value):
    """One step of a rule: signal, http, exec, touch, restart or none.

    target: the process, as `process_table.find` takes it, or "child" for the application
    restart_mode: one of RESTART_MODES
    replies: the command succeeds only once the application has loaded the content
    """

    kind: str
    signal: int = 0
    target: str = ""
    call: Call | None = None
    command: tuple[str, ...] = ()
    path: str = ""
    restart_mode: str = ""
    replies: bool = False


class Probe(Value):
    """A probe that confirms an action; kind: one of `probes.KINDS`.

    value: None means any other value than before the action
    """

    kind: str
    call: Call | None = None
    name: str = ""
    value: str | None = None
    path: str = ""
    target: str = ""
    command: tuple[str, ...] = ()

    @property
    def detects_change(self) -> bool:
        """Whether it has to show something else than before the action."""
        if self.kind in ("field", "metric", "output"):
            return self.value is None
        return self.kind in ("file", "workers")

    @property
    def compares(self) -> bool:
        """Whether any load that ends after it was read confirms it, whatever that has read."""
        return self.kind == "log" or self.detects_change


class Rule(Value):
    """Actions for changed files, and the probes that confirm them.

    files: patterns
    directories: only in these; () for all
    read_at_start: the process reads the files only when it starts, so what it has at first counts
        as loaded, and only another start of it loads a change
    The rule FROZEN has no files: it follows the announced frozen fingerprint.
    """

    name: str
    files: tuple[str, ...]
    directories: tuple[str, ...]
    actions: tuple[Action, ...]
    probes: tuple[Probe, ...]
    read_at_start: bool = False


class EnvFrom(Value):
    """A directory whose files are environment variables, as envFrom in a pod."""

    prefix: str
    directory: str


class EnvSetting(Value):
    """One environment variable before expansion; value None keeps the container's."""

    name: str
    value: str | None


class ContentLimits(Value):
    """Checks without a command.

    max_size: bytes of one file; 0 for no limit
    not_empty: patterns, each of which must match a file with content
    syntax: (pattern, json or toml)
    """

    max_size: int = 0
    not_empty: tuple[str, ...] = ()
    syntax: tuple[tuple[str, str], ...] = ()


class WatchSettings(Value):
    """Which directories to watch, and how.

    poll_interval: 0 for the watcher's own
    target_file: the pod's annotations, "" for none
    max_directory_size: bytes of a directory
    permissions: whether the modes and groups of files are needed
    """

    directories: tuple[str, ...]
    settle: float
    settle_max: float
    poll_interval: float
    target_file: str
    max_directory_size: int
    permissions: bool = False


class CheckSettings(Value):
    """The checks that content must pass, and where it is published then.

    timeout: of each command
    stage: directory to publish in, "" for none; stage_mode: permission bits of its files,
        None for those that they have in their source
    work_directory: for copies to check; "" for memory, then /tmp
    """

    commands: tuple[tuple[str, ...], ...]
    timeout: float
    limits: ContentLimits
    stage: str
    stage_mode: int | None
    work_directory: str


class ActionSettings(Value):
    """Time limits of actions, of their probes and between attempts.

    grace: between TERM and KILL
    splay: a restart waits for a random part of it
    """

    timeout: float
    verify_timeout: float
    retry_first: float
    retry_max: float
    grace: float
    splay: float = 0.0


class ApplicationSettings(Value):
    """The supervised application; command is () without one.

    min_uptime: a restart failed if the application exits with an error sooner
    """

    command: tuple[str, ...]
    env_from: tuple[EnvFrom, ...]
    env: tuple[EnvSetting, ...]
    forward_hup: bool
    stop_signal: int = 15
    min_uptime: float = 0.0


class WebSettings(Value):
    """TLS, users and headers of the TCP port; certificate "" for plain HTTP.

    client_auth: none, optional or required
    min_version, max_version: TLS10 to TLS13
    users: names and their bcrypt hashes; none where everybody may read
    """

    certificate: str
    private_key: str
    client_ca: str
    client_auth: str
    min_version: str
    max_version: str
    headers: tuple[tuple[str, str], ...] = ()
    users: tuple[tuple[str, str], ...] = ()


class ReportSettings(Value):
    """Where the agent reports.

    listen: None for no TCP port; socket: "" for no unix socket
    log_format: text or json
    log_level: info, warning or none
    reload_method: http or signal for the metrics of prometheus-config-reloader, "" for none
    web: TLS and headers of the TCP port
    log_checker_output: the log shows the words of checkers and programs
    """

    listen: Address | None
    metrics_path: str
    socket: str
    log_format: str
    log_checker_output: bool = False
    log_level: str = "info"
    reload_method: str = ""
    web: WebSettings | None = None


class RenderSettings(Value):
    """A file to render from a watched one."""

    source: str
    target: str


class Settings(Value):
    """Everything that one start of the agent needs.

    state_file: "" to keep the state in memory only
    once: check, publish and exit
    warnings: sentences to log at the start
    render: a file to write from content that passed
    """

    watch: WatchSettings
    rules: tuple[Rule, ...]
    checks: CheckSettings
    actions: ActionSettings
    application: ApplicationSettings
    reports: ReportSettings
    state_file: str
    once: bool
    warnings: tuple[str, ...]
    render: RenderSettings | None = None
