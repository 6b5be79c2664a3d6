"""Every flag of `hotmap agent`: one table, from which both the parser and --help are made.

`loader` interprets the values. argparse would take a third of the start-up time, and has no
flags with one dash, which users of configmap-reload write.
"""

from __future__ import annotations

from hotmap.agent.settings.known_programs import KNOWN_PROGRAMS
from hotmap.agent.settings.values import quote_redacted
from hotmap.core.errors import SettingsError
from hotmap.core.value import Value

__all__ = ["ALIASES", "FLAGS", "Arguments", "Flag", "help_text", "lay_out_flag", "parse_arguments"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Flag(Value):
    """One flag; value is "" for a switch."""

    name: str
    value: str
    text: str
    repeatable: bool = False


class Arguments(Value):
    """A command line, split.

    values: texts by flag; spelling: the flag as it was written
    application: the words after a bare `--`
    """

    values: dict[str, list[str]]
    spelling: dict[str, str]
    application: tuple[str, ...]


_SECTIONS: tuple[tuple[str, tuple[Flag, ...]], ...] = (
    (
        "Watching",
        (
            Flag("dir", "DIR", "Directory to watch: a mounted ConfigMap or Secret.", True),
            Flag("rules", "FILE", "TOML file with rules for several files and actions."),
            Flag(
                "for",
                "PROGRAM",
                f"Check, action and verification for a program: {', '.join(KNOWN_PROGRAMS)}.",
            ),
            Flag("settle", "DURATION", "Treat changes this close together as one. Default: 100ms."),
            Flag("settle-max", "DURATION", "Maximum time to wait for more changes. Default: 2s."),
            Flag("poll-interval", "DURATION", "Poll interval. Default: 10s; 1s without inotify."),
            Flag("max-directory-size", "SIZE", "Maximum size of a directory. Default: 64Mi."),
        ),
    ),
    (
        "Checks before loading",
        (
            Flag(
                "check",
                "COMMAND",
                "Must succeed on a copy of the files in {dir}; none: no check.",
                True,
            ),
            Flag(
                "check-timeout",
                "DURATION",
                "Time limit of each check; with --once, of all attempts. Default: 30s.",
            ),
            Flag("max-size", "SIZE", "Maximum size of each file."),
            Flag("not-empty", "PATTERN", "A file that must exist and not be empty.", True),
            Flag("syntax", "PATTERN=json|toml", "Files that must be well-formed.", True),
            Flag(
                "stage",
                "DIR",
                "Directory in which content that passed is published.",
            ),
            Flag("stage-mode", "MODE", "Permission bits of published files. Default: as mounted."),
            Flag(
                "work-dir",
                "DIR",
                "Directory for the copies that are checked. Default: /dev/shm, then /tmp.",
            ),
        ),
    ),
    (
        "Actions, in this order",
        (
            Flag("signal", "SIGNAL", "Send this signal to --process."),
            Flag("process", "PROCESS", "The process: pidfile:FILE, name:NAME or command:TEXT."),
            Flag("url", "URL", "Call http://…, https://… or unix:SOCKET:/PATH.", True),
            Flag("method", "METHOD", "HTTP method. Default: POST."),
            Flag("header", "'NAME: VALUE'", "HTTP header.", True),
            Flag("body", "TEXT", "HTTP request body."),
            Flag("status", "LIST", "Expected status codes, such as 200,204 or 2xx. Default: 200."),
            Flag("ca", "FILE", "CA certificates to trust in calls and probes, not the system's."),
            Flag("client-cert", "FILE", "Client certificate of calls and probes."),
            Flag("client-key", "FILE", "Private key of the client certificate."),
            Flag("credentials", "FILE", "File with user:password, read for each call."),
            Flag("token", "FILE", "File with a bearer token, read for each call."),
            Flag("exec", "COMMAND", "Run a command; $HOTMAP_CHANGED lists changed files.", True),
            Flag("touch", "FILE", "Set the modification time of a file to now.", True),
            Flag("restart", "MODE", "How to restart: supervised, all-containers or term."),
            Flag("action-timeout", "DURATION", "Time limit of each action. Default: 60s."),
            Flag("retry-first", "DURATION", "Delay after the first failure. Default: 250ms."),
            Flag("retry-max", "DURATION", "Maximum delay between attempts. Default: 15s."),
            Flag("grace", "DURATION", "Time between SIGTERM and SIGKILL. Default: 25s."),
            Flag("splay", "DURATION", "Maximum random delay before a restart. Default: 0s."),
        ),
    ),
    (
        "Verification",
        (
            Flag("verify", "PROBE", "Probe that must succeed; see --help-verify.", True),
            Flag("verify-timeout", "DURATION", "Time limit of each probe. Default: 10s."),
        ),
    ),
    (
        "Announcements",
        (
            Flag("target-file", "FILE", "The pod's annotations, from a downwardAPI volume."),
            Flag(
                "restart-on",
                "frozen",
                "Restart when a change of variables or subPath mounts is announced.",
            ),
            Flag("drain-url", "URL", "Call this endpoint before such a restart."),
        ),
    ),
    (
        "Supervised application: hotmap agent … -- PROGRAM ARGUMENTS",
        (
            Flag("env-from", "[PREFIX=]DIR", "Set variables from files, as envFrom does.", True),
            Flag("env", "NAME[=VALUE]", "Set one variable, as env does.", True),
            Flag("forward-hup", "", "Forward SIGHUP instead of checking for changes."),
            Flag("stop-signal", "SIGNAL", "Signal that stops the application. Default: TERM."),
            Flag("min-uptime", "DURATION", "A restart that fails sooner is undone. Default: 10s."),
        ),
    ),
    (
        "Reports",
        (
            Flag("listen", "ADDRESS", "Address of metrics, health and status. Default: :9533."),
            Flag("metrics-path", "PATH", "URL path of the metrics. Default: /metrics."),
            Flag("socket", "PATH", "Unix socket for `hotmap agent status`."),
            Flag("state", "FILE", "Keep what was loaded across restarts of the agent."),
            Flag("log-format", "text|json", "Format of the log. Default: text."),
            Flag(
                "log-checker-output",
                "",
                "Log what checkers and commands print, which may contain Secrets.",
            ),
        ),
    ),
    (
        "Modes",
        (
            Flag("once", "", "Check, publish and exit: for an init container. Opens no port."),
            Flag("check-config", "", "Validate flags and rules, and exit."),
            Flag("version", "", "Print the version."),
            Flag("help", "", "Print this help."),
            Flag("help-verify", "", "Print the forms of a probe."),
        ),
    ),
)

#: Shown as they are: a command line that is wrapped cannot be copied.
_EXAMPLES = """\
Examples:
  hotmap agent --dir /etc/nginx --for nginx
  hotmap agent --dir /etc/app --url http://127.0.0.1:9090/-/reload
  hotmap agent --dir /etc/app --signal HUP --process name:app
  hotmap agent --env-from /etc/app -- python -m app
  hotmap agent --dir /etc/app --check 'app --test {dir}' --stage /stage --once
"""

#: How similar a flag has to be to one that does not exist, to be meant by it.
_SIMILAR = 0.65

FLAGS: dict[str, Flag] = {flag.name: flag for _, flags in _SECTIONS for flag in flags}

#: configmap-reload's flags, and the flag of ours that has their meaning.
ALIASES = {
    "volume-dir": "dir",
    "webhook-url": "url",
    "webhook-method": "method",
    "webhook-status-code": "status",
    "webhook-retries": "webhook-retries",
    "web.listen-address": "listen",
    "web.telemetry-path": "metrics-path",
    "h": "help",
}


def parse_arguments(words: Sequence[str], *, subcommand: str = "") -> Arguments:
    """Split a command line by flag; one dash or two, `--flag value` or `--flag=value`.

    `subcommand`: its name; it takes flags only, and no application.

    Raises:
        SettingsError: a flag is unknown, has no value, or is repeated and must not be; or no
            application follows --.
    """
    values: dict[str, list[str]] = {}
    spelling: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if subcommand and (word in ("-", "--") or not word.startswith("-")):
            raise SettingsError(f"{subcommand} takes no argument, got {quote_redacted(word)}")
        if word == "--":
            if not rest or not rest[0]:
                raise SettingsError("-- requires an application after it")
            return Arguments(values, spelling, tuple(rest))
        if not word.startswith("-") or word == "-":
            raise SettingsError(
                f"unexpected argument {quote_redacted(word)}: put the application and its "
                "arguments after --"
            )
        spelled, equals, value = word.partition("=")
        name = _flag_name(spelled)
        flag = FLAGS.get(name)
        if flag is not None and not flag.value:
            if equals and value not in ("true", "false"):
                raise SettingsError(f"{spelled} takes no value, got {quote_redacted(value)}")
            value = value or "true"
        elif not equals:
            if not rest or rest[0] == "--":
                raise SettingsError(f"{spelled} requires a value")
            value = rest.pop(0)
        if name in values and not (flag and flag.repeatable):
            raise SettingsError(f"{spelled} must not be repeated")
        values.setdefault(name, []).append(value)
        spelling[name] = spelled
    return Arguments(values, spelling, ())


def _flag_name(spelled: str) -> str:
    name = spelled[2:] if spelled.startswith("--") else spelled[1:]
    found = ALIASES.get(name, name)
    if found not in FLAGS and found != "webhook-retries":
        raise SettingsError(f"unknown flag {spelled}{_suggestion(name)}")
    return found


def _suggestion(name: str) -> str:
    from difflib import get_close_matches  # with `re`, which nothing else here needs

    similar = get_close_matches(name, FLAGS, n=2, cutoff=_SIMILAR)
    if similar:
        return f"; did you mean --{' or --'.join(similar)}?"
    return "; see hotmap agent --help"


def help_text() -> str:
    """Lay all flags out."""
    lines = [
        "Usage: hotmap agent [FLAGS] [-- PROGRAM ARGUMENTS]",
        "       hotmap agent status [--socket PATH] [--json]",
        "       hotmap agent copy FILE",
        "",
        "Make a process load its mounted ConfigMaps and Secrets when they change.",
    ]
    for title, flags in _SECTIONS:
        lines += ["", f"{title}:"]
        for flag in flags:
            repeatable = " Repeatable." if flag.repeatable else ""
            name = f"--{flag.name} {flag.value}".strip()
            lines += lay_out_flag(name, f"{flag.text}{repeatable}")
    lines += ["", "The flags of configmap-reload are accepted as well.", "", _EXAMPLES]
    return "\n".join(lines)


def lay_out_flag(name: str, text: str) -> list[str]:
    """Return the lines of help of one flag, as wide as the terminal, 100 columns at most."""
    import shutil  # with `re`, which costs memory that only this needs
    import textwrap

    start = f"  {name:<32} "
    return textwrap.wrap(
        text,
        max(min(shutil.get_terminal_size().columns, 100), 60),
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_on_hyphens=False,
        break_long_words=False,
    )
