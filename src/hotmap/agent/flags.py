"""Every flag of `hotmap agent`: one table, from which both the reader and --help are made.

Words in, words out: what a value means is in `reading`. argparse would cost a third of the
start-up time, and knows no flags with one dash that configmap-reload's users have.
"""

from __future__ import annotations

from collections import namedtuple

from hotmap.agent.values import quoted
from hotmap.core.errors import SettingsError

__all__ = ["ALIASES", "FLAGS", "Words", "help_text", "read_words"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NamedTuple

    class Flag(NamedTuple):
        name: str
        value: str
        text: str
        many: bool = False

    class Words(NamedTuple):
        values: dict[str, list[str]]
        given: dict[str, str]
        application: tuple[str, ...]

else:
    Flag = namedtuple("Flag", "name value text many", defaults=[False])
    Words = namedtuple("Words", "values given application")
    Words.__doc__ = """What was typed: texts by flag; by flag, how it was spelled; the words after
    a bare `--`."""

_SECTIONS: tuple[tuple[str, tuple[Flag, ...]], ...] = (
    (
        "What to watch",
        (
            Flag("dir", "DIR", "A mounted ConfigMap or Secret; may be given again.", True),
            Flag("rules", "FILE", "Rules for several files and actions, in TOML."),
            Flag("for", "PROGRAM", "Check, action and verification for a known program."),
            Flag("settle", "TIME", "Changes within this time are one. Default: 100ms."),
            Flag("settle-max", "TIME", "… but wait no longer than this. Default: 2s."),
            Flag("check-interval", "TIME", "Look without being told. Default: 10s; 1s if polling."),
        ),
    ),
    (
        "What may be loaded",
        (
            Flag("check", "COMMAND", "Must succeed on a copy in {dir}; none for no check.", True),
            Flag("check-timeout", "TIME", "How long a check may take. Default: 30s."),
            Flag("max-size", "SIZE", "No file may be larger."),
            Flag("not-empty", "PATTERN", "This file must be there and not empty.", True),
            Flag("syntax", "PATTERN=json|toml", "These files must be well-formed.", True),
            Flag("stage", "DIR", "Publish what passed here, for the application to read."),
            Flag("stage-mode", "MODE", "Permission bits of published files. Default: 0644."),
            Flag("work-dir", "DIR", "Where copies for a check go. Default: memory, then /tmp."),
        ),
    ),
    (
        "What to do, in this order",
        (
            Flag("signal", "SIGNAL", "Send a signal to --process."),
            Flag("process", "TARGET", "pidfile:FILE, name:NAME or command:TEXT."),
            Flag("url", "URL", "Call http://…, https://… or unix:SOCKET:/PATH.", True),
            Flag("method", "METHOD", "HTTP method. Default: POST."),
            Flag("header", "NAME: VALUE", "HTTP header.", True),
            Flag("body", "TEXT", "HTTP body."),
            Flag("status", "LIST", "Accepted answers, as 200,204 or 2xx. Default: 200."),
            Flag("ca", "FILE", "Certificates to trust instead of the system's."),
            Flag("client-cert", "FILE", "Client certificate."),
            Flag("client-key", "FILE", "Its private key."),
            Flag("credentials", "FILE", "user:password, read at each call."),
            Flag("token", "FILE", "Bearer token, read at each call."),
            Flag("exec", "COMMAND", "Run a command; $HOTMAP_CHANGED names files.", True),
            Flag("touch", "FILE", "Set a file's time to now.", True),
            Flag("restart", "WAY", "supervised, all-containers or term."),
            Flag("action-timeout", "TIME", "How long one action may take. Default: 10s."),
            Flag("retry-first", "TIME", "Pause after the first failure. Default: 250ms."),
            Flag("retry-max", "TIME", "Longest pause. Default: 15s."),
            Flag("grace", "TIME", "Between TERM and KILL. Default: 25s."),
        ),
    ),
    (
        "What confirms it",
        (
            Flag("verify", "PROBE", "See `hotmap agent --help-verify`; may be given again.", True),
            Flag("verify-timeout", "TIME", "How long to wait for it. Default: 10s."),
        ),
    ),
    (
        "Announcements",
        (
            Flag("target-file", "FILE", "The pod's annotations, from a downwardAPI volume."),
            Flag("restart-on", "frozen", "Restart when new frozen content is announced."),
            Flag("drain-url", "URL", "Call this before such a restart."),
        ),
    ),
    (
        "An application of its own: hotmap agent … -- PROGRAM ARGUMENTS",
        (
            Flag("env-from", "[PREFIX=]DIR", "Its environment, as envFrom would be.", True),
            Flag("env", "NAME[=VALUE]", "One variable, as env would be.", True),
            Flag("forward-hup", "", "Pass SIGHUP on; otherwise it means: look now."),
        ),
    ),
    (
        "Reports",
        (
            Flag("listen", "ADDRESS", "Metrics, health and status. Default: :9533; or none."),
            Flag("metrics-path", "PATH", "Default: /metrics."),
            Flag("socket", "PATH", "The same on a unix socket, for `hotmap agent status`."),
            Flag("state", "FILE", "Remember what was loaded across restarts of the agent."),
            Flag("log-format", "text|json", "Default: text."),
        ),
    ),
    (
        "Modes",
        (
            Flag("once", "", "Check, publish and end: for an init container."),
            Flag("check-config", "", "Say whether the flags and rules are right, and end."),
            Flag("version", "", "Print the version."),
            Flag("help", "", "Print this."),
            Flag("help-verify", "", "Print how probes are written."),
        ),
    ),
)

FLAGS: dict[str, Flag] = {flag.name: flag for _, flags in _SECTIONS for flag in flags}

#: configmap-reload's flags, as they are, by the one of ours that they mean.
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


def read_words(arguments: Sequence[str]) -> Words:
    """Sort what was typed by flag; one dash or two, `--flag value` or `--flag=value`.

    Raises:
        SettingsError: a flag is unknown, lacks its value, or is given twice where once is all.
    """
    values: dict[str, list[str]] = {}
    given: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return Words(values, given, tuple(rest))
        if not word.startswith("-") or word == "-":
            raise SettingsError(
                f"{quoted(word)} is no flag; the application and its arguments come after --"
            )
        spelled, equals, value = word.partition("=")
        name = _known(spelled)
        flag = FLAGS.get(name)
        if flag is not None and not flag.value:
            if equals and value not in ("true", "false"):
                raise SettingsError(f"{spelled} takes no value, but {quoted(value)} was given")
            value = value or "true"
        elif not equals:
            if not rest:
                raise SettingsError(f"{spelled} lacks its value")
            value = rest.pop(0)
        if name in values and not (flag and flag.many):
            raise SettingsError(f"{spelled} is given twice")
        values.setdefault(name, []).append(value)
        given[name] = spelled
    return Words(values, given, ())


def _known(spelled: str) -> str:
    name = spelled[2:] if spelled.startswith("--") else spelled[1:]
    found = ALIASES.get(name, name)
    if found not in FLAGS and found != "webhook-retries":
        raise SettingsError(f"there is no flag {spelled}{_nearest(name)}")
    return found


def _nearest(name: str) -> str:
    starts = [known for known in FLAGS if known[:3] == name[:3]]
    return f"; did you mean --{' or --'.join(starts)}?" if starts else ""


def help_text() -> str:
    """Lay all flags out for a terminal."""
    lines = [
        "Usage: hotmap agent [FLAGS] [-- PROGRAM ARGUMENTS]",
        "       hotmap agent status [--socket PATH] [--json]",
        "",
        "Make a process load its mounted ConfigMaps and Secrets when they change.",
    ]
    for title, flags in _SECTIONS:
        lines += ["", f"{title}:"]
        lines += [f"  {_heading(flag):<32} {flag.text}" for flag in flags]
    return "\n".join([*lines, "", "configmap-reload's flags are understood, too.", ""])


def _heading(flag: Flag) -> str:
    return f"--{flag.name} {flag.value}".strip()
