"""Builders of the objects that core decides about, from short arguments and YAML manifests.

They go through the same decode as objects from an API server (camelCase, unknown fields
skipped), so that a manifest in a test means what it means in a cluster. Times are POSIX seconds
here and RFC 3339 with whole seconds in the objects, as Kubernetes writes them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from textwrap import dedent
from typing import Any, TypeVar

import msgspec
import yaml

from hotmap.core.decide.snapshot import Snapshot, take_snapshot
from hotmap.core.decide.source_snapshot import ChangeSummary
from hotmap.core.fingerprint import FingerprintKey, fingerprint_key
from hotmap.core.model.consumer import FIELD_MANAGER, REVISION, Consumer
from hotmap.core.model.consumer_conversion import (
    consumer_from_cron_job,
    consumer_from_job,
    consumer_from_pod,
    consumer_from_rollout,
    consumer_from_workload,
)
from hotmap.core.model.objects import (
    ConfigMap,
    CronJob,
    Job,
    ObjectKey,
    Pod,
    PodTemplate,
    Rollout,
    Secret,
    Workload,
)
from hotmap.core.model.source import Source, source_from_config_map, source_from_secret
from hotmap.core.model.state import Record
from hotmap.core.policy.policy import Policy

NAMESPACE = "shop"

#: The fingerprint key of every test that does not say otherwise.
KEY: FingerprintKey = fingerprint_key(b"a key for tests")

#: A pod spec with one use of each kind: `LEVEL` frozen in env, `/etc/app` live.
ENV_AND_FILES = """
    containers:
    - name: web
      env:
      - {name: LEVEL, valueFrom: {configMapKeyRef: {name: app, key: LEVEL}}}
      volumeMounts:
      - {name: config, mountPath: /etc/app}
    volumes:
    - {name: config, configMap: {name: app, items: [{key: app.yaml, path: app.yaml}]}}
"""

#: A pod spec whose only use is `LEVEL` in env.
ENV = """
    containers:
    - name: web
      env:
      - {name: LEVEL, valueFrom: {configMapKeyRef: {name: app, key: LEVEL}}}
"""

#: A pod spec whose only use is the whole ConfigMap as files.
FILES = """
    containers:
    - name: web
      volumeMounts:
      - {name: config, mountPath: /etc/app}
    volumes:
    - {name: config, configMap: {name: app}}
"""
T = TypeVar("T")


def timestamp(at: float) -> str:
    """Write POSIX seconds as Kubernetes does: RFC 3339 in UTC, cut to whole seconds."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod_spec(text: str) -> dict[str, Any]:
    """Read a pod spec from indented YAML; "" is one container that uses nothing."""
    return yaml.safe_load(dedent(text)) or {"containers": [{"name": "web"}]}


def template(text: str) -> PodTemplate:
    """Read a pod template from the YAML of its pod spec."""
    return msgspec.convert({"spec": pod_spec(text)}, PodTemplate)


# -- sources ---------------------------------------------------------------------------------


def config_map(
    name: str = "app",
    data: Mapping[str, str] | None = None,
    *,
    binary: Mapping[str, bytes] | None = None,
    namespace: str = NAMESPACE,
    uid: str = "uid-1",
    version: int = 1,
    changed_at: float | None = 0.0,
    immutable: bool | None = None,
    created_at: float | None = None,
    annotations: Mapping[str, str] | None = None,
) -> ConfigMap:
    """Make a ConfigMap; `changed_at` None leaves it without managedFields."""
    metadata = _source_metadata(name, namespace, uid, version, changed_at, annotations)
    created = None if created_at is None else timestamp(created_at)
    return msgspec.convert(
        {
            "metadata": {**metadata, "creationTimestamp": created},
            "data": dict(data or {}),
            "binaryData": {key: b64encode(raw).decode() for key, raw in (binary or {}).items()},
            "immutable": immutable,
        },
        ConfigMap,
    )


def secret(
    name: str = "db",
    data: Mapping[str, bytes] | None = None,
    *,
    namespace: str = NAMESPACE,
    uid: str = "uid-1",
    version: int = 1,
    changed_at: float | None = 0.0,
    immutable: bool | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Secret:
    """Make a Secret; its values are given as bytes and stand in it as base64."""
    return msgspec.convert(
        {
            "metadata": _source_metadata(name, namespace, uid, version, changed_at, annotations),
            "data": {key: b64encode(raw).decode() for key, raw in (data or {}).items()},
            "immutable": immutable,
        },
        Secret,
    )


def _source_metadata(
    name: str,
    namespace: str,
    uid: str,
    version: int,
    changed_at: float | None,
    annotations: Mapping[str, str] | None,
) -> dict[str, Any]:
    written = [] if changed_at is None else [{"manager": "kubectl", "time": timestamp(changed_at)}]
    return {
        "name": name,
        "namespace": namespace,
        "uid": uid,
        "resourceVersion": str(version),
        "annotations": dict(annotations or {}),
        "managedFields": written,
    }


def sources(*items: ConfigMap | Secret) -> dict[ObjectKey, Source]:
    """Reduce ConfigMaps and Secrets to what the rules look at, by object key."""
    reduced = [
        source_from_config_map(item, [KEY])
        if isinstance(item, ConfigMap)
        else source_from_secret(item, [KEY])
        for item in items
    ]
    return {source.key: source for source in reduced}


# -- consumers -------------------------------------------------------------------------------


def _decoded(body: dict[str, Any], type: type[T]) -> T:
    """Decode a document as it would come from an API server."""
    return msgspec.json.decode(msgspec.json.encode(body), type=type)


def workload(
    spec: str = "",
    *,
    name: str = "web",
    generation: int = 1,
    annotations: Mapping[str, str] | None = None,
    template_annotations: Mapping[str, str] | None = None,
    replicas: int | None = 1,
    rolling: bool = False,
    paused: bool = False,
    update_strategy: str = "",
    partition: int | None = None,
    revision: str = "",
    written_at: float | None = None,
    owners: list[dict[str, Any]] | None = None,
) -> Workload:
    """Make an object with `spec.template`; `rolling` says that its rollout is under way.

    `revision` is the revision that its template carries, `written_at` when hotmap wrote it.
    """
    said = dict(template_annotations or {}) | ({REVISION: revision} if revision else {})
    update: dict[str, Any] = {"type": update_strategy}
    if partition is not None:
        update["rollingUpdate"] = {"partition": partition}
    managed: list[dict[str, Any]] = [{"manager": "kubectl", "time": timestamp(0)}]
    if written_at is not None:
        fields: dict[str, Any] = {
            "f:spec": {"f:template": {"f:metadata": {"f:annotations": {f"f:{REVISION}": {}}}}}
        }
        entry = {"manager": FIELD_MANAGER, "time": timestamp(written_at), "fieldsV1": fields}
        managed.append(entry)
    wanted = 1 if replicas is None else replicas
    return _decoded(
        {
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": f"uid-{name}",
                "resourceVersion": "1",
                "generation": generation,
                "annotations": dict(annotations or {}),
                "managedFields": managed,
                "ownerReferences": owners,
            },
            "spec": {
                "template": {"metadata": {"annotations": said}, "spec": pod_spec(spec)},
                "selector": {"matchLabels": {"app": name}},
                "replicas": replicas,
                "paused": paused,
                "updateStrategy": update,
            },
            "status": {
                "observedGeneration": generation,
                "replicas": wanted,
                "updatedReplicas": 0 if rolling else wanted,
                "availableReplicas": wanted,
            },
        },
        Workload,
    )


def deployment(spec: str = "", **options: Any) -> Consumer:
    """Make a Deployment as hotmap keeps it, from the YAML of its pod spec; see `workload`."""
    return consumer("Deployment", spec, **options)


def consumer(kind: str, spec: str = "", **options: Any) -> Consumer:
    """Make a consumer of any kind from the YAML of its pod spec; see the builder of its kind."""
    match kind:
        case "CronJob":
            return cron_job(spec, **options)
        case "Job":
            return job(spec, **options)
        case "Pod":
            return bare_pod(spec, **options)
        case "Rollout":
            return rollout(spec, **options)
    return consumer_from_workload(kind, workload(spec, **options))


def _metadata(
    annotations: Mapping[str, str] | None, *, generation: int = 1, **fields: Any
) -> dict[str, Any]:
    """Make the metadata of the object that is called web."""
    return {
        "name": "web",
        "namespace": NAMESPACE,
        "uid": "uid-web",
        "resourceVersion": "1",
        "generation": generation,
        "annotations": dict(annotations or {}),
        **fields,
    }


def cron_job(
    spec: str = "",
    *,
    suspend: bool = False,
    annotations: Mapping[str, str] | None = None,
    template_annotations: Mapping[str, str] | None = None,
    generation: int = 1,
    concurrency: str = "Allow",
    active: int = 0,
) -> Consumer:
    """Make a CronJob as hotmap keeps it, with some runs of its schedule under way."""
    body = {
        "metadata": _metadata(annotations, generation=generation),
        "spec": {
            "suspend": suspend,
            "concurrencyPolicy": concurrency,
            "jobTemplate": {
                "spec": {
                    "template": {
                        "metadata": {"annotations": template_annotations},
                        "spec": pod_spec(spec),
                    }
                }
            },
        },
        "status": {"active": [{"name": f"web-{number}"} for number in range(active)]},
    }
    return consumer_from_cron_job(_decoded(body, CronJob))


def job(
    spec: str = "",
    *,
    annotations: Mapping[str, str] | None = None,
    template_annotations: Mapping[str, str] | None = None,
    suspend: bool = False,
    ended: str = "",
    generation: int = 1,
) -> Consumer:
    """Make a Job as hotmap keeps it; `ended` is Complete or Failed."""
    status = {"conditions": [{"type": ended, "status": "True"}]} if ended else {}
    body = {
        "metadata": _metadata(annotations, generation=generation),
        "spec": {
            "suspend": suspend,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "uid-web"}},
            "template": {
                "metadata": {"annotations": template_annotations},
                "spec": pod_spec(spec),
            },
        },
        "status": status,
    }
    return consumer_from_job(_decoded(body, Job))


def bare_pod(
    spec: str = "", *, annotations: Mapping[str, str] | None = None, generation: int = 1
) -> Consumer:
    """Make a Pod without a workload as hotmap keeps it."""
    body = {"metadata": _metadata(annotations, generation=generation), "spec": pod_spec(spec)}
    return consumer_from_pod(_decoded(body, Pod))


def rollout(
    spec: str = "",
    *,
    annotations: Mapping[str, str] | None = None,
    template_annotations: Mapping[str, str] | None = None,
    generation: int = 1,
    replicas: int | None = 1,
    template_in: tuple[str, str] | None = None,
    template_seen: int = 1,
    restart_at: float | None = None,
    restarted_at: float | None = None,
    promoted: bool = True,
    paused: bool = False,
    observed: int | None = None,
    status: Mapping[str, Any] | None = None,
) -> Consumer:
    """Make an Argo Rollout as hotmap keeps it, all of whose pods have its newest template.

    `template_in` is the kind and name of the object whose template it uses, `observed` the
    generation that Argo has seen if that is not the present one, `status` what it reports in
    addition.
    """
    template = {"metadata": {"annotations": template_annotations}, "spec": pod_spec(spec)}
    own = {"template": template, "selector": {"matchLabels": {"app": "web"}}}
    kind, name = template_in or ("", "")
    ref = {"workloadRef": {"apiVersion": "apps/v1", "kind": kind, "name": name}}
    body = {
        "metadata": _metadata(annotations, generation=generation),
        "spec": {
            **(ref if template_in else own),
            "replicas": replicas,
            "paused": paused,
            "restartAt": None if restart_at is None else timestamp(restart_at),
        },
        "status": {
            "observedGeneration": str(generation if observed is None else observed),
            "workloadObservedGeneration": str(template_seen) if template_in else "",
            "currentPodHash": "new",
            "stableRS": "new" if promoted else "old",
            "replicas": replicas or 0,
            "updatedReplicas": (replicas or 0) if promoted else 0,
            "restartedAt": None if restarted_at is None else timestamp(restarted_at),
            **(status or {}),
        },
    }
    return consumer_from_rollout(_decoded(body, Rollout))


def pod(
    name: str = "web-1",
    *,
    started: float | None = None,
    created: float | None = None,
    scheduled: float | None = None,
    reported: float | None = None,
    containers: Mapping[str, float | None] | None = None,
    restartable: Mapping[str, float | None] | None = None,
    ended: Mapping[str, float] | None = None,
    phase: str = "Running",
    terminating: bool = False,
    revision: str = "",
) -> Pod:
    """Make a pod that started at POSIX seconds `started`, with its container `web`.

    `containers` gives the start of each running container instead (None: not running),
    `restartable` those of init containers that run on, `ended` of those that have run. All these
    are the node's clock; the API server's are `created` (by default when it started), `scheduled`
    and `reported`, when the kubelet last wrote the status.
    """
    if created is None:
        created = started or 0.0
    if containers is None:
        containers = {"web": started}

    def statuses(times: Mapping[str, float | None]) -> list[dict[str, Any]]:
        return [
            {
                "name": container,
                "ready": at is not None,
                "state": {} if at is None else {"running": {"startedAt": timestamp(at)}},
            }
            for container, at in times.items()
        ]

    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "annotations": {REVISION: revision} if revision else {},
                "creationTimestamp": timestamp(created),
                "deletionTimestamp": timestamp(0) if terminating else None,
                "managedFields": None
                if reported is None
                else [{"manager": "kubelet", "subresource": "status", "time": timestamp(reported)}],
            },
            "status": {
                "phase": phase,
                "conditions": None
                if scheduled is None
                else [
                    {
                        "type": "PodScheduled",
                        "status": "True",
                        "lastTransitionTime": timestamp(scheduled),
                    }
                ],
                "startTime": None if started is None else timestamp(started),
                "containerStatuses": statuses(containers),
                "initContainerStatuses": [
                    *statuses(restartable or {}),
                    *(
                        {"name": name, "state": {"terminated": {"startedAt": timestamp(at)}}}
                        for name, at in (ended or {}).items()
                    ),
                ],
            },
        },
        Pod,
    )


def with_changes(snapshot: Snapshot, *changes: ChangeSummary) -> Snapshot:
    """Give each source of a snapshot its observed changes."""
    sources = zip(snapshot.sources, changes, strict=True)
    return snapshot._replace(sources=tuple(s._replace(changes=c) for s, c in sources))


def snapshot(
    who: Consumer,
    *items: ConfigMap,
    record: Record | None = None,
    policy: Policy | None = None,
    now: float = 1000.0,
    **facts: Any,
) -> Snapshot:
    """Take the snapshot of a consumer that follows all its sources, which are `items`."""
    found = sources(*items)
    taken = take_snapshot(
        who,
        policy or Policy(opted_in=True),
        record,
        uses=tuple(who.uses),
        sources=found,
        keys=[KEY],
        now=now,
    )
    return taken._replace(**facts)
