"""Admission webhooks: servers that are asked before something is written.

apiserver/pkg/admission/plugin/webhook. A call waits, so a write with webhooks has three steps: the
object as it would be written (a dry run), the calls, and the write on the condition that the object
is still the one that was decided on. Conditions in CEL (`matchConditions`) are not evaluated.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import uuid
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hotmap.core.errors import ApiError, NotFound, api_error
from hotmap.core.text import quote
from hotmap.local.apiserver.patch import json_patch
from hotmap.local.selectors import matches_label_selector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotmap.local.access import UserInfo
    from hotmap.local.apiserver.reader import ObjectReader
    from hotmap.local.apiserver.routes import ResourcePath
    from hotmap.local.scheme import Kind, Scheme
    from hotmap.local.store import Store, Watch

__all__ = ["Operation", "Webhooks"]

JsonObject = dict[str, Any]

_GROUP = "admissionregistration.k8s.io"
_KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_TIMEOUT = 10
_REVIEW_VERSION = "admission.k8s.io/v1"


class Operation(NamedTuple):
    """A write that webhooks are asked about; `obj` is None at a deletion, `old` at a create."""

    verb: str
    path: ResourcePath
    user: UserInfo
    dry_run: bool
    obj: JsonObject | None
    old: JsonObject | None


class Webhooks:
    """The webhooks of the configurations in a store."""

    def __init__(self, store: Store, reader: ObjectReader) -> None:
        self._store = store
        self._reader = reader
        self._kinds = [_resource(reader.scheme, plural) for plural in _KINDS]
        self._watches: list[Watch] = []
        # Configurations by kind, those of equal order by their names; None until they are read.
        self._configurations: list[list[JsonObject]] | None = None

    def concern(self, kind: Kind, verb: str, subresource: str) -> bool:
        """Return whether any webhook may have to be asked about a write."""
        if kind.group == _GROUP:
            return False
        return any(
            _has_rule(webhook, kind, verb, subresource)
            for configurations in self._current()
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

    def _current(self) -> list[list[JsonObject]]:
        if self._configurations is None or any(w.take() or w.ended for w in self._watches):
            for watch in self._watches:
                watch.close()
            since = self._store.revision
            self._watches = [self._store.watch(k.prefix(None), since=since) for k in self._kinds]
            self._configurations = [
                [
                    msgspec.json.decode(entry.value or b"")
                    for entry in self._store.range(kind.prefix(None)).entries
                ]
                for kind in self._kinds
            ]
        return self._configurations

    def _matching(self, which: int, operation: Operation) -> Iterator[JsonObject]:
        for webhook in _webhooks(self._current()[which]):
            path = operation.path
            has_rule = _has_rule(webhook, path.kind, operation.verb, path.subresource)
            if has_rule and self._is_selected(webhook, operation):
                yield webhook

    def _is_selected(self, webhook: JsonObject, operation: Operation) -> bool:
        selector = webhook.get("objectSelector") or {}
        shown = [obj for obj in (operation.obj, operation.old) if obj is not None]
        labels = [obj["metadata"].get("labels") or {} for obj in shown]
        if selector and not any(matches_label_selector(selector, each) for each in labels):
            return False
        selector = webhook.get("namespaceSelector") or {}
        path = operation.path
        if not selector or not path.kind.namespaced:
            return True
        namespaces = self._reader.scheme.resource("namespaces")
        try:
            entry = self._reader.entry(namespaces, None, path.namespace or "")
        except NotFound:
            return False
        namespace = msgspec.json.decode(entry.value or b"")
        return matches_label_selector(selector, namespace["metadata"].get("labels") or {})

    async def _ask(self, webhook: JsonObject, operation: Operation) -> JsonObject:
        """Call a webhook; return its response.

        Raises:
            ApiError: it refuses, or does not answer and must be asked.
        """
        name = webhook["name"]
        if operation.dry_run and webhook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            text = f"admission webhook {quote(name)} does not support dry run"
            raise api_error(400, text, reason="BadRequest")
        request = _review_request(operation)
        review = {"kind": "AdmissionReview", "apiVersion": _REVIEW_VERSION, "request": request}
        try:
            response = await self._call(webhook, review)
            if response.get("uid") != request["uid"]:
                raise ValueError(f"expected response.uid={quote(request['uid'])}")
        except (OSError, TimeoutError, ValueError, msgspec.DecodeError) as error:
            if webhook.get("failurePolicy") == "Ignore":
                return {}
            why = str(error) or "context deadline exceeded"
            text = f"failed calling webhook {quote(name)}: failed to call webhook: {why}"
            raise _internal(text) from None
        if not response.get("allowed"):
            raise _denial(name, response.get("status") or {})
        return response

    async def _call(self, webhook: JsonObject, review: JsonObject) -> JsonObject:
        import aiohttp

        client = webhook.get("clientConfig") or {}
        url, server_name = self._address(client)
        context: ssl.SSLContext | bool = True
        if client.get("caBundle"):
            authority = base64.b64decode(client["caBundle"]).decode()
            context = ssl.create_default_context(cadata=authority)
        timeout = aiohttp.ClientTimeout(total=webhook.get("timeoutSeconds") or _TIMEOUT)
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
        except aiohttp.ClientError as error:
            raise OSError(f'Post "{url}": {error}') from None
        found = msgspec.json.decode(body)
        if not isinstance(found, dict) or not isinstance(found.get("response"), dict):
            raise ValueError("webhook response was absent")
        response: JsonObject = found["response"]
        return response

    def _address(self, client: JsonObject) -> tuple[str, str | None]:
        """Give the URL of a webhook, and the name in the certificate of a Service."""
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


def _has_rule(webhook: JsonObject, kind: Kind, verb: str, subresource: str) -> bool:
    resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
    alternatives = {resource, "*/*"}
    alternatives |= {f"*/{subresource}", f"{kind.plural}/*"} if subresource else {"*"}
    alternatives |= {f"{kind.plural}/*"}
    scope = "Namespaced" if kind.namespaced else "Cluster"
    return any(
        not {verb, "*"}.isdisjoint(rule.get("operations") or ())
        and not {kind.group, "*"}.isdisjoint(rule.get("apiGroups") or ())
        and not {kind.version, "*"}.isdisjoint(rule.get("apiVersions") or ())
        and not alternatives.isdisjoint(rule.get("resources") or ())
        and rule.get("scope", "*") in ("*", scope)
        for rule in webhook.get("rules") or ()
    )


def _review_request(operation: Operation) -> JsonObject:
    path, kind = operation.path, operation.path.kind
    shown = operation.obj or operation.old or {"metadata": {}}
    named = {"group": kind.group, "version": kind.version}
    request: JsonObject = {
        "uid": str(uuid.uuid4()),
        "kind": {**named, "kind": kind.kind},
        "resource": {**named, "resource": kind.plural},
        "requestKind": {**named, "kind": kind.kind},
        "requestResource": {**named, "resource": kind.plural},
        "name": shown["metadata"].get("name", ""),
        "operation": operation.verb,
        "userInfo": operation.user.document(),
        "object": operation.obj,
        "oldObject": operation.old,
        "dryRun": operation.dry_run,
        "options": {"kind": f"{operation.verb.title()}Options", "apiVersion": "meta.k8s.io/v1"},
    }
    if path.namespace:
        request["namespace"] = path.namespace
    if path.subresource:
        request["subResource"] = request["requestSubResource"] = path.subresource
    return request


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
