"""A cluster on simulated time: ConfigMaps, one workload, its controller, and kubelets.

It keeps objects as an API server does (resourceVersions, generations, managedFields whose times a
removal does not move) and remembers what each pod has read, which the controller never learns.
Kubelets read from a cache that lags, mount before they start containers, and refresh files later.
"""

from __future__ import annotations

import copy
import random
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from tests.simulation.pods import (
    BINARY,
    NAMESPACE,
    SOURCES,
    TEMPLATES,
    Content,
    Object,
    SimulatedPod,
    SimulatedTemplate,
    is_complete,
    rfc3339,
    selected,
)
from tests.simulation.workload_controllers import CONTROLLERS

from hotmap.core.model.annotations import FOLLOW, IGNORE
from hotmap.core.model.consumer import FIELD_MANAGER, REVISION
from hotmap.core.model.objects import ConfigMap, Pod, Workload
from hotmap.core.model.references import Keys, Use, UseKind
from hotmap.core.patch.rollout import TemplatePatch
from hotmap.core.reloader.patch import FIELD_MANAGER as RELOADER

__all__ = ["Backup", "Cluster", "Event"]


#: What owns a workload that has an owner.
_OWNER = {"kind": "App", "name": "app", "uid": "uid-app", "controller": True}


class Event(NamedTuple):
    """A change of an object, for watches."""

    at: float
    kind: str
    name: str
    #: None: it was deleted.
    object: ConfigMap | Workload | None


#: What etcd has of a cluster, but its pods.
_STORED = (
    "_version",
    "_workload_version",
    "_sources",
    "_writers",
    "template",
    "rolled",
    "revisions",
    "replicas",
    "paused",
    "is_followed",
    "is_owned",
    "annotations",
    "generation",
    "observed_generation",
)


class Backup(NamedTuple):
    """A backup of etcd."""

    at: float
    fields: dict[str, Any]
    #: The names of the pods.
    pods: frozenset[str]


class Cluster:
    """The state of everything, and the steps by which it moves on."""

    def __init__(
        self, chance: random.Random, kind: str = "Deployment", template: int | None = None
    ) -> None:
        """Make one whose workload has a template of `pods`, by default any without an agent."""
        self.chance = chance
        self.kind = kind
        self._node_ahead = chance.choice((0.0, 0.0, 0.0, -45.0, 45.0, 600.0))
        self.now = 1_000_000.0
        self._version = 100
        self._uids = 0
        self._sources: dict[str, Object] = {}
        #: What the kubelet of each node serves of sources that were immutable when they were read,
        #: for as long as a pod uses them (kubernetes: pkg/kubelet/util/manager, watch-based
        #: manager).
        self._pinned: dict[tuple[str, str], Content] = {}
        #: The uids of these sources, oldest first, and since when those of now are served.
        self.pinned_uids: list[str] = []
        self._pinned_since: dict[tuple[str, str], tuple[str, float]] = {}
        #: When the pod of others was created that uses all sources, by its node.
        self.neighbours: dict[str, float] = {}
        #: What each source held, and since when; None: it did not exist.
        self._past: dict[str, list[tuple[float, Content | None]]] = {name: [] for name in SOURCES}
        self.events: list[Event] = []
        number = chance.randrange(len(TEMPLATES)) if template is None else template
        self.template = SimulatedTemplate(number, 1)
        #: Templates that were rolled out, the latest last (ReplicaSets, ControllerRevisions).
        self.rolled = [self.template]
        self.revisions = 1
        self.replicas = chance.randint(1, 3)
        self.paused = False
        self.is_followed = True
        #: Whether another object owns the workload.
        self.is_owned = False
        #: Annotations of the workload that users change.
        self.annotations: dict[str, str] = {}
        #: Of the workload; "" while it does not exist.
        self.uid = "uid-web"
        self.generation = 1
        self.observed_generation = 0
        self._writers: dict[str, tuple[float, bool]] = {}  # manager → (time, owns the revision)
        self.pods: list[SimulatedPod] = []
        self._made = 0
        #: What a list of pods from the API server's cache shows, by when; and how old that may be.
        self._listed: list[tuple[float, list[Pod]]] = []
        self.list_lag = 0.0
        self.controller = CONTROLLERS[kind](self)
        self._status: Object = {}
        for name in SOURCES:
            self.write(name, self.first_data(name), immutable=chance.random() < 0.1)
        self.publish_workload()
        for _ in range(20):
            self.now += 1
            self.step()

    def first_data(self, name: str) -> Content:
        """Return what a source holds at first."""
        return {"a": "0", "b": "0"}

    # -- people --------------------------------------------------------------------------------

    def data(self, name: str) -> Content | None:
        found = self._sources.get(name)
        return None if found is None else dict(found["data"])

    def write(
        self, name: str, data: Content | None, *, label: bool = False, immutable: bool = False
    ) -> None:
        """Create, edit or delete a ConfigMap; a removal moves no time of managedFields.

        An edit of one that is immutable is refused; `immutable` counts for a new one.
        """
        before = self._sources.get(name)
        if before is not None and before["immutable"] and data not in (None, before["data"]):
            return
        self._version += 1
        if data is None:
            if before is not None:
                del self._sources[name]
                self._past[name].append((self.now, None))
                self.events.append(Event(self.now, "ConfigMap", name, None))
            return
        if before is None:
            self._uids += 1
            uid = f"uid-{self._uids}"
            before = {"uid": uid, "data": {}, "time": self.now, "immutable": immutable}
            before["ignored"] = False
        taken = label or any(before["data"].get(key) != value for key, value in data.items())
        if not taken and before["data"] == data:
            return
        self._sources[name] = {
            "uid": before["uid"],
            "data": dict(data),
            "time": self.now if taken else before["time"],
            "version": self._version,
            "immutable": before["immutable"],
            "ignored": before["ignored"],
        }
        self._past[name].append((self.now, dict(data)))
        self.events.append(Event(self.now, "ConfigMap", name, self.config_map(name)))

    def seal(self, name: str) -> None:
        """Make a ConfigMap immutable that is not."""
        if name in self._sources and not self.is_immutable(name):
            self._change(name, immutable=True)

    def ignore(self, name: str, *, ignored: bool) -> None:
        """Annotate a ConfigMap to be ignored, or remove that."""
        if name in self._sources and self._sources[name]["ignored"] is not ignored:
            self._change(name, ignored=ignored)

    def is_ignored(self, name: str) -> bool:
        return name in self._sources and bool(self._sources[name]["ignored"])

    def _change(self, name: str, **fields: bool) -> None:
        """Change a ConfigMap, but not its data."""
        self._version += 1
        self._sources[name] |= {"time": self.now, "version": self._version, **fields}
        self.events.append(Event(self.now, "ConfigMap", name, self.config_map(name)))

    def is_immutable(self, name: str) -> bool:
        return name in self._sources and bool(self._sources[name]["immutable"])

    def is_kept(self, name: str) -> bool:
        """Return whether it is immutable, or a kubelet keeps an immutable one of this name."""
        return self.is_immutable(name) or any(kept == name for _, kept in self._pinned)

    def config_map(self, name: str) -> ConfigMap:
        found = self._sources[name]
        binary = {k: v for k, v in found["data"].items() if v.startswith(BINARY)}
        return msgspec.convert(
            {
                "metadata": {
                    "name": name,
                    "namespace": NAMESPACE,
                    "uid": found["uid"],
                    "resourceVersion": str(found["version"]),
                    "managedFields": [{"manager": "kubectl", "time": rfc3339(found["time"])}],
                    "annotations": {IGNORE: "true"} if found["ignored"] else {},
                },
                "data": {k: v for k, v in found["data"].items() if k not in binary},
                "binaryData": {
                    key: b64encode(value.removeprefix(BINARY).encode()).decode()
                    for key, value in binary.items()
                },
                "immutable": found["immutable"] or None,
            },
            ConfigMap,
        )

    def set_template(self, spec: int, image: int) -> None:
        """Change the pod template as people do; what hotmap wrote into it stays."""
        changed = self.template.with_spec(spec, image)
        if changed != self.template:
            self.template = changed
            self._writers["kubectl"] = self.now, False
            self._spec_changed()

    def replace_template(self, spec: int, image: int) -> None:
        """Replace the workload by a manifest, as `kubectl replace` does: what it lacks is gone."""
        changed = SimulatedTemplate(spec, image)
        if changed != self.template:
            self.template = changed
            self._writers.pop(FIELD_MANAGER, None)
            self._writers.pop(RELOADER, None)
            self._writers["kubectl-replace"] = self.now, False
            self._spec_changed()

    def undo(self) -> None:
        """Bring the template back that was rolled out before, as `kubectl rollout undo` does."""
        others = [item for item in self.rolled if item != self.template]
        if not others:
            return
        if others[-1].revision != self.template.revision:
            ours_at, _ = self._writers.get(FIELD_MANAGER, (0.0, False))
            if ours_at:
                self._writers[FIELD_MANAGER] = ours_at, False
            self._writers["kubectl-rollout"] = self.now, bool(others[-1].revision)
        if others[-1].marks != self.template.marks:
            self._writers.pop(RELOADER, None)
            self._writers.setdefault("kubectl-rollout", (self.now, False))
        self.template = others[-1]
        self._spec_changed()

    def scale(self, replicas: int) -> None:
        """Change the number of pods; of a DaemonSet, that of the nodes it runs on."""
        if replicas != self.replicas:
            self.replicas = replicas
            if self.kind != "DaemonSet":
                self._spec_changed()

    def pause(self, *, paused: bool) -> None:
        if paused != self.paused and self.kind == "Deployment":
            self.paused = paused
            self._spec_changed()

    def follow(self, *, followed: bool) -> None:
        """Annotate the workload not to be followed, or remove that."""
        if followed != self.is_followed:
            self.is_followed = followed
            self.publish_workload()

    def own(self, *, owned: bool) -> None:
        """Give the workload an owner, or none."""
        if owned != self.is_owned:
            self.is_owned = owned
            self.publish_workload()

    def annotate(self, annotations: dict[str, str]) -> None:
        """Replace the annotations that users change."""
        if annotations != self.annotations:
            self.annotations = annotations
            self.publish_workload()

    def patch_template(self, version: str, patch: TemplatePatch) -> bool:
        """Write a rollout, unless the workload moved on."""
        if not self.uid or version != str(self._workload_version):
            return False
        assert isinstance(patch.body, dict)
        changed = self.template.patched(patch.body["spec"]["template"])
        if changed != self.template:
            owns = changed.revision != self.template.revision
            self.template = changed
            for manager, (at, owned) in tuple(self._writers.items()):
                self._writers[manager] = at, owned and not owns
            _, owned = self._writers.get(patch.field_manager, (0.0, False))
            self._writers[patch.field_manager] = self.now, owns or owned
            self._spec_changed()
        return True

    def delete_workload(self, *, orphan: bool) -> None:
        """Delete the workload, with its pods or without."""
        self.uid = ""
        self.events.append(Event(self.now, self.kind, "web", None))
        for pod in () if orphan else self.pods:
            self.end_pod(pod)

    def create_workload(self, spec: int, image: int) -> None:
        """Create it again; pods that are there become its own."""
        self._uids += 1
        self.uid = f"uid-web-{self._uids}"
        self.template = SimulatedTemplate(spec, image)
        if not any(pod.ends is None for pod in self.pods):
            self.rolled, self.revisions = [self.template], 1
        self.generation, self.observed_generation, self._status = 1, 0, {}
        self.paused, self.is_followed, self.is_owned = False, True, False
        self._writers = {"kubectl": (self.now, False)}
        self.controller = CONTROLLERS[self.kind](self)
        self.publish_workload()

    def end_neighbours(self) -> None:
        """End the pods of others."""
        self.neighbours.clear()

    def crash_container(self) -> None:
        """Let a container end; its kubelet starts it again, with the files that are there."""
        running = [pod for pod in self.pods if pod.started is not None and pod.ends is None]
        if running and self._can_start(pod := self.chance.choice(running)):
            self._start_container(pod, self.chance.choice(pod.template.containers()))

    def back_up(self) -> Backup:
        """Return what a backup of etcd has."""
        fields = {name: copy.deepcopy(getattr(self, name)) for name in _STORED}
        self._version += 1000  # by the writes of other objects
        return Backup(self.now, fields, frozenset(pod.name for pod in self.pods))

    def restore(self, backup: Backup) -> None:
        """Restore a backup: versions go back, and pods end that it does not have as they are.

        Watches are told nothing, and everything is listed again.
        """
        for name, value in backup.fields.items():
            setattr(self, name, copy.deepcopy(value))
        for name in SOURCES:
            self._past[name].append((self.now, self.data(name)))
        for pod in self.pods:
            if pod.name not in backup.pods or max(pod.containers.values(), default=0) > backup.at:
                self.end_pod(pod)

    def annotate_pod(self, pod: SimulatedPod) -> None:
        """Write an annotation of a pod, on which its kubelet updates the files."""
        if pod.mounted is not None:
            self._note_write(pod)
            self.refresh_files(pod)

    def change_neighbours(self, pick: float) -> None:
        """Start a pod of others on a node, or end the one that is there."""
        names = [f"node-{number}" for number in range(3)] if self.kind == "DaemonSet" else ["node"]
        node = names[int(pick * len(names))]
        if self.neighbours.pop(node, None) is None:
            self.neighbours[node] = self.now
            for name in self._sources:
                self._pin(node, name)

    def evict(self) -> None:
        """Delete a pod; another takes its place."""
        if self.pods:
            self.end_pod(self.chance.choice(self.pods))

    # -- what the cluster does -----------------------------------------------------------------

    def step(self) -> None:
        """Let the workload's controller and the kubelets do one thing each."""
        self.pods = [pod for pod in self.pods if pod.ends is None or pod.ends > self.now]
        self._release_pins()
        if self.uid:
            self._observe()
            self.controller.step()
        for pod in self.pods:
            self._serve(pod)
        self._keep_list()
        if not self.uid:
            return
        status = {"observedGeneration": self.observed_generation, **self.controller.status()}
        if status != self._status:
            self._status = status
            self.publish_workload()

    def list_pods(self, *, cached: bool) -> list[Pod]:
        """List the pods as the API server has them, or as its cache had them a moment ago."""
        if cached and self.list_lag and self._listed:
            return self._listed[0][1]
        return [pod.observed(self.now) for pod in self.pods]

    def _keep_list(self) -> None:
        if self.list_lag:
            self._listed.append((self.now, self.list_pods(cached=False)))
            while len(self._listed) > 1 and self._listed[1][0] <= self.now - self.list_lag:
                del self._listed[0]

    @property
    def is_settled(self) -> bool:
        """Return whether all pods of the newest template run and no other does."""
        return (
            self.observed_generation == self.generation
            and len(self.pods) == self.replicas
            and all(pod.started is not None and pod.ends is None for pod in self.pods)
            and (
                self.paused
                or self.controller.holds_back
                or all(pod.template == self.template for pod in self.pods)
            )
        )

    def _observe(self) -> None:
        """Let the workload's controller see the template."""
        self.observed_generation = self.generation
        if self.template not in self.rolled[-1:] and not self.paused:
            if self.template in self.rolled:
                self.rolled.remove(self.template)
            self.rolled.append(self.template)
            self.revisions += 1

    def make_pod(self, template: SimulatedTemplate, *, number: int = -1) -> None:
        """Create a pod: on a node that all share, and of a DaemonSet on one of its own."""
        self._made += 1
        name = f"web-{number}" if self.kind == "StatefulSet" else f"web-{self._made}"
        node = f"node-{number}" if self.kind == "DaemonSet" else "node"
        pod = SimulatedPod(
            name, template, self.now, number=number, node=node, ahead=self._node_ahead
        )
        self._note_write(pod)
        self.pods.append(pod)

    def _note_write(self, pod: SimulatedPod) -> None:
        self._version += 1
        pod.version = self._version

    def end_pod(self, pod: SimulatedPod) -> None:
        if pod.ends is None:
            pod.ends = self.now + self.chance.choice((0.0, 0.5, 3.0))

    def _serve(self, pod: SimulatedPod) -> None:
        """Let a kubelet do its next step for a pod: mount, then start."""
        if pod.ends is not None or not self._can_start(pod) or self.chance.random() < 0.3:
            return
        if pod.mounted is None:
            pod.mounted = self.now
            self._note_write(pod)
            lag = self._lag()
            for use in pod.template.uses():
                pod.files[use] = self._served(pod, use, self.now - lag)
        elif pod.started is None and self.chance.random() < 0.6:
            for name in pod.template.containers():
                self._start_container(pod, name)
        elif pod.started is not None and self.chance.random() < 0.02:
            self.refresh_files(pod)

    def refresh_files(self, pod: SimulatedPod) -> None:
        """Update the files of a pod, as its kubelet does at each sync."""
        for use in pod.files:
            if use.kind is UseKind.LIVE:
                pod.files[use] = self._served(pod, use, self.now)

    def _start_container(self, pod: SimulatedPod, name: str) -> None:
        first = name not in pod.containers
        pod.started = self.now if pod.started is None else pod.started
        if not first:
            pod.earlier[name] = pod.containers[name]
        pod.containers[name] = self.now
        pod.first.setdefault(name, self.now)
        self._note_write(pod)
        lag = self._lag()
        for use in pod.template.uses():
            if use.container != name and not (use.init and first):
                continue
            by_path = "subPath" in use.path
            if use.kind is UseKind.LIVE or (use.init and first):
                pod.read[use] = pod.files[use]
            elif not use.init:
                # A container that is restarted binds what the volume holds by then.
                at = pod.mounted if by_path and first and pod.mounted else self.now - lag
                pod.read[use] = self._served(pod, use, at)

    def _can_start(self, pod: SimulatedPod) -> bool:
        """Return whether all is there that is not optional."""
        return all(
            use.optional or is_complete(use, self.data(use.source.name))
            for use in pod.template.uses()
        )

    def _lag(self) -> float:
        """By how much a kubelet's cache is behind, in seconds."""
        return self.chance.choice((0.0, 0.0, 0.01, 0.05))

    def _release_pins(self) -> None:
        """Forget what was pinned for pods that are gone."""
        used = {(pod.node, use.source.name) for pod in self.pods for use in pod.template.uses()}
        used |= {(node, name) for node in self.neighbours for name in SOURCES}
        self._pinned = {place: data for place, data in self._pinned.items() if place in used}

    def pinned_since(self) -> dict[str, float]:
        """Return since when kubelets serve immutable sources as they were, by uid."""
        return dict(self._pinned_since[place] for place in self._pinned)

    def used_since(self) -> dict[str, float]:
        """Return since when pods that are not ending use these sources, by uid.

        One that a terminating pod of an earlier template keeps has no record any more.
        """
        found = {}
        for node, name in self._pinned:
            uid, since = self._pinned_since[node, name]
            created = (
                pod.created
                for pod in self.pods
                if pod.ends is None
                and pod.node == node
                and any(use.source.name == name for use in pod.template.uses())
            )
            found[uid] = max(since, min(created, default=since))
        return found

    def replaced_uids(self) -> set[str]:
        """Return the uids of immutable sources that kubelets serve in place of their successors."""
        present = {found["uid"] for found in self._sources.values()}
        return self.pinned_since().keys() - present

    def kept_by_neighbours(self) -> set[str]:
        """Return the uids of these sources where a pod of others uses them."""
        return {
            self._pinned_since[place][0] for place in self._pinned if place[0] in self.neighbours
        }

    def _served(self, pod: SimulatedPod, use: Use, at: float) -> Content:
        """Return what a kubelet gives a container of a pod."""
        place = self._pin(pod.node, use.source.name)
        if place in self._pinned:
            return selected(use, self._pinned[place])
        if use.optional or is_complete(use, self._held(use.source.name, at)):
            return self._content(use, at)
        return self._content(use, self.now)  # it waits for what it requires

    def _pin(self, node: str, name: str) -> tuple[str, str]:
        """Let a kubelet keep a source that is immutable from now on; returns the place of both."""
        place, found = (node, name), self._sources.get(name)
        if place not in self._pinned and found and found["immutable"]:
            self._pinned[place] = dict(found["data"])
            self.pinned_uids.append(found["uid"])
            self._pinned_since[place] = found["uid"], self.now
        return place

    def _content(self, use: Use, at: float) -> Content:
        return selected(use, self._held(use.source.name, at) or {})

    def _held(self, name: str, at: float) -> Content | None:
        """Return what a source held at a time; None: it did not exist."""
        held: Content | None = None
        for since, data in self._past[name]:
            if since <= at:
                held = data
        return held

    # -- the workload as it is seen ----------------------------------------------------------

    def _spec_changed(self) -> None:
        self.generation += 1
        self.publish_workload()

    def publish_workload(self) -> None:
        """Let watches deliver the workload as it is now."""
        self._version += 1
        self._workload_version = self._version
        self.events.append(Event(self.now, self.kind, "web", self.workload()))

    def workload(self) -> Workload:
        managed = [
            {
                "manager": manager,
                "time": rfc3339(at),
                "fieldsV1": {
                    "f:spec": {
                        "f:template": {
                            "f:metadata": {"f:annotations": {f"f:{REVISION}": {}} if owns else {}}
                        }
                    }
                },
            }
            for manager, (at, owns) in self._writers.items()
        ]
        body = {
            "metadata": {
                "name": "web",
                "namespace": NAMESPACE,
                "uid": self.uid,
                "resourceVersion": str(self._workload_version),
                "generation": self.generation,
                "annotations": {
                    **self.controller.annotations(),
                    **({} if self.is_followed else {FOLLOW: "off"}),
                    **self.annotations,
                },
                "managedFields": managed,
                "ownerReferences": [_OWNER] if self.is_owned else [],
            },
            "spec": {
                **self.controller.spec(),
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"annotations": self.template.annotations()},
                    "spec": self.template.pod_spec(),
                },
            },
            "status": self._status,
        }
        return msgspec.json.decode(msgspec.json.encode(body), type=Workload)

    # -- the truth -----------------------------------------------------------------------------

    def stale_pods(self, *, rereads: bool, gone: bool = False) -> Iterator[str]:
        """Return for each pod that does not hold the present content what it holds.

        `gone`: what it holds of optional sources that do not exist any more, and of no others.
        """
        for pod in self.pods:
            if pod.started is None or pod.ends is not None:
                continue
            for use in pod.template.application_uses():
                if (self.data(use.source.name) is None) is not gone:
                    continue
                is_live = use.kind is UseKind.LIVE and rereads
                held = pod.files[use] if is_live else pod.read[use]
                present = self._content(use, self.now)
                if gone and not use.optional:
                    continue  # it is to keep what it has
                if self._without_replaced(use, held) != self._without_replaced(use, present):
                    yield f"{pod.name} holds {held} of {use.path}, which is {present}"

    def _without_replaced(self, use: Use, held: Content) -> Content:
        """Leave out what later sources of the same environment replace, as far as they exist."""
        replaced = {
            override.replaces(data_key)
            for override in use.overrides
            for data_key in selected(
                use._replace(keys=Keys(binary=use.keys.binary)),
                self.data(override.source.name) or {},
            )
        }
        return {data_key: value for data_key, value in held.items() if data_key not in replaced}

    def missing(self, templates: Iterable[SimulatedTemplate]) -> bool:
        """Return whether something is not there that some template needs."""
        return not all(
            use.optional or is_complete(use, self.data(use.source.name))
            for template in templates
            for use in template.uses()
        )
