"""`hotmap dashboard`: a local page that shows the controller's status as a map."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress

from hotmap.agent.runtime.standard_streams import print_message
from hotmap.cli.command_options import DashboardOptions
from hotmap.cli.shared_options import ClusterOptions, ControllerAddress
from hotmap.cli.status_client import StatusClient, check_url, connect, default_namespace
from hotmap.cli.status_output import read_document
from hotmap.cli.status_response import ControllerAway
from hotmap.cli.stop_signals import on_stop_signal
from hotmap.core.errors import SettingsError
from hotmap.core.status.status_document import StatusDocument
from hotmap.dashboard.polls import Polls
from hotmap.dashboard.server import DashboardServer, Scope
from hotmap.kube.http.server import describe_listen_error

__all__ = ["run_dashboard"]


def run_dashboard(
    options: DashboardOptions, cluster: ClusterOptions, address: ControllerAddress
) -> int:
    """Serve the dashboard until SIGINT, SIGTERM or SIGHUP; returns the exit status.

    A controller that does not answer is waited for, and the page says so.

    Raises:
        SettingsError: the kubeconfig or the address to listen on cannot be used.
    """
    if not options.address:  # of a variable that is not set: all addresses would be meant
        raise SettingsError('--address: invalid address "": expected an address such as 127.0.0.1')
    # An unusable address or kubeconfig is reported here, and not on the page.
    if address.url:
        check_url(address)
    cluster_url = "" if address.url else cluster.load().server
    asyncio.run(_serve(options, cluster, address, cluster_url))
    return 0


async def _serve(
    options: DashboardOptions, cluster: ClusterOptions, address: ControllerAddress, cluster_url: str
) -> None:
    stop = asyncio.Event()
    on_stop_signal(lambda _: stop.set())
    namespace = "" if options.all_namespaces else options.namespace or default_namespace(cluster)
    connection = _Connection(cluster, address)
    scope = Scope(namespace, _cluster_flags(cluster, address), cluster_url)
    server = DashboardServer(Polls(connection.fetch), scope)
    try:
        port = await server.listen(options.address, options.port)
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {options.address}:{options.port}: {describe_listen_error(error)}; "
            "choose another address with --address and --port"
        ) from error
    host = f"[{options.address}]" if ":" in options.address else options.address
    print(f"http://{host}:{port}/{server.token}/", flush=True)
    if not _is_loopback(options.address):
        print_message(
            "hotmap: warning: other machines can connect, and HTTP is not encrypted; whoever reads "
            "the traffic can use the URL"
        )
    print_message(f"hotmap: dashboard of {scope.text}; press Ctrl-C to stop")
    try:
        await stop.wait()
    finally:
        await server.close()
        await connection.close()


def _cluster_flags(cluster: ClusterOptions, address: ControllerAddress) -> list[str]:
    """List the flags of this command that one which is copied from the page needs, too."""
    flags = {
        "--kubeconfig": cluster.kubeconfig,
        "--context": cluster.context,
        "--url": address.url,
        "--controller-namespace": address.controller_namespace,
    }
    return [word for flag, value in flags.items() if value for word in (flag, value)]


def _is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(address).is_loopback
    return False


class _Connection:
    """The connection to the controller, which is recreated once that does not answer."""

    def __init__(self, cluster: ClusterOptions, address: ControllerAddress) -> None:
        self._cluster, self._address = cluster, address
        self._client: StatusClient | None = None
        self._opened = AsyncExitStack()
        self._lock = asyncio.Lock()

    async def fetch(self, query: Mapping[str, str]) -> StatusDocument:
        """Fetch a document.

        Raises:
            SettingsError: no leader answers, or it may not be read; the text says what to do.
        """
        client = await self._connected()
        try:
            return read_document(await client.status(query))
        except ControllerAway:  # its Pod was replaced, or another one is the leader
            async with self._lock:
                if self._client is client:
                    await self.close()
            raise

    async def _connected(self) -> StatusClient:
        async with self._lock:
            if self._client is None:
                self._client = await self._opened.enter_async_context(
                    connect(self._cluster, self._address)
                )
            return self._client

    async def close(self) -> None:
        """Close the connection."""
        self._client = None
        await self._opened.aclose()
