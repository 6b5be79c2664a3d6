"""The uses of one consumer, packed to save memory and unpacked on access.

As objects, six uses with their keys and paths take 2.5 KB and forty objects for the garbage
collector; packed they take 650 bytes (measured), and most are rarely read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from sys import intern

import msgspec

from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.references import Use

__all__ = ["NO_USES", "Uses", "pack_uses"]


class Uses(msgspec.Struct, frozen=True, gc=False):
    """Uses in the manifest's order. Equal uses have equal bytes."""

    packed: bytes

    def __iter__(self) -> Iterator[Use]:
        return iter(_decoder.decode(self.packed))

    def __bool__(self) -> bool:
        return self != NO_USES

    def sources(self) -> set[ObjectKey]:
        """Return the used sources."""
        return {
            # Callers mostly keep them, so equal values are shared.
            ObjectKey(intern(kind), intern(namespace), name)
            for kind, namespace, name in (item.source for item in _named.decode(self.packed))
        }


class _Named(msgspec.Struct, array_like=True, gc=False):
    """The first fields of a use."""

    source: ObjectKey


# Sets have no order of their own, and equal uses have to give equal bytes.
_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder(tuple[Use, ...])
_named = msgspec.msgpack.Decoder(list[_Named])


def pack_uses(uses: Iterable[Use]) -> Uses:
    """Pack uses, in the order in which they are given."""
    return Uses(_encoder.encode(tuple(uses)))


NO_USES = pack_uses(())
