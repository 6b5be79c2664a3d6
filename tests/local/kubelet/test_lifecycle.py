"""Containers that end: restarts and back-off, deletion with grace, and what is left behind."""

from __future__ import annotations

import asyncio

from tests.local.kubelet.conftest import LocalNode, eventually

from hotmap.local.kubelet_api import LogOptions


async def test_crashed_container_restarts_with_back_off(node: LocalNode) -> None:
    """The first restart follows immediately, the second waits 10 s and says so."""
    await node.run_pod("crash", "echo run; exit 3")
    waiting = await node.waiting("crash", "CrashLoopBackOff")
    assert waiting["message"].startswith("back-off 10s restarting failed container=c pod=crash_")
    status = node.pods.objects["default", "crash"]["status"]
    container = status["containerStatuses"][0]
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["exitCode"] == 3
    assert container["lastState"]["terminated"]["reason"] == "Error"
    assert status["phase"] == "Running"
    assert await node.logs("crash", previous=True) == "run\n"


async def test_end_of_container_is_shown_before_it_is_started_again(node: LocalNode) -> None:
    """Whoever watches the pod sees each run end, also where the next one begins at once."""
    shown: list[str] = []
    async with asyncio.timeout(60):
        with node.registry.watch("pods", "default") as changes:
            await node.run_pod("crash", "exit 3")
            async for _, pod in changes:
                for container in pod.get("status", {}).get("containerStatuses") or ():
                    (state,) = container["state"]
                    shown += [state] if shown[-1:] != [state] else []
                if shown[-1:] == ["waiting"] and len(shown) > 1:
                    break
    assert shown == ["running", "terminated", "running", "terminated", "waiting"]


async def test_missing_command_is_reported(node: LocalNode) -> None:
    """A program that the host lacks is named in the waiting state."""
    await node.run_pod("none", "", command=["no-such-program"])
    waiting = await node.waiting("none", "RunContainerError")
    assert 'exec: "no-such-program": executable file not found in $PATH' in waiting["message"]


async def test_container_without_command_is_reported_with_remedy(node: LocalNode) -> None:
    """Nothing is pulled: the waiting message asks for a command, or an entry for the image."""
    await node.run_pod("image", "", image="team/app:1.25", command=[])
    waiting = await node.waiting("image", "ErrImageNeverPull")
    assert waiting["message"] == (
        'Container image "team/app:1.25" is not present with pull policy of Never: this node has '
        'no images, only the programs of its host; give the container a "command", or start with '
        "hotmap local up --image team/app:1.25=host:PROGRAM"
    )
    await node.event("Failed", "Error: ErrImageNeverPull")


async def test_on_failure_policy_restarts_until_success(node: LocalNode) -> None:
    """A container that fails once and then succeeds ends its pod as Succeeded."""
    await node.run_pod(
        "once",
        "test -e /data/again && exit 0; touch /data/again; exit 1",
        pod={"restartPolicy": "OnFailure", "volumes": [{"name": "v", "emptyDir": {}}]},
        volumeMounts=[{"name": "v", "mountPath": "/data"}],
    )
    pod = await node.phase("once", "Succeeded")
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1


async def test_pod_past_its_active_deadline_is_ended(node: LocalNode) -> None:
    """It has failed, whatever its containers exit with, and its policy restarts none of them."""
    await node.run_pod(
        "short",
        "trap 'exit 0' TERM; while :; do sleep 0.05; done",
        pod={"activeDeadlineSeconds": 1},
    )
    pod = await node.phase("short", "Failed")
    message = "Pod was active on the node longer than the specified deadline"
    assert (pod["status"]["reason"], pod["status"]["message"]) == ("DeadlineExceeded", message)
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    await node.event("DeadlineExceeded", message)
    await node.annotate("short", some="change")
    await asyncio.sleep(0.2)
    assert node.pods.objects["default", "short"]["status"]["phase"] == "Failed"


async def test_never_policy_does_not_restart(node: LocalNode) -> None:
    """With the policy Never a failure is final."""
    await node.run_pod("never", "exit 4", pod={"restartPolicy": "Never"})
    pod = await node.phase("never", "Failed")
    state = pod["status"]["containerStatuses"][0]["state"]
    assert state["terminated"]["exitCode"] == 4


async def test_deletion_waits_for_grace_period(node: LocalNode) -> None:
    """TERM reaches the command, which may end in its own way; the object goes last."""
    script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done"
    await node.run_pod("polite", script, pod={"terminationGracePeriodSeconds": 600})
    await node.phase("polite", "Running")
    log = await node.pod_requests.logs("default", "polite", "c", LogOptions(follow=True))
    assert await anext(log) == b"up\n"
    await node.registry.delete("pods", "default", "polite")
    assert b"".join([chunk async for chunk in log]) == b"bye\n"
    await node.gone("polite")
    await node.event("Killing", "Stopping container c")


async def test_deleted_pod_leaves_no_files(node: LocalNode) -> None:
    """Volumes and logs go with the pod, while others keep theirs."""
    for name in ("goes", "stays"):
        await node.run_pod(name, "echo up; exec sleep 600")
        await node.phase(name, "Running")
    await node.registry.delete("pods", "default", "goes", grace_period=0)
    logs = node.directory / "logs"
    await eventually(lambda: len(list(logs.iterdir())) == 1)
    assert next(logs.iterdir()).name.startswith("default_stays_")


async def test_process_ignoring_term_is_killed_after_grace_period(node: LocalNode) -> None:
    """Process 1 without a handler never gets TERM, as in every container; KILL follows."""
    await node.run_pod("stubborn", "exec sleep 600")
    await node.phase("stubborn", "Running")
    await node.registry.delete("pods", "default", "stubborn")
    with node.registry.watch("pods", "default") as changes:
        async for change in changes:
            state = change.object["status"]["containerStatuses"][0]["state"]
            if "terminated" in state:
                break
    assert state["terminated"]["exitCode"] == 137
    await node.gone("stubborn")


async def test_second_deletion_shortens_grace_period(node: LocalNode) -> None:
    """A deletion without grace ends the wait of the first one."""
    await node.run_pod("slow", "exec sleep 600", pod={"terminationGracePeriodSeconds": 600})
    await node.phase("slow", "Running")
    directory = node.directory / "pods"
    await node.registry.delete("pods", "default", "slow")
    await node.until("slow", lambda pod: pod["metadata"].get("deletionTimestamp"))
    await node.registry.delete("pods", "default", "slow", grace_period=0)
    await eventually(lambda: not directory.exists() or not any(directory.iterdir()))


async def test_recreated_pod_is_a_new_pod(node: LocalNode) -> None:
    """Deleted and made again, the new pod has new containers and its own volumes."""
    for value in ("first", "second"):
        await node.run_pod("same", f"echo {value}; exec sleep 600")
        await node.phase("same", "Running")
        async with asyncio.timeout(60):
            log = await node.pod_requests.logs("default", "same", "c", LogOptions(follow=True))
            assert await anext(log) == f"{value}\n".encode()
        await node.registry.delete("pods", "default", "same", grace_period=0)
        await node.gone("same")


async def test_node_is_registered_and_ready(node: LocalNode) -> None:
    """The machine is a Node that says Ready and what it can hold."""
    registered = await node.registry.get("nodes", None, "local")
    conditions = {c["type"]: c["status"] for c in registered["status"]["conditions"]}
    assert conditions["Ready"] == "True"
    assert int(registered["status"]["allocatable"]["cpu"]) >= 1
    assert registered["status"]["nodeInfo"]["operatingSystem"] == "linux"


async def test_pod_lifecycle_events(node: LocalNode) -> None:
    """Pulled, Created and Started are there for each container."""
    await node.output("scenario", "true")
    present = 'Container image "shell" already present on machine and can be accessed by the pod'
    await node.event("Pulled", present)
    await node.event("Created", "Container created")
    await node.event("Started", "Container started")
    found = (await node.registry.list("events", "default")).items
    assert {event["source"]["host"] for event in found} == {"local"}
    assert {event["involvedObject"]["fieldPath"] for event in found} == {"spec.containers{c}"}


async def test_events_of_init_containers_name_them(node: LocalNode) -> None:
    """Those of two containers of one pod are not counted as one."""
    init = {"name": "i", "image": "shell", "command": ["true"]}
    await node.output("scenario", "true", pod={"initContainers": [init]})
    await node.event("Started", "Container started")
    found = (await node.registry.list("events", "default")).items
    started = [event["involvedObject"] for event in found if event["reason"] == "Started"]
    assert "spec.initContainers{i}" in {about["fieldPath"] for about in started}


async def test_stop_leaves_nothing(node: LocalNode) -> None:
    """After a stop the kubelet's directories are gone but for the logs, whatever ran."""
    await node.run_pod("left", "exec sleep 600")
    await node.phase("left", "Running")
    await node.stop()
    assert [path.name for path in node.directory.iterdir()] == ["logs"]
