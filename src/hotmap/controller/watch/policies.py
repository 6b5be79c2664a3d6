"""Policies of consumers, read once per state of their annotations and their Namespace's."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from hotmap.core.model.consumer import Consumer
from hotmap.core.model.objects import ObjectKey
from hotmap.core.policy.annotations import read_policy
from hotmap.core.policy.policy import Defaults, Policy
from hotmap.kube.store import Store

__all__ = ["NamespaceAnnotations", "Policies", "is_relevant"]

_log = logging.getLogger(__name__)


class NamespaceAnnotations(NamedTuple):
    """The annotations of a Namespace that hotmap reads."""

    name: str
    annotations: dict[str, str]
    uid: str = ""
    #: Whether it is being deleted; nothing can be created in it then.
    terminating: bool = False


class Policies:
    """A cache of the policies of consumers."""

    def __init__(
        self,
        defaults: Defaults,
        namespaces: Store[NamespaceAnnotations],
        *,
        selects_namespaces: bool,
        with_template_user: Callable[[Consumer], Consumer],
    ) -> None:
        """`selects_namespaces`: a Namespace that is not in the store is not served.

        `with_template_user` returns a Deployment as run by the Argo Rollout that uses its template.
        """
        self.defaults = defaults
        self._namespaces = namespaces
        self._selects_namespaces = selects_namespaces
        self._with_template_user = with_template_user
        self._policies: dict[ObjectKey, Policy] = {}

    def of(self, consumer: Consumer) -> Policy:
        """Return a consumer's policy."""
        policy = self._policies.get(consumer.key)
        if policy is None:
            policy = self._policies[consumer.key] = _shared(self._read(consumer))
        return policy

    def drop(self, key: ObjectKey) -> Policy | None:
        """Drop a policy whose input has changed; returns it."""
        return self._policies.pop(key, None)

    def annotations_of(self, namespace: str) -> dict[str, str] | None:
        """Return the annotations of a Namespace; None: it is not known."""
        known = self._namespaces.get(ObjectKey("Namespace", "", namespace))
        return known.annotations if known else None

    def is_terminating(self, namespace: str) -> bool:
        """Return whether a Namespace is known to be terminating."""
        known = self._namespaces.get(ObjectKey("Namespace", "", namespace))
        return known is not None and known.terminating

    def selects(self, namespace: str) -> bool:
        """Return whether a namespace is served, as far as `--namespace-selector` says."""
        return not self._selects_namespaces or self.annotations_of(namespace) is not None

    def _read(self, consumer: Consumer) -> Policy:
        annotations = self.annotations_of(consumer.key.namespace)
        if not self.selects(consumer.key.namespace):
            return Policy(origin="its Namespace is not selected")
        try:
            return read_policy(
                self._with_template_user(consumer),
                namespace_annotations=annotations,
                defaults=self.defaults,
            )
        except Exception:  # the policies of all are read together; one must not stop the others
            _log.exception("internal error in reading the annotations of %s", consumer.key)
            return Policy(origin="its annotations cannot be read; see the log of the controller")


@lru_cache(maxsize=1024)
def _shared(policy: Policy) -> Policy:
    """Return a shared equal value: most consumers have the same annotations, or none."""
    return policy


def is_relevant(policy: Policy) -> bool:
    """Return whether a consumer opted in, or has annotations with an error to report."""
    return policy.opted_in or bool(policy.problems) or bool(policy.over_budget)
