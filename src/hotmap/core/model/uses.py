"""The uses of one consumer, found when they are first read, and packed to save memory.

Most workloads are not followed, so their uses are not needed, and finding them takes half of the
time to read a workload (measured). Until then the pod spec is kept, reduced to the fields that
`objects` has. As objects, six uses with their keys and paths take 2.5 KB and forty objects for the
garbage collector; packed they take 650 bytes (measured), as much as the spec. The specs of
workloads without an annotation that hotmap reads are compressed, since few of these are followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from sys import intern

import msgspec

from hotmap.core.model.limits import LimitExceeded
from hotmap.core.model.objects import ObjectKey, PodSpec, PodTemplate
from hotmap.core.model.references import Use, source_name
from hotmap.core.model.spec_compression import compress_spec, decompress_spec
from hotmap.core.model.template_uses import find_uses, named_sources

__all__ = ["NO_USES", "Uses", "pack_uses", "uses_of_template"]

#: Bytes of an encoded pod spec that is kept until its uses are read. One with long commands or many
#: literal variables is larger than its uses, which are then found at once.
_KEPT_AT_MOST = 2 * 1024


class Uses(msgspec.Struct, eq=False, gc=False):
    """Uses in the manifest's order; equal ones have equal bytes. Never changes for its readers."""

    #: The encoded pod spec, maybe compressed, as long as `namespace` is set; then the packed uses.
    content: bytes
    namespace: str | None = None
    bound: str = ""

    def __iter__(self) -> Iterator[Use]:
        return iter(_decoder.decode(self.packed))

    def __bool__(self) -> bool:
        return self.packed != NO_USES.packed

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Uses):
            return NotImplemented
        if self is other or (self.namespace is not None and self._fields() == other._fields()):
            return True
        self._find_all()
        other._find_all()
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self.packed)

    @property
    def packed(self) -> bytes:
        """The packed uses."""
        self._find_all()
        return self.content

    @property
    def over_budget(self) -> str:
        """The bound of `limits` that the pod template exceeds, so that it has no uses; "" if none.

        Also of a pod spec that cannot be read.
        """
        self._find_all()
        return self.bound

    def sources(self) -> set[ObjectKey]:
        """Return the used sources."""
        return {
            # Callers mostly keep them, so equal values are shared.
            ObjectKey(intern(kind), intern(namespace), name)
            for kind, namespace, name in (item.source for item in _named.decode(self.packed))
        }

    def source_hashes(self) -> set[int]:
        """Return the hashes of the used sources, and maybe of others that the pod spec names.

        Does not find the uses, which takes ten times as long.
        """
        if self.namespace is not None:
            with suppress(Exception):  # then `over_budget` says that it cannot be read
                named = named_sources(self._decode_spec())
                # An object key has the hash of an equal tuple.
                return {hash((kind, self.namespace, source_name(name))) for kind, name in named}
        return {hash(source) for source in self.sources()}

    def _fields(self) -> tuple[object, ...]:
        return self.namespace, self.content, self.bound

    def _find_all(self) -> None:
        if self.namespace is None:
            return
        try:
            spec = self._decode_spec()
            self.content = _encoder.encode(find_uses(PodTemplate(spec=spec), self.namespace))
        except LimitExceeded as error:
            self.content, self.bound = NO_USES.content, str(error)
        except Exception as error:  # one workload must not stop what reads the policies of all
            self.content = NO_USES.content
            self.bound = f"a pod spec that cannot be read ({type(error).__name__})"
        self.namespace = None

    def _decode_spec(self) -> PodSpec:
        return _spec_decoder.decode(decompress_spec(self.content))


class _Named(msgspec.Struct, array_like=True, gc=False):
    """The first fields of a use."""

    source: ObjectKey


# Sets have no order of their own, and equal uses have to give equal bytes.
_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder(tuple[Use, ...])
_named = msgspec.msgpack.Decoder(list[_Named])
_spec_decoder = msgspec.msgpack.Decoder(PodSpec)


def uses_of_template(template: PodTemplate, namespace: str, *, compress: bool = False) -> Uses:
    """Return the uses of a pod template; a large template is not kept, so its uses are found now.

    `compress` saves memory where the uses are rarely read, for 10 µs.

    Raises:
        LimitExceeded: a large one exceeds a bound; of others, `over_budget` tells.
    """
    spec = _encoder.encode(template.spec)
    if len(spec) > _KEPT_AT_MOST:
        return pack_uses(find_uses(template, namespace))
    return Uses(compress_spec(spec) if compress else spec, namespace)


def pack_uses(uses: Sequence[Use]) -> Uses:
    """Pack uses, in the order in which they are given."""
    return Uses(_encoder.encode(tuple(uses)))


NO_USES = pack_uses(())
