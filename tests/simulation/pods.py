"""Pod templates that users change between, and pods with what each has read."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

import msgspec
import yaml

from hotmap.core.model.annotations import AGENT
from hotmap.core.model.consumer import REVISION
from hotmap.core.model.objects import Pod, PodTemplate
from hotmap.core.model.references import Use
from hotmap.core.model.template_uses import find_uses
from hotmap.core.reloader.annotations import LAST_RELOADED_FROM

__all__ = [
    "AGENT_TEMPLATES",
    "BINARY",
    "NAMESPACE",
    "RESTARTED_IN_PLACE",
    "SOURCES",
    "TEMPLATES",
    "Content",
    "Object",
    "SimulatedPod",
    "SimulatedTemplate",
    "is_complete",
    "rfc3339",
    "selected",
    "uses_of",
]

Object = dict[str, Any]

NAMESPACE = "shop"
SOURCES = ("one", "two")

#: How the values of data keys begin that are in `binaryData`.
BINARY = "binary:"

#: Pod specs that people change between; all have a container `web`, one has another one as well.
TEMPLATES = [
    yaml.safe_load(text)
    for text in (
        """
        containers:
        - name: web
          env: [{name: A, valueFrom: {configMapKeyRef: {name: one, key: a}}}]
        """,
        """
        containers:
        - name: web
          env:
          - {name: A, valueFrom: {configMapKeyRef: {name: one, key: a}}}
          - {name: B, valueFrom: {configMapKeyRef: {name: one, key: b, optional: true}}}
        """,
        """
        containers:
        - name: web
          envFrom: [{configMapRef: {name: one}}, {configMapRef: {name: two, optional: true}}]
        """,
        """
        containers:
        - name: web
          env: [{name: A, valueFrom: {configMapKeyRef: {name: one, key: a, optional: true}}}]
          volumeMounts: [{name: v, mountPath: /v}]
        volumes: [{name: v, configMap: {name: two, items: [{key: b, path: b}], optional: true}}]
        """,
        """
        containers:
        - name: web
          envFrom: [{configMapRef: {name: one}}]
          volumeMounts: [{name: v, mountPath: /v}, {name: w, mountPath: /w, subPath: a}]
        volumes:
        - {name: v, configMap: {name: two, optional: true}}
        - {name: w, configMap: {name: two, optional: true}}
        """,
        """
        initContainers:
        - {name: setup, volumeMounts: [{name: v, mountPath: /v}]}
        containers:
        - {name: web, volumeMounts: [{name: w, mountPath: /w}]}
        volumes:
        - {name: v, configMap: {name: one}}
        - {name: w, configMap: {name: two, optional: true}}
        """,
        """
        containers:
        - name: web
          env:
          - {name: A, valueFrom: {configMapKeyRef: {name: one, key: a}}}
          - {name: URL, value: "http://$(A)"}
        - name: side
          envFrom: [{prefix: X_, configMapRef: {name: two, optional: true}}]
          volumeMounts: [{name: v, mountPath: /v}]
        volumes:
        - name: v
          projected:
            sources:
            - {configMap: {name: one, items: [{key: b, path: b}], optional: true}}
            - {configMap: {name: two, optional: true}}
        """,
        """
        containers:
        - name: web
          env:
          - {name: A, valueFrom: {configMapKeyRef: {name: one, key: a, optional: true}}}
          - {name: A, valueFrom: {configMapKeyRef: {name: two, key: a, optional: true}}}
          volumeMounts: [{name: v, mountPath: /v}]
        volumes:
        - name: v
          projected:
            sources:
            - {configMap: {name: one, optional: true}}
            - {configMap: {name: two, optional: true}}
        """,
    )
]

#: How the names of the containers of agents begin.
AGENT_CONTAINER = "hotmap-agent"

_AGENT = """
        - name: hotmap-agent%s
          restartPolicy: Always
          args: [agent, %s, --target-file, /hotmap/pod/annotations, --settle, 100ms, %s]
          volumeMounts: [%s]
"""
_SIGNAL = "--signal, HUP, --process, 'name:%s'"
_PROBED = f"{_SIGNAL}, --verify, 'metric http://127.0.0.1:1/ loads'"
_CALL = "--url, 'http://127.0.0.1:1/'"
_TERM = "--restart, term, --process, 'name:web'"
_RESTART = ", --restart-on, frozen, --restart, term"


def _agent(action: str, *volumes: str, number: str = "") -> str:
    """Return the container of an agent that watches volumes."""
    watched = ", ".join(f"--dir, /{name}" for name in volumes)
    mounts = ", ".join(f"{{name: {name}, mountPath: /{name}}}" for name in volumes)
    return _AGENT % (number, watched, action, mounts)


#: Pod specs with agents, by their number as a template; they follow TEMPLATES.
_WITH_AGENTS = {
    # a signal that nothing confirms
    100: f"""
        initContainers: {_agent(_SIGNAL % "web", "v")}
        containers:
        - {{name: web, volumeMounts: [{{name: v, mountPath: /v}}]}}
        volumes:
        - {{name: v, configMap: {{name: one, optional: true}}}}
        """,
    # a signal that a probe confirms, and a variable beside it
    101: f"""
        initContainers: {_agent(_PROBED % "web", "v")}
        containers:
        - name: web
          env: [{{name: A, valueFrom: {{configMapKeyRef: {{name: two, key: a, optional: true}}}}}}]
          volumeMounts: [{{name: v, mountPath: /v}}]
        volumes:
        - {{name: v, configMap: {{name: one}}}}
        """,
    # two directories
    102: f"""
        initContainers: {_agent(_PROBED % "web", "v", "w")}
        containers:
        - name: web
          volumeMounts: [{{name: v, mountPath: /v}}, {{name: w, mountPath: /w}}]
        volumes:
        - {{name: v, configMap: {{name: one, optional: true}}}}
        - {{name: w, configMap: {{name: two}}}}
        """,
    # two sources in one directory, and a subPath mount beside it
    103: f"""
        initContainers: {_agent(_CALL, "v")}
        containers:
        - name: web
          volumeMounts: [{{name: v, mountPath: /v}}, {{name: w, mountPath: /w, subPath: a}}]
        volumes:
        - name: v
          projected:
            sources:
            - {{configMap: {{name: one, items: [{{key: b, path: b}}], optional: true}}}}
            - {{configMap: {{name: two, items: [{{key: c, path: c}}], optional: true}}}}
        - {{name: w, configMap: {{name: two, items: [{{key: a, path: a}}], optional: true}}}}
        """,
    # an agent for each of two containers
    104: f"""
        initContainers: {_agent(_PROBED % "web", "v")} {_agent(_CALL, "w", number="-2")}
        containers:
        - {{name: web, volumeMounts: [{{name: v, mountPath: /v}}]}}
        - {{name: side, volumeMounts: [{{name: w, mountPath: /w}}]}}
        volumes:
        - {{name: v, configMap: {{name: one, optional: true}}}}
        - {{name: w, configMap: {{name: two, optional: true}}}}
        """,
    # a container that no agent reloads
    105: f"""
        initContainers: {_agent(_CALL, "v")}
        containers:
        - {{name: web, volumeMounts: [{{name: v, mountPath: /v}}]}}
        - {{name: side, volumeMounts: [{{name: v, mountPath: /v}}]}}
        volumes:
        - {{name: v, configMap: {{name: one}}}}
        """,
    # a signal for files, and a restart in place for what is read at start
    106: f"""
        initContainers: {_agent(_PROBED % "web" + _RESTART, "v")}
        containers:
        - name: web
          env: [{{name: A, valueFrom: {{configMapKeyRef: {{name: two, key: a, optional: true}}}}}}]
          volumeMounts: [{{name: v, mountPath: /v}}]
        volumes:
        - {{name: v, configMap: {{name: one, optional: true}}}}
        """,
    # a restart in place for files
    107: f"""
        initContainers: {_agent(_TERM, "v", "w")}
        containers:
        - name: web
          volumeMounts: [{{name: v, mountPath: /v}}, {{name: w, mountPath: /w}}]
        volumes:
        - {{name: v, configMap: {{name: one}}}}
        - {{name: w, configMap: {{name: two, optional: true}}}}
        """,
}

#: The annotation of these templates that announces the agents.
_AGENT_ANNOTATIONS = dict.fromkeys(_WITH_AGENTS, "port=9533;container=web;restart=none") | {
    104: "port=9533;container=web;restart=none, port=9534;container=side;restart=none",
    106: "port=9533;container=web;restart=term",
    107: "port=9533;container=web;restart=none;files=restart",
}

#: The numbers of all of them, and of the one whose agent restarts its container in place.
AGENT_TEMPLATES = tuple(_WITH_AGENTS)
RESTARTED_IN_PLACE = 106

_SPECS: dict[int, Object] = {
    **dict(enumerate(TEMPLATES)),
    **{number: yaml.safe_load(text) for number, text in _WITH_AGENTS.items()},
}

#: What a use selects of a source; a source that is absent brings nothing.
Content = dict[str, str]


def rfc3339(at: float) -> str:
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class SimulatedTemplate(NamedTuple):
    """A pod template: which of TEMPLATES, which image, and what rollouts have written into it."""

    spec: int
    image: int
    revision: str = ""
    #: Reloader's marks: (container, variable, value), and its annotation.
    variables: tuple[tuple[str, str, str], ...] = ()
    reloaded: str = ""

    def uses(self) -> tuple[Use, ...]:
        return uses_of(self.spec)

    def application_uses(self) -> tuple[Use, ...]:
        """Return the uses of all containers but those of agents."""
        return tuple(use for use in self.uses() if not use.container.startswith(AGENT_CONTAINER))

    def containers(self) -> list[str]:
        return [container["name"] for container in _SPECS[self.spec]["containers"]]

    @property
    def marks(self) -> tuple[object, ...]:
        return self.variables, self.reloaded

    def annotations(self) -> dict[str, str]:
        values = {
            REVISION: self.revision,
            LAST_RELOADED_FROM: self.reloaded,
            AGENT: _AGENT_ANNOTATIONS.get(self.spec, ""),
        }
        return {name: value for name, value in values.items() if value}

    def pod_spec(self) -> Object:
        """Return the pod spec with the variables that rollouts have added."""
        spec: Object = copy.deepcopy(_SPECS[self.spec])
        for container in spec["containers"]:
            for name, variable, value in self.variables:
                if name == container["name"]:
                    container.setdefault("env", []).append({"name": variable, "value": value})
        return spec

    def with_spec(self, spec: int, image: int) -> SimulatedTemplate:
        """Return the template after a user has changed it; the rest keeps its marks."""
        changed = self._replace(spec=spec, image=image)
        there = set(changed.containers())
        return changed._replace(variables=tuple(v for v in self.variables if v[0] in there))

    def patched(self, template: Object) -> SimulatedTemplate:
        """Apply a strategic merge patch of a rollout."""
        annotations = template.get("metadata", {}).get("annotations", {})
        variables = {(container, name): value for container, name, value in self.variables}
        for container in template.get("spec", {}).get("containers", []):
            for entry in container["env"]:
                if entry.get("$patch") == "delete":
                    variables.pop((container["name"], entry["name"]), None)
                else:
                    variables[container["name"], entry["name"]] = entry["value"]
        return self._replace(
            revision=annotations.get(REVISION, self.revision),
            reloaded=annotations.get(LAST_RELOADED_FROM, self.reloaded),
            variables=tuple((*place, value) for place, value in sorted(variables.items())),
        )


@cache
def uses_of(spec: int) -> tuple[Use, ...]:
    return find_uses(msgspec.convert({"spec": _SPECS[spec]}, PodTemplate), NAMESPACE)


def is_complete(use: Use, held: Content | None) -> bool:
    """Return whether a source that a use requires has what a container needs to start."""
    return held is not None and (use.keys.names or frozenset()) <= selected(use, held).keys()


def selected(use: Use, held: Content) -> Content:
    """Return what a use takes of a source, wherever that has it."""
    return {
        key: value.removeprefix(BINARY)
        for key, value in held.items()
        if use.keys.select(key, binary=value.startswith(BINARY))
    }


class SimulatedPod:
    """One pod, and what it has read."""

    def __init__(
        self,
        name: str,
        template: SimulatedTemplate,
        at: float,
        *,
        number: int,
        node: str,
        ahead: float,
    ) -> None:
        self.name = name
        #: Its ordinal, or that of its node.
        self.number = number
        self.node = node
        #: Seconds by which the clock of its node is ahead.
        self.node_ahead = ahead
        self.template = template
        self.created = at
        #: The resourceVersion of its last write.
        self.version = 0
        self.mounted: float | None = None
        #: When the first container was started, and when each was last.
        self.started: float | None = None
        self.containers: dict[str, float] = {}
        self.first: dict[str, float] = {}
        #: When each was started before that, and after how many seconds starts are reported; these
        #: follow from its name, so that equal seeds have equal other events.
        self.earlier: dict[str, float] = {}
        self._reported_after = random.Random(f"{name}/{at}").choice((0.0, 0.3, 1.0, 1.3))
        self.ends: float | None = None
        #: What the files of each live use hold, and what each use brought when its container
        #: started.
        self.files: dict[Use, Content] = {}
        self.read: dict[Use, Content] = {}

    def observed(self, now: float) -> Pod:
        """Show it as the API server does, with times of its node's clock where a kubelet writes."""
        status: Object = {"phase": "Pending"}
        if self.mounted is not None:
            status["startTime"] = rfc3339(self.mounted + self.node_ahead)
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "True",
                    "lastTransitionTime": rfc3339(self.created),
                }
            ]
        reported = dict(self._reported_starts(now))
        if self.started is not None and reported:
            at = rfc3339(self.started + self.node_ahead)
            status["phase"] = "Running"
            status["containerStatuses"] = [
                {
                    "name": name,
                    "ready": True,
                    "state": {"running": {"startedAt": rfc3339(began + self.node_ahead)}},
                    "restartCount": int(began > self.first[name]),
                }
                for name, began in reported.items()
            ]
            status["initContainerStatuses"] = [
                {"name": "setup", "state": {"terminated": {"startedAt": at, "reason": "Completed"}}}
            ]
        annotations = self.template.annotations()
        return msgspec.convert(
            {
                "metadata": {
                    "name": self.name,
                    "namespace": NAMESPACE,
                    "resourceVersion": str(self.version),
                    "creationTimestamp": rfc3339(self.created),
                    "deletionTimestamp": None if self.ends is None else rfc3339(self.ends),
                    "annotations": annotations,
                },
                "status": status,
            },
            Pod,
        )

    def _reported_starts(self, now: float) -> Iterator[tuple[str, float]]:
        """Return when containers were started last, as far as their kubelet has reported it."""
        for name, began in self.containers.items():
            if began + self._reported_after <= now:
                yield name, began
            elif name in self.earlier:
                yield name, self.earlier[name]
