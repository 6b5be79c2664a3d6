"""Reloader's flags and environment variables, as Reloader reads them."""

from __future__ import annotations

import logging
from typing import Any

import click
import pytest

from hotmap.cli.main import hotmap
from hotmap.cli.reloader_flags import ReloaderFlags
from hotmap.cli.reloader_settings import ReloaderSettings, read_reloader_flags
from hotmap.controller.settings import AlertSettings
from hotmap.core.errors import SettingsError
from hotmap.core.policy.policy import OnChange
from hotmap.core.reloader.annotations import DialectSettings, Names, Writing

ALERTS = {"ALERT_ON_RELOAD": "true", "ALERT_WEBHOOK_URL": "https://example.com/hook"}


def parsed(*arguments: str) -> dict[str, Any]:
    """Parse the flags of one call, without running it."""
    controller = hotmap.commands["controller"]
    with controller.make_context("controller", list(arguments)) as context:
        return context.params


def read(*arguments: str, **environment: str) -> ReloaderSettings:
    """Read the settings of one call."""
    said = {name: parsed(*arguments)[name] for name in ReloaderFlags._fields}
    return read_reloader_flags(ReloaderFlags(**said), environment)


# -- defaults ---------------------------------------------------------------------------------


def test_nothing_is_said() -> None:
    """hotmap's own behaviour, and nothing to mention."""
    assert read() == ReloaderSettings()


def test_reloaders_defaults() -> None:
    """Its strategy, its address, its treatment of Jobs; creations and Rollouts only if asked."""
    assert read("--reloader-compat") == ReloaderSettings(
        dialect=DialectSettings(
            writing=Writing.ENV_VARS,
            ignored_workloads=frozenset(("Rollout",)),
            reload_on_create=False,
        ),
        on_change=frozenset((OnChange.RUN_NOW, OnChange.RECREATE)),
        webhooks=ReloaderSettings().webhooks._replace(on_create=False, on_delete=False),
        listen=":9090",
        replicas=False,
    )


def test_a_webhook_hears_of_deletions_only_if_asked() -> None:
    """As for rollouts, a deletion counts where flags say so."""
    assert not read().webhooks.on_delete
    assert read("--reload-on-delete=true").webhooks.on_delete


# -- booleans ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (("--auto-reload-all",), True),
        (("--auto-reload-all=true",), True),
        (("--auto-reload-all=1",), True),
        (("--auto-reload-all=false",), False),
        (('--auto-reload-all="true"',), True),
        (("--auto-reload-all", "--reloader-compat"), True),
        ((), False),
    ],
)
def test_booleans(arguments: tuple[str, ...], value: bool) -> None:
    """The flag alone, or with one of Go's words after `=`."""
    assert read(*arguments).dialect.auto_reload_all is value


@pytest.mark.parametrize(
    "flag",
    [
        "auto-reload-all",
        "sync-after-restart",
        "enable-ha",
        "enable-pprof",
        "enable-csi-integration",
    ],
)
def test_what_is_no_boolean(flag: str) -> None:
    """One sentence that names the flag."""
    with pytest.raises(SettingsError, match=f"^--{flag}: 'yes' is no boolean"):
        read(f"--{flag}=yes")


@pytest.mark.parametrize("compat", [(), ("--reloader-compat",)], ids=["", "compat"])
@pytest.mark.parametrize(
    ("text", "on", "noted"),
    [
        ("true", True, False),
        ("false", False, False),
        ("", False, False),
        ('"true"', True, False),
        ("True", False, True),
        ("1", False, True),
    ],
)
def test_booleans_that_are_texts(text: str, on: bool, noted: bool, compat: tuple[str, ...]) -> None:
    """These are on only as exactly `true`; what looks like a yes and is none is said."""
    settings = read(
        f"--reload-on-create={text}",
        f"--reload-on-delete={text}",
        f"--is-Argo-Rollouts={text}",
        *compat,
    )
    assert settings.dialect.reload_on_create is on
    assert settings.dialect.reload_on_delete is on
    assert ("Rollout" in settings.dialect.ignored_workloads) is not on
    assert len(settings.notes) == (3 if noted else 0)


def test_the_spelling_of_its_readme_does_not_exist() -> None:
    """`--is-argo-rollouts` is no flag of Reloader's either."""
    with pytest.raises(click.NoSuchOption):
        parsed("--is-argo-rollouts=true")


# -- strategies -------------------------------------------------------------------------------


@pytest.mark.parametrize("compat", [(), ("--reloader-compat",)], ids=["", "compat"])
@pytest.mark.parametrize("writing", list(Writing))
def test_strategies(writing: Writing, compat: tuple[str, ...]) -> None:
    """What the flag says counts, with Reloader's defaults and with hotmap's."""
    assert read("--reload-strategy", writing.value, *compat).dialect.writing is writing


@pytest.mark.parametrize("compat", [(), ("--reloader-compat",)], ids=["", "compat"])
@pytest.mark.parametrize(
    ("arguments", "catch_up", "notes"),
    [
        (("--sync-after-restart", "--reload-on-create=true"), True, 0),
        (("--sync-after-restart", "--reload-on-create=false"), False, 1),
        (("--sync-after-restart=false",), False, 0),
    ],
)
def test_making_up_for_what_was_missed(
    arguments: tuple[str, ...], catch_up: bool, notes: int, compat: tuple[str, ...]
) -> None:
    """It takes both flags, as in Reloader."""
    settings = read(*arguments, *compat)
    assert (settings.catch_up, len(settings.notes)) == (catch_up, notes)


# -- scope ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "namespaces"),
    [
        (("--namespaces=a,b",), ("a", "b")),
        (('--namespaces="a,b"',), ("a", "b")),
        (("--namespaces", "a", "--namespaces", "b"), ("a", "b")),
        (("--namespaces=",), ()),
    ],
)
def test_namespaces(arguments: tuple[str, ...], namespaces: tuple[str, ...]) -> None:
    """A list with commas, also repeated, also in quotes."""
    assert read(*arguments).watch_namespaces == namespaces


def test_its_own_namespace_alone() -> None:
    """KUBERNETES_NAMESPACE counts as for Reloader, and means nothing to hotmap itself."""
    alone = {"KUBERNETES_NAMESPACE": "shop"}
    assert read("--reloader-compat", **alone).watch_namespaces == ("shop",)
    assert read("--reloader-compat", "--namespaces=a", **alone).watch_namespaces == ("a",)
    assert read(**alone).watch_namespaces == ()


def test_what_means_all_namespaces_only() -> None:
    """Beside a list of namespaces it has no effect, and that is said."""
    settings = read("--namespaces=a", "--namespaces-to-ignore=b", "--namespace-selector=x=y")
    assert (settings.ignored_namespaces, settings.namespace_selector) == ((), "")
    assert len(settings.notes) == 1
    assert read("--namespaces-to-ignore=b,c").ignored_namespaces == ("b", "c")


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("team=a", "team=a"),
        ("team==a", "team==a"),
        ("team!=a", "team!=a"),
        ("team", "team"),
        ("!team", "!team"),
        ("team:a", "team=a"),
        ("team:*", "team"),
        ("team=*", "team"),
        ("example.com/team=a,env=b", "example.com/team=a,env=b"),
        ("env in (a,b)", "env in (a,b)"),
        ("env notin (a, b), team", "env notin (a,b),team"),
        ('"team=a"', "team=a"),
        ("", ""),
    ],
)
@pytest.mark.parametrize("flag", ["namespace-selector", "resource-label-selector"])
def test_selectors(flag: str, text: str, selector: str) -> None:
    """Kubernetes' syntax, and the older `k:v` and `k:*`."""
    settings = read(f"--{flag}", text)
    found = settings.namespace_selector if "namespace" in flag else settings.source_selector
    assert found == selector


@pytest.mark.parametrize(
    ("text", "named"),
    [("a b", "a b"), ("team=a b", "team=a b"), ("in (a)", "in (a)"), ("x,y z", "y z")],
)
@pytest.mark.parametrize("flag", ["--namespace-selector", "--resource-label-selector"])
def test_what_is_no_selector(flag: str, text: str, named: str) -> None:
    """One sentence that names the flag and the requirement."""
    with pytest.raises(SettingsError) as raised:
        read(flag, text)
    assert str(raised.value) == f"{flag}: {named!r} is no label selector"


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("configmaps", {"ConfigMap"}),
        ("configMaps", {"ConfigMap"}),
        ("sEcrets", {"Secret"}),
        ("secrets,secrets", {"Secret"}),
        ('"secrets"', {"Secret"}),
        ("", set()),
    ],
)
def test_resources_to_ignore(text: str, kinds: set[str]) -> None:
    """One kind, however it is written."""
    assert read("--resources-to-ignore", text).dialect.ignored_sources == kinds


def test_ignored_workload_types() -> None:
    """Jobs, CronJobs or both."""
    ignored = read("--ignored-workload-types=jobs,cronjobs").dialect.ignored_workloads
    assert ignored == {"Job", "CronJob"}


# -- names ------------------------------------------------------------------------------------

RENAMED = {
    "configmap-annotation": "config_map",
    "secret-annotation": "secret",
    "auto-annotation": "auto",
    "configmap-auto-annotation": "config_map_auto",
    "secret-auto-annotation": "secret_auto",
    "ignore-annotation": "ignore",
    "auto-search-annotation": "search",
    "search-match-annotation": "match",
    "pause-deployment-annotation": "pause_period",
    "pause-deployment-time-annotation": "paused_at",
}


def test_every_name_has_its_flag() -> None:
    """All names that can be renamed are."""
    assert set(RENAMED.values()) == set(Names._fields)


@pytest.mark.parametrize(("flag", "field"), list(RENAMED.items()))
def test_renaming(flag: str, field: str) -> None:
    """A flag renames its own annotation and no other."""
    expected = Names()._replace(**{field: "acme.com/x"})
    assert read(f"--{flag}=acme.com/x").dialect.names == expected
    assert read(f'--{flag}="acme.com/x"').dialect.names == expected


# -- telling others ---------------------------------------------------------------------------


def test_a_webhook_instead_of_acting() -> None:
    """Everything else is only reported then."""
    settings = read("--webhook-url=https://example.com/hook")
    assert settings.webhooks.change_url == "https://example.com/hook"
    assert settings.muted == "--webhook-url is set"


def test_alerts() -> None:
    """They need the word `true` and a URL; further information is trimmed."""
    proxy = {"ALERT_WEBHOOK_PROXY": "http://proxy:3128"}
    settings = read(**ALERTS, **proxy, ALERT_ADDITIONAL_INFO=" one ")
    assert settings.webhooks.alert == AlertSettings(
        "https://example.com/hook", info="one", proxy="http://proxy:3128"
    )
    assert read(ALERT_ON_RELOAD="True").webhooks.alert is None


@pytest.mark.parametrize(
    ("sink", "sent", "notes"),
    [("raw", True, 0), (" RAW ", True, 0), ("", True, 0), ("slack", False, 1), ("x", True, 1)],
)
def test_sinks(sink: str, sent: bool, notes: int) -> None:
    """Text only, so far; others are accepted and said."""
    settings = read(**ALERTS, ALERT_SINK=sink)
    assert (settings.webhooks.alert is not None, len(settings.notes)) == (sent, notes)


# -- the rest ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (("--enable-pprof",), {}),
        (("--pprof-addr=:6060",), {}),
        (("--enable-csi-integration=true",), {}),
        ((), {"RELOADER_NAMESPACE": "reloader"}),
        ((), {"METRICS_COUNT_BY_NAMESPACE": "enabled"}),
    ],
)
def test_what_has_no_effect_is_said_once(
    arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    """It is accepted, changes nothing, and one sentence says so."""
    settings = read(*arguments, **environment)
    assert settings._replace(notes=()) == ReloaderSettings()
    assert len(settings.notes) == 1


def test_replicas() -> None:
    """High availability needs to know the pod."""
    pod = {"POD_NAME": "a", "POD_NAMESPACE": "b"}
    assert read("--enable-ha", **pod).replicas
    assert read("--enable-ha=false").replicas is False
    assert read().replicas is None


@pytest.mark.parametrize(("text", "level"), [("warning", logging.WARNING), ("panic", 50)])
def test_log_levels(text: str, level: int) -> None:
    """logrus' words."""
    assert read(f"--log-level={text}").log_level == level


def test_an_empty_log_format() -> None:
    """Reloader's default means text; a manifest's quotes are taken off."""
    assert parsed("--log-format", "")["log_format"] == ""
    assert parsed("--log-format", '"json"')["log_format"] == "json"


@pytest.mark.parametrize(
    ("arguments", "environment", "sentence"),
    [
        (
            ("--reload-strategy=x",),
            {},
            "--reload-strategy: 'x' is none of revision, env-vars, annotations",
        ),
        (
            ("--resources-to-ignore=configmaps,secrets",),
            {},
            "--resources-to-ignore: configmaps or secrets can be ignored, not both",
        ),
        (
            ("--resources-to-ignore=pods",),
            {},
            "--resources-to-ignore: 'pods' is none of configmaps, secrets",
        ),
        (
            ("--ignored-workload-types=pods",),
            {},
            "--ignored-workload-types: 'pods' is none of jobs, cronjobs",
        ),
        (
            ("--namespaces=A",),
            {},
            "--namespaces: 'A' is no name of a namespace (lower-case letters, digits and hyphens)",
        ),
        (
            ("--webhook-url=ftp://planted",),
            {},
            "--webhook-url: this is no http or https URL (it is not shown here)",
        ),
        (
            ("--webhook-url=http://[planted",),
            {},
            "--webhook-url: this is no http or https URL (it is not shown here)",
        ),
        (
            (),
            {"ALERT_ON_RELOAD": "true"},
            "ALERT_ON_RELOAD=true needs ALERT_WEBHOOK_URL, where alerts go",
        ),
        (
            (),
            {"ALERT_ON_RELOAD": "true", "ALERT_WEBHOOK_URL": "planted"},
            "ALERT_WEBHOOK_URL: this is no http or https URL (it is not shown here)",
        ),
        (
            ("--auto-annotation=a b",),
            {},
            "--auto-annotation: 'a b' is no name of an annotation",
        ),
        (
            ("--enable-ha",),
            {"POD_NAME": "a"},
            "--enable-ha needs the environment variable POD_NAMESPACE",
        ),
        (
            ("--log-level=loud",),
            {},
            "--log-level: 'loud' is none of trace, debug, info, warn, warning, error, fatal, panic",
        ),
    ],
)
def test_what_cannot_be_meant(
    arguments: tuple[str, ...], environment: dict[str, str], sentence: str
) -> None:
    """One sentence that names the flag or the variable."""
    with pytest.raises(SettingsError) as raised:
        read(*arguments, **environment)
    assert str(raised.value) == sentence
