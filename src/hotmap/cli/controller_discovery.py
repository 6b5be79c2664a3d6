"""Finds the controller of a cluster, to get its status.

In this order, so that no answer can come from the controller of another cluster:

1. the URL in `--url`
2. the controller's Pods in the cluster of the kubeconfig, through the API server's proxy; this
   needs permission to list pods and to get `pods/proxy`, and no port forwarding
3. without it, the controller's Service, through the same proxy: it shows the namespaces that the
   caller may read, by the caller's token, so it is only asked in the namespace of the controller
4. a controller on this machine at its default address, if it serves that cluster and no namespace
   of the controller is named
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import msgspec

from hotmap.cli.shared_options import ControllerAddress
from hotmap.cli.status_response import (
    ControllerAway,
    StatusUnavailable,
    decode_response,
    refusal_text,
    unavailable,
)
from hotmap.controller.addresses import DEFAULT_HOST, DEFAULT_NAMESPACE, DEFAULT_PORT
from hotmap.controller.report.status_access import TOKEN_HEADER
from hotmap.core.errors import (
    ApiError,
    Forbidden,
    HotmapError,
    NotFound,
    Throttled,
    Unavailable,
)
from hotmap.core.model.objects import ObjectMeta
from hotmap.kube.client import Client, Limits
from hotmap.kube.http.errors import HttpError
from hotmap.kube.http.fetch import fetch as fetch_url
from hotmap.kube.resources import PODS

__all__ = ["LIMITS", "Fetch", "fetch_from_url", "find_controller"]

_SELECTOR = "app.kubernetes.io/name=hotmap,app.kubernetes.io/component=controller"

#: Where a controller on this machine listens by default, without and with --reloader-compat.
_LOCAL_URLS = (f"http://{DEFAULT_HOST}:{DEFAULT_PORT}", f"http://{DEFAULT_HOST}:9090")

#: The controller's Service and its port for users (deploy/base), and how often it is asked: of two
#: replicas behind it, one is a standby.
_SERVICE = "hotmap:status"
_STANDBYS = 8

#: Seconds for one answer: a large page over a slow connection.
_TIMEOUT = 20.0

#: Bytes of one page, which has a few hundred workloads.
_LARGEST_PAGE = 256 << 20

#: Seconds for connecting.
_CONNECT_TIMEOUT = 5.0

#: Those of the client that finds a controller through the API server.
LIMITS = Limits(connect=_CONNECT_TIMEOUT, attempt=_TIMEOUT, attempts=2)


class Fetch(Protocol):
    """Gets one page of the status from a controller that was found.

    Raises:
        StatusUnavailable: there is no answer, or it is not one of a controller.
    """

    async def __call__(self, query: Mapping[str, str]) -> bytes: ...


def fetch_from_url(url: str) -> Fetch:
    """Return how to get the status from the controller at a URL.

    What is returned raises ControllerAway if no controller answers there now, so that a later
    attempt may succeed, and StatusUnavailable for any other answer than a status.
    """

    async def fetch(query: Mapping[str, str]) -> bytes:
        page = f"{url.rstrip('/')}/v1/status"
        try:
            async with asyncio.timeout(_TIMEOUT):
                status, body = await fetch_url(
                    page, query, connect_timeout=_CONNECT_TIMEOUT, at_most=_LARGEST_PAGE
                )
        except (HttpError, TimeoutError, ValueError) as error:
            raise ControllerAway(
                f"no controller answers at {url}: {str(error) or 'timed out'}"
            ) from error
        if status == 400 and (problem := refusal_text(body)):
            raise StatusUnavailable(f"the controller at {url}: {problem}")
        if status != 200:
            kind = ControllerAway if status >= 500 else StatusUnavailable
            raise kind(f"{url}/v1/status answered {status}: not a hotmap controller")
        return body

    return fetch


class _Port(msgspec.Struct, rename="camel"):
    name: str = ""
    container_port: int = 0


class _Container(msgspec.Struct):
    ports: list[_Port] | None = None


class _PodSpec(msgspec.Struct):
    containers: list[_Container] | None = None


class _Waiting(msgspec.Struct):
    reason: str = ""


class _ContainerState(msgspec.Struct):
    waiting: _Waiting | None = None
    running: Any = None


class _ContainerStatus(msgspec.Struct):
    state: _ContainerState = msgspec.field(default_factory=_ContainerState)


class _PodStatus(msgspec.Struct, rename="camel"):
    phase: str = ""
    container_statuses: list[_ContainerStatus] | None = None

    @property
    def problem(self) -> str:
        """Why no container runs; "" if one does."""
        states = [status.state for status in self.container_statuses or ()]
        runs = not states or any(state.running is not None for state in states)
        if runs and self.phase == "Running":
            return ""
        reasons = [state.waiting.reason for state in states if state.waiting]
        return next(filter(None, reasons), self.phase if self.phase != "Running" else "restarting")


class _Pod(msgspec.Struct):
    metadata: ObjectMeta
    spec: _PodSpec
    status: _PodStatus


async def find_controller(client: Client, address: ControllerAddress) -> Fetch:
    """Find the leader; returns how to get the status from it.

    Raises:
        StatusUnavailable: there is none, or it does not answer.
    """
    try:
        found = _of_one_namespace(await _pods(client, address), client.namespace)
        pods = [pod for pod in found if not pod.status.problem]
    except StatusUnavailable as error:
        return await _through_service(client, address, error)
    answers = await _find_leader([_through_proxy(client, pod) for pod in pods])
    if answers.leader is not None:
        return answers.leader
    problems, standbys = answers.problems, answers.standbys
    for problem in problems:
        if isinstance(problem.__cause__, Forbidden):
            return await _through_service(client, address, problem)
    if standbys:
        who = f"all {standbys} controllers that answered are standbys"
        if standbys == 1:
            who = "the only controller that answered is a standby"
        raise ControllerAway(f"{who}; the leader is not reachable or not elected yet: try again")
    if problems:
        raise problems[0]
    try:
        return await _local(client, address)
    except StatusUnavailable as error:
        if not found:
            raise
        pod = found[-1]
        namespace, name = pod.metadata.namespace, pod.metadata.name
        raise ControllerAway(
            f"the controller's Pod {namespace}/{name} does not run ({pod.status.problem}); see "
            f"'kubectl --namespace={namespace} describe pod {name}'"
        ) from error


class _Answers(NamedTuple):
    leader: Fetch | None
    standbys: int
    problems: list[StatusUnavailable]


async def _find_leader(pods: list[Fetch]) -> _Answers:
    """Ask all Pods at once, so that one that hangs does not delay the answer of the leader."""

    async def fetch_if_leader(fetch: Fetch) -> Fetch | None:
        return fetch if decode_response(await fetch({"limit": "1"})).get("ready") else None

    tasks = [asyncio.create_task(fetch_if_leader(fetch)) for fetch in pods]
    leader, standbys = None, 0
    problems: list[StatusUnavailable] = []
    try:
        for answer in asyncio.as_completed(tasks):
            try:
                leader = await answer
            except StatusUnavailable as error:
                problems.append(error)
                continue
            if leader is not None:
                break
            standbys += 1
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return _Answers(leader, standbys, problems)


def _of_one_namespace(pods: list[_Pod], current: str) -> list[_Pod]:
    """Select the Pods of one namespace.

    Anyone who may create a Pod can give it a controller's labels. So of several namespaces only the
    default one counts, or the current one.

    Raises:
        StatusUnavailable: there are others alone.
    """
    namespaces = sorted({pod.metadata.namespace for pod in pods})
    for known in (DEFAULT_NAMESPACE, current):
        if known in namespaces:
            return [pod for pod in pods if pod.metadata.namespace == known]
    if len(namespaces) > 1:
        shown = ", ".join(namespaces[:3]) + (" …" if len(namespaces) > 3 else "")
        raise StatusUnavailable(
            f"Pods with the labels of a controller are in several namespaces ({shown}); set"
            " --controller-namespace to the one of yours"
        )
    return pods


async def _pods(client: Client, address: ControllerAddress) -> list[_Pod]:
    """List the controller's Pods: in all namespaces if permitted, else where it may be."""

    async def list_pods(namespace: str | None) -> list[_Pod]:
        page = await client.list_page(PODS, namespace, type=_Pod, label_selector=_SELECTOR)
        return page.items

    places = [address.controller_namespace]
    if not address.controller_namespace:
        places = ["", *dict.fromkeys((client.namespace, DEFAULT_NAMESPACE))]
    refused: Forbidden | None = None
    for place in places:
        try:
            pods = await list_pods(place or None)
        except Forbidden as error:
            refused = error
            continue
        except (Throttled, Unavailable) as error:
            # A Status of the API server does not name the server.
            named = "" if client.server in str(error) else f"{client.server}: "
            problem = f"cannot list the controller's Pods: {named}{error}"
            raise unavailable(problem, error) from error
        except HotmapError as error:
            raise unavailable(str(error), error) from error
        if pods or not place:
            return pods
    if refused is not None:
        raise StatusUnavailable(
            f"cannot list the controller's Pods: {refused}; set --controller-namespace to its "
            "namespace, or --url to its address"
        ) from refused
    return []


async def _through_service(
    client: Client, address: ControllerAddress, refused: StatusUnavailable
) -> Fetch:
    """Ask the controller's Service, which answers for the namespaces that the caller may read.

    Its token goes to the controller, so no other namespace than the controller's is tried: who may
    make a Service in the caller's namespace must not get it.

    Raises:
        StatusUnavailable: the one that was `refused`, where it is not about a permission, or the
            caller has no token to show.
    """
    if not isinstance(refused.__cause__, Forbidden):
        raise refused
    namespace = address.controller_namespace or DEFAULT_NAMESPACE
    if client.impersonates or not await client.authorization():
        raise refused
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/services/{_SERVICE}/proxy/v1/status"

    async def fetch(query: Mapping[str, str]) -> bytes:
        for _ in range(_STANDBYS):
            try:
                body = await client.request(
                    "GET",
                    path,
                    params=query,
                    headers={TOKEN_HEADER: await client.authorization()},  # it may expire
                    at_most=_LARGEST_PAGE,
                )
            except NotFound as error:
                raise StatusUnavailable(
                    f"no controller found for {client.server}: namespace {namespace} has no Service"
                    f" {_SERVICE.partition(':')[0]}; set --controller-namespace to the"
                    " controller's namespace, or --url to its address"
                ) from error
            except HotmapError as error:
                # By the API server, and not by the controller, which may be in another namespace.
                is_guess = isinstance(error, Forbidden) and error.details.get("kind") == "services"
                if is_guess and not address.controller_namespace:
                    raise refused from error
                raise unavailable(str(error), error) from error
            if decode_response(body).get("ready"):
                break
        return body

    return fetch


def _through_proxy(client: Client, pod: _Pod) -> Fetch:
    namespace, name = pod.metadata.namespace, pod.metadata.name
    ports = [port for container in pod.spec.containers or () for port in container.ports or ()]
    port = next((port.container_port for port in ports if port.name == "metrics"), DEFAULT_PORT)
    path = f"{PODS.path(namespace, f'{name}:{port}')}/proxy/v1/status".replace("%3A", ":")

    async def fetch(query: Mapping[str, str]) -> bytes:
        try:
            return await client.request("GET", path, params=query, at_most=_LARGEST_PAGE)
        except (Forbidden, NotFound, ApiError) as error:
            advice = (
                f"; run 'kubectl --namespace={namespace} port-forward pod/{name} {port}' and add "
                f"--url http://127.0.0.1:{port}"
            )
            if isinstance(error, NotFound) and error.details.get("kind") == "pods":
                advice = ""  # it was replaced, as by an update
            raise unavailable(
                f"cannot reach Pod {namespace}/{name} through the API server: {error}{advice}",
                error,
            ) from error
        except HotmapError as error:
            raise unavailable(str(error), error) from error

    return fetch


async def _local(client: Client, address: ControllerAddress) -> Fetch:
    if address.controller_namespace:
        raise ControllerAway(
            f"no controller found for {client.server}: no Pod in namespace "
            f"{address.controller_namespace} has the labels {_SELECTOR}; set --controller-namespace"
            " to the controller's namespace, or omit it"
        )
    found, is_away = [], True
    for url in _LOCAL_URLS:
        fetch = fetch_from_url(url)
        try:
            document = decode_response(await fetch({"limit": "1"}))
        except ControllerAway:
            found.append(f"{url} does not answer")
        except StatusUnavailable:
            found.append(f"{url} is not a hotmap controller")
        else:
            if document.get("server") == client.server:
                return fetch
            found.append(f"{url} serves {document.get('server')}")
            is_away = False
    problem = ControllerAway if is_away else StatusUnavailable
    raise problem(
        f"no controller found for {client.server}: no Pod there has the labels {_SELECTOR}, "
        f"{' and '.join(found)}; start one with 'hotmap controller', or set --url to its address"
    )
