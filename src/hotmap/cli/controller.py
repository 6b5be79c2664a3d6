"""`hotmap controller`: builds the settings from flags and runs the controller until a signal."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import uuid
from contextlib import suppress
from pathlib import Path

from hotmap.cli.alert_flags import AlertFlags
from hotmap.cli.alert_settings import read_alert_settings
from hotmap.cli.controller_flags import ControllerFlags
from hotmap.cli.durations import read_duration
from hotmap.cli.logs import set_up_logging
from hotmap.cli.options import invalid_value
from hotmap.cli.reloader_flags import ReloaderFlags
from hotmap.cli.reloader_meta_info import read_meta_info
from hotmap.cli.reloader_settings import ReloaderSettings, namespace_name, read_reloader_flags
from hotmap.cli.shared_options import ClusterOptions
from hotmap.cli.stop_signals import on_stop_signal
from hotmap.controller.addresses import DEFAULT_NAMESPACE
from hotmap.controller.memory import set_up_memory
from hotmap.controller.run import Controller
from hotmap.controller.settings import MetaInfo, Settings, WebhookSettings
from hotmap.core.duration import InvalidDuration
from hotmap.core.errors import SettingsError
from hotmap.core.policy.annotations import LONGEST_SETTLE
from hotmap.core.policy.policy import DEFAULTS, Defaults
from hotmap.core.policy.values import parse_follow
from hotmap.core.reloader.annotations import Writing
from hotmap.kube.client import Client
from hotmap.kube.leaderelection import DEFAULT_TIMING

__all__ = ["run_controller"]

#: Environment variable with the address that `:PORT` means where pods share a network.
_LISTEN_HOST = "HOTMAP_LISTEN_HOST"

_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

_log = logging.getLogger(__name__)


def run_controller(
    cluster: ClusterOptions, flags: ControllerFlags, alerts: AlertFlags, reloader: ReloaderFlags
) -> int:
    """Run the controller until SIGINT, SIGTERM or SIGHUP; returns the exit status.

    Raises:
        SettingsError: a flag or the kubeconfig cannot be used.
        ApiError, Unreachable: the API server cannot be worked with.
    """
    compat = read_reloader_flags(reloader, os.environ)
    if flags.leader_elect is not None:
        compat = compat._replace(leader_elect=flags.leader_elect)
    meta_info = read_meta_info(reloader, compat, os.environ)
    alert = read_alert_settings(alerts, os.environ, lenient=reloader.reloader_compat)
    settings = _controller_settings(flags, compat, meta_info.meta_info)
    settings = settings._replace(webhooks=settings.webhooks._replace(alert=alert.settings))
    if reloader.shadow:
        if flags.leader_elect:
            raise SettingsError("--shadow writes nothing, so it cannot be used with --leader-elect")
        settings = _in_shadow(settings)
    set_up_logging(compat.log_format, level=compat.log_level)
    if reloader.shadow:
        _log.warning("shadow mode: nothing is written; the log shows the decisions")
    if not settings.identity and settings.lease != DEFAULT_TIMING:
        _log.warning("--leader-election-… have no effect without leader election")
    if flags.watch_namespace and (compat.ignored_namespaces or compat.namespace_selector):
        _log.warning(
            "--namespaces-to-ignore and --namespace-selector have no effect with --watch-namespace"
        )
    for warning in filter(None, (*compat.warnings, meta_info.warning, *alert.warnings)):
        _log.warning(warning)
    set_up_memory()
    asyncio.run(_run(cluster, settings))
    return 0


def _controller_settings(
    flags: ControllerFlags, compat: ReloaderSettings, meta_info: MetaInfo | None
) -> Settings:
    """Combine the controller's own flags with Reloader's; what is not set keeps its default."""
    default = Settings()
    defaults = _defaults(flags)._replace(
        catch_up=compat.catch_up,
        muted=compat.muted,
        on_change=compat.on_change,
        dialect=compat.dialect,
    )
    rate = default.pod_checks.rate if flags.pod_check_rate is None else flags.pod_check_rate
    listen = compat.listen if flags.listen is None else flags.listen
    namespaces = _watched_namespaces(flags, compat)
    surface = compat.surface._replace(meta_info=meta_info) if compat.surface else None
    return default._replace(
        namespace=_own_namespace()
        if flags.namespace is None
        else namespace_name("--namespace", flags.namespace),
        watch_namespaces=namespaces,
        ignored_namespaces=() if namespaces else compat.ignored_namespaces,
        namespace_selector="" if namespaces else compat.namespace_selector,
        source_selector=compat.source_selector,
        defaults=defaults,
        webhooks=compat.webhooks._replace(settle=defaults.settle, settle_max=defaults.settle_max),
        workers=default.workers if flags.workers is None else flags.workers,
        flap_limit=default.flap_limit if flags.flap_limit is None else flags.flap_limit,
        rollout_limit=flags.max_concurrent_rollouts or default.rollout_limit,
        pod_checks=default.pod_checks._replace(rate=rate),
        reloader=surface,
        identity=_identity(compat.leader_elect),
        lease=compat.lease,
        warns_of_leader=compat.leader_elect is False,
        patient=_POD_NAMESPACE.exists(),
        listen=default.listen if listen is None else _address("--listen", listen),
        status_listen=_address("--status-listen", flags.status_listen or "none"),
    )


def _watched_namespaces(flags: ControllerFlags, compat: ReloaderSettings) -> tuple[str, ...]:
    if flags.watch_namespace is None:
        return compat.watch_namespaces
    if compat.watch_namespaces:
        raise SettingsError("--watch-namespace and --namespaces cannot be used together")
    return (namespace_name("--watch-namespace", flags.watch_namespace),)


async def _run(cluster: ClusterOptions, settings: Settings) -> None:
    async with Client(cluster.load(), user_agent="hotmap-controller") as client:
        serving = asyncio.create_task(_serve(client, settings))

        def stop(number: signal.Signals) -> None:
            _log.info("shutting down (%s)", number.name)
            serving.cancel()

        on_stop_signal(stop)
        with suppress(asyncio.CancelledError):
            await serving


async def _serve(client: Client, settings: Settings) -> None:
    """Run the controller until cancelled; leaving its context stops it in order."""
    async with Controller(client, settings) as controller:
        gc.freeze()
        where = f"; metrics, health and status on port {controller.port}" if controller.port else ""
        _log.info("ready%s", where)
        await controller.run()


def _in_shadow(settings: Settings) -> Settings:
    """Decide as hotmap does by default, and read the marks that Reloader leaves; send nothing.

    What Reloader wrote must not count as applied by hotmap, and missed changes stay missed.
    """
    dialect = settings.defaults.dialect._replace(
        writing=Writing.REVISION, compares=True, pauses=False
    )
    return settings._replace(
        defaults=settings.defaults._replace(dialect=dialect, catch_up=False),
        webhooks=WebhookSettings(),
        reloader=None,
        identity="",
        warns_of_leader=False,
        shadow=True,
    )


def _identity(leader_elect: bool | None) -> str:
    """Make our holder identity for the Lease, unique per process; "" without leader election."""
    return "" if leader_elect is False else f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"


def _own_namespace() -> str:
    if named := os.environ.get("POD_NAMESPACE"):
        return namespace_name("POD_NAMESPACE", named)
    try:
        return _POD_NAMESPACE.read_text().strip() or DEFAULT_NAMESPACE
    except OSError:
        return DEFAULT_NAMESPACE


def _defaults(flags: ControllerFlags) -> Defaults:
    follow = DEFAULTS.follow if flags.follow is None else flags.follow
    if follow not in ("auto", "off") and "/" not in follow:
        expected = "auto, off or a list such as configmap/app,secret/db-*"
        raise invalid_value("--follow", "value", follow, expected)
    try:
        parse_follow(follow)
    except ValueError as error:
        raise SettingsError(f"--follow: {error}") from error
    settle = DEFAULTS.settle
    if flags.settle is not None:
        settle = _read_settle("--settle", flags.settle)
    settle_max = max(settle, DEFAULTS.settle_max)
    if flags.settle_max is not None:
        settle_max = _read_settle("--settle-max", flags.settle_max)
    if settle_max < settle:
        raise SettingsError(
            f"--settle-max: {flags.settle_max} is shorter than the settle time of {settle:g}s"
        )
    return DEFAULTS._replace(follow=follow, settle=settle, settle_max=settle_max)


def _read_settle(flag: str, text: str) -> float:
    seconds = read_duration(flag, text)
    if seconds > LONGEST_SETTLE:  # as of the annotations
        raise SettingsError(f"{flag}: {InvalidDuration(text, 'must not exceed 1h')}")
    return seconds


def _address(flag: str, text: str) -> tuple[str, int] | None:
    if text == "none":
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise invalid_value(flag, "address", text, "HOST:PORT, :PORT or none")
    return host.strip("[]") or os.environ.get(_LISTEN_HOST, ""), int(port)
