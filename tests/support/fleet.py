"""A cluster of any size, made up as it is asked for: nothing is kept but what has changed.

Objects look as an API server sends them. A namespace has two ConfigMaps that all of its workloads
use, `logging` and `company-roots`, and each application in it four sources of its own: ConfigMaps
`app-N-settings` and `app-N-env`, Secrets `app-N-tls` and `app-N-database`, which two or three
workloads share. Every third workload opts in.
Deterministic: the same sizes and the same writes give the same bytes.
"""

from __future__ import annotations

import json
import random
from array import array
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.support.served import FOLLOW, Object, claim, deployment

from hotmap.kube.resources import (
    CONFIGMAPS,
    CRONJOBS,
    DAEMONSETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    PODS,
    REPLICASETS,
    SECRETS,
    STATEFULSETS,
    Resource,
)

__all__ = ["Collection", "Fleet", "Sizes"]

#: The resourceVersion of an object that was never written since the start is below this one.
FIRST_REVISION = 1_000_000

#: Share of sources and the bytes of their data: most are small, a few are Helm releases,
#: dashboards or bundles of certificates. The largest come one in 600.
_DATA_SIZES = ((0.80, 900), (0.95, 5_000), (0.994, 20_000), (0.9983, 100_000), (1.0, 500_000))

#: Different pod templates of each kind.
_VARIANTS = 64


class Sizes(NamedTuple):
    """How many objects there are."""

    config_maps: int = 30_000
    secrets: int = 30_000
    deployments: int = 30_000
    stateful_sets: int = 5_000
    daemon_sets: int = 5_000
    namespaces: int = 200

    @property
    def shared(self) -> int:
        """Count the ConfigMaps that all workloads of their namespace use."""
        return self.namespaces * len(_SHARED_NAMES)

    @property
    def applications(self) -> int:
        """Count the applications whose sources all exist."""
        return max(1, min(self.config_maps - self.shared, self.secrets) // 2)


class State(NamedTuple):
    """What writes have made of one object."""

    #: Writes of data (a source), or of the pod template (a workload).
    edits: int = 0
    #: What its pod template was marked with.
    revision: str = ""
    #: Edits of its template that its own controller has seen.
    observed: int = 0
    #: When its pod template was marked, as the server writes times.
    marked_at: str = ""


class Collection:
    """All objects of one kind, by number."""

    def __init__(
        self, resource: Resource, count: int, render: Callable[[int, int, State], bytes]
    ) -> None:
        self.resource = resource
        self.count = count
        self._render = render
        self._versions = array("Q", range(FIRST_REVISION - count, FIRST_REVISION))
        self._states: dict[int, State] = {}

    def __iter__(self) -> Iterator[bytes]:
        return (self.object(number) for number in range(self.count))

    def object(self, number: int) -> bytes:
        """Write one object as JSON."""
        return self._render(number, self._versions[number], self.state(number))

    def version(self, number: int) -> int:
        """Return an object's resourceVersion."""
        return self._versions[number]

    def state(self, number: int) -> State:
        """Return what became of an object."""
        return self._states.get(number, _UNWRITTEN)

    def write(self, number: int, version: int, state: State | None = None) -> bytes:
        """Set a new resourceVersion, and a new state if one is given."""
        self._versions[number] = version
        if state is not None:
            self._states[number] = state
        return self.object(number)


_UNWRITTEN = State()


class Fleet:
    """The collections of one cluster, by the path that lists them."""

    def __init__(self, sizes: Sizes) -> None:
        dice = random.Random(1)
        noise = b64encode(dice.randbytes(600_000)).decode()
        self.sizes = sizes
        made = (
            Collection(CONFIGMAPS, sizes.config_maps, _config_maps(dice, noise, sizes)),
            Collection(SECRETS, sizes.secrets, _secrets(dice, noise, sizes)),
            Collection(DEPLOYMENTS, sizes.deployments, _workloads("Deployment", dice, sizes)),
            Collection(STATEFULSETS, sizes.stateful_sets, _workloads("StatefulSet", dice, sizes)),
            Collection(DAEMONSETS, sizes.daemon_sets, _workloads("DaemonSet", dice, sizes)),
            Collection(NAMESPACES, sizes.namespaces, _namespace),
            # Watched too, with a label or for the few that there are; none here.
            *(Collection(item, 0, _nothing) for item in (CRONJOBS, JOBS, PODS, REPLICASETS)),
        )
        self.collections = {item.resource.path(None): item for item in made}


def _nothing(number: int, version: int, state: State) -> bytes:
    raise IndexError("there is none")


# -- sources -----------------------------------------------------------------------------------

#: By the last part of the name: the data keys, first the one that edits change.
_DATA_KEYS = {
    "logging": ("level",),
    "company-roots": ("ca.crt",),
    "settings": ("application.yaml", "features.json", "logging.xml"),
    "env": ("DATABASE_URL", "LOG_LEVEL", "CACHE_URL", "REGION", "TIMEOUT"),
    "tls": ("tls.crt", "tls.key", "ca.crt"),
    "database": ("password", "username", "uri"),
}
_SHARED_NAMES = ("logging", "company-roots")
_CONFIG_MAP_NAMES = ("settings", "env")
_SECRET_NAMES = ("tls", "database")

Renderer = Callable[[int, int, State], bytes]


def _config_maps(dice: random.Random, noise: str, sizes: Sizes) -> Renderer:
    sized = _data_sizes(dice, sizes.config_maps)

    def render(number: int, version: int, state: State) -> bytes:
        if number < sizes.shared:
            namespace, which = divmod(number, 2)
            name = part = _SHARED_NAMES[which]
        else:
            application, which = divmod(number - sizes.shared, 2)
            part, namespace = _CONFIG_MAP_NAMES[which], application % sizes.namespaces
            name = f"app-{application}-{part}"
        data = _data(part, sized[number], number, noise, state)
        return _source("ConfigMap", _named(namespace), name, number, version, data)

    return render


def _secrets(dice: random.Random, noise: str, sizes: Sizes) -> Renderer:
    sized = _data_sizes(dice, sizes.secrets)

    def render(number: int, version: int, state: State) -> bytes:
        application, which = divmod(number, 2)
        part, namespace = _SECRET_NAMES[which], application % sizes.namespaces
        data = _data(part, sized[number], number, noise, state)
        name = f"app-{application}-{part}"
        return _source("Secret", _named(namespace), name, number, version, data)

    return render


def _source(kind: str, namespace: str, name: str, number: int, version: int, data: str) -> bytes:
    type_ = ',"type":"Opaque"' if kind == "Secret" else ""
    return (
        f'{{"kind":"{kind}","apiVersion":"v1","metadata":{{"name":"{name}",'
        f'"namespace":"{namespace}","uid":"{_uid(kind, number)}",'
        f'"resourceVersion":"{version}",{_SOURCE_METADATA}}},"data":{data}{type_}}}'
    ).encode()


def _data(part: str, size: int, number: int, noise: str, state: State) -> str:
    """Share `size` characters out among data keys; of big sources the first has nearly all.

    Values are pieces of `noise`; four characters are three bytes of base64, so that a Secret's
    value stays one.
    """
    keys = _DATA_KEYS[part]
    each = [size // len(keys)] * len(keys)
    if size > 10_000:
        each = [size - 128 * (len(keys) - 1), *([128] * (len(keys) - 1))]
    start = number * 4 % 100_000
    values = [noise[start : start + length // 4 * 4] for length in each]
    values[0] = f"{state.edits:08d}{values[0]}"
    return "{" + ",".join(f'"{key}":"{v}"' for key, v in zip(keys, values, strict=True)) + "}"


def _data_sizes(dice: random.Random, count: int) -> array[int]:
    return array("I", (_data_size(dice.random()) for _ in range(count)))


def _data_size(share: float) -> int:
    """Choose the bytes of one source's data."""
    return next(size for up_to, size in _DATA_SIZES if share <= up_to)


_SOURCE_METADATA = json.dumps(
    {
        "creationTimestamp": "2026-03-02T09:14:51Z",
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": "app"},
        "managedFields": [claim("helm", "Update", "", {"f:data": {}, "f:metadata": {}})],
    },
    separators=(",", ":"),
)[1:-1]


# -- workloads ---------------------------------------------------------------------------------


def _workloads(kind: str, dice: random.Random, sizes: Sizes) -> Renderer:
    templates = [_template(kind, dice) for _ in range(_VARIANTS)]

    def render(number: int, version: int, state: State) -> bytes:
        application = number % sizes.applications
        return templates[number % _VARIANTS] % {
            b"name": b"app-%d" % application,
            b"object": f"{kind.lower()}-{number}".encode(),
            b"namespace": _named(application % sizes.namespaces).encode(),
            b"uid": _uid(kind, number).encode(),
            b"version": version,
            b"generation": 7 + state.edits,
            b"observed": 7 + state.observed,
            b"template": 3 + state.observed,
            b"follow": _FOLLOWS if number % 3 == 0 else b"",
            b"revision": b'"hotmap.dev/revision":"%b",' % state.revision.encode()
            if state.revision
            else b"",
            b"claim": _CLAIM % state.marked_at.encode() if state.revision else b"",
        }

    return render


_FOLLOWS = json.dumps(FOLLOW, separators=(",", ":")).encode()[1:-1] + b","
_CLAIM = (
    b'{"manager":"hotmap","operation":"Update","apiVersion":"apps/v1","time":"%b",'
    b'"fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:template":{"f:metadata":'
    b'{"f:annotations":{"f:hotmap.dev/revision":{}}}}}}},'
)


def _template(kind: str, dice: random.Random) -> bytes:
    """Make a workload with a place for each thing that differs."""
    name = "NAME-OF-THE-WORKLOAD"
    made = deployment(name, dice)
    metadata, spec, status = made["metadata"], made["spec"], made["status"]
    made["kind"] = kind
    metadata |= {
        "name": "%(object)b",
        "namespace": "%(namespace)b",
        "uid": "%(uid)b",
        "resourceVersion": "%(version)d",
        "generation": "%(generation)d",
    }
    annotations = metadata["annotations"]
    annotations["meta.helm.sh/release-namespace"] = "%(namespace)b"
    del annotations["deployment.kubernetes.io/revision"]
    status["observedGeneration"] = "%(observed)d"
    _of_its_kind(kind, annotations, spec, status)
    text = json.dumps(made, separators=(",", ":")).replace("25%", "25%%").replace(name, "%(name)b")
    for number in ("generation", "observed"):
        text = text.replace(f'"%({number})d"', f"%({number})d")
    for place in (
        '"annotations":{%(follow)b"meta.helm.sh/',
        '"annotations":{%(revision)b"prometheus.io/scrape',
        '"managedFields":[%(claim)b{',
    ):
        before, mark, after = place.partition("%(")
        plain = before + after.partition(")b")[2]
        assert mark and text.count(plain) == 1, plain
        text = text.replace(plain, place)
    return text.encode()


def _of_its_kind(kind: str, annotations: Object, spec: Object, status: Object) -> None:
    """Turn what a Deployment says into the words of another kind."""
    if kind == "Deployment":
        annotations["deployment.kubernetes.io/revision"] = "%(template)d"
        return
    del spec["strategy"], spec["progressDeadlineSeconds"]
    spec["updateStrategy"] = {"type": "RollingUpdate"}
    if kind == "StatefulSet":
        spec["serviceName"] = "%(object)b"
        status["updateRevision"] = "%(object)b-%(template)d"
        return
    annotations["deprecated.daemonset.template.generation"] = "%(template)d"
    replicas = spec.pop("replicas")
    for word in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"):
        del status[word]
    for word in ("desired", "current", "updated"):
        status[f"{word}NumberScheduled"] = replicas


def _namespace(number: int, version: int, state: State) -> bytes:
    metadata: dict[str, Any] = {
        "name": _named(number),
        "uid": _uid("Namespace", number),
        "resourceVersion": str(version),
    }
    body = {"kind": "Namespace", "apiVersion": "v1", "metadata": metadata}
    return json.dumps(body, separators=(",", ":")).encode()


def _named(namespace: int) -> str:
    return f"team-{namespace:03}"


def _uid(kind: str, number: int) -> str:
    digits = f"{random.Random(f'{kind}{number}').getrandbits(64):016x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-8{digits[15]}00-{number:012x}"
