"""A client of the controller's status; `controller_discovery` finds the controller."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from hotmap.cli.controller_discovery import LIMITS, Fetch, fetch_from_url, find_controller
from hotmap.cli.shared_options import ClusterOptions, ControllerAddress
from hotmap.cli.status_response import (
    ControllerAway,
    StatusUnavailable,
    convert_document,
    decode_response,
)
from hotmap.core.errors import SettingsError
from hotmap.core.status.status_document import StatusDocument
from hotmap.core.text import printable
from hotmap.kube.client import Client

__all__ = ["StatusClient", "check_url", "connect", "default_namespace"]


class StatusClient:
    """A client of one controller that was found."""

    def __init__(self, fetch: Fetch, *, namespace: str) -> None:
        self._fetch = fetch
        #: The default namespace.
        self.namespace = namespace

    async def status(
        self, query: Mapping[str, str], *, consistent: bool = False, type_: type = StatusDocument
    ) -> dict[str, Any]:
        """Get the status, all pages of it as one document, which has the fields of a type.

        `consistent`: it must not lag behind an edit.

        Raises:
            StatusUnavailable: no answer, the controller is not the leader, it does not watch the
                namespace, or it has another version.
        """
        if consistent:
            query = {**query, "consistent": "true"}
        document = _require_watched(await self._page(query, type_))
        token = document.pop("continue", "")
        while token:
            # Another replica may answer by now, and a standby's page has no workloads.
            page = await self._page({**query, "continue": token}, type_)
            document["workloads"] += page["workloads"]
            token = page.get("continue", "")
        return document

    async def _page(self, query: Mapping[str, str], type_: type) -> dict[str, Any]:
        document = _require_leader(decode_response(await self._fetch(query)))
        convert_document(document, type_)  # only to see that it can be
        return document


@asynccontextmanager
async def connect(
    cluster: ClusterOptions, address: ControllerAddress
) -> AsyncIterator[StatusClient]:
    """Find the controller that is the leader, and keep the connection open.

    Raises:
        StatusUnavailable: there is none, or it does not answer.
        SettingsError: the kubeconfig cannot be used.
    """
    if address.url:
        check_url(address)
        yield StatusClient(fetch_from_url(address.url), namespace=default_namespace(cluster))
        return
    async with Client(cluster.load(), user_agent="hotmap-cli", limits=LIMITS) as client:
        fetch = await find_controller(client, address)
        yield StatusClient(fetch, namespace=client.namespace)


def check_url(address: ControllerAddress) -> None:
    """Refuse what `--url` cannot be.

    Raises:
        SettingsError: it is not the URL of a server, has credentials, which messages would show, or
            is not the only address.
    """
    url = address.url or ""
    if address.controller_namespace:
        raise SettingsError("--controller-namespace cannot be used with --url")
    if "@" in url:
        raise SettingsError("--url: a user or password in the URL is not supported")
    if not url.startswith(("http://", "https://")):
        raise SettingsError(f'--url: invalid URL "{url}": expected an http or https URL')


def default_namespace(cluster: ClusterOptions) -> str:
    """Return the namespace of the kubeconfig's context; `default` without a kubeconfig.

    Raises:
        SettingsError: a kubeconfig or context that is named cannot be used.
    """
    try:
        return cluster.load().namespace
    except SettingsError:
        if cluster.kubeconfig or cluster.context:
            raise
        return "default"


def _require_leader(document: dict[str, Any]) -> dict[str, Any]:
    if not document.get("ready"):
        raise ControllerAway(
            "the controller that answered is a standby or still starting; connect to the leader"
        )
    return document


def _require_watched(document: dict[str, Any]) -> dict[str, Any]:
    if namespace := document.get("unwatched"):
        raise StatusUnavailable(
            f'the controller that answered does not watch namespace "{printable(namespace)}"; '
            "connect to the one that does (--controller-namespace), or see its --watch-namespace"
        )
    return document
