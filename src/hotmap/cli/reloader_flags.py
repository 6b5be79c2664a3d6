"""The flags of stakater/Reloader under their own names, as `hotmap controller` takes them.

Declared here, read by `reloader_settings`. Values stay text until then: Go's rules for them differ
from click's, a manifest may have left quotes around them, and a flag that is not set must be told
from one that is set to its default.
"""

from collections.abc import Callable
from typing import Annotated, NamedTuple

from hotmap.cli.options import Flag

__all__ = ["RENAMED_ANNOTATIONS", "REPLACED_FLAGS", "ReloaderFlags"]

_SECTION = "Reloader flags"

#: Which field of `Names` the flag of a field sets.
RENAMED_ANNOTATIONS = {
    "configmap_annotation": "config_map",
    "secret_annotation": "secret",
    "auto_annotation": "auto",
    "configmap_auto_annotation": "config_map_auto",
    "secret_auto_annotation": "secret_auto",
    "ignore_annotation": "ignore",
    "auto_search_annotation": "search",
    "search_match_annotation": "match",
    "pause_deployment_annotation": "pause_period",
    "pause_deployment_time_annotation": "paused_at",
    "secretproviderclass_annotation": "provider_class",
    "secretproviderclass_auto_annotation": "provider_class_auto",
}


_KEPT = "the annotation {}.exclude.reloader.stakater.com/reload keeps its name"

#: Flags of Reloader 2 that are refused, and what to do instead.
REPLACED_FLAGS = {
    "--metrics-addr": "use --listen, the address of metrics and health",
    "--health-addr": "use --listen, the address of metrics and health",
    "--leader-election-id": "leave it out: the Lease is always named hotmap-controller",
    "--leader-election-namespace": "use --namespace, which has the Lease and hotmap's Secrets",
    "--leader-election-release-on-cancel": "leave it out: the Lease is always released at the end",
    "--is-openshift": "leave it out: DeploymentConfigs are not served",
    "--alert-on-reload": "leave it out: --alert-webhook-url enables alerts",
    "--alert-proxy": "use --alert-webhook-proxy",
    "--alert-structured": "leave it out: alerts are sent as text",
    "--configmap-exclude-annotation": _KEPT.format("configmaps"),
    "--secret-exclude-annotation": _KEPT.format("secrets"),
    "--secretproviderclass-exclude-annotation": _KEPT.format("secretproviderclasses"),
}


def _flag(
    help: str, metavar: str = "", default: str | Callable[[], str] = "", compat_default: str = ""
) -> Flag:
    return Flag(help, metavar, default=default, compat_default=compat_default, section=_SECTION)


def _boolean(help: str, default: str = "", compat_default: str = "") -> Flag:
    """Declare a boolean as pflag has it: `--flag` alone is true, `--flag=false` is not."""
    return _flag(help, "BOOL", default, compat_default)._replace(bare_value="true")


def _annotation(field: str) -> Flag:
    """Declare the flag that renames one of Reloader's annotations."""

    def default() -> str:
        from hotmap.core.reloader.annotations import Names

        return str(Names._field_defaults[RENAMED_ANNOTATIONS[field]])

    return _flag("Read this annotation instead of the default one.", "NAME", default)


def _lease_time(help: str, field: str, compat_default: str = "") -> Flag:
    """Declare one of the times of the Lease, which is a field of LeaseTiming."""

    def default() -> str:
        from hotmap.kube.leaderelection import DEFAULT_TIMING

        return f"{getattr(DEFAULT_TIMING, field):g}s"

    return _flag(help, "DURATION", default, compat_default)


class ReloaderFlags(NamedTuple):
    """The values of the flags; None or () where one is not set."""

    log_format: Annotated[str | None, Flag("Log format.", "text|json", default="text")] = None
    log_level: Annotated[
        str | None,
        Flag(
            "Log level: trace, debug, info, warning, error, fatal or panic.",
            "LEVEL",
            default="info",
        ),
    ] = None
    reloader_compat: Annotated[
        bool, _flag("Use Reloader's defaults instead of hotmap's, and read KUBERNETES_NAMESPACE.")
    ] = False
    shadow: Annotated[
        bool,
        _flag("Write nothing; log where hotmap's decisions differ from a running Reloader's."),
    ] = False
    reload_strategy: Annotated[
        str | None,
        _flag(
            "How a rollout is written: hotmap's annotation, or one of Reloader's strategies.",
            "revision|env-vars|annotations",
            "revision",
            "env-vars",
        ),
    ] = None
    auto_reload_all: Annotated[
        str | None, _boolean("Treat workloads without the annotation as auto.", "false")
    ] = None
    reload_on_create: Annotated[
        str | None,
        _flag(
            "Treat the creation of an optional or named source as a change.",
            "true|false",
            "true",
            "false",
        ),
    ] = None
    reload_on_delete: Annotated[
        str | None,
        _flag(
            "Treat the deletion of an optional or named source as a change.", "true|false", "false"
        ),
    ] = None
    sync_after_restart: Annotated[
        str | None,
        _boolean(
            "At startup, roll out workloads not known to run with the current content; requires "
            "--reload-on-create.",
            "false",
        ),
    ] = None
    is_argo_rollouts: Annotated[
        str | None,
        _flag(
            "Serve Argo Rollouts.",
            "true|false",
            "true where the kind is installed",
            "false",
        )._replace(name="--is-Argo-Rollouts"),
    ] = None
    resources_to_ignore: Annotated[
        tuple[str, ...],
        _flag("Kind of source that is neither watched nor followed.", "configmaps|secrets"),
    ] = ()
    ignored_workload_types: Annotated[
        tuple[str, ...], _flag("Kinds of workload that are not watched.", "jobs,cronjobs")
    ] = ()
    namespaces: Annotated[
        tuple[str, ...],
        _flag(
            "Serve only these namespaces; no cluster-wide permission is needed.",
            "LIST",
            "all namespaces",
            "KUBERNETES_NAMESPACE, else all",
        ),
    ] = ()
    namespaces_to_ignore: Annotated[
        tuple[str, ...], _flag("Serve all namespaces except these.", "LIST")
    ] = ()
    namespace_selector: Annotated[
        tuple[str, ...], _flag("Serve namespaces with these labels.", "SELECTOR")
    ] = ()
    resource_label_selector: Annotated[
        tuple[str, ...], _flag("Watch ConfigMaps and Secrets with these labels.", "SELECTOR")
    ] = ()
    webhook_url: Annotated[
        str | None, _flag("Send each change to this URL instead of acting on it.", "URL")
    ] = None
    configmap_annotation: Annotated[str | None, _annotation("configmap_annotation")] = None
    secret_annotation: Annotated[str | None, _annotation("secret_annotation")] = None
    auto_annotation: Annotated[str | None, _annotation("auto_annotation")] = None
    configmap_auto_annotation: Annotated[str | None, _annotation("configmap_auto_annotation")] = (
        None
    )
    secret_auto_annotation: Annotated[str | None, _annotation("secret_auto_annotation")] = None
    ignore_annotation: Annotated[str | None, _annotation("ignore_annotation")] = None
    auto_search_annotation: Annotated[str | None, _annotation("auto_search_annotation")] = None
    search_match_annotation: Annotated[str | None, _annotation("search_match_annotation")] = None
    pause_deployment_annotation: Annotated[
        str | None, _annotation("pause_deployment_annotation")
    ] = None
    pause_deployment_time_annotation: Annotated[
        str | None, _annotation("pause_deployment_time_annotation")
    ] = None
    secretproviderclass_annotation: Annotated[
        str | None, _annotation("secretproviderclass_annotation")
    ] = None
    secretproviderclass_auto_annotation: Annotated[
        str | None, _annotation("secretproviderclass_auto_annotation")
    ] = None
    enable_ha: Annotated[
        str | None,
        _boolean(
            "Run several replicas, one of which acts; requires POD_NAME and POD_NAMESPACE.",
            "see --leader-elect",
            "false",
        ),
    ] = None
    leader_election_lease_duration: Annotated[
        str | None,
        _lease_time(
            "Time from the last renewal of the Lease until a standby takes over: whole seconds, at "
            "most 10m.",
            "duration",
            "15s if another of the three is set",
        ),
    ] = None
    leader_election_renew_deadline: Annotated[
        str | None,
        _lease_time(
            "Time from the last renewal of the Lease until the leader stops acting; shorter than "
            "the lease duration.",
            "renew_deadline",
            "10s if another of the three is set",
        ),
    ] = None
    leader_election_retry_period: Annotated[
        str | None, _lease_time("Time between two renewals of the Lease.", "retry")
    ] = None
    enable_pprof: Annotated[
        str | None, _boolean("Accepted without effect; there are no debug endpoints.")
    ] = None
    pprof_addr: Annotated[
        str | None, _flag("Accepted without effect; there are no debug endpoints.", "ADDRESS")
    ] = None
    enable_csi_integration: Annotated[
        str | None,
        _boolean("Follow SecretProviderClasses of the Secrets Store CSI driver.", "false"),
    ] = None
