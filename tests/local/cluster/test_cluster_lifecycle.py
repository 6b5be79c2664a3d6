"""A local cluster starts whole, ends without a trace, and clears up after one that was killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.local.cluster.clients import KubeconfigClient
from tests.support.requires import requires

from hotmap.core.errors import SettingsError
from hotmap.local.apiserver import kubernetes_service
from hotmap.local.cluster import LocalCluster, PlaneSettings

# Runs a cluster without a node until it is told to end, or killed.
PLANE = """
import asyncio, pathlib, sys
from hotmap.local.cluster import LocalCluster, PlaneSettings
async def main():
    async with LocalCluster(pathlib.Path(sys.argv[1]), start_node=False):
        print("ready", flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


def command_lines() -> str:
    """Read what every process of this machine runs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_text())
    return "\n".join(found)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "plane"


async def test_kubeconfig_is_sufficient(directory: Path) -> None:
    """Server, authority and token are in it, and only its owner may read it."""
    async with LocalCluster(directory, start_node=False) as cluster:
        assert stat.S_IMODE(cluster.kubeconfig.stat().st_mode) == 0o600
        namespaces = await KubeconfigClient(cluster.kubeconfig).get("/api/v1/namespaces")
        names = [item["metadata"]["name"] for item in namespaces["items"]]
        assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]


async def test_parts_of_the_plane_are_healthy(directory: Path) -> None:
    """As component statuses, which older tools ask for."""
    async with LocalCluster(directory, start_node=False) as cluster:
        client = KubeconfigClient(cluster.kubeconfig)
        found = (await client.get("/api/v1/componentstatuses"))["items"]
        names = [item["metadata"]["name"] for item in found]
        assert names == ["controller-manager", "etcd-0", "scheduler"]
        assert {item["conditions"][0]["status"] for item in found} == {"True"}


async def test_stop_leaves_nothing(directory: Path) -> None:
    """Not even the directory; the port is free again."""
    cluster = LocalCluster(directory, start_node=False)
    await cluster.start()
    port = int(cluster.server.rpartition(":")[2])
    await cluster.stop()
    assert not directory.exists()
    with socket.create_server(("127.0.0.1", port)):
        pass


async def test_foreign_files_are_kept(directory: Path) -> None:
    """A directory that was there stays, with whatever else was in it."""
    directory.mkdir()
    mine = directory / "notes.txt"
    mine.write_text("mine")
    async with LocalCluster(directory, start_node=False):
        pass
    assert list(directory.iterdir()) == [mine]


async def test_directory_in_use_is_refused(directory: Path) -> None:
    """One sentence names the directory and the process; the running cluster is not harmed."""
    async with LocalCluster(directory, start_node=False) as running:
        with pytest.raises(SettingsError, match=rf"already running in {directory} .*{os.getpid()}"):
            await LocalCluster(directory, start_node=False).start()
        await KubeconfigClient(running.kubeconfig).get("/api/v1/namespaces")


async def test_files_of_killed_run_are_removed(directory: Path) -> None:
    """What it left is removed, in the end even the directory; the certificates are new."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PLANE, str(directory), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    left = directory / "pods" / "some-uid" / "volumes"
    left.mkdir(parents=True)
    old = (directory / "pki" / "ca.crt").read_text()
    process.send_signal(signal.SIGKILL)
    await process.wait()
    assert (directory / "kubeconfig").exists()
    async with LocalCluster(directory, start_node=False) as cluster:
        assert not left.exists()
        assert cluster.ca_certificate.read_text() != old
        await KubeconfigClient(cluster.kubeconfig).get("/api/v1/namespaces")
    assert not directory.exists()


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"pid": "x", "started": 1, "made": true}'])
async def test_unreadable_run_file_is_ignored(directory: Path, content: str) -> None:
    """A damaged run.json does not lock anybody out."""
    directory.mkdir()
    (directory / "run.json").write_text(content)
    async with LocalCluster(directory, start_node=False):
        owner = json.loads((directory / "run.json").read_text())
        assert owner["pid"] == os.getpid()


async def test_reused_pid_is_not_the_owner(directory: Path) -> None:
    """The process that started at another time is another process."""
    directory.mkdir()
    owner = {"pid": os.getpid(), "started": 1, "made": False}
    (directory / "run.json").write_text(json.dumps(owner))
    async with LocalCluster(directory, start_node=False):
        pass


async def test_unusable_directory_is_reported(tmp_path: Path) -> None:
    """The person learns which directory and why."""
    file = tmp_path / "file"
    file.write_text("")
    for path in (file, file / "below"):
        with pytest.raises(SettingsError, match=f"the state directory {path} cannot be used: "):
            await LocalCluster(path, start_node=False).start()


async def test_taken_port_leaves_nothing(directory: Path) -> None:
    """A start that fails clears up after itself."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"port {port} on 127.0.0.1 is in use"):
            await LocalCluster(directory, port=port, start_node=False).start()
    assert not directory.exists()


async def test_failure_of_a_part_is_raised(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting for the cluster ends when it no longer works."""

    async def breaks(self: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("hotmap.local.cluster.Controllers.run", breaks)
    async with LocalCluster(directory, start_node=False) as cluster:
        with pytest.raises(ZeroDivisionError):
            await cluster.wait_for_failure()


async def test_pod_runs_as_a_process_and_leaves_none(directory: Path) -> None:
    """The whole of it: scheduler, kubelet, a process, and no process afterwards."""
    cluster = LocalCluster(directory)
    try:
        await cluster.start()
    except SettingsError as error:
        requires("namespaces", available=False, reason=str(error))
    try:
        command = ["sleep", f"98765.{os.getpid()}"]
        spec = {"containers": [{"name": "main", "image": "host", "command": command}]}
        with cluster.registry.watch("pods", "default") as watch:
            await cluster.registry.create(
                "pods", "default", {"metadata": {"name": "p"}, "spec": spec}, manager="t"
            )
            async with asyncio.timeout(60):
                async for event in watch:
                    if event.object.get("status", {}).get("phase") == "Running":
                        break
        assert command[1] in command_lines()
        nodes = await KubeconfigClient(cluster.kubeconfig).get("/api/v1/nodes")
        assert [node["metadata"]["name"] for node in nodes["items"]] == ["local"]
    finally:
        await cluster.stop()
    assert not directory.exists()
    assert command[1] not in command_lines()


async def test_kept_state_outlives_restart(directory: Path) -> None:
    """Objects, the authority and the token: a kubeconfig of before serves again."""
    keep = PlaneSettings(keep=True)
    async with LocalCluster(directory, start_node=False, settings=keep) as cluster:
        configmap = {"metadata": {"name": "a"}, "data": {"k": "v"}}
        created = await cluster.registry.create("configmaps", "default", configmap, manager="t")
        port = int(cluster.server.rpartition(":")[2])
        kubeconfig = cluster.kubeconfig.read_text()
    async with LocalCluster(directory, port=port, start_node=False, settings=keep) as cluster:
        assert await cluster.registry.get("configmaps", "default", "a") == created
        assert cluster.kubeconfig.read_text() == kubeconfig


async def test_kept_state_of_other_format_is_refused(directory: Path) -> None:
    keep = PlaneSettings(keep=True)
    async with LocalCluster(directory, start_node=False, settings=keep):
        pass
    log = next((directory / "store").glob("log-*"))
    log.write_bytes(b"hotmap store, format 9\n")
    with pytest.raises(SettingsError, match="has format 9"):
        await LocalCluster(directory, start_node=False, settings=keep).start()


async def test_full_disk_is_a_status_and_server_stays(directory: Path) -> None:
    """Over HTTP: the write is refused, reads go on, and writes too once there is room."""
    keep = PlaneSettings(keep=True)
    async with LocalCluster(directory, start_node=False, settings=keep) as cluster:
        client = KubeconfigClient(cluster.kubeconfig)
        await client.get("/api/v1/namespaces")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        path = "/api/v1/namespaces/default/configmaps"
        large = {"metadata": {"name": "large"}, "data": {"k": "x" * 900_000}}
        resource.setrlimit(resource.RLIMIT_FSIZE, (800_000, before[1]))
        try:
            refused = await client.post(path, large)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert refused["reason"] == "InternalError"
        assert "the store cannot keep the write: File too large" in refused["message"]
        assert len((await client.get("/api/v1/namespaces"))["items"]) == 4
        assert (await client.post(path, large))["metadata"]["name"] == "large"


async def test_two_planes_have_addresses_of_their_own(tmp_path: Path) -> None:
    """And each answers at the address of its Service `kubernetes`, by a certificate for it."""
    async with (
        LocalCluster(tmp_path / "one", start_node=False) as first,
        LocalCluster(tmp_path / "other", start_node=False) as other,
    ):
        seen = set()
        for cluster in (first, other):
            service = await cluster.registry.get("services", "default", "kubernetes")
            address, port = service["spec"]["clusterIP"], service["spec"]["ports"][0]["port"]
            seen.add(address)
            client = KubeconfigClient(cluster.kubeconfig, server=f"https://{address}:{port}")
            assert (await client.get("/version"))["major"] == "1"
            pod = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
            made = await cluster.registry.create("services", "default", pod, manager="t")
            assert made["spec"]["clusterIP"].split(".")[:2] == address.split(".")[:2]
        assert len(seen) == 2


@pytest.mark.parametrize("plural", ["services", "endpoints", "endpointslices"])
async def test_deleted_service_kubernetes_comes_back(
    directory: Path, monkeypatch: pytest.MonkeyPatch, plural: str
) -> None:
    """`kubectl delete all --all` deletes it too; pods find the API server by it."""
    monkeypatch.setattr(kubernetes_service, "_INTERVAL", 0.05)
    async with LocalCluster(directory, start_node=False) as cluster, asyncio.timeout(10):
        before = await cluster.registry.get(plural, "default", "kubernetes")
        version = before["metadata"]["resourceVersion"]
        with cluster.registry.watch(plural, "default", since=version) as watch:
            await cluster.registry.delete(plural, "default", "kubernetes")
            deleted, added = await anext(watch), await anext(watch)
        assert (deleted.type, added.type) == ("DELETED", "ADDED")
        after = await cluster.registry.get(plural, "default", "kubernetes")
        for field in ("spec", "subsets", "endpoints", "ports"):
            assert after.get(field) == before.get(field)


@pytest.mark.internal_errors
async def test_failure_to_recreate_the_service_kubernetes_ends_nothing(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task of the plane that fails would end all of it."""
    monkeypatch.setattr(kubernetes_service, "_INTERVAL", 0.05)
    async with LocalCluster(directory, start_node=False) as cluster, asyncio.timeout(10):
        create, failures = cluster.registry.create, iter((ValueError("broken"), None))

        async def create_later(*arguments: Any, **options: Any) -> Any:
            if (failure := next(failures, None)) is not None:
                raise failure
            return await create(*arguments, **options)

        monkeypatch.setattr(cluster.registry, "create", create_later)
        before = await cluster.registry.get("services", "default", "kubernetes")
        version = before["metadata"]["resourceVersion"]
        with cluster.registry.watch("services", "default", since=version) as watch:
            await cluster.registry.delete("services", "default", "kubernetes")
            deleted, added = await anext(watch), await anext(watch)
        assert (deleted.type, added.type) == ("DELETED", "ADDED")


async def test_service_forwards_to_its_endpoints(directory: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"got " + await reader.readline())
        writer.close()

    backend = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = backend.sockets[0].getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as free:
        service_port = free.getsockname()[1]
    async with backend, LocalCluster(directory, start_node=False) as cluster:
        create = cluster.registry.create
        spec = {"ports": [{"port": service_port}]}
        service = {"metadata": {"name": "web"}, "spec": spec}
        made = await create("services", "default", service, manager="t")
        part = {
            "metadata": {"name": "web", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["127.0.0.1"]}],
            "ports": [{"name": "", "port": port}],
        }
        await create("endpointslices", "default", part, manager="t")
        async with asyncio.timeout(60):
            while True:
                try:
                    reader, writer = await asyncio.open_connection(
                        made["spec"]["clusterIP"], service_port
                    )
                    writer.write(b"this\n")
                    if await reader.read() == b"got this\n":
                        break
                except OSError:
                    await asyncio.sleep(0.05)
        writer.close()
