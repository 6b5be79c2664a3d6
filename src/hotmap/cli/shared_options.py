"""The options that several commands take: the cluster, the workloads, the controller, the log."""

from typing import TYPE_CHECKING, Annotated, NamedTuple

from hotmap.cli.options import Flag, NamespaceName, QuotedChoice, namespace_flag

if TYPE_CHECKING:
    from hotmap.kube.config import ClusterConfig

__all__ = [
    "ClusterOptions",
    "ControllerAddress",
    "LogOptions",
    "NamespaceOptions",
    "WorkloadOptions",
]


class ClusterOptions(NamedTuple):
    """Which cluster to connect to."""

    kubeconfig: Annotated[
        str | None,
        Flag(
            "Path to the kubeconfig file.",
            "FILE",
            default="$KUBECONFIG, ~/.kube/config, or the pod's service account",
        ),
    ] = None
    context: Annotated[
        str | None,
        Flag("Context of the kubeconfig to use.", "NAME", default="the current context"),
    ] = None

    def load(self) -> "ClusterConfig":
        """Read the connection to the API server; the process then holds credentials.

        Raises:
            SettingsError: the kubeconfig cannot be used, or there is none.
        """
        from hotmap.kube.kubeconfig import load_config
        from hotmap.kube.process import disable_core_dumps

        disable_core_dumps()
        return load_config(self.kubeconfig, self.context)


class NamespaceOptions(NamedTuple):
    """Which namespace a workload is in."""

    #: "" for the context's own.
    namespace: Annotated[
        str,
        namespace_flag("Namespace of the workload."),
    ] = ""


class WorkloadOptions(NamedTuple):
    """Which namespace a workload is in, and how it is printed."""

    #: "" for the context's own.
    namespace: Annotated[
        str,
        namespace_flag("Namespace of the workload."),
    ] = ""
    output: Annotated[
        str,
        Flag(
            "Output format; json and yaml print the status document.",
            "table|wide|json|yaml|name",
            short="-o",
            type=QuotedChoice(["table", "wide", "json", "yaml", "name"]),
        ),
    ] = "table"


class ControllerAddress(NamedTuple):
    """Where the controller is reached."""

    url: Annotated[
        str | None,
        Flag(
            "URL of the controller.",
            "URL",
            default="discovered through the API server, else http://127.0.0.1:9533 or :9090",
        ),
    ] = None
    #: "" searches all namespaces.
    controller_namespace: Annotated[
        str,
        Flag(
            "Namespace of the controller's pods. If several namespaces have such pods, hotmap or "
            "the current one is used.",
            "NAME",
            type=NamespaceName(),
            default="all namespaces, or hotmap if pods may not be listed in all",
        ),
    ] = ""


class LogOptions(NamedTuple):
    """How log lines are written."""

    log_format: Annotated[
        str, Flag("Log format.", "text|json", type=QuotedChoice(["text", "json"]))
    ] = "text"
