"""What is served beside resources: discovery, OpenAPI, health, metrics, pages, keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hotmap.core.errors import NotFound, api_error
from hotmap.local.apiserver import discovery, metrics
from hotmap.local.apiserver.negotiation import DISCOVERY, JSON, negotiate_form, openapi_v2_form
from hotmap.local.apiserver.openapi import OpenAPI
from hotmap.local.apiserver.routes import not_allowed
from hotmap.local.apiserver.status_pages import StatusPages
from hotmap.local.apiserver.storage_codec import stored_value
from hotmap.local.http_server import web

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotmap.core.errors import ApiError
    from hotmap.local.apiserver.health import HealthChecks
    from hotmap.local.apiserver.metrics import RequestMetrics
    from hotmap.local.apiserver.registry import Registry
    from hotmap.local.service_tokens import TokenSigner

__all__ = ["PLAIN", "Documents"]

#: Headers of plain text (net/http: Error).
PLAIN = {"X-Content-Type-Options": "nosniff"}

_OPENID = ("/.well-known/openid-configuration", "/openid/v1/jwks")


class Documents:
    """The documents of one server."""

    def __init__(
        self,
        registry: Registry,
        health: HealthChecks,
        requests: RequestMetrics,
        *,
        signer: TokenSigner | None,
        flags: Mapping[str, str],
    ) -> None:
        self._registry = registry
        self._health = health
        self._requests = requests
        self._signer = signer
        self._pages = StatusPages(flags)
        self._openapi = OpenAPI(registry.scheme)

    def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request for no resource.

        Raises:
            ApiError: there is no such document, or not in a form that the client takes.
        """
        for find in (self._about_the_server, self._openid, self._raw, self._openapi_documents):
            found = find(request)
            if found is not None:
                return found
        return self._discovery(request)

    def _about_the_server(self, request: web.BaseRequest) -> web.StreamResponse | None:
        health = self._health.answer(request.path, request.query)
        if health is not None:
            return web.Response(text=health.text, status=health.status, headers=PLAIN)
        if request.path == "/metrics" and request.method == "DELETE":
            self._requests.reset()
            return web.Response(text="metrics reset\n", headers=PLAIN)
        if request.path == "/metrics":
            return _typed(metrics.render(self._requests, self._registry), metrics.CONTENT_TYPE)
        if request.path == "/metrics/slis":
            return _typed(metrics.render_health(self._health), metrics.CONTENT_TYPE)
        page = self._pages.page(request.path, request.headers.get("Accept", ""))
        if page is None:
            return None
        response = _typed(page.body, page.content_type)
        if page.warning:
            response.headers["Warning"] = f'299 - "{page.warning}"'
        return response

    def _openid(self, request: web.BaseRequest) -> web.StreamResponse | None:
        if request.path not in _OPENID or request.method != "GET" or self._signer is None:
            return None
        if request.path == _OPENID[1]:
            return _typed(msgspec.json.encode(self._signer.key_set()), "application/jwk-set+json")
        return _typed(msgspec.json.encode(self._signer.configuration(request.host)), JSON)

    def _raw(self, request: web.BaseRequest) -> web.StreamResponse | None:
        """Answer with a value as etcd holds it; ours, for `hotmap local get-raw`."""
        if not request.path.startswith(metrics.RAW) or request.method != "GET":
            return None
        key = request.path.removeprefix(metrics.RAW)
        value = stored_value(self._registry.store, key)
        if value is None:
            raise NotFound(f"key {key} not found")
        return web.Response(body=value, content_type="application/octet-stream")

    def _openapi_documents(self, request: web.BaseRequest) -> web.StreamResponse | None:
        if request.path == "/openapi/v2":
            return self._openapi_version_2(request)
        if request.path == "/openapi/v3" or request.path.startswith("/openapi/v3/"):
            return self._openapi_version_3(request)
        return None

    def _openapi_version_2(self, request: web.BaseRequest) -> web.StreamResponse:
        form = openapi_v2_form(request.headers.get("Accept", ""))
        wanted, body = self._openapi.version_2(protobuf=form != JSON)
        headers = {"Content-Type": form, "ETag": f'"{wanted}"', "Vary": "Accept"}
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, headers=headers)

    def _openapi_version_3(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path.removeprefix("/openapi/v3").strip("/")
        if not path:
            return _typed(msgspec.json.encode(self._openapi.index()), JSON)
        wanted = self._openapi.hash(path)
        if wanted is None:
            return web.Response(status=404, text="404 page not found\n")
        headers = {"Content-Type": JSON, "ETag": f'"{wanted}"', "Vary": "Accept"}
        sent = request.query.get("hash")
        if sent is not None and sent != wanted:
            location = f"/openapi/v3/{path}?hash={wanted}"
            return web.Response(status=301, headers={"Location": location})
        if sent is not None:
            # The document of a hash never changes (kube-openapi: handler3).
            headers["Cache-Control"] = "public, immutable"
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=304, headers=headers)
        return web.Response(body=self._openapi.document(path), headers=headers)

    def _discovery(self, request: web.BaseRequest) -> web.StreamResponse:
        aggregated = (
            request.path in ("/api", "/apis")
            and negotiate_form(request.headers.get("Accept", "")) == "discovery"
        )
        document = discovery.document(
            self._registry.scheme, request.path, aggregated=aggregated, address=request.host
        )
        if document is None:
            if _is_group_version(request.path):
                raise _no_resource()
            return web.Response(status=404, text="404 page not found\n", headers=PLAIN)
        if request.method != "GET" and request.path != "/":
            raise not_allowed()
        headers = {"Content-Type": DISCOVERY, "Vary": "Accept"}
        encoded = msgspec.json.encode(document)
        if request.path.rstrip("/") in ("", "/version"):
            # For people (apiserver: WriteRawJSON).
            encoded = msgspec.json.format(encoded, indent=2)
        return web.Response(body=encoded, headers=headers if aggregated else {"Content-Type": JSON})


def _typed(body: bytes, content_type: str) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": content_type})


def _is_group_version(path: str) -> bool:
    """Return whether a path is that of a group's version, which upstream has a handler for."""
    parts = path.strip("/").split("/")
    return len(parts) == 3 and parts[0] == "apis"


def _no_resource() -> ApiError:
    text = "the server could not find the requested resource"
    return api_error(404, text, reason="NotFound")
