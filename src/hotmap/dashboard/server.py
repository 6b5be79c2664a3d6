"""Serves the page, and what it shows as JSON, to the browsers of one person.

The person's permissions are behind it, so it answers only who has the token in the URL, and no
page of another site: the Host of a request must be an address or localhost, since a name can be
made to resolve to this machine.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec

from hotmap.core.status.status_document import StatusDocument
from hotmap.core.text import parse_number
from hotmap.dashboard.map import View, build_map, hide_states
from hotmap.dashboard.panel import source_panel, workload_panel
from hotmap.dashboard.polls import Known, Polls
from hotmap.kube.http.server import Answer, Handler, HttpServer, Question

__all__ = ["DashboardServer", "Scope"]

_FILES = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}

#: Nothing of another origin, no inline script or style, and no markup made from text.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)

_HEADERS = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)

#: Workloads that a page shows one by one, by default and at most; a browser draws no more at once.
_ROWS, _MOST_ROWS = View().rows, 1000

#: Characters of a filter.
_LONGEST_FILTER = 200


class Scope(NamedTuple):
    """What the dashboard is about."""

    #: "" for all.
    namespace: str
    #: Flags that select the cluster, for commands that are shown.
    flags: Sequence[str] = ()
    #: URL of the API server by which the controller is found; "" if it is not found by one.
    server: str = ""

    @property
    def query(self) -> dict[str, str]:
        """The query of the status."""
        query = {"sources": "true", "limit": "5000"}
        return {**query, "namespace": self.namespace} if self.namespace else query

    @property
    def text(self) -> str:
        """The scope in words."""
        return f"namespace {self.namespace}" if self.namespace else "all namespaces"

    @property
    def opt_in(self) -> str:
        """The command by which a workload is followed."""
        place = f" --namespace {self.namespace}" if self.namespace else ""
        return f"kubectl annotate deployment NAME hotmap.dev/follow=auto{place}"


class DashboardServer:
    """Serves the dashboard until it is closed."""

    def __init__(self, polls: Polls, scope: Scope) -> None:
        self._polls = polls
        self._scope = scope
        #: Part of the URL, since other users of this machine can connect as well.
        self.token = secrets.token_urlsafe(16)
        static = files("hotmap.dashboard") / "static"
        self._contents = {name: (static / file).read_bytes() for name, (file, _) in _FILES.items()}
        paths: dict[str, Handler] = {
            f"/{self.token}/{name}": self._guarded(self._serve_file) for name in _FILES
        }
        paths[f"/{self.token}/map"] = self._guarded(self._serve_map)
        self._server = HttpServer({"/": _refuse_without_token, **paths})

    async def listen(self, host: str, port: int) -> int:
        """Listen; returns the port, a free one for 0.

        Raises:
            OSError: the address cannot be listened on.
        """
        return await self._server.listen(host, port)

    async def close(self) -> None:
        """Stop listening and fetching."""
        await self._server.close()
        await self._polls.close()

    def _guarded(self, handler: Handler) -> Handler:
        async def answer(question: Question) -> Answer:
            if not _is_address(question.headers.get("host", "")):
                text = b"refused: open the dashboard by an IP address or as localhost\n"
                return Answer(403, text, headers=_HEADERS)
            return (await handler(question))._replace(headers=_HEADERS)

        return answer

    async def _serve_file(self, question: Question) -> Answer:
        name = question.path.rpartition("/")[2]
        return Answer(200, self._contents[name], _FILES[name][1])

    async def _serve_map(self, question: Question) -> Answer:
        view = read_view(question.query)
        known = await self._polls.get(self._scope.query)
        body: dict[str, Any] = {
            "scope": self._scope.text,
            "problem": known.problem,
            "age": round(known.age, 1),
            "server": self._server_name(known.document),
            "optIn": self._scope.opt_in,
            "map": None,
            "panel": None,
        }
        if known.document is not None:
            drawn = build_map(known.document, view)
            body["map"] = hide_states(drawn) if known.problem else drawn
        if known.document is not None and view.selected and not known.problem:
            body["panel"] = await self._panel(known.document, view.selected)
        return Answer(200, msgspec.json.encode(body), "application/json")

    def _server_name(self, document: StatusDocument | None) -> str:
        """Name the cluster: a controller in a Pod knows only the Service of its API server."""
        return self._scope.server or (document.server if document else "")

    async def _panel(self, document: StatusDocument, selected: str) -> dict[str, Any]:
        """Describe what is selected; a workload in full, with one more request."""
        if (panel := source_panel(document, selected, self._scope.flags)) is not None:
            return panel
        detail = await self._polls.get({"workload": selected, "consistent": "true"})
        if detail.document and detail.document.workloads and not detail.problem:
            workload = detail.document.workloads[0]
            return workload_panel(detail.document, workload, self._scope.flags)
        return {"title": selected, "reason": _describe_absence(detail)}


def _describe_absence(detail: Known) -> str:
    return detail.problem or "hotmap follows no such workload, and none that uses such a source"


def read_view(query: Mapping[str, str]) -> View:
    """Read the parameters of a page's URL; what cannot be read is left out."""
    rows = parse_number(query.get("rows", "")) or _ROWS
    return View(
        filter=query.get("filter", "")[:_LONGEST_FILTER],
        states=frozenset(filter(None, query.get("state", "").split(","))),
        rows=min(rows, _MOST_ROWS),
        selected=query.get("select", ""),
    )


def _is_address(host: str) -> bool:
    """Return whether a Host header has an IP address or localhost, with any port.

    A port that is forwarded differs from the one that is listened on.
    """
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if name.lower() == "localhost":
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


async def _refuse_without_token(question: Question) -> Answer:
    text = b"open the URL that 'hotmap dashboard' has printed; it contains a token\n"
    return Answer(404, text, headers=_HEADERS)
