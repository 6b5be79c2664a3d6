"""Reports invalid annotations of sources and Namespaces, on the object itself.

Those on consumers are reported by `reconcile`, which reads every consumer anyway. Only the leader
reports, so the reports begin and end with a term.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from hotmap.controller.report.object_events import write_event
from hotmap.controller.report.reasons import Reason
from hotmap.controller.watch.index import Index
from hotmap.controller.watch.policies import NamespaceAnnotations
from hotmap.core.model.objects import ObjectKey
from hotmap.core.model.source import Source
from hotmap.core.policy.annotations import namespace_problems
from hotmap.core.policy.lint import Problem, source_problems
from hotmap.core.reloader.annotations import Names
from hotmap.kube.recorder import Recorder

__all__ = ["AnnotationWarnings"]

_log = logging.getLogger(__name__)


class AnnotationWarnings:
    """Writes one Warning Event for each invalid annotation, and an hour later while it stands."""

    def __init__(self, index: Index, recorder: Recorder, names: Names) -> None:
        self._index = index
        self._recorder = recorder
        self._names = names
        self._unsubscribe: list[Callable[[], None]] = []

    def begin(self) -> None:
        """Report on all objects in the stores, and from now on those that change."""
        for store in self._index.sources.values():
            self._unsubscribe.append(store.subscribe(self._source_changed))
            for source in store.values():
                self._source_changed(source.key, None, source)
        namespaces = self._index.namespaces
        self._unsubscribe.append(namespaces.subscribe(self._namespace_changed))
        for notes in namespaces.values():
            self._namespace_changed(ObjectKey("Namespace", "", notes.name), None, notes)

    def end(self) -> None:
        """Stop reporting."""
        while self._unsubscribe:
            self._unsubscribe.pop()()

    def _source_changed(self, key: ObjectKey, old: Source | None, new: Source | None) -> None:
        if new is not None and new.annotations:
            problems = source_problems(new.annotations, key.kind, self._names)
            self._report(key, new.uid, problems, extra={"source": str(key)})

    def _namespace_changed(
        self, key: ObjectKey, old: NamespaceAnnotations | None, new: NamespaceAnnotations | None
    ) -> None:
        if new is not None and new.annotations:
            # In the Namespace itself, where its users look (`kubectl events -n …`).
            regarding = ObjectKey("Namespace", new.name, new.name)
            problems = namespace_problems(new.annotations)
            self._report(regarding, new.uid, problems, extra={"namespace": str(key)})

    def _report(
        self,
        regarding: ObjectKey,
        uid: str,
        problems: Iterable[Problem],
        *,
        extra: Mapping[str, str],
    ) -> None:
        """Report problems once while they stand; `extra` has the fields of the log lines."""
        for problem in problems:
            if write_event(
                self._recorder,
                regarding,
                Reason.INVALID_ANNOTATION,
                problem.message,
                uid=uid,
                type_="Warning",
                once=True,
            ):
                _log.warning(problem.message, extra=extra)
