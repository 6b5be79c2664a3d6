"""Reloader's flags under their own names, as the controller command takes them.

Declared here, read by `reloader_settings`. Values stay texts until then: Go's rules for them are
not click's, a manifest may have left quotes around them, and what is not said must be told from
what is said to be the default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import click

from hotmap.core.reloader.go_values import unquote

__all__ = ["QuotedChoice", "ReloaderFlags", "SectionedCommand", "reloader_flags"]

Command = Callable[..., Any]


class ReloaderFlags(NamedTuple):
    """What was said by flags; None or () where nothing was. Fields are named as the flags."""

    reloader_compat: bool = False
    shadow: bool = False
    reload_strategy: str | None = None
    auto_reload_all: str | None = None
    reload_on_create: str | None = None
    reload_on_delete: str | None = None
    sync_after_restart: str | None = None
    is_argo_rollouts: str | None = None
    resources_to_ignore: tuple[str, ...] = ()
    ignored_workload_types: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    namespaces_to_ignore: tuple[str, ...] = ()
    namespace_selector: tuple[str, ...] = ()
    resource_label_selector: tuple[str, ...] = ()
    webhook_url: str | None = None
    configmap_annotation: str | None = None
    secret_annotation: str | None = None
    auto_annotation: str | None = None
    configmap_auto_annotation: str | None = None
    secret_auto_annotation: str | None = None
    ignore_annotation: str | None = None
    auto_search_annotation: str | None = None
    search_match_annotation: str | None = None
    pause_deployment_annotation: str | None = None
    pause_deployment_time_annotation: str | None = None
    log_level: str | None = None
    enable_ha: str | None = None
    enable_pprof: str | None = None
    pprof_addr: str | None = None
    enable_csi_integration: str | None = None


class QuotedChoice(click.Choice[str]):
    """A choice whose value may stand in quotes that a manifest left."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Take the quotes off, then choose."""
        return super().convert(unquote(value), param, ctx)


class _Flag(NamedTuple):
    name: str
    #: "text", "bool" (also without a value), "list" (repeated, commas) or "switch".
    type: str
    metavar: str
    help: str


_FLAGS = (
    _Flag(
        "--reloader-compat",
        "switch",
        "",
        "Behave as stakater/Reloader with the same flags: its defaults instead of hotmap's.",
    ),
    _Flag(
        "--shadow",
        "switch",
        "",
        "Write nothing; tell where hotmap would do otherwise than a Reloader that runs beside.",
    ),
    _Flag(
        "--reload-strategy",
        "text",
        "revision|env-vars|annotations",
        "How a rollout is written: in hotmap's own way (default) or in one of Reloader's.",
    ),
    _Flag("--auto-reload-all", "bool", "BOOL", "Consumers that do not speak of auto are auto."),
    _Flag("--reload-on-create", "text", "true|false", "A source that appears is a change."),
    _Flag("--reload-on-delete", "text", "true|false", "A source that goes is a change."),
    _Flag("--sync-after-restart", "bool", "BOOL", "Make up for what was missed while down."),
    _Flag("--is-Argo-Rollouts", "text", "true|false", "Serve Argo Rollouts."),
    _Flag("--resources-to-ignore", "list", "configmaps|secrets", "Do not watch one kind."),
    _Flag("--ignored-workload-types", "list", "jobs,cronjobs", "Leave these kinds alone."),
    _Flag("--namespaces", "list", "LIST", "Serve these namespaces alone."),
    _Flag("--namespaces-to-ignore", "list", "LIST", "Serve all namespaces but these."),
    _Flag("--namespace-selector", "list", "SELECTOR", "Serve namespaces with these labels."),
    _Flag("--resource-label-selector", "list", "SELECTOR", "Watch sources with these labels."),
    _Flag("--webhook-url", "text", "URL", "Tell this URL of changes instead of acting."),
    _Flag(
        "--configmap-annotation",
        "text",
        "NAME",
        "Read instead of configmap.reloader.stakater.com/reload.",
    ),
    _Flag(
        "--secret-annotation",
        "text",
        "NAME",
        "Read instead of secret.reloader.stakater.com/reload.",
    ),
    _Flag("--auto-annotation", "text", "NAME", "Read instead of reloader.stakater.com/auto."),
    _Flag(
        "--configmap-auto-annotation",
        "text",
        "NAME",
        "Read instead of configmap.reloader.stakater.com/auto.",
    ),
    _Flag(
        "--secret-auto-annotation",
        "text",
        "NAME",
        "Read instead of secret.reloader.stakater.com/auto.",
    ),
    _Flag("--ignore-annotation", "text", "NAME", "Read instead of reloader.stakater.com/ignore."),
    _Flag(
        "--auto-search-annotation", "text", "NAME", "Read instead of reloader.stakater.com/search."
    ),
    _Flag(
        "--search-match-annotation", "text", "NAME", "Read instead of reloader.stakater.com/match."
    ),
    _Flag(
        "--pause-deployment-annotation",
        "text",
        "NAME",
        "Read instead of deployment.reloader.stakater.com/pause-period.",
    ),
    _Flag(
        "--pause-deployment-time-annotation",
        "text",
        "NAME",
        "Read instead of deployment.reloader.stakater.com/paused-at.",
    ),
    _Flag("--log-level", "text", "LEVEL", "trace, debug, info, warning, error, fatal or panic."),
    _Flag("--enable-ha", "bool", "BOOL", "Run several replicas, of which one acts."),
    _Flag("--enable-pprof", "bool", "BOOL", "Accepted; there is no debug surface."),
    _Flag("--pprof-addr", "text", "ADDRESS", "Accepted; there is no debug surface."),
    _Flag("--enable-csi-integration", "bool", "BOOL", "Accepted; comes in a later version."),
)


class SectionedCommand(click.Command):
    """A command whose help shows Reloader's flags in a section of their own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, ours first."""
        ours: list[tuple[str, str]] = []
        reloaders: list[tuple[str, str]] = []
        for param in self.get_params(ctx):
            if record := param.get_help_record(ctx):
                (reloaders if isinstance(param, _ReloaderOption) else ours).append(record)
        for title, records in (("Options", ours), ("Reloader's flags", reloaders)):
            with formatter.section(title):
                formatter.write_dl(records)


class _ReloaderOption(click.Option):
    """A flag that Reloader has too, or that is about Reloader."""


def reloader_flags(command: Command) -> Command:
    """Add Reloader's flags to a command, which gets them as keywords named as in ReloaderFlags."""
    for flag in reversed(_FLAGS):
        command = _option(flag)(command)
    return command


def _option(flag: _Flag) -> Callable[[Command], Command]:
    match flag.type:
        case "switch":
            settings: dict[str, Any] = {"is_flag": True}
        case "list":
            settings = {"metavar": flag.metavar, "multiple": True}
        case "bool":
            # As pflag has it: `--flag` alone is true, `--flag=false` is not.
            settings = {"metavar": flag.metavar, "is_flag": False, "flag_value": "true"}
        case _:
            settings = {"metavar": flag.metavar}
    return click.option(flag.name, cls=_ReloaderOption, help=flag.help, **settings)
