"""Finds the controller of a cluster and asks it how workloads stand.

In this order, so that no answer can come from the controller of another cluster:

1. `--url`, whatever is there
2. the controller's pods in the cluster of the kubeconfig, through the API server's proxy, which
   takes the right to get `pods/proxy` and no port that is forwarded
3. one that runs on this machine, on its default address, if it says that it follows that cluster
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol

import aiohttp
import msgspec

from hotmap.controller.settings import DEFAULT_NAMESPACE
from hotmap.core.errors import ApiError, Forbidden, HotmapError, NotFound, SettingsError
from hotmap.core.model.objects import ObjectMeta
from hotmap.kube.client import Client, Limits
from hotmap.kube.kubeconfig import load_config
from hotmap.kube.resources import PODS

__all__ = ["Asked", "CannotTell", "Where", "reach"]

_SELECTOR = "app.kubernetes.io/name=hotmap,app.kubernetes.io/component=controller"

#: Where `hotmap controller` listens unless it is told otherwise.
_PORT = 9533
_HERE = f"http://127.0.0.1:{_PORT}"

#: Seconds for one answer: a big page over a slow line.
_PATIENCE = 20.0

_LIMITS = Limits(connect=5.0, attempt=_PATIENCE, attempts=2)


class CannotTell(SettingsError):
    """Raised when no controller answers, so that nothing can be said; exit status 2."""


class Where(NamedTuple):
    """What a person said about where the controller is."""

    kubeconfig: str | None = None
    context: str | None = None
    url: str | None = None
    #: The controller's own namespace; "" looks in all.
    controller_namespace: str = ""


class _Fetch(Protocol):
    async def __call__(self, query: Mapping[str, str]) -> bytes: ...


class Asked:
    """A controller that was found."""

    def __init__(self, fetch: _Fetch, *, namespace: str) -> None:
        self._fetch = fetch
        #: The namespace to use where none is named.
        self.namespace = namespace

    async def status(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Ask for the status, all pages of it as one document.

        Raises:
            CannotTell: no answer, or none of a controller that leads.
        """
        document = _leading(_decode(await self._fetch(query)))
        token = document.pop("continue", "")
        while token:
            page = _decode(await self._fetch({**query, "continue": token}))
            document["consumers"] += page.get("consumers", [])
            token = page.get("continue", "")
        return document


@asynccontextmanager
async def reach(where: Where) -> AsyncIterator[Asked]:
    """Find the controller that leads, and keep the line open.

    Raises:
        CannotTell: there is none, or it does not answer.
        SettingsError: the kubeconfig cannot be used.
    """
    timeout = aiohttp.ClientTimeout(total=_PATIENCE, sock_connect=5.0)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as http:
        if where.url:
            yield Asked(_at(http, where.url), namespace=_default_namespace(where))
            return
        config = load_config(where.kubeconfig, where.context)
        async with Client(config, user_agent="hotmap-cli", limits=_LIMITS) as client:
            fetch = await _find(client, http, where)
            yield Asked(fetch, namespace=client.namespace)


def _default_namespace(where: Where) -> str:
    try:
        return load_config(where.kubeconfig, where.context).namespace
    except SettingsError:
        return "default"


# -- ways to a controller ------------------------------------------------------------------------


def _at(http: aiohttp.ClientSession, url: str) -> _Fetch:
    async def fetch(query: Mapping[str, str]) -> bytes:
        try:
            async with http.get(f"{url.rstrip('/')}/v1/status", params=dict(query)) as response:
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise CannotTell(
                f"no controller answers at {url}: {str(error) or 'no answer in time'}"
            ) from error
        if response.status != 200:
            raise CannotTell(f"{url} answered {response.status} to /v1/status; is that hotmap?")
        return body

    return fetch


class _Port(msgspec.Struct, rename="camel"):
    name: str = ""
    container_port: int = 0


class _Container(msgspec.Struct):
    ports: list[_Port] | None = None


class _PodSpec(msgspec.Struct):
    containers: list[_Container] | None = None


class _PodStatus(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: ObjectMeta
    spec: _PodSpec
    status: _PodStatus


async def _find(client: Client, http: aiohttp.ClientSession, where: Where) -> _Fetch:
    pods = [pod for pod in await _pods(client, where) if pod.status.phase == "Running"]
    problems = []
    standbys = 0
    for pod in pods:
        fetch = _through_proxy(client, pod)
        try:
            document = _decode(await fetch({"limit": "1"}))
        except CannotTell as error:
            problems.append(str(error))
            continue
        if document.get("ready"):
            return fetch
        standbys += 1
    if standbys:
        who = f"all {standbys} controllers that answered stand"
        if standbys == 1:
            who = "the only controller that answered stands"
        raise CannotTell(
            f"{who} by; the one that leads cannot be reached or is not chosen yet: try again"
        )
    if problems:
        raise CannotTell(problems[0])
    return await _on_this_machine(client, http)


async def _pods(client: Client, where: Where) -> list[_Pod]:
    """List the controller's pods: in all namespaces where that may be seen, else in its own."""

    async def listed(namespace: str | None) -> list[_Pod]:
        page = await client.list_page(PODS, namespace, type=_Pod, label_selector=_SELECTOR)
        return page.items

    try:
        if where.controller_namespace:
            return await listed(where.controller_namespace)
        try:
            return await listed(None)
        except Forbidden:
            return await listed(DEFAULT_NAMESPACE)
    except Forbidden as error:
        raise CannotTell(
            f"the controller cannot be looked for: {error}; name its namespace with "
            "--controller-namespace, or its address with --url"
        ) from error
    except HotmapError as error:
        raise CannotTell(str(error)) from error


def _through_proxy(client: Client, pod: _Pod) -> _Fetch:
    namespace, name = pod.metadata.namespace, pod.metadata.name
    ports = [port for one in pod.spec.containers or () for port in one.ports or ()]
    port = next((one.container_port for one in ports if one.name == "metrics"), _PORT)
    path = f"{PODS.path(namespace, f'{name}:{port}')}/proxy/v1/status".replace("%3A", ":")

    async def fetch(query: Mapping[str, str]) -> bytes:
        try:
            return await client.request("GET", path, params=query)
        except (Forbidden, NotFound, ApiError) as error:
            raise CannotTell(
                f"Pod {namespace}/{name} cannot be asked through the API server: {error}; run "
                f"'kubectl --namespace={namespace} port-forward pod/{name} {port}' and add "
                f"--url http://127.0.0.1:{port}"
            ) from error
        except HotmapError as error:
            raise CannotTell(str(error)) from error

    return fetch


async def _on_this_machine(client: Client, http: aiohttp.ClientSession) -> _Fetch:
    nobody = (
        f"no controller of {client.server} was found: it runs no pod with the labels {_SELECTOR}, "
        f"and {_HERE} {{}}; start one with 'hotmap controller', or name its address with --url"
    )
    fetch = _at(http, _HERE)
    try:
        document = _decode(await fetch({"limit": "1"}))
    except CannotTell as error:
        raise CannotTell(nobody.format("does not answer")) from error
    if document.get("server") != client.server:
        raise CannotTell(nobody.format(f"follows {document.get('server')}"))
    return fetch


# -- answers -------------------------------------------------------------------------------------


def _decode(body: bytes) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise CannotTell("what answered is no controller of hotmap: no JSON object") from error
    if document.get("kind") != "ControllerStatus":
        raise CannotTell("what answered is no controller of hotmap, or one of an older version")
    return document


def _leading(document: dict[str, Any]) -> dict[str, Any]:
    if not document.get("ready"):
        raise CannotTell(
            "the controller that answered stands by, or still starts: ask the one that leads"
        )
    return document
