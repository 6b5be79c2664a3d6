"""Admission webhooks: servers that are asked before something is written.

apiserver/pkg/admission/plugin/webhook. A call waits, so a write with webhooks has three steps: the
object as it would be written (a dry run), the calls, and the write on the condition that the object
is still the one that was decided on.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import uuid
from copy import deepcopy
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from hotmap.core.errors import ApiError, NotFound, api_error
from hotmap.core.text import quote
from hotmap.local.apiserver.admission_match import (
    Operation,
    StoredObjects,
    has_rule,
    is_selected,
    matches_rules,
    namespace_of,
    review_request,
)
from hotmap.local.apiserver.expressions import ExpressionError, first_false, variables_of
from hotmap.local.apiserver.patch import json_patch
from hotmap.local.apiserver.status import forbidden
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotmap.local.apiserver.reader import ObjectReader
    from hotmap.local.scheme import Kind, Scheme
    from hotmap.local.store import Store

__all__ = ["Operation", "Webhooks"]


_GROUP = "admissionregistration.k8s.io"
_KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_TIMEOUT = 10
_REVIEW_VERSION = "admission.k8s.io/v1"


class Webhooks:
    """The webhooks of the configurations in a store."""

    def __init__(self, store: Store, reader: ObjectReader) -> None:
        self._reader = reader
        kinds = [_resource(reader.scheme, plural) for plural in _KINDS]
        self._configurations = StoredObjects(store, kinds)

    def concern(self, kind: Kind, verb: str, subresource: str) -> bool:
        """Return whether any webhook may have to be asked about a write."""
        if kind.group == _GROUP:
            return False
        return any(
            has_rule(webhook.get("rules"), kind, verb, subresource)
            for configurations in self._configurations.current()
            for webhook in _webhooks(configurations)
        )

    async def mutate(self, operation: Operation) -> JsonObject | None:
        """Let each mutating webhook change an object, one after the other; return the result.

        Raises:
            ApiError: a webhook refuses the write, or one that must be asked does not answer.
        """
        for webhook in self._matching(0, operation):
            response = await self._ask(webhook, operation)
            patch = response.get("patch")
            if patch and operation.obj is not None:
                try:
                    steps = msgspec.json.decode(base64.b64decode(patch))
                    changed = json_patch(deepcopy(operation.obj), steps)
                except (ValueError, ApiError, msgspec.DecodeError) as error:
                    text = f"failed to apply the patch of {webhook['name']}: {error}"
                    raise _internal(text) from None
                operation = operation._replace(obj=changed)
        return operation.obj

    async def validate(self, operation: Operation) -> None:
        """Ask all validating webhooks at once.

        Raises:
            ApiError: one refuses the write, or one that must be asked does not answer.
        """
        calls = [self._ask(webhook, operation) for webhook in self._matching(1, operation)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _matching(self, which: int, operation: Operation) -> Iterator[JsonObject]:
        for webhook in _webhooks(self._configurations.current()[which]):
            if not matches_rules(webhook.get("rules"), operation):
                continue
            if is_selected(webhook, operation, self._reader) and self._holds(webhook, operation):
                yield webhook

    def _holds(self, webhook: JsonObject, operation: Operation) -> bool:
        """Return whether the conditions of a webhook hold.

        Raises:
            Forbidden: that is unknown, and the webhook must be asked.
        """
        conditions = webhook.get("matchConditions")
        if not conditions:
            return True
        namespace = namespace_of(operation, self._reader)
        request = review_request(operation, str(uuid.uuid4()))
        try:
            return first_false(conditions, variables_of(operation, request, namespace)) is None
        except ExpressionError as error:
            if webhook.get("failurePolicy") == "Ignore":
                return False
            name = operation.name
            raise forbidden(operation.path.kind, name, str(error)) from None

    async def _ask(self, webhook: JsonObject, operation: Operation) -> JsonObject:
        """Call a webhook; return its response.

        Raises:
            ApiError: it refuses, or does not answer and must be asked.
        """
        name = webhook["name"]
        if operation.dry_run and webhook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            text = f"admission webhook {quote(name)} does not support dry run"
            raise api_error(400, text, reason="BadRequest")
        request = review_request(operation, str(uuid.uuid4()))
        review = {"kind": "AdmissionReview", "apiVersion": _REVIEW_VERSION, "request": request}
        try:
            response = await self._call(webhook, review)
            if response.get("uid") != request["uid"]:
                raise ValueError(f"expected response.uid={quote(request['uid'])}")
        except (OSError, TimeoutError, ValueError, msgspec.DecodeError) as error:
            if webhook.get("failurePolicy") == "Ignore":
                return {}
            text = f"failed calling webhook {quote(name)}: failed to call webhook: {error}"
            raise _internal(text) from None
        if not response.get("allowed"):
            raise _denial(name, response.get("status") or {})
        return response

    async def _call(self, webhook: JsonObject, review: JsonObject) -> JsonObject:
        from hotmap.local.http_library import aiohttp

        client = webhook.get("clientConfig") or {}
        url, server_name = self._address(client)
        bundle = client.get("caBundle")
        authority = base64.b64decode(bundle).decode() if bundle else None
        context = ssl.create_default_context(cadata=authority)
        # Python 3.13 requires extensions that kube-apiserver does not.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        seconds = webhook.get("timeoutSeconds") or _TIMEOUT
        timeout = aiohttp.ClientTimeout(total=seconds)
        url += f"{'&' if '?' in url else '?'}timeout={seconds}s"
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(
                    url,
                    data=msgspec.json.encode(review),
                    headers={"Content-Type": "application/json"},
                    ssl=context,
                    server_hostname=server_name,
                ) as answer,
            ):
                body = await answer.read()
                if answer.status != 200:
                    raise ValueError(f"the server answered with status {answer.status}")
        except (aiohttp.ClientError, TimeoutError) as error:
            parts = urlsplit(url)
            shown = parts._replace(netloc=f"{server_name}:{parts.port}") if server_name else parts
            why = "context deadline exceeded" if isinstance(error, TimeoutError) else str(error)
            raise OSError(f'Post "{shown.geturl()}": {why}') from None
        found = msgspec.json.decode(body)
        if not isinstance(found, dict) or not isinstance(found.get("response"), dict):
            raise ValueError("webhook response was absent")
        response: JsonObject = found["response"]
        return response

    def _address(self, client: JsonObject) -> tuple[str, str | None]:
        """Return the URL of a webhook, and the name in the certificate of a Service."""
        if client.get("url"):
            return str(client["url"]), None
        service = client.get("service") or {}
        namespace, name = service.get("namespace", ""), service.get("name", "")
        kind = self._reader.scheme.resource("services")
        try:
            entry = self._reader.entry(kind, namespace, name)
        except NotFound:
            raise OSError(f'service "{name}" not found') from None
        address = msgspec.json.decode(entry.value or b"")["spec"].get("clusterIP")
        path = (service.get("path") or "").lstrip("/")
        port = service.get("port") or 443
        return f"https://{address}:{port}/{path}", f"{name}.{namespace}.svc"


def _resource(scheme: Scheme, plural: str) -> Kind:
    return scheme.resource(f"{plural}.{_GROUP}")


def _webhooks(configurations: list[JsonObject]) -> Iterator[JsonObject]:
    for configuration in configurations:
        yield from configuration.get("webhooks") or ()


def _denial(name: str, status: JsonObject) -> ApiError:
    """pkg/admission/plugin/webhook/errors/statuserror.go."""
    text = f"admission webhook {quote(name)} denied the request"
    if status.get("message"):
        text += f": {status['message']}"
    elif status.get("reason"):
        text += f": {status['reason']}"
    else:
        text += " without explanation"
    code = status.get("code") or 403
    return api_error(
        code if isinstance(code, int) and 400 <= code < 600 else 403,
        text,
        reason=str(status.get("reason") or ("Forbidden" if code == 403 else "")),
        details=status.get("details") or {},
    )


def _internal(text: str) -> ApiError:
    causes = {"causes": [{"message": text}]}
    return api_error(
        500, f"Internal error occurred: {text}", reason="InternalError", details=causes
    )
