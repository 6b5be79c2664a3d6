"""`hotmap status` and `hotmap why`, as a person runs them beside a plane and a controller.

Pods are real processes; the controller and each command are processes of their own.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.stage import Stage, running_stage

from hotmap.kube.client import Client
from hotmap.kube.kubeconfig import load_kubeconfig
from hotmap.kube.resources import CONFIGMAPS

CURRENT, NOT_CURRENT, CANNOT_TELL = 0, 1, 2


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Return a cluster with the ConfigMap `app`, which the tests of this file share."""
    with running_stage(tmp_path_factory.mktemp("status")) as stage:
        asyncio.run(stage.create(CONFIGMAPS, metadata={"name": "app"}, data={"LEVEL": "info"}))
        yield stage


@pytest.fixture
def empty_stage(tmp_path: Path) -> Iterator[Stage]:
    """Return a cluster of one test's own."""
    with running_stage(tmp_path) as stage:
        yield stage


async def test_status_follows_an_edit(empty_stage: Stage) -> None:
    """From nothing that is followed to an edit that has reached every pod, and why."""
    nothing = empty_stage.hotmap("status")
    assert nothing.status == CURRENT
    assert nothing.out == ""
    assert nothing.err == (
        "hotmap follows no workload in the context's namespace; 'hotmap status --all-namespaces' "
        "shows those of others; opt one in with hotmap.dev/follow: auto; 'hotmap why KIND/NAME' "
        "shows why one is not followed\n"
    )
    nothing = empty_stage.hotmap("status", "--all-namespaces")
    assert nothing.err.startswith("hotmap follows no workload; opt one in with hotmap.dev/follow")

    await empty_stage.create(CONFIGMAPS, metadata={"name": "app"}, data={"LEVEL": "info"})
    await empty_stage.deployment("web", **{"hotmap.dev/follow": "auto"})
    await empty_stage.deployment("other")
    before = empty_stage.hotmap("status", "web", "--wait=60s")
    assert (before.status, before.err) == (CURRENT, "")

    await empty_stage.edit(LEVEL="debug")
    after = empty_stage.hotmap("status", "deploy/web", "--wait=60s")
    assert after.status == CURRENT, after
    assert after.out.startswith("deployment/web in default: current\n")
    assert re.search(r"^configmap/app +at start +\d+s ago", after.out, re.M)
    # Pods that start within the second of the edit are known by their template only.
    evidence = r"(?:proven|probable) +started|inferred +its template was written"
    pods = re.findall(rf"^web-\S+ +yes +- +(?:{evidence})", after.out, re.M)
    assert len(pods) == 2, after.out
    assert max(map(len, after.out.splitlines())) <= 80

    why = empty_stage.hotmap("why", "default/web")
    assert why.status == CURRENT
    assert re.search(
        r"^\d\d:\d\d:\d\d  rollout  ConfigMap default/app LEVEL changed", why.out, re.M
    )
    assert max(map(len, why.out.splitlines())) <= 80


async def test_status_of_unfollowed_workload_is_unknown(stage: Stage) -> None:
    """The reason is said; a script cannot take it for an answer."""
    await stage.deployment("free")
    done = stage.hotmap("status", "free")
    assert (done.status, done.out) == (CANNOT_TELL, "")
    reason = "no annotation opts it in, such as hotmap.dev/follow: auto"
    assert done.err == f"hotmap: Deployment default/free is not followed: {reason}\n"
    why = stage.hotmap("why", "free")
    assert (why.status, why.err) == (CURRENT, "")
    assert reason in why.out
    # It may have been followed until now.
    assert why.out.endswith("\ndecisions are kept only while a workload is followed\n")


async def test_status_of_held_workload_is_not_current(stage: Stage) -> None:
    """Exit status 1, in words, as JSON, and quietly; waiting ends when its time is over."""
    await stage.deployment("held", **{"hotmap.dev/follow": "auto"})
    stage.hotmap("status", "held", "--wait=60s")
    async with Client(load_kubeconfig(str(stage.plane.kubeconfig))) as client:
        level = {"data": {"LEVEL": None, "OTHER": "1"}}
        await client.patch(CONFIGMAPS, "default", "app", level, type=dict)

    done = stage.hotmap("status", "held", "--output=json", "--wait=2s")
    assert done.status == NOT_CURRENT
    document = json.loads(done.out)
    assert document["counts"]["held"] == 1
    (consumer,) = document["workloads"]
    assert consumer["state"] == "held"
    assert "lacks LEVEL" in consumer["reason"]
    # The pod may have started in the second of the edit; times are whole seconds.
    assert "proven" not in {pod["loaded"]["confidence"] for pod in consumer["pods"]}

    assert re.search(r"^\d\S+ +held +ConfigMap default/app", stage.hotmap("why", "held").out, re.M)
    quiet = stage.hotmap("status", "held", "--quiet")
    assert quiet == (NOT_CURRENT, "", "")
    everything = stage.hotmap("status", "--all-namespaces")
    assert everything.status == NOT_CURRENT
    assert re.search(r"^default +deployment/held +held +ConfigMap", everything.out, re.M)
    assert max(map(len, everything.out.splitlines())) <= 80
    await stage.edit(LEVEL="debug")


def test_status_of_unknown_workload_is_an_error(stage: Stage) -> None:
    """One sentence with what was meant, and how to see what there is."""
    done = stage.hotmap("status", "sts/nosuch", "--namespace=shop")
    assert (done.status, done.out) == (CANNOT_TELL, "")
    assert done.err == (
        'hotmap: "sts/nosuch": the controller knows no StatefulSet shop/nosuch; '
        "see 'hotmap status --all-namespaces'\n"
    )


@pytest.mark.parametrize("text", ["pod/web-1", "rs/web", "replicaset.apps/web"])
def test_status_of_an_unwatched_pod_names_the_label_that_it_needs(stage: Stage, text: str) -> None:
    done = stage.hotmap("why", text)
    assert done.status == CANNOT_TELL
    assert 'without a workload needs the label hotmap.dev/watch: "true"; ' in done.err


async def test_workload_of_a_pod_is_suggested(stage: Stage) -> None:
    """Who copies a name from `kubectl get pods` has its workload's in it."""
    await stage.deployment("owner", **{"hotmap.dev/follow": "auto"})
    await stage.deployment("owner-2", **{"hotmap.dev/follow": "auto"})
    for text, meant in (
        ("pod/owner-7d4b9c8f6d-x2k4j", "deployment/owner"),
        ("owner-2-7d4b9c8f6d-x2k4j", "deployment/owner-2"),
        ("rs/default/owner-7d4b9c8f6d", "deployment/default/owner"),
    ):
        done = stage.hotmap("status", text)
        assert (done.status, done.out) == (CANNOT_TELL, "")
        assert f"; did you mean '{meant}'; see " in done.err
    done = stage.hotmap("status", "sts/owner-7d4b9c8f6d")
    assert "did you mean" not in done.err


async def test_mistyped_workload_is_suggested(stage: Stage) -> None:
    """By its name, or by its kind; `why` does the same."""
    await stage.deployment("storefront", **{"hotmap.dev/follow": "auto"})
    for call in (("status", "storefrnt"), ("why", "deploy/storefrnt"), ("why", "deploment/shop")):
        meant = "deployment/shop" if "shop" in call[1] else "deployment/storefront"
        done = stage.hotmap(*call)
        assert (done.status, done.out) == (CANNOT_TELL, "")
        assert f"; did you mean '{meant}'; see 'hotmap status --all-namespaces'\n" in done.err
    done = stage.hotmap("why", "default/storefrnt")
    assert "; did you mean 'deployment/default/storefront'; " in done.err
    done = stage.hotmap("why", "shop", "--namespace", "prod")
    assert "did you mean 'pod/" not in done.err
    done = stage.hotmap("status", "deploy", "storefront")
    assert "; write the name after the kind, as in 'deploy/NAME'; see " in done.err
    done = stage.hotmap("status", "caf\udcff")
    assert done.err == (
        'hotmap: invalid workload name "caf\\udcff": expected [KIND/]NAME or '
        "[KIND/]NAMESPACE/NAME\n"
    )


async def test_status_of_a_source_shows_the_workloads_that_use_it(stage: Stage) -> None:
    """One line each, for every way to write it; scripts wait for all of them."""
    await stage.create(CONFIGMAPS, metadata={"name": "unused"}, data={"LEVEL": "info"})
    await stage.deployment("of-source", **{"hotmap.dev/follow": "auto"})
    for name in ("configmap/app", "cm/app", "ConfigMap/default/app"):
        done = stage.hotmap("status", name, "--wait=60s")
        assert (done.status, done.err) == (CURRENT, ""), done
        assert re.search(r"^deployment/of-source +current", done.out, re.M)
    document = json.loads(stage.hotmap("status", "cm/app", "deploy/of-source", "-ojson").out)
    names = [workload["name"] for workload in document["workloads"]]
    assert names.count("of-source") == 1

    for name, key, see in (
        ("cm/unused", "ConfigMap default/unused", "preview configmap/default/unused"),
        ("secret/x", "Secret default/x", "preview secret/default/x"),
        (
            "secretproviderclass/x",
            "SecretProviderClass default/x",
            "status --all-namespaces",
        ),
    ):
        done = stage.hotmap("status", name)
        assert (done.status, done.out) == (CANNOT_TELL, "")
        assert done.err == (
            f"hotmap: \"{name}\": hotmap follows no workload that uses {key}; see 'hotmap {see}'\n"
        )


def test_why_of_a_source_says_that_a_workload_is_expected(stage: Stage) -> None:
    done = stage.hotmap("why", "cm/app")
    assert (done.status, done.out) == (CANNOT_TELL, "")
    assert done.err == (
        "hotmap: \"cm/app\" is a ConfigMap: expected a workload; 'hotmap status cm/app' shows the "
        "workloads that use it\n"
    )


def test_status_of_a_namespace_that_does_not_exist_says_so(stage: Stage) -> None:
    """As of `kubectl get`, unless a script asks for the exit status."""
    nothing = (
        'hotmap follows no workload in namespace "typo", or there is no such namespace; opt one in '
        "with hotmap.dev/follow: auto; 'hotmap why KIND/NAME' shows why one is not followed\n"
    )
    assert stage.hotmap("status", "-n", "typo") == (CURRENT, "", nothing)
    assert stage.hotmap("status", "-n", "typo", "-oname") == (CURRENT, "", nothing)
    document = stage.hotmap("status", "-n", "typo", "-ojson")
    assert (document.status, json.loads(document.out)["workloads"]) == (CURRENT, [])
    assert stage.hotmap("status", "-n", "typo", "--quiet") == (CANNOT_TELL, "", "")
    waited = stage.hotmap("status", "-n", "typo", "--wait=0.1s")
    assert waited == (CANNOT_TELL, "", f"hotmap: nothing to wait for: {nothing}")


def test_status_without_controller_is_an_error(stage: Stage) -> None:
    """Neither in the cluster nor on this machine: what was looked for, and what to do."""
    done = stage.hotmap("status", named=False)
    assert (done.status, done.out) == (CANNOT_TELL, "")
    assert re.match(r"hotmap: no controller found for https://127\.0\.0\.1:\d+: ", done.err)
    assert "start one with 'hotmap controller', or set --url to its address" in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["status", "--url=http://127.0.0.1:1"], "no controller answers at http://127.0.0.1:1: "),
        (
            ["status", "--url=nonsense"],
            '--url: invalid URL "nonsense": expected an http or https URL',
        ),
        (
            ["status", "--url=http://ann:hunter2@127.0.0.1:1"],
            "hotmap: --url: a user or password in the URL is not supported\n",
        ),
        (
            ["dashboard", "--url=http://ann:hunter2@127.0.0.1:1"],
            "hotmap: --url: a user or password in the URL is not supported\n",
        ),
        (
            ["status", "--url=http://127.0.0.1:1", "--controller-namespace=ops"],
            "hotmap: --controller-namespace cannot be used with --url\n",
        ),
        # Another namespace than that of the context that was meant would be shown.
        (
            ["status", "--url=http://127.0.0.1:1", "--kubeconfig=/nope"],
            "hotmap: kubeconfig /nope cannot be read: no such file or directory\n",
        ),
        (["dashboard", "--url=http://127.0.0.1:1", "--context=nope"], "'nope'"),
        (["status", "--selector=a=b=c"], '--selector: invalid selector "a=b=c": '),
        (
            ["status", "a/b/c/d"],
            'invalid workload name "a/b/c/d": expected [KIND/]NAME or [KIND/]NAMESPACE/NAME',
        ),
        (
            ["status", "gizmo/shop/web"],
            'unknown kind "gizmo" in "gizmo/shop/web": expected one of deployment, ',
        ),
        (["status", "--wait=soon", "web"], "--wait: "),
        (["status", "--all-namespaces", "web"], "--all-namespaces cannot be used with NAME"),
        (["why"], "Missing argument"),
        (["why", "web/"], 'invalid workload name "web/": expected [KIND/]NAME'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_invalid_call_is_an_error(stage: Stage, arguments: list[str], words: str) -> None:
    """One sentence on standard error, and exit status 2."""
    done = stage.hotmap(*arguments, named=not any("--url" in argument for argument in arguments))
    assert (done.status, done.out) == (CANNOT_TELL, "")
    assert words in done.err
    assert done.err.count("\n") == 1


async def test_namespace_that_is_not_watched_has_no_status(tmp_path: Path) -> None:
    """A script must not conclude that everything there is current."""
    with running_stage(tmp_path, "--watch-namespace=team-a") as stage:
        result = stage.hotmap("status", "--namespace", "team-b")
    assert (result.status, result.out) == (2, "")
    assert 'does not watch namespace "team-b"' in result.err
