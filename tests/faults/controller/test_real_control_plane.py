"""What only upstream's own API server and controllers can show, without a node."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import real_control_plane
from tests.support.scenario import Object, Scenario, scenario

from hotmap.core.errors import Unauthorized
from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import CONFIGMAPS

__all__ = ["real_control_plane"]

pytestmark = pytest.mark.cluster

_REVISION = "hotmap.dev/revision"


class Mall:
    """A scenario on a real control plane, and its kubectl."""

    def __init__(self, cluster: Cluster, scenario: Scenario) -> None:
        self.cluster = cluster
        self.scenario = scenario

    async def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl in the consumers' namespace."""
        named = (f"--namespace={self.scenario.namespace}", *arguments)
        return await asyncio.to_thread(self.cluster.kubectl, *named, stdin=stdin)

    async def apply(self, *objects: Object) -> None:
        await self.kubectl("apply", "--filename=-", stdin=yaml.safe_dump_all(objects))

    async def account(self, *, may_watch: tuple[str, ...]) -> None:
        """Make a ServiceAccount with the rights that a controller needs, for some workloads."""
        own, namespace = self.scenario.own, self.scenario.namespace
        subject = {"kind": "ServiceAccount", "name": "hotmap", "namespace": own}
        rules = {
            own: [_rule("", "secrets", "get", "create", "update")],
            namespace: [
                _rule("", "configmaps secrets", "list", "watch"),
                _rule("apps", " ".join(may_watch), "list", "watch", "patch"),
                _rule("", "pods", "list", "patch"),
                _rule("", "events", "create", "patch"),
            ],
        }
        objects: list[Object] = [_object("v1", "ServiceAccount", "hotmap", own)]
        for where, given in rules.items():
            group = "rbac.authorization.k8s.io"
            role = {"apiGroup": group, "kind": "Role", "name": "hotmap"}
            objects += [
                {**_object(f"{group}/v1", "Role", "hotmap", where), "rules": given},
                {
                    **_object(f"{group}/v1", "RoleBinding", "hotmap", where),
                    "roleRef": role,
                    "subjects": [subject],
                },
            ]
        for item in objects:
            where = item["metadata"]["namespace"]
            text = json.dumps(item)
            await asyncio.to_thread(
                self.cluster.kubectl, f"--namespace={where}", "apply", "--filename=-", stdin=text
            )

    async def token(self, *, bound_to: str) -> str:
        """Return a token of that ServiceAccount that dies with a Secret."""
        own = f"--namespace={self.scenario.own}"
        run = self.cluster.kubectl
        await asyncio.to_thread(run, own, "create", "secret", "generic", bound_to)
        bound = (f"--bound-object-name={bound_to}", "--bound-object-kind=Secret")
        found = await asyncio.to_thread(run, own, "create", "token", "hotmap", *bound)
        return found.strip()

    def kubeconfig(self, token: Path) -> Path:
        """Write a kubeconfig that reads its token from a file."""
        config = json.loads(self.cluster.kubeconfig.read_text())
        config["users"][0]["user"] = {"tokenFile": str(token)}
        path = self.scenario.folder / "kubeconfig"
        path.write_text(json.dumps(config))
        return path


@pytest.fixture
async def mall(real_control_plane: Cluster, tmp_path: Path) -> AsyncIterator[Mall]:
    name = f"faults-{uuid.uuid4().hex[:6]}"
    path = real_control_plane.kubeconfig
    async with Client(load_kubeconfig(str(path))) as client:
        async with scenario(client, tmp_path, path, namespace=name, is_alive=True) as running:
            yield Mall(real_control_plane, running)
        await asyncio.to_thread(
            real_control_plane.kubectl,
            *("delete", "namespace", "--wait=false", running.namespace, running.own),
        )


async def test_workload_rejected_by_policy_delays_no_other(mall: Mall) -> None:
    """The others are rolled; its retries back off, and its one Event names the policy."""
    shop, policy = mall.scenario, f"{mall.scenario.namespace}-frozen"
    await shop.set_up()
    await shop.deployment("stubborn")
    group = "admissionregistration.k8s.io"
    only = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": shop.namespace}}}
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["deployments"],
    }
    annotations = "object.spec.template.metadata.?annotations"
    allowed = (
        f"object.metadata.name != 'stubborn' || "
        f"!{annotations}.orValue({{}}).exists(key, key == 'hotmap.dev/revision')"
    )
    await mall.apply(
        {
            **_object(f"{group}/v1", "ValidatingAdmissionPolicy", policy),
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": allowed, "message": "its template is frozen"}],
            },
        },
        {
            **_object(f"{group}/v1", "ValidatingAdmissionPolicyBinding", policy),
            "spec": {
                "policyName": policy,
                "validationActions": ["Deny"],
                "matchResources": only,
            },
        },
    )
    try:
        await shop.until(lambda: _is_refused(mall), "the policy is in force")
        async with shop.started_controller() as controller:
            await shop.edit(LEVEL="debug")
            await shop.wait_for_rollouts()

            async def backed_off() -> bool:
                return max(_pauses(controller.log()), default=0.0) >= 1.0

            await shop.until(backed_off, "retries of the stubborn one wait for long", within=120)
            (message,) = await shop.messages("Failed")
            assert policy in message
            assert "its template is frozen" in message
            await shop.check_invariants({"web": 1}, retrying=True)
    finally:
        kinds = "validatingadmissionpolicy", "validatingadmissionpolicybinding"
        for kind in kinds:
            await mall.kubectl("delete", kind, policy)


async def test_kind_without_watch_permission_is_reported(mall: Mall) -> None:
    """Everything else works; readiness names what is missing, and so does the log, once."""
    shop = mall.scenario
    await shop.set_up()
    await mall.account(may_watch=("deployments", "daemonsets"))
    token = shop.folder / "token"
    token.write_text(await mall.token(bound_to="first"))
    async with shop.started_controller(kubeconfig=mall.kubeconfig(token)) as controller:
        await shop.edit(LEVEL="debug")
        await shop.wait_for_rollouts()
        readiness = json.loads(await controller.get("/readyz"))
        assert readiness["ready"] is True
        assert "is forbidden" in readiness["refused"]["statefulsets"]
        said = [
            line
            for line in controller.log().splitlines()
            if "statefulsets" in line and "forbidden" in line and " WARNING " in line
        ]
        assert len(said) == 1, controller.log()
        await shop.check_invariants({"web": 1})


async def test_namespace_without_watch_permission_is_reported(mall: Mall) -> None:
    """The other one is served; readiness says what is missing."""
    shop = mall.scenario
    await shop.set_up()
    await mall.account(may_watch=("deployments", "statefulsets", "daemonsets"))
    token = shop.folder / "token"
    token.write_text(await mall.token(bound_to="first"))
    behind = shop.controller(kubeconfig=mall.kubeconfig(token), also="kube-public")
    async with behind as controller:
        await controller.ready()
        await shop.wait_until_handled()
        await shop.edit(LEVEL="debug")
        await shop.wait_for_rollouts()
        readiness = json.loads(await controller.get("/readyz"))
        assert readiness["ready"] is True
        assert 'namespace "kube-public"' in readiness["refused"]["deployments"]
        await shop.check_invariants({"web": 1})


async def test_token_is_rotated(mall: Mall) -> None:
    """Once the old one is refused, the file is read again, and what could not be done is done."""
    shop = mall.scenario
    await shop.set_up()
    await mall.account(may_watch=("deployments", "statefulsets", "daemonsets"))
    token = shop.folder / "token"
    token.write_text(await mall.token(bound_to="first"))
    second = await mall.token(bound_to="second")
    kubeconfig = mall.kubeconfig(token)
    async with (
        shop.controller(kubeconfig=kubeconfig) as controller,
        Client(load_kubeconfig(str(kubeconfig))) as probe,
    ):
        await controller.ready()
        await shop.wait_until_handled()
        await asyncio.to_thread(
            mall.cluster.kubectl, f"--namespace={shop.own}", "delete", "secret", "first"
        )

        async def refused() -> bool:
            try:
                await probe.list_page(CONFIGMAPS, shop.namespace, type=Any)
            except Unauthorized:
                return True
            return False

        await shop.until(refused, "the first token is refused")
        await shop.edit(LEVEL="debug")
        await controller.wait_for_output("retrying in")
        assert shop.rollouts.of("web") == []
        token.write_text(second)
        await shop.wait_for_rollouts()
        await shop.check_invariants({"web": 1})


async def test_rollout_undo_needs_no_action(mall: Mall) -> None:
    """It restores an old template, whose new pods read the current content."""
    shop = mall.scenario
    await shop.set_up(replicas=2)
    async with shop.started_controller() as controller:
        for times in (1, 2):
            await shop.edit(LEVEL=f"v{times}")
            await shop.wait_for_rollouts(times=times)
            await shop.wait_until_current()
        first = shop.rollouts.of("web")[0]
        # Within two seconds of an edit, no start of a pod proves anything.
        await shop.wait_until_pods_are_older()
        await mall.kubectl("rollout", "undo", "deployment/web")
        await shop.wait_for_rollout_end()
        await shop.wait_until_handled()
        assert await shop.revision() == first
        await shop.wait_until_current()
        assert await controller.stop() == 0
    async with shop.started_controller():
        assert await shop.revision() == first
        await shop.edit(LEVEL="v3")
        await shop.wait_for_rollouts(times=3)
        await shop.wait_until_current()
        await shop.check_invariants({"web": 3})


async def test_rollout_restart_after_an_edit_needs_no_second_rollout(mall: Mall) -> None:
    """The pods have the new content already, so none is replaced a second time."""
    shop = mall.scenario
    await shop.set_up(replicas=2)
    async with shop.started_controller("--settle=2s", "--settle-max=10s"):
        await shop.edit(LEVEL="debug")
        await mall.kubectl("rollout", "restart", "deployment/web")
        await shop.wait_for_rollout_end()
        await shop.wait_until_handled()
        await shop.wait_until_current()
        await shop.check_invariants({"web": 0})


async def test_source_and_image_applied_together_need_no_further_rollout(mall: Mall) -> None:
    """As `helm upgrade` does: the pods of the owner's own rollout have the new content."""
    shop = mall.scenario
    await shop.set_up(replicas=3)
    async with shop.started_controller():
        source = _object("v1", "ConfigMap", "app", shop.namespace)
        image = {"containers": [{"name": "main", "image": "app:2"}]}
        consumer = _object("apps/v1", "Deployment", "web", shop.namespace)
        objects = [
            {**source, "data": {"LEVEL": "debug"}},
            {**consumer, "spec": {"template": {"spec": image}}},
        ]
        await mall.kubectl(
            *("apply", "--server-side", "--force-conflicts", "--field-manager=helm"),
            "--filename=-",
            stdin=yaml.safe_dump_all(objects),
        )
        await shop.wait_for_rollout_end()
        await shop.wait_until_handled()
        await shop.wait_until_current()
        await shop.check_invariants({"web": 0})


async def test_paused_deployment_takes_the_content_when_resumed(mall: Mall) -> None:
    """It takes the revision, and its pods the content once it is resumed."""
    shop = mall.scenario
    await shop.set_up(replicas=2)
    async with shop.started_controller():
        await mall.kubectl("rollout", "pause", "deployment/web")
        await shop.edit(LEVEL="debug")
        await shop.wait_for_rollouts()
        await shop.wait_until_handled()
        stale = [name for name in await shop.stale_pods() if name.startswith("web-")]
        assert len(stale) == 2
        await mall.kubectl("rollout", "resume", "deployment/web")
        await shop.wait_until_current()
        await shop.check_invariants({"web": 1})


async def test_edit_in_the_middle_of_a_rollout_reaches_every_pod(mall: Mall) -> None:
    """The change folds into what is under way, or follows it; no pod keeps old content."""
    shop = mall.scenario
    await shop.set_up(replicas=4)
    async with shop.started_controller():
        await mall.kubectl("rollout", "restart", "deployment/web")
        await shop.edit(LEVEL="debug")
        await shop.wait_until_current()
        await shop.check_invariants({"web": 1})


async def test_removed_revision_is_not_restored_without_an_edit(mall: Mall) -> None:
    """A GitOps tool removes it each time; every edit is rolled out once nevertheless."""
    shop = mall.scenario
    await shop.set_up()
    original = json.loads(await mall.kubectl("get", "deployment", "web", "--output=json"))
    for name in ("resourceVersion", "uid", "generation", "managedFields", "creationTimestamp"):
        original["metadata"].pop(name, None)
    original.pop("status")
    manifest = json.dumps(original)
    async with shop.started_controller():
        for times in (1, 2, 3):
            await shop.edit(LEVEL=f"v{times}")
            await shop.wait_for_rollouts(times=times)
            # Earlier, pods with the old content would stay, and be rolled out once more.
            await shop.wait_for_rollout_end()
            await mall.kubectl("replace", "--filename=-", stdin=manifest)
            await shop.wait_for_rollout_end()
            await shop.wait_until_handled()
            await shop.wait_until_current()
            assert len(shop.rollouts.of("web")) == times
        await shop.check_invariants({"web": 3}, left_alone=("web",))


async def _is_refused(mall: Mall) -> bool:
    revision = {"spec": {"template": {"metadata": {"annotations": {"hotmap.dev/revision": "x"}}}}}
    patch = ("patch", "deployment", "stubborn", "--dry-run=server", "--patch", json.dumps(revision))
    try:
        await mall.kubectl(*patch)
    except Exception as error:
        return "its template is frozen" in str(error)
    return False


def _pauses(log: str) -> list[float]:
    """List the seconds that the stubborn one's retries waited."""
    return [
        float(found)
        for found in re.findall(r"stubborn: reconcile failed, retrying in ([0-9.]+)s", log)
    ]


def _object(version: str, kind: str, name: str, namespace: str = "") -> Object:
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **where}}


def _rule(group: str, resources: str, *verbs: str) -> Object:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": list(verbs)}


async def test_apply_keeps_the_revision_annotation(mall: Mall) -> None:
    """Applies of both kinds leave it, an undo is none, a replace and a patch are reported."""
    shop = mall.scenario
    await shop.set_up()

    async def manifest(**changes: Any) -> str:
        """Write web as a repository would have it: without what others added."""
        found = await shop.get("Deployment", "web")
        found["spec"]["template"]["metadata"].pop("annotations", None)
        metadata = {key: found["metadata"][key] for key in ("name", "namespace", "annotations")}
        metadata["annotations"].pop("deployment.kubernetes.io/revision", None)
        kinds = {"apiVersion": "apps/v1", "kind": "Deployment"}
        return yaml.safe_dump({**kinds, "metadata": metadata, "spec": found["spec"], **changes})

    async with shop.started_controller():
        for times in (1, 2):
            await shop.edit(LEVEL=f"v{times}")
            await shop.wait_for_rollouts(times=times)
            await shop.wait_until_current()
        await mall.kubectl("apply", "--filename=-", stdin=await manifest())
        forced = ("apply", "--server-side", "--force-conflicts", "--filename=-")
        await mall.kubectl(*forced, stdin=await manifest())
        assert await shop.revision() == shop.rollouts.of("web")[-1]
        await mall.kubectl("rollout", "undo", "deployment/web")
        await shop.wait_for_rollout_end()
        assert await shop.revision() == shop.rollouts.of("web")[0]
        await shop.wait_until_handled()
        assert await shop.messages("RevisionChanged") == []

        await mall.kubectl("replace", "--filename=-", stdin=await manifest())
        await shop.wait_for_rollout_end()

        async def has_warned(count: int) -> list[str]:
            found = await shop.messages("RevisionChanged")
            return found if len(found) == count else []

        async def removed() -> list[str]:
            return await has_warned(1)

        (message,) = await shop.until(removed, "a Warning tells of the replace")
        assert "was removed from its pod template (" in message
        forged = {"spec": {"template": {"metadata": {"annotations": {_REVISION: "AAAA.forged"}}}}}
        await mall.kubectl("patch", "deployment/web", f"--patch={json.dumps(forged)}")
        await shop.wait_for_rollout_end()

        async def overwritten() -> list[str]:
            return await has_warned(2)

        messages = await shop.until(overwritten, "a Warning tells of the patch")
        assert any("was overwritten by kubectl-patch" in item for item in messages), messages
        await shop.wait_until_handled()
        assert len(shop.rollouts.of("web")) == 2
        await shop.edit(LEVEL="v3")
        await shop.wait_for_rollouts(times=3)
        await shop.wait_until_current()
        await shop.check_invariants({"web": 3})
