"""`hotmap local up`: run the local control plane in the foreground until a signal."""

from __future__ import annotations

import asyncio
import os
import shlex
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

import click

import hotmap
from hotmap.cli.command_options import LocalOptions
from hotmap.cli.logs import set_up_logging
from hotmap.cli.stop_signals import on_stop_signal
from hotmap.core.duration import parse_duration
from hotmap.core.errors import SettingsError
from hotmap.core.text import quote_short
from hotmap.local.cluster import LocalCluster, PlaneSettings
from hotmap.local.controllers.controller_names import select_controllers
from hotmap.local.garbage_collector import limit_collector_pauses
from hotmap.local.kubelet.images import read_images
from hotmap.local.kubelet.sync import SyncSettings

__all__ = ["find_closed_directory", "run_local"]

#: What pods run that are made from hotmap's own images: this Python, and this package.
_OWN_PLACES = (Path(sys.executable), Path(sys.prefix), Path(sys.base_prefix), Path(hotmap.__file__))


def run_local(options: LocalOptions, *, log_format: str) -> int:
    """Run a local cluster until SIGINT, SIGTERM or SIGHUP; returns the exit status.

    The kubeconfig's path is the only line on standard output, so that a script can take it.

    Raises:
        SettingsError: a flag is wrong, the directory or port is in use, or processes cannot be
            isolated here.
    """
    sync = SyncSettings(
        period=_period(options.sync_period),
        strategy=options.change_detection_strategy,
        max_pods=options.max_pods,
    )
    if options.directory == "":  # of a variable that is not set: nothing would be kept
        raise SettingsError('--dir: invalid directory "": omit --dir to keep objects in memory')
    if options.etcd == "":
        raise SettingsError('--etcd: invalid URL "": expected http://HOST:PORT')
    if options.images == "":
        raise SettingsError('--images: invalid file "": expected the name of a file')
    directory = Path(options.directory) if options.directory else None
    settings = PlaneSettings(
        keep=directory is not None and not options.etcd,
        etcd=options.etcd or "",
        rbac=options.authorization == "rbac",
        images=(*_images_of_file(options.images), *options.image),
        controllers=_controllers(options.controllers),
    )
    set_up_logging(log_format)
    limit_collector_pauses()
    cluster = LocalCluster(directory, port=options.port, sync=sync, settings=settings)
    asyncio.run(_run(cluster))
    return 0


async def _run(cluster: LocalCluster) -> None:
    stop = asyncio.Event()
    on_stop_signal(lambda _: stop.set())
    async with cluster:
        # As bytes: a path need not be text in the locale's encoding.
        click.echo(os.fsencode(f"export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}"))
        click.echo(
            f"ready in {cluster.ready_after:.2f}s at {cluster.server}; press Ctrl-C to stop",
            err=True,
        )
        _warn_of_closed_directory()
        stop_requested = asyncio.create_task(stop.wait())
        failure = asyncio.create_task(cluster.wait_for_failure())
        await asyncio.wait((stop_requested, failure), return_when=asyncio.FIRST_COMPLETED)
        stop_requested.cancel()
        if failure.done():
            await failure
        failure.cancel()


def _warn_of_closed_directory() -> None:
    # In a user namespace all containers run as the one user that is mapped.
    closed = find_closed_directory(_OWN_PLACES) if os.geteuid() == 0 else None
    if closed is not None:
        click.echo(
            f"warning: other users cannot enter {closed}, where this hotmap or its Python is: "
            "containers that run it as another user, as injected agents do by default, end with "
            '"permission denied"; install it elsewhere, such as in /opt, or run agents as root '
            "('hotmap inject --user 0')",
            err=True,
        )


def find_closed_directory(paths: Iterable[Path]) -> Path | None:
    """Find a directory on the way to some paths that only its owner or group may enter."""
    for path in paths:
        for way in (path, path.resolve()):
            for parent in reversed(way.parents):
                if not parent.stat().st_mode & stat.S_IXOTH:
                    return parent
    return None


def _images_of_file(path: str | None) -> list[str]:
    return read_images(Path(path)) if path else []


def _controllers(text: str) -> tuple[str, ...]:
    try:
        return select_controllers(text)
    except ValueError as error:
        raise SettingsError(f"--controllers: {error}") from error


def _period(text: str) -> float:
    try:
        period = parse_duration(text)
    except ValueError as error:
        raise SettingsError(f"--sync-period: {error}") from error
    if period <= 0:
        raise SettingsError(
            f"--sync-period: invalid duration {quote_short(text)}: must be greater than 0, such as "
            "1s"
        )
    return period
