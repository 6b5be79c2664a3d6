"""The controller's own flags; those that Reloader has too are in `reloader_flags`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import click

from hotmap.cli.options import Flag, Rate

if TYPE_CHECKING:
    from hotmap.controller.settings import Settings

__all__ = ["ControllerFlags"]


def _from_settings(read: Callable[["Settings"], Any]) -> Callable[[], str]:
    """Show a default of the controller's settings, which are imported only when it is shown."""

    def text() -> str:
        from hotmap.controller.settings import Settings

        return str(read(Settings()))

    return text


def _duration(seconds: float) -> str:
    return f"{seconds:g}s" if seconds >= 1 else f"{seconds * 1000:g}ms"


def _address(settings: "Settings") -> str:
    host, port = settings.listen or ("", 0)
    return f"{host}:{port}"


class ControllerFlags(NamedTuple):
    """What the flags set; None where the default of the controller's settings holds."""

    namespace: Annotated[
        str | None,
        Flag(
            "Namespace for the controller's own Secrets and Lease.",
            "NAME",
            default="the pod's namespace, else hotmap",
        ),
    ] = None
    watch_namespace: Annotated[
        str | None,
        Flag(
            "Serve only this namespace; no cluster-wide permission is needed.",
            "NAME",
            default="all namespaces",
        ),
    ] = None
    follow: Annotated[
        str | None,
        Flag(
            "Sources followed by workloads without the annotation hotmap.dev/follow.",
            "off|auto|LIST",
            default=_from_settings(lambda settings: settings.defaults.follow),
        ),
    ] = None
    settle: Annotated[
        str | None,
        Flag(
            "Time without further edits before a rollout, at most 1h.",
            "DURATION",
            default=_from_settings(lambda settings: _duration(settings.defaults.settle)),
        ),
    ] = None
    settle_max: Annotated[
        str | None,
        Flag(
            "Maximum settle time while edits continue, at most 1h.",
            "DURATION",
            default=_from_settings(
                lambda settings: f"{_duration(settings.defaults.settle_max)}, or --settle if longer"
            ),
        ),
    ] = None
    workers: Annotated[
        int | None,
        Flag(
            "Number of workloads to process concurrently.",
            "N",
            type=click.IntRange(1, 1000),
            default=_from_settings(lambda settings: settings.workers),
        ),
    ] = None
    flap_limit: Annotated[
        int | None,
        Flag(
            "Rollouts of one workload in a minute, or in ten minutes between the same contents, "
            "before further ones are held; 0 means no limit.",
            "N",
            type=click.IntRange(0, 100),
            default=_from_settings(lambda settings: settings.flap_limit),
        ),
    ] = None
    max_concurrent_rollouts: Annotated[
        int | None,
        Flag(
            "Workloads that are rolled out at a time for one ConfigMap or Secret; the next one "
            "follows when all pods of an earlier one are available; 0 means no limit.",
            "N",
            type=click.IntRange(0, 10_000),
            default=_from_settings(lambda settings: settings.rollout_limit),
        ),
    ] = None
    leader_elect: Annotated[
        bool | None,
        Flag(
            "Elect a leader among replicas with the Lease hotmap-controller.",
            default="enabled",
        ),
    ] = None
    pod_check_rate: Annotated[
        float | None,
        Flag(
            "Workloads per second whose pods are checked, after a rollout and when hotmap starts "
            "to track a workload; 0 disables the checks.",
            "N",
            type=Rate(0, 100),
            default=_from_settings(lambda settings: f"{settings.pod_checks.rate:g}"),
        ),
    ] = None
    listen: Annotated[
        str | None,
        Flag(
            "Address for metrics, health and status; port 0 picks a free one.",
            "HOST:PORT|none",
            default=_from_settings(_address),
            compat_default=":9090",
        ),
    ] = None
    status_listen: Annotated[
        str | None,
        Flag(
            "Address of the status endpoint for users with a token, limited to their namespaces.",
            "HOST:PORT|none",
            default="none",
        ),
    ] = None
