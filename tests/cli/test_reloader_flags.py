"""Reloader's flags and environment variables are read as Reloader reads them."""

from __future__ import annotations

import logging
from operator import attrgetter
from typing import Any

import click
import pytest

from hotmap.cli.main import hotmap
from hotmap.cli.options import declared, flag_name
from hotmap.cli.reloader_flags import ReloaderFlags
from hotmap.cli.reloader_settings import ReloaderSettings, read_reloader_flags
from hotmap.controller.settings import ReloaderSurface
from hotmap.core.errors import SettingsError
from hotmap.core.policy.policy import OnChange
from hotmap.core.reloader.annotations import DialectSettings, Names, Writing
from hotmap.kube.leaderelection import DEFAULT_TIMING, LeaseTiming


def parsed(*arguments: str) -> dict[str, Any]:
    """Parse the flags of one call, without running it."""
    controller = hotmap.commands["controller"]
    with controller.make_context("controller", list(arguments)) as context:
        return context.params


def read(*arguments: str, **environment: str) -> ReloaderSettings:
    """Read the settings of one call."""
    params = parsed(*arguments)
    values = {name: params[name] for name in ReloaderFlags._fields}
    return read_reloader_flags(ReloaderFlags(**values), environment)


# -- defaults ---------------------------------------------------------------------------------


def test_no_flags_give_the_defaults() -> None:
    """hotmap's own behaviour, without warnings."""
    assert read() == ReloaderSettings()


def test_compat_gives_reloaders_defaults() -> None:
    """Its strategy, address, pauses and Jobs; creations and Rollouts only on request."""
    assert read("--reloader-compat") == ReloaderSettings(
        dialect=DialectSettings(
            writing=Writing.ENV_VARS,
            ignored_workloads=frozenset(("Rollout",)),
            pauses=True,
            reload_on_create=False,
        ),
        on_change=frozenset((OnChange.RUN_NOW, OnChange.RECREATE)),
        webhooks=ReloaderSettings().webhooks._replace(on_create=False, on_delete=False),
        listen=":9090",
        leader_elect=False,
        surface=ReloaderSurface(),
    )


@pytest.mark.parametrize(
    ("text", "counts", "warnings"),
    [("enabled", True, 0), ("disabled", False, 0), ("", False, 0), ("true", False, 1)],
)
def test_metrics_are_counted_by_namespace_on_request(
    text: str, counts: bool, warnings: int
) -> None:
    """Only `enabled` counts, as for Reloader; another word is a warning."""
    settings = read("--reloader-compat", METRICS_COUNT_BY_NAMESPACE=text)
    assert settings.surface is not None
    assert settings.surface.counts_by_namespace is counts
    assert len(settings.warnings) == warnings


def test_webhook_reports_deletions_only_on_request() -> None:
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
def test_boolean_is_parsed(arguments: tuple[str, ...], value: bool) -> None:
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
def test_invalid_boolean_is_an_error(flag: str) -> None:
    """One message that names the flag."""
    with pytest.raises(SettingsError, match=f'^--{flag}: invalid boolean "yes"'):
        read(f"--{flag}=yes")


@pytest.mark.parametrize("compat", [(), ("--reloader-compat",)], ids=["", "compat"])
@pytest.mark.parametrize(
    ("text", "on", "warned"),
    [
        ("true", True, False),
        ("false", False, False),
        ("", False, False),
        ('"true"', True, False),
        ("True", False, True),
        ("1", False, True),
    ],
)
def test_text_boolean_is_on_only_as_true(
    text: str, on: bool, warned: bool, compat: tuple[str, ...]
) -> None:
    """Other spellings of true are off, with a warning."""
    settings = read(
        f"--reload-on-create={text}",
        f"--reload-on-delete={text}",
        f"--is-Argo-Rollouts={text}",
        *compat,
    )
    assert settings.dialect.reload_on_create is on
    assert settings.dialect.reload_on_delete is on
    assert ("Rollout" in settings.dialect.ignored_workloads) is not on
    assert len(settings.warnings) == (3 if warned else 0)


def test_readme_spelling_of_argo_flag_is_rejected() -> None:
    """`--is-argo-rollouts` is not a flag of Reloader's either."""
    with pytest.raises(click.NoSuchOption):
        parsed("--is-argo-rollouts=true")


# -- strategies -------------------------------------------------------------------------------


@pytest.mark.parametrize("compat", [(), ("--reloader-compat",)], ids=["", "compat"])
@pytest.mark.parametrize("writing", list(Writing))
def test_reload_strategy_is_parsed(writing: Writing, compat: tuple[str, ...]) -> None:
    """The flag overrides Reloader's default and hotmap's."""
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
def test_sync_after_restart_requires_reload_on_create(
    arguments: tuple[str, ...], catch_up: bool, notes: int, compat: tuple[str, ...]
) -> None:
    """As in Reloader."""
    settings = read(*arguments, *compat)
    assert (settings.catch_up, len(settings.warnings)) == (catch_up, notes)


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
def test_namespaces_are_parsed(arguments: tuple[str, ...], namespaces: tuple[str, ...]) -> None:
    """A list with commas, repeated or in quotes."""
    assert read(*arguments).watch_namespaces == namespaces


def test_compat_reads_kubernetes_namespace() -> None:
    """KUBERNETES_NAMESPACE is ignored otherwise."""
    alone = {"KUBERNETES_NAMESPACE": "shop"}
    assert read("--reloader-compat", **alone).watch_namespaces == ("shop",)
    assert read("--reloader-compat", "--namespaces=a", **alone).watch_namespaces == ("a",)
    assert read(**alone).watch_namespaces == ()


def test_namespace_list_disables_namespace_filters() -> None:
    """A warning says so."""
    settings = read("--namespaces=a", "--namespaces-to-ignore=b", "--namespace-selector=x=y")
    assert (settings.ignored_namespaces, settings.namespace_selector) == ((), "")
    assert len(settings.warnings) == 1
    assert read("--namespaces-to-ignore=b,c").ignored_namespaces == ("b", "c")


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("team=a", "team=a"),
        ("team==a", "team==a"),
        ("team!=a", "team!=a"),
        ("tier>1", "tier>1"),
        ("tier < 10", "tier < 10"),
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
def test_selector_is_parsed(flag: str, text: str, selector: str) -> None:
    """Kubernetes' syntax, and the older `k:v` and `k:*`."""
    settings = read(f"--{flag}", text)
    found = settings.namespace_selector if "namespace" in flag else settings.source_selector
    assert found == selector


@pytest.mark.parametrize(
    ("text", "named"),
    [("a b", "a b"), ("team=a b", "team=a b"), ("in (a)", "in (a)"), ("x,y z", "y z")],
)
@pytest.mark.parametrize("flag", ["--namespace-selector", "--resource-label-selector"])
def test_invalid_selector_is_an_error(flag: str, text: str, named: str) -> None:
    """One message that names the flag and the requirement."""
    with pytest.raises(SettingsError) as raised:
        read(flag, text)
    assert (
        str(raised.value)
        == f'{flag}: invalid label selector "{named}": expected a selector such as team=a'
    )


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
def test_resources_to_ignore_is_parsed(text: str, kinds: set[str]) -> None:
    """One kind, in any case; SecretProviderClasses are followed on demand."""
    ignored = read("--resources-to-ignore", text).dialect.ignored_sources
    assert ignored == kinds | {"SecretProviderClass"}
    also = read("--resources-to-ignore", text, "--enable-csi-integration").dialect.ignored_sources
    assert also == kinds


def test_ignored_workload_types_are_parsed() -> None:
    """Jobs, CronJobs or both, in any case."""
    ignored = read("--ignored-workload-types=Jobs,cronJobs").dialect.ignored_workloads
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
    "secretproviderclass-annotation": "provider_class",
    "secretproviderclass-auto-annotation": "provider_class_auto",
}


def test_every_annotation_name_has_a_flag() -> None:
    """All names that can be changed."""
    assert set(RENAMED.values()) == set(Names._fields)


@pytest.mark.parametrize(("flag", "field"), list(RENAMED.items()))
def test_annotation_flag_renames_its_annotation(flag: str, field: str) -> None:
    """A flag renames its own annotation and no other."""
    expected = Names()._replace(**{field: "acme.com/x"})
    assert read(f"--{flag}=acme.com/x").dialect.names == expected
    assert read(f'--{flag}="acme.com/x"').dialect.names == expected


# -- webhooks ---------------------------------------------------------------------------------


def test_webhook_url_disables_actions() -> None:
    """Changes are only reported."""
    settings = read("--webhook-url=https://example.com/hook")
    assert settings.webhooks.change_url == "https://example.com/hook"
    assert settings.muted == "--webhook-url is set"


# -- the rest ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (("--enable-pprof",), {}),
        (("--pprof-addr=:6060",), {}),
        ((), {"METRICS_COUNT_BY_NAMESPACE": "enabled"}),
        ((), {"METRICS_COUNT_BY_NAMESPACE": "true"}),
        ((), {"KUBERNETES_NAMESPACE": "shop"}),
    ],
)
def test_flag_without_effect_gives_one_warning(
    arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    """It is accepted and changes nothing."""
    settings = read(*arguments, **environment)
    assert settings._replace(warnings=()) == ReloaderSettings()
    assert len(settings.warnings) == 1


def test_enable_ha_requires_the_pod() -> None:
    """The name and namespace of the pod are needed."""
    pod = {"POD_NAME": "a", "POD_NAMESPACE": "b"}
    assert read("--enable-ha", **pod).leader_elect
    assert read("--enable-ha=false").leader_elect is False
    assert read().leader_elect is None


def test_lease_has_the_given_times() -> None:
    """Beside them hotmap's own, which a standby needs to take over within 12 s."""
    assert read().lease == read("--reloader-compat").lease == DEFAULT_TIMING
    assert read("--leader-election-lease-duration=30s").lease == LeaseTiming(30, 7.0, 2.0)
    every = [
        "--leader-election-lease-duration=600s",
        "--leader-election-renew-deadline=9m59.5s",
        '--leader-election-retry-period="100ms"',
    ]
    assert read(*every).lease == LeaseTiming(600, 599.5, 0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("lease-duration=1500ms", 'invalid duration "1500ms": expected whole seconds from 1s to'),
        ("lease-duration=0", 'invalid duration "0": expected whole seconds from 1s to 10m'),
        ("lease-duration=10m1s", 'invalid duration "10m1s": expected whole seconds from 1s to 10m'),
        ("renew-deadline=10s", "10s must be shorter than --leader-election-lease-duration, which"),
        ("retry-period=6s", "1.2 times 6s must be shorter than --leader-election-renew-deadline,"),
        ("retry-period=99ms", 'invalid duration "99ms": expected 100ms or more'),
        ("retry-period=0", 'invalid duration "0": expected 100ms or more'),
    ],
)
def test_times_that_cannot_work_are_an_error(arguments: str, message: str) -> None:
    """Before anything starts; with client-go's rules, and the precision of a Lease."""
    flag = f"--leader-election-{arguments}"
    with pytest.raises(SettingsError) as raised:
        read(flag)
    assert str(raised.value).startswith(f"{flag.partition('=')[0]}: {message}")


@pytest.mark.parametrize(("text", "level"), [("warning", logging.WARNING), ("panic", 50)])
def test_log_level_is_parsed(text: str, level: int) -> None:
    """The names of logrus."""
    assert read(f"--log-level={text}").log_level == level


@pytest.mark.parametrize(
    ("text", "log_format"), [("", "text"), ('"json"', "json"), ("JSON", "json"), ("text", "text")]
)
def test_log_format_is_parsed(text: str, log_format: str) -> None:
    """Reloader's default is empty; quotes from a manifest are removed."""
    assert read(f"--log-format={text}").log_format == log_format


@pytest.mark.parametrize(
    ("arguments", "warning"),
    [
        (("--log-level=loud",), '--log-level: unknown value "loud"; using info'),
        (("--log-level=",), '--log-level: unknown value ""; using info'),
        (("--log-format=logfmt",), '--log-format: unknown value "logfmt"; using text'),
        (
            ("--ignored-workload-types=pods",),
            '--ignored-workload-types: unknown value "pods"; ignoring it',
        ),
        (
            ("--namespaces-to-ignore=kube-*",),
            '--namespaces-to-ignore: invalid namespace name "kube-*": expected at most 63 '
            "lowercase letters, digits and hyphens; ignoring it",
        ),
    ],
)
def test_unknown_word_is_a_warning_with_compat(arguments: tuple[str, ...], warning: str) -> None:
    """As for Reloader, which starts all the same; the defaults hold."""
    settings = read("--reloader-compat", *arguments)
    assert settings.warnings == (warning,)
    assert settings._replace(warnings=()) == read("--reloader-compat")


def test_valid_namespaces_are_ignored_beside_invalid_ones() -> None:
    """Reloader compares names, so an expression matches none; without compat it is an error."""
    flag = "--namespaces-to-ignore=kube-*,kube-system"
    assert read("--reloader-compat", flag).ignored_namespaces == ("kube-system",)
    with pytest.raises(SettingsError, match=r'invalid namespace name "kube-\*"'):
        read(flag)


def test_annotation_may_have_capitals_in_its_prefix() -> None:
    """The API server accepts such a name."""
    assert read("--auto-annotation=Example.com/Auto").dialect.names.auto == "Example.com/Auto"


def test_known_workload_types_count_beside_unknown_ones() -> None:
    """In any case; Reloader ignores the whole list then."""
    settings = read("--reloader-compat", "--ignored-workload-types=pods,Jobs")
    assert settings.dialect.ignored_workloads == {"Job", "Rollout"}
    assert len(settings.warnings) == 1


#: Each flag of Reloader 1.4.22 (internal/pkg/util/util.go ConfigureReloaderFlags) with a value,
#: the setting that it gives, and how many warnings it gives with --reloader-compat.
EVERY_FLAG: list[tuple[str, str, str, object, int]] = [
    ("auto-reload-all", "TRUE", "dialect.auto_reload_all", True, 0),
    ("auto-reload-all", "f", "dialect.auto_reload_all", False, 0),
    ("sync-after-restart", "T", "catch_up", False, 1),
    ("enable-ha", "True", "leader_elect", True, 0),
    ("enable-ha", "0", "leader_elect", False, 0),
    ("enable-pprof", "1", "listen", ":9090", 1),
    ("enable-pprof", "FALSE", "listen", ":9090", 0),
    ("enable-csi-integration", "false", "listen", ":9090", 0),
    ("reload-on-create", "true", "dialect.reload_on_create", True, 0),
    ("reload-on-create", "TRUE", "dialect.reload_on_create", False, 1),
    ("reload-on-delete", "true", "dialect.reload_on_delete", True, 0),
    ("reload-on-delete", "1", "dialect.reload_on_delete", False, 1),
    ("is-Argo-Rollouts", "true", "dialect.ignored_workloads", frozenset(), 0),
    ("is-Argo-Rollouts", "yes", "dialect.ignored_workloads", {"Rollout"}, 1),
    ("reload-strategy", "annotations", "dialect.writing", Writing.ANNOTATIONS, 0),
    ("log-level", "Info", "log_level", logging.INFO, 0),
    ("log-level", "WARNING", "log_level", logging.WARNING, 0),
    ("log-level", "Warn", "log_level", logging.WARNING, 0),
    ("log-level", "verbose", "log_level", logging.INFO, 1),
    ("log-format", "JSON", "log_format", "json", 0),
    ("log-format", "xml", "log_format", "text", 1),
    ("webhook-url", "https://a/b", "webhooks.change_url", "https://a/b", 0),
    (
        "resources-to-ignore",
        "ConfigMaps",
        "dialect.ignored_sources",
        {"ConfigMap", "SecretProviderClass"},
        0,
    ),
    ("ignored-workload-types", "Jobs", "dialect.ignored_workloads", {"Job", "Rollout"}, 0),
    ("ignored-workload-types", "pods", "dialect.ignored_workloads", {"Rollout"}, 1),
    ("namespaces", "a,b", "watch_namespaces", ("a", "b"), 0),
    ("namespaces-to-ignore", "a,b", "ignored_namespaces", ("a", "b"), 0),
    ("namespace-selector", "team:*", "namespace_selector", "team", 0),
    ("resource-label-selector", "a=b", "source_selector", "a=b", 0),
    ("pprof-addr", ":6060", "listen", ":9090", 1),
    ("leader-election-lease-duration", "1m30s", "lease", LeaseTiming(90, 10.0, 2.0), 0),
    ("leader-election-renew-deadline", "12s", "lease", LeaseTiming(15, 12.0, 2.0), 0),
    ("leader-election-retry-period", "500ms", "lease", LeaseTiming(15, 10.0, 0.5), 0),
    *(
        (flag, "acme.com/x", f"dialect.names.{field}", "acme.com/x", 0)
        for flag, field in RENAMED.items()
    ),
]


@pytest.mark.parametrize("form", ["{flag}={value}", '{flag}="{value}"', "{flag} {value}"])
@pytest.mark.parametrize(
    ("flag", "value", "setting", "expected", "warnings"),
    EVERY_FLAG,
    ids=[f"{flag}={value}" for flag, value, *_ in EVERY_FLAG],
)
def test_flag_takes_value_in_each_form(
    flag: str, value: str, setting: str, expected: object, warnings: int, form: str
) -> None:
    """With an equals sign, with quotes that a manifest left, and as the next argument."""
    arguments = [part.format(flag=f"--{flag}", value=value) for part in form.split(" ")]
    settings = read("--reloader-compat", *arguments, POD_NAME="a", POD_NAMESPACE="b")
    assert attrgetter(setting)(settings) == expected
    assert len(settings.warnings) == warnings


def test_every_flag_of_reloader_is_in_the_table() -> None:
    """Those that the controller has, less the two that are hotmap's own."""
    flags = {flag_name(field, flag)[2:] for field, flag in declared(ReloaderFlags).items()}
    assert {flag for flag, *_ in EVERY_FLAG} == flags - {"reloader-compat", "shadow"}


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (
            ("--reload-strategy=x",),
            {},
            '--reload-strategy: invalid value "x": expected revision, env-vars or annotations',
        ),
        (
            ("--resources-to-ignore=configmaps,secrets",),
            {},
            "--resources-to-ignore: configmaps or secrets can be ignored, not both",
        ),
        (
            ("--resources-to-ignore=pods",),
            {},
            '--resources-to-ignore: invalid value "pods": expected configmaps or secrets',
        ),
        (
            ("--ignored-workload-types=pods",),
            {},
            '--ignored-workload-types: invalid value "pods": expected jobs or cronjobs',
        ),
        (
            ("--namespaces=A",),
            {},
            '--namespaces: invalid namespace name "A": expected at most 63 lowercase letters, '
            "digits and hyphens",
        ),
        (
            ("--namespaces=,,",),
            {},
            '--namespaces: invalid list ",,": expected namespaces separated by commas',
        ),
        (
            ("--webhook-url=ftp://planted",),
            {},
            "--webhook-url: invalid URL (not shown): expected an http or https URL",
        ),
        (
            ("--webhook-url=http://[planted",),
            {},
            "--webhook-url: invalid URL (not shown): expected an http or https URL",
        ),
        (
            ("--auto-annotation=a b",),
            {},
            '--auto-annotation: invalid annotation name "a b": expected a name such as '
            "example.com/reload",
        ),
        (
            ("--enable-ha",),
            {"POD_NAME": "a"},
            "--enable-ha requires the environment variable POD_NAMESPACE",
        ),
        (
            ("--log-format=xml",),
            {},
            '--log-format: invalid value "xml": expected text or json',
        ),
        (
            ("--log-level=loud",),
            {},
            '--log-level: invalid value "loud": expected trace, debug, info, warn, warning, error, '
            "fatal or panic",
        ),
    ],
)
def test_invalid_value_is_an_error(
    arguments: tuple[str, ...], environment: dict[str, str], message: str
) -> None:
    """One message names the flag or variable."""
    with pytest.raises(SettingsError) as raised:
        read(*arguments, **environment)
    assert str(raised.value) == message
