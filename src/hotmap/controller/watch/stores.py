"""The stores of sources and consumers, and how they are indexed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from hotmap.core.model.annotations import FOLLOW
from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.source import Source
from hotmap.core.policy.values import names_sources
from hotmap.core.reloader.annotations import Names
from hotmap.kube.store import Store

__all__ = [
    "CONSUMER_KINDS",
    "SOURCE_KINDS",
    "make_consumer_stores",
    "make_source_stores",
    "template_in",
]

SOURCE_KINDS = ("ConfigMap", "Secret", "SecretProviderClass")

#: ReplicaSets and Pods are those without an owning workload; Argo Rollouts are included if their
#: kind exists; see `reflectors`.
CONSUMER_KINDS = (
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "CronJob",
    "Job",
    "ReplicaSet",
    "Pod",
    "Rollout",
)


def make_source_stores(*, parts: int) -> dict[str, Store[Source]]:
    return {kind: Store(parts=parts) for kind in SOURCE_KINDS}


def make_consumer_stores(names: Names, *, parts: int) -> dict[str, Store[Consumer]]:
    naming = frozenset((names.config_map, names.secret, names.provider_class))
    indexes = {
        "sources": _named_sources,
        "naming": _make_naming_index(naming),
    }
    return {
        kind: Store(
            {**indexes, "template_in": template_in} if kind == "Rollout" else indexes,
            parts=parts,
            has_same_index_values=_has_equal_index_inputs,
        )
        for kind in CONSUMER_KINDS
    }


def template_in(rollout: Consumer) -> tuple[ObjectKey, ...]:
    """Return the Deployment that an Argo Rollout takes its pod template from, if any."""
    key = rollout.argo.template_in if rollout.argo else None
    return (key,) if key and key.kind == "Deployment" else ()


def _named_sources(consumer: Consumer) -> Iterable[Hashable]:
    """Return the hashes of the sources that it names: a fifth of what their keys would take.

    Two sources may share one, and not all are used, so callers check the uses too.
    """
    return () if consumer.owned else consumer.uses.source_hashes()


def _has_equal_index_inputs(old: Consumer, new: Consumer) -> bool:
    """Return whether all inputs of the indexes are unchanged."""
    before = (old.uses, old.owned, old.annotations, old.template_annotations)
    after = (new.uses, new.owned, new.annotations, new.template_annotations)
    return before == after and template_in(old) == template_in(new)


def _make_naming_index(annotations: frozenset[str]) -> Callable[[Consumer], Iterable[Hashable]]:
    """Create an index of the consumers that may name sources, under True.

    `annotations` are those of Reloader's dialect that name sources.
    """

    def naming(consumer: Consumer) -> Iterable[Hashable]:
        for found in (consumer.annotations, consumer.template_annotations):
            if found and (
                not annotations.isdisjoint(found) or names_sources(found.get(FOLLOW, ""))
            ):
                return (True,)
        return ()

    return naming
