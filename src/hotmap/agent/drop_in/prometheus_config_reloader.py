"""prometheus-config-reloader 0.93: renders a configuration file and reloads Prometheus."""

from __future__ import annotations

import os

from hotmap.agent.drop_in.go_flags import parse_kingpin_flags
from hotmap.agent.settings.flags import Arguments
from hotmap.agent.settings.loader import load_settings
from hotmap.agent.settings.settings import Action, Call, Probe, RenderSettings, Rule, Settings
from hotmap.agent.settings.values import parse_path, parse_url, parse_value
from hotmap.core.duration import parse_duration
from hotmap.core.errors import SettingsError
from hotmap.volume.atomic_writer import DATA_LINK

__all__ = ["FLAGS", "HELP", "load", "set_ordinal"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The flags of that program: default, and what they do here.
FLAGS = {
    "config-file": ("", "File to watch and to render."),
    "config-envsubst-file": ("", "Output: decompressed, with $(NAME) replaced by variables."),
    "watched-dir": ("", "Directory to watch. Repeatable."),
    "watch-interval": ("3m", "Maximum time between two polls; 0 renders once and exits."),
    "delay-interval": ("1s", "Time without changes before a reload."),
    "retry-interval": ("5s", "Time between two attempts."),
    "reload-timeout": ("30s", "Time limit of a reload."),
    "reload-method": ("http", "http or signal."),
    "reload-url": ("http://127.0.0.1:9090/-/reload", "URL to call for a reload."),
    "runtimeinfo-url": ("http://127.0.0.1:9090/api/v1/status/runtimeinfo", "URL that confirms it."),
    "process-executable-name": ("prometheus", "Name of the process that gets SIGHUP."),
    "statefulset-ordinal-from-envvar": ("POD_NAME", "Sets STATEFULSET_ORDINAL_NUMBER from it."),
    "listen-address": ("", "Address of metrics, health and status; none by default."),
    "web-config-file": ("", "TLS and headers of that address."),
    "log-format": ("logfmt", "logfmt or json."),
    "log-level": ("info", "all, debug, info, warn, error or none."),
    "auto-gomemlimit-ratio": ("0.0", "No effect."),
}

_SWITCHES = ("version", "short-version")

HELP = "\n".join(
    [
        "Usage: prometheus-config-reloader [FLAGS]",
        "",
        "hotmap agent with the command line of prometheus-config-reloader.",
        "",
        *(
            f"  --{name:<32} {text}{f' Default: {default}.' if default else ''}"
            for name, (default, text) in FLAGS.items()
        ),
    ]
)

#: Redirects that Go's HTTP client follows.
_REDIRECTS = 10

#: Seconds between two polls at most, and of a file that is in no volume.
_POLL, _POLL_FILE = 10.0, 1.0

_LOG_LEVELS = {"all": "info", "debug": "info", "info": "info", "warn": "warning",
               "error": "warning", "none": "none"}  # fmt: skip


def load(words: Sequence[str]) -> Settings | None:
    """Translate a command line; None when there is nothing to watch.

    Raises:
        SettingsError: a flag is unknown or invalid.
    """
    given = parse_kingpin_flags(words, FLAGS, switches=_SWITCHES, many=("watched-dir",))

    def text(name: str) -> str:
        return given.get(name, [FLAGS[name][0]])[-1]

    def seconds(name: str) -> float:
        return parse_value(text(name), parse_duration, f"--{name}")

    def require_choice(name: str, allowed: Sequence[str]) -> str:
        if text(name) not in allowed:
            raise SettingsError(f"--{name}: expected {', '.join(allowed)}, got {text(name)!r}")
        return text(name)

    method = require_choice("reload-method", ("http", "signal"))
    log_format = require_choice("log-format", ("logfmt", "json"))
    level = _LOG_LEVELS[require_choice("log-level", tuple(_LOG_LEVELS))]
    file = (
        parse_value(text("config-file"), parse_path, "--config-file") if text("config-file") else ""
    )
    output = text("config-envsubst-file")
    directories = [parse_path(directory) for directory in given.get("watched-dir", ())]
    interval, delay = seconds("watch-interval"), seconds("delay-interval")
    if interval == 0:
        directories = []
    if not (file or directories):
        return None
    web = None
    if text("web-config-file"):
        from hotmap.agent.settings.web_config_file import load_web_config

        web = load_web_config(parse_path(text("web-config-file")), "--web-config-file")
    watched = [*([_place(file)] if file else []), *directories]
    settings = load_settings(
        Arguments(
            {
                "dir": list(dict.fromkeys(watched)),
                "listen": [
                    text("listen-address") if interval and text("listen-address") else "none"
                ],
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
        rules=(
            Rule(
                "configuration",
                (
                    *([_pattern(file)] if file else []),
                    *(f"{directory}/*" for directory in directories),
                ),
                (),
                (_action(method, text("reload-url"), text("process-executable-name")),)
                if interval
                else (Action("none"),),
                _probes(text("runtimeinfo-url")) if method == "signal" and interval else (),
            ),
        ),
        actions=settings.actions._replace(
            timeout=max(seconds("reload-timeout"), 0.001),
            verify_timeout=max(seconds("reload-timeout"), 0.001),
            retry_first=max(seconds("retry-interval"), 0.01),
            retry_max=max(seconds("retry-interval"), 0.01),
        ),
        reports=settings.reports._replace(log_level=level, reload_method=method, web=web),
        render=RenderSettings(file, parse_path(output)) if file and output else None,
        once=interval == 0,
    )


def _place(file: str) -> str:
    """Choose what to watch for a file: its volume, or the file alone where there is none."""
    parent = os.path.dirname(file)
    return parent if os.path.lexists(os.path.join(parent, DATA_LINK)) else file


def _pattern(file: str) -> str:
    """Give the pattern of a file: what is watched, and its path there."""
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
