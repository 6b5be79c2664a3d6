"""Alerts are set by flags, and by Reloader's environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from hotmap.cli.alert_flags import AlertFlags
from hotmap.cli.alert_settings import read_alert_settings
from hotmap.cli.main import hotmap
from hotmap.controller.settings import AlertSettings, AlertSink
from hotmap.core.errors import SettingsError

URL = "https://example.com/hook"
ON = {"ALERT_ON_RELOAD": "true", "ALERT_WEBHOOK_URL": URL}


def read(
    *arguments: str, environment: Mapping[str, str] | None = None, lenient: bool = False
) -> tuple[AlertSettings | None, tuple[str, ...]]:
    """Read the settings of one call."""
    controller = hotmap.commands["controller"]
    with controller.make_context("controller", list(arguments)) as context:
        flags = AlertFlags(**{name: context.params[name] for name in AlertFlags._fields})
    return read_alert_settings(flags, environment or {}, lenient=lenient)


def test_no_setting_means_no_alerts() -> None:
    """Also with a receiver that is switched off."""
    assert read() == (None, ())
    assert read(environment={"ALERT_WEBHOOK_URL": URL, "ALERT_SINK": "slack"}) == (None, ())
    assert read(environment={**ON, "ALERT_ON_RELOAD": "false"}) == (None, ())


def test_reloaders_variables_are_read() -> None:
    """Trimmed, and without quotes that a manifest left."""
    settings, warnings = read(
        environment={
            "ALERT_ON_RELOAD": "true",
            "ALERT_WEBHOOK_URL": f' "{URL}"\n',
            "ALERT_SINK": " Slack ",
            "ALERT_ADDITIONAL_INFO": " one ",
            "ALERT_WEBHOOK_PROXY": "http://proxy:3128",
        }
    )
    assert settings == AlertSettings(
        URL, sink=AlertSink.SLACK, info="one", proxy="http://proxy:3128"
    )
    assert warnings == ()


@pytest.mark.parametrize("sink", [*AlertSink])
def test_flags_and_variables_name_the_same_sinks(sink: AlertSink) -> None:
    """In any case."""
    for settings, warnings in (
        read(environment={**ON, "ALERT_SINK": sink.value.upper()}),
        read(f"--alert-webhook-url={URL}", f"--alert-sink={sink.value.title()}"),
    ):
        assert settings == AlertSettings(URL, sink=sink)
        assert warnings == ()


def test_flag_takes_precedence_over_variable() -> None:
    """Each on its own; a URL by flag needs no ALERT_ON_RELOAD."""
    settings, _ = read(
        "--alert-webhook-url=https://other/x",
        "--alert-sink=teams",
        "--alert-additional-info=two",
        "--alert-webhook-proxy=http://p:1",
        environment={
            **ON,
            "ALERT_SINK": "slack",
            "ALERT_ADDITIONAL_INFO": "one",
            "ALERT_WEBHOOK_PROXY": "http://proxy:3128",
        },
    )
    assert settings == AlertSettings(
        "https://other/x", sink=AlertSink.TEAMS, info="two", proxy="http://p:1"
    )
    settings, _ = read("--alert-sink=teams", environment=ON)
    assert settings == AlertSettings(URL, sink=AlertSink.TEAMS)


def test_url_is_read_from_file(tmp_path: Path) -> None:
    """A mounted Secret; its line feed does not count."""
    file = tmp_path / "url"
    file.write_text(f"{URL}\n")
    assert read(f"--alert-webhook-url-file={file}")[0] == AlertSettings(URL)


def test_webhook_of_reloaders_documentation_is_plain_text() -> None:
    """Its README calls the default so."""
    assert read(environment={**ON, "ALERT_SINK": "webhook"}) == (AlertSettings(URL), ())


def test_unknown_sink_of_reloader_is_plain_text() -> None:
    """One sentence says what is known."""
    settings, warnings = read(environment={**ON, "ALERT_SINK": "discord\n"})
    assert settings == AlertSettings(URL)
    assert warnings == (
        'ALERT_SINK: unknown value "discord\\n": expected slack, teams, gchat or raw; '
        "sending plain text",
    )


def test_other_spelling_of_true_is_off() -> None:
    """As for Reloader, with a warning."""
    assert read(environment={**ON, "ALERT_ON_RELOAD": "True"}) == (
        None,
        ('ALERT_ON_RELOAD is "True", not true; no alerts are sent',),
    )


@pytest.mark.parametrize("name", ["ALERT_WEBHOOK_URL", "ALERT_WEBHOOK_PROXY"])
def test_invalid_variable_is_a_warning_with_compat(name: str) -> None:
    """Reloader starts, and fails to send alerts; a flag of hotmap's is an error all the same."""
    environment = {**ON, name: "planted"}
    problem = f"{name}: invalid URL (not shown): expected an http or https URL"
    assert read(environment=environment, lenient=True) == (
        None,
        (f"{problem}; no alerts are sent",),
    )
    with pytest.raises(SettingsError):
        read(environment=environment)
    with pytest.raises(SettingsError):
        read("--alert-webhook-url=planted", environment=environment, lenient=True)


def test_missing_url_is_a_warning_with_compat() -> None:
    """Reloader starts without it."""
    assert read(environment={"ALERT_ON_RELOAD": "true"}, lenient=True) == (
        None,
        ("ALERT_WEBHOOK_URL is not set; no alerts are sent",),
    )


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        ((), {"ALERT_ON_RELOAD": "true"}, "ALERT_ON_RELOAD=true requires ALERT_WEBHOOK_URL"),
        (
            ("--alert-sink=slack",),
            {},
            "alerts require --alert-webhook-url or --alert-webhook-url-file",
        ),
        (
            (f"--alert-webhook-url={URL}", "--alert-sink=discord"),
            {},
            '--alert-sink: invalid value "discord": expected slack, teams, gchat or raw',
        ),
        (
            ("--alert-webhook-url=ftp://planted",),
            {},
            "--alert-webhook-url: invalid URL (not shown): expected an http or https URL",
        ),
        (
            (),
            {**ON, "ALERT_WEBHOOK_URL": "https://planted/a\nb"},
            "ALERT_WEBHOOK_URL: invalid URL (not shown): expected an http or https URL",
        ),
        (
            (),
            {**ON, "ALERT_WEBHOOK_URL": "planted"},
            "ALERT_WEBHOOK_URL: invalid URL (not shown): expected an http or https URL",
        ),
        (
            (),
            {**ON, "ALERT_WEBHOOK_PROXY": "socks5://planted:1"},
            "ALERT_WEBHOOK_PROXY: invalid URL (not shown): expected an http or https URL",
        ),
        (
            (f"--alert-webhook-url={URL}", "--alert-webhook-url-file=/x"),
            {},
            "--alert-webhook-url and --alert-webhook-url-file cannot be used together",
        ),
        (
            ("--alert-webhook-url-file=/does/not/exist",),
            {},
            "--alert-webhook-url-file: cannot read /does/not/exist: no such file or directory",
        ),
        (
            ("--alert-webhook-url-file=",),
            {},
            '--alert-webhook-url-file: invalid file "": expected the name of a file',
        ),
        (
            ("--alert-webhook-url-file=/dev/null",),
            {},
            "--alert-webhook-url-file: no URL in /dev/null",
        ),
    ],
)
def test_invalid_alert_setting_is_an_error(
    arguments: tuple[str, ...], environment: dict[str, str], message: str
) -> None:
    """One message names the flag or variable, and never shows the URL."""
    with pytest.raises(SettingsError) as raised:
        read(*arguments, environment=environment)
    assert str(raised.value) == message
