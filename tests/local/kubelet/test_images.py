"""What images stand for: the machine's programs, directories, and the test program agnhost."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.local.kubelet.conftest import LocalNode

from hotmap.core.errors import SettingsError
from hotmap.local.kubelet.images import BUILT_IN, HOTMAP, Image, Images, parse_image, read_images

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def test_image_is_found_by_reference_name_or_last_part() -> None:
    """The most exact entry counts."""
    exact, plain, last = Image(("a",)), Image(("b",)), Image(("c",))
    images = Images({"r.example:5000/t/app:1": exact, "r.example:5000/t/app": plain, "app": last})
    assert images.find("r.example:5000/t/app:1") is exact
    assert images.find("r.example:5000/t/app:2") is plain
    assert images.find("r.example:5000/t/app@sha256:00") is plain
    assert images.find("other/app") is images.find("app:3") is last
    assert images.find("docker.io/library/busybox:1.37") is BUILT_IN["busybox"]
    assert images.find("registry.k8s.io/e2e-test-images/agnhost:2.53") is BUILT_IN["agnhost"]
    assert images.find("x/hotmap-nginx:1") is HOTMAP
    assert images.find("team/nothotmap") is None
    assert images.find("") is None


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({}, ["run", "-x"]),
        ({"args": ["-y"]}, ["run", "-y"]),
        ({"command": ["own"]}, ["own"]),
        ({"command": ["own"], "args": ["-y"]}, ["own", "-y"]),
    ],
)
def test_command_replaces_entrypoint_and_arguments(
    container: dict[str, Any], words: list[str]
) -> None:
    merged = Image(("run",), ("-x",)).command_of(container)
    assert [*merged["command"], *merged["args"]] == words


def test_image_is_read_from_text(tmp_path: Path) -> None:
    assert parse_image("nginx:1.27=host:nginx -g 'daemon off;'") == (
        "nginx:1.27",
        Image(("nginx", "-g", "daemon off;")),
    )
    assert parse_image("tools=host") == ("tools", Image())
    assert parse_image(f"app={tmp_path}") == ("app", Image((), ("sh",), root=str(tmp_path)))
    assert parse_image(f"app={tmp_path}:/bin/app -v")[1] == Image(
        ("/bin/app", "-v"), root=str(tmp_path)
    )


@pytest.mark.parametrize(
    "text", ["", "app", "=host", "app=", "app=/does/not/exist", "a=host:'", "a=host:", "a=/:"]
)
def test_malformed_image_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^invalid image "):
        parse_image(text)


def test_images_file_has_one_image_per_line(tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_text("# of the tests\n\n  a=host:true\nb=host\n")
    assert read_images(path) == ["a=host:true", "b=host"]
    with pytest.raises(SettingsError, match="images file"):
        read_images(tmp_path / "none")
    with pytest.raises(SettingsError, match="images file /dev/zero: it has more than 16 MiB"):
        read_images(Path("/dev/zero"))
    path.write_text("a=host:true\n\nb\n")
    with pytest.raises(SettingsError, match=r'images, line 3: invalid image "b": expected'):
        read_images(path)


def make_root(root: Path) -> None:
    """Fill a directory with a shell, a few programs and the libraries that they need."""
    for program in ("sh", "cat", "ls"):
        path = shutil.which(program)
        assert path is not None
        listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
        libraries = [word for word in listed.split() if word.startswith("/")]
        for source in (Path(path), *map(Path, libraries)):
            copy = root / source.relative_to("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
    (root / "etc").mkdir()
    (root / "etc" / "greeting").write_text("hello\n")


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[LocalNode]:
    """A node with an image that is a directory."""
    make_root(tmp_path / "image")
    node = LocalNode(tmp_path / "node")
    images = Images(dict([parse_image(f"example/tools={tmp_path / 'image'}")]))
    try:
        await node.start(images=images)
        yield node
    finally:
        await node.stop()


async def test_directory_is_the_root_of_its_containers(machine: LocalNode) -> None:
    """Its files, the machine's names, the volumes; what is written stays in the container."""
    await machine.config_map("conf", {"level": "debug"})
    script = (
        "cat /etc/greeting /conf/level; echo; ls -d /var 2>&1; "
        "echo x > /etc/greeting; cat /etc/greeting"
    )
    volume = {"name": "conf", "configMap": {"name": "conf"}}
    text = await machine.output(
        "tools",
        script + " || true",
        image="example/tools:1",
        pod={"volumes": [volume]},
        volumeMounts=[{"name": "conf", "mountPath": "/conf"}],
    )
    assert text.splitlines()[:2] == ["hello", "debug"]
    assert text.splitlines()[-1] == "x"
    assert "No such file" in text
    assert (machine.directory.parent / "image/etc/greeting").read_text() == "hello\n"
    assert not (machine.directory.parent / "image/conf").exists()


async def test_hosts_file_of_an_image_may_be_a_broken_link(machine: LocalNode) -> None:
    """The pod's file appears where the link leads to."""
    (machine.directory.parent / "image/etc/hosts").symlink_to("/run/hosts")
    text = await machine.output("web", "cat /etc/hosts /run/hosts", image="example/tools:1")
    assert text.count("\tweb\n") == 2


async def run_image(node: LocalNode, name: str, image: str, **container: Any) -> str:
    pod = {"restartPolicy": "Never", **container.pop("pod", {})}
    await node.run_pod(name, "", image=image, command=[], pod=pod, **container)
    await node.phase(name, "Succeeded")
    return await node.logs(name)


async def test_agnhost_answers_as_upstream(node: LocalNode) -> None:
    """mounttest in both spellings of flags, and entrypoint-tester with the arguments."""
    await node.config_map("conf", {"level": "debug"})
    agnhost = "registry.k8s.io/e2e-test-images/agnhost:2.53"
    mounted = {
        "pod": {"volumes": [{"name": "v", "configMap": {"name": "conf", "defaultMode": 0o400}}]},
        "volumeMounts": [{"name": "v", "mountPath": "/etc/v"}],
    }
    asked = ["--file_content=/etc/v/level", "-file_mode=/etc/v/..data/level"]
    shown = await run_image(node, "mount", agnhost, args=["mounttest", *asked], **mounted)
    assert shown == (
        'mode of file "/etc/v/..data/level": -r--------\ncontent of file "/etc/v/level": debug\n'
    )
    tested = await run_image(node, "args", agnhost, args=["entrypoint-tester", "a", "$(HOME)"])
    assert tested == "[/agnhost entrypoint-tester a $(HOME)]\n"


async def test_pause_and_busybox_run(node: LocalNode) -> None:
    """One waits forever, the other runs what it is given, or a shell that ends with its input."""
    await node.run_pod("pause", "", image="registry.k8s.io/pause:3.10", command=[])
    await node.phase("pause", "Running")
    assert await run_image(node, "shell", "busybox") == ""
    assert await run_image(node, "echo", "busybox:1.37", args=["echo", "hi"]) == "hi\n"


async def message(node: LocalNode, name: str, phase: str = "Succeeded") -> str | None:
    pod = await node.phase(name, phase)
    state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    found: str | None = state.get("message")
    return found


async def test_termination_message_is_what_the_file_holds(node: LocalNode) -> None:
    """At its end, for whatever user and path; the machine's /dev keeps nothing."""
    never = {"restartPolicy": "Never"}
    await node.run_pod("file", "echo DONE > /dev/termination-log", pod=never)
    assert await message(node, "file") == "DONE\n"
    await node.run_pod(
        "path", "printf OK > /tmp/own/words", pod=never, terminationMessagePath="/tmp/own/words"
    )
    assert await message(node, "path") == "OK"
    await node.run_pod(
        "long", "head -c 9000 /dev/zero | tr '\\0' x > /dev/termination-log", pod=never
    )
    assert await message(node, "long") == "x" * 4096
    await node.run_pod("none", "echo out", pod=never)
    assert await message(node, "none") is None
    assert not Path("/dev/termination-log").exists()


async def test_termination_message_falls_back_to_log(node: LocalNode) -> None:
    """Only of a container that failed and wrote none; the last 80 lines or 2 KiB."""
    policy = {
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "pod": {"restartPolicy": "Never"},
    }
    await node.run_pod("fail", "seq 100; exit 3", **policy)
    expected = "".join(f"{i}\n" for i in range(21, 101))
    assert await message(node, "fail", "Failed") == expected
    await node.run_pod("wrote", "echo log; echo file > /dev/termination-log; exit 3", **policy)
    assert await message(node, "wrote", "Failed") == "file\n"
    await node.run_pod("good", "echo log", **policy)
    assert await message(node, "good") is None


async def test_container_has_devices_of_its_own(node: LocalNode) -> None:
    """The usual ones work, and what is created beside them stays in the container."""
    name = f"hotmap-test-{os.getpid()}"
    script = f"head -c 4 /dev/urandom | wc -c; echo x > /dev/null; touch /dev/{name}; echo ok >&2"
    assert await node.output("devices", script) == "4\nok\n"
    assert not Path("/dev", name).exists()


async def test_node_has_a_lease_that_is_renewed(node: LocalNode) -> None:
    """Owned by the Node."""
    assert node.kubelet is not None
    leases = "leases.coordination.k8s.io"
    for _ in range(2):
        await node.kubelet.lease.renew()
    lease = await node.registry.get(leases, "kube-node-lease", "local")
    first = lease["spec"]["renewTime"]
    assert lease["spec"]["holderIdentity"] == "local"
    assert lease["metadata"]["ownerReferences"][0]["kind"] == "Node"
    await node.kubelet.lease.renew()
    lease = await node.registry.get(leases, "kube-node-lease", "local")
    assert lease["spec"]["renewTime"] > first
