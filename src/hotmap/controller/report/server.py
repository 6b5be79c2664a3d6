"""The controller's HTTP servers: /metrics, /healthz (and /live), /readyz and /v1/status.

`/` lists them. Users with a token have a server of their own, with
/v1/status alone. Plain HTTP for scrapers and probes; read-only, without debug endpoints. The
command line prints the status document too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from hotmap.controller.report.status_access import TOKEN_HEADER
from hotmap.core.errors import BadRequest, Forbidden, HotmapError, SettingsError
from hotmap.core.text import printable
from hotmap.kube.http.server import Answer as HttpAnswer
from hotmap.kube.http.server import Handler, HttpServer, Question, describe_listen_error
from hotmap.kube.loop_slices import SHORT_SLICE, SLICE, LoopSlices

__all__ = ["Endpoints", "StatusServer"]

Answer = tuple[bool, dict[str, Any]]


#: What is served, as `/` describes it.
_DESCRIPTIONS = {
    "/metrics": "metrics, in the text format of Prometheus",
    "/healthz": "503 if a restart may help",
    "/live": "the same, with Reloader's answers",
    "/readyz": "503 until all watches are complete; the role of this replica",
    "/v1/status": "the followed workloads, as JSON; ?workload=NAMESPACE/NAME adds the pods of one",
}


#: The slices in which metrics and status are answered, and probes: however many requests clients
#: send, the Lease is renewed, and probes, which take little, do not wait for the others.
_answers = LoopSlices(SHORT_SLICE)
_probes = LoopSlices(SLICE)


class Endpoints(NamedTuple):
    """What the server serves; each is called for each request."""

    #: Renders the metrics, of `metrics_type`.
    metrics: Callable[[], bytes]
    metrics_type: str
    health: Callable[[], Answer]
    readiness: Callable[[], Answer]
    #: Returns the document for query parameters, or raises BadRequest.
    status: Callable[[Mapping[str, str]], Awaitable[dict[str, Any]]]
    #: The same for a user with a token in this header; may raise any HotmapError.
    user_status: Callable[[str, Mapping[str, str]], Awaitable[dict[str, Any]]]


class StatusServer:
    """Serves the controller's state until it is closed."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._servers: list[HttpServer] = []
        self.port = 0
        self.user_port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 picks a free one, and no host means every address of the machine.

        Raises:
            SettingsError: the address cannot be listened on.
        """
        self.port = await self._listen(
            host,
            port,
            {
                "/metrics": self._get_metrics,
                "/healthz": self._get_health,
                "/live": self._get_liveness,
                "/readyz": self._get_readiness,
                "/v1/status": self._get_status,
            },
            flag="--listen",
        )

    async def start_for_users(self, host: str, port: int) -> None:
        """Listen for users with a token; otherwise as `start`.

        Raises:
            SettingsError: the address cannot be listened on.
        """
        handlers = {"/v1/status": self._get_user_status}
        self.user_port = await self._listen(host, port, handlers, flag="--status-listen")

    async def _listen(
        self, host: str, port: int, handlers: Mapping[str, Handler], *, flag: str
    ) -> int:
        server = HttpServer({"/": partial(_get_index, tuple(handlers)), **handlers})
        self._servers.append(server)
        try:
            return await server.listen(host, port)
        except OSError as error:
            await self.close()
            raise SettingsError(
                f"cannot serve {_SERVED[flag]} on {host}:{port}: {describe_listen_error(error)}; "
                f"choose another address with {flag}, or {flag} none"
            ) from error

    async def close(self) -> None:
        """Stop listening."""
        for server in self._servers:
            await server.close()
        self._servers.clear()

    async def _get_metrics(self, question: Question) -> HttpAnswer:
        await _answers.share()
        return HttpAnswer(200, self._endpoints.metrics(), self._endpoints.metrics_type)

    async def _get_health(self, question: Question) -> HttpAnswer:
        await _probes.share()
        return _answer(self._endpoints.health())

    async def _get_liveness(self, question: Question) -> HttpAnswer:
        # Reloader's own probe and its answers.
        await _probes.share()
        healthy, _ = self._endpoints.health()
        return HttpAnswer(200, b"alive") if healthy else HttpAnswer(500, b"dead")

    async def _get_readiness(self, question: Question) -> HttpAnswer:
        await _probes.share()
        return _answer(self._endpoints.readiness())

    async def _get_status(self, question: Question) -> HttpAnswer:
        await _answers.share()
        try:
            return _json(await self._endpoints.status(_parameters(question)), 200)
        except BadRequest as error:
            return _json({"error": str(error)}, error.code)

    async def _get_user_status(self, question: Question) -> HttpAnswer:
        await _answers.share()
        header = question.headers.get(TOKEN_HEADER.lower()) or question.headers.get("authorization")
        try:
            return _json(
                await self._endpoints.user_status(header or "", _parameters(question)), 200
            )
        except (BadRequest, Forbidden) as error:
            return _failure(error.code, error.reason, str(error))
        except HotmapError as error:
            return _failure(503, "ServiceUnavailable", f"cannot verify the token: {error}")


async def _get_index(paths: Sequence[str], question: Question) -> HttpAnswer:
    width = max(map(len, paths))
    lines = [f"{path:{width}}  {_DESCRIPTIONS[path]}\n" for path in paths]
    return HttpAnswer(200, "".join(["hotmap controller\n\n", *lines]).encode())


def _parameters(question: Question) -> Mapping[str, str]:
    if question.repeated:
        name = printable(question.repeated[0], 40)
        raise BadRequest(f"parameter {name} is given more than once")
    return question.query


#: What is served at the address of a flag.
_SERVED = {"--listen": "metrics and health", "--status-listen": "the status"}


def _failure(code: int, reason: str, message: str) -> HttpAnswer:
    """Return an answer such as an API server's, so that its clients show the message."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return _json(status, code)


def _answer(answer: Answer) -> HttpAnswer:
    good, body = answer
    return _json(body, 200 if good else 503)


def _json(body: dict[str, Any], status: int) -> HttpAnswer:
    text = msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"
    return HttpAnswer(status, text, "application/json")
