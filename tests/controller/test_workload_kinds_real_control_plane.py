"""What only upstream's API server and controllers can show of Jobs, Pods and custom resources.

No node runs: pods stay pending, and a test that needs more reports it in a kubelet's place.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from tests.cluster.cluster import Cluster
from tests.cluster.errors import TestBedError
from tests.cluster.fixtures import real_control_plane
from tests.controller.argo_rollouts import ROLLOUTS

from hotmap.controller.run import Controller
from hotmap.controller.settings import Settings
from hotmap.core.policy.policy import Defaults
from hotmap.kube.client import Client
from hotmap.kube.config import TLS, BearerToken
from hotmap.kube.kubeconfig import load_kubeconfig

__all__ = ["real_control_plane"]

pytestmark = [pytest.mark.cluster, pytest.mark.real_time]

Object = dict[str, Any]

DEPLOY = Path(__file__).parents[2] / "deploy"

FOLLOW = {"hotmap.dev/follow": "auto"}
LABELS = {"app": "x"}


class Shop:
    """One namespace of a real control plane, and a controller that serves it alone."""

    def __init__(self, cluster: Cluster, client: Client, namespace: str) -> None:
        self._cluster = cluster
        self._client = client
        self.namespace = namespace

    def controller(self) -> Controller:
        settings = Settings(
            namespace=self.namespace,
            watch_namespaces=(self.namespace,),
            defaults=Defaults(settle=0.1, settle_max=1.0),
            listen=("127.0.0.1", 0),
            flap_limit=0,
        )
        return Controller(self._client, settings)

    async def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        named = (f"--namespace={self.namespace}", *arguments)
        return await asyncio.to_thread(self._cluster.kubectl, *named, stdin=stdin)

    async def apply(self, *objects: Object) -> None:
        await self.kubectl("apply", "--filename=-", stdin=yaml.safe_dump_all(objects))

    async def install(self, kustomization: Path) -> None:
        """Apply the rights of an installation, without what runs the controller."""
        text = await self.kubectl("kustomize", str(kustomization))
        kinds = ("ServiceAccount", "Role", "RoleBinding")
        await self.apply(*(item for item in yaml.safe_load_all(text) if item["kind"] in kinds))

    @asynccontextmanager
    async def as_installed(self) -> AsyncIterator[Shop]:
        """Work with the ServiceAccount's rights for the length of a block."""
        token = (await self.kubectl("create", "token", "hotmap")).strip()
        config = load_kubeconfig(str(self._cluster.kubeconfig))
        config = config._replace(credentials=BearerToken(token), tls=TLS(config.tls.ca))
        async with Client(config) as client:
            yield Shop(self._cluster, client, self.namespace)

    async def get(self, kind: str, name: str) -> Object:
        found: Object = json.loads(await self.kubectl("get", kind, name, "--output=json"))
        return found

    async def items(self, kind: str) -> list[Object]:
        found = json.loads(await self.kubectl("get", kind, "--output=json"))
        items: list[Object] = found["items"]
        return items

    async def report(self, kind: str, name: str, status: Object) -> None:
        """Report a status in place of the controller that does so in a full cluster."""
        patch = json.dumps({"status": status})
        await self.kubectl(
            *("patch", kind, name, "--subresource=status", "--type=merge", "--patch", patch)
        )

    async def config_map(self, level: str) -> None:
        await self.apply({**_object("v1", "ConfigMap", "app"), "data": {"LEVEL": level}})

    async def until(
        self, check: Callable[[], Awaitable[Any]], what: str, *, within: float = 30
    ) -> Any:
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            if found := await check():
                return found
            await asyncio.sleep(0.1)
        raise AssertionError(f"timed out waiting until {what}; Events: {await self.events()}")

    async def events(self, reason: str = "") -> list[str]:
        return [
            event["message"]
            for event in await self.items("events")
            if event.get("source", {}).get("component") == "hotmap"
            and reason in ("", event["reason"])
        ]

    async def event(self, reason: str, *, within: float = 30) -> str:
        async def is_reported() -> list[str]:
            return await self.events(reason)

        found: list[str] = await self.until(is_reported, f"an Event says {reason}", within=within)
        return found[0]

    async def adopted(self, controller: Controller, *names: str) -> None:
        """Wait until a controller has looked at some consumers, and keeps what it saw."""

        async def pods_checked() -> bool:
            seen = {key.name for key in controller.decision_log.history()}
            shards = controller.record_shards
            return seen >= set(names) and shards is not None and not shards.statistics().dirty

        await self.until(pods_checked, f"{names} are adopted", within=60)


@pytest.fixture
async def shop(real_control_plane: Cluster) -> AsyncIterator[Shop]:
    namespace = f"kinds-{uuid.uuid4().hex[:6]}"
    async with Client(load_kubeconfig(str(real_control_plane.kubeconfig))) as client:
        shop = Shop(real_control_plane, client, namespace)
        await shop.kubectl("create", "namespace", namespace)
        await shop.config_map("info")
        yield shop
        await shop.kubectl("delete", "namespace", "--wait=false", namespace)


# -- CronJob and Job -----------------------------------------------------------------------------


async def test_cron_job_runs_now(shop: Shop) -> None:
    """The real server takes the Job, and the CronJob is its owner."""
    template = {"spec": {"template": {"spec": _once()}}}
    await shop.apply(
        {
            **_object("batch/v1", "CronJob", "report", {"hotmap.dev/on-change": "run-now"}),
            "spec": {"schedule": "0 0 1 1 *", "jobTemplate": template},
        }
    )
    async with shop.controller() as controller:
        await shop.adopted(controller, "report")
        await shop.config_map("debug")
        await shop.event("JobStarted")
        (job,) = await shop.items("jobs")
    owner = (await shop.get("cronjob", "report"))["metadata"]["uid"]
    assert [reference["uid"] for reference in job["metadata"]["ownerReferences"]] == [owner]
    assert job["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"] == "manual"


async def test_job_is_created_again(shop: Shop) -> None:
    """Its pods end first; the server labels the new one again, under its own uid."""
    await shop.apply(_job("recreate"))
    old = await shop.get("job", "load")
    async with shop.controller() as controller:
        await shop.adopted(controller, "load")
        await shop.config_map("debug")
        await shop.event("JobRecreated")
        new = await shop.get("job", "load")
        await shop.until(lambda: _pods_of(shop, new), "the new Job has its pod")
    uid = new["metadata"]["uid"]
    assert uid != old["metadata"]["uid"]
    chosen = new["spec"]["selector"]["matchLabels"]
    assert chosen == {"batch.kubernetes.io/controller-uid": uid}
    assert new["spec"]["template"]["metadata"]["labels"]["job-name"] == "load"
    assert not await _pods_of(shop, old)


async def test_finished_job_is_run_again(shop: Shop) -> None:
    """Its pod has ended and stays for its log, and goes with it."""
    await shop.apply(_job("recreate"))
    old = await shop.get("job", "load")
    (pod,) = await shop.until(lambda: _pods_of(shop, old), "the Job has its pod")
    await shop.report("pod", pod["metadata"]["name"], {"phase": "Succeeded"})
    await shop.kubectl("wait", "--for=condition=Complete", "job/load", "--timeout=30s")
    async with shop.controller() as controller:
        await shop.adopted(controller, "load")
        await shop.config_map("debug")
        message = await shop.event("JobRecreated")
        new = await shop.get("job", "load")
    assert message.endswith(": recreating the finished Job")
    assert new["metadata"]["uid"] != old["metadata"]["uid"]


async def test_job_rejected_by_policy_is_not_deleted(shop: Shop) -> None:
    """The dry run meets the policy before it meets the name."""
    await shop.apply(_job("recreate"))
    old = await shop.get("job", "load")
    policy = f"{shop.namespace}-no-jobs"
    group = "admissionregistration.k8s.io/v1"
    rule = {
        "apiGroups": ["batch"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["jobs"],
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": shop.namespace}}
    denies = [{"expression": "false", "message": "no Jobs today"}]
    await shop.apply(
        {
            **_object(group, "ValidatingAdmissionPolicy", policy),
            "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": denies},
        },
        {
            **_object(group, "ValidatingAdmissionPolicyBinding", policy),
            "spec": {
                "policyName": policy,
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": here},
            },
        },
    )
    try:
        await shop.until(lambda: _jobs_are_refused(shop), "the policy is in force", within=60)
        async with shop.controller() as controller:
            await shop.adopted(controller, "load")
            await shop.config_map("debug")
            message = await shop.event("Failed")
        assert "no Jobs today" in message
        assert (await shop.get("job", "load"))["metadata"]["uid"] == old["metadata"]["uid"]
    finally:
        for kind in ("validatingadmissionpolicy", "validatingadmissionpolicybinding"):
            await shop.kubectl("delete", kind, policy)


# -- Pod -----------------------------------------------------------------------------------------


async def test_pod_eviction_waits_for_disruption_budget(shop: Shop) -> None:
    """The server refuses with 429 as long as the budget is exhausted."""
    pod = _object("v1", "Pod", "alone", {"hotmap.dev/on-change": "evict"})
    pod["metadata"]["labels"] = {**LABELS, "hotmap.dev/watch": "true"}
    spec = {"minAvailable": 1, "selector": {"matchLabels": LABELS}}
    await shop.apply(
        {**pod, "spec": {**_env(), "nodeName": "nowhere"}},
        {**_object("policy/v1", "PodDisruptionBudget", "all"), "spec": spec},
    )
    ready = {"type": "Ready", "status": "True"}
    await shop.report("pod", "alone", {"phase": "Running", "conditions": [ready]})

    async def counted() -> bool:
        status = (await shop.get("poddisruptionbudget", "all"))["status"]
        return bool(status.get("currentHealthy") == 1)

    await shop.until(counted, "the budget counts the pod")
    async with shop.controller() as controller:
        await shop.adopted(controller, "alone")
        await shop.config_map("debug")
        message = await shop.event("Failed")
        assert "disruption budget" in message
        assert "deletionTimestamp" not in (await shop.get("pod", "alone"))["metadata"]
        await shop.kubectl("delete", "poddisruptionbudget", "all")
        await shop.event("Evicted", within=60)
    going = (await shop.get("pod", "alone"))["metadata"]
    assert "deletionTimestamp" in going
    await shop.kubectl("delete", "pod", "alone", "--force", "--grace-period=0")


# -- rights --------------------------------------------------------------------------------------


async def test_actions_need_their_rbac_component(shop: Shop, tmp_path: Path) -> None:
    """With the rights of one namespace alone an Event names what is missing; then it is granted."""
    await shop.install(DEPLOY / "namespaced")
    pod = _object("v1", "Pod", "alone", {"hotmap.dev/on-change": "evict"})
    pod["metadata"]["labels"] = {"hotmap.dev/watch": "true"}
    template = {"spec": {"template": {"spec": _once()}}}
    await shop.apply(
        {**pod, "spec": _env()},
        _job("recreate"),
        {
            **_object("batch/v1", "CronJob", "report", {"hotmap.dev/on-change": "run-now"}),
            "spec": {"schedule": "0 0 1 1 *", "jobTemplate": template},
        },
    )
    before = await shop.get("job", "load")
    async with shop.as_installed() as installed, installed.controller() as controller:
        await installed.adopted(controller, "alone", "load", "report")
        await shop.config_map("debug")

        async def all_failed() -> list[str] | None:
            messages = await shop.events("Failed")
            return messages if len(messages) == 3 else None

        messages = " ".join(await shop.until(all_failed, "three Events say what is missing"))
        for missing in ('create resource "pods/eviction"', 'get resource "jobs"'):
            assert missing in messages
        assert 'get resource "cronjobs"' in messages
        assert (await shop.get("job", "load"))["metadata"]["uid"] == before["metadata"]["uid"]
        parts = os.path.relpath(DEPLOY, tmp_path)
        components = ", ".join(f"{parts}/components/{item}" for item in ("jobs", "evict"))
        (tmp_path / "kustomization.yaml").write_text(
            f"resources: [{parts}/namespaced]\ncomponents: [{components}]\n"
        )
        await shop.install(tmp_path)
        for reason in ("JobStarted", "JobRecreated", "Evicted"):
            await shop.event(reason, within=90)


# -- Argo Rollouts -------------------------------------------------------------------------------


async def test_rollouts_come_and_go_with_their_kind(shop: Shop) -> None:
    """Neither their absence nor their removal harms anything else, and each is noticed."""
    await shop.kubectl("delete", "crd", "rollouts.argoproj.io", "--ignore-not-found")
    await shop.apply(_deployment("web"))
    async with shop.controller() as controller:
        await shop.adopted(controller, "web")
        assert (await _watched(controller))["rollouts"] is False
        await _install(shop)
        await _roll(shop, controller)
        await shop.kubectl("delete", "crd", "rollouts.argoproj.io")

        async def gone() -> bool:
            watched = {statistic.resource for statistic in controller.reflector_statistics()}
            return not controller.index.consumers["Rollout"] and "rollouts" not in watched

        await shop.until(gone, "no Rollout is known any more", within=120)
        assert (await _watched(controller))["rollouts"] is False
        await shop.config_map("trace")
        await shop.until(lambda: _revision(shop, "deployment", "web"), "the Deployment is rolled")
        assert controller.queue_statistics()["reconcile"].failing == 0
        await _install(shop)
        await shop.until(lambda: _known(controller), "Rollouts are watched again", within=60)


async def _roll(shop: Shop, controller: Controller) -> None:
    """Roll one by its own template, one by a Deployment's, and one by restartAt."""
    own = {"selector": {"matchLabels": LABELS}, "template": _template()}
    ref = {"workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "lent"}}
    restart = {"reloader.stakater.com/rollout-strategy": "restart"}
    version = "argoproj.io/v1alpha1"
    await shop.apply(
        {**_object(version, "Rollout", "own", FOLLOW), "spec": {"replicas": 1, **own}},
        _deployment("lent", annotations={}, replicas=0),
        {**_object(version, "Rollout", "borrows", FOLLOW), "spec": {"replicas": 2, **ref}},
        {**_object(version, "Rollout", "again", FOLLOW | restart), "spec": own},
    )
    for name in ("own", "borrows", "again"):
        await _promote(shop, name)
    await shop.adopted(controller, "own", "lent", "again")
    await shop.config_map("debug")
    await shop.until(lambda: _revision(shop, "rollout", "own"), "the Rollout is rolled")
    await shop.until(lambda: _revision(shop, "deployment", "lent"), "the template is changed")

    async def restarts() -> str | None:
        asked: str | None = (await shop.get("rollout", "again"))["spec"].get("restartAt")
        return asked

    at = await shop.until(restarts, "the pods are to be replaced")
    assert at.endswith("Z")
    assert not await _revision(shop, "rollout", "again")
    assert not await _revision(shop, "rollout", "borrows")


async def _install(shop: Shop) -> None:
    await shop.apply(ROLLOUTS)
    await shop.kubectl(
        *("wait", "--for=condition=Established", "crd/rollouts.argoproj.io", "--timeout=30s")
    )
    await shop.until(lambda: _served(shop), "the kind is served")


async def _served(shop: Shop) -> bool:
    return "rollouts" in await shop.kubectl(
        "api-resources", "--api-group=argoproj.io", "--cached=false"
    )


async def _promote(shop: Shop, name: str) -> None:
    """Report a Rollout as Argo does when all pods have its newest template."""
    obj = await shop.get("rollout", name)
    count = obj["spec"].get("replicas", 1)
    status = {
        "observedGeneration": str(obj["metadata"]["generation"]),
        "workloadObservedGeneration": "1",
        "currentPodHash": "5d9c7b8f6",
        "stableRS": "5d9c7b8f6",
        "replicas": count,
        "updatedReplicas": count,
    }
    await shop.report("rollout", name, status)


async def _known(controller: Controller) -> bool:
    return (await _watched(controller))["rollouts"]


async def _watched(controller: Controller) -> Mapping[str, bool]:
    """Return which resources are watched and complete; it is ready, whichever they are."""
    url = f"http://127.0.0.1:{controller.port}/readyz"
    async with aiohttp.ClientSession() as http, http.get(url) as response:
        detail = await response.json()
    assert (response.status, detail["refused"]) == (200, {})
    found = {
        statistic.resource: statistic.synced for statistic in controller.reflector_statistics()
    }
    return {"rollouts": False, **found}


async def _revision(shop: Shop, kind: str, name: str) -> str:
    spec = (await shop.get(kind, name))["spec"]
    metadata = spec.get("template", {}).get("metadata", {})
    return str((metadata.get("annotations") or {}).get("hotmap.dev/revision", ""))


# -- objects -------------------------------------------------------------------------------------


def _object(
    version: str, kind: str, name: str, annotations: Mapping[str, str] | None = None
) -> Object:
    said = {} if annotations is None else {"annotations": {**FOLLOW, **annotations}}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **said}}


def _env() -> Object:
    reference = {"configMapKeyRef": {"name": "app", "key": "LEVEL"}}
    variable = {"name": "LEVEL", "valueFrom": reference}
    return {"containers": [{"name": "main", "image": "app:1", "env": [variable]}]}


def _once() -> Object:
    return {**_env(), "restartPolicy": "Never"}


def _template() -> Object:
    return {"metadata": {"labels": LABELS}, "spec": _env()}


def _job(on_change: str) -> Object:
    return {
        **_object("batch/v1", "Job", "load", {"hotmap.dev/on-change": on_change}),
        "spec": {"template": {"metadata": {"labels": LABELS}, "spec": _once()}},
    }


def _deployment(
    name: str, *, annotations: Mapping[str, str] | None = FOLLOW, replicas: int = 1
) -> Object:
    metadata = {"name": name, "annotations": dict(annotations or {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": LABELS},
            "template": _template(),
        },
    }


async def _pods_of(shop: Shop, job: Object) -> list[Object]:
    uid = job["metadata"]["uid"]
    pods = await shop.items("pods")
    return [
        pod for pod in pods if pod["metadata"].get("ownerReferences", [{}])[0].get("uid") == uid
    ]


async def _jobs_are_refused(shop: Shop) -> bool:
    try:
        await shop.kubectl("create", "job", "probe", "--image=x", "--dry-run=server")
    except TestBedError as error:
        return "no Jobs today" in str(error)
    return False
