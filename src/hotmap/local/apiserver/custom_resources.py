"""Keeps the kinds of CustomResourceDefinitions registered, and tells so in their status.

apiextensions-apiserver/pkg/controller: status (names), establish, finalizer.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from hotmap.core.errors import ApiError, Expired, NotFound
from hotmap.local.apiserver.custom.definition import DEFINITIONS, FINALIZER
from hotmap.local.apiserver.custom.kind import custom_kind
from hotmap.local.json_object import JsonObject
from hotmap.local.meta import timestamp

if TYPE_CHECKING:
    from hotmap.local.apiserver.registry import Registry

__all__ = ["CustomResources"]

_log = logging.getLogger(__name__)

_MANAGER = "kube-apiserver"
_RETRY_PAUSE = 0.1


class CustomResources:
    """Registers and removes kinds as definitions come and go."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._resource = DEFINITIONS.resource
        # Definitions by name, as they are registered.
        self._known: dict[str, JsonObject] = {}

    async def load(self) -> None:
        """Register the kinds of all definitions that there are."""
        for definition in (await self._registry.list(self._resource)).items:
            await self._register_definition(definition)

    async def run(self) -> None:
        """Follow the definitions until cancelled."""
        since = None
        while True:
            try:
                with self._registry.watch(self._resource, since=since) as watch:
                    async for change, definition in watch:
                        since = definition["metadata"]["resourceVersion"]
                        if change == "DELETED":
                            self._remove(definition["metadata"]["name"])
                        elif change != "BOOKMARK":
                            await self._register_definition(definition)
            except Expired:
                since = None
            await asyncio.sleep(_RETRY_PAUSE)

    async def _register_definition(self, definition: JsonObject) -> None:
        name = definition["metadata"]["name"]
        try:
            if definition["metadata"].get("deletionTimestamp"):
                await self._clean_up(definition)
            else:
                accepted, text = self._register(definition)
                await self._write_status(name, accepted, text)
        except NotFound:
            return
        except ApiError as error:
            _log.warning("CustomResourceDefinition %s: %s", name, error)
        except Exception:
            # A definition on which this fails must not stop the server.
            _log.exception("CustomResourceDefinition %s: internal error", name)

    def _register(self, definition: JsonObject) -> tuple[bool, str]:
        """Register the kind of a definition; return whether its names are free, and if not, why."""
        scheme, name, spec = (
            self._registry.scheme,
            definition["metadata"]["name"],
            definition["spec"],
        )
        known = self._known.get(name)
        if known is not None and known == spec:
            return True, ""
        if not any(version.get("served") for version in spec["versions"]):
            self._remove(name)
            return True, ""
        kind = custom_kind(definition)
        other = scheme.find_kind(kind.group, kind.kind)
        if other is not None and other.plural != kind.plural:
            return False, f'"{kind.kind}" is already in use'
        if known is not None:
            scheme.unregister(kind.group, kind.plural)
        elif (kind.group, kind.plural) in {(k.group, k.plural) for k in scheme}:
            return False, f'"{kind.plural}" is already in use'
        scheme.register(kind)
        self._known[name] = spec
        return True, ""

    def _remove(self, name: str) -> None:
        spec = self._known.pop(name, None)
        if spec is not None:
            self._registry.scheme.unregister(spec["group"], spec["names"]["plural"])

    async def _write_status(self, name: str, accepted: bool, text: str) -> None:
        now = timestamp(self._registry.now())

        def change(definition: JsonObject) -> JsonObject:
            status = definition.setdefault("status", {})
            names = _condition("NamesAccepted", accepted, "NoConflicts", "no conflicts found")
            established = _condition(
                "Established", True, "InitialNamesAccepted", "the initial names have been accepted"
            )
            if accepted:
                status["acceptedNames"] = definition["spec"]["names"]
            else:
                names = {**names, "reason": "KindConflict", "message": text}
                established = _condition(
                    "Established", False, "NotAccepted", "not all names are accepted"
                )
            status["conditions"] = _merged(status.get("conditions"), [names, established], now)
            storage = [v["name"] for v in definition["spec"]["versions"] if v.get("storage")]
            stored = status.get("storedVersions") or []
            status["storedVersions"] = [*stored, *(v for v in storage if v not in stored)]
            return definition

        await self._registry.modify(
            self._resource, None, name, change, subresource="status", manager=_MANAGER
        )

    async def _clean_up(self, definition: JsonObject) -> None:
        """Delete every object of a definition that is being deleted, then let it go."""
        name, spec = definition["metadata"]["name"], definition["spec"]
        resource = f"{spec['names']['plural']}.{spec['group']}"
        if FINALIZER not in definition["metadata"].get("finalizers", ()):
            return
        if name in self._known:
            found = (await self._registry.list(resource)).items
            for obj in found:
                metadata = obj["metadata"]
                try:
                    await self._registry.delete(
                        resource, metadata.get("namespace"), metadata["name"]
                    )
                except NotFound:
                    continue
            if (await self._registry.list(resource)).items:
                # Finalizers of others keep some of them.
                asyncio.get_running_loop().call_later(
                    1, lambda: self._retry(definition["metadata"]["name"])
                )
                return

        def change(obj: JsonObject) -> JsonObject:
            finalizers = obj["metadata"].get("finalizers", [])
            obj["metadata"]["finalizers"] = [f for f in finalizers if f != FINALIZER]
            return obj

        await self._registry.modify(self._resource, None, name, change, manager=_MANAGER)

    def _retry(self, name: str) -> None:
        async def again() -> None:
            try:
                definition = await self._registry.get(self._resource, None, name)
            except NotFound:
                return
            await self._register_definition(definition)

        self._retrying = asyncio.ensure_future(again())


def _condition(kind: str, status: bool, reason: str, message: str) -> JsonObject:
    return {"type": kind, "status": str(status), "reason": reason, "message": message}


def _merged(
    known: list[JsonObject] | None, conditions: list[JsonObject], now: str
) -> list[JsonObject]:
    """Return conditions with the time of their last transition."""
    # Whoever writes the status may leave the type out, as in Go, where it is "".
    before = {condition.get("type", ""): condition for condition in known or ()}
    merged: list[JsonObject] = []
    for condition in conditions:
        old = before.pop(condition["type"], {})
        since = old.get("lastTransitionTime") if old.get("status") == condition["status"] else None
        merged.append({**condition, "lastTransitionTime": since or now})
    return [*merged, *before.values()]
