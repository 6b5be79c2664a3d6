"""`hotmap controller`: settings from flags, then the controller until a signal comes."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
import socket
import uuid
from contextlib import suppress
from pathlib import Path

from hotmap.cli.logs import set_up_logging
from hotmap.cli.reloader_flags import ReloaderFlags
from hotmap.cli.reloader_settings import namespace_name, read_reloader_flags
from hotmap.controller.run import Controller
from hotmap.controller.settings import (
    DEFAULT_NAMESPACE,
    PodCheckSettings,
    Settings,
    WebhookSettings,
)
from hotmap.core.errors import SettingsError
from hotmap.core.policy.policy import DEFAULTS, Defaults, parse_duration, parse_follow
from hotmap.core.reloader.annotations import Writing
from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_config

__all__ = ["run_controller"]

_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

#: malloc.h
_M_MMAP_THRESHOLD = -3

_log = logging.getLogger(__name__)


def run_controller(
    *,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    watch_namespace: str | None,
    follow: str,
    settle: str,
    settle_max: str | None,
    workers: int,
    flap_limit: int,
    leader_elect: bool | None,
    looks: float,
    listen: str | None,
    log_format: str,
    reloader: ReloaderFlags,
) -> int:
    """Run the controller until SIGINT or SIGTERM; returns the exit status.

    Raises:
        SettingsError: a flag or the kubeconfig cannot be used.
        ApiError, Unreachable: the API server cannot be worked with.
    """
    asked = read_reloader_flags(reloader, os.environ)
    watched = asked.watch_namespaces
    if watch_namespace is not None and watched:
        raise SettingsError("--watch-namespace and --namespaces: name the namespaces with one")
    if watch_namespace is not None:
        watched = (namespace_name("--watch-namespace", watch_namespace),)
    if reloader.shadow and leader_elect:
        raise SettingsError("--shadow writes nothing, so it cannot take part in --leader-elect")
    defaults = _defaults(follow, settle, settle_max)._replace(
        catch_up=asked.catch_up,
        muted=asked.muted,
        on_change=asked.on_change,
        dialect=asked.dialect,
    )
    if reloader.shadow:
        defaults = _in_shadow(defaults)
    settings = Settings(
        namespace=_own_namespace()
        if namespace is None
        else namespace_name("--namespace", namespace),
        watch_namespaces=watched,
        ignored_namespaces=() if watch_namespace else asked.ignored_namespaces,
        namespace_selector=asked.namespace_selector,
        source_selector=asked.source_selector,
        defaults=defaults,
        webhooks=WebhookSettings()
        if reloader.shadow
        else asked.webhooks._replace(settle=defaults.settle, settle_max=defaults.settle_max),
        workers=workers,
        flap_limit=flap_limit,
        pod_checks=PodCheckSettings(per_second=looks),
        identity=_identity(asked.replicas if leader_elect is None else leader_elect)
        if not reloader.shadow
        else "",
        shadow=reloader.shadow,
        patient=_POD_NAMESPACE.exists(),
        listen=_address(asked.listen if listen is None else listen),
    )
    set_up_logging(log_format, level=asked.log_level)
    if reloader.shadow:
        _log.warning("shadow: nothing is written; what is logged as done would be done")
    for note in asked.notes:
        _log.warning(note)
    # Most objects live for the whole process; young collections alone cost a third of a big
    # first list (measured: 0.37 s against 0.165 s for 20,000 Deployments).
    gc.set_threshold(50_000, 20, 100)
    _give_back_big_blocks()
    asyncio.run(_run(kubeconfig, context, settings))
    return 0


def _give_back_big_blocks() -> None:
    """Let the C library return each big block to the system when it is freed.

    glibc raises its limit for that with the first such block (mallopt(3), M_MMAP_THRESHOLD), so
    that pages, Secrets and records of some 100 KB leave holes: 10 of 260 MB beside 100,000 objects
    (measured). Other C libraries have no such call, and need none.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 128 << 10)


async def _run(kubeconfig: str | None, context: str | None, settings: Settings) -> None:
    config = load_config(kubeconfig, context)
    async with Client(config, user_agent="hotmap-controller") as client:
        serving = asyncio.create_task(_serve(client, settings))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, serving.cancel)
        with suppress(asyncio.CancelledError):
            await serving


async def _serve(client: Client, settings: Settings) -> None:
    """Run the controller until cancelled; leaving its context stops it in order."""
    async with Controller(client, settings) as controller:
        gc.freeze()
        where = f"; metrics, health and status on port {controller.port}" if controller.port else ""
        _log.info("ready%s", where)
        await controller.run()


def _in_shadow(defaults: Defaults) -> Defaults:
    """Decide in hotmap's own way, whatever is written otherwise, and read Reloader's marks.

    What Reloader wrote must not count as asked, nor a missed change be made up for.
    """
    dialect = defaults.dialect._replace(writing=Writing.REVISION, compares=True)
    return defaults._replace(dialect=dialect, catch_up=False)


def _identity(leader_elect: bool | None) -> str:
    """Make our name for the Lease, another one for every process; "" without election."""
    wanted = _POD_NAMESPACE.exists() if leader_elect is None else leader_elect
    return f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}" if wanted else ""


def _own_namespace() -> str:
    if named := os.environ.get("POD_NAMESPACE"):
        return namespace_name("POD_NAMESPACE", named)
    try:
        return _POD_NAMESPACE.read_text().strip() or DEFAULT_NAMESPACE
    except OSError:
        return DEFAULT_NAMESPACE


def _defaults(follow: str, settle: str, settle_max: str | None) -> Defaults:
    try:
        parse_follow(follow)
    except ValueError as error:
        raise SettingsError(f"--follow: {error}") from error
    quiet = _duration("--settle", settle)
    if settle_max is None:
        return Defaults(follow=follow, settle=quiet, settle_max=max(quiet, DEFAULTS.settle_max))
    most = _duration("--settle-max", settle_max)
    if most < quiet:
        raise SettingsError(f"--settle-max: {settle_max} is shorter than --settle {settle}")
    return Defaults(follow=follow, settle=quiet, settle_max=most)


def _duration(flag: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise SettingsError(f"{flag}: {error}") from error


def _address(text: str) -> tuple[str, int] | None:
    if text == "none":
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise SettingsError(f"--listen: {text!r} is not HOST:PORT, :PORT or none")
    return host.strip("[]"), int(port)
