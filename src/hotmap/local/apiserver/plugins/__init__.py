"""Admission plugins: what is checked and changed between a request and the rules of its kind.

apiserver/pkg/admission. A plugin sees objects with their defaults. None of them waits, so nothing
comes between its decision and the write; webhooks, which wait, are elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotmap.local.access import UserInfo
    from hotmap.local.scheme import Kind


class AdmissionRequest(NamedTuple):
    """A write; `obj` may be changed in place by `admit`, `old` is None at a create."""

    kind: Kind
    namespace: str
    obj: JsonObject
    old: JsonObject | None
    subresource: str
    user: UserInfo
    dry_run: bool = False
    #: Whether `obj`, which is `old` then, is to be deleted; only `validate` is asked about that.
    deleted: bool = False
    #: What the answer has to warn of is added here; None without a reader.
    warnings: list[str] | None = None

    @property
    def name(self) -> str:
        """The object's name in messages; where one is generated, `admit` knows only its start."""
        metadata = self.obj["metadata"]
        return str(metadata.get("name") or metadata.get("generateName", ""))


class AdmissionPlugin(Protocol):
    """One plugin; both methods raise ApiErrors for what they refuse."""

    def admit(self, request: AdmissionRequest) -> None:
        """Change the object of a request, in place."""
        ...

    def validate(self, request: AdmissionRequest) -> None:
        """Check the final object of a request."""
        ...


class AdmissionChain:
    """Plugins, asked in order."""

    def __init__(self, plugins: Sequence[AdmissionPlugin] = ()) -> None:
        self.plugins = tuple(plugins)

    def admit(self, request: AdmissionRequest) -> None:
        """Let each plugin change the object.

        Raises:
            ApiError: a plugin refuses it.
        """
        for plugin in self.plugins:
            plugin.admit(request)

    def validate(self, request: AdmissionRequest) -> None:
        """Let each plugin check the object.

        Raises:
            ApiError: a plugin refuses it.
        """
        for plugin in self.plugins:
            plugin.validate(request)
