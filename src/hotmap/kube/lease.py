"""Reads and writes one Lease object; `leaderelection` decides who may acquire it.

Fields of the Lease that other clients have written are kept (kubernetes:
coordination.k8s.io/v1, LeaseSpec).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from hotmap.core.errors import NotFound, Unavailable
from hotmap.core.model.objects import ObjectKey, ObjectMeta
from hotmap.core.text import shorten
from hotmap.kube.client import Client
from hotmap.kube.decoding import decode, decoding_problem
from hotmap.kube.resources import LEASES

__all__ = ["LONGEST_DURATION", "Lease", "LeaseClient", "LeaseRecord", "StoredLease"]


#: Characters of a holder that are kept: it is logged by every standby.
LONGEST_HOLDER: Final = 253

#: Seconds after which a holder that has not renewed is gone, whatever duration its record has: the
#: largest one that a Lease can have is 68 years.
LONGEST_DURATION: Final = 600


class LeaseRecord(NamedTuple):
    """The record of a Lease: holder ("" for none), seconds, and leaseTransitions."""

    holder: str
    duration: float
    transitions: int


class Lease(msgspec.Struct, frozen=True):
    """A decoded Lease; its spec may be anything."""

    metadata: ObjectMeta
    spec: Any = None


class StoredLease(NamedTuple):
    """A Lease as the server has it."""

    resource_version: str
    record: LeaseRecord
    #: The whole object, to be sent back with another spec.
    body: dict[str, Any]


_lease_decoder = msgspec.json.Decoder(Lease)
_object_decoder = msgspec.json.Decoder(dict[str, Any])


class LeaseClient:
    """Gets and puts one Lease, by its object key; each call is one attempt."""

    def __init__(self, client: Client, key: ObjectKey, *, default_duration: float) -> None:
        """`default_duration` applies to a Lease without one, in seconds."""
        self._client = client
        self._key = key
        self._default_duration = default_duration

    def __str__(self) -> str:
        return str(self._key)

    async def get(self) -> StoredLease | None:
        """Read the Lease; None when there is none.

        Raises:
            ApiError, Unreachable: as the client raises them.
        """
        try:
            path = LEASES.path(self._key.namespace, self._key.name)
            return self._decode(await self._client.request("GET", path))
        except NotFound:
            return None

    async def put(self, lease: StoredLease | None, spec: dict[str, Any]) -> StoredLease:
        """Create the Lease, or replace it if it is still the one given.

        Raises:
            Conflict: it has changed; or one exists although none was given.
            ApiError, Unreachable: as the client raises them.
        """
        if lease is None:
            method, path = "POST", LEASES.path(self._key.namespace)
            body: dict[str, Any] = {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": {"name": self._key.name, "namespace": self._key.namespace},
                "spec": spec,
            }
        else:
            method, path = "PUT", LEASES.path(self._key.namespace, self._key.name)
            present = lease.body.get("spec")
            known = present if isinstance(present, dict) else {}
            body = {**lease.body, "spec": {**known, **spec}}
        return self._decode(
            await self._client.request(
                method, path, params={"fieldManager": "hotmap"}, body=msgspec.json.encode(body)
            )
        )

    def read_record(self, spec: object) -> LeaseRecord:
        """Read the record of a spec; invalid values count as absent, and long ones are cut."""
        fields = spec if isinstance(spec, dict) else {}
        holder = fields.get("holderIdentity")
        return LeaseRecord(
            shorten(holder, LONGEST_HOLDER) if isinstance(holder, str) else "",
            min(_positive(fields.get("leaseDurationSeconds")), LONGEST_DURATION)
            or self._default_duration,
            _positive(fields.get("leaseTransitions")),
        )

    def _decode(self, answer: bytes) -> StoredLease:
        try:
            metadata = decode(_lease_decoder, answer).metadata
            body = decode(_object_decoder, answer)
        except msgspec.DecodeError as error:
            raise Unavailable(
                f"{self._client.server} returned an invalid Lease: {decoding_problem(error)}",
                code=502,
                reason="BadGateway",
            ) from error
        return StoredLease(metadata.resource_version, self.read_record(body.get("spec")), body)


def _positive(value: object) -> int:
    """Return a number that is a positive integer, else 0."""
    return value if type(value) is int and value > 0 else 0
