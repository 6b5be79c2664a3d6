"""prometheus-config-reloader 0.93: renders a configuration file and reloads Prometheus."""

from __future__ import annotations

import os

from hotmap.agent.drop_in.go_flags import parse_kingpin_flags
from hotmap.agent.settings.flags import Arguments, lay_out_flag
from hotmap.agent.settings.loader import load_settings
from hotmap.agent.settings.settings import Action, Call, Probe, RenderSettings, Rule, Settings
from hotmap.agent.settings.values import parse_path, parse_positive_duration, parse_url, parse_value
from hotmap.core.duration import parse_duration
from hotmap.core.errors import SettingsError
from hotmap.volume.data_link import DATA_LINK

__all__ = ["FLAGS", "help_text", "load", "set_ordinal"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotmap.agent.settings.settings import WebSettings

#: The flags of that program: default, and what they do here.
FLAGS = {
    "config-file": ("", "File to watch and to render."),
    "config-envsubst-file": ("", "Output: --config-file, decompressed, with $(NAME) replaced."),
    "watched-dir": ("", "Directory to watch. Repeatable."),
    "watch-interval": ("3m", "Maximum time between two polls; 0 renders once and exits."),
    "delay-interval": ("1s", "Time without changes before a reload."),
    "retry-interval": ("5s", "Time between two attempts."),
    "reload-timeout": ("30s", "Time limit of a reload."),
    "reload-method": ("http", "How to reload: http or signal."),
    "reload-url": ("http://127.0.0.1:9090/-/reload", "URL to call for a reload."),
    "runtimeinfo-url": (
        "http://127.0.0.1:9090/api/v1/status/runtimeinfo",
        "URL that shows whether a reload succeeded.",
    ),
    "process-executable-name": ("prometheus", "Name of the process that gets SIGHUP."),
    "statefulset-ordinal-from-envvar": (
        "POD_NAME",
        "Variable with the pod's name, which gives STATEFULSET_ORDINAL_NUMBER.",
    ),
    "listen-address": ("", "Address of metrics, health and status; none by default."),
    "web-config-file": ("", "TLS, users and headers of --listen-address."),
    "log-format": ("logfmt", "Log format: logfmt or json."),
    "log-level": ("info", "Log level: all, debug, info, warn, error or none."),
    "auto-gomemlimit-ratio": ("0.0", "No effect."),
}

_SWITCHES = ("version", "short-version")

#: Redirects that Go's HTTP client follows.
_REDIRECTS = 10

#: Seconds between two polls at most, and of a file that is in no volume.
_POLL, _POLL_FILE = 10.0, 1.0

_LOG_LEVELS = {"all": "info", "debug": "info", "info": "info", "warn": "warning",
               "error": "warning", "none": "none"}  # fmt: skip


def help_text() -> str:
    """Describe the flags."""
    lines = [
        "Usage: prometheus-config-reloader [FLAGS]",
        "",
        "hotmap agent with the command line of prometheus-config-reloader.",
        "",
    ]
    for name, (default, text) in FLAGS.items():
        lines += lay_out_flag(f"--{name}", f"{text}{f' Default: {default}.' if default else ''}")
    return "\n".join(lines)


class _Flags:
    """The flags of one call, with their defaults."""

    def __init__(self, words: Sequence[str]) -> None:
        self._given = parse_kingpin_flags(words, FLAGS, switches=_SWITCHES, many=("watched-dir",))

    def all(self, name: str) -> Sequence[str]:
        return self._given.get(name, ())

    def text(self, name: str) -> str:
        return self._given.get(name, [FLAGS[name][0]])[-1]

    def path(self, name: str) -> str:
        text = self.text(name)
        return parse_value(text, parse_path, f"--{name}") if text else ""

    def seconds(self, name: str) -> float:
        return parse_value(self.text(name), parse_duration, f"--{name}")

    def choice(self, name: str, allowed: Sequence[str]) -> str:
        text = self.text(name)
        if text not in allowed:
            raise SettingsError(f"--{name}: expected {', '.join(allowed)}, got {text!r}")
        return text


def load(words: Sequence[str]) -> Settings | None:
    """Translate a command line; None when there is nothing to watch.

    Raises:
        SettingsError: a flag is unknown or invalid.
    """
    given = _Flags(words)
    method = given.choice("reload-method", ("http", "signal"))
    log_format = given.choice("log-format", ("logfmt", "json"))
    level = _LOG_LEVELS[given.choice("log-level", tuple(_LOG_LEVELS))]
    file = given.path("config-file")
    output = given.text("config-envsubst-file")
    directories = [
        parse_value(directory, parse_path, "--watched-dir")
        for directory in given.all("watched-dir")
    ]
    timeout = parse_value(given.text("reload-timeout"), parse_positive_duration, "--reload-timeout")
    interval, delay = given.seconds("watch-interval"), given.seconds("delay-interval")
    listen = given.text("listen-address") if interval else ""
    if interval == 0:
        directories = []
    if not (file or directories):
        return None
    watched = [*([_place(file)] if file else []), *directories]
    settings = load_settings(
        Arguments(
            {
                "dir": list(dict.fromkeys(watched)),
                "listen": [listen or "none"],
                "log-format": ["json" if log_format == "json" else "text"],
            },
            {"listen": "--listen-address"},
            (),
        )
    )
    poll = _POLL_FILE if file and _place(file) == file else _POLL
    return settings._replace(
        watch=settings.watch._replace(
            settle=delay,
            settle_max=max(2.0, 4 * delay),
            poll_interval=min(poll, interval or poll),
        ),
        rules=(_rule(given, method, file, directories),),
        actions=settings.actions._replace(
            timeout=timeout,
            verify_timeout=timeout,
            retry_first=max(given.seconds("retry-interval"), 0.01),
            retry_max=max(given.seconds("retry-interval"), 0.01),
        ),
        reports=settings.reports._replace(
            log_level=level, reload_method=method, web=_web(given.text("web-config-file"))
        ),
        render=RenderSettings(file, parse_path(output)) if file and output else None,
        once=interval == 0,
    )


def _web(file: str) -> WebSettings | None:
    if not file:
        return None
    from hotmap.agent.settings.web_config_file import load_web_config

    return load_web_config(parse_path(file), "--web-config-file")


def _rule(given: _Flags, method: str, file: str, directories: Sequence[str]) -> Rule:
    """Make the rule that reloads after a change; with an interval of 0 it does nothing."""
    patterns = (
        *([_pattern(file)] if file else []),
        *(f"{directory}/*" for directory in directories),
    )
    if given.seconds("watch-interval") == 0:
        return Rule("configuration", patterns, (), (Action("none"),), ())
    action = _action(method, given.text("reload-url"), given.text("process-executable-name"))
    probes = _probes(given.text("runtimeinfo-url")) if method == "signal" else ()
    return Rule("configuration", patterns, (), (action,), probes)


def _place(file: str) -> str:
    """Choose what to watch for a file: its volume, or the file alone where there is none."""
    parent = os.path.dirname(file)
    return parent if os.path.lexists(os.path.join(parent, DATA_LINK)) else file


def _pattern(file: str) -> str:
    """Return the pattern of a file: what is watched, and its path there."""
    return f"{_place(file)}/{os.path.basename(file)}"


def _action(method: str, url: str, process: str) -> Action:
    if method == "signal":
        import signal

        return Action("signal", signal=signal.SIGHUP, target=f"name:{process}")
    call = Call(
        parse_value(url, parse_url, "--reload-url", is_secret=True),
        redirects=_REDIRECTS,
        # A certificate of Prometheus names its Service, not 127.0.0.1.
        verify=False,
    )
    return Action("http", call=call)


def _probes(url: str) -> tuple[Probe, ...]:
    place = parse_value(url, parse_url, "--runtimeinfo-url", is_secret=True)
    call = Call(place, method="GET", verify=False)
    return (
        Probe("field", call=call, name="data.reloadConfigSuccess", value="true"),
        Probe("field", call=call, name="data.lastConfigTime"),
    )


def set_ordinal(words: Sequence[str]) -> None:
    """Set STATEFULSET_ORDINAL_NUMBER to the number at the end of the pod's name."""
    given = parse_kingpin_flags(words, FLAGS, switches=_SWITCHES, many=("watched-dir",))
    default = FLAGS["statefulset-ordinal-from-envvar"][0]
    name = os.environ.get(given.get("statefulset-ordinal-from-envvar", [default])[-1], "")
    rest = name.rstrip("0123456789")
    os.environ["STATEFULSET_ORDINAL_NUMBER"] = name[len(rest) :]
