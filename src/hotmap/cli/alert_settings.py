"""The settings of alerts, from flags and from Reloader's environment variables for the same.

A flag takes precedence over its variable. The URL of a receiver is a credential, so it is never
shown; `--alert-webhook-url-file` keeps it out of the arguments, which anyone who may read the pod
sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from hotmap.cli.alert_flags import AlertFlags
from hotmap.cli.options import invalid_value
from hotmap.controller.settings import AlertSettings, AlertSink
from hotmap.core.errors import SettingsError, os_reason
from hotmap.core.reloader.go_values import unquote
from hotmap.core.text import quote_short

__all__ = ["read_alert_settings", "read_url"]

#: Characters; a URL is shorter, and a wrong file must not be read whole.
_LONGEST_URL = 4096


class _Alerts(NamedTuple):
    settings: AlertSettings | None
    #: To be logged once.
    warnings: tuple[str, ...] = ()


def read_alert_settings(
    flags: AlertFlags, environment: Mapping[str, str], *, lenient: bool
) -> _Alerts:
    """Read the settings of alerts, and warnings to log once.

    `lenient`: without a URL, or with an invalid one in a variable, there are no alerts, as for
    Reloader, instead of an error.

    Raises:
        SettingsError: a value is invalid, or there is no URL.
    """
    url = _read_flagged_url(flags)
    enabled = environment.get("ALERT_ON_RELOAD", "")
    if not url and enabled != "true":
        if any(flags):
            raise SettingsError("alerts require --alert-webhook-url or --alert-webhook-url-file")
        if enabled in ("", "false"):
            return _Alerts(None)
        shown = quote_short(enabled)
        return _Alerts(None, (f"ALERT_ON_RELOAD is {shown}, not true; no alerts are sent",))
    try:
        url = url or read_url("ALERT_WEBHOOK_URL", environment.get("ALERT_WEBHOOK_URL"))
        proxy = read_url("--alert-webhook-proxy", flags.alert_webhook_proxy) or read_url(
            "ALERT_WEBHOOK_PROXY", environment.get("ALERT_WEBHOOK_PROXY")
        )
    except SettingsError as error:
        if any(flags) or not lenient:
            raise
        return _Alerts(None, (f"{error}; no alerts are sent",))
    if not url and lenient:
        return _Alerts(None, ("ALERT_WEBHOOK_URL is not set; no alerts are sent",))
    if not url:
        raise SettingsError("ALERT_ON_RELOAD=true requires ALERT_WEBHOOK_URL")
    sink, warnings = _read_sink(flags.alert_sink, environment.get("ALERT_SINK", ""))
    info = flags.alert_additional_info
    return _Alerts(
        AlertSettings(
            url,
            sink=sink,
            info=(environment.get("ALERT_ADDITIONAL_INFO", "") if info is None else info).strip(),
            proxy=proxy,
        ),
        warnings,
    )


def _read_sink(flag: str | None, variable: str) -> tuple[AlertSink, tuple[str, ...]]:
    """Read the format; Reloader sends plain text where its variable is unknown."""
    known = {sink.value: sink for sink in AlertSink}
    *others, last = known
    expected = f"{', '.join(others)} or {last}"
    if flag is not None:
        word = unquote(flag).strip().lower()
        if word not in known:
            raise invalid_value("--alert-sink", "value", flag, expected)
        return known[word], ()
    word = unquote(variable).strip().lower() or AlertSink.RAW.value
    if word == "webhook":  # the name that Reloader's documentation has for it
        return AlertSink.RAW, ()
    if word in known:
        return known[word], ()
    shown = quote_short(variable)
    warning = f"ALERT_SINK: unknown value {shown}: expected {expected}; sending plain text"
    return AlertSink.RAW, (warning,)


def _read_flagged_url(flags: AlertFlags) -> str:
    if flags.alert_webhook_url_file is None:
        return read_url("--alert-webhook-url", flags.alert_webhook_url)
    if flags.alert_webhook_url is not None:
        raise SettingsError(
            "--alert-webhook-url and --alert-webhook-url-file cannot be used together"
        )
    name = unquote(flags.alert_webhook_url_file)
    if not name:
        raise SettingsError(
            '--alert-webhook-url-file: invalid file "": expected the name of a file'
        )
    path = Path(name)
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_LONGEST_URL)
    except OSError as error:
        raise SettingsError(
            f"--alert-webhook-url-file: cannot read {path}: {os_reason(error)}"
        ) from error
    except ValueError:
        text = ""  # not UTF-8, which is not a URL either
    url = read_url("--alert-webhook-url-file", text)
    if not url:
        raise SettingsError(f"--alert-webhook-url-file: no URL in {path}")
    return url


def read_url(name: str, text: str | None) -> str:
    """Check a URL without ever showing it: its path is often a password.

    Returns "" if there is none.

    Raises:
        SettingsError: it is not an http or https URL; the text names the flag or variable `name`.
    """
    url = unquote((text or "").strip()).strip()
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if url and not (good and url.isprintable()):
        raise SettingsError(f"{name}: invalid URL (not shown): expected an http or https URL")
    return url
