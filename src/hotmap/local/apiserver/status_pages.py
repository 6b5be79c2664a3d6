"""The pages /flagz and /statusz: what a server was started with, and since when it runs.

apiserver/pkg/server/{flagz,statusz}: text for people, objects for those who ask for them.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hotmap.core.errors import api_error
from hotmap.local.apiserver.negotiation import JSON, YAML, as_yaml
from hotmap.local.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Page", "StatusPages"]

_TEXT = "text/plain; charset=utf-8"
_GROUP = "config.k8s.io"
_VERSIONS = ("v1beta1", "v1alpha1")
_HEAD = (
    "\napiserver {name}\nWarning: This endpoint is not meant to be machine parseable, has no "
    "formatting compatibility guarantees and is for debugging purposes only.\n"
)
# Those that the root lists.
_LISTED = ("/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version")


class Page(NamedTuple):
    """The answer to a request for a page."""

    body: bytes
    content_type: str
    warning: str = ""


class StatusPages:
    """The two pages of one server; *flags* are its settings under upstream's names."""

    def __init__(self, flags: Mapping[str, str]) -> None:
        self._flags = dict(sorted(flags.items()))
        self._started = time.time()

    def page(self, path: str, accept: str) -> Page | None:
        """Return what a path is answered with; None where it is that of no page.

        Raises:
            ApiError: 406, the page does not have any of the forms that *accept* lists.
        """
        if path == "/flagz":
            text = "".join(f"{name}={value}\n" for name, value in self._flags.items())
            return _negotiated("flagz", accept, text, {"flags": self._flags})
        if path == "/statusz":
            return _negotiated("statusz", accept, self._status_text(), self._status())
        return None

    def _status(self) -> dict[str, Any]:
        number, _, _ = VERSION["gitVersion"].removeprefix("v").partition("+")
        return {
            "startTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._started)),
            "uptimeSeconds": int(time.time() - self._started),
            "goVersion": VERSION["goVersion"],
            "binaryVersion": number,
            "emulationVersion": f"{VERSION['major']}.{VERSION['minor']}",
            "paths": list(_LISTED),
        }

    def _status_text(self) -> str:
        status = self._status()
        up: int = status["uptimeSeconds"]
        started = time.strftime("%a %b %e %H:%M:%S UTC %Y", time.gmtime(self._started))
        lines = {
            "Started": started,
            "Up": f"{up // 3600} hr {up // 60 % 60:02d} min {up % 60:02d} sec",
            "Go version": status["goVersion"],
            "Binary version": status["binaryVersion"],
            "Emulation version": status["emulationVersion"],
            "Paths": " ".join(status["paths"]),
        }
        return "\n" + "".join(f"{name}= {value}\n" for name, value in lines.items())


def _negotiated(name: str, accept: str, text: str, content: dict[str, Any]) -> Page:
    kind = name.capitalize()
    for media, parameters in _clauses(accept):
        if media in ("", "*/*", "text/*", "text/plain"):
            return Page((_HEAD.format(name=name) + text).encode(), _TEXT)
        version = parameters.get("v", "")
        asked = (parameters.get("as"), parameters.get("g"))
        if media in (JSON, YAML) and asked == (kind, _GROUP) and version in _VERSIONS:
            head = {"kind": kind, "apiVersion": f"{_GROUP}/{version}"}
            found = {**head, "metadata": {"name": "apiserver"}, **content}
            body = msgspec.json.encode(found)
            warning = ""
            if version != _VERSIONS[0]:
                warning = f"This version of the {name} endpoint is deprecated. "
                warning += "Please use a newer version."
            form = f"{media};g={_GROUP};v={version};as={kind}"
            return Page(as_yaml(body) if media == YAML else body + b"\n", form, warning)
    raise api_error(
        406,
        f"only the following media types are accepted: {JSON}, {YAML}, text/plain",
        reason="NotAcceptable",
    )


def _clauses(accept: str) -> Iterable[tuple[str, dict[str, str]]]:
    for clause in accept.split(","):
        media, *parameters = re.split(r"\s*;\s*", clause.strip())
        yield media, dict(each.partition("=")[::2] for each in parameters)
