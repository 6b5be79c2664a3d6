"""A short name for the content that a pod template uses, for `hotmap stamp`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hotmap.core.fingerprint import FingerprintKey, combine
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.references import Keys, Use, UseKind
from hotmap.core.model.source import Source, fingerprint_of

__all__ = ["content_name", "used_data_keys"]


def used_data_keys(uses: Iterable[Use], *, live: bool) -> dict[ObjectKey, list[Keys]]:
    """List what the containers of a pod read of each source.

    `live`: also of mounted files. Credentials are the kubelet's, so they are not among it.
    """
    kinds = (UseKind.FROZEN, UseKind.LIVE) if live else (UseKind.FROZEN,)
    read: dict[ObjectKey, list[Keys]] = {}
    for use in uses:
        if use.kind in kinds:
            read.setdefault(use.source, []).append(use.keys)
    return read


def content_name(
    read: Mapping[ObjectKey, Iterable[Keys]],
    sources: Mapping[ObjectKey, Source],
    key: FingerprintKey,
) -> str:
    """Name the content of data keys: equal for equal content, in the form of a revision.

    `read` and `sources` have the same keys; a data key that a source lacks is content, too. The
    name does not depend on the order, nor on the consumer.
    """
    parts = []
    for source in sorted(read):
        content = fingerprint_of(sources[source], read[source], key)
        parts += [source.kind, source.namespace, source.name, content]
    return f"{key.id}.{combine(key, parts, uid='')}"
